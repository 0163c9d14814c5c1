#include "base/fuzz.h"
#include "base/npy.h"

RLX_FUZZ_TARGET(fuzzNpy) {
  auto array = rlx::parseNpy(rlx::MappedFile::fromBytes(
      "fuzz.npy", std::string(reinterpret_cast<const char*>(data), size)));
  if (!array) return 0;
  unsigned sum = 0;
  for (const std::byte b : array->data) sum += static_cast<unsigned>(b);
  // What was read can be written, and reads back the same.
  auto bytes = rlx::encodeNpy(array->dtype, array->shape, array->data);
  RLX_CHECK(bytes, "a parsed array cannot be written");
  auto again = rlx::parseNpy(rlx::MappedFile::fromBytes("again.npy", *std::move(bytes)));
  RLX_CHECK(again && again->shape == array->shape && again->data.size() == array->data.size(),
            "an array does not survive a round trip");
  return sum == 0xffffffffu;
}
