# Suites that span layers; unit tests stand beside their sources and need no line here.
add_executable(fuzz_graph tests/fuzz/fuzz_graph_test.cc tests/fuzz/random_graph.cc
  tests/support/guarded_backends_test.cc ${guards})
target_link_libraries(fuzz_graph PRIVATE rlx_registry rlx_runtime GTest::gtest GTest::gtest_main)
gtest_discover_tests(fuzz_graph TEST_PREFIX fuzz. DISCOVERY_TIMEOUT 60)

if(TARGET rlx_backend_cpu AND RLX_X86_64)
  add_executable(fuzz_kernel tests/fuzz/fuzz_kernel_test.cc tests/fuzz/random_graph.cc)
  target_link_libraries(fuzz_kernel PRIVATE rlx_backend_cpu rlx_registry rlx_runtime
    GTest::gtest GTest::gtest_main)
  gtest_discover_tests(fuzz_kernel TEST_PREFIX fuzz. DISCOVERY_TIMEOUT 60)
endif()

if(TARGET rlx_model)
  add_executable(symbolic_bert tests/models/symbolic_bert_test.cc)
  target_link_libraries(symbolic_bert PRIVATE rlx_registry rlx_model rlx_runtime GTest::gtest)
  foreach(device cpu vulkan)
    add_test(NAME models.symbolic_bert.${device} COMMAND symbolic_bert --device=${device})
  endforeach()
endif()
