#include <cpuid.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "backend/cpu/emitter.h"

namespace rlx::cpu {

Result<IsaLevel> detectIsa() {
  const auto has = [](uint32_t word, int bit) { return (word >> bit & 1) != 0; };
  uint32_t a = 0, b = 0, c = 0, d = 0;
  const auto none = [] {
    return Error(Errc::Unsupported, "the processor lacks AVX2, FMA, F16C or BMI2");
  };
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return none();
  const bool fma = has(c, 12), osxsave = has(c, 27), avx = has(c, 28), f16c = has(c, 29);
  if (!fma || !osxsave || !avx || !f16c) return none();
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr uint32_t kYmm = 0x6, kZmm = 0xe6;  // register state that the system saves
  if ((low & kYmm) != kYmm || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return none();
  if (!has(b, 5) || !has(b, 8)) return none();
  const bool avx512 = has(b, 16) && has(b, 17) && has(b, 30) && has(b, 31);
  return avx512 && (low & kZmm) == kZmm ? IsaLevel::Avx512 : IsaLevel::Avx2;
}

Vnni detectVnni(IsaLevel isa) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (isa == IsaLevel::Avx512)
    return Vnni{__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c >> 11 & 1) != 0};
  return Vnni{__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0};
}

Result<ExecutableMemory> ExecutableMemory::create(std::span<const std::byte> code) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  ExecutableMemory out;
  const std::size_t size = (code.size() + page - 1) / page * page;
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return Error(Errc::OutOfMemory, std::to_string(size) + " bytes for generated code");
  out.address_ = at;
  out.bytes_ = size;
  std::memcpy(at, code.data(), code.size());
  if (mprotect(at, size, PROT_READ | PROT_EXEC) != 0)
    return Error(Errc::Device, "mprotect: the system forbids executable memory");
  return out;
}

ExecutableMemory::ExecutableMemory(ExecutableMemory&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

ExecutableMemory& ExecutableMemory::operator=(ExecutableMemory&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

ExecutableMemory::~ExecutableMemory() {
  if (address_ != nullptr) munmap(address_, bytes_);
}

}  // namespace rlx::cpu
