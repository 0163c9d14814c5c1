#include <gtest/gtest.h>

#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/vector_code.h"

namespace rlx::cpu {
namespace {

TEST(VectorCode, TransposeRows) {
  if (!activeIsa()) return;  // this machine has no such code
  for (const int64_t rows : {1, 7, 8, 9, 24, 29})
    for (const int64_t columns : {1, 7, 8, 13, 48}) {
      const int64_t fromRow = rows + 3, toRow = columns + 2;
      std::vector<float> from(static_cast<std::size_t>(columns * fromRow)),
          to(static_cast<std::size_t>(rows * toRow), -1.0f);
      for (std::size_t k = 0; k < from.size(); ++k) from[k] = static_cast<float>(k);
      transposeRows(from.data(), fromRow, to.data(), toRow, rows, columns);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < toRow; ++j)
          ASSERT_EQ(to[static_cast<std::size_t>(i * toRow + j)],
                    j < columns ? from[static_cast<std::size_t>(j * fromRow + i)] : -1.0f)
              << rows << " x " << columns << " at " << i << ", " << j;
    }
}

}  // namespace
}  // namespace rlx::cpu
