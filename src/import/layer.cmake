# The ONNX messages: generated from the onnx.proto that the system's ONNX package installs.
find_path(RLX_ONNX_PROTO_DIR onnx/onnx.proto REQUIRED DOC "Folder that holds onnx/onnx.proto")
set(generated ${PROJECT_BINARY_DIR}/generated/onnx)
file(MAKE_DIRECTORY ${generated})
add_custom_command(
  OUTPUT ${generated}/onnx.pb.cc ${generated}/onnx.pb.h
  COMMAND protobuf::protoc --cpp_out=${generated} -I${RLX_ONNX_PROTO_DIR}/onnx onnx.proto
  DEPENDS ${RLX_ONNX_PROTO_DIR}/onnx/onnx.proto
  VERBATIM)
# A library of its own: warnings are off for generated code, and its headers are system headers.
add_library(rlx_onnx_proto STATIC ${generated}/onnx.pb.cc)
target_compile_options(rlx_onnx_proto PRIVATE -w)
target_include_directories(rlx_onnx_proto SYSTEM PUBLIC ${generated} ${Protobuf_INCLUDE_DIRS})
target_link_libraries(rlx_onnx_proto PUBLIC protobuf::libprotobuf)
add_dependencies(${target} rlx_onnx_proto)
target_link_libraries(${target} PRIVATE rlx_onnx_proto)
