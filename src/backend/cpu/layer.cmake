# Files of vector code for one level of instructions, called only where the machine has it. They use
# no templates of the standard library: the linker could take these for the whole program.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  file(GLOB vector_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*_avx2.cc)
  set_source_files_properties(${vector_sources} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
endif()
