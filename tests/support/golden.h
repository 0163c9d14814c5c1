// Golden files: a test makes a text, the file says what it was. With RLX_UPDATE_GOLDEN=1 in the
// environment the file is rewritten, and a person reads the difference.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/file.h"

namespace rlx::test {

// The folder of the sources, from the place of this header.
inline std::string sourceDir() {
  std::string path(parentPath(__FILE__));
  return joinPath(path, "../..");
}

inline void expectGolden(const std::string& name, const std::string& text) {
  const std::string path = joinPath(sourceDir(), "tests/golden/" + name);
  if (std::getenv("RLX_UPDATE_GOLDEN")) {
    const Status written = writeFileAtomic(path, text);
    EXPECT_TRUE(written) << written.error().text();
    return;
  }
  auto want = readFile(path, 1 << 24);
  ASSERT_TRUE(want) << want.error().text() << "; set RLX_UPDATE_GOLDEN=1 to write it";
  EXPECT_EQ(text, *want) << name << " differs; RLX_UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace rlx::test
