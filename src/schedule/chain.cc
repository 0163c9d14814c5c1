#include "schedule/chain.h"

#include <algorithm>

namespace rlx {
namespace {

bool startsWith(const std::vector<Dim>& dims, const std::vector<Dim>& prefix) {
  return dims.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), dims.begin());
}

// True when the view covers the whole of a buffer and its leading axes cut both into the same
// parts.
bool cutsAlike(const StridedView& v, const Dim& total, const std::vector<Dim>& over) {
  if (!v.offset.is(0) || v.shape.size() < over.size() || !(elements(v.shape) == total))
    return false;
  for (const Dim& s : v.strides)
    if (s.isConst() && s.value() < 0) return false;
  Dim outside(1);
  for (std::size_t k = 0; k < over.size(); ++k) {
    if (!(v.shape[k] == over[k])) return false;
    outside = outside * over[k];
    if (!over[k].is(1) && !(v.strides[k] * outside == total)) return false;
  }
  return true;
}

}  // namespace

bool staysInside(const Program& p, const Step& step, uint32_t buffer,
                 const std::vector<Dim>& over) {
  if (!startsWith(step.leading, over)) return false;
  const Dim& total = p.buffers[buffer].elements;
  if (step.native) {
    if (buffer == step.written && !cutsAlike(step.result, total, over)) return false;
    for (std::size_t k = 0; k < step.views.size(); ++k)
      if (step.buffers[k] == buffer && !(step.local[k] && cutsAlike(step.views[k], total, over)))
        return false;
    if (!step.finished) return true;
  }
  for (std::size_t k = step.views.size(); k < step.buffers.size(); ++k)
    if (step.buffers[k] == buffer && !step.local[k]) return false;
  return true;
}

std::vector<Chain> findChains(const Program& p) {
  std::vector<Chain> out;
  uint32_t s = 0;
  while (s < p.steps.size()) {
    Chain c{s, s, p.steps[s].leading};
    if (c.over.empty()) {
      ++s;
      continue;
    }
    auto joins = [&](const Step& step) {
      if (!startsWith(step.leading, c.over)) return false;
      for (uint32_t w = c.first; w <= c.last; ++w) {
        const uint32_t b = p.steps[w].written;
        if (std::find(step.buffers.begin(), step.buffers.end(), b) == step.buffers.end()) continue;
        if (!staysInside(p, p.steps[w], b, c.over) || !staysInside(p, step, b, c.over))
          return false;
      }
      return true;
    };
    while (c.last + 1 < p.steps.size() && joins(p.steps[c.last + 1])) ++c.last;
    s = c.last + 1;
    if (c.last > c.first) out.push_back(std::move(c));
  }
  return out;
}

}  // namespace rlx
