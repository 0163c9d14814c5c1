// The C interface: handles are structs that own the C++ values, every function ends in `guarded`,
// which turns what would be thrown (the standard library out of memory) into an error.
#include <rlx/rlx.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>

#include "base/npy.h"
#include "ir/builder.h"
#include "model/load.h"
#include "runtime/executable.h"
#include "runtime/registry.h"

struct rlx_error {
  rlx::Error error;
  std::string text;
};
struct rlx_tensor {
  rlx::Tensor value;
};
struct rlx_model {
  rlx::Graph graph;
  std::vector<std::string> inputTypes, outputTypes;
};
struct rlx_executable {
  rlx::Executable value;
};
struct rlx_builder {
  std::unique_ptr<rlx::Builder> builder;
  std::string name;
};

namespace rlx {
namespace {

#define RLX_SAME(C, Id) static_assert(static_cast<int>(DType::Id) == (C))
RLX_SAME(RLX_F64, F64);
RLX_SAME(RLX_F32, F32);
RLX_SAME(RLX_F16, F16);
RLX_SAME(RLX_BF16, BF16);
RLX_SAME(RLX_C64, C64);
RLX_SAME(RLX_I8, I8);
RLX_SAME(RLX_I16, I16);
RLX_SAME(RLX_I32, I32);
RLX_SAME(RLX_I64, I64);
RLX_SAME(RLX_U8, U8);
RLX_SAME(RLX_U16, U16);
RLX_SAME(RLX_U32, U32);
RLX_SAME(RLX_U64, U64);
RLX_SAME(RLX_BOOL, Bool);
RLX_SAME(RLX_I4, I4);
RLX_SAME(RLX_U4, U4);
RLX_SAME(RLX_C128, C128);
RLX_SAME(RLX_F8E4M3FN, F8E4M3);
RLX_SAME(RLX_F8E5M2, F8E5M2);
RLX_SAME(RLX_F4E2M1, F4E2M1);
#undef RLX_SAME
static_assert(static_cast<int>(Policy::PreferNative) == RLX_PREFER_NATIVE &&
              static_cast<int>(Policy::ForceCommon) == RLX_FORCE_COMMON &&
              static_cast<int>(Policy::ForceNative) == RLX_FORCE_NATIVE);

rlx_error* failure(Error error) {
  std::string text = error.text();
  return new rlx_error{std::move(error), std::move(text)};
}

// Runs a function that returns a Status.
template <class F>
rlx_error* guarded(F&& body) noexcept {
  try {
    Status s = body();
    return s ? nullptr : failure(std::move(s).error());
  } catch (const std::bad_alloc&) {
    return failure(Error(Errc::OutOfMemory, "out of memory"));
  } catch (...) {
    return failure(Error(Errc::Internal, "the standard library threw"));
  }
}

Status notNull(const void* p, const char* what) {
  if (!p) return Error(Errc::InvalidArgument, std::string(what) + " is NULL");
  return Ok{};
}

Result<DType> dtypeOf(int32_t t) {
  if (t < 0 || t > RLX_F4E2M1)
    return Error(Errc::InvalidArgument, "there is no dtype " + std::to_string(t));
  return static_cast<DType>(t);
}

char* copied(const std::string& s) {
  auto* out = new char[s.size() + 1];
  std::memcpy(out, s.c_str(), s.size() + 1);
  return out;
}

// The fields that the caller's version of the struct has.
Result<CompileOptions> optionsOf(const rlx_options* given) {
  CompileOptions o;
  if (!given) return o;
  rlx_options all = RLX_OPTIONS_INIT;
  if (given->size < sizeof(size_t) || given->size > 4096)
    return Error(Errc::InvalidArgument, "rlx_options.size is " + std::to_string(given->size) +
                                            "; start from RLX_OPTIONS_INIT");
  std::memcpy(&all, given, std::min(given->size, sizeof all));
  if (all.device) o.device = all.device;
  o.deviceIndex = all.device_index;
  if (all.threads < 0)
    return Error(Errc::InvalidArgument, "threads is " + std::to_string(all.threads));
  o.threads = all.threads;
  if (all.policy < RLX_PREFER_NATIVE || all.policy > RLX_FORCE_NATIVE)
    return Error(Errc::InvalidArgument, "there is no policy " + std::to_string(all.policy));
  o.policy = static_cast<Policy>(all.policy);
  for (size_t k = 0; k < all.dim_count; ++k) {
    RLX_OK(notNull(all.dims, "rlx_options.dims"));
    RLX_OK(notNull(all.dims[k].symbol, "a symbol of rlx_options.dims"));
    o.dims.emplace_back(all.dims[k].symbol, all.dims[k].value);
  }
  for (size_t k = 0; k < all.allow_host_count; ++k) {
    RLX_OK(notNull(all.allow_host, "rlx_options.allow_host"));
    RLX_OK(notNull(all.allow_host[k], "an op of rlx_options.allow_host"));
    o.allowHost.emplace_back(all.allow_host[k]);
  }
  if (all.cache_dir) o.cacheDir = all.cache_dir;
  return o;
}

Status give(Result<Graph> graph, rlx_model** model) {
  if (!graph) return std::move(graph).error();
  auto m = std::make_unique<rlx_model>();
  m->graph = *std::move(graph);
  for (const Port& p : m->graph.inputs) m->inputTypes.push_back(text(m->graph.type(p.value)));
  for (const Port& p : m->graph.outputs) m->outputTypes.push_back(text(m->graph.type(p.value)));
  *model = m.release();
  return Ok{};
}

// NumPy's spelling of the dtypes that it has.
struct NpyType {
  DType dtype;
  const char* spelling;
};
constexpr NpyType kNpyTypes[] = {
    {DType::F64, "<f8"},  {DType::F32, "<f4"},   {DType::F16, "<f2"}, {DType::C64, "<c8"},
    {DType::I8, "|i1"},   {DType::I16, "<i2"},   {DType::I32, "<i4"}, {DType::I64, "<i8"},
    {DType::U8, "|u1"},   {DType::U16, "<u2"},   {DType::U32, "<u4"}, {DType::U64, "<u8"},
    {DType::Bool, "|b1"}, {DType::C128, "<c16"},
};

const char* nameAt(const std::vector<Port>& ports, size_t index) {
  return index < ports.size() ? ports[index].name.c_str() : nullptr;
}
const char* typeAt(const std::vector<std::string>& types, size_t index) {
  return index < types.size() ? types[index].c_str() : nullptr;
}

Value valueOf(rlx_builder* b, uint32_t id) {
  Builder& builder = *b->builder;
  if (id == RLX_NO_VALUE) return Value{};
  if (id >= builder.graph().values.size()) {
    builder.fail(Error(Errc::InvalidArgument, "there is no value " + std::to_string(id)));
    return Value{};
  }
  return Value{&builder, {id}};
}

// A builder's functions have no error to return: what is wrong sticks in the builder.
template <class F>
uint32_t building(rlx_builder* b, F&& body) noexcept {
  if (!b || !b->builder) return RLX_NO_VALUE;
  try {
    if (b->builder->failed()) return RLX_NO_VALUE;
    Result<Value> v = body(*b->builder);
    if (!v) b->builder->fail(std::move(v).error(), SourceLoc{"", 0});
    return v && *v && !b->builder->failed() ? v->id.index : RLX_NO_VALUE;
  } catch (...) {
    return RLX_NO_VALUE;
  }
}

}  // namespace
}  // namespace rlx

using namespace rlx;

extern "C" {

uint32_t rlx_version(void) {
  return RLX_VERSION_MAJOR * 1000000 + RLX_VERSION_MINOR * 1000 + RLX_VERSION_PATCH;
}

// ---- Errors
int32_t rlx_error_code(const rlx_error* e) {
  // "E0412" without the letter.
  return e ? std::atoi(spelling(e->error.code()).c_str() + 1) : 0;
}
const char* rlx_error_message(const rlx_error* e) {
  return e ? e->error.message().c_str() : "";
}
const char* rlx_error_node(const rlx_error* e) {
  return e ? e->error.node().c_str() : "";
}
const char* rlx_error_hint(const rlx_error* e) {
  return e ? e->error.hint().c_str() : "";
}
size_t rlx_error_note_count(const rlx_error* e) {
  return e ? e->error.notes().size() : 0;
}
const char* rlx_error_note(const rlx_error* e, size_t k) {
  return k < rlx_error_note_count(e) ? e->error.notes()[k].c_str() : nullptr;
}
const char* rlx_error_text(const rlx_error* e) {
  return e ? e->text.c_str() : "";
}
void rlx_error_free(rlx_error* e) {
  delete e;
}
void rlx_string_free(char* s) {
  delete[] s;
}

// ---- Tensors
rlx_error* rlx_tensor_create(rlx_dtype dtype, const int64_t* shape, size_t rank, const void* data,
                             size_t bytes, rlx_tensor** tensor) {
  return guarded([&]() -> Status {
    RLX_OK(notNull(tensor, "tensor"));
    if (rank > 0) RLX_OK(notNull(shape, "shape"));
    RLX_TRY(const DType t, dtypeOf(dtype));
    std::vector<int64_t> extents(shape, shape + rank);
    int64_t n = 1;
    for (const int64_t e : extents)
      if (e < 0 || __builtin_mul_overflow(n, e, &n) || n > (int64_t{1} << 40))
        return Error(Errc::InvalidArgument, "the shape is impossible");
    const auto want = static_cast<size_t>(storageBytes(t, n));
    if (data && bytes != want)
      return Error(Errc::InvalidArgument,
                   std::to_string(bytes) + " bytes for a tensor of " + std::to_string(want));
    std::span<std::byte> out;
    auto made = std::make_unique<rlx_tensor>();
    made->value = Tensor::zeros(t, std::move(extents), &out);
    if (data && want > 0) std::memcpy(out.data(), data, want);
    *tensor = made.release();
    return Ok{};
  });
}
rlx_error* rlx_tensor_from_npy(const char* path, rlx_tensor** tensor) {
  return guarded([&]() -> Status {
    RLX_OK(notNull(path, "path"));
    RLX_OK(notNull(tensor, "tensor"));
    RLX_TRY(const NpyArray a, readNpy(path));
    for (const NpyType& t : kNpyTypes)
      if (a.dtype == t.spelling) {
        *tensor = new rlx_tensor{Tensor::copy(t.dtype, a.shape, a.data)};
        return Ok{};
      }
    return Error(Errc::Unsupported, std::string(path) + " has elements of type " + a.dtype);
  });
}
rlx_error* rlx_tensor_to_npy(const rlx_tensor* tensor, const char* path) {
  return guarded([&]() -> Status {
    RLX_OK(notNull(tensor, "tensor"));
    RLX_OK(notNull(path, "path"));
    for (const NpyType& t : kNpyTypes)
      if (t.dtype == tensor->value.dtype)
        return writeNpy(path, t.spelling, tensor->value.shape, tensor->value.bytes);
    return Error(Errc::Unsupported, "NumPy has no dtype " + std::string(name(tensor->value.dtype)));
  });
}
int32_t rlx_tensor_dtype(const rlx_tensor* t) {
  return t ? static_cast<int32_t>(t->value.dtype) : -1;
}
size_t rlx_tensor_rank(const rlx_tensor* t) {
  return t ? t->value.shape.size() : 0;
}
const int64_t* rlx_tensor_shape(const rlx_tensor* t) {
  return t ? t->value.shape.data() : nullptr;
}
const void* rlx_tensor_data(const rlx_tensor* t) {
  return t ? t->value.bytes.data() : nullptr;
}
size_t rlx_tensor_bytes(const rlx_tensor* t) {
  return t ? t->value.bytes.size() : 0;
}
void rlx_tensor_free(rlx_tensor* t) {
  delete t;
}

// ---- Models
rlx_error* rlx_model_load(const char* path, rlx_model** model) {
  return guarded([&]() -> Status {
    RLX_OK(notNull(path, "path"));
    RLX_OK(notNull(model, "model"));
    return give(loadModel(path), model);
  });
}
rlx_error* rlx_model_parse(const char* text, size_t length, rlx_model** model) {
  return guarded([&]() -> Status {
    RLX_OK(notNull(text, "text"));
    RLX_OK(notNull(model, "model"));
    return give(parseGraph({text, length}), model);
  });
}
rlx_error* rlx_model_print(const rlx_model* model, char** text) {
  return guarded([&]() -> Status {
    RLX_OK(notNull(model, "model"));
    RLX_OK(notNull(text, "text"));
    *text = copied(print(model->graph));
    return Ok{};
  });
}
size_t rlx_model_input_count(const rlx_model* m) {
  return m ? m->graph.inputs.size() : 0;
}
size_t rlx_model_output_count(const rlx_model* m) {
  return m ? m->graph.outputs.size() : 0;
}
const char* rlx_model_input_name(const rlx_model* m, size_t k) {
  return m ? nameAt(m->graph.inputs, k) : nullptr;
}
const char* rlx_model_input_type(const rlx_model* m, size_t k) {
  return m ? typeAt(m->inputTypes, k) : nullptr;
}
const char* rlx_model_output_name(const rlx_model* m, size_t k) {
  return m ? nameAt(m->graph.outputs, k) : nullptr;
}
const char* rlx_model_output_type(const rlx_model* m, size_t k) {
  return m ? typeAt(m->outputTypes, k) : nullptr;
}
void rlx_model_free(rlx_model* m) {
  delete m;
}

// ---- Compiling and running
rlx_error* rlx_compile(const rlx_model* model, const rlx_options* options,
                       rlx_executable** executable) {
  return guarded([&]() -> Status {
    RLX_OK(notNull(model, "model"));
    RLX_OK(notNull(executable, "executable"));
    RLX_TRY(const CompileOptions o, optionsOf(options));
    RLX_TRY(Executable made, compile(model->graph, o));
    *executable = new rlx_executable{std::move(made)};
    return Ok{};
  });
}
rlx_error* rlx_executable_run(rlx_executable* executable, const char* const* names,
                              const rlx_tensor* const* inputs, size_t count, rlx_tensor** outputs) {
  return guarded([&]() -> Status {
    RLX_OK(notNull(executable, "executable"));
    RLX_OK(notNull(outputs, "outputs"));
    std::vector<NamedTensor> in;
    for (size_t k = 0; k < count; ++k) {
      RLX_OK(notNull(names, "names"));
      RLX_OK(notNull(inputs, "inputs"));
      RLX_OK(notNull(names[k], "a name"));
      RLX_OK(notNull(inputs[k], "an input"));
      in.push_back({names[k], inputs[k]->value});
    }
    RLX_TRY(std::vector<NamedTensor> y, executable->value.run(in));
    std::vector<std::unique_ptr<rlx_tensor>> made;
    for (NamedTensor& t : y) {
      made.push_back(std::make_unique<rlx_tensor>());
      made.back()->value = std::move(t.tensor);
    }
    for (size_t k = 0; k < made.size(); ++k) outputs[k] = made[k].release();
    return Ok{};
  });
}
size_t rlx_executable_output_count(const rlx_executable* e) {
  return e ? e->value.model().outputs.size() : 0;
}
const char* rlx_executable_output_name(const rlx_executable* e, size_t k) {
  return e ? nameAt(e->value.model().outputs, k) : nullptr;
}
void rlx_executable_free(rlx_executable* e) {
  delete e;
}

rlx_error* rlx_executable_explain(const rlx_executable* executable, rlx_format format,
                                  char** report) {
  return guarded([&]() -> Status {
    RLX_OK(notNull(executable, "executable"));
    RLX_OK(notNull(report, "report"));
    const DispatchReport& r = executable->value.explain();
    *report = copied(format == RLX_JSON ? r.json() : r.text());
    return Ok{};
  });
}
rlx_error* rlx_explain(const rlx_model* model, const rlx_options* options, rlx_format format,
                       char** report) {
  return guarded([&]() -> Status {
    RLX_OK(notNull(model, "model"));
    RLX_OK(notNull(report, "report"));
    RLX_TRY(const CompileOptions o, optionsOf(options));
    RLX_TRY(const DispatchReport r, explain(model->graph, o));
    *report = copied(format == RLX_JSON ? r.json() : r.text());
    return Ok{};
  });
}
rlx_error* rlx_devices(char** json) {
  return guarded([&]() -> Status {
    RLX_OK(notNull(json, "json"));
    constexpr const char* kStatus[] = {"native", "simulated", "compiled", "printed", "unavailable"};
    nlohmann::json all = nlohmann::json::array();
    for (const Backend* b : backends()) {
      const DeviceReport r = b->probe();
      all.push_back({{"name", b->name},
                     {"status", kStatus[static_cast<int>(r.status)]},
                     {"detail", r.detail}});
    }
    *json = copied(all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
    return Ok{};
  });
}

// ---- Graphs in code
rlx_error* rlx_builder_create(const char* graph, rlx_builder** builder) {
  return guarded([&]() -> Status {
    RLX_OK(notNull(builder, "builder"));
    auto b = std::make_unique<rlx_builder>();
    b->name = graph ? graph : "graph";
    b->builder = std::make_unique<Builder>(b->name);
    *builder = b.release();
    return Ok{};
  });
}
void rlx_builder_context(rlx_builder* b, const char* node, const char* location) {
  if (b && b->builder) b->builder->setContext(node ? node : "", location ? location : "");
}
uint32_t rlx_builder_input(rlx_builder* builder, const char* input, rlx_dtype dtype,
                           const char* const* extents, size_t rank) {
  return building(builder, [&](Builder& b) -> Result<Value> {
    RLX_OK(notNull(input, "name"));
    RLX_TRY(const DType t, dtypeOf(dtype));
    Shape shape;
    for (size_t k = 0; k < rank; ++k) {
      RLX_OK(notNull(extents, "extents"));
      RLX_OK(notNull(extents[k], "an extent"));
      RLX_TRY(Dim d, parseDim(extents[k]));
      if (d.isConst() && d.value() < 0)
        return Error(Errc::InvalidArgument,
                     "input '" + std::string(input) + "' has extent " + d.text());
      shape.push_back(std::move(d));
    }
    return b.input(input, t, std::move(shape), SourceLoc{"", 0});
  });
}
uint32_t rlx_builder_constant(rlx_builder* builder, const char* constant,
                              const rlx_tensor* tensor) {
  return building(builder, [&](Builder& b) -> Result<Value> {
    RLX_OK(notNull(tensor, "tensor"));
    return b.constant(tensor->value, constant ? constant : "");
  });
}
uint32_t rlx_builder_emit(rlx_builder* builder, const char* op, const uint32_t* operands,
                          size_t count, const char* attributes) {
  return building(builder, [&](Builder& b) -> Result<Value> {
    RLX_OK(notNull(op, "op"));
    const auto kind = parseOpKind(op);
    if (!kind || *kind == OpKind::Input || *kind == OpKind::Constant)
      return Error(Errc::NotFound, "there is no op '" + std::string(op) + "'");
    std::vector<Value> in;
    for (size_t k = 0; k < count; ++k) {
      RLX_OK(notNull(operands, "operands"));
      in.push_back(valueOf(builder, operands[k]));
    }
    const AttrsInfo& info = *opInfo(*kind).attrs;
    std::string_view text = attributes ? attributes : "";
    auto attrs = info.parse(text);
    if (!attrs || !text.empty())
      return Error(Errc::BadText, "attributes of " + std::string(op) +
                                      " do not parse; fields: " + std::string(info.fieldNames));
    return b.emit(*kind, std::move(in), Attrs(info, std::move(attrs)), SourceLoc{"", 0});
  });
}
int32_t rlx_builder_rank(const rlx_builder* b, uint32_t v) {
  if (!b || !b->builder || v >= b->builder->graph().values.size()) return -1;
  return static_cast<int32_t>(b->builder->graph().type({v}).shape.size());
}
int32_t rlx_builder_dtype(const rlx_builder* b, uint32_t v) {
  if (!b || !b->builder || v >= b->builder->graph().values.size()) return -1;
  return static_cast<int32_t>(b->builder->graph().type({v}).dtype);
}
void rlx_builder_output(rlx_builder* builder, const char* output, uint32_t value) {
  (void)building(builder, [&](Builder& b) -> Result<Value> {
    RLX_OK(notNull(output, "name"));
    b.output(output, valueOf(builder, value));
    return Value{};
  });
}
rlx_error* rlx_builder_finish(rlx_builder* builder, rlx_model** model) {
  return guarded([&]() -> Status {
    RLX_OK(notNull(builder, "builder"));
    RLX_OK(notNull(model, "model"));
    auto finished = std::move(builder->builder);
    builder->builder = std::make_unique<Builder>(builder->name);
    RLX_TRY(Graph g, std::move(*finished).finish());
    RLX_OK(checkSymbols(g));
    return give(std::move(g), model);
  });
}
void rlx_builder_free(rlx_builder* b) {
  delete b;
}

}  // extern "C"
