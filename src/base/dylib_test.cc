#include "base/dylib.h"

#include <gtest/gtest.h>

namespace rlx {
namespace {

TEST(DynamicLibrary, TakesTheFirstNameThatLoads) {
  const std::string_view names[] = {"librlx_does_not_exist.so", "libm.so.6"};
  auto library = DynamicLibrary::open(names);
  ASSERT_TRUE(library);
  EXPECT_EQ((*library)->name(), "libm.so.6");
  const auto cosine = (*library)->function<double (*)(double)>("cos");
  ASSERT_NE(cosine, nullptr);
  EXPECT_EQ(cosine(0.0), 1.0);
  EXPECT_TRUE((*library)->symbol("sin"));
  auto missing = (*library)->symbol("no_such_symbol");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message(), "library 'libm.so.6' has no symbol 'no_such_symbol'");
}

TEST(DynamicLibrary, TheErrorListsWhatWasTried) {
  const std::string_view names[] = {"librlx_none_1.so", "librlx_none_2.so"};
  auto library = DynamicLibrary::open(names);
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code(), Errc::DeviceUnavailable);
  EXPECT_EQ(library.error().message(),
            "no library could be loaded, tried 'librlx_none_1.so', 'librlx_none_2.so'");
  EXPECT_EQ(library.error().notes().size(), 1u);
  EXPECT_FALSE(DynamicLibrary::open({}));
}

}  // namespace
}  // namespace rlx
