// The system's C++ compiler and what it has compiled, kept in a folder. It knows nothing of
// kernels, so that the cache can be tested with any source.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/dylib.h"
#include "base/result.h"

namespace rlx::cpu {

struct CxxCompiler {
  std::string program;      // name or path
  std::string description;  // "c++ (GCC 12.2.0)"
  std::vector<std::string>
      flags;                 // for the numeric contract and the instructions of this processor
  uint64_t fingerprint = 0;  // of the compiler, its version, the flags and those instructions
};

// Asks the program what it is. NoCompiler, with what to do, when it cannot be run or is no C++
// compiler.
Result<CxxCompiler> findCxxCompiler(const std::string& program);

// `source`, which does not contain ")rlx", as a loaded shared library: from `folder`, which is
// created, or compiled into it. The name of a file is a hash of source and fingerprint; a library
// carries its source, so that another's is never taken for it. Processes may share the folder. A
// library that does not load is made anew. Io for a folder that others may write to. Device, with
// the first lines of what the compiler says, when it refuses the source.
Result<std::shared_ptr<const DynamicLibrary>> compiledLibrary(const CxxCompiler& compiler,
                                                              const std::string& source,
                                                              const std::string& folder);

}  // namespace rlx::cpu
