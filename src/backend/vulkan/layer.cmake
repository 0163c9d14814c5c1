# glslang and SPIRV-Tools are static libraries on every distribution; the order matters. Vulkan itself is
# found at run time, only its headers are needed here.
find_path(RLX_VULKAN_HEADERS vulkan/vulkan.h REQUIRED)
find_path(RLX_GLSLANG_HEADERS glslang/Public/ShaderLang.h REQUIRED)
target_include_directories(${target} SYSTEM PRIVATE ${RLX_VULKAN_HEADERS} ${RLX_GLSLANG_HEADERS})
target_link_libraries(${target} PRIVATE
  glslang MachineIndependent GenericCodeGen OGLCompiler OSDependent SPIRV
  glslang-default-resource-limits SPIRV-Tools-opt SPIRV-Tools)
# glslang comes without run-time type information, which UBSan's check of vptrs asks for.
set_source_files_properties(${folder}/spirv.cc PROPERTIES COMPILE_OPTIONS -fno-sanitize=vptr)
