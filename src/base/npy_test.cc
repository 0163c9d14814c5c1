#include "base/npy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/fuzz.h"

int fuzzNpy(const uint8_t* data, std::size_t size);

namespace rlx {
namespace {

std::string npy(std::string_view header, std::string_view data, int version = 1) {
  std::string out("\x93NUMPY", 6);
  out += static_cast<char>(version);
  out += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    out += static_cast<char>(header.size() >> (8 * i) & 0xff);
  out += header;
  out += data;
  return out;
}

Result<NpyArray> parse(std::string bytes) {
  return parseNpy(MappedFile::fromBytes("t.npy", std::move(bytes)));
}

std::string text(const NpyArray& array) {
  return {reinterpret_cast<const char*>(array.data.data()), array.data.size()};
}

TEST(Npy, RoundTrip) {
  const float values[] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3};
  auto bytes = encodeNpy("<f4", shape, std::as_bytes(std::span(values)));
  ASSERT_TRUE(bytes);
  EXPECT_EQ((bytes->size() - sizeof values) % 64, 0u);
  auto array = parse(*bytes);
  ASSERT_TRUE(array);
  EXPECT_EQ(array->dtype, "<f4");
  EXPECT_EQ(array->itemBytes, 4u);
  EXPECT_EQ(array->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(array->data.data(), values, sizeof values), 0);
}

TEST(Npy, ReadsEveryVersionAndShape) {
  for (const int version : {1, 2, 3}) {
    auto array =
        parse(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n", "abc", version));
    ASSERT_TRUE(array) << version;
    EXPECT_EQ(text(*array), "abc");
  }
  auto scalar = parse(npy("{'descr': '<i2', 'fortran_order': False, 'shape': ()}", "ab"));
  ASSERT_TRUE(scalar);
  EXPECT_TRUE(scalar->shape.empty());
  auto empty = parse(npy("{'shape':(0,5),'descr':\"<f8\",'fortran_order':True}", ""));
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->data.size(), 0u);
  auto old = parse(npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1L, 1L)}", "abcd"));
  ASSERT_TRUE(old);
  EXPECT_EQ(old->shape.size(), 2u);
}

TEST(Npy, ConvertsOrder) {
  // Column-major [[a, b, c], [d, e, f]].
  auto array = parse(npy("{'descr': '|S1', 'fortran_order': True, 'shape': (2, 3)}", "adbecf"));
  ASSERT_TRUE(array);
  EXPECT_EQ(text(*array), "abcdef");
  auto cube = parse(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2, 2)}", "aecgbfdh"));
  ASSERT_TRUE(cube);
  EXPECT_EQ(text(*cube), "abcdefgh");
  auto big = parse(npy("{'descr': '>i2', 'fortran_order': False, 'shape': (2,)}", "abcd"));
  ASSERT_TRUE(big);
  EXPECT_EQ(big->dtype, "<i2");
  EXPECT_EQ(text(*big), "badc");
  auto complex = parse(npy("{'descr': '>c8', 'fortran_order': False, 'shape': ()}", "abcdefgh"));
  ASSERT_TRUE(complex);
  EXPECT_EQ(text(*complex), "dcbahgfe");
}

TEST(Npy, RefusesBadFiles) {
  const std::string ok = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
  struct Case {
    std::string bytes;
    Errc code;
    std::string_view part;
  };
  const auto head = [](std::string_view descr, std::string_view shape) {
    return npy("{'descr': " + std::string(descr) +
                   ", 'fortran_order': False, 'shape': " + std::string(shape) + "}",
               "");
  };
  const Case cases[] = {
      {"", Errc::BadFile, "NUMPY"},
      {std::string("\x93NUMPY\x01", 7), Errc::FileTruncated, "preamble"},
      {npy(ok, "1234567"), Errc::FileTruncated, "needs 8 bytes, the file has 7"},
      {npy(ok, "12345678", 4), Errc::Unsupported, "version 4"},
      {std::string("\x93NUMPY\x01\0\xff\xff{}", 12), Errc::FileTruncated, "65535"},
      {std::string("\x93NUMPY\x02\0\xff\xff\xff\xff{}", 14), Errc::FileTruncated, "4294967295"},
      {npy(std::string(1100000, ' '), "", 2), Errc::FileBudget, "limit"},
      {npy("", ""), Errc::BadFile, "'{'"},
      {npy("{'descr': '<f4', 'fortran_order': False}", ""), Errc::BadFile, "no 'shape'"},
      {npy("{'descr': '<f4', 'shape': ()}", ""), Errc::BadFile, "no 'fortran_order'"},
      {npy("{'x': 1}", ""), Errc::BadFile, "unknown header entry 'x'"},
      {npy("{'shape': (), 'shape': ()}", ""), Errc::BadFile, "duplicate"},
      {npy(ok + "x", ""), Errc::BadFile, "after the header"},
      {head("'<f4'", "(-1,)"), Errc::BadFile, "extent"},
      {head("'<f4'", "(1 2)"), Errc::BadFile, "','"},
      {head("'<f4'", "(99999999999999999999,)"), Errc::BadFile, "extent"},
      {head("'<f4'", "(4611686018427387904, 2)"), Errc::BadFile, "overflows"},
      {head("'<f4'", "(4294967296, 4294967296)"), Errc::BadFile, "overflows"},
      {head("'<f4'", "(1000000000000,)"), Errc::FileTruncated, "4000000000000"},
      {head("'<f3'", "()"), Errc::Unsupported, "'<f3'"},
      {head("'|O'", "()"), Errc::Unsupported, "Python objects"},
      {head("'<S99999999999999999999999'", "()"), Errc::BadFile, "NumPy type"},
      {head("[('a', '<f4')]", "()"), Errc::Unsupported, "structured"},
      {head("''", "()"), Errc::BadFile, "NumPy type"},
  };
  for (const Case& c : cases) {
    auto array = parse(c.bytes);
    ASSERT_FALSE(array) << c.part;
    EXPECT_EQ(array.error().code(), c.code) << array.error().text();
    EXPECT_NE(array.error().message().find(c.part), std::string::npos) << array.error().text();
  }
}

TEST(Npy, WriterChecksItsArguments) {
  const float values[] = {1, 2};
  const int64_t three[] = {3};
  const int64_t negative[] = {-1};
  const auto data = std::as_bytes(std::span(values));
  EXPECT_FALSE(encodeNpy("<f4", three, data));
  EXPECT_FALSE(encodeNpy("<f4", negative, data));
  EXPECT_FALSE(encodeNpy(">f4", three, data));
  EXPECT_FALSE(encodeNpy("f", three, data));
}

TEST(Npy, SurvivesMutations) {
  fuzzMutations(
      fuzzNpy,
      {npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }\n", "0123456789abcdef"),
       npy("{'descr': '>i2', 'fortran_order': False, 'shape': (3,), }\n", "012345", 2)},
      5000);
}

}  // namespace
}  // namespace rlx
