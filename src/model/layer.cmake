target_link_libraries(${target} PRIVATE ICU::uc)
set_source_files_properties(${folder}/wordpiece_test.cc PROPERTIES
  COMPILE_DEFINITIONS RLX_GOLDEN_DIR="${PROJECT_SOURCE_DIR}/tests/golden")
