#include "backend/cpu/vector_avx2.h"
#include "backend/cpu/vector_code.h"

namespace rlx::cpu {
namespace {

struct Sum {
  template <class V>
  static RLX_INLINE V fold(V x, V all) {
    return x + all;
  }
};
// The instruction keeps a NaN in `all` but not one in x; a mask of ones is a NaN.
struct Max {
  static RLX_INLINE F8 fold(F8 x, F8 all) {
    const F8 m = x > all ? x : all;
    return reinterpret_cast<F8>(reinterpret_cast<I8>(m) | (x != x));
  }
  static RLX_INLINE F4 fold(F4 x, F4 all) {
    const F4 m = x > all ? x : all;
    return reinterpret_cast<F4>(reinterpret_cast<I4>(m) | (x != x));
  }
  static RLX_INLINE float fold(float x, float all) { return x > all || x != x ? x : all; }
};

// Count 0: `count` is only known at run time.
template <class Op, int Count, class V>
RLX_INLINE V foldAt(const float* from, int64_t distance, int64_t count) {
  V all = load<V>(from);
  if constexpr (Count > 0)
    unrolled<Count - 1>(
        [&](auto i) RLX_INLINED { all = Op::fold(load<V>(from + (i.value + 1) * distance), all); });
  else
    for (int64_t i = 1; i < count; ++i) all = Op::fold(load<V>(from + i * distance), all);
  return all;
}

// The last vector overlaps the one before.
template <class Op, int Count, class V>
RLX_INLINE void foldVectors(const float* from, int64_t distance, int64_t count, int64_t width,
                            float* to) {
  constexpr int64_t kLanes = sizeof(V) / sizeof(float);
  for (int64_t x = 0; x < width; x += kLanes) {
    if (x > width - kLanes) x = width - kLanes;
    store<V>(to + x, foldAt<Op, Count, V>(from + x, distance, count));
  }
}

template <class Op, int Count>
void lines(const float* from, int64_t distance, int64_t count, int64_t width, float* to) {
  if (width >= 8) return foldVectors<Op, Count, F8>(from, distance, count, width, to);
  if (width >= 4) return foldVectors<Op, Count, F4>(from, distance, count, width, to);
  foldVectors<Op, Count, float>(from, distance, count, width, to);
}
template <class Op>
void linesOf(const float* from, int64_t distance, int64_t count, int64_t width, float* to) {
  if (count == 2) return lines<Op, 2>(from, distance, count, width, to);
  if (count == 3) return lines<Op, 3>(from, distance, count, width, to);
  if (count == 5) return lines<Op, 5>(from, distance, count, width, to);
  lines<Op, 0>(from, distance, count, width, to);
}

RLX_INLINE void storeBefore(float* to, const float* end, F8 v) {
  if (end - to >= 8) return store<F8>(to, v);
  float lanes[8];
  store<F8>(lanes, v);
  for (int64_t i = 0; i < end - to; ++i) to[i] = lanes[i];
}

template <class Op, int Count>
void taps(const float* from, int64_t distance, int64_t count, int64_t width, float* to,
          const float* end) {
  for (int64_t x = 0; x < width; x += 8)
    storeBefore(to + x, end, foldAt<Op, Count, F8>(from + x, distance, count));
}
template <class Op>
void tapsOf(const float* from, int64_t distance, int64_t count, int64_t width, float* to,
            const float* end) {
  if (count == 2) return taps<Op, 2>(from, distance, count, width, to, end);
  if (count == 3) return taps<Op, 3>(from, distance, count, width, to, end);
  if (count == 5) return taps<Op, 5>(from, distance, count, width, to, end);
  taps<Op, 0>(from, distance, count, width, to, end);
}

template <int Step>
RLX_INLINE F8 loadStrided(const float* p, int64_t step) {
  if (Step == 1) return load<F8>(p);
  if (Step == 2)
    return __builtin_shufflevector(load<F8>(p), load<F8>(p + 8), 0, 2, 4, 6, 8, 10, 12, 14);
  return F8{p[0],        p[step],     p[2 * step], p[3 * step],
            p[4 * step], p[5 * step], p[6 * step], p[7 * step]};
}

// Step 0: `step` is only known at run time.
template <int Step>
void finish(const float* from, int64_t step, const float* counts, float factor, int64_t width,
            float* to, const float* end) {
  for (int64_t x = 0; x < width; x += 8) {
    F8 v = loadStrided<Step>(from + x * step, step);
    if (counts) v /= load<F8>(counts + x) * factor;
    storeBefore(to + x, end, v);
  }
}

}  // namespace

void foldLines(PoolFold fold, const float* from, int64_t distance, int64_t count, int64_t width,
               float* to) {
  if (fold == PoolFold::Sum) return linesOf<Sum>(from, distance, count, width, to);
  linesOf<Max>(from, distance, count, width, to);
}

void foldTaps(PoolFold fold, const float* from, int64_t distance, int64_t count, int64_t width,
              float* to, const float* end) {
  if (fold == PoolFold::Sum) return tapsOf<Sum>(from, distance, count, width, to, end);
  tapsOf<Max>(from, distance, count, width, to, end);
}

void finishPool(const float* from, int64_t step, const float* counts, float factor, int64_t width,
                float* to, const float* end) {
  if (step == 1) return finish<1>(from, step, counts, factor, width, to, end);
  if (step == 2) return finish<2>(from, step, counts, factor, width, to, end);
  finish<0>(from, step, counts, factor, width, to, end);
}

}  // namespace rlx::cpu
