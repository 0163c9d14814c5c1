#include "ir/literal.h"

#include <cstring>
#include <new>

#include "ir/element.h"

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

Literal Literal::uninitialized(DType dtype, std::vector<int64_t> shape,
                               std::span<std::byte>* writable) {
  constexpr std::align_val_t kLine{64};
  Literal v;
  v.dtype = dtype;
  v.shape = std::move(shape);
  const auto size = static_cast<std::size_t>(storageBytes(dtype, v.elements()));
  auto* const data = static_cast<std::byte*>(::operator new(size, kLine));
  v.owner = std::shared_ptr<const void>(data, [](std::byte* p) { ::operator delete(p, kLine); });
  *writable = {data, size};
  v.bytes = *writable;
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
  const DType part = partOf(dtype);
  RLX_CHECK(isPlain(dtype), "scalar literal of a packed dtype");
  setElementBits(part, out, 0,
                 isFloat(part) ? encodeFloat(part, value)
                               : static_cast<uint64_t>(saturateInteger(part, value)));
  return v;
}

}  // namespace rlx
