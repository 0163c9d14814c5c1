// Shared libraries that are looked for at run time, so that one build serves machines with and
// without a vendor's software. A failure says every name that was tried and what the loader
// answered.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rlx {

class DynamicLibrary {
 public:
  // The first of `names` that loads ("libvulkan.so.1", "libvulkan.so"). DeviceUnavailable when none
  // does. The library is unloaded with the last owner.
  static Result<std::shared_ptr<const DynamicLibrary>> open(
      std::span<const std::string_view> names);

  DynamicLibrary(const DynamicLibrary&) = delete;
  DynamicLibrary& operator=(const DynamicLibrary&) = delete;
  ~DynamicLibrary();

  // The address of a symbol, or null.
  void* find(const std::string& symbol) const;
  // The address of a symbol; DeviceUnavailable, naming library and symbol, when it is missing.
  Result<void*> symbol(const std::string& symbol) const;
  // A function of the type F, or null.
  template <class F>
  F function(const std::string& symbol) const {
    return reinterpret_cast<F>(find(symbol));
  }
  // The name that loaded.
  const std::string& name() const { return name_; }

 private:
  DynamicLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  std::string name_;
  void* handle_;
};

}  // namespace rlx
