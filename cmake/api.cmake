# librlx.so: the C interface and nothing else leaves it. Installed with its headers, a CMake package
# and a pkg-config file; the examples are built against it as a user would.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(RLX_VERSION_SCRIPT ${PROJECT_SOURCE_DIR}/src/api/rlx.map)
add_library(rlx_shared SHARED $<TARGET_OBJECTS:rlx_api>)
target_link_libraries(rlx_shared PRIVATE rlx_api rlx_registry)
target_link_options(rlx_shared PRIVATE -Wl,--version-script=${RLX_VERSION_SCRIPT} -Wl,--no-undefined)
set_target_properties(rlx_shared PROPERTIES OUTPUT_NAME rlx EXPORT_NAME rlx
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${RLX_VERSION_SCRIPT})
target_include_directories(rlx_shared INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
add_library(rlx::rlx ALIAS rlx_shared)

install(TARGETS rlx_shared EXPORT rlx LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/rlx DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT rlx NAMESPACE rlx:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rlx FILE rlxTargets.cmake)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/rlxConfig.cmake CONTENT
"include(\${CMAKE_CURRENT_LIST_DIR}/rlxTargets.cmake)\n" @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rlxConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rlxConfig.cmake ${PROJECT_BINARY_DIR}/rlxConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rlx)
file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/rlx.pc @ONLY CONTENT
"prefix=\${pcfiledir}/@up@
libdir=\${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=\${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: rlx
Description: tensor compiler and runtime
Version: @PROJECT_VERSION@
Libs: -L\${libdir} -lrlx
Cflags: -I\${includedir}
")
install(FILES ${PROJECT_BINARY_DIR}/rlx.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(BUILD_TESTING)
  set(device reference)
  if(TARGET rlx_backend_cpu)
    set(device cpu)
  endif()
  set(model ${PROJECT_SOURCE_DIR}/examples/models/tiny_classifier.rlx)
  add_executable(example_c_run examples/c/run.c)
  set_target_properties(example_c_run PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON)
  add_executable(example_cpp_run examples/cpp/run.cpp)
  add_executable(example_cpp_graph examples/cpp/graph.cpp)
  foreach(example example_c_run example_cpp_run example_cpp_graph)
    target_link_libraries(${example} PRIVATE rlx::rlx)
  endforeach()
  add_test(NAME example.c.run COMMAND example_c_run ${model} ${device})
  add_test(NAME example.cpp.run COMMAND example_cpp_run ${model} ${device}
    x=${PROJECT_SOURCE_DIR}/examples/models/tiny_classifier_x.npy)
  add_test(NAME example.cpp.graph COMMAND example_cpp_graph ${device})
  # Only the C interface leaves the library.
  add_test(NAME api.symbols COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM}
    -DLIBRARY=$<TARGET_FILE:rlx_shared> -P ${PROJECT_SOURCE_DIR}/cmake/check_symbols.cmake)
endif()
