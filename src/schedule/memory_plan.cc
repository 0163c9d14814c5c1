#include "schedule/memory_plan.h"

#include <algorithm>

#include "schedule/chain.h"

namespace rlx {

constexpr int64_t kAlignment = 256;

Result<MemoryPlan> planMemory(const Program& p, const Bindings& bindings) {
  MemoryPlan plan;
  const std::size_t n = p.buffers.size();
  plan.offset.assign(n, -1);
  for (const ProgramBuffer& b : p.buffers) {
    RLX_TRY(const int64_t elements, b.elements.evaluate(bindings));
    if (elements < 0 || elements > INT32_MAX)
      return Error(Errc::Unsupported, "a tensor of " + std::to_string(elements) +
                                          " elements; kernels index up to 2^31 - 1");
    plan.bytes.push_back(storageBytes(b.dtype, elements));
  }
  struct Span {
    uint32_t buffer;
    std::size_t first, last;
    int64_t bytes;
  };
  std::vector<std::size_t> first(n, SIZE_MAX), last(n, 0);
  for (std::size_t s = 0; s < p.steps.size(); ++s)
    for (const uint32_t b : p.steps[s].buffers) {
      first[b] = std::min(first[b], s);
      last[b] = std::max(last[b], s);
    }
  // Parts of a chain are at different steps at the same time: what it touches lives to its end,
  // but for an operand that a result takes the place of within the same part.
  std::vector<std::size_t> lastUse = last;
  std::vector<bool> scattered(n, false);  // touched by some step of a chain beyond its own part
  std::vector<bool> chained(p.steps.size(), false);
  for (const Chain& c : p.chains)
    for (uint32_t s = c.first; s <= c.last; ++s)
      for (const uint32_t b : p.steps[s].buffers) {
        chained[s] = true;
        last[b] = std::max<std::size_t>(last[b], c.last);
        if (!staysInside(p, p.steps[s], b, c.over)) scattered[b] = true;
      }
  // In-place results extend the span of the operand they replace.
  std::vector<int32_t> host(n, -1);
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    const Step& step = p.steps[s];
    if (step.inPlace < 0) continue;
    const uint32_t operand = step.buffers[static_cast<std::size_t>(step.inPlace)];
    if (p.buffers[operand].kind != BufferKind::Temporary ||
        p.buffers[step.written].kind != BufferKind::Temporary || lastUse[operand] != s ||
        plan.bytes[operand] != plan.bytes[step.written] ||
        (chained[s] && (scattered[operand] || scattered[step.written])))
      continue;
    uint32_t root = operand;
    while (host[root] >= 0) root = static_cast<uint32_t>(host[root]);
    host[step.written] = static_cast<int32_t>(root);
  }
  std::vector<Span> spans;
  for (uint32_t b = 0; b < n; ++b)
    if (p.buffers[b].kind == BufferKind::Temporary && first[b] != SIZE_MAX && host[b] < 0)
      spans.push_back({b, first[b], last[b], plan.bytes[b]});
  for (uint32_t b = 0; b < n; ++b) {
    if (host[b] < 0) continue;
    uint32_t root = b;
    while (host[root] >= 0) root = static_cast<uint32_t>(host[root]);
    for (Span& s : spans)
      if (s.buffer == root) s.last = std::max(s.last, last[b]);
  }
  // Largest first, each at the lowest offset that is free for its whole life.
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return a.bytes > b.bytes; });
  std::vector<const Span*> placed;
  for (const Span& s : spans) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const Span* o : placed)
      if (o->first <= s.last && s.first <= o->last)
        taken.emplace_back(plan.offset[o->buffer], plan.offset[o->buffer] + o->bytes);
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (const auto& [lo, hi] : taken) {
      if (at + s.bytes <= lo) break;
      at = std::max(at, (hi + kAlignment - 1) / kAlignment * kAlignment);
    }
    plan.offset[s.buffer] = at;
    if (__builtin_add_overflow(at, s.bytes, &at))
      return Error(Errc::OutOfMemory, "the temporaries exceed 2^63 bytes");
    plan.arenaBytes = std::max(plan.arenaBytes, at);
    placed.push_back(&s);
  }
  for (uint32_t b = 0; b < n; ++b) {
    uint32_t root = b;
    while (host[root] >= 0) root = static_cast<uint32_t>(host[root]);
    if (root != b) plan.offset[b] = plan.offset[root];
  }
  return plan;
}

}  // namespace rlx
