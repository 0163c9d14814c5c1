#include "backend/cpu/narrow_avx2.h"

namespace rlx::cpu {
namespace {

constexpr int kLanes = 8;

template <class T>
RLX_INLINE void widenAll(const T* from, float* to, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, loadWide(from + i));
  if (i == count) return;
  H8 rest{};
  for (int64_t k = i; k < count; ++k) rest[k - i] = from[k].bits;
  const F8 values = widen(rest, from);
  for (int64_t k = i; k < count; ++k) to[k] = values[k - i];
}

template <class T>
RLX_INLINE void narrowAll(const float* from, T* to, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, narrow(load<F8>(from + i), to));
  if (i == count) return;
  F8 rest{};
  for (int64_t k = i; k < count; ++k) rest[k - i] = from[k];
  const H8 values = narrow(rest, to);
  for (int64_t k = i; k < count; ++k) to[k].bits = values[k - i];
}

}  // namespace

void widenRow(const F16* from, float* to, int64_t count) {
  widenAll(from, to, count);
}
void widenRow(const BF16* from, float* to, int64_t count) {
  widenAll(from, to, count);
}
void narrowRow(const float* from, F16* to, int64_t count) {
  narrowAll(from, to, count);
}
void narrowRow(const float* from, BF16* to, int64_t count) {
  narrowAll(from, to, count);
}

}  // namespace rlx::cpu
