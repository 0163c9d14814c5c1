#include "kir/cost.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "kir/number.h"

namespace rlx::kir {
namespace {

using Known = std::optional<int64_t>;

class Estimator {
 public:
  Estimator(const Kernel& k, std::array<int64_t, 3> grid, std::span<const int32_t> params)
      : k_(k), grid_(grid), params_(params), vars_(k.vars.size()) {}

  Cost run() {
    double lanes = 1;
    for (std::size_t i = 0; i < 3; ++i)
      lanes *= static_cast<double>(grid_[i]) * static_cast<double>(k_.block[i]);
    block(k_.body, lanes);
    return cost_;
  }

 private:
  void block(const std::vector<Stmt>& body, double times) {
    for (const Stmt& s : body) {
      seen_.clear();
      for (const Expr* e : {&s.value, &s.index, &s.condition, &s.lo, &s.hi})
        if (*e) count(*e, times);
      switch (s.kind) {
        case StmtKind::Let:
        case StmtKind::Mutable:
          vars_[s.var] = s.kind == StmtKind::Let ? value(s.value) : Known();
          break;
        case StmtKind::Accumulate:
          if (isFloat(s.value->type)) cost_.flops += times;
          break;
        case StmtKind::Store:
          if (k_.buffers[s.buffer].space == Space::Global)
            cost_.storeBytes += times * bytes(k_.buffers[s.buffer].type);
          break;
        case StmtKind::For: {
          const Known lo = value(s.lo), hi = value(s.hi);
          const double turns =
              lo && hi
                  ? static_cast<double>(std::max<int64_t>(0, (*hi - *lo + s.step - 1) / s.step))
                  : 1;
          vars_[s.var] = lo && hi ? Known((*lo + *hi) / 2) : Known();
          if (turns > 0) block(s.body, times * turns);
          break;
        }
        case StmtKind::If:
          block(s.body, times);
          block(s.otherwise, times);
          break;
        case StmtKind::Assign:
        case StmtKind::Barrier: break;
      }
    }
  }

  void count(const Expr& e, double times) {
    if (!seen_.insert(e.get()).second) return;
    for (const Expr& a : e->args)
      if (a) count(a, times);
    if (e->kind == ExprKind::Load && k_.buffers[e->id].space == Space::Global)
      cost_.loadBytes += times * bytes(k_.buffers[e->id].type);
    if (e->kind == ExprKind::Apply && e->op != ScalarOp::Select && isFloat(e->type))
      cost_.flops += e->op == ScalarOp::Fma ? 2 * times : times;
  }

  // Integers only; nothing where a loaded value takes part.
  Known value(const Expr& e) {
    values_.clear();
    return walk(e);
  }
  Known walk(const Expr& e) {
    if (const auto at = values_.find(e.get()); at != values_.end()) return at->second;
    const Known v = node(*e);
    values_.emplace(e.get(), v);
    return v;
  }
  Known node(const ExprNode& n) {
    switch (n.kind) {
      case ExprKind::Const: return isIntegral(n.type) ? Known(n.ivalue) : Known();
      case ExprKind::Var: return vars_[n.id];
      case ExprKind::Param: return n.id < params_.size() ? Known(params_[n.id]) : Known();
      case ExprKind::GroupId: return grid_[n.id] / 2;
      case ExprKind::LocalId: return k_.block[n.id] / 2;
      case ExprKind::Cast: {
        const Known x = walk(n.args[0]);
        if (!x || !isIntegral(n.type)) return Known();
        return static_cast<int64_t>(wrapBits(n.type, *x));
      }
      case ExprKind::Apply: {
        std::array<scalar::Wide, 3> x{};
        const DType t = n.args[n.op == ScalarOp::Select ? 1 : 0]->type;
        if (isFloat(t)) return Known();
        for (std::size_t i = 0; i < static_cast<std::size_t>(info(n.op).arity); ++i) {
          const Known v = walk(n.args[i]);
          if (!v) return Known();
          x[i] = wideInteger(n.args[i]->type, static_cast<Bits>(*v));
        }
        return static_cast<int64_t>(
            wrapBits(n.type, scalar::integerValue(n.op, x[0], x[1], x[2], valueBits(t))));
      }
      case ExprKind::Load:
      case ExprKind::Bitcast: return Known();
    }
    return Known();
  }

  const Kernel& k_;
  std::array<int64_t, 3> grid_;
  std::span<const int32_t> params_;
  std::vector<Known> vars_;
  std::unordered_set<const ExprNode*> seen_;
  std::unordered_map<const ExprNode*, Known> values_;
  Cost cost_;
};

}  // namespace

Cost cost(const Kernel& kernel, std::array<int64_t, 3> grid, std::span<const int32_t> params) {
  return Estimator(kernel, grid, params).run();
}

}  // namespace rlx::kir
