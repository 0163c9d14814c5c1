# Programs and suites above the layers.
add_executable(rlx src/cli/main.cc)
target_link_libraries(rlx PRIVATE rlx_cli rlx_registry rlx_model)

if(BUILD_TESTING)
  include_directories(tests)
  # In place of the registry: the same backends with guard bytes round every buffer.
  set(guards tests/support/guarded_backends.cc)
  add_executable(conformance tests/conformance/conformance_test.cc ${guards})
  target_link_libraries(conformance PRIVATE rlx_registry rlx_runtime GTest::gtest)
  foreach(device reference cpu vulkan)
    # In shards, so that a slow device keeps every core busy.
    foreach(shard 0 1)
      add_test(NAME conformance.${device}.${shard} COMMAND conformance --device=${device})
      set_tests_properties(conformance.${device}.${shard} PROPERTIES
        ENVIRONMENT "GTEST_TOTAL_SHARDS=2;GTEST_SHARD_INDEX=${shard}")
    endforeach()
  endforeach()
  add_test(NAME conformance.cpu.common COMMAND conformance --device=cpu --policy=force-common)
  include(cmake/suites.cmake)
endif()
