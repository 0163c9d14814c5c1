#include "base/hash.h"

#include <gtest/gtest.h>

namespace rlx {
namespace {

// The published vectors of FNV-1a.
static_assert(stableHash("") == 0xcbf29ce484222325ull);
static_assert(stableHash("a") == 0xaf63dc4c8601ec8cull);
static_assert(stableHash("foobar") == 0x85944171f73967e8ull);

TEST(Hash, ContinuesFromOneTextToTheNext) {
  EXPECT_EQ(stableHash("bar", stableHash("foo")), stableHash("foobar"));
}

TEST(Hash, PrintsAllDigits) {
  EXPECT_EQ(hexDigits(0), "0000000000000000");
  EXPECT_EQ(hexDigits(0x1234567890abcdefull), "1234567890abcdef");
}

}  // namespace
}  // namespace rlx
