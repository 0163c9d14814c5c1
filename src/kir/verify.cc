#include "kir/verify.h"

#include <algorithm>
#include <unordered_set>

#include "kir/number.h"
#include "kir/print.h"

namespace rlx::kir {
namespace {

bool isIdentifier(const std::string& s) {
  if (s.empty() || (s[0] >= '0' && s[0] <= '9')) return false;
  return std::all_of(s.begin(), s.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string quoted(DType t) {
  return std::string(name(t));
}

// Which variables may differ between the lanes of a group. Assignments under divergent control make
// a variable divergent, so this runs to a fixed point.
class Divergence {
 public:
  explicit Divergence(const Kernel& k) : vars_(k.vars.size(), false) {
    do {
      changed_ = false;
      block(k.body, false);
    } while (changed_);
  }

  bool divergent(const Expr& e) {
    seen_.clear();
    return walk(e);
  }

 private:
  bool walk(const Expr& e) {
    if (!e || !seen_.insert(e.get()).second) return false;
    if (e->kind == ExprKind::LocalId || e->kind == ExprKind::Load) return true;
    if (e->kind == ExprKind::Var) return vars_[e->id];
    return std::any_of(e->args.begin(), e->args.end(), [&](const Expr& a) { return walk(a); });
  }
  void mark(uint32_t var, bool divergent) {
    if (!divergent || vars_[var]) return;
    vars_[var] = true;
    changed_ = true;
  }
  void block(const std::vector<Stmt>& body, bool control) {
    for (const Stmt& s : body) {
      switch (s.kind) {
        case StmtKind::Let:
        case StmtKind::Mutable: mark(s.var, divergent(s.value)); break;
        case StmtKind::Assign:
        case StmtKind::Accumulate: mark(s.var, control || divergent(s.value)); break;
        case StmtKind::For: {
          mark(s.var, divergent(s.lo));
          block(s.body, control || divergent(s.lo) || divergent(s.hi));
          break;
        }
        case StmtKind::If: {
          const bool inner = control || divergent(s.condition);
          block(s.body, inner);
          block(s.otherwise, inner);
          break;
        }
        case StmtKind::Store:
        case StmtKind::Barrier: break;
      }
    }
  }

  std::vector<bool> vars_;
  std::unordered_set<const ExprNode*> seen_;
  bool changed_ = false;
};

enum class Role : uint8_t { Undefined, Let, Mutable, Loop, Gone };

class Verifier {
 public:
  explicit Verifier(const Kernel& k) : k_(k), roles_(k.vars.size(), Role::Undefined) {}

  Status run() {
    RLX_OK(header());
    RLX_OK(block(k_.body, 1));
    if (!barriers_) return Ok{};
    Divergence d(k_);
    return uniform(k_.body, d, {});
  }

 private:
  Error bad(std::string what) const {
    Error e(Errc::BadGraph, "kernel " + k_.name + ": " + std::move(what));
    return e;
  }
  Error badIn(const Expr& e, std::string what) const {
    std::string text = nesting_ < kMaxNesting ? print(k_, e) : "";
    if (text.size() > 200) text = text.substr(0, 200) + "...";
    return bad(what + ", in " + text);
  }

  Status header() {
    if (!isIdentifier(k_.name)) return bad("its name is not an identifier");
    int64_t lanes = 1;
    for (int32_t b : k_.block) {
      if (b < 1 || b > 65536) return bad("block extent " + std::to_string(b) + " is out of range");
      lanes *= b;
    }
    if (lanes > 65536) return bad("more than 65536 lanes in a block");
    std::unordered_set<std::string> names;
    bool local = false;
    for (const Buffer& b : k_.buffers) {
      if (!isIdentifier(b.name) || !names.insert(b.name).second)
        return bad("buffer name '" + b.name + "' is not a unique identifier");
      if (!isKernelType(b.type))
        return bad("buffer " + b.name + " has type " + quoted(b.type) + ", which kernels lack");
      if (b.space == Space::Global) {
        if (local) return bad("global buffer " + b.name + " follows a shared or local one");
        if (b.elements < 0) return bad("buffer " + b.name + " has a negative size");
      } else {
        local = true;
        if (b.elements < 1 || b.elements > INT32_MAX)
          return bad("buffer " + b.name + " needs a constant size of at least 1");
        if (b.access != Access::ReadWrite)
          return bad("shared or local buffer " + b.name + " must be readwrite");
      }
    }
    names.clear();
    for (const std::string& p : k_.params)
      if (!isIdentifier(p) || !names.insert(p).second)
        return bad("parameter name '" + p + "' is not a unique identifier");
    for (const Var& v : k_.vars) {
      if (!v.name.empty() && !isIdentifier(v.name))
        return bad("variable name '" + v.name + "' is not an identifier");
      if (!isKernelType(v.type)) return bad("variable " + v.name + " has type " + quoted(v.type));
    }
    return Ok{};
  }

  Status define(uint32_t var, Role role, DType type) {
    if (var >= k_.vars.size()) return bad("variable number out of range");
    if (roles_[var] != Role::Undefined)
      return bad("variable " + k_.vars[var].name + " is defined twice");
    if (k_.vars[var].type != type)
      return bad("variable " + k_.vars[var].name + " of type " + quoted(k_.vars[var].type) +
                 " gets a value of type " + quoted(type));
    roles_[var] = role;
    live_.push_back(var);
    return Ok{};
  }

  Status root(const Expr& e, const char* what) {
    if (!e) return bad(std::string(what) + " is missing");
    seen_.clear();
    nesting_ = 0;
    RLX_OK(expr(e, 1));
    return Ok{};
  }
  Status root(const Expr& e, const char* what, DType type) {
    RLX_OK(root(e, what));
    if (e->type != type)
      return badIn(
          e, std::string(what) + " has type " + quoted(e->type) + ", expected " + quoted(type));
    return Ok{};
  }

  // Shared nodes are visited once: expressions are graphs.
  Status expr(const Expr& e, int depth) {
    nesting_ = std::max(nesting_, depth);
    if (depth > kMaxNesting) return bad("an expression nests deeper than 200");
    if (!seen_.insert(e.get()).second) return Ok{};
    int arity = 0;
    if (e->kind == ExprKind::Apply) arity = info(e->op).arity;
    if (e->kind == ExprKind::Cast || e->kind == ExprKind::Bitcast) arity = 1;
    if (e->kind == ExprKind::Load) arity = e->args[1] ? 3 : 1;
    for (int i = 0; i < 3; ++i) {
      const Expr& a = e->args[static_cast<std::size_t>(i)];
      if ((i < arity) != static_cast<bool>(a))
        return bad("an expression has the wrong operand count");
      if (a) RLX_OK(expr(a, depth + 1));
    }
    if (e->weak) return badIn(e, "a weak literal has no type");
    if (!isKernelType(e->type)) return badIn(e, "type " + quoted(e->type) + " is none of kernels");
    switch (e->kind) {
      case ExprKind::Const: return constant(e);
      case ExprKind::Var: return variable(e);
      case ExprKind::Param:
        if (e->id >= k_.params.size()) return badIn(e, "parameter number out of range");
        return e->type == DType::I32 ? Status(Ok{}) : Status(badIn(e, "a parameter is i32"));
      case ExprKind::GroupId:
      case ExprKind::LocalId:
        if (e->id > 2) return badIn(e, "axis out of range");
        return e->type == DType::I32 ? Status(Ok{}) : Status(badIn(e, "an id is i32"));
      case ExprKind::Load: return load(e);
      case ExprKind::Apply: return apply(e);
      case ExprKind::Cast: return Ok{};
      case ExprKind::Bitcast: {
        const DType from = e->args[0]->type;
        if (from == DType::Bool || e->type == DType::Bool || info(from).bits != info(e->type).bits)
          return badIn(e, "bitcast between " + quoted(from) + " and " + quoted(e->type));
        return Ok{};
      }
    }
    return Ok{};
  }

  Status constant(const Expr& e) {
    if (isIntegral(e->type) && static_cast<int64_t>(wrapBits(e->type, e->ivalue)) != e->ivalue)
      return badIn(e, "an integer constant does not fit its type");
    if (isIntegral(e->type) && e->fvalue != 0) return badIn(e, "an integer with a float value");
    return Ok{};
  }
  Status variable(const Expr& e) {
    if (e->id >= k_.vars.size()) return badIn(e, "variable number out of range");
    if (roles_[e->id] == Role::Undefined || roles_[e->id] == Role::Gone)
      return badIn(e, "variable " + k_.vars[e->id].name + " is used outside its scope");
    if (k_.vars[e->id].type != e->type) return badIn(e, "the variable has another type");
    return Ok{};
  }
  Status load(const Expr& e) {
    if (e->id >= k_.buffers.size()) return badIn(e, "buffer number out of range");
    const Buffer& b = k_.buffers[e->id];
    if (b.access == Access::Write) return badIn(e, "buffer " + b.name + " may only be written");
    if (b.type != e->type) return badIn(e, "buffer " + b.name + " has type " + quoted(b.type));
    if (e->args[0]->type != DType::I32) return badIn(e, "an index must be i32");
    if (e->args[1] && (e->args[1]->type != DType::Bool || e->args[2]->type != e->type))
      return badIn(e, "a predicated load needs a bool and a value of its own type");
    return Ok{};
  }
  Status apply(const Expr& e) {
    const ScalarInfo& op = info(e->op);
    const bool select = e->op == ScalarOp::Select;
    if (select && e->args[0]->type != DType::Bool) return badIn(e, "select needs a bool");
    const DType t = e->args[select ? 1 : 0]->type;
    for (int i = select ? 1 : 0; i < op.arity; ++i)
      if (e->args[static_cast<std::size_t>(i)]->type != t)
        return badIn(e, "operands of types " + quoted(t) + " and " +
                            quoted(e->args[static_cast<std::size_t>(i)]->type));
    if (!select) {
      if (!isArithmetic(t)) return badIn(e, "arithmetic on " + quoted(t) + "; cast it first");
      const char kind = t == DType::Bool ? 'b' : isFloat(t) ? 'f' : 'i';
      if (op.types.find(kind) == std::string_view::npos)
        return badIn(e, std::string(op.name) + " does not accept " + quoted(t));
    }
    const DType result = op.result == ScalarResult::Bool ? DType::Bool : t;
    if (e->type != result) return badIn(e, "the result must be " + quoted(result));
    return Ok{};
  }

  Status block(const std::vector<Stmt>& body, int depth) {
    if (depth > kMaxNesting) return bad("statements nest deeper than 200");
    const std::size_t mark = live_.size();
    for (const Stmt& s : body) RLX_OK(stmt(s, depth));
    for (std::size_t i = mark; i < live_.size(); ++i) roles_[live_[i]] = Role::Gone;
    live_.resize(mark);
    return Ok{};
  }

  Status stmt(const Stmt& s, int depth) {
    switch (s.kind) {
      case StmtKind::Let:
      case StmtKind::Mutable:
        RLX_OK(root(s.value, "a value"));
        return define(s.var, s.kind == StmtKind::Let ? Role::Let : Role::Mutable, s.value->type);
      case StmtKind::Assign:
      case StmtKind::Accumulate: {
        if (s.var >= k_.vars.size() || roles_[s.var] != Role::Mutable)
          return bad("assignment to something that is not a mutable variable in scope");
        RLX_OK(root(s.value, "a value", k_.vars[s.var].type));
        if (s.kind == StmtKind::Assign) return Ok{};
        const bool allowed = s.op == ScalarOp::Add || s.op == ScalarOp::Mul ||
                             s.op == ScalarOp::Max || s.op == ScalarOp::Min ||
                             s.op == ScalarOp::And || s.op == ScalarOp::Or;
        const DType t = k_.vars[s.var].type;
        const char kind = t == DType::Bool ? 'b' : isFloat(t) ? 'f' : 'i';
        if (!allowed || !isArithmetic(t) || info(s.op).types.find(kind) == std::string_view::npos)
          return bad("accumulation by " + std::string(info(s.op).name) + " on " + quoted(t));
        return Ok{};
      }
      case StmtKind::Store: {
        if (s.buffer >= k_.buffers.size()) return bad("a store's buffer number is out of range");
        const Buffer& b = k_.buffers[s.buffer];
        if (b.access == Access::Read) return bad("store to read-only buffer " + b.name);
        RLX_OK(root(s.index, "an index", DType::I32));
        RLX_OK(root(s.value, "a stored value", b.type));
        if (s.condition) RLX_OK(root(s.condition, "a condition", DType::Bool));
        return Ok{};
      }
      case StmtKind::For: {
        RLX_OK(root(s.lo, "a loop bound", DType::I32));
        RLX_OK(root(s.hi, "a loop bound", DType::I32));
        if (s.step < 1 || s.step > INT32_MAX) return bad("a loop step must be positive");
        if (s.loop == LoopKind::Unroll &&
            (!rlx::kir::isInteger(s.lo) || !rlx::kir::isInteger(s.hi)))
          return bad("an unrolled loop needs constant bounds");
        RLX_OK(define(s.var, Role::Loop, DType::I32));
        const std::size_t mine = live_.size() - 1;
        RLX_OK(block(s.body, depth + 1));
        roles_[live_[mine]] = Role::Gone;
        live_.resize(mine);
        return Ok{};
      }
      case StmtKind::If:
        RLX_OK(root(s.condition, "a condition", DType::Bool));
        RLX_OK(block(s.body, depth + 1));
        return block(s.otherwise, depth + 1);
      case StmtKind::Barrier: barriers_ = true; return Ok{};
    }
    return Ok{};
  }

  Status uniform(const std::vector<Stmt>& body, Divergence& d, std::string cause) {
    for (const Stmt& s : body) {
      if (s.kind == StmtKind::Barrier && !cause.empty())
        return bad("a barrier stands under divergent control: " + cause);
      std::string inner = cause;
      if (inner.empty() && s.kind == StmtKind::If && d.divergent(s.condition))
        inner = "if " + print(k_, s.condition);
      if (inner.empty() && s.kind == StmtKind::For && (d.divergent(s.lo) || d.divergent(s.hi)))
        inner = "a loop bound depends on the lane";
      if (s.loop == LoopKind::Vector && s.kind == StmtKind::For) inner = "a vector loop";
      RLX_OK(uniform(s.body, d, inner));
      RLX_OK(uniform(s.otherwise, d, inner));
    }
    return Ok{};
  }

  const Kernel& k_;
  std::vector<Role> roles_;
  std::vector<uint32_t> live_;
  std::unordered_set<const ExprNode*> seen_;
  int nesting_ = 0;
  bool barriers_ = false;
};

}  // namespace

Status verify(const Kernel& kernel) {
  return Verifier(kernel).run();
}

}  // namespace rlx::kir
