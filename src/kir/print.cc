#include "kir/print.h"

#include <charconv>
#include <cmath>

#include "kir/number.h"

namespace rlx::kir {
namespace {

std::string shortest(double v, bool asFloat) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = asFloat ? std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(v))
                           : std::to_chars(buffer, buffer + sizeof buffer, v);
  return {buffer, end.ptr};
}

class Printer {
 public:
  explicit Printer(const Kernel& k, std::size_t limit = SIZE_MAX) : k_(k), limit_(limit) {}

  std::string kernel() {
    out_ = "kernel " + k_.name + " block(" + std::to_string(k_.block[0]) + ", " +
           std::to_string(k_.block[1]) + ", " + std::to_string(k_.block[2]) + ") {\n";
    for (const Buffer& b : k_.buffers) {
      static constexpr const char* kSpace[] = {"global", "shared", "local"};
      static constexpr const char* kAccess[] = {"read", "write", "readwrite"};
      out_ += std::string("  ") + kSpace[static_cast<int>(b.space)] + " " + b.name + ": ";
      out_ += name(b.type);
      if (b.space != Space::Global || b.elements != 0)
        out_ += "[" + std::to_string(b.elements) + "]";
      out_ += std::string(" ") + kAccess[static_cast<int>(b.access)] + "\n";
    }
    for (const std::string& p : k_.params) out_ += "  param " + p + "\n";
    if (!definedInOrder()) {
      out_ += "  vars ";
      for (std::size_t i = 0; i < k_.vars.size(); ++i) {
        out_ += (i ? ", " : "") + var(static_cast<uint32_t>(i)) + ": ";
        out_ += name(k_.vars[i].type);
      }
      out_ += "\n";
    }
    block(k_.body, 1);
    out_ += "}\n";
    return std::move(out_);
  }

  void expr(const Expr& e) {
    if (out_.size() > limit_) return;
    if (!e) {
      out_ += "<null>";
      return;
    }
    switch (e->kind) {
      case ExprKind::Const: constant(*e); return;
      case ExprKind::Var: out_ += var(e->id); return;
      case ExprKind::Param:
        out_ += "$" + (e->id < k_.params.size() ? k_.params[e->id] : "?");
        return;
      case ExprKind::GroupId: out_ += "group." + std::to_string(e->id); return;
      case ExprKind::LocalId: out_ += "local." + std::to_string(e->id); return;
      case ExprKind::Load:
        out_ += buffer(e->id) + "[";
        expr(e->args[0]);
        if (e->args[1]) {
          out_ += " if ";
          expr(e->args[1]);
          out_ += " else ";
          expr(e->args[2]);
        }
        out_ += "]";
        return;
      case ExprKind::Apply:
        out_ += info(e->op).name;
        out_ += "(";
        for (int i = 0; i < info(e->op).arity; ++i) {
          if (i) out_ += ", ";
          expr(e->args[static_cast<std::size_t>(i)]);
        }
        out_ += ")";
        return;
      case ExprKind::Cast:
      case ExprKind::Bitcast:
        out_ += e->kind == ExprKind::Cast ? "cast." : "bitcast.";
        out_ += name(e->type);
        out_ += "(";
        expr(e->args[0]);
        out_ += ")";
        return;
    }
  }

  std::string take() { return std::move(out_); }

 private:
  std::string var(uint32_t id) const {
    if (id >= k_.vars.size()) return "%?";
    const std::string& own = k_.vars[id].name;
    bool unique = true;
    for (std::size_t i = 0; i < k_.vars.size() && unique; ++i)
      unique = i == id || k_.vars[i].name != own;
    return "%" + own + (unique && !own.empty() ? "" : "." + std::to_string(id));
  }
  std::string buffer(uint32_t id) const {
    return id < k_.buffers.size() ? k_.buffers[id].name : "?";
  }

  void constant(const ExprNode& n) {
    if (n.weak) {
      out_ += "weak(" + shortest(n.fvalue, false) + ")";
    } else if (n.type == DType::Bool) {
      out_ += n.ivalue ? "true" : "false";
    } else if (isInteger(n.type)) {
      out_ += n.type == DType::U64 ? std::to_string(static_cast<uint64_t>(n.ivalue))
                                   : std::to_string(n.ivalue);
      if (n.type != DType::I32) out_ += ":" + std::string(name(n.type));
    } else {
      const bool asFloat = static_cast<double>(static_cast<float>(n.fvalue)) == n.fvalue;
      out_ += shortest(n.fvalue, n.type == DType::F32 && asFloat) + ":" + std::string(name(n.type));
    }
  }

  // Whether giving out numbers at the definitions, in text order, reproduces the table of
  // variables.
  bool definedInOrder() const {
    uint32_t next = 0;
    return inOrder(k_.body, next) && next == k_.vars.size();
  }
  static bool inOrder(const std::vector<Stmt>& body, uint32_t& next) {
    for (const Stmt& s : body) {
      const bool defines =
          s.kind == StmtKind::Let || s.kind == StmtKind::Mutable || s.kind == StmtKind::For;
      if (defines && s.var != next++) return false;
      if (!inOrder(s.body, next) || !inOrder(s.otherwise, next)) return false;
    }
    return true;
  }

  void define(const char* word, uint32_t id) {
    out_ += word + var(id) + ": ";
    out_ += id < k_.vars.size() ? name(k_.vars[id].type) : "?";
  }

  void block(const std::vector<Stmt>& body, std::size_t depth) {
    for (const Stmt& s : body) {
      out_.append(2 * depth, ' ');
      stmt(s, depth);
      out_ += "\n";
    }
  }

  void nested(const std::vector<Stmt>& body, std::size_t depth) {
    out_ += " {\n";
    block(body, depth + 1);
    out_.append(2 * depth, ' ');
    out_ += "}";
  }

  void stmt(const Stmt& s, std::size_t depth) {
    switch (s.kind) {
      case StmtKind::Let:
      case StmtKind::Mutable:
        define(s.kind == StmtKind::Let ? "let " : "mut ", s.var);
        out_ += " = ";
        expr(s.value);
        return;
      case StmtKind::Assign:
        out_ += var(s.var) + " = ";
        expr(s.value);
        return;
      case StmtKind::Accumulate:
        out_ += var(s.var) + " " + std::string(info(s.op).name) + "= ";
        expr(s.value);
        return;
      case StmtKind::Store:
        out_ += buffer(s.buffer) + "[";
        expr(s.index);
        out_ += "] = ";
        expr(s.value);
        if (s.condition) {
          out_ += " if ";
          expr(s.condition);
        }
        return;
      case StmtKind::For: {
        static constexpr const char* kLoop[] = {"", " unroll", " vector"};
        define("for ", s.var);
        out_ += " in ";
        expr(s.lo);
        out_ += " .. ";
        expr(s.hi);
        out_ += " step " + std::to_string(s.step) + kLoop[static_cast<int>(s.loop)];
        nested(s.body, depth);
        return;
      }
      case StmtKind::If:
        out_ += "if ";
        expr(s.condition);
        nested(s.body, depth);
        if (!s.otherwise.empty()) {
          out_ += " else";
          nested(s.otherwise, depth);
        }
        return;
      case StmtKind::Barrier: out_ += "barrier"; return;
    }
  }

  const Kernel& k_;
  std::size_t limit_;
  std::string out_;
};

}  // namespace

std::string print(const Kernel& kernel) {
  return Printer(kernel).kernel();
}

std::string print(const Kernel& kernel, const Expr& e) {
  constexpr std::size_t kLimit = 2000;
  Printer p(kernel, kLimit);
  p.expr(e);
  std::string text = p.take();
  if (text.size() > kLimit) text.replace(kLimit, std::string::npos, "...");
  return text;
}

}  // namespace rlx::kir
