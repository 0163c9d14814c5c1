#include "dialect/dialect.h"

#include "dialect/records.h"
#include "kir/share.h"

namespace rlx {

std::span<const Dialect* const> dialects() {
  using namespace dialect;
  static constexpr const Dialect* kAll[] = {&kCuda, &kCxx, &kGlsl,   &kHip,
                                            &kHlsl, &kMsl, &kOpencl, &kWgsl};
  return kAll;
}

const Dialect* findDialect(std::string_view name) {
  for (const Dialect* d : dialects())
    if (d->name == name) return d;
  return nullptr;
}

kir::Spelling spelling(const Dialect& d) {
  kir::Spelling s;
  s.half = d.half;
  s.fusedFma = d.fusedFma;
  for (std::size_t t = 0; t < kDTypeCount; ++t) {
    const auto type = static_cast<DType>(t);
    if (d.types[t].empty() || (type != DType::Bool && info(type).bits < 32)) continue;
    for (std::size_t op = 0; op < kScalarCount; ++op)
      if (!d.table(type)[op].empty()) s.ops[op] |= bit(type);
  }
  return s;
}

std::string entryPoint(const kir::Kernel& kernel) {
  return "k_" + kernel.name;
}

Result<std::string> emitText(const kir::Kernel& kernel, const Caps& caps, const Dialect& d) {
  RLX_TRY(kir::Kernel legal, kir::legalize(kernel, caps, spelling(d)));
  if (d.preciseStores) kir::share(legal, {.nameStores = true});
  return printKernel(legal, d);
}

}  // namespace rlx
