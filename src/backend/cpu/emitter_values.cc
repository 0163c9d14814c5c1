// Expressions of the CPU emitter: interning, memo, and the scalar and lane-wise value of each node.
#include <algorithm>
#include <bit>

#include "backend/cpu/emitter_lower.h"
#include "kir/expand.h"

namespace rlx::cpu {

using kir::Expr;
using kir::ExprKind;

namespace {

bool inVector(DType t) {
  return t == DType::F32 || t == DType::F64;
}

}  // namespace

Lowering::Form Lowering::form() const {
  if (!ctx_.active) return Form::Scalar;
  if (ctx_.quad) return Form::Quad;
  return ctx_.lanes * 4 == vectorBytes() ? Form::Full : Form::Half;
}

const Lowering::Memo* Lowering::find(Form f, int id) const {
  const Memo& m = memo_[static_cast<std::size_t>(id) * kForms + static_cast<std::size_t>(f)];
  if (m.scope == 0 || alive_[m.scope] == 0) return nullptr;
  const Node& n = node(id);
  for (uint64_t b = n.vars; b != 0; b &= b - 1)
    if (varEpoch_[static_cast<std::size_t>(std::countr_zero(b))] > m.epoch) return nullptr;
  for (uint64_t b = n.buffers; b != 0; b &= b - 1)
    if (bufferEpoch_[static_cast<std::size_t>(std::countr_zero(b))] > m.epoch) return nullptr;
  return &m;
}

void Lowering::remember(Form f, int id, const Value& value, int scope) {
  memo(f, id) = {value, scopes_[static_cast<std::size_t>(scope)].serial, epoch_};
}

int Lowering::intern(const Expr& e) {
  if (const auto it = byPointer_.find(e.get()); it != byPointer_.end()) return it->second;
  Node n;
  n.kind = e->kind;
  n.type = e->weak ? DType::F32 : e->type;
  n.op = e->op;
  n.id = e->id;
  n.ivalue = e->ivalue;
  n.fvalue = e->fvalue;
  n.expr = e;
  for (std::size_t i = 0; i < 3; ++i)
    if (e->args[i]) {
      n.args[i] = intern(e->args[i]);
      n.vars |= node(n.args[i]).vars;
      n.buffers |= node(n.args[i]).buffers;
    }
  if (n.kind == ExprKind::Var && mutable_[n.id] != 0) n.vars |= uint64_t{1} << (n.id % 64);
  if (n.kind == ExprKind::Load) n.buffers |= uint64_t{1} << (n.id % 64);
  const auto word = [](int x) { return static_cast<uint64_t>(static_cast<uint32_t>(x)); };
  const Key key{{static_cast<uint64_t>(n.kind) | static_cast<uint64_t>(n.type) << 8 |
                     static_cast<uint64_t>(n.op) << 16,
                 static_cast<uint64_t>(n.ivalue), std::bit_cast<uint64_t>(n.fvalue),
                 word(n.args[0]) | word(n.args[1]) << 32,
                 word(n.args[2]) | static_cast<uint64_t>(n.id) << 32}};
  const auto [it, isNew] = byValue_.try_emplace(key, static_cast<int>(nodes_.size()));
  if (isNew) {
    nodes_.push_back(std::move(n));
    memo_.resize(nodes_.size() * kForms);
  } else if (node(it->second).expr.get() != e.get()) {
    nodes_.push_back(std::move(n));  // keeps the expression, and with it its address, alive
    memo_.resize(nodes_.size() * kForms);
  }
  byPointer_.emplace(e.get(), it->second);
  return it->second;
}

Reg Lowering::freshVector(DType t, int lanes) {
  if (lanes == 1) return inVector(t) ? fresh(RegClass::Vec, bytes(t)) : fresh(RegClass::Gpr, 8);
  if (t == DType::Bool) return freshMask(lanes);
  return fresh(RegClass::Vec, lanes * bytes(t));
}

Reg Lowering::freshMask(int lanes) {
  return wideVector() ? fresh(RegClass::Mask, 8) : fresh(RegClass::Vec, std::max(16, lanes * 4));
}

Reg Lowering::v(Op op, DType t, Reg a, Reg b, Reg c, Reg dst, int64_t imm) {
  if (dst < 0) {
    const bool mask = op == Op::MAnd || op == Op::MAndn || op == Op::MOr || op == Op::MXor ||
                      op == Op::MNot || op == Op::MSet || op == Op::MFromG;
    dst = op == Op::MBits || op == Op::VToG ? fresh(RegClass::Gpr, 8)
          : mask                            ? freshMask(lanes())
                                            : freshVector(t, lanes());
  }
  Inst& n = put(op, t);
  n.dst = dst;
  n.a = a;
  n.b = b;
  n.c = c;
  n.imm = imm;
  return dst;
}

Reg Lowering::g(Op op, DType t, ScalarOp s, Reg a, Reg b, int64_t imm, Reg dst) {
  if (dst < 0) dst = fresh(RegClass::Gpr, 8);
  Inst& n = put(op, t);
  n.scalar = s;
  n.dst = dst;
  n.a = a;
  n.b = b;
  n.imm = imm;
  return dst;
}

Reg Lowering::gImm(int64_t value) {
  return g(Op::GImm, DType::I64, ScalarOp::Add, kNone, kNone, value);
}

Reg Lowering::poolConstant(const std::string& data, int registerBytes) {
  const auto [it, isNew] = poolOffsets_.try_emplace(data, static_cast<int32_t>(out_.pool.size()));
  if (isNew) {
    const std::size_t align = std::max<std::size_t>(16, std::bit_ceil(data.size()));
    out_.pool.resize((out_.pool.size() + align - 1) / align * align, '\0');
    it->second = static_cast<int32_t>(out_.pool.size());
    out_.pool += data;
  }
  const Reg r = fresh(RegClass::Vec, registerBytes);
  out_.regs.back().pool = it->second;
  // Constants are defined at the outermost place, whatever needs them.
  auto* saved = std::exchange(list_, place(0).list);
  Inst& n = put(Op::VConst, DType::U8);
  n.dst = r;
  n.imm = it->second;
  list_ = saved;
  return r;
}

// All lanes `bits` of the type; the register is shared by equal constants.
Reg Lowering::vectorConstant(DType t, uint64_t bits) {
  const int size = bytes(t);
  const int id = synthetic(16 + size, static_cast<int64_t>(bits), 0, 0, 0, 0);
  const Form f = ctx_.active ? form() : Form::Scalar;
  if (const Memo* m = find(f, id)) return m->value.r[0];
  std::string data;
  const int registerBytes = !ctx_.active ? size : ctx_.quad ? 4 * size : vectorBytes();
  for (int i = 0; i < std::max(registerBytes, 16); i += size)
    data.append(reinterpret_cast<const char*>(&bits), static_cast<std::size_t>(size));
  Value y;
  y.r.fill(poolConstant(data, registerBytes));
  remember(f, id, y, place(0).scope);
  return y.r[0];
}

Reg Lowering::floatConstant(DType t, double value) {
  if (t == DType::F32) return vectorConstant(t, std::bit_cast<uint32_t>(static_cast<float>(value)));
  return vectorConstant(t, std::bit_cast<uint64_t>(value));
}

Reg Lowering::iota(int start) {
  const int id = synthetic(8, start, 0, 0, 0, 0);
  const Form f = form();
  if (const Memo* m = find(f, id)) return m->value.r[0];
  std::string data;
  for (int32_t i = 0; i < vectorBytes() / 4; ++i) {
    const int32_t x = start + i;
    data.append(reinterpret_cast<const char*>(&x), sizeof x);
  }
  Value y;
  y.r.fill(poolConstant(data, vectorBytes()));
  remember(f, id, y, place(0).scope);
  return y.r[0];
}

// The scalar value: the same for all lanes of a Vector loop.
Lowering::Value Lowering::scalar(int id) {
  if (const Memo* m = find(Form::Scalar, id)) return m->value;
  const VectorContext ctx = std::exchange(ctx_, VectorContext{});
  const Node n = node(id);
  Value y;
  const auto emit = [&](auto&& body) {
    const Target t = place(y.level);
    auto* saved = std::exchange(list_, t.list);
    y.r[0] = body();
    list_ = saved;
    remember(Form::Scalar, id, y, t.scope);
  };
  switch (n.kind) {
    case ExprKind::Const:
      emit([&] {
        if (inVector(n.type)) return floatConstant(n.type, n.fvalue);
        return gImm(isFloat(n.type) ? narrowBits(n.type, n.fvalue) : n.ivalue);
      });
      break;
    case ExprKind::Var: {
      const Binding& b = bindings_[n.id];
      if (b.kind == Binding::Kind::Constant) {
        y.level = b.value.level;
        emit([&] { return gImm(b.constant); });
        break;
      }
      if (b.kind != Binding::Kind::Scalar) {
        fail("variable " + kernel_.vars[n.id].name + " is used where it has no value");
        y.r[0] = freshVector(n.type, 1);
        break;
      }
      y = b.value;
      y.level = variableLevel(n.id, y.level);
      break;
    }
    case ExprKind::Param:
      emit([&] {
        const Reg r = fresh(RegClass::Gpr, 8);
        Inst& m = put(Op::GLoad, DType::I32);
        m.dst = r;
        m.base = out_.entry.params;
        m.disp = static_cast<int32_t>(4 * n.id);
        return g(Op::GSext, DType::I64, ScalarOp::Add, r, kNone);
      });
      wideRegs_[static_cast<std::size_t>(y.r[0])] = 1;
      break;
    case ExprKind::GroupId:
      y.level = 1;
      y.r[0] = group_[n.id];
      break;
    case ExprKind::LocalId: emit([&] { return gImm(0); }); break;
    case ExprKind::Load: y = scalarLoad(id); break;
    case ExprKind::Apply: y = scalarApply(n, id); break;
    case ExprKind::Cast: {
      const Value x = scalar(n.args[0]);
      y.level = x.level;
      emit([&] { return castScalar(n.type, node(n.args[0]).type, x.r[0]); });
      break;
    }
    case ExprKind::Bitcast: {
      const Value x = scalar(n.args[0]);
      const DType from = node(n.args[0]).type;
      y = x;
      if (inVector(from) != inVector(n.type))
        emit([&] {
          return v(inVector(from) ? Op::VToG : Op::VFromG, inVector(from) ? from : n.type, x.r[0]);
        });
      else if (info(n.type).bits < 32)
        emit([&] { return g(Op::GExtend, n.type, ScalarOp::Add, x.r[0], kNone); });
      break;
    }
  }
  ctx_ = ctx;
  return y;
}

Lowering::Value Lowering::scalarApply(const Node& n, int id) {
  Value y;
  if (const int root = expansion(n); root >= 0) {
    const Value x = scalar(n.args[0]);
    ctx_.active = true;
    ctx_.quad = true;
    ctx_.lanes = 4;
    ctx_.leaves = {n.args[0]};
    y = expanded(id, root);
    ctx_ = {};
    (void)x;
    const Target t = place(y.level);
    remember(Form::Scalar, id, y, t.scope);
    return y;
  }
  std::array<Reg, 3> r{kNone, kNone, kNone};
  for (std::size_t i = 0; i < 3; ++i)
    if (n.args[i] >= 0) {
      const Value x = scalar(n.args[i]);
      r[i] = x.r[0];
      y.level = std::max(y.level, x.level);
    }
  const std::size_t typed = n.op == ScalarOp::Select ? 1 : 0;
  const Target t = place(y.level);
  auto* saved = std::exchange(list_, t.list);
  y.r[0] = apply(n.op, node(n.args[typed]).type, n.args, r[0], r[1], r[2], kNone);
  list_ = saved;
  remember(Form::Scalar, id, y, t.scope);
  return y;
}

// The root of the expansion of an F32 function, or -1 when it has none.
int Lowering::expansion(const Node& n) {
  if (n.kind != ExprKind::Apply || n.type != DType::F32 || info(n.op).arity != 1) return -1;
  if (n.op == ScalarOp::Exp && wideVector()) return -1;  // exponential()
  const uint64_t key = static_cast<uint64_t>(n.op) << 32 | static_cast<uint32_t>(n.args[0]);
  if (const auto it = expansions_.find(key); it != expansions_.end()) return it->second;
  const std::optional<Expr> e = kir::expandUnary(n.op, node(n.args[0]).expr);
  const int root = e ? intern(*e) : -1;
  expansions_.emplace(key, root);
  return root;
}

// The value of an expansion, and for sin and cos the library's value where arguments are large.
Lowering::Value Lowering::expanded(int id, int root) {
  Value y = vector(root);
  const Node n = node(id);
  if (n.op != ScalarOp::Sin && n.op != ScalarOp::Cos) return y;
  const Value x = vector(n.args[0]);
  y.level = std::max(y.level, x.level);
  const Target t = place(y.level);
  auto* saved = std::exchange(list_, t.list);
  for (int p = 0; p < ctx_.parts; ++p) {
    const auto i = static_cast<std::size_t>(p);
    y.r[i] = largeArguments(n.op, x.r[i], y.r[i]);
  }
  list_ = saved;
  return y;
}

Lowering::Value Lowering::broadcast(DType t, const Value& s) {
  Value y;
  y.level = s.level;
  if (inVector(t))
    y.r.fill(v(Op::VBroadcast, t, s.r[0]));
  else if (t == DType::Bool)
    y.r.fill(v(Op::MFromG, t, s.r[0]));
  else
    y.r.fill(v(Op::VBroadcastG, t, s.r[0]));
  return y;
}

Lowering::Value Lowering::vector(int id) {
  const Form f = form();
  if (const Memo* m = find(f, id)) return m->value;
  const Node n = node(id);
  Value y;
  const auto emit = [&](auto&& body) {
    const Target t = place(y.level);
    auto* saved = std::exchange(list_, t.list);
    body();
    list_ = saved;
    remember(f, id, y, t.scope);
  };
  if (n.kind == ExprKind::Const) {
    if (n.type == DType::Bool) {
      emit([&] { y.r.fill(v(Op::MSet, DType::Bool, kNone, kNone, kNone, kNone, n.ivalue)); });
    } else if (inVector(n.type)) {
      y.r.fill(floatConstant(n.type, n.fvalue));
    } else {
      y.r.fill(integerConstant(n.type, isFloat(n.type) ? narrowBits(n.type, n.fvalue) : n.ivalue));
    }
    return y;
  }
  if (ctx_.quad && std::find(ctx_.leaves.begin(), ctx_.leaves.end(), id) != ctx_.leaves.end())
    return scalar(id);
  if (!varying(id)) {
    const bool direct = n.kind == ExprKind::Load && n.args[1] < 0 && bytes(n.type) >= 4 &&
                        find(Form::Scalar, id) == nullptr;
    if (direct) {
      int budget = 64;
      const VectorContext ctx = std::exchange(ctx_, VectorContext{});
      const Address a = address(n.id, linear(n.args[0], &budget));
      ctx_ = ctx;
      y.level = std::max(a.level, loadLevel(n.id, false));
      emit([&] {
        y.r.fill(freshVector(n.type, ctx_.lanes));
        Inst& m = put(Op::VBroadcastMem, n.type);
        m.dst = y.r[0];
        setMemory(m, a);
      });
      return y;
    }
    const Value s = scalar(id);
    y.level = s.level;
    emit([&] { y = broadcast(n.type, s); });
    return y;
  }
  switch (n.kind) {
    case ExprKind::Var: {
      const Binding& b = bindings_[n.id];
      if (b.kind == Binding::Kind::Vector) {
        y = b.value;
        y.level = variableLevel(n.id, y.level);
        return y;
      }
      y.level = b.value.level;
      emit([&] {
        const Reg first = v(Op::VBroadcastG, DType::I32, b.value.r[0]);
        for (int p = 0; p < ctx_.parts; ++p)
          y.r[static_cast<std::size_t>(p)] = v(Op::IAdd, DType::I32, first, iota(p * ctx_.lanes));
      });
      return y;
    }
    case ExprKind::Load: return vectorLoad(id);
    case ExprKind::Apply: {
      if (const int root = expansion(n); root >= 0) {
        y = expanded(id, root);
        remember(f, id, y, place(y.level).scope);
        return y;
      }
      std::array<Value, 3> x;
      for (std::size_t i = 0; i < 3; ++i)
        if (n.args[i] >= 0) {
          x[i] = vector(n.args[i]);
          y.level = std::max(y.level, x[i].level);
        }
      const std::size_t typed = n.op == ScalarOp::Select ? 1 : 0;
      emit([&] {
        for (int p = 0; p < ctx_.parts; ++p) {
          const auto i = static_cast<std::size_t>(p);
          y.r[i] =
              apply(n.op, node(n.args[typed]).type, n.args, x[0].r[i], x[1].r[i], x[2].r[i], kNone);
        }
      });
      return y;
    }
    case ExprKind::Cast:
    case ExprKind::Bitcast: {
      const Value x = vector(n.args[0]);
      const DType from = node(n.args[0]).type;
      y = x;
      if (n.kind == ExprKind::Bitcast) {
        remember(f, id, y, place(y.level).scope);
        return y;
      }
      emit([&] {
        for (int p = 0; p < ctx_.parts; ++p) {
          const auto i = static_cast<std::size_t>(p);
          y.r[i] = castPart(n.type, from, x.r[i]);
        }
      });
      return y;
    }
    case ExprKind::Const:
    case ExprKind::Param:
    case ExprKind::GroupId:
    case ExprKind::LocalId: break;
  }
  fail("an expression that differs between lanes");
  return y;
}

}  // namespace rlx::cpu
