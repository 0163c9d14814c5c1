// One definition of a fuzz target for two users: libFuzzer, where the compiler has it, and a short
// deterministic mutation run inside the unit tests of every build. For tests only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace rlx {

using FuzzTarget = int (*)(const uint8_t* data, std::size_t size);

// Calls the target with the seeds and with `runs` mutations of them: bytes changed, inserted,
// removed and repeated, and inputs cut short. The same arguments give the same inputs.
inline void fuzzMutations(FuzzTarget target, std::initializer_list<std::string> seeds, int runs,
                          uint64_t seed = 1) {
  uint64_t state = seed;
  const auto next = [&state](std::size_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return bound == 0 ? 0 : static_cast<std::size_t>((state >> 33) % bound);
  };
  const auto run = [&](const std::string& input) {
    // A heap block of the exact size: a read past the end is seen by AddressSanitizer.
    const std::string exact(input.data(), input.size());
    target(reinterpret_cast<const uint8_t*>(exact.data()), exact.size());
  };
  for (const std::string& input : seeds) run(input);
  for (int i = 0; i < runs; ++i) {
    std::string input = *(seeds.begin() + next(seeds.size()));
    for (std::size_t edits = 1 + next(4); edits > 0; --edits) {
      const std::size_t at = next(input.size() + 1);
      switch (next(6)) {
        case 0: input.resize(at); break;
        case 1: input.insert(at, 1, static_cast<char>(next(256))); break;
        case 2: input.erase(at, 1 + next(8)); break;
        case 3: input.insert(at, input.substr(next(input.size() + 1), next(32))); break;
        default:
          if (at < input.size()) {
            // Digits become other digits half of the time: that reaches the size checks.
            const bool digit = input[at] >= '0' && input[at] <= '9' && next(2) == 0;
            input[at] = static_cast<char>(digit ? '0' + next(10) : next(256));
          }
      }
    }
    run(input);
  }
}

}  // namespace rlx

// RLX_FUZZ_TARGET(fuzzJson) { use data and size; return 0; }
#ifdef RLX_LIBFUZZER
#define RLX_FUZZ_TARGET(target)                                                  \
  int target(const uint8_t* data, std::size_t size);                             \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size);  \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) { \
    return target(data, size);                                                   \
  }                                                                              \
  int target(const uint8_t* data, std::size_t size)
#else
#define RLX_FUZZ_TARGET(target)                      \
  int target(const uint8_t* data, std::size_t size); \
  int target(const uint8_t* data, std::size_t size)
#endif
