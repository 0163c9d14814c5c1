#include "base/fuzz.h"
#include "base/json.h"
#include "base/result.h"

RLX_FUZZ_TARGET(fuzzJson) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto document = rlx::parseJson(text)) {
    // Whatever was accepted can be read without surprises.
    if (auto members = document->root().members())
      for (const rlx::JsonMember& member : *members) {
        (void)member.value.asInt();
        (void)member.value.asString();
        (void)member.value.elements();
        RLX_CHECK(document->root().member(member.key), "a listed member is not found");
      }
  }
  return 0;
}
