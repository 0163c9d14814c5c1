#include <algorithm>

#include "backend/cpu/emitter_code.h"

namespace rlx::cpu {
namespace {

struct Use {
  float weight = 0;
  Reg hint = kNone;
};

struct Loop {
  int32_t begin, end;
};

class Scan {
 public:
  Scan(const MachineCode& code, int vecScratch)
      : code_(code), uses_(code.regs.size()), vecScratch_(vecScratch) {
    out_.places.resize(code.regs.size());
    out_.frameBytes = code.frameBytes;
  }
  Allocation run() {
    lifetimes();
    assign();
    slots();
    return std::move(out_);
  }

 private:
  void touch(Reg r, int32_t at, int32_t end) {
    if (r < 0) return;
    Place& p = out_.places[static_cast<std::size_t>(r)];
    if (p.first < 0) p.first = at;
    p.first = std::min(p.first, at);
    p.last = std::max({p.last, end, at});
    // A value from outside a loop lives until the loop ends.
    for (const Loop& l : open_)
      if (l.begin > p.first) {
        p.last = std::max(p.last, l.end);
        break;
      }
    uses_[static_cast<std::size_t>(r)].weight += weight_;
  }

  void lifetimes() {
    std::vector<int32_t> ends(static_cast<std::size_t>(code_.labels), 0);
    for (std::size_t i = 0; i < code_.code.size(); ++i)
      if (code_.code[i].op == Op::LoopEnd)
        ends[static_cast<std::size_t>(code_.code[i].label)] = static_cast<int32_t>(2 * i + 1);
    for (Reg r : {code_.entry.globals, code_.entry.params, code_.entry.grid, code_.entry.begin,
                  code_.entry.end})
      touch(r, 0, 0);
    for (std::size_t i = 0; i < code_.code.size(); ++i) {
      const Inst& n = code_.code[i];
      const auto at = static_cast<int32_t>(2 * i + 2);
      if (n.op == Op::LoopBegin) {
        open_.push_back({at, ends[static_cast<std::size_t>(n.label)] + 2});
        weight_ *= 8;
        continue;
      }
      for (Reg r : {n.a, n.b, n.c, n.mask, n.base, n.index}) touch(r, at, at);
      for (Reg r : {n.tmp, n.tmp2}) touch(r, at, at + 1);
      if (n.dst >= 0) {
        touch(n.dst, n.early ? at : at + 1, at + 1);
        Use& u = uses_[static_cast<std::size_t>(n.dst)];
        if (u.hint < 0) u.hint = n.op == Op::FFma && n.c >= 0 ? n.c : n.a;
      }
      if (n.op == Op::LoopEnd) {
        open_.pop_back();
        weight_ /= 8;
      }
    }
  }

  float cost(Reg r) const {
    const auto i = static_cast<std::size_t>(r);
    const Place& p = out_.places[i];
    const float length = static_cast<float>(p.last - p.first + 1);
    if (length <= 2) return 1e30F;
    return uses_[i].weight / length * (code_.regs[i].pool >= 0 ? 0.2F : 1.0F);
  }

  void assign() {
    std::vector<Reg> order;
    for (std::size_t i = 0; i < out_.places.size(); ++i)
      if (out_.places[i].first >= 0) order.push_back(static_cast<Reg>(i));
    std::stable_sort(order.begin(), order.end(), [&](Reg a, Reg b) {
      return out_.places[static_cast<std::size_t>(a)].first <
             out_.places[static_cast<std::size_t>(b)].first;
    });
    std::vector<int16_t> files[3];
    for (int g : kGprs) files[0].push_back(static_cast<int16_t>(g));
    const int vecs = code_.isa == IsaLevel::Avx512 ? 32 : 16;
    for (int v = 0; v < vecs - vecScratch_; ++v) files[1].push_back(static_cast<int16_t>(v));
    for (int k = 2; k < 8; ++k) files[2].push_back(static_cast<int16_t>(k));
    // owner[class][register]: the virtual register in it, and the list of those in use.
    std::array<Reg, 32> owner[3];
    for (auto& o : owner) o.fill(kNone);
    for (Reg r : order) {
      Place& p = out_.places[static_cast<std::size_t>(r)];
      const auto cls = static_cast<std::size_t>(code_.regs[static_cast<std::size_t>(r)].cls);
      auto& own = owner[cls];
      int16_t found = -1;
      for (int16_t reg : files[cls]) {
        Reg& o = own[static_cast<std::size_t>(reg)];
        if (o >= 0 && out_.places[static_cast<std::size_t>(o)].last < p.first) o = kNone;
        if (o < 0 && found < 0) found = reg;
      }
      const Reg hint = uses_[static_cast<std::size_t>(r)].hint;
      if (hint >= 0 && code_.regs[static_cast<std::size_t>(hint)].cls ==
                           code_.regs[static_cast<std::size_t>(r)].cls) {
        const int16_t h = out_.places[static_cast<std::size_t>(hint)].reg;
        if (h >= 0 && own[static_cast<std::size_t>(h)] < 0) found = h;
      }
      if (found < 0) {
        Reg victim = r;
        float least = cost(r);
        for (int16_t reg : files[cls]) {
          const Reg o = own[static_cast<std::size_t>(reg)];
          if (const float c = cost(o); c < least) least = c, victim = o;
        }
        if (victim == r) continue;
        Place& v = out_.places[static_cast<std::size_t>(victim)];
        found = v.reg;
        v.reg = -1;
      }
      p.reg = found;
      own[static_cast<std::size_t>(found)] = r;
    }
  }

  void slots() {
    for (std::size_t i = 0; i < out_.places.size(); ++i) {
      Place& p = out_.places[i];
      const RegInfo& info = code_.regs[i];
      if (p.first < 0 || p.reg >= 0 || info.pool >= 0) continue;
      const int32_t size = info.cls == RegClass::Vec && info.bytes > 8 ? info.bytes : 8;
      out_.frameBytes = (out_.frameBytes + size - 1) / size * size;
      p.slot = out_.frameBytes;
      out_.frameBytes += size;
    }
  }

  const MachineCode& code_;
  std::vector<Use> uses_;
  std::vector<Loop> open_;
  Allocation out_;
  float weight_ = 1;
  int vecScratch_;
};

}  // namespace

Allocation allocateRegisters(const MachineCode& code, int vecScratch) {
  return Scan(code, vecScratch).run();
}

}  // namespace rlx::cpu
