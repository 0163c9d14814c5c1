#include "kir/parse.h"

#include <charconv>
#include <limits>
#include <optional>
#include <unordered_map>

#include "kir/number.h"
#include "kir/verify.h"

namespace rlx::kir {
namespace {

constexpr std::size_t kMaxNames = 100000;  // buffers, parameters or variables

bool isNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Kernel> run() {
    kernel();
    if (error_) return std::move(*error_);
    RLX_OK(verify(k_));
    return std::move(k_);
  }

 private:
  // The first error sticks; after it every function returns at once.
  void fail(const std::string& what) {
    if (error_) return;
    std::size_t line = 1, column = 1;
    for (std::size_t i = 0; i < at_ && i < text_.size(); ++i)
      text_[i] == '\n' ? (++line, column = 1) : ++column;
    error_.emplace(Errc::BadText, "line " + std::to_string(line) + ", column " +
                                      std::to_string(column) + ": " + what);
  }
  bool ok() const { return !error_; }

  void skip() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    // A word must end where the token does.
    const std::size_t end = at_ + token.size();
    if (isNameStart(token.back()) && end < text_.size() &&
        (isNameStart(text_[end]) || isDigit(text_[end])))
      return false;
    at_ = end;
    return true;
  }
  void expect(std::string_view token) {
    if (ok() && !accept(token)) fail("expected '" + std::string(token) + "'");
  }
  std::string_view word() {
    skip();
    const std::size_t begin = at_;
    if (at_ < text_.size() && isNameStart(text_[at_]))
      while (at_ < text_.size() && (isNameStart(text_[at_]) || isDigit(text_[at_]))) ++at_;
    if (at_ == begin) fail("expected a name");
    return text_.substr(begin, at_ - begin);
  }
  template <class T>
  T number(const char* what) {
    skip();
    T v{};
    const auto [end, code] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (code != std::errc()) {
      fail(std::string("expected ") + what);
      return T{};
    }
    at_ = static_cast<std::size_t>(end - text_.data());
    return v;
  }
  DType type() {
    const std::string_view w = word();
    const auto t = parseDType(w);
    if (!ok()) return DType::F32;
    if (!t || !isKernelType(*t)) {
      fail("'" + std::string(w) + "' is no type of kernels");
      return DType::F32;
    }
    return *t;
  }

  void kernel() {
    expect("kernel");
    k_.name = word();
    expect("block");
    expect("(");
    for (std::size_t i = 0; i < 3 && ok(); ++i) {
      if (i) expect(",");
      k_.block[i] = number<int32_t>("a block extent");
    }
    expect(")");
    expect("{");
    while (ok() && declaration()) {
      if (k_.buffers.size() + k_.params.size() > kMaxNames) fail("too many declarations");
    }
    block(k_.body, 1);
    if (ok() && peek() != '\0') fail("text after the kernel");
  }

  bool declaration() {
    const std::size_t begin = at_;
    if (accept("param")) {
      const std::string_view n = word();
      params_.emplace(std::string(n), static_cast<uint32_t>(k_.params.size()));
      k_.params.emplace_back(n);
      return true;
    }
    if (accept("vars")) {
      do {
        const std::string token = varToken();
        expect(":");
        const DType t = type();
        if (ok()) addVar(token, t);
      } while (ok() && accept(","));
      declared_ = true;
      return true;
    }
    Buffer b;
    if (accept("global"))
      b.space = Space::Global;
    else if (accept("shared"))
      b.space = Space::Shared;
    else if (accept("local") && text_[at_ < text_.size() ? at_ : at_ - 1] != '.')
      b.space = Space::Local;
    else {
      at_ = begin;
      return false;
    }
    b.name = word();
    expect(":");
    b.type = type();
    if (ok() && accept("[")) {
      b.elements = number<int64_t>("a number of elements");
      expect("]");
    }
    if (accept("readwrite"))
      b.access = Access::ReadWrite;
    else if (accept("read"))
      b.access = Access::Read;
    else if (accept("write"))
      b.access = Access::Write;
    else
      fail("expected 'read', 'write' or 'readwrite'");
    buffers_.emplace(b.name, static_cast<uint32_t>(k_.buffers.size()));
    k_.buffers.push_back(std::move(b));
    return true;
  }

  // "%name" or "%name.3" or "%.3", as it stands.
  std::string varToken() {
    expect("%");
    const std::size_t begin = at_;
    while (at_ < text_.size() && (isNameStart(text_[at_]) || isDigit(text_[at_]))) ++at_;
    if (at_ + 1 < text_.size() && text_[at_] == '.' && isDigit(text_[at_ + 1])) {
      ++at_;
      while (at_ < text_.size() && isDigit(text_[at_])) ++at_;
    }
    if (ok() && at_ == begin) fail("expected a variable");
    return std::string(text_.substr(begin, at_ - begin));
  }
  uint32_t addVar(const std::string& token, DType t) {
    if (k_.vars.size() > kMaxNames) fail("too many variables");
    const auto id = static_cast<uint32_t>(k_.vars.size());
    if (!vars_.emplace(token, id).second) fail("variable %" + token + " is declared twice");
    k_.vars.push_back({token.substr(0, token.find('.')), t});
    return id;
  }
  uint32_t define() {
    const std::string token = varToken();
    expect(":");
    const DType t = type();
    if (!ok()) return 0;
    if (!declared_) return addVar(token, t);
    const auto at = vars_.find(token);
    if (at == vars_.end() || k_.vars[at->second].type != t) {
      fail("variable %" + token + " is declared otherwise");
      return 0;
    }
    return at->second;
  }
  uint32_t variable() {
    const std::string token = varToken();
    if (!ok()) return 0;
    const auto at = vars_.find(token);
    if (at == vars_.end()) {
      fail("unknown variable %" + token);
      return 0;
    }
    return at->second;
  }

  // Up to and with the closing brace.
  void block(std::vector<Stmt>& body, int depth) {
    if (depth > kMaxNesting) return fail("statements nest deeper than 200");
    while (ok() && !accept("}")) {
      if (peek() == '\0') return fail("expected '}'");
      body.push_back(stmt(depth));
    }
  }

  Stmt stmt(int depth) {
    Stmt s;
    if (peek() == '%') {
      s.var = variable();
      if (accept("=")) {
        s.kind = StmtKind::Assign;
      } else {
        s.kind = StmtKind::Accumulate;
        s.op = op(word());
        expect("=");
      }
      s.value = expr(1);
      return s;
    }
    const std::size_t begin = at_;
    const std::string_view w = word();
    if (!ok()) return s;
    if (w == "let" || w == "mut") {
      s.kind = w == "let" ? StmtKind::Let : StmtKind::Mutable;
      s.var = define();
      expect("=");
      s.value = expr(1);
    } else if (w == "for") {
      s.kind = StmtKind::For;
      s.var = define();
      expect("in");
      s.lo = expr(1);
      expect("..");
      s.hi = expr(1);
      expect("step");
      s.step = number<int64_t>("a step");
      if (accept("unroll")) s.loop = LoopKind::Unroll;
      if (accept("vector")) s.loop = LoopKind::Vector;
      expect("{");
      block(s.body, depth + 1);
    } else if (w == "if") {
      s.kind = StmtKind::If;
      s.condition = expr(1);
      expect("{");
      block(s.body, depth + 1);
      if (ok() && accept("else")) {
        expect("{");
        block(s.otherwise, depth + 1);
      }
    } else if (w == "barrier") {
      s.kind = StmtKind::Barrier;
    } else {
      const auto b = buffers_.find(std::string(w));
      if (b == buffers_.end()) {
        at_ = begin;
        fail("expected a statement");
        return s;
      }
      s.kind = StmtKind::Store;
      s.buffer = b->second;
      expect("[");
      s.index = expr(1);
      expect("]");
      expect("=");
      s.value = expr(1);
      if (ok() && accept("if")) s.condition = expr(1);
    }
    return s;
  }

  ScalarOp op(std::string_view name) {
    const auto found = parseScalarOp(name);
    if (ok() && !found) fail("unknown op '" + std::string(name) + "'");
    return found.value_or(ScalarOp::Add);
  }

  static Expr make(ExprNode n) { return Expr(std::make_shared<const ExprNode>(std::move(n))); }
  Expr node(ExprKind kind, DType t, uint32_t id) {
    ExprNode n;
    n.kind = kind;
    n.type = t;
    n.id = id;
    return make(std::move(n));
  }

  // Never null, so that a failed operand does no harm on the way out.
  Expr expr(int depth) {
    if (depth > kMaxNesting) fail("an expression nests deeper than 200");
    if (!ok()) return index(0);
    const char c = peek();
    if (c == '%') {
      const uint32_t v = variable();
      return ok() ? node(ExprKind::Var, k_.vars[v].type, v) : index(0);
    }
    if (c == '$') {
      ++at_;
      const auto p = params_.find(std::string(word()));
      if (p == params_.end()) fail("unknown parameter");
      return ok() ? node(ExprKind::Param, DType::I32, p->second) : index(0);
    }
    if (isDigit(c) || c == '-') return literal();
    const std::size_t begin = at_;
    const std::string_view w = word();
    if (!ok()) return index(0);
    if (w == "nan" || w == "inf") {
      at_ = begin;
      return literal();
    }
    if (w == "true" || w == "false") return integer(DType::Bool, w == "true");
    const bool dotted = at_ < text_.size() && text_[at_] == '.';
    if ((w == "group" || w == "local") && dotted) {
      ++at_;
      const auto axis = number<uint32_t>("an axis");
      if (axis > 2) fail("axis out of range");
      return node(w == "group" ? ExprKind::GroupId : ExprKind::LocalId, DType::I32, axis);
    }
    if ((w == "cast" || w == "bitcast") && dotted) {
      ++at_;
      ExprNode n;
      n.kind = w == "cast" ? ExprKind::Cast : ExprKind::Bitcast;
      n.type = type();
      expect("(");
      n.args[0] = expr(depth + 1);
      expect(")");
      return make(std::move(n));
    }
    if (peek() == '[') return load(w, depth);
    return apply(w, depth);
  }

  Expr load(std::string_view name, int depth) {
    const auto b = buffers_.find(std::string(name));
    if (b == buffers_.end()) {
      fail("unknown buffer '" + std::string(name) + "'");
      return index(0);
    }
    ExprNode n;
    n.kind = ExprKind::Load;
    n.id = b->second;
    n.type = k_.buffers[n.id].type;
    expect("[");
    n.args[0] = expr(depth + 1);
    if (ok() && accept("if")) {
      n.args[1] = expr(depth + 1);
      expect("else");
      n.args[2] = expr(depth + 1);
    }
    expect("]");
    return make(std::move(n));
  }

  Expr apply(std::string_view name, int depth) {
    ExprNode n;
    n.kind = ExprKind::Apply;
    n.op = op(name);
    expect("(");
    for (std::size_t i = 0; i < static_cast<std::size_t>(info(n.op).arity) && ok(); ++i) {
      if (i) expect(",");
      n.args[i] = expr(depth + 1);
    }
    expect(")");
    if (!ok()) return index(0);
    n.type = info(n.op).result == ScalarResult::Bool
                 ? DType::Bool
                 : n.args[n.op == ScalarOp::Select ? 1 : 0]->type;
    return make(std::move(n));
  }

  // digits, or digits:type, or nan:type, inf:type, -inf:type.
  Expr literal() {
    const std::size_t begin = at_;
    if (text_[at_] == '-') ++at_;
    const bool named = at_ < text_.size() && isNameStart(text_[at_]);
    while (at_ < text_.size() &&
           (isDigit(text_[at_]) || isNameStart(text_[at_]) || text_[at_] == '+' ||
            (text_[at_] == '-' && text_[at_ - 1] == 'e') ||
            (text_[at_] == '.' && at_ + 1 < text_.size() && text_[at_ + 1] != '.')))
      ++at_;
    const std::string_view digits = text_.substr(begin, at_ - begin);
    DType t = DType::I32;
    if (at_ < text_.size() && text_[at_] == ':') {
      ++at_;
      t = type();
    }
    if (!ok()) return index(0);
    const char* first = digits.data();
    const char* last = digits.data() + digits.size();
    if (isFloat(t)) {
      double v = 0;
      if (digits == "nan") {
        v = std::numeric_limits<double>::quiet_NaN();
      } else if (digits == "inf" || digits == "-inf") {
        v = digits[0] == '-' ? -std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::infinity();
      } else {
        const auto [end, code] = std::from_chars(first, last, v);
        if (named || code != std::errc() || end != last) fail("a malformed number");
      }
      if (!ok()) return index(0);
      return constant(t, v);
    }
    int64_t v = 0;
    std::from_chars_result r{};
    if (t == DType::U64) {
      uint64_t u = 0;
      r = std::from_chars(first, last, u);
      v = static_cast<int64_t>(u);
    } else {
      r = std::from_chars(first, last, v);
    }
    if (r.ec != std::errc() || r.ptr != last || !rlx::isInteger(t) ||
        static_cast<int64_t>(wrapBits(t, v)) != v) {
      fail("a malformed number, or one outside " + std::string(name(t)));
      return index(0);
    }
    return integer(t, v);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Kernel k_;
  std::unordered_map<std::string, uint32_t> buffers_, params_, vars_;
  bool declared_ = false;
  std::optional<Error> error_;
};

}  // namespace

Result<Kernel> parseKernel(std::string_view text) {
  return Parser(text).run();
}

}  // namespace rlx::kir
