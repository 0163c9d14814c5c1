// The steady clock.
#pragma once
#include <chrono>

namespace rlx {

inline double nowUs() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
inline double nowMs() {
  return nowUs() * 1e-3;
}

}  // namespace rlx
