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

RLX_ELEMENTWISE(Relu, "max(x, 0)", return max(x, S(0));)
RLX_ELEMENTWISE(Sigmoid, "1 / (1 + exp(-x))", return S(1) / (S(1) + exp(-x));)
RLX_ELEMENTWISE(Silu, "x * sigmoid(x)", return x / (S(1) + exp(-x));)
RLX_ELEMENTWISE(Gelu, "x * Phi(x), Phi the normal distribution function, by erf",
                return x * S(0.5) * (S(1) + erf(x * S(0.7071067811865476)));)
RLX_ELEMENTWISE(GeluTanh, "0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
                return x * S(0.5) *
                       (S(1) + tanh(S(0.7978845608028654) * (x + S(0.044715) * x * x * x)));)
RLX_ELEMENTWISE(Softplus, "log(1 + exp(x)), without overflow",
                return max(x, S(0)) + log1p(exp(-abs(x)));)
RLX_ELEMENTWISE(Softsign, "x / (1 + |x|)", return x / (S(1) + abs(x));)
RLX_ELEMENTWISE(HardSwish, "x * clamp(x / 6 + 1/2, 0, 1)",
                return x * clamp(x * S(1.0 / 6) + S(0.5), S(0), S(1));)
RLX_ELEMENTWISE(Mish, "x * tanh(softplus(x))", return x * tanh(max(x, S(0)) + log1p(exp(-abs(x))));)
RLX_ELEMENTWISE(Square, "x * x", return x * x;)

}  // namespace rlx::ops::elementwise
