#include "ops/ref_tensor.h"

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

void RefTensor::setInteger(int64_t at, Wide v) {
  i[static_cast<std::size_t>(at)] = wrapInteger(dtype, v);
}

void RefTensor::setNumber(int64_t at, double v) {
  const auto k = static_cast<std::size_t>(at);
  if (isFloat(dtype)) {
    f[k] = v;
  } else if (isComplex(dtype)) {
    f[2 * k] = v, f[2 * k + 1] = 0;
  } else {
    i[k] = saturateInteger(dtype, v);
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
  if (info(dtype).kind == DTypeKind::Block)
    return Error(Errc::Unsupported, "reading values of dtype " + std::string(name(dtype)));
  const int64_t n = product(shape);
  if (static_cast<int64_t>(bytes.size()) != storageBytes(dtype, n))
    return Error(Errc::InvalidArgument, std::to_string(bytes.size()) + " bytes for " +
                                            std::to_string(n) + " elements of " +
                                            std::string(name(dtype)));
  RefTensor t(dtype, std::move(shape));
  if (t.isInt()) {
    for (int64_t k = 0; k < n; ++k)
      t.setInteger(k, static_cast<int64_t>(elementBits(dtype, bytes, k)));
  } else {
    const DType part = partOf(dtype);
    for (std::size_t k = 0; k < t.f.size(); ++k)
      t.f[k] = decodeFloat(part, elementBits(part, bytes, static_cast<int64_t>(k)));
  }
  return t;
}

Result<std::vector<std::byte>> toBytes(const RefTensor& t) {
  const int64_t n = t.elements();
  if (info(t.dtype).kind == DTypeKind::Block)
    return Error(Errc::Unsupported, "writing values of dtype " + std::string(name(t.dtype)));
  std::vector<std::byte> out(static_cast<std::size_t>(storageBytes(t.dtype, n)));
  if (t.isInt()) {
    for (int64_t k = 0; k < n; ++k)
      setElementBits(t.dtype, out, k, static_cast<uint64_t>(t.i[static_cast<std::size_t>(k)]));
  } else {
    const DType part = partOf(t.dtype);
    for (std::size_t k = 0; k < t.f.size(); ++k)
      setElementBits(part, out, static_cast<int64_t>(k), encodeFloat(part, t.f[k]));
  }
  return out;
}

Result<RefTensor> fromLiteral(const Literal& v) {
  return fromBytes(v.dtype, v.shape, v.bytes);
}

}  // namespace rlx
