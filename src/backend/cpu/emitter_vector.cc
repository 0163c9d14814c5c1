// Vector loops: which can run in lanes, how many lanes and parts, and the stages of one loop:
// blocks of several vectors, single vectors, one masked vector.
#include <algorithm>

#include "backend/cpu/emitter_lower.h"

namespace rlx::cpu {

using kir::ExprKind;
using kir::Stmt;
using kir::StmtKind;

bool Lowering::varying(int id) {
  if (!ctx_.active) return false;
  if (ctx_.quad) return true;
  if (varyMemo_.size() < nodes_.size()) varyMemo_.resize(nodes_.size() + 64, 0);
  const uint32_t known = varyMemo_[static_cast<std::size_t>(id)];
  if (known >> 1 == ctx_.serial) return (known & 1) != 0;
  const Node& n = node(id);
  bool is = n.kind == ExprKind::Var && varyingVar_[n.id] != 0;
  for (int a : n.args)
    if (a >= 0 && varying(a)) is = true;
  varyMemo_[static_cast<std::size_t>(id)] = ctx_.serial << 1 | (is ? 1U : 0U);
  return is;
}

// Grows the set of varying variables; true when it grew.
bool Lowering::spread(const std::vector<Stmt>& body, bool under) {
  bool grew = false;
  for (const Stmt& s : body) {
    switch (s.kind) {
      case StmtKind::Let:
      case StmtKind::Mutable:
        inside_[s.var] = 1;
        if (varyingVar_[s.var] == 0 && varying(intern(s.value)))
          varyingVar_[s.var] = 1, grew = true;
        break;
      case StmtKind::Assign:
      case StmtKind::Accumulate:
        if (inside_[s.var] != 0 && varyingVar_[s.var] == 0 && (under || varying(intern(s.value))))
          varyingVar_[s.var] = 1, grew = true;
        break;
      case StmtKind::For:
        inside_[s.var] = 1;
        grew = spread(s.body, under) || grew;
        break;
      case StmtKind::If: {
        const bool u = under || varying(intern(s.condition));
        grew = spread(s.body, u) || grew;
        grew = spread(s.otherwise, u) || grew;
        break;
      }
      case StmtKind::Store:
      case StmtKind::Barrier: break;
    }
  }
  return grew;
}

// False when a statement cannot run in lanes. Registers the reductions.
bool Lowering::vectorizable(const std::vector<Stmt>& body, bool outer) {
  for (const Stmt& s : body) {
    if (s.kind == StmtKind::Assign && inside_[s.var] == 0) return false;
    if (s.kind == StmtKind::Accumulate && inside_[s.var] == 0) {
      if (reduced_[s.var] != 0 && reduceOp_[s.var] != s.op) return false;
      reduced_[s.var] = 1;
      reduceOp_[s.var] = s.op;
    }
    if (s.kind == StmtKind::For && (varying(intern(s.lo)) || varying(intern(s.hi)))) return false;
    if (s.kind == StmtKind::Store && !varying(intern(s.index)) &&
        (varying(intern(s.value)) || (s.condition && varying(intern(s.condition)))))
      return false;
    if (!vectorizable(s.body, false) || !vectorizable(s.otherwise, false)) return false;
  }
  if (!outer) return true;
  // A reduction may not be read while it is partial.
  std::vector<const std::vector<Stmt>*> work{&body};
  const auto reads = [&](const kir::Expr& e) {
    if (!e) return false;
    std::vector<int> open{intern(e)};
    std::vector<uint8_t> seen(nodes_.size(), 0);
    while (!open.empty()) {
      const int id = open.back();
      open.pop_back();
      if (seen[static_cast<std::size_t>(id)] != 0) continue;
      seen[static_cast<std::size_t>(id)] = 1;
      const Node& n = node(id);
      if (n.vars == 0) continue;
      if (n.kind == ExprKind::Var && reduced_[n.id] != 0) return true;
      for (int a : n.args)
        if (a >= 0) open.push_back(a);
    }
    return false;
  };
  while (!work.empty()) {
    const auto* list = work.back();
    work.pop_back();
    for (const Stmt& s : *list) {
      for (const auto* e : {&s.value, &s.index, &s.condition, &s.lo, &s.hi})
        if (reads(*e)) return false;
      work.push_back(&s.body);
      work.push_back(&s.otherwise);
    }
  }
  return true;
}

void Lowering::measure(const std::vector<Stmt>& body) {
  const auto wideType = [&](DType t) {
    if (info(t).bits == 64) measured_.wideTypes = true;
  };
  std::vector<uint8_t> seen(nodes_.size() + 256, 0);
  const auto count = [&](const kir::Expr& e) {
    if (!e) return;
    std::vector<int> open{intern(e)};
    while (!open.empty()) {
      const auto id = static_cast<std::size_t>(open.back());
      open.pop_back();
      if (seen.size() <= id) seen.resize(2 * id);
      if (seen[id] != 0) continue;
      seen[id] = 1;
      const Node n = nodes_[id];
      if (!varying(static_cast<int>(id))) continue;
      wideType(n.type);
      measured_.nodes += expansion(n) >= 0 ? 16 : 1;
      for (int a : n.args)
        if (a >= 0) open.push_back(a);
    }
  };
  for (const Stmt& s : body) {
    if (s.kind == StmtKind::Mutable && varyingVar_[s.var] != 0) ++measured_.accumulators;
    if (s.kind == StmtKind::Accumulate && inside_[s.var] == 0) ++measured_.accumulators;
    if (s.kind == StmtKind::For) measured_.nested = true;
    if (s.kind == StmtKind::If && varying(intern(s.condition))) measured_.branches = true;
    if (s.kind == StmtKind::Store) {
      wideType(kernel_.buffers[s.buffer].type);
      ++measured_.nodes;
    }
    if (s.kind == StmtKind::Accumulate || s.kind == StmtKind::Mutable)
      wideType(kernel_.vars[s.var].type);
    if (s.kind != StmtKind::If) count(s.value);
    if (s.condition) count(s.condition);
    if (s.index) {
      int budget = 64;
      if (varying(intern(s.index)) && !contiguous(linear(intern(s.index), &budget))) count(s.index);
    }
    measure(s.body);
    measure(s.otherwise);
  }
}

bool Lowering::vectorLoop(const Stmt& s, int lo, int hi) {
  std::fill(varyingVar_.begin(), varyingVar_.end(), uint8_t{0});
  std::fill(inside_.begin(), inside_.end(), uint8_t{0});
  std::fill(reduced_.begin(), reduced_.end(), uint8_t{0});
  ctx_ = {};
  ctx_.active = true;
  ctx_.var = s.var;
  varyingVar_[s.var] = 1;
  do {
    ctx_.serial = ++contexts_;
  } while (spread(s.body, false));
  ctx_.serial = ++contexts_;
  if (!vectorizable(s.body, true)) {
    ctx_ = {};
    std::fill(reduced_.begin(), reduced_.end(), uint8_t{0});
    return false;
  }
  measured_ = {};
  measure(s.body);
  const int lanes = vectorBytes() / (measured_.wideTypes ? 8 : 4);
  const int file = wideVector() ? 32 : 16;
  int parts = 1;
  const int wanted = measured_.nested || measured_.nodes <= 10 ? 4 : measured_.nodes <= 48 ? 2 : 1;
  if (!measured_.branches)
    for (int p = 2; p <= wanted; p *= 2)
      if (measured_.accumulators * p + p + 1 <= file) parts = p;
  int budget = 64;
  const Linear l = linear(lo, &budget), h = linear(hi, &budget);
  if (l.terms.empty() && h.terms.empty())
    while (parts > 1 && h.constant - l.constant < int64_t{parts} * lanes) parts /= 2;
  ctx_.lanes = lanes;
  vectorStages(s, lo, hi, parts);
  ctx_ = {};
  std::fill(reduced_.begin(), reduced_.end(), uint8_t{0});
  return true;
}

void Lowering::vectorStages(const Stmt& s, int lo, int hi, int parts) {
  const VectorContext ctx = ctx_;
  ctx_.active = false;
  int budget = 64;
  const Linear l = linear(lo, &budget), h = linear(hi, &budget);
  const bool constantHi = h.terms.empty(), constantTrips = constantHi && l.terms.empty();
  const Value first = l.terms.empty() ? Value{} : wide(lo);
  const Value last = constantHi ? Value{} : wide(hi);
  list_ = &current();
  const Reg j = fresh(RegClass::Gpr, 8);
  wideRegs_[static_cast<std::size_t>(j)] = 1;
  Inst& n = put(first.r[0] >= 0 ? Op::GMov : Op::GImm, DType::I64);
  n.dst = j;
  n.a = first.r[0];
  n.imm = l.constant;
  ctx_ = ctx;
  for (std::size_t var = 0; var < reduced_.size(); ++var) {
    if (reduced_[var] == 0) continue;
    for (int p = 0; p < parts; ++p) {
      const DType t = kernel_.vars[var].type;
      const Reg start = neutral(reduceOp_[var], t);
      list_ = &current();
      reduction_[var][static_cast<std::size_t>(p)] = v(Op::VMov, t, start);
    }
  }
  const Effects e = effects(s.body);
  invalidate(e);
  int64_t left = constantTrips ? h.constant - l.constant : -1;
  const auto run = [&](int p, bool masked) {
    const int64_t step = int64_t{p} * ctx.lanes;
    int64_t trips = -1;
    if (left >= 0) {
      trips = masked ? (left > 0 ? 1 : 0) : left / step;
      left = masked ? 0 : left % step;
      if (trips == 0) return;
    }
    stage(s, j, last.r[0], h.constant, p, masked, trips);
    invalidate(e);
  };
  if (parts > 1) run(parts, false);
  run(1, false);
  run(1, true);
  ctx_ = ctx;
  list_ = &current();
  for (std::size_t var = 0; var < reduced_.size(); ++var) {
    if (reduced_[var] == 0) continue;
    const DType t = kernel_.vars[var].type;
    const ScalarOp op = reduceOp_[var];
    Parts r = reduction_[var];
    for (int half = parts / 2; half >= 1; half /= 2)
      for (int p = 0; p < half; ++p) {
        const auto i = static_cast<std::size_t>(p);
        r[i] =
            apply(op, t, {-1, -1, -1}, r[i], r[i + static_cast<std::size_t>(half)], kNone, kNone);
      }
    const Reg total = reduceLanes(op, t, r[0]);
    ctx_.active = false;
    const Reg acc = bindings_[var].value.r[0];
    const Reg y = apply(op, t, {-1, -1, -1}, acc, total, kNone, kNone);
    (void)v(Op::VMov, t, y, kNone, kNone, acc);
    ctx_ = ctx;
  }
  invalidate(e);
  bindings_[s.var] = {};
}

// trips: how often the stage runs, or -1 when that is known only at run time.
void Lowering::stage(const Stmt& s, Reg j, Reg hi, int64_t hiConstant, int parts, bool masked,
                     int64_t trips) {
  const VectorContext saved = ctx_;
  const Effects e = effects(s.body);
  const int64_t step = int64_t{parts} * ctx_.lanes;
  const int exit = newLabel(), top = newLabel();
  // The last j that has a whole step: j < limit.
  Reg limit = hi;
  const int64_t limitConstant = hiConstant - (masked ? 0 : step - 1);
  if (hi >= 0 && !masked) limit = g(Op::GWideAdd, DType::I64, ScalarOp::Add, hi, kNone, 1 - step);
  if (trips < 0) jump(Op::JumpGe, exit, j, limit, limitConstant);
  const bool loop = !masked && trips != 1;
  const int scope = pushScope(loop        ? ScopeKind::Loop
                              : trips > 0 ? ScopeKind::Plain
                                          : ScopeKind::Branch,
                              e, trips > 0);
  ctx_.parts = parts;
  ctx_.level = scope;
  if (masked) {
    Reg rest;
    if (hi >= 0) {
      rest = g(Op::GWideAdd, DType::I64, ScalarOp::Sub, hi, j);
    } else {
      const Reg h = gImm(hiConstant);
      rest = g(Op::GWideAdd, DType::I64, ScalarOp::Sub, h, j);
    }
    ctx_.exec.r[0] = v(Op::MTail, DType::I32, rest, wideVector() ? kNone : iota(0), kNone,
                       freshMask(ctx_.lanes));
    ctx_.exec.level = scope;
  }
  Binding& b = bindings_[s.var];
  b = {};
  b.kind = Binding::Kind::Scalar;
  b.value.r[0] = j;
  b.value.level = scope;
  statements(s.body);
  list_ = &current();
  Scope done = std::move(scopes_.back());
  alive_[done.serial] = 0;
  scopes_.pop_back();
  list_ = &current();
  if (loop) {
    list_->insert(list_->end(), done.before.begin(), done.before.end());
    put(Op::LoopBegin).label = top;
    list_->insert(list_->end(), done.body.begin(), done.body.end());
  }
  if (!masked) (void)g(Op::GWideAdd, DType::I64, ScalarOp::Add, j, kNone, step, j);
  if (loop) {
    Inst& n = put(Op::LoopEnd, DType::I64);
    n.label = top;
    n.a = j;
    n.b = limit;
    n.imm = limitConstant;
  }
  label(exit);
  ctx_ = saved;
}

}  // namespace rlx::cpu
