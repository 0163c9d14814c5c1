// C++ compiled at run time: the portable way. The kernels of a program that are not loaded yet are
// one source, because to start a compiler takes longer than to compile most kernels.
#include <mutex>
#include <unordered_map>

#include "backend/cpu/cxx_compiler.h"
#include "backend/cpu/target.h"
#include "base/env.h"
#include "base/file.h"
#include "base/hash.h"
#include "dialect/dialect.h"
#include "kir/print.h"
#include "kir/verify.h"

namespace rlx::cpu {
namespace {

struct Setting {
  CxxCompiler compiler;
  std::string folder;  // of compiled libraries
};

Result<Setting> makeSetting() {
  RLX_TRY(const EnvOptions env, readEnv());
  if (env.cache.empty())
    return Error(Errc::NotFound, "there is no folder for compiled kernels")
        .hint("set RLX_CACHE to a folder, or HOME");
  RLX_TRY(CxxCompiler compiler, findCxxCompiler(env.cxx.empty() ? "c++" : env.cxx));
  return Setting{std::move(compiler), joinPath(env.cache, "cxx")};
}

// Found out once.
Result<const Setting*> setting() {
  static const Result<Setting> kSetting = makeSetting();
  if (!kSetting) return kSetting.error().clone();
  return &*kSetting;
}

// What this process has loaded and still uses, by text: executables that share kernels, such as two
// of one model, compile them once.
class LoadedKernels {
 public:
  Result<std::vector<LoadedKernel>> load(std::span<const Code> codes) {
    const std::lock_guard lock(mutex_);
    std::vector<LoadedKernel> held;  // so that nothing found goes away before it is returned
    std::string source;
    std::unordered_map<std::string_view, const Code*> missing;
    for (const Code& code : codes) {
      if (LoadedKernel k = find(code.text); k.run) {
        held.push_back(std::move(k));
      } else if (missing.emplace(code.text, &code).second) {
        // Kernels have helper functions of the same names.
        source += "namespace in_" + code.kernel + " {\n" + code.text + "}\n";
      }
    }
    if (!missing.empty()) RLX_OK(add(missing, source, held));
    std::vector<LoadedKernel> out;
    for (const Code& code : codes) out.push_back(find(code.text));
    return out;
  }

 private:
  struct Known {
    KernelFn run;
    std::weak_ptr<const void> owner;
  };

  LoadedKernel find(const std::string& text) const {
    const auto at = byText_.find(text);
    if (at == byText_.end()) return {};
    std::shared_ptr<const void> owner = at->second.owner.lock();
    return owner ? LoadedKernel{at->second.run, std::move(owner)} : LoadedKernel{};
  }

  Status add(const std::unordered_map<std::string_view, const Code*>& missing,
             const std::string& source, std::vector<LoadedKernel>& held) {
    RLX_TRY(const Setting* const s, setting());
    RLX_TRY(const std::shared_ptr<const DynamicLibrary> library,
            compiledLibrary(s->compiler, source, s->folder));
    std::erase_if(byText_, [](const auto& known) { return known.second.owner.expired(); });
    for (const auto& [text, code] : missing) {
      RLX_TRY(void* const symbol, library->symbol(code->kernel));
      const auto run = reinterpret_cast<KernelFn>(symbol);
      byText_.insert_or_assign(code->text, Known{run, library});
      held.push_back({run, library});
    }
    return Ok{};
  }

  std::mutex mutex_;
  std::unordered_map<std::string, Known> byText_;
};

Result<std::string> describe() {
  RLX_TRY(const Setting* const s, setting());
  return "C++ kernels compiled by " + s->compiler.description;
}

// Kernels of one op have one name; a library needs one for each.
kir::Kernel renamed(const kir::Kernel& kernel) {
  kir::Kernel out = kernel;
  out.name += "_" + hexDigits(stableHash(kir::print(kernel)));
  return out;
}

Result<Code> emit(const kir::Kernel& kernel, const Caps& caps) {
  RLX_OK(kir::verify(kernel));
  const kir::Kernel named = renamed(kernel);
  Code c;
  c.kernel = entryPoint(named);
  RLX_TRY(c.text, emitText(named, caps, *findDialect("cxx")));
  c.globals = static_cast<uint32_t>(kir::globalCount(kernel));
  c.params = static_cast<uint32_t>(kernel.params.size());
  return c;
}

Result<std::vector<LoadedKernel>> load(std::span<const Code> codes) {
  // Never destroyed: devices may be closed after every other object of the process.
  static LoadedKernels* const kLoaded = new LoadedKernels;
  return kLoaded->load(codes);
}

}  // namespace

const Target& cxxTarget() {
  static constexpr Target kCxx{"cxx", 128, &describe, &emit, &load};
  return kCxx;
}

}  // namespace rlx::cpu
