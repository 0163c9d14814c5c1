#include "backend/cpu/emitter_lower.h"

#include <algorithm>
#include <bit>

namespace rlx::cpu {

using kir::Expr;
using kir::ExprKind;
using kir::LoopKind;
using kir::Stmt;
using kir::StmtKind;

namespace {

constexpr int kMaxUnroll = 64;
constexpr int64_t kMaxFrame = 1 << 20;

uint64_t bloom(uint32_t id) {
  return uint64_t{1} << (id % 64);
}

}  // namespace

void Lowering::fail(std::string message) {
  if (error_.empty()) error_ = std::move(message);
}

Inst& Lowering::put(Op op, DType t) {
  Inst n;
  n.op = op;
  n.type = t;
  n.lanes = static_cast<uint8_t>(lanes());
  list_->push_back(n);
  return list_->back();
}

Reg Lowering::fresh(RegClass cls, int bytes) {
  out_.regs.push_back({cls, static_cast<uint8_t>(bytes), -1});
  wideRegs_.push_back(0);
  variableRegs_.push_back(0);
  return static_cast<Reg>(out_.regs.size() - 1);
}

void Lowering::jump(Op op, int l, Reg a, Reg b, int64_t imm) {
  Inst& n = put(op, DType::I64);
  n.a = a;
  n.b = b;
  n.imm = imm;
  n.label = l;
}

void Lowering::label(int l) {
  put(Op::Label).label = l;
}

int Lowering::pushScope(ScopeKind kind, const Effects& e, bool certain) {
  Scope s;
  s.kind = kind;
  s.certain = certain;
  s.serial = static_cast<uint32_t>(alive_.size());
  s.effects = e;
  if (kind == ScopeKind::Loop) s.before.reserve(32), s.body.reserve(128);
  alive_.push_back(1);
  scopes_.push_back(std::move(s));
  list_ = &current();
  return static_cast<int>(scopes_.size()) - 1;
}

// The list of the innermost loop; other scopes append to it.
std::vector<Inst>& Lowering::current() {
  for (std::size_t i = scopes_.size(); i-- > 0;)
    if (scopes_[i].kind == ScopeKind::Loop || i == 0) return scopes_[i].body;
  RLX_UNREACHABLE("no scope");
}

Lowering::Target Lowering::place(int level) {
  int scope = level;
  for (std::size_t i = static_cast<std::size_t>(level) + 1; i < scopes_.size(); ++i) {
    if (scopes_[i].kind == ScopeKind::Loop) return {&scopes_[i].before, static_cast<int>(i)};
    if (scopes_[i].kind == ScopeKind::Branch) scope = static_cast<int>(i);
  }
  return {&current(), scope};
}

int Lowering::variableLevel(uint32_t var, int declared) const {
  if (!mutable_[var]) return declared;
  for (int i = static_cast<int>(scopes_.size()) - 1; i > declared; --i)
    if ((scopes_[static_cast<std::size_t>(i)].effects.vars & bloom(var)) != 0) return i;
  return declared;
}

// The outermost scope in which a load of the buffer gives the same value and may be done. A safe
// load is one that may run when the program would not run it.
int Lowering::loadLevel(uint32_t buffer, bool safe) const {
  bool certain = true;
  int level = static_cast<int>(scopes_.size()) - 1;
  for (; level > 0; --level) {
    const Scope& s = scopes_[static_cast<std::size_t>(level)];
    if ((s.effects.buffers & bloom(buffer)) != 0) break;
    if (s.kind == ScopeKind::Branch && !safe) break;
    if (s.kind == ScopeKind::Loop) {
      if (!certain && !safe) break;
      certain = certain && s.certain;
    }
  }
  return level;
}

Lowering::Effects Lowering::effects(const std::vector<Stmt>& body) const {
  Effects e;
  for (const Stmt& s : body) {
    if (s.kind == StmtKind::Assign || s.kind == StmtKind::Accumulate || s.kind == StmtKind::Mutable)
      e.vars |= bloom(s.var);
    if (s.kind == StmtKind::Store) e.buffers |= bloom(s.buffer);
    for (const auto* nested : {&s.body, &s.otherwise}) {
      const Effects inner = effects(*nested);
      e.vars |= inner.vars;
      e.buffers |= inner.buffers;
    }
  }
  return e;
}

void Lowering::invalidate(const Effects& e) {
  ++epoch_;
  for (std::size_t i = 0; i < 64; ++i) {
    if ((e.vars >> i & 1) != 0) varEpoch_[i] = epoch_;
    if ((e.buffers >> i & 1) != 0) bufferEpoch_[i] = epoch_;
  }
}

void Lowering::statements(const std::vector<Stmt>& body) {
  for (const Stmt& s : body) {
    if (!error_.empty()) return;
    list_ = &current();
    statement(s);
  }
  list_ = &current();
}

void Lowering::statement(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::Let: {
      const int e = intern(s.value);
      Binding& b = bindings_[s.var];
      const bool vec = ctx_.active && varying(e);
      Value val = vec ? vector(e) : scalar(e);
      list_ = &current();
      // A variable keeps its register when it changes: the Let needs its own.
      const VectorContext saved = ctx_;
      if (!vec) ctx_.active = false;
      for (Reg& r : val.r)
        if (r >= 0 && variableRegs_[static_cast<std::size_t>(r)] != 0) {
          r = v(Op::VMov, node(e).type, r);
          val.level = static_cast<int>(scopes_.size()) - 1;
        }
      ctx_ = saved;
      b.kind = vec ? Binding::Kind::Vector : Binding::Kind::Scalar;
      b.value = val;
      b.let = node(e).vars == 0 && node(e).buffers == 0 ? e : -1;
      return;
    }
    case StmtKind::Mutable:
    case StmtKind::Assign: {
      const int e = intern(s.value);
      const bool vec = ctx_.active && varyingVar_[s.var] != 0;
      if (ctx_.active && !vec && s.kind == StmtKind::Assign && inside_[s.var] == 0)
        return fail("assignment to an outer variable in a vector loop");
      assign(s.var, vec ? vector(e) : scalar(e), s.kind == StmtKind::Mutable);
      return;
    }
    case StmtKind::Accumulate: return accumulate(s);
    case StmtKind::Store: return store(s);
    case StmtKind::For: return forLoop(s);
    case StmtKind::If: return ifStatement(s);
    case StmtKind::Barrier: return;
  }
}

void Lowering::assign(uint32_t var, const Value& val, bool declare) {
  list_ = &current();
  Binding& b = bindings_[var];
  const DType t = kernel_.vars[var].type;
  const bool vec = ctx_.active && varyingVar_[var] != 0;
  const int parts = vec ? ctx_.parts : 1;
  if (declare) {
    b.kind = vec ? Binding::Kind::Vector : Binding::Kind::Scalar;
    b.let = -1;
    b.value = {};
    b.value.level = static_cast<int>(scopes_.size()) - 1;
    for (int p = 0; p < parts; ++p) {
      const Reg r = freshVector(t, vec ? ctx_.lanes : 1);
      variableRegs_[static_cast<std::size_t>(r)] = 1;
      b.value.r[static_cast<std::size_t>(p)] = r;
    }
  }
  // All parts of a shuffle of variables are read before any is written: one variable at a time.
  for (int p = 0; p < parts; ++p) {
    const auto i = static_cast<std::size_t>(p);
    if (vec && !declare && ctx_.taken.r[i] >= 0) {
      (void)blend(t, ctx_.taken.r[i], val.r[i], b.value.r[i], b.value.r[i]);
      continue;
    }
    Inst& n = put(Op::VMov, t);
    n.lanes = static_cast<uint8_t>(vec ? ctx_.lanes : 1);
    n.dst = b.value.r[i];
    n.a = val.r[i];
  }
  invalidate({bloom(var), 0});
}

void Lowering::accumulate(const Stmt& s) {
  const int e = intern(s.value);
  const DType t = kernel_.vars[s.var].type;
  const bool reduces = ctx_.active && reduced_[s.var] != 0;
  const bool vec = ctx_.active && (reduces || varyingVar_[s.var] != 0);
  const Node& n = node(e);
  const bool fused = s.op == ScalarOp::Add && isFloat(t) && n.kind == ExprKind::Apply &&
                     n.op == ScalarOp::Mul && find(vec ? form() : Form::Scalar, e) == nullptr;
  const auto eval = [&](int id) { return vec ? vector(id) : scalar(id); };
  Value a, b;
  if (fused)
    a = eval(n.args[0]), b = eval(n.args[1]);
  else
    a = eval(e);
  list_ = &current();
  const Parts& acc = reduces ? reduction_[s.var] : bindings_[s.var].value.r;
  const VectorContext saved = ctx_;
  if (!vec) ctx_.active = false;
  const int parts = vec ? ctx_.parts : 1;
  for (int p = 0; p < parts; ++p) {
    const auto i = static_cast<std::size_t>(p);
    const Reg off = !vec ? kNone : reduces ? ctx_.exec.r[i] : ctx_.taken.r[i];
    const Reg dst = off >= 0 ? kNone : acc[i];
    Reg y = kNone;
    if (fused)
      y = v(Op::FFma, t, a.r[i], b.r[i], acc[i], dst);
    else
      y = apply(s.op, t, {-1, -1, -1}, acc[i], a.r[i], kNone, dst);
    if (off >= 0)
      (void)blend(t, off, y, acc[i], acc[i]);
    else if (y != acc[i])
      (void)v(Op::VMov, t, y, kNone, kNone, acc[i]);
  }
  ctx_ = saved;
  invalidate({bloom(s.var), 0});
}

void Lowering::store(const Stmt& s) {
  const DType t = kernel_.buffers[s.buffer].type;
  const int e = intern(s.value), at = intern(s.index);
  const int cond = s.condition ? intern(s.condition) : -1;
  const bool vec = ctx_.active && (varying(e) || varying(at) || (cond >= 0 && varying(cond)));
  int skip = -1;
  if (cond >= 0 && !(ctx_.active && varying(cond))) {
    const Value c = scalar(cond);
    list_ = &current();
    skip = newLabel();
    jump(Op::JumpZero, skip, c.r[0]);
    pushScope(ScopeKind::Branch, {}, false);
  }
  int budget = 64;
  if (!vec) {
    const Value val = scalar(e);
    const Address a = address(s.buffer, linear(at, &budget));
    list_ = &current();
    const bool isVec = t == DType::F32 || t == DType::F64;
    Inst& n = put(isVec ? Op::VStore : Op::GStore, t);
    n.lanes = 1;
    n.a = val.r[0];
    setMemory(n, a);
  } else {
    const Value val = vector(e);
    Value mask = ctx_.exec;
    if (cond >= 0 && varying(cond)) {
      const Value c = vector(cond);
      list_ = &current();
      for (int p = 0; p < ctx_.parts; ++p) {
        const auto i = static_cast<std::size_t>(p);
        mask.r[i] = mask.r[i] >= 0 ? v(Op::MAnd, DType::Bool, mask.r[i], c.r[i]) : c.r[i];
      }
    }
    const Linear l = linear(at, &budget);
    const bool direct = contiguous(l);
    Address a;
    Value index;
    if (direct)
      a = address(s.buffer, l);
    else
      index = vector(at);
    list_ = &current();
    for (int p = 0; p < ctx_.parts; ++p) {
      const auto i = static_cast<std::size_t>(p);
      if (direct)
        storePart(t, a, p, val.r[i], mask.r[i]);
      else
        scatterPart(t, s.buffer, index.r[i], val.r[i], mask.r[i]);
    }
  }
  if (skip >= 0) {
    list_ = &current();
    label(skip);
    alive_[scopes_.back().serial] = 0;
    scopes_.pop_back();
  }
  invalidate({0, bloom(s.buffer)});
}

void Lowering::ifStatement(const Stmt& s) {
  const int c = intern(s.condition);
  const bool vec = ctx_.active && varying(c);
  int64_t known = 0;
  if (kir::isInteger(s.condition, &known)) return statements(known != 0 ? s.body : s.otherwise);
  const auto branch = [&](const std::vector<Stmt>& body) {
    pushScope(ScopeKind::Branch, effects(body), false);
    statements(body);
    alive_[scopes_.back().serial] = 0;
    scopes_.pop_back();
    list_ = &current();
  };
  if (!vec) {
    const Value cond = scalar(c);
    list_ = &current();
    const int no = newLabel(), end = newLabel();
    jump(Op::JumpZero, no, cond.r[0]);
    branch(s.body);
    if (!s.otherwise.empty()) jump(Op::Jump, end);
    label(no);
    if (!s.otherwise.empty()) branch(s.otherwise);
    label(end);
    return;
  }
  const Value cond = vector(c);
  list_ = &current();
  const VectorContext saved = ctx_;
  const auto side = [&](const std::vector<Stmt>& body, Reg m) {
    if (body.empty()) return;
    const auto both = [&](Reg outer) {
      return outer >= 0 ? v(Op::MAnd, DType::Bool, outer, m) : m;
    };
    ctx_.exec.r[0] = both(saved.exec.r[0]);
    ctx_.taken.r[0] = both(saved.taken.r[0]);
    const Reg bits = v(Op::MBits, DType::I32, ctx_.exec.r[0]);
    const int skip = newLabel();
    jump(Op::JumpZero, skip, bits);
    branch(body);
    label(skip);
    ctx_ = saved;
  };
  side(s.body, cond.r[0]);
  if (!s.otherwise.empty()) side(s.otherwise, v(Op::MNot, DType::Bool, cond.r[0]));
}

void Lowering::forLoop(const Stmt& s) {
  const int lo = intern(s.lo), hi = intern(s.hi);
  int budget = 64;
  const Linear l = linear(lo, &budget), h = linear(hi, &budget);
  if (s.step <= 0) return fail("a loop whose step is not positive");
  if (l.terms.empty() && h.terms.empty()) {
    const int64_t trips =
        h.constant > l.constant ? (h.constant - l.constant + s.step - 1) / s.step : 0;
    if (trips == 0) return;
    const bool vectors = s.loop == LoopKind::Vector && !ctx_.active;
    if ((trips == 1 && !vectors) || (s.loop == LoopKind::Unroll && trips <= kMaxUnroll)) {
      const Effects e = effects(s.body);
      for (int64_t i = 0; i < trips; ++i) {
        Binding& b = bindings_[s.var];
        b = {};
        b.kind = Binding::Kind::Constant;
        b.constant = l.constant + i * s.step;
        b.value.level = pushScope(ScopeKind::Plain, e, false);
        statements(s.body);
        alive_[scopes_.back().serial] = 0;
        scopes_.pop_back();
      }
      bindings_[s.var] = {};
      return;
    }
  }
  if (s.loop == LoopKind::Vector && s.step == 1 && !ctx_.active && vectorLoop(s, lo, hi)) return;
  serialLoop(s, lo, hi);
}

// Moves the finished loop scope, with its guard and jump back, to the list of its parent.
void Lowering::serialLoop(const Stmt& s, int lo, int hi) {
  int budget = 64;
  const Linear l = linear(lo, &budget), h = linear(hi, &budget);
  const bool constantHi = h.terms.empty();
  const bool certain = l.terms.empty() && constantHi && h.constant > l.constant;
  const Value first = l.terms.empty() ? Value{} : wide(lo);
  const Value last = constantHi ? Value{} : wide(hi);
  list_ = &current();
  const Reg j = fresh(RegClass::Gpr, 8);
  wideRegs_[static_cast<std::size_t>(j)] = 1;
  if (first.r[0] >= 0) {
    Inst& n = put(Op::GMov, DType::I64);
    n.dst = j;
    n.a = first.r[0];
  } else {
    Inst& n = put(Op::GImm, DType::I64);
    n.dst = j;
    n.imm = l.constant;
  }
  const Effects e = effects(s.body);
  invalidate(e);
  const int exit = newLabel(), top = newLabel();
  if (!certain) jump(Op::JumpGe, exit, j, last.r[0], h.constant);
  const int scope = pushScope(ScopeKind::Loop, e, certain);
  Binding& b = bindings_[s.var];
  b = {};
  b.kind = Binding::Kind::Scalar;
  b.value.r[0] = j;
  b.value.level = scope;
  statements(s.body);
  Scope done = std::move(scopes_.back());
  alive_[done.serial] = 0;
  scopes_.pop_back();
  list_ = &current();
  list_->insert(list_->end(), done.before.begin(), done.before.end());
  put(Op::LoopBegin).label = top;
  list_->insert(list_->end(), done.body.begin(), done.body.end());
  (void)g(Op::GWideAdd, DType::I64, ScalarOp::Add, j, kNone, s.step, j);
  Inst& n = put(Op::LoopEnd, DType::I64);
  n.label = top;
  n.a = j;
  n.b = last.r[0];
  n.imm = h.constant;
  label(exit);
  invalidate(e);
  bindings_[s.var] = {};
}

void Lowering::groupLoop() {
  // Axes of the first group by division, of the others by counting with carry.
  const Effects e = effects(kernel_.body);
  const auto move = [&](Reg dst, Reg a) {
    Inst& n = put(Op::GMov, DType::I64);
    n.dst = dst;
    n.a = a;
  };
  Entry& en = out_.entry;
  std::array<Reg, 2> extent{};
  for (std::size_t i = 0; i < 2 && usesGroups_; ++i) {
    Inst& n = put(Op::GLoad, DType::I64);
    n.dst = extent[i] = fresh(RegClass::Gpr, 8);
    n.base = en.grid;
    n.disp = static_cast<int32_t>(8 * i);
  }
  const Reg group = fresh(RegClass::Gpr, 8);
  move(group, en.begin);
  Reg rest = en.begin;
  const int exit = newLabel(), top = newLabel(), carried = newLabel();
  jump(Op::JumpGe, exit, group, en.end);
  for (std::size_t i = 0; i < 3 && usesGroups_; ++i) {
    group_[i] = fresh(RegClass::Gpr, 8);
    wideRegs_[static_cast<std::size_t>(group_[i])] = 1;
    if (i == 2) {
      move(group_[i], rest);
      break;
    }
    const Reg whole = g(Op::GDiv, DType::U64, ScalarOp::Div, rest, extent[i]);
    const Reg covered = g(Op::GWideMul, DType::I64, ScalarOp::Mul, whole, extent[i]);
    (void)g(Op::GWideAdd, DType::I64, ScalarOp::Sub, rest, covered, 0, group_[i]);
    rest = whole;
  }
  pushScope(ScopeKind::Loop, e, true);
  statements(kernel_.body);
  Scope done = std::move(scopes_.back());
  alive_[done.serial] = 0;
  scopes_.pop_back();
  list_ = &current();
  list_->insert(list_->end(), done.before.begin(), done.before.end());
  put(Op::LoopBegin).label = top;
  list_->insert(list_->end(), done.body.begin(), done.body.end());
  for (std::size_t i = 0; i < 3 && usesGroups_; ++i) {
    (void)g(Op::GWideAdd, DType::I64, ScalarOp::Add, group_[i], kNone, 1, group_[i]);
    if (i == 2) break;
    jump(Op::JumpLt, carried, group_[i], extent[i]);
    Inst& n = put(Op::GImm, DType::I64);
    n.dst = group_[i];
  }
  label(carried);
  (void)g(Op::GWideAdd, DType::I64, ScalarOp::Add, group, kNone, 1, group);
  Inst& n = put(Op::LoopEnd, DType::I64);
  n.label = top;
  n.a = group;
  n.b = en.end;
  label(exit);
}

Result<MachineCode> Lowering::run() {
  if (kernel_.block != std::array<int32_t, 3>{1, 1, 1})
    return Error(Errc::Unsupported, kernel_.name + ": a block other than 1x1x1 on the CPU");
  out_.isa = isa_;
  byPointer_.reserve(256);
  byValue_.reserve(256);
  memo_.reserve(256 * kForms);
  bindings_.resize(kernel_.vars.size());
  for (auto* flags : {&mutable_, &varyingVar_, &inside_, &reduced_})
    flags->assign(kernel_.vars.size(), 0);
  reduceOp_.assign(kernel_.vars.size(), ScalarOp::Add);
  reduction_.assign(kernel_.vars.size(), Parts{kNone, kNone, kNone, kNone});
  std::vector<const std::vector<Stmt>*> work{&kernel_.body};
  std::vector<const Expr*> exprs;
  while (!work.empty()) {
    const auto* body = work.back();
    work.pop_back();
    for (const Stmt& s : *body) {
      if (s.kind == StmtKind::Mutable) mutable_[s.var] = 1;
      for (const auto* e : {&s.value, &s.index, &s.condition, &s.lo, &s.hi})
        if (*e) exprs.push_back(e);
      work.push_back(&s.body);
      work.push_back(&s.otherwise);
    }
  }
  for (const Expr* e : exprs) (void)intern(*e);
  for (const Node& n : nodes_) usesGroups_ = usesGroups_ || n.kind == ExprKind::GroupId;
  int64_t frame = kCallBytes;
  for (const kir::Buffer& b : kernel_.buffers) {
    const bool known = b.type == DType::F16 || b.type == DType::BF16 || b.type == DType::Bool ||
                       b.type == DType::F32 || b.type == DType::F64 ||
                       (isInteger(b.type) && isPlain(b.type));
    if (!known)
      return Error(Errc::Unsupported,
                   kernel_.name + ": buffer " + b.name + " of type " + std::string(name(b.type)));
    arrays_.push_back(static_cast<int32_t>(frame));
    if (b.space == kir::Space::Global) continue;
    frame += (storageBytes(b.type, b.elements) + 63) / 64 * 64;
    if (frame > kMaxFrame)
      return Error(Errc::Unsupported, kernel_.name + ": more than 1 MiB of local arrays");
  }
  out_.frameBytes = static_cast<int32_t>(frame);
  for (Reg* r : {&out_.entry.globals, &out_.entry.params, &out_.entry.grid, &out_.entry.begin,
                 &out_.entry.end})
    *r = fresh(RegClass::Gpr, 8);
  pushScope(ScopeKind::Loop, {}, true);
  groupLoop();
  out_.code = std::move(scopes_[0].body);
  if (!error_.empty()) return Error(Errc::Unsupported, kernel_.name + ": " + error_);
  return std::move(out_);
}

Result<MachineCode> lowerKernel(const kir::Kernel& kernel, IsaLevel isa) {
  return Lowering(kernel, isa).run();
}

}  // namespace rlx::cpu
