#include "import/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/fuzz.h"

int fuzzSafetensors(const uint8_t* data, std::size_t size);

namespace rlx {
namespace {

std::string withLength(std::string_view header, std::string_view data, uint64_t length) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(length >> (8 * i) & 0xff);
  out += header;
  out += data;
  return out;
}
std::string file(std::string_view header, std::string_view data) {
  return withLength(header, data, header.size());
}
Result<Safetensors> parse(std::string bytes) {
  return parseSafetensors(MappedFile::fromBytes("t.safetensors", std::move(bytes)));
}

constexpr std::string_view kTwo =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
    R"("a":{"dtype":"I16","shape":[2,1],"data_offsets":[0,4]}}   )";

TEST(Safetensors, ReadsTensorsAndMetadata) {
  auto result = parse(file(kTwo, "abcdefgh"));
  ASSERT_TRUE(result) << result.error().text();
  ASSERT_EQ(result->entries.size(), 2u);
  EXPECT_EQ(result->metadata, (std::vector<std::pair<std::string, std::string>>{{"format", "pt"}}));
  const SafetensorsEntry* a = result->find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, DType::I16);
  EXPECT_EQ(a->shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(std::memcmp(a->data.data(), "abcd", 4), 0);
  EXPECT_EQ(result->find("b")->begin, 4u);
  EXPECT_EQ(result->find("c"), nullptr);
}

TEST(Safetensors, TensorsKeepTheFileAlive) {
  SafetensorsEntry entry;
  {
    auto result = parse(file(kTwo, "abcdefgh"));
    ASSERT_TRUE(result);
    entry = **result->at("b");
  }
  EXPECT_EQ(std::memcmp(entry.data.data(), "efgh", 4), 0);
}

TEST(Safetensors, ScalarsAndEmptyTensors) {
  auto result =
      parse(file(R"({"e":{"dtype":"F32","shape":[0,9223372036854775807,9],"data_offsets":[0,0]},)"
                 R"("s":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
                 R"("z":{"dtype":"F64","shape":[0],"data_offsets":[1,1]}})",
                 "x"));
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->find("s")->data.size(), 1u);
  EXPECT_EQ(result->find("e")->data.size(), 0u);
  EXPECT_TRUE(parse(file("{}", "")));
}

TEST(Safetensors, MissingNamesGetAHint) {
  auto result =
      parse(file(R"({"encoder.weight":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"));
  ASSERT_TRUE(result);
  auto missing = result->at("encoder.wieght");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Errc::NotFound);
  EXPECT_EQ(missing.error().hint(), "did you mean 'encoder.weight'?");
}

std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return R"({"t":{"dtype":)" + std::string(dtype) + R"(,"shape":)" + std::string(shape) +
         R"(,"data_offsets":)" + std::string(offsets) + "}}";
}
std::string two(std::string_view first, std::string_view second) {
  return R"({"p":{"dtype":"U8","shape":[2],"data_offsets":)" + std::string(first) +
         R"(},"q":{"dtype":"U8","shape":[2],"data_offsets":)" + std::string(second) + "}}";
}

TEST(Safetensors, RefusesBadFiles) {
  struct Case {
    std::string bytes;
    Errc code;
    std::string_view message;
  };
  const Case cases[] = {
      {"", Errc::FileTruncated, "0 bytes, the header's length alone takes 8"},
      {withLength("{}", "", UINT64_MAX), Errc::FileBudget,
       "header of 18446744073709551615 bytes, the limit is 100000000"},
      {withLength("{}", "", 3), Errc::FileTruncated,
       "header of 3 bytes, the file has 2 after the length"},
      {withLength("", "", 0), Errc::BadFile, "the header does not begin with '{'"},
      {file(" {}", ""), Errc::BadFile, "the header does not begin with '{'"},
      {file("{", ""), Errc::BadFile, "line 1, column 2"},
      {file(R"({"t":1})", ""), Errc::BadFile,
       "'t': expected an object with 'dtype', found number 1"},
      {file(one(R"("F32")", "[1]", "[0,4]").insert(1, R"("t":{},)"), "abcd"), Errc::BadFile,
       "duplicate key 't'"},
      {file(R"({"t":{"shape":[]}})", ""), Errc::NotFound, "'t' has no entry 'dtype'"},
      {file(one(R"("F31")", "[1]", "[0,4]"), "abcd"), Errc::Unsupported,
       "tensor 't': unknown dtype 'F31'"},
      {file(one("32", "[1]", "[0,4]"), "abcd"), Errc::BadFile,
       "'t.dtype': expected a string, found number 32"},
      {file(one(R"("F32")", "[-1]", "[0,4]"), "abcd"), Errc::BadFile,
       "tensor 't': negative extent -1"},
      {file(one(R"("F32")", "[1.0]", "[0,4]"), "abcd"), Errc::BadFile,
       "'t.shape[0]': expected a 64-bit integer, found number 1.0"},
      {file(one(R"("F32")", "[18446744073709551616]", "[0,4]"), "abcd"), Errc::BadFile,
       "'t.shape[0]': expected a 64-bit integer"},
      {file(one(R"("F32")", "[4294967296,4294967296]", "[0,4]"), "abcd"), Errc::BadFile,
       "tensor 't': the size of shape [4294967296, 4294967296] of F32 overflows"},
      {file(one(R"("U8")", "[9223372036854775807]", "[0,4]"), "abcd"), Errc::BadFile,
       "tensor 't': the size of shape [9223372036854775807] of U8 overflows"},
      {file(one(R"("F32")", "[2]", "[0,4]"), "abcd"), Errc::BadFile,
       "tensor 't': shape [2] of F32 needs 8 bytes, data_offsets [0, 4) give 4"},
      {file(one(R"("F32")", "[1]", "[4,0]"), "abcd"), Errc::BadFile,
       "tensor 't': data_offsets [4, 0) end before they begin"},
      {file(one(R"("F32")", "[1]", "[0,4,8]"), "abcd"), Errc::BadFile,
       "tensor 't': data_offsets has 3 numbers, expected 2"},
      {file(one(R"("F32")", "[1]", "[-4,0]"), "abcd"), Errc::BadFile,
       "'t.data_offsets[0]': expected a non-negative 64-bit integer, found number -4"},
      {file(one(R"("F32")", "[1]", "[0,4]"), "abc"), Errc::FileTruncated,
       "tensor 't': data_offsets [0, 4) end after the 3 bytes of data"},
      {file(one(R"("U8")", "[1]", "[18446744073709551614,18446744073709551615]"), "abc"),
       Errc::FileTruncated, "end after the 3 bytes of data"},
      {file(one(R"("F32")", "[1]", "[0,4]"), "abcde"), Errc::BadFile,
       "the tensors end at 4 of 5 bytes of data"},
      {file(two("[0,2]", "[1,3]"), "abc"), Errc::BadFile,
       "tensor 'q' begins at 1 and overlaps tensor 'p', which ends at 2"},
      {file(two("[0,2]", "[3,5]"), "abcde"), Errc::BadFile,
       "tensor 'q' begins at 3 and leaves a gap after 2"},
      {file(two("[1,3]", "[3,5]"), "abcde"), Errc::BadFile,
       "tensor 'p' begins at 1 and leaves a gap after 0"},
      {file(R"({"__metadata__":{"a":1}})", ""), Errc::BadFile,
       "'__metadata__.a': expected a string, found number 1"},
      {file("{\"a\":" + std::string(50000, '['), ""), Errc::FileBudget, "nested deeper"},
  };
  for (const Case& c : cases) {
    auto result = parse(c.bytes);
    ASSERT_FALSE(result) << c.message;
    EXPECT_EQ(result.error().code(), c.code) << result.error().text();
    EXPECT_NE(result.error().message().find(c.message), std::string::npos)
        << "expected: " << c.message << "\nfound: " << result.error().text();
    EXPECT_EQ(result.error().notes().back(), "while reading 't.safetensors' as safetensors");
  }
}

class SafetensorsFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = joinPath(::testing::TempDir(), "rlx_safetensors_XXXXXX");
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override {
    const std::string command = "rm -rf '" + dir_ + "'";
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  std::string path(std::string_view name) const { return joinPath(dir_, name); }
  void put(std::string_view name, std::string_view bytes) const {
    ASSERT_TRUE(writeFileAtomic(path(name), bytes));
  }
  std::string dir_;
};

TEST_F(SafetensorsFolder, WriterAndReaderAgree) {
  const float floats[] = {1, 2, 3};
  const uint8_t small[] = {7};
  const int64_t three[] = {3};
  const auto bytes = std::as_bytes(std::span(floats));
  const SafetensorsItem items[] = {
      {.name = "a", .dtype = DType::U8, .shape = {}, .data = std::as_bytes(std::span(small))},
      {.name = "w \"quoted\" \xc3\xa4", .dtype = DType::F32, .shape = three, .data = bytes},
  };
  const std::pair<std::string, std::string> metadata[] = {{"made_by", "rlx"}};
  ASSERT_TRUE(writeSafetensors(path("model.safetensors"), items, metadata));
  auto result = readSafetensors(dir_);
  ASSERT_TRUE(result) << result.error().text();
  ASSERT_EQ(result->entries.size(), 2u);
  const SafetensorsEntry& w = *result->find("w \"quoted\" \xc3\xa4");
  EXPECT_EQ(w.begin, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(w.data.data()) % 4, 0u);
  EXPECT_EQ(std::memcmp(w.data.data(), floats, sizeof floats), 0);
  EXPECT_EQ(result->find("a")->data[0], std::byte{7});
  EXPECT_EQ(result->metadata[0].second, "rlx");
}

TEST_F(SafetensorsFolder, WriterChecksItsItems) {
  const int64_t two[] = {2};
  const uint8_t data[] = {1, 2};
  const auto bytes = std::as_bytes(std::span(data));
  const SafetensorsItem twice[] = {{"a", DType::U8, two, bytes}, {"a", DType::U8, two, bytes}};
  const SafetensorsItem wrong[] = {{"a", DType::F32, two, bytes}};
  const SafetensorsItem none[] = {{"a", DType::Q4_0, two, bytes}};
  const SafetensorsItem reserved[] = {{"__metadata__", DType::U8, two, bytes}};
  const SafetensorsItem broken[] = {{"\xff", DType::U8, two, bytes}};
  for (const auto items :
       {std::span<const SafetensorsItem>(twice), std::span<const SafetensorsItem>(wrong),
        std::span<const SafetensorsItem>(none), std::span<const SafetensorsItem>(reserved),
        std::span<const SafetensorsItem>(broken)}) {
    auto status = writeSafetensors(path("x.safetensors"), items);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Errc::InvalidArgument) << status.error().text();
  }
  EXPECT_EQ(pathKind(path("x.safetensors")), PathKind::Missing);
}

TEST_F(SafetensorsFolder, ReadsShards) {
  put("m-1.safetensors", file(one(R"("U8")", "[1]", "[0,1]"), "x"));
  put("m-2.safetensors", file(two("[0,2]", "[2,4]"), "abcd"));
  put("model.safetensors.index.json",
      R"({"metadata":{},"weight_map":{"t":"m-1.safetensors","q":"m-2.safetensors"}})");
  auto result = readSafetensors(dir_);
  ASSERT_TRUE(result) << result.error().text();
  ASSERT_EQ(result->entries.size(), 2u);
  EXPECT_EQ(std::memcmp(result->find("q")->data.data(), "cd", 2), 0);
  EXPECT_EQ(result->find("t")->data[0], std::byte{'x'});
}

TEST_F(SafetensorsFolder, RefusesBadIndexes) {
  put("m-1.safetensors", file(one(R"("U8")", "[1]", "[0,1]"), "x"));
  struct Case {
    std::string_view index;
    Errc code;
  };
  const Case cases[] = {
      {R"({"weight_map":{"t":"../m-1.safetensors"}})", Errc::UnsafePath},
      {R"({"weight_map":{"t":"/etc/passwd"}})", Errc::UnsafePath},
      {R"({"weight_map":{"t":"gone.safetensors"}})", Errc::NotFound},
      {R"({"weight_map":{"u":"m-1.safetensors"}})", Errc::NotFound},
      {R"({"weight_map":{"t":3}})", Errc::BadFile},
      {R"({"weight_map":[]})", Errc::BadFile},
      {R"({})", Errc::NotFound},
      {R"({"weight_map":)", Errc::BadFile},
  };
  for (const Case& c : cases) {
    put("model.safetensors.index.json", c.index);
    auto result = readSafetensors(path("model.safetensors.index.json"));
    ASSERT_FALSE(result) << c.index;
    EXPECT_EQ(result.error().code(), c.code) << result.error().text();
  }
  auto empty = readSafetensors(path("nothing"));
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code(), Errc::NotFound);
}

TEST(Safetensors, SurvivesMutations) {
  fuzzMutations(fuzzSafetensors,
                {file(kTwo, "abcdefgh"), file(one(R"("BF16")", "[2, 2]", "[0, 8]"), "abcdefgh")},
                5000);
}

}  // namespace
}  // namespace rlx
