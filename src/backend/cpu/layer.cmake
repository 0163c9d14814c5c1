# Machine code and vector code are for x86-64; what any processor needs is listed here, everything
# else in this folder is left out for others. Included in rlx_library().
if(RLX_X86_64)
  list(FILTER sources EXCLUDE REGEX "/machine_none\\.cc$")
  # Files of vector code for one level of instructions, called only where the machine has it. They use
  # no templates of the standard library: the linker could take these for the whole program.
  set(vector_sources ${sources})
  list(FILTER vector_sources INCLUDE REGEX "_avx2\\.cc$")
  set_source_files_properties(${vector_sources} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
else()
  set(portable "/(backend|target|machine_none|packed|cxx_[a-z]+)(_test)?\\.cc$")
  list(FILTER sources INCLUDE REGEX "${portable}")
  list(FILTER tests INCLUDE REGEX "${portable}")
endif()
set_target_properties(${target} PROPERTIES SOURCES "${sources}")
