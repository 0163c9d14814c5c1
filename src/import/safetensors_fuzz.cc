#include "base/fuzz.h"
#include "import/safetensors.h"

RLX_FUZZ_TARGET(fuzzSafetensors) {
  auto file = rlx::parseSafetensors(rlx::MappedFile::fromBytes(
      "fuzz.safetensors", std::string(reinterpret_cast<const char*>(data), size)));
  if (!file) return 0;
  unsigned sum = 0;
  for (const rlx::SafetensorsEntry& entry : file->entries) {
    for (const std::byte b : entry.data) sum += static_cast<unsigned>(b);
    RLX_CHECK(file->find(entry.name) == &entry, "a listed tensor is not found");
  }
  return sum == 0xffffffffu;
}
