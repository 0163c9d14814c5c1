#include "backend/cpu/cxx_compiler.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "base/file.h"
#include "base/hash.h"
#include "base/process.h"
#include "dialect/dialect.h"

namespace rlx::cpu {
namespace {

constexpr std::size_t kMostMacros = 1 << 20;  // bytes
constexpr std::size_t kMostMessages = 4000;
constexpr const char* kSourceSymbol = "rlx_source";

// Compilers differ in how the instructions of this processor are asked for; one that cannot gets
// the least of the architecture.
constexpr std::array<std::string_view, 3> kNative{"-march=native", "-mcpu=native", ""};

std::vector<std::string> flagsFor(std::string_view native) {
  std::vector<std::string> out;
  std::string_view rest = findDialect("cxx")->flags;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (end != 0) out.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  for (const char* flag : {"-O3", "-shared", "-fPIC"}) out.emplace_back(flag);
  if (!native.empty()) out.emplace_back(native);
  return out;
}

// "GCC 12.2.0" from the text of the predefined macros; empty when it is no such text.
std::string versionIn(std::string_view macros) {
  constexpr std::string_view kVersion = "#define __VERSION__ \"";
  const std::size_t at = macros.find(kVersion);
  if (at == macros.npos) return {};
  const std::string_view value = macros.substr(at + kVersion.size());
  const bool clang = macros.find("#define __clang__ ") != macros.npos;
  return (clang ? "" : "GCC ") + std::string(value.substr(0, value.find('"')));
}

// One more process or thread may be at work on the same file.
std::string temporaryName(const std::string& path) {
  constinit static std::atomic<unsigned> counter{0};
  return path + ".tmp." + std::to_string(::getpid()) + "." +
         std::to_string(counter.fetch_add(1, std::memory_order_relaxed));
}

Status compile(const CxxCompiler& compiler, const std::string& from, const std::string& to) {
  std::vector<std::string> arguments{compiler.program};
  arguments.insert(arguments.end(), compiler.flags.begin(), compiler.flags.end());
  for (const std::string& a : {std::string("-o"), to, from, std::string("-lm")})
    arguments.push_back(a);
  RLX_TRY(const ProcessResult r, runProcess(arguments, kMostMessages));
  if (r.status != 0)
    return Error(Errc::Device, compiler.description + " refuses generated C++, status " +
                                   std::to_string(r.status) + ": " + r.output);
  return Ok{};
}

// Into a file of its own first, so that readers see a whole library or none.
Status build(const CxxCompiler& compiler, const std::string& source, const std::string& path) {
  const std::string temporary = temporaryName(path), text = temporary + ".cc";
  RLX_OK(writeFileAtomic(text, source));
  auto built = compile(compiler, text, temporary);
  if (built && ::rename(temporary.c_str(), path.c_str()) != 0)
    built = Error(Errc::Io, "cannot rename to '" + path + "'");
  ::unlink(text.c_str());
  if (!built) ::unlink(temporary.c_str());
  return built;
}

// What lies in the folder is run, so nobody else may put anything there.
Status ownFolder(const std::string& folder) {
  RLX_OK(makeFolders(folder));
  struct stat st = {};
  if (::stat(folder.c_str(), &st) != 0)
    return Error(Errc::Io, "cannot examine the folder '" + folder + "'");
  if ((st.st_uid == ::geteuid() || st.st_uid == 0) && (st.st_mode & S_IWOTH) == 0) return Ok{};
  return Error(Errc::Io, "the folder '" + folder + "' belongs to or can be written by others")
      .hint("set RLX_CACHE to a folder of your own");
}

Result<std::shared_ptr<const DynamicLibrary>> openLibrary(const std::string& path,
                                                          const std::string& source) {
  const std::string_view name = path;
  RLX_TRY(auto library, DynamicLibrary::open({&name, 1}));
  const auto* const carried = static_cast<const char*>(library->find(kSourceSymbol));
  if (!carried || source != carried)
    return Error(Errc::Device, "'" + path + "' was made of another source");
  return library;
}

}  // namespace

Result<CxxCompiler> findCxxCompiler(const std::string& program) {
  std::string reason;
  for (const std::string_view native : kNative) {
    CxxCompiler c{program, "", flagsFor(native), 0};
    std::vector<std::string> arguments{program};
    if (!native.empty()) arguments.emplace_back(native);
    // The predefined macros tell version and instructions.
    for (const char* a : {"-dM", "-E", "-x", "c++", "/dev/null"}) arguments.emplace_back(a);
    auto r = runProcess(arguments, kMostMacros);
    if (!r) {
      reason = r.error().message();
      break;
    }
    const std::string version = versionIn(r->output);
    if (r->status == 0 && !version.empty()) {
      c.description = program + " (" + version + ")";
      c.fingerprint = stableHash(r->output, stableHash(program));
      for (const std::string& flag : c.flags) c.fingerprint = stableHash(flag, c.fingerprint);
      return c;
    }
    reason = "'" + program + "' does not answer as a C++ compiler, status " +
             std::to_string(r->status) + ": " + r->output.substr(0, r->output.find('\n'));
  }
  return Error(Errc::NoCompiler, std::move(reason))
      .hint(
          "install a C++ compiler such as g++ or clang, or name one in RLX_CXX; --device "
          "reference needs none");
}

Result<std::shared_ptr<const DynamicLibrary>> compiledLibrary(const CxxCompiler& compiler,
                                                              const std::string& source,
                                                              const std::string& folder) {
  RLX_OK(ownFolder(folder));
  const std::string path =
      joinPath(folder, hexDigits(stableHash(source, compiler.fingerprint)) + ".so");
  if (pathKind(path) == PathKind::File)
    if (auto known = openLibrary(path, source)) return known;
  RLX_OK(build(
      compiler,
      source + "extern \"C\" const char " + kSourceSymbol + "[] = R\"rlx(" + source + ")rlx\";\n",
      path));
  return openLibrary(path, source);
}

}  // namespace rlx::cpu
