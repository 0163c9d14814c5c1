#include <gtest/gtest.h>

#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/vector_code.h"
#include "base/half.h"

namespace rlx::cpu {
namespace {

void put(float& to, int64_t k) {
  to = static_cast<float>(k);
}
void put(double& to, int64_t k) {
  to = static_cast<double>(k);
}
void put(F16& to, int64_t k) {
  to.bits = f32ToF16(static_cast<float>(k));  // exact up to 2048
}
void put(BF16& to, int64_t k) {
  to.bits = static_cast<uint16_t>(k << 4);  // a pattern of its own, and no NaN
}
float wide(float x) {
  return x;
}
double wide(double x) {
  return x;
}
float wide(F16 x) {
  return f16ToF32(x.bits);
}
float wide(BF16 x) {
  return bf16ToF32(x.bits);
}

template <class From, class To>
void check() {
  for (const int64_t rows : {1, 3, 4, 7, 8, 9, 24, 29})
    for (const int64_t columns : {1, 4, 7, 8, 13, 48}) {
      const int64_t fromRow = rows + 3, toRow = columns + 2;
      std::vector<From> from(static_cast<std::size_t>(columns * fromRow));
      std::vector<To> to(static_cast<std::size_t>(rows * toRow), To{-1});
      for (std::size_t k = 0; k < from.size(); ++k) put(from[k], static_cast<int64_t>(k));
      transposeRows(from.data(), fromRow, to.data(), toRow, rows, columns);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < toRow; ++j)
          ASSERT_EQ(to[static_cast<std::size_t>(i * toRow + j)],
                    j < columns ? wide(from[static_cast<std::size_t>(j * fromRow + i)]) : To{-1})
              << rows << " x " << columns << " at " << i << ", " << j;
    }
}

TEST(VectorCode, TransposeRows) {
  if (!activeIsa()) return;  // this machine has no such code
  check<float, float>();
  check<double, double>();
  check<F16, float>();
  check<BF16, float>();
}

}  // namespace
}  // namespace rlx::cpu
