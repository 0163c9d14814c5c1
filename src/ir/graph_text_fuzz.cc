#include "base/fuzz.h"
#include "base/result.h"
#include "ir/graph.h"

RLX_FUZZ_TARGET(fuzzGraphText) {
  if (auto graph = rlx::parseGraph({reinterpret_cast<const char*>(data), size})) {
    RLX_CHECK(rlx::verify(*graph), "a parsed graph does not verify");
    const std::string text = rlx::print(*graph);
    auto again = rlx::parseGraph(text);
    RLX_CHECK(again && rlx::print(*again) == text, "print and parse are not inverse");
  }
  return 0;
}
