#include "kir/legalize.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "kir/expand_cast.h"
#include "kir/expand_op.h"
#include "kir/number.h"
#include "kir/share.h"
#include "kir/verify.h"

namespace rlx::kir {
namespace {

std::string quoted(DType t) {
  return std::string(name(t));
}

// How a buffer's elements are held: `element` is the type of its loads; `packed`, several of them
// in one U32 word.
struct Plan {
  DType element{};
  bool packed = false;
};

class Legalizer {
 public:
  Legalizer(const Kernel& k, const Caps& caps, const Spelling& spelling)
      : k_(k), out_(k), caps_(caps), spelling_(spelling) {}

  Result<Kernel> run() {
    RLX_OK(limits());
    for (std::size_t i = 0; i < k_.buffers.size(); ++i) RLX_OK(plan(i));
    for (Var& v : out_.vars) v.type = carrier(v.type);
    out_.body = block(k_.body);
    if (error_) return std::move(*error_);
    share(out_);
    RLX_OK(verify(out_));
    return std::move(out_);
  }

 private:
  Error unsupported(std::string what) const {
    return Error(Errc::Unsupported, "kernel " + k_.name + ": " + std::move(what));
  }
  void fail(std::string what) {
    if (!error_) error_.emplace(unsupported(std::move(what)));
  }

  Status limits() const {
    const int64_t lanes = int64_t{1} * k_.block[0] * k_.block[1] * k_.block[2];
    auto over = [&](const char* what, int64_t has, int64_t limit) {
      return unsupported(std::to_string(has) + " " + what + ", the device has " +
                         std::to_string(limit));
    };
    if (!caps_.groups && lanes != 1) return over("lanes in a group", lanes, 1);
    if (caps_.groups && lanes > caps_.maxLanes)
      return over("lanes in a group", lanes, caps_.maxLanes);
    const auto globals = static_cast<int64_t>(globalCount(k_));
    if (globals > caps_.maxBindings) return over("buffer bindings", globals, caps_.maxBindings);
    const auto params = static_cast<int64_t>(4 * k_.params.size());
    if (params > caps_.maxParamBytes)
      return over("bytes of parameters", params, caps_.maxParamBytes);
    int64_t shared = 0;
    for (const Buffer& b : k_.buffers)
      if (b.space == Space::Shared) shared += b.elements * bytes(b.type);
    if (caps_.groups && shared > caps_.sharedBytes)
      return over("bytes of shared memory", shared, caps_.sharedBytes);
    return Ok{};
  }

  // The type in which a value of type t is held.
  DType carrier(DType t) const {
    if (t == DType::BF16) return carrier(DType::U16);
    if (t == DType::F16) return spelling_.half && canStore(caps_, t) ? t : carrier(DType::U16);
    if (t == DType::Bool || info(t).bits >= 32 || canStore(caps_, t)) return t;
    return computeType(t);
  }

  Status plan(std::size_t i) {
    Buffer& b = out_.buffers[i];
    const DType original = b.type;
    DType element = original;
    if (element == DType::Bool) element = DType::U8;
    if (element == DType::BF16 || (element == DType::F16 && !spelling_.half)) element = DType::U16;
    if (element == DType::F16 && !canStore(caps_, element)) element = DType::U16;
    Plan p{element, false};
    if (!canStore(caps_, element)) {
      const std::string why = "buffer " + b.name + " of " + quoted(original) +
                              ": the device has no " + std::to_string(info(element).bits) +
                              "-bit storage";
      if (info(element).bits >= 32) return unsupported(why);
      if (b.space != Space::Global) {
        p.element = computeType(element);
      } else if (b.access == Access::Read) {
        p.packed = true;
      } else {
        return unsupported(why + ", and a store to part of a word would race with its neighbours");
      }
    }
    b.type = p.packed ? DType::U32 : p.element;
    if (p.packed && b.elements) b.elements = (b.elements * bytes(element) + 3) / 4;
    plans_.push_back(p);
    return Ok{};
  }

  std::vector<Stmt> block(const std::vector<Stmt>& body) {
    std::vector<Stmt> out;
    out.reserve(body.size());
    for (const Stmt& s : body) {
      if (error_) break;
      Stmt n;
      n.kind = s.kind;
      n.var = s.var;
      n.buffer = s.buffer;
      n.op = s.op;
      n.loop = s.loop;
      n.step = s.step;
      memo_.clear();
      n.value = lower(s.value);
      n.index = lower(s.index);
      n.condition = lower(s.condition);
      n.lo = lower(s.lo);
      n.hi = lower(s.hi);
      if (error_) break;
      if (s.kind == StmtKind::Store) n.value = stored(n.value, s.value->type, s.buffer);
      if (s.kind == StmtKind::Accumulate && !spelled(s.op, s.value->type)) assign(n, s);
      n.body = block(s.body);
      n.otherwise = block(s.otherwise);
      out.push_back(std::move(n));
    }
    return out;
  }

  // Accumulation by an op without spelling becomes an assignment of its expansion.
  void assign(Stmt& n, const Stmt& s) {
    ExprNode v;
    v.kind = ExprKind::Var;
    v.type = s.value->type;
    v.id = s.var;
    const Expr old(std::make_shared<const ExprNode>(std::move(v)));
    n.kind = StmtKind::Assign;
    keep(n.value);
    keep(old);
    n.value = apply(s.op, s.value->type, {old, n.value, Expr()});
    n.op = ScalarOp{};
  }

  Expr stored(const Expr& value, DType type, uint32_t buffer) {
    if (type != DType::Bool) return value;
    const Expr wide = select(value, integer(DType::U32, 1), integer(DType::U32, 0));
    return cast(plans_[buffer].element, wide);
  }

  bool spelled(ScalarOp op, DType t) const { return spelling_.can(op, t); }

  // What is already legal stays as it is.
  void keep(const Expr& e) {
    if (e) memo_[e.get()] = {e, e};
  }

  Expr lower(const Expr& e) {
    if (!e || error_) return e;
    if (const auto at = memo_.find(e.get()); at != memo_.end()) return at->second.to;
    if (++depth_ > 4 * kMaxNesting) {
      fail("an expression expands too deep");
      return e;
    }
    Expr y = lowerNode(e);
    --depth_;
    memo_[e.get()] = {e, y};
    if (y) keep(y);
    return y;
  }

  Expr lowerNode(const Expr& e) {
    switch (e->kind) {
      case ExprKind::Const: return literal(*e);
      case ExprKind::Var: {
        ExprNode n = *e;
        n.type = carrier(n.type);
        return n.type == e->type ? e : Expr(std::make_shared<const ExprNode>(std::move(n)));
      }
      case ExprKind::Param:
      case ExprKind::GroupId:
      case ExprKind::LocalId: return e;
      case ExprKind::Load: return loaded(e);
      case ExprKind::Apply: {
        std::array<Expr, 3> x;
        for (std::size_t i = 0; i < 3; ++i) x[i] = lower(e->args[i]);
        if (error_) return e;
        return apply(e->op, e->args[e->op == ScalarOp::Select ? 1 : 0]->type, x);
      }
      case ExprKind::Cast: {
        const Expr x = lower(e->args[0]);
        return error_ ? e : convert(e->type, e->args[0]->type, x);
      }
      case ExprKind::Bitcast: {
        const Expr x = lower(e->args[0]);
        return error_ ? e : fromBits(e->type, toBits(e->args[0]->type, x));
      }
    }
    return e;
  }

  Expr literal(const ExprNode& n) {
    const DType t = carrier(n.type);
    if (isFloat(n.type) && t != n.type)
      return integer(t, static_cast<int64_t>(fromDouble(n.type, n.fvalue)));
    if (n.type == DType::F16)
      return constant(n.type, toDouble(n.type, fromDouble(n.type, n.fvalue)));
    if (isFloat(n.type)) return constant(n.type, n.fvalue);
    return integer(t, n.ivalue);
  }

  Expr loaded(const Expr& e) {
    const Plan p = plans_[e->id];
    const Expr at = lower(e->args[0]);
    const Expr when = lower(e->args[1]);
    const Expr otherwise = lower(e->args[2]);
    if (error_) return e;
    if (!p.packed && e->type != DType::Bool)
      return when ? loadIf(e->id, p.element, at, when, otherwise) : load(e->id, p.element, at);
    Expr value;
    if (p.packed) {
      const int perWord = 4 / bytes(p.element);
      const Expr word = shr(at, index(perWord == 4 ? 2 : 1));
      const Expr raw = when ? loadIf(e->id, DType::U32, word, when, integer(DType::U32, 0))
                            : load(e->id, DType::U32, word);
      const Expr lane = bit_and(at, index(perWord - 1));
      const Expr shift = shl(lane, index(perWord == 4 ? 3 : 4));
      value = narrow(p.element, shr(raw, cast(DType::U32, shift)));
    } else {
      value = when ? loadIf(e->id, p.element, at, when, integer(p.element, 0))
                   : load(e->id, p.element, at);
    }
    if (e->type == DType::Bool) {
      const Expr set = ne(cast(DType::U32, value), integer(DType::U32, 0));
      return when ? select(when, set, otherwise) : set;
    }
    return when ? select(when, value, otherwise) : value;
  }

  // The low bits of a 32-bit integer as a narrow integer type, in its carrier.
  Expr narrow(DType t, const Expr& x) {
    const int w = info(t).bits;
    if (carrier(t) == t) return cast(t, x);
    if (!isSigned(t))
      return bit_and(cast(DType::U32, x), integer(DType::U32, (int64_t{1} << w) - 1));
    const Expr up = index(32 - w);
    return shr(shl(cast(DType::I32, x), up), up);
  }

  // A value of type t in its carrier, as computeType(t).
  Expr widen(DType t, const Expr& x) {
    if (t == DType::BF16) return brainToFloat(cast(DType::U32, x));
    if (t == DType::F16)
      return carrier(t) == t ? cast(DType::F32, x) : halfToFloat(cast(DType::U32, x));
    return cast(computeType(t), x);
  }

  bool computes(DType t) {
    if (t == DType::Bool || canCompute(caps_, t)) return true;
    fail("arithmetic on " + quoted(t) + ": the device has no " + quoted(t));
    return false;
  }

  // A value converted among the arithmetic types.
  Expr convertWide(DType to, const Expr& x) {
    const DType from = x->type;
    if (to == from || !computes(to) || !computes(from)) return x;
    if (to == DType::Bool)
      return apply(ScalarOp::Ne, from,
                   {x, isFloat(from) ? constant(from, 0) : integer(from, 0), Expr()});
    if (from == DType::Bool)
      return isFloat(to) ? select(x, constant(to, 1), constant(to, 0))
                         : select(x, integer(to, 1), integer(to, 0));
    if (isFloat(from) && isInteger(to)) return saturate(to, x);
    return cast(to, x);
  }

  Expr convert(DType to, DType from, const Expr& x) {
    if (to == from) return x;
    const Expr wide = widen(from, x);
    if (to == DType::F16 || to == DType::BF16) {
      if (!computes(wide->type)) return x;
      Expr f;
      if (wide->type == DType::F64)
        f = oddFloat(wide);
      else if (wide->type == DType::I32 || wide->type == DType::U32)
        f = cast(DType::F32, stickyInteger(wide));
      else
        f = convertWide(DType::F32, wide);
      if (carrier(to) == to) return cast(to, f);
      return cast(carrier(to), to == DType::F16 ? floatToHalf(f) : floatToBrain(f));
    }
    if (!isInteger(to) || info(to).bits >= 32) return convertWide(to, wide);
    if (!isFloat(wide->type)) {
      const Expr word = convertWide(computeType(to), wide);
      return error_ ? x : narrow(to, word);
    }
    const Expr whole = convertWide(DType::I32, wide);
    if (error_) return x;
    const int w = info(to).bits;
    const int64_t top = (int64_t{1} << (isSigned(to) ? w - 1 : w)) - 1;
    const int64_t bottom = isSigned(to) ? -top - 1 : 0;
    const Expr clamped = select(lt(whole, index(bottom)), index(bottom),
                                select(gt(whole, index(top)), index(top), whole));
    return narrow(to, clamped);
  }

  // The bits of a value as an unsigned integer: U64, or U32 for 32 bits and less.
  Expr toBits(DType t, const Expr& x) {
    const int w = info(t).bits;
    if (x->type == DType::F16) return cast(DType::U32, bitcast(DType::U16, x));
    if (isFloat(x->type)) return bitcast(w == 64 ? DType::U64 : DType::U32, x);
    if (w >= 32) return cast(w == 64 ? DType::U64 : DType::U32, x);
    return bit_and(cast(DType::U32, x), integer(DType::U32, (int64_t{1} << w) - 1));
  }
  Expr fromBits(DType t, const Expr& bits) {
    if (t == DType::F64 || t == DType::F32) return bitcast(t, bits);
    if (t == DType::F16 && carrier(t) == t) return bitcast(t, cast(DType::U16, bits));
    if (t == DType::F16 || t == DType::BF16) return cast(carrier(t), bits);
    return info(t).bits >= 32 ? cast(t, bits) : narrow(t, bits);
  }

  Expr apply(ScalarOp op, DType t, const std::array<Expr, 3>& x) {
    if (op == ScalarOp::Select) return select(x[0], x[1], x[2]);
    if (!computes(t)) return x[0];
    const bool unfused = op == ScalarOp::Fma && isFloat(t) && !spelling_.fusedFma;
    if (unfused && expanding_ > 0)
      return apply(ScalarOp::Add, t, {apply(ScalarOp::Mul, t, {x[0], x[1], Expr()}), x[2], Expr()});
    if (unfused || !spelled(op, t)) {
      Expr simpler = expandOp(op, t, x[0], x[1], x[2]);
      if (!simpler) {
        fail(std::string(info(op).name) + " on " + quoted(t) +
             ": the language has no such function and no expansion is known");
        return x[0];
      }
      // The operands are legal already.
      for (const Expr& e : x) keep(e);
      ++expanding_;
      Expr y = lower(simpler);
      --expanding_;
      return y;
    }
    const bool shift = op == ScalarOp::Shl || op == ScalarOp::Shr;
    if (isInteger(t) && (op == ScalarOp::Div || op == ScalarOp::Rem || shift))
      return guardInteger(op, x[0], x[1]);
    const Expr unused(0.0);
    return Expr::apply(op, x[0], x[1] ? x[1] : unused, x[2] ? x[2] : unused);
  }

  struct Lowered {
    Expr from, to;  // `from` keeps the key alive
  };
  const Kernel& k_;
  Kernel out_;
  const Caps& caps_;
  const Spelling& spelling_;
  std::vector<Plan> plans_;
  std::unordered_map<const ExprNode*, Lowered> memo_;
  std::optional<Error> error_;
  int depth_ = 0;
  int expanding_ = 0;
};

}  // namespace

Result<Kernel> legalize(const Kernel& kernel, const Caps& caps, const Spelling& spelling) {
  RLX_OK(verify(kernel));
  return Legalizer(kernel, caps, spelling).run();
}

}  // namespace rlx::kir
