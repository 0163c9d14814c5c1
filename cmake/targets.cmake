# Programs and suites above the layers.
add_library(rlx_all INTERFACE)
target_link_libraries(rlx_all INTERFACE rlx_cli rlx_registry rlx_model rlx_import rlx_runtime)

if(BUILD_TESTING)
  include_directories(tests)
  add_executable(conformance tests/conformance/conformance_test.cc tests/conformance/samples.cc)
  target_link_libraries(conformance PRIVATE rlx_registry rlx_runtime GTest::gtest)
  foreach(device reference cpu vulkan)
    add_test(NAME conformance.${device} COMMAND conformance --device=${device})
  endforeach()
  add_test(NAME conformance.cpu.common COMMAND conformance --device=cpu --policy=force-common)
endif()
