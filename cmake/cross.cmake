# What a cross build takes from the machine it runs on: libraries that are only headers or sources.
# The folder of system headers holds those of the wrong processor too, so a link leads to the one
# folder that is wanted.
find_path(RLX_JSON_HEADERS nlohmann/json.hpp PATHS /usr/include NO_CMAKE_FIND_ROOT_PATH REQUIRED)
set(headers ${PROJECT_BINARY_DIR}/host_headers)
file(MAKE_DIRECTORY ${headers})
file(CREATE_LINK ${RLX_JSON_HEADERS}/nlohmann ${headers}/nlohmann SYMBOLIC)
add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
target_include_directories(nlohmann_json::nlohmann_json INTERFACE ${headers})

if(BUILD_TESTING)
  find_path(RLX_GTEST_SOURCES googletest/CMakeLists.txt PATHS /usr/src/googletest
    NO_CMAKE_FIND_ROOT_PATH REQUIRED DOC "Sources of GoogleTest")
  set(BUILD_GMOCK OFF)
  set(INSTALL_GTEST OFF)
  add_subdirectory(${RLX_GTEST_SOURCES} ${PROJECT_BINARY_DIR}/gtest EXCLUDE_FROM_ALL)
  foreach(target gtest gtest_main)
    target_compile_options(${target} PRIVATE -w)
  endforeach()
endif()
