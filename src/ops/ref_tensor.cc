#include "ops/ref_tensor.h"

#include <cmath>
#include <cstring>

#include "base/half.h"

namespace rlx {

RefTensor::RefTensor(DType t, std::vector<int64_t> s) : dtype(t), shape(std::move(s)) {
  const auto n = static_cast<std::size_t>(elements());
  if (isFloat(t))
    f.resize(n);
  else if (isComplex(t))
    f.resize(2 * n);
  else
    i.resize(n);
}

int64_t RefTensor::elements() const {
  return product(shape);
}

double RefTensor::number(int64_t at) const {
  const auto k = static_cast<std::size_t>(at);
  if (isFloat(dtype)) return f[k];
  if (isComplex(dtype)) return f[2 * k];
  return static_cast<double>(integer(at));
}

RefTensor::Wide RefTensor::integer(int64_t at) const {
  const int64_t v = i[static_cast<std::size_t>(at)];
  return dtype == DType::U64 ? static_cast<Wide>(static_cast<uint64_t>(v)) : static_cast<Wide>(v);
}

int64_t wrapInteger(DType t, RefTensor::Wide v) {
  if (t == DType::Bool) return v != 0;
  const int w = info(t).bits;
  if (w >= 64) return static_cast<int64_t>(v);
  const RefTensor::Wide mask = (RefTensor::Wide{1} << w) - 1;
  v &= mask;
  if (isSigned(t) && (v >> (w - 1)) != 0) v -= mask + 1;
  return static_cast<int64_t>(v);
}

void RefTensor::setInteger(int64_t at, Wide v) {
  i[static_cast<std::size_t>(at)] = wrapInteger(dtype, v);
}

double roundTo(DType t, double v) {
  switch (t) {
    case DType::F32: return static_cast<double>(static_cast<float>(v));
    case DType::F16: return static_cast<double>(f16ToF32(f64ToF16(v)));
    case DType::BF16: return static_cast<double>(bf16ToF32(f64ToBf16(v)));
    case DType::F8E4M3:
      return static_cast<double>(
          f8e4m3fnToF32(f32ToF8e4m3fn(static_cast<float>(v), F8Overflow::Saturate)));
    case DType::F8E5M2:
      return static_cast<double>(
          f8e5m2ToF32(f32ToF8e5m2(static_cast<float>(v), F8Overflow::Saturate)));
    case DType::F64:
    case DType::C64:
    case DType::C128:
    case DType::F4E2M1:
    case DType::I8:
    case DType::I16:
    case DType::I32:
    case DType::I64:
    case DType::U8:
    case DType::U16:
    case DType::U32:
    case DType::U64:
    case DType::Bool:
    case DType::I4:
    case DType::U4:
    case DType::Q4_0:
    case DType::Q4_1:
    case DType::Q5_0:
    case DType::Q5_1:
    case DType::Q8_0:
    case DType::Q2_K:
    case DType::Q3_K:
    case DType::Q4_K:
    case DType::Q5_K:
    case DType::Q6_K: break;
  }
  return v;
}

void RefTensor::setNumber(int64_t at, double v) {
  const auto k = static_cast<std::size_t>(at);
  if (isFloat(dtype)) {
    f[k] = v;
  } else if (isComplex(dtype)) {
    f[2 * k] = v, f[2 * k + 1] = 0;
  } else if (dtype == DType::Bool) {
    i[k] = v != 0;
  } else if (std::isnan(v)) {
    i[k] = 0;
  } else {
    const int w = info(dtype).bits;
    const double lo = isSigned(dtype) ? -std::ldexp(1.0, w - 1) : 0;
    const double top = std::ldexp(1.0, isSigned(dtype) ? w - 1 : w);  // one past the largest
    const double t = std::trunc(v);
    if (t < lo)
      setInteger(at, isSigned(dtype) ? -(Wide{1} << (w - 1)) : 0);
    else if (t >= top)
      setInteger(at, (Wide{1} << (isSigned(dtype) ? w - 1 : w)) - 1);
    else
      setInteger(at, static_cast<Wide>(t));
  }
}

int64_t product(std::span<const int64_t> shape) {
  int64_t n = 1;
  for (const int64_t e : shape) n *= e;
  return n;
}

std::vector<int64_t> rowMajorStrides(std::span<const int64_t> shape) {
  std::vector<int64_t> s(shape.size(), 1);
  for (std::size_t k = shape.size(); k-- > 1;) s[k - 1] = s[k] * shape[k];
  return s;
}

bool nextIndex(std::vector<int64_t>& index, std::span<const int64_t> shape) {
  for (std::size_t k = shape.size(); k-- > 0;) {
    if (++index[k] < shape[k]) return true;
    index[k] = 0;
  }
  return false;
}

int64_t offsetOf(std::span<const int64_t> index, std::span<const int64_t> shape) {
  int64_t at = 0;
  for (std::size_t k = 0; k < shape.size(); ++k) at = at * shape[k] + index[k];
  return at;
}

Result<RefTensor> fromBytes(DType dtype, std::vector<int64_t> shape,
                            std::span<const std::byte> bytes) {
  if (info(dtype).kind == DTypeKind::Block || dtype == DType::F4E2M1)
    return Error(Errc::Unsupported, "reading values of dtype " + std::string(name(dtype)));
  const int64_t n = product(shape);
  if (static_cast<int64_t>(bytes.size()) != storageBytes(dtype, n))
    return Error(Errc::InvalidArgument, std::to_string(bytes.size()) + " bytes for " +
                                            std::to_string(n) + " elements of " +
                                            std::string(name(dtype)));
  RefTensor t(dtype, std::move(shape));
  auto read = [&]<class T>(T, int64_t k) {
    T x;
    std::memcpy(&x, bytes.data() + static_cast<std::size_t>(k) * sizeof(T), sizeof(T));
    return x;
  };
  for (int64_t k = 0; k < n; ++k) {
    const auto at = static_cast<std::size_t>(k);
    switch (dtype) {
      case DType::F64: t.f[at] = read(double{}, k); break;
      case DType::F32: t.f[at] = static_cast<double>(read(float{}, k)); break;
      case DType::F16: t.f[at] = static_cast<double>(f16ToF32(read(uint16_t{}, k))); break;
      case DType::BF16: t.f[at] = static_cast<double>(bf16ToF32(read(uint16_t{}, k))); break;
      case DType::F8E4M3: t.f[at] = static_cast<double>(f8e4m3fnToF32(read(uint8_t{}, k))); break;
      case DType::F8E5M2: t.f[at] = static_cast<double>(f8e5m2ToF32(read(uint8_t{}, k))); break;
      case DType::C64:
        t.f[2 * at] = static_cast<double>(read(float{}, 2 * k));
        t.f[2 * at + 1] = static_cast<double>(read(float{}, 2 * k + 1));
        break;
      case DType::C128:
        t.f[2 * at] = read(double{}, 2 * k), t.f[2 * at + 1] = read(double{}, 2 * k + 1);
        break;
      case DType::I8: t.i[at] = read(int8_t{}, k); break;
      case DType::I16: t.i[at] = read(int16_t{}, k); break;
      case DType::I32: t.i[at] = read(int32_t{}, k); break;
      case DType::I64:
      case DType::U64: t.i[at] = read(int64_t{}, k); break;
      case DType::U8: t.i[at] = read(uint8_t{}, k); break;
      case DType::Bool: t.i[at] = read(uint8_t{}, k) != 0; break;
      case DType::U16: t.i[at] = read(uint16_t{}, k); break;
      case DType::U32: t.i[at] = read(uint32_t{}, k); break;
      case DType::I4:
      case DType::U4: {
        const auto b = static_cast<int>(read(uint8_t{}, k / 2));
        t.setInteger(k, k % 2 ? b >> 4 : b & 15);
        break;
      }
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
      case DType::Q6_K: break;
    }
  }
  return t;
}

Result<std::vector<std::byte>> toBytes(const RefTensor& t) {
  const int64_t n = t.elements();
  if (info(t.dtype).kind == DTypeKind::Block || t.dtype == DType::F4E2M1)
    return Error(Errc::Unsupported, "writing values of dtype " + std::string(name(t.dtype)));
  std::vector<std::byte> out(static_cast<std::size_t>(storageBytes(t.dtype, n)));
  auto write = [&](auto x, int64_t k) {
    std::memcpy(out.data() + static_cast<std::size_t>(k) * sizeof x, &x, sizeof x);
  };
  for (int64_t k = 0; k < n; ++k) {
    const auto at = static_cast<std::size_t>(k);
    switch (t.dtype) {
      case DType::F64: write(t.f[at], k); break;
      case DType::F32: write(static_cast<float>(t.f[at]), k); break;
      case DType::F16: write(f64ToF16(t.f[at]), k); break;
      case DType::BF16: write(f64ToBf16(t.f[at]), k); break;
      case DType::F8E4M3:
        write(f32ToF8e4m3fn(static_cast<float>(t.f[at]), F8Overflow::Saturate), k);
        break;
      case DType::F8E5M2:
        write(f32ToF8e5m2(static_cast<float>(t.f[at]), F8Overflow::Saturate), k);
        break;
      case DType::C64:
        write(static_cast<float>(t.f[2 * at]), 2 * k);
        write(static_cast<float>(t.f[2 * at + 1]), 2 * k + 1);
        break;
      case DType::C128: write(t.f[2 * at], 2 * k), write(t.f[2 * at + 1], 2 * k + 1); break;
      case DType::I8: write(static_cast<int8_t>(t.i[at]), k); break;
      case DType::I16: write(static_cast<int16_t>(t.i[at]), k); break;
      case DType::I32: write(static_cast<int32_t>(t.i[at]), k); break;
      case DType::I64:
      case DType::U64: write(t.i[at], k); break;
      case DType::U8: write(static_cast<uint8_t>(t.i[at]), k); break;
      case DType::Bool: write(static_cast<uint8_t>(t.i[at] != 0), k); break;
      case DType::U16: write(static_cast<uint16_t>(t.i[at]), k); break;
      case DType::U32: write(static_cast<uint32_t>(t.i[at]), k); break;
      case DType::I4:
      case DType::U4: {
        std::byte& b = out[at / 2];
        b |= static_cast<std::byte>((t.i[at] & 15) << (k % 2 * 4));
        break;
      }
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
      case DType::Q6_K: break;
    }
  }
  return out;
}

Result<RefTensor> fromLiteral(const Literal& v) {
  return fromBytes(v.dtype, v.shape, v.bytes);
}

}  // namespace rlx
