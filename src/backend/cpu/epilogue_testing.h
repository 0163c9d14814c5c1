// For tests of native kernels: an epilogue that records how it is called.
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "schedule/native.h"

namespace rlx::cpu {

// Marks what it was told is complete, and keeps the values of that moment.
template <class T>
class Recorder final : public NativeEpilogue {
 public:
  Recorder(const T* y, int64_t rows, int64_t columns)
      : y_(y),
        columns_(columns),
        calls_(static_cast<std::size_t>(rows * columns)),
        values_(calls_.size()) {}
  void apply(int64_t rowBegin, int64_t rowEnd, int64_t columnBegin,
             int64_t columnEnd) const override {
    for (int64_t r = rowBegin; r < rowEnd; ++r)
      for (int64_t c = columnBegin; c < columnEnd; ++c) {
        const auto at = static_cast<std::size_t>(r * columns_ + c);
        ++calls_[at], values_[at] = y_[at];
      }
  }
  void check() const {
    for (std::size_t k = 0; k < calls_.size(); ++k) {
      ASSERT_EQ(calls_[k], 1) << "element " << k;
      ASSERT_EQ(values_[k], y_[k]) << "element " << k << " changed afterwards";
    }
  }

 private:
  const T* y_;
  int64_t columns_;
  mutable std::vector<int> calls_;
  mutable std::vector<T> values_;
};

}  // namespace rlx::cpu
