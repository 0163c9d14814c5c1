#include "kir/share.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace rlx::kir {
namespace {

constexpr int kDeep = 48;

bool isLeaf(const Expr& e) {
  return e->kind == ExprKind::Const || e->kind == ExprKind::Var || e->kind == ExprKind::Param ||
         e->kind == ExprKind::GroupId || e->kind == ExprKind::LocalId;
}

class Sharer {
 public:
  Sharer(Kernel& k, ShareOptions options) : k_(k), options_(options) {}

  std::vector<Stmt> block(std::vector<Stmt> body) {
    std::vector<Stmt> out;
    out.reserve(body.size());
    for (Stmt& s : body) {
      if (s.kind == StmtKind::Store && s.condition) {
        s.condition = roots({s.condition}, out)[0];
        std::vector<Stmt> inner;
        store(s, inner);
        if (inner.empty()) {
          out.push_back(std::move(s));
          continue;
        }
        Stmt guard;
        guard.kind = StmtKind::If;
        guard.condition = std::exchange(s.condition, Expr());
        inner.push_back(std::move(s));
        guard.body = std::move(inner);
        out.push_back(std::move(guard));
        continue;
      }
      if (s.kind == StmtKind::Store) {
        store(s, out);
      } else {
        auto fresh = roots({s.value, s.condition, s.lo, s.hi}, out);
        s.value = fresh[0], s.condition = fresh[1], s.lo = fresh[2], s.hi = fresh[3];
      }
      s.body = block(std::move(s.body));
      s.otherwise = block(std::move(s.otherwise));
      out.push_back(std::move(s));
    }
    return out;
  }

 private:
  void store(Stmt& s, std::vector<Stmt>& out) {
    auto fresh = roots({s.index, s.value}, out);
    s.index = fresh[0];
    s.value = fresh[1];
    if (options_.nameStores && s.value->kind == ExprKind::Apply && isFloat(s.value->type))
      s.value = name(s.value, out);
  }

  Expr name(const Expr& e, std::vector<Stmt>& out) {
    Stmt let;
    let.kind = StmtKind::Let;
    let.var = static_cast<uint32_t>(k_.vars.size());
    let.value = e;
    k_.vars.push_back({"t", e->type});
    ExprNode n;
    n.kind = ExprKind::Var;
    n.type = e->type;
    n.id = let.var;
    out.push_back(std::move(let));
    return Expr(std::make_shared<const ExprNode>(std::move(n)));
  }

  std::array<Expr, 4> roots(std::array<Expr, 4> in, std::vector<Stmt>& out) {
    uses_.clear();
    done_.clear();
    for (const Expr& e : in)
      if (e) count(e);
    for (Expr& e : in)
      if (e) e = rebuild(e, out, /*root=*/true);
    return in;
  }

  // Depth in tree terms stops counting at a node that will be named.
  int count(const Expr& e) {
    if (isLeaf(e)) return 0;
    Use& use = uses_[e.get()];
    if (use.times++ > 0) return 0;
    int depth = 0;
    for (const Expr& a : e->args)
      if (a) depth = std::max(depth, count(a));
    Use& mine = uses_[e.get()];
    mine.deep = depth + 1 >= kDeep;
    return mine.deep ? 0 : depth + 1;
  }

  Expr rebuild(const Expr& e, std::vector<Stmt>& out, bool root) {
    if (isLeaf(e)) return e;
    if (const auto at = done_.find(e.get()); at != done_.end()) return at->second;
    ExprNode n = *e;
    bool changed = false;
    for (Expr& a : n.args) {
      if (!a) continue;
      Expr fresh = rebuild(a, out, false);
      changed = changed || fresh.get() != a.get();
      a = std::move(fresh);
    }
    Expr fresh = changed ? Expr(std::make_shared<const ExprNode>(std::move(n))) : e;
    const Use& use = uses_[e.get()];
    if (use.times > 1 || (use.deep && !root)) fresh = name(fresh, out);
    done_.emplace(e.get(), fresh);
    return fresh;
  }

  struct Use {
    int times = 0;
    bool deep = false;
  };
  Kernel& k_;
  ShareOptions options_;
  std::unordered_map<const ExprNode*, Use> uses_;
  std::unordered_map<const ExprNode*, Expr> done_;
};

}  // namespace

void share(Kernel& kernel, ShareOptions options) {
  Sharer s(kernel, options);
  kernel.body = s.block(std::move(kernel.body));
}

}  // namespace rlx::kir
