#include "base/fuzz.h"
#include "base/result.h"
#include "ir/graph.h"

RLX_FUZZ_TARGET(fuzzGraphBinary) {
  if (auto graph = rlx::decodeGraph({reinterpret_cast<const std::byte*>(data), size})) {
    RLX_CHECK(rlx::verify(*graph), "a decoded graph does not verify");
    auto again = rlx::decodeGraph(rlx::encode(*graph));
    RLX_CHECK(again && rlx::print(*again) == rlx::print(*graph),
              "encode and decode are not inverse");
  }
  return 0;
}
