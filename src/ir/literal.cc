#include "ir/literal.h"

#include <cmath>
#include <cstring>

#include "base/half.h"

namespace rlx {

int64_t Literal::elements() const {
  int64_t n = 1;
  for (const int64_t e : shape) n *= e;
  return n;
}

bool Literal::operator==(const Literal& o) const {
  return dtype == o.dtype && shape == o.shape && bytes.size() == o.bytes.size() &&
         (bytes.empty() || std::memcmp(bytes.data(), o.bytes.data(), bytes.size()) == 0);
}

Literal Literal::zeros(DType dtype, std::vector<int64_t> shape, std::span<std::byte>* writable) {
  Literal v;
  v.dtype = dtype;
  v.shape = std::move(shape);
  auto data = std::make_shared<std::vector<std::byte>>(
      static_cast<std::size_t>(storageBytes(dtype, v.elements())));
  *writable = *data;
  v.bytes = *data;
  v.owner = std::move(data);
  return v;
}

Literal Literal::copy(DType dtype, std::vector<int64_t> shape, std::span<const std::byte> bytes) {
  std::span<std::byte> out;
  Literal v = zeros(dtype, std::move(shape), &out);
  RLX_CHECK(out.size() == bytes.size(), "literal bytes do not fit its shape");
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size());
  return v;
}

Literal Literal::scalar(DType dtype, double value) {
  std::span<std::byte> out;
  Literal v = zeros(dtype, {}, &out);
  auto put = [&](auto x) { std::memcpy(out.data(), &x, sizeof x); };
  auto integer = [&](double lo, double hi) {
    return std::isnan(value)        ? 0.0
           : std::trunc(value) < lo ? lo
           : std::trunc(value) > hi ? hi
                                    : std::trunc(value);
  };
  switch (dtype) {
    case DType::F64: put(value); break;
    case DType::F32: put(static_cast<float>(value)); break;
    case DType::F16: put(f64ToF16(value)); break;
    case DType::BF16: put(f64ToBf16(value)); break;
    case DType::C64: put(static_cast<float>(value)); break;
    case DType::C128: put(value); break;
    case DType::I8: put(static_cast<int8_t>(integer(-128, 127))); break;
    case DType::I16: put(static_cast<int16_t>(integer(-32768, 32767))); break;
    case DType::I32: put(static_cast<int32_t>(integer(INT32_MIN, INT32_MAX))); break;
    case DType::I64:
      put(value >= 9223372036854775808.0
              ? INT64_MAX
              : static_cast<int64_t>(integer(-9223372036854775808.0, 9223372036854775807.0)));
      break;
    case DType::U8: put(static_cast<uint8_t>(integer(0, 255))); break;
    case DType::U16: put(static_cast<uint16_t>(integer(0, 65535))); break;
    case DType::U32: put(static_cast<uint32_t>(integer(0, UINT32_MAX))); break;
    case DType::U64:
      put(value >= 18446744073709551616.0
              ? UINT64_MAX
              : static_cast<uint64_t>(integer(0, 18446744073709551615.0)));
      break;
    case DType::Bool: put(static_cast<uint8_t>(value != 0)); break;
    case DType::I4:
    case DType::U4:
    case DType::F8E4M3:
    case DType::F8E5M2:
    case DType::F4E2M1:
    case DType::Q4_0:
    case DType::Q4_1:
    case DType::Q5_0:
    case DType::Q5_1:
    case DType::Q8_0:
    case DType::Q2_K:
    case DType::Q3_K:
    case DType::Q4_K:
    case DType::Q5_K:
    case DType::Q6_K: RLX_UNREACHABLE("scalar literal of a packed dtype");
  }
  return v;
}

}  // namespace rlx
