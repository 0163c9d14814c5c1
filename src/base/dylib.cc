#include "base/dylib.h"

#include <dlfcn.h>

namespace rlx {

Result<std::shared_ptr<const DynamicLibrary>> DynamicLibrary::open(
    std::span<const std::string_view> names) {
  std::string tried;
  std::string reasons;
  for (const std::string_view candidate : names) {
    std::string name(candidate);
    if (void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))
      return std::shared_ptr<const DynamicLibrary>(new DynamicLibrary(std::move(name), handle));
    const char* reason = ::dlerror();
    if (!tried.empty()) tried += ", ";
    tried += "'" + name + "'";
    if (!reasons.empty()) reasons += "; ";
    reasons += reason ? reason : "no reason given";
  }
  if (tried.empty()) return Error(Errc::InvalidArgument, "no library name was given");
  return Error(Errc::DeviceUnavailable, "no library could be loaded, tried " + tried)
      .note("the loader says: " + reasons);
}

DynamicLibrary::~DynamicLibrary() {
  ::dlclose(handle_);
}

void* DynamicLibrary::find(const std::string& symbol) const {
  return ::dlsym(handle_, symbol.c_str());
}

Result<void*> DynamicLibrary::symbol(const std::string& symbol) const {
  if (void* address = find(symbol)) return address;
  return Error(Errc::DeviceUnavailable, "library '" + name_ + "' has no symbol '" + symbol + "'");
}

}  // namespace rlx
