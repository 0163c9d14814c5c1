// Elementwise ops beyond the scalar primitives: one function each, over any Domain. Shape
// inference, reference semantics, gradient, kernel body and decomposition all follow from it.
#pragma once
#include "scalar/scalar.h"

namespace rlx::ops::elementwise {

#define RLX_ELEMENTWISE(Id, text, ...)            \
  struct Id {                                     \
    static constexpr std::string_view doc = text; \
    template <Domain S>                           \
    static S eval(const S& x) {                   \
      __VA_ARGS__                                 \
    }                                             \
  };

#include "ops/elementwise.def"
#undef RLX_ELEMENTWISE

}  // namespace rlx::ops::elementwise
