#include "base/result.h"
#include "kir/kernel.h"

namespace rlx::kir {
namespace {

Expr make(ExprNode n) {
  return Expr(std::make_shared<const ExprNode>(std::move(n)));
}

int width(DType t) {
  return t == DType::Bool ? 1 : info(t).bits;
}

int64_t wrap(DType t, scalar::Wide v) {
  const int w = width(t);
  if (w >= 64) return static_cast<int64_t>(v);
  const scalar::Wide m = (scalar::Wide{1} << w) - 1;
  v &= m;
  if (isSigned(t) && (v >> (w - 1)) != 0) v -= m + 1;
  return static_cast<int64_t>(v);
}

scalar::Wide wide(const ExprNode& n) {
  if (n.type == DType::U64) return static_cast<scalar::Wide>(static_cast<uint64_t>(n.ivalue));
  return n.ivalue;
}

bool isIntegral(DType t) {
  return rlx::isInteger(t) || t == DType::Bool;
}

Expr typed(DType t, const Expr& x) {
  if (!x || !x->weak) return x;
  return isIntegral(t) ? integer(t, static_cast<int64_t>(x->fvalue)) : constant(t, x->fvalue);
}

}  // namespace

Expr::Expr(double weakLiteral) {
  ExprNode n;
  n.kind = ExprKind::Const;
  n.type = DType::F64;
  n.weak = true;
  n.fvalue = weakLiteral;
  node_ = std::make_shared<const ExprNode>(std::move(n));
}

Expr constant(DType type, double value) {
  ExprNode n;
  n.kind = ExprKind::Const;
  n.type = type;
  n.fvalue = type == DType::F32 ? static_cast<double>(static_cast<float>(value)) : value;
  return make(std::move(n));
}

Expr integer(DType type, int64_t value) {
  ExprNode n;
  n.kind = ExprKind::Const;
  n.type = type;
  n.ivalue = wrap(type, value);
  return make(std::move(n));
}

Expr zero(DType type) {
  if (!isFloat(type)) return integer(type, 0);
  return cast(type, constant(computeType(type), 0));
}

static Expr builtin(ExprKind kind, int axis) {
  ExprNode n;
  n.kind = kind;
  n.type = DType::I32;
  n.id = static_cast<uint32_t>(axis);
  return make(std::move(n));
}
Expr groupId(int axis) {
  return builtin(ExprKind::GroupId, axis);
}
Expr localId(int axis) {
  return builtin(ExprKind::LocalId, axis);
}

Expr cast(DType type, const Expr& x) {
  if (x->weak) return typed(type, x);
  if (x->type == type) return x;
  if (x->kind == ExprKind::Const && isIntegral(x->type) && rlx::isInteger(type))
    return integer(type, x->ivalue);
  if (x->kind == ExprKind::Const && isIntegral(x->type) &&
      (type == DType::F32 || type == DType::F64))
    return constant(type, static_cast<double>(wide(*x)));
  ExprNode n;
  n.kind = ExprKind::Cast;
  n.type = type;
  n.args[0] = x;
  return make(std::move(n));
}

Expr bitcast(DType type, const Expr& x) {
  RLX_CHECK(!x->weak && info(type).bits == info(x->type).bits, "bitcast between different widths");
  if (x->type == type) return x;
  ExprNode n;
  n.kind = ExprKind::Bitcast;
  n.type = type;
  n.args[0] = x;
  return make(std::move(n));
}

Expr load(uint32_t buffer, DType type, const Expr& at) {
  ExprNode n;
  n.kind = ExprKind::Load;
  n.type = type;
  n.id = buffer;
  n.args[0] = typed(DType::I32, at);
  return make(std::move(n));
}

Expr loadIf(uint32_t buffer, DType type, const Expr& at, const Expr& when, const Expr& otherwise) {
  int64_t always = 0;
  if (isInteger(when, &always)) return always ? load(buffer, type, at) : typed(type, otherwise);
  ExprNode n;
  n.kind = ExprKind::Load;
  n.type = type;
  n.id = buffer;
  n.args = {typed(DType::I32, at), when, typed(type, otherwise)};
  return make(std::move(n));
}

bool isInteger(const Expr& x, int64_t* value) {
  if (!x || x->kind != ExprKind::Const || x->weak || !isIntegral(x->type)) return false;
  if (value) *value = x->ivalue;
  return true;
}

bool same(const Expr& a, const Expr& b) {
  if (a.get() == b.get()) return true;
  if (!a || !b) return false;
  if (a->kind != b->kind || a->type != b->type || a->weak != b->weak || a->id != b->id ||
      a->ivalue != b->ivalue || a->op != b->op ||
      !(a->fvalue == b->fvalue || (a->fvalue != a->fvalue && b->fvalue != b->fvalue)))
    return false;
  if (a->kind == ExprKind::Const && std::signbit(a->fvalue) != std::signbit(b->fvalue))
    return false;
  for (int i = 0; i < 3; ++i)
    if (!same(a->args[static_cast<std::size_t>(i)], b->args[static_cast<std::size_t>(i)]))
      return false;
  return true;
}

Expr Expr::apply(ScalarOp op, const Expr& a0, const Expr& b0, const Expr& c0) {
  const int n = info(op).arity;
  std::array<Expr, 3> x{a0, n > 1 ? b0 : Expr(), n > 2 ? c0 : Expr()};
  const int first = op == ScalarOp::Select ? 1 : 0;
  bool allWeak = true;
  DType type = DType::F64;
  for (int i = n - 1; i >= first; --i)
    if (const Expr& e = x[static_cast<std::size_t>(i)]; !e->weak) allWeak = false, type = e->type;
  if (op == ScalarOp::Select) {
    x[0] = typed(DType::Bool, x[0]);
    int64_t c = 0;
    if (isInteger(x[0], &c)) return c ? x[1] : x[2];
    if (allWeak) type = DType::F32;
    allWeak = false;
  }
  if (allWeak)
    return Expr(
        scalar::value(op, x[0]->fvalue, n > 1 ? x[1]->fvalue : 0, n > 2 ? x[2]->fvalue : 0));
  for (int i = first; i < n; ++i) {
    Expr& e = x[static_cast<std::size_t>(i)];
    e = typed(type, e);
    RLX_CHECK(e->type == type, "operand types of a scalar op differ");
  }
  const DType result = info(op).result == ScalarResult::Bool ? DType::Bool : type;
  if (isIntegral(type) && op != ScalarOp::Select) {
    int64_t va = 0, vb = 0, vc = 0;
    const bool ka = isInteger(x[0], &va), kb = n > 1 && isInteger(x[1], &vb),
               kc = n > 2 && isInteger(x[2], &vc);
    if (ka && (n < 2 || kb) && (n < 3 || kc))
      return integer(result,
                     wrap(result, scalar::integerValue(op, wide(*x[0]), n > 1 ? wide(*x[1]) : 0,
                                                       n > 2 ? wide(*x[2]) : 0, width(type))));
    if (op == ScalarOp::Add && ka && va == 0) return x[1];
    if ((op == ScalarOp::Add || op == ScalarOp::Sub) && kb && vb == 0) return x[0];
    if (op == ScalarOp::Mul && ((ka && va == 0) || (kb && vb == 0))) return integer(type, 0);
    if (op == ScalarOp::Mul && ka && va == 1) return x[1];
    if (op == ScalarOp::Mul && kb && vb == 1) return x[0];
    if (op == ScalarOp::Div && kb && vb == 1) return x[0];
    if ((op == ScalarOp::Rem || op == ScalarOp::Mod) && kb && (vb == 1)) return integer(type, 0);
    if (type == DType::Bool && op == ScalarOp::And) {
      if (ka) return va ? x[1] : x[0];
      if (kb) return vb ? x[0] : x[1];
    }
    if (type == DType::Bool && op == ScalarOp::Or) {
      if (ka) return va ? x[0] : x[1];
      if (kb) return vb ? x[1] : x[0];
    }
  }
  ExprNode node;
  node.kind = ExprKind::Apply;
  node.type = result;
  node.op = op;
  node.args = x;
  return make(std::move(node));
}

}  // namespace rlx::kir
