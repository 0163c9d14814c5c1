// Memory operands of the CPU emitter: affine index analysis, hoisted partial sums of addresses, and
// loads and stores of scalars and lanes.
#include <algorithm>

#include "backend/cpu/emitter_lower.h"

namespace rlx::cpu {

using kir::ExprKind;

namespace {

enum SyntheticKind : int { kBase, kProduct, kScaled, kSum };

bool isScale(int64_t bytes) {
  return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

}  // namespace

// A memo key for something that is no expression of the kernel.
int Lowering::synthetic(int kind, int64_t a, int64_t b, int64_t c, uint64_t vars,
                        uint64_t buffers) {
  const Key key{{~uint64_t{0}, static_cast<uint64_t>(kind), static_cast<uint64_t>(a),
                 static_cast<uint64_t>(b), static_cast<uint64_t>(c)}};
  const auto [it, isNew] = byValue_.try_emplace(key, static_cast<int>(nodes_.size()));
  if (isNew) {
    Node n;
    n.kind = ExprKind::Const;
    n.type = DType::I64;
    n.vars = vars;
    n.buffers = buffers;
    nodes_.push_back(n);
    memo_.resize(nodes_.size() * kForms);
  }
  return it->second;
}

void Lowering::addTerm(Linear& l, const Term& t) const {
  for (Term& have : l.terms)
    if (have.atoms == t.atoms) {
      have.coefficient += t.coefficient;
      if (have.coefficient == 0) {
        have = l.terms.back();
        l.terms.pop_back();
      }
      return;
    }
  if (t.coefficient != 0) l.terms.push_back(t);
}

Lowering::Linear Lowering::linear(int id, int* budget) {
  const Node n = node(id);
  Linear l;
  if (n.kind == ExprKind::Const && isInteger(n.type)) {
    l.constant = n.ivalue;
    return l;
  }
  Linear atom;
  atom.terms.push_back({{-1, -1, id}, 1});
  if (--*budget <= 0 || n.type != DType::I32) return atom;
  if (n.kind == ExprKind::LocalId) return l;
  if (n.kind == ExprKind::Var) {
    const Binding& b = bindings_[n.id];
    if (b.kind == Binding::Kind::Constant) {
      l.constant = b.constant;
      l.level = b.value.level;
      return l;
    }
    return b.let >= 0 ? linear(b.let, budget) : atom;
  }
  if (n.kind != ExprKind::Apply) return atom;
  if (n.op == ScalarOp::Add || n.op == ScalarOp::Sub) {
    l = linear(n.args[0], budget);
    const Linear r = linear(n.args[1], budget);
    const int64_t sign = n.op == ScalarOp::Sub ? -1 : 1;
    l.constant += sign * r.constant;
    l.level = std::max(l.level, r.level);
    for (Term t : r.terms) {
      t.coefficient *= sign;
      addTerm(l, t);
    }
    return l;
  }
  if (n.op == ScalarOp::Neg) {
    l = linear(n.args[0], budget);
    l.constant = -l.constant;
    for (Term& t : l.terms) t.coefficient = -t.coefficient;
    return l;
  }
  if (n.op == ScalarOp::Mul || n.op == ScalarOp::Shl) {
    const Linear x = linear(n.args[0], budget);
    Linear y = linear(n.args[1], budget);
    if (n.op == ScalarOp::Shl) {
      if (!y.terms.empty() || y.constant < 0 || y.constant > 30) return atom;
      y.constant = int64_t{1} << y.constant;
    }
    if (x.terms.size() * y.terms.size() > 8) return atom;
    l.constant = x.constant * y.constant;
    l.level = std::max(x.level, y.level);
    for (Term t : x.terms) {
      t.coefficient *= y.constant;
      addTerm(l, t);
    }
    for (Term t : y.terms) {
      t.coefficient *= x.constant;
      addTerm(l, t);
    }
    for (const Term& a : x.terms)
      for (const Term& b : y.terms) {
        std::array<int, 6> all{};
        std::copy(a.atoms.begin(), a.atoms.end(), all.begin());
        std::copy(b.atoms.begin(), b.atoms.end(), all.begin() + 3);
        std::sort(all.begin(), all.end());
        if (all[2] >= 0) return atom;
        addTerm(l, {{all[3], all[4], all[5]}, a.coefficient * b.coefficient});
      }
    return l;
  }
  return atom;
}

// Stride one in the loop variable of the Vector loop.
bool Lowering::contiguous(const Linear& l) {
  int found = 0;
  for (const Term& t : l.terms) {
    bool is = false;
    for (int a : t.atoms) is = is || (a >= 0 && varying(a));
    if (!is) continue;
    const Node& n = node(t.atoms[2]);
    if (t.coefficient != 1 || t.atoms[1] >= 0 || n.kind != ExprKind::Var || n.id != ctx_.var)
      return false;
    ++found;
  }
  return found == 1;
}

// The sign-extended 64-bit value of an I32 expression that is the same for all lanes; of the loop
// variable of a Vector loop, the value of the first lane.
Lowering::Value Lowering::wide(int id) {
  if (const Memo* m = find(Form::Wide, id)) return m->value;
  const Node& n = node(id);
  if (n.kind == ExprKind::Const) {
    Value c;
    const Target t = place(0);
    auto* saved = std::exchange(list_, t.list);
    c.r[0] = gImm(n.ivalue);
    list_ = saved;
    remember(Form::Wide, id, c, t.scope);
    return c;
  }
  Value x = scalar(id);
  if (wideRegs_[static_cast<std::size_t>(x.r[0])] != 0) return x;
  const Target t = place(x.level);
  auto* saved = std::exchange(list_, t.list);
  x.r[0] = g(Op::GSext, DType::I64, ScalarOp::Add, x.r[0], kNone);
  list_ = saved;
  wideRegs_[static_cast<std::size_t>(x.r[0])] = 1;
  remember(Form::Wide, id, x, t.scope);
  return x;
}

Lowering::Value Lowering::product(const Term& t) {
  Value y = wide(t.atoms[2]);
  if (t.atoms[1] < 0) return y;
  uint64_t vars = 0, buffers = 0;
  for (int a : t.atoms)
    if (a >= 0) vars |= node(a).vars, buffers |= node(a).buffers;
  const int key = synthetic(kProduct, t.atoms[0], t.atoms[1], t.atoms[2], vars, buffers);
  if (const Memo* m = find(Form::Wide, key)) return m->value;
  std::vector<Value> factors;
  for (int i = 2; i >= 0; --i)
    if (t.atoms[static_cast<std::size_t>(i)] >= 0)
      factors.push_back(wide(t.atoms[static_cast<std::size_t>(i)]));
  for (const Value& f : factors) y.level = std::max(y.level, f.level);
  const Target at = place(y.level);
  auto* saved = std::exchange(list_, at.list);
  y.r[0] = factors[0].r[0];
  for (std::size_t i = 1; i < factors.size(); ++i)
    y.r[0] = g(Op::GWideMul, DType::I64, ScalarOp::Mul, y.r[0], factors[i].r[0]);
  list_ = saved;
  remember(Form::Wide, key, y, at.scope);
  return y;
}

Lowering::Value Lowering::scaled(const Term& t, int64_t bytes) {
  Value y = product(t);
  if (bytes == 1) return y;
  uint64_t vars = 0, buffers = 0;
  for (int a : t.atoms)
    if (a >= 0) vars |= node(a).vars, buffers |= node(a).buffers;
  const int key =
      synthetic(kScaled, (int64_t{t.atoms[0]} << 32) | static_cast<uint32_t>(t.atoms[1]),
                t.atoms[2], bytes, vars, buffers);
  if (const Memo* m = find(Form::Wide, key)) return m->value;
  const Target at = place(y.level);
  auto* saved = std::exchange(list_, at.list);
  if (bytes == static_cast<int32_t>(bytes))
    y.r[0] = g(Op::GWideMul, DType::I64, ScalarOp::Mul, y.r[0], kNone, bytes);
  else
    y.r[0] = g(Op::GWideMul, DType::I64, ScalarOp::Mul, y.r[0], gImm(bytes));
  list_ = saved;
  remember(Form::Wide, key, y, at.scope);
  return y;
}

Lowering::Value Lowering::basePointer(uint32_t buffer) {
  const int key = synthetic(kBase, buffer, 0, 0, 0, 0);
  if (const Memo* m = find(Form::Wide, key)) return m->value;
  Value y;
  const Target at = place(0);
  auto* saved = std::exchange(list_, at.list);
  y.r[0] = fresh(RegClass::Gpr, 8);
  const bool global = kernel_.buffers[buffer].space == kir::Space::Global;
  Inst& n = put(global ? Op::GLoad : Op::GLea, DType::I64);
  n.dst = y.r[0];
  n.base = global ? out_.entry.globals : kFrame;
  n.disp = global ? static_cast<int32_t>(8 * buffer) : arrays_[buffer];
  list_ = saved;
  remember(Form::Wide, key, y, at.scope);
  return y;
}

Lowering::Address Lowering::address(uint32_t buffer, const Linear& l) {
  const int64_t size = bytes(kernel_.buffers[buffer].type);
  struct Item {
    Term term;
    Value value;
  };
  std::vector<Item> items;
  for (const Term& t : l.terms) items.push_back({t, product(t)});
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    if (a.value.level != b.value.level) return a.value.level < b.value.level;
    return a.term.atoms < b.term.atoms;
  });
  Value sum = basePointer(buffer);
  int key = synthetic(kBase, buffer, 0, 0, 0, 0);
  Address out;
  out.level = l.level;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Term& t = items[i].term;
    const int64_t scale = t.coefficient * size;
    const Value x = isScale(scale) ? items[i].value : scaled(t, scale);
    const auto factor = static_cast<uint8_t>(isScale(scale) ? scale : 1);
    if (i + 1 == items.size()) {
      out.index = x.r[0];
      out.scale = factor;
      out.level = std::max({out.level, sum.level, x.level});
      break;
    }
    uint64_t vars = node(key).vars, buffers = node(key).buffers;
    for (int a : t.atoms)
      if (a >= 0) vars |= node(a).vars, buffers |= node(a).buffers;
    const int product =
        synthetic(kScaled, (int64_t{t.atoms[0]} << 32) | static_cast<uint32_t>(t.atoms[1]),
                  t.atoms[2], scale, vars, buffers);
    key = synthetic(kSum, key, product, scale, vars, buffers);
    if (const Memo* m = find(Form::Wide, key)) {
      sum = m->value;
      continue;
    }
    const int level = std::max(sum.level, x.level);
    const Target at = place(level);
    auto* saved = std::exchange(list_, at.list);
    Inst& n = put(Op::GLea, DType::I64);
    n.base = sum.r[0];
    n.index = x.r[0];
    n.scale = factor;
    const std::size_t where = list_->size() - 1;
    const Reg r = fresh(RegClass::Gpr, 8);
    (*list_)[where].dst = r;
    list_ = saved;
    sum = {};
    sum.r[0] = r;
    sum.level = level;
    remember(Form::Wide, key, sum, at.scope);
  }
  out.base = sum.r[0];
  out.level = std::max(out.level, sum.level);
  out.disp = l.constant * size;
  if (out.disp > (1 << 30) || out.disp < -(1 << 30)) {
    const Target at = place(sum.level);
    auto* saved = std::exchange(list_, at.list);
    out.base = g(Op::GWideAdd, DType::I64, ScalarOp::Add, out.base, gImm(out.disp));
    list_ = saved;
    out.disp = 0;
  }
  return out;
}

void Lowering::setMemory(Inst& n, const Address& a, int64_t extra) {
  n.base = a.base;
  n.index = a.index;
  n.scale = a.scale;
  n.disp = static_cast<int32_t>(a.disp + extra);
}

Reg Lowering::pointer(const Address& a, int64_t extra) {
  const Reg r = fresh(RegClass::Gpr, 8);
  Inst& n = put(Op::GLea, DType::I64);
  n.dst = r;
  setMemory(n, a, extra);
  return r;
}

Lowering::Value Lowering::scalarLoad(int id) {
  const Node n = node(id);
  const bool safe = n.args[1] >= 0;
  int budget = 64;
  const VectorContext ctx = std::exchange(ctx_, VectorContext{});
  Value when, other;
  if (safe) {
    when = scalar(n.args[1]);
    other = scalar(n.args[2]);
  }
  const Address a = address(n.id, linear(n.args[0], &budget));
  ctx_ = ctx;
  Value y;
  y.level = std::max({a.level, when.level, other.level, loadLevel(n.id, safe)});
  const Target t = place(y.level);
  auto* saved = std::exchange(list_, t.list);
  const bool vec = n.type == DType::F32 || n.type == DType::F64;
  y.r[0] = freshVector(n.type, 1);
  if (safe) {
    Inst& m = put(vec ? Op::VMov : Op::GMov, vec ? n.type : DType::I64);
    m.lanes = 1;
    m.dst = y.r[0];
    m.a = other.r[0];
  }
  Inst& m = put(vec ? (safe ? Op::FLoadIf : Op::VLoad) : (safe ? Op::GLoadIf : Op::GLoad), n.type);
  m.lanes = 1;
  m.dst = y.r[0];
  m.a = when.r[0];
  setMemory(m, a);
  list_ = saved;
  remember(Form::Scalar, id, y, t.scope);
  return y;
}

Reg Lowering::loadPart(DType t, const Address& a, int part, Reg mask) {
  const int size = bytes(t) * ctx_.lanes;
  if (mask >= 0 && !wideVector() && bytes(t) < 4) {
    const Reg p = pointer(a, int64_t{part} * size);
    const Reg bits = v(Op::MBits, DType::I32, mask);
    const Reg index = iota(0);
    Inst& st = put(Op::VStore, DType::I32);
    st.a = index;
    st.base = kFrame;
    Inst& c = put(Op::Call, t);
    c.a = p;
    c.b = bits;
    c.imm = reinterpret_cast<int64_t>(laneGather(bytes(t)));
    const Reg y = freshVector(t == DType::Bool ? DType::U8 : t, ctx_.lanes);
    Inst& ld = put(Op::VLoad, t == DType::Bool ? DType::U8 : t);
    ld.dst = y;
    ld.base = kFrame;
    ld.disp = kCallOut;
    return t == DType::Bool
               ? compareInteger(DType::I32, ScalarOp::Ne, widenTo(DType::I32, DType::U8, y),
                                integerConstant(DType::I32, 0))
               : y;
  }
  const DType stored = t == DType::Bool ? DType::U8 : t;
  const Reg m = mask >= 0 && !wideVector() ? maskFor(t, mask) : mask;
  const Reg y = freshVector(stored, ctx_.lanes);
  Inst& n = put(Op::VLoad, stored);
  n.dst = y;
  n.mask = m;
  setMemory(n, a, int64_t{part} * size);
  if (t != DType::Bool) return y;
  if (wideVector()) return v(Op::MFromBytes, DType::U8, y, kNone, kNone, freshMask(ctx_.lanes));
  return compareInteger(DType::I32, ScalarOp::Ne, widenTo(DType::I32, DType::U8, y),
                        integerConstant(DType::I32, 0));
}

void Lowering::storePart(DType t, const Address& a, int part, Reg value, Reg mask) {
  const int size = bytes(t) * ctx_.lanes;
  DType stored = t;
  if (t == DType::Bool) {
    stored = DType::U8;
    if (wideVector()) {
      const Reg ones = vectorConstant(DType::U8, 1);
      value = v(Op::MToBytes, DType::U8, value, ones, kNone, freshVector(DType::U8, ctx_.lanes));
    } else {
      value =
          narrow(DType::U8, DType::I32, v(Op::IShrI, DType::I32, value, kNone, kNone, kNone, 31));
    }
  }
  if (mask >= 0 && !wideVector() && bytes(t) < 4) {
    const Reg p = pointer(a, int64_t{part} * size);
    const Reg bits = v(Op::MBits, DType::I32, mask);
    const Reg index = iota(0);
    Inst& st = put(Op::VStore, DType::I32);
    st.a = index;
    st.base = kFrame;
    Inst& sv = put(Op::VStore, stored);
    sv.a = value;
    sv.base = kFrame;
    sv.disp = kCallSlot;
    Inst& c = put(Op::Call, stored);
    c.a = p;
    c.b = bits;
    c.imm = reinterpret_cast<int64_t>(laneScatter(bytes(t)));
    return;
  }
  const Reg m = mask >= 0 && !wideVector() ? maskFor(t, mask) : mask;
  Inst& n = put(Op::VStore, stored);
  n.a = value;
  n.mask = m;
  setMemory(n, a, int64_t{part} * size);
}

Reg Lowering::gatherPart(DType t, uint32_t buffer, Reg index, Reg mask) {
  const Reg base = basePointer(buffer).r[0];
  const DType stored = t == DType::Bool ? DType::U8 : t;
  const Reg y = freshVector(stored, ctx_.lanes);
  if (bytes(t) >= 4) {
    const Reg m = mask >= 0 && !wideVector() ? maskFor(t, mask) : mask;
    const Reg tmp = wideVector() ? kNone : fresh(RegClass::Vec, bytes(t) * ctx_.lanes);
    Inst& n = put(Op::VGather, t);
    n.dst = y;
    n.early = true;
    n.a = index;
    n.mask = m;
    n.base = base;
    n.tmp = tmp;
    return y;
  }
  Reg bits = kNone;
  if (mask >= 0)
    bits = v(Op::MBits, DType::I32, mask);
  else
    bits = gImm((int64_t{1} << ctx_.lanes) - 1);
  Inst& st = put(Op::VStore, DType::I32);
  st.a = index;
  st.base = kFrame;
  Inst& c = put(Op::Call, t);
  c.a = base;
  c.b = bits;
  c.imm = reinterpret_cast<int64_t>(laneGather(bytes(t)));
  Inst& ld = put(Op::VLoad, stored);
  ld.dst = y;
  ld.base = kFrame;
  ld.disp = kCallOut;
  if (t != DType::Bool) return y;
  if (wideVector()) return v(Op::MFromBytes, DType::U8, y, kNone, kNone, freshMask(ctx_.lanes));
  return compareInteger(DType::I32, ScalarOp::Ne, widenTo(DType::I32, DType::U8, y),
                        integerConstant(DType::I32, 0));
}

void Lowering::scatterPart(DType t, uint32_t buffer, Reg index, Reg value, Reg mask) {
  const Reg base = basePointer(buffer).r[0];
  DType stored = t;
  if (t == DType::Bool) {
    stored = DType::U8;
    if (wideVector())
      value = v(Op::MToBytes, DType::U8, value, vectorConstant(DType::U8, 1), kNone,
                freshVector(DType::U8, ctx_.lanes));
    else
      value =
          narrow(DType::U8, DType::I32, v(Op::IShrI, DType::I32, value, kNone, kNone, kNone, 31));
  }
  if (wideVector() && bytes(t) >= 4) {
    Inst& n = put(Op::VScatter, t);
    n.a = index;
    n.b = value;
    n.mask = mask;
    n.base = base;
    return;
  }
  Reg bits = kNone;
  if (mask >= 0)
    bits = v(Op::MBits, DType::I32, mask);
  else
    bits = gImm((int64_t{1} << ctx_.lanes) - 1);
  Inst& st = put(Op::VStore, DType::I32);
  st.a = index;
  st.base = kFrame;
  Inst& sv = put(Op::VStore, stored);
  sv.a = value;
  sv.base = kFrame;
  sv.disp = kCallSlot;
  Inst& c = put(Op::Call, stored);
  c.a = base;
  c.b = bits;
  c.imm = reinterpret_cast<int64_t>(laneScatter(bytes(t)));
}

Lowering::Value Lowering::vectorLoad(int id) {
  const Node n = node(id);
  int budget = 64;
  Value when, other;
  if (n.args[1] >= 0) {
    when = vector(n.args[1]);
    other = vector(n.args[2]);
  }
  const Linear l = linear(n.args[0], &budget);
  const bool direct = contiguous(l);
  Value index;
  Address a;
  if (direct) {
    a = address(n.id, l);
    index.level = a.level;
  } else {
    index = vector(n.args[0]);
  }
  Value y;
  // A masked load is as deep as the mask.
  y.level = std::max({index.level, when.level, other.level, loadLevel(n.id, false),
                      ctx_.exec.r[0] >= 0 ? ctx_.exec.level : 0, ctx_.level});
  const Target t = place(y.level);
  auto* saved = std::exchange(list_, t.list);
  for (int p = 0; p < ctx_.parts; ++p) {
    const auto i = static_cast<std::size_t>(p);
    Reg mask = ctx_.exec.r[i];
    if (when.r[i] >= 0) mask = mask >= 0 ? v(Op::MAnd, DType::Bool, mask, when.r[i]) : when.r[i];
    y.r[i] = direct ? loadPart(n.type, a, p, mask) : gatherPart(n.type, n.id, index.r[i], mask);
    if (when.r[i] >= 0) y.r[i] = blend(n.type, when.r[i], y.r[i], other.r[i]);
  }
  list_ = saved;
  remember(form(), id, y, t.scope);
  return y;
}

}  // namespace rlx::cpu
