// RLX for C++20, a header over the C interface: what can fail returns a Result, whose value()
// throws.
//
//   auto model = rlx::load("model.onnx").value();
//   auto exe = rlx::compile(model, {.device = "cpu", .threads = 2}).value();
//   rlx::Tensor y = exe.run({{"x", rlx::Tensor::fromNpy("x.npy").value()}}).value()["y"];
#pragma once
#include <rlx/rlx.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rlx {

// ---- Errors

class Error {
 public:
  explicit Error(rlx_error* handle) : handle_(handle, &rlx_error_free) {}
  int code() const { return rlx_error_code(handle_.get()); }  // 412 for E0412
  std::string message() const { return rlx_error_message(handle_.get()); }
  std::string node() const { return rlx_error_node(handle_.get()); }
  std::string hint() const { return rlx_error_hint(handle_.get()); }
  std::vector<std::string> notes() const {
    std::vector<std::string> out;
    for (std::size_t k = 0; k < rlx_error_note_count(handle_.get()); ++k)
      out.emplace_back(rlx_error_note(handle_.get(), k));
    return out;
  }
  std::string text() const { return rlx_error_text(handle_.get()); }

 private:
  std::shared_ptr<rlx_error> handle_;
};

class Exception : public std::runtime_error {
 public:
  explicit Exception(rlx::Error error)
      : std::runtime_error(error.text()), error_(std::move(error)) {}
  const rlx::Error& error() const { return error_; }
  int code() const { return error_.code(); }

 private:
  rlx::Error error_;
};

// A value or an error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  explicit operator bool() const { return state_.index() == 0; }
  // The value; throws Exception when there is none.
  T& value() & { return check(), *std::get_if<0>(&state_); }
  const T& value() const& { return check(), *std::get_if<0>(&state_); }
  T&& value() && { return check(), std::move(*std::get_if<0>(&state_)); }
  // Only where there is no value.
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  void check() const {
    if (state_.index() != 0) throw Exception(error());
  }
  std::variant<T, Error> state_;
};

namespace detail {
struct Free {
  void operator()(rlx_tensor* p) const { rlx_tensor_free(p); }
  void operator()(rlx_model* p) const { rlx_model_free(p); }
  void operator()(rlx_executable* p) const { rlx_executable_free(p); }
  void operator()(rlx_builder* p) const { rlx_builder_free(p); }
  void operator()(char* p) const { rlx_string_free(p); }
};
inline std::string taken(char* text) {
  const std::unique_ptr<char, Free> owner(text);
  return text;
}
}  // namespace detail

inline Result<std::string> devices() {
  char* json = nullptr;
  if (rlx_error* e = rlx_devices(&json)) return Error(e);
  return detail::taken(json);
}

// ---- Tensors

enum class DType : int32_t {};
inline constexpr DType f64{RLX_F64}, f32{RLX_F32}, f16{RLX_F16}, bf16{RLX_BF16}, c64{RLX_C64},
    i8{RLX_I8}, i16{RLX_I16}, i32{RLX_I32}, i64{RLX_I64}, u8{RLX_U8}, u16{RLX_U16}, u32{RLX_U32},
    u64{RLX_U64}, boolean{RLX_BOOL}, c128{RLX_C128};

template <class T>
inline constexpr DType dtypeOf = DType{-1};
template <>
inline constexpr DType dtypeOf<double> = f64;
template <>
inline constexpr DType dtypeOf<float> = f32;
template <>
inline constexpr DType dtypeOf<int8_t> = i8;
template <>
inline constexpr DType dtypeOf<int16_t> = i16;
template <>
inline constexpr DType dtypeOf<int32_t> = i32;
template <>
inline constexpr DType dtypeOf<int64_t> = i64;
template <>
inline constexpr DType dtypeOf<uint8_t> = u8;
template <>
inline constexpr DType dtypeOf<uint16_t> = u16;
template <>
inline constexpr DType dtypeOf<uint32_t> = u32;
template <>
inline constexpr DType dtypeOf<uint64_t> = u64;

// Immutable; copies share the bytes.
class Tensor {
 public:
  explicit Tensor(rlx_tensor* handle) : handle_(handle, detail::Free()) {}
  static Result<Tensor> create(DType dtype, const std::vector<int64_t>& shape, const void* data,
                               std::size_t bytes) {
    rlx_tensor* t = nullptr;
    if (rlx_error* e = rlx_tensor_create(static_cast<rlx_dtype>(dtype), shape.data(), shape.size(),
                                         data, bytes, &t))
      return Error(e);
    return Tensor(t);
  }
  // Copies the values; as many as the shape takes.
  template <class T>
  static Result<Tensor> of(const std::vector<int64_t>& shape, const std::vector<T>& values) {
    static_assert(dtypeOf<T> != DType{-1}, "no dtype has this C++ type");
    return create(dtypeOf<T>, shape, values.data(), values.size() * sizeof(T));
  }
  static Result<Tensor> zeros(DType dtype, const std::vector<int64_t>& shape) {
    return create(dtype, shape, nullptr, 0);
  }
  static Result<Tensor> fromNpy(const std::string& path) {
    rlx_tensor* t = nullptr;
    if (rlx_error* e = rlx_tensor_from_npy(path.c_str(), &t)) return Error(e);
    return Tensor(t);
  }
  Result<bool> toNpy(const std::string& path) const {
    if (rlx_error* e = rlx_tensor_to_npy(handle(), path.c_str())) return Error(e);
    return true;
  }
  DType dtype() const { return DType{rlx_tensor_dtype(handle())}; }
  std::vector<int64_t> shape() const {
    const int64_t* s = rlx_tensor_shape(handle());
    return {s, s + rlx_tensor_rank(handle())};
  }
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(rlx_tensor_data(handle())), rlx_tensor_bytes(handle())};
  }
  // A copy of the elements; throws std::invalid_argument when the dtype is another.
  template <class T>
  std::vector<T> values() const {
    if (dtype() != dtypeOf<T>) throw std::invalid_argument("rlx: the tensor has another dtype");
    std::vector<T> out(bytes().size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), bytes().data(), bytes().size());
    return out;
  }
  const rlx_tensor* handle() const { return handle_.get(); }

 private:
  std::shared_ptr<rlx_tensor> handle_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// ---- Models and executables

// Immutable; copies share the graph.
class Graph {
 public:
  explicit Graph(rlx_model* handle) : handle_(handle, detail::Free()) {}
  // The text form, which parse reads back.
  Result<std::string> text() const {
    char* t = nullptr;
    if (rlx_error* e = rlx_model_print(handle(), &t)) return Error(e);
    return detail::taken(t);
  }
  // Name and type, such as {"x", "f32[batch,4]"}.
  std::vector<std::pair<std::string, std::string>> inputs() const {
    std::vector<std::pair<std::string, std::string>> out;
    for (std::size_t k = 0; k < rlx_model_input_count(handle()); ++k)
      out.emplace_back(rlx_model_input_name(handle(), k), rlx_model_input_type(handle(), k));
    return out;
  }
  std::vector<std::pair<std::string, std::string>> outputs() const {
    std::vector<std::pair<std::string, std::string>> out;
    for (std::size_t k = 0; k < rlx_model_output_count(handle()); ++k)
      out.emplace_back(rlx_model_output_name(handle(), k), rlx_model_output_type(handle(), k));
    return out;
  }
  const rlx_model* handle() const { return handle_.get(); }

 private:
  std::shared_ptr<rlx_model> handle_;
};

inline Result<Graph> load(const std::string& path) {
  rlx_model* m = nullptr;
  if (rlx_error* e = rlx_model_load(path.c_str(), &m)) return Error(e);
  return Graph(m);
}
inline Result<Graph> parse(std::string_view text) {
  rlx_model* m = nullptr;
  if (rlx_error* e = rlx_model_parse(text.data(), text.size(), &m)) return Error(e);
  return Graph(m);
}

enum class Policy : int32_t {
  PreferNative = RLX_PREFER_NATIVE,
  ForceCommon = RLX_FORCE_COMMON,
  ForceNative = RLX_FORCE_NATIVE,
};

struct Options {
  std::string device = "cpu";
  int32_t deviceIndex = 0;
  int32_t threads = 0;  // 0: what the process may use
  Policy policy = Policy::PreferNative;
  std::vector<std::pair<std::string, int64_t>> dims = {};  // symbols fixed to a value
  std::vector<std::string> allowHost = {};                 // ops that may run on the host
  std::string cacheDir = {};
};

class Report {
 public:
  Report(std::string text, std::string json) : text_(std::move(text)), json_(std::move(json)) {}
  const std::string& text() const { return text_; }
  const std::string& json() const { return json_; }

 private:
  std::string text_, json_;
};

class Outputs {
 public:
  explicit Outputs(std::vector<NamedTensor> tensors) : tensors_(std::move(tensors)) {}
  // Throws std::out_of_range when there is none of that name.
  const Tensor& operator[](std::string_view name) const {
    for (const NamedTensor& t : tensors_)
      if (t.name == name) return t.tensor;
    throw std::out_of_range("rlx: no output '" + std::string(name) + "'");
  }
  auto begin() const { return tensors_.begin(); }
  auto end() const { return tensors_.end(); }
  std::size_t size() const { return tensors_.size(); }

 private:
  std::vector<NamedTensor> tensors_;
};

class Executable {
 public:
  explicit Executable(rlx_executable* handle) : handle_(handle) {}
  Result<Outputs> run(const std::vector<NamedTensor>& inputs) {
    std::vector<const char*> names;
    std::vector<const rlx_tensor*> tensors;
    for (const NamedTensor& t : inputs)
      names.push_back(t.name.c_str()), tensors.push_back(t.tensor.handle());
    std::vector<rlx_tensor*> y(rlx_executable_output_count(handle_.get()));
    if (rlx_error* e = rlx_executable_run(handle_.get(), names.data(), tensors.data(),
                                          tensors.size(), y.data()))
      return Error(e);
    std::vector<NamedTensor> out;
    for (std::size_t k = 0; k < y.size(); ++k)
      out.push_back({rlx_executable_output_name(handle_.get(), k), Tensor(y[k])});
    return Outputs(std::move(out));
  }
  // What each node became on the device, and why.
  Report explain() const {
    char *text = nullptr, *json = nullptr;
    if (rlx_error* e = rlx_executable_explain(handle_.get(), RLX_TEXT, &text))
      throw Exception(Error(e));
    std::string t = detail::taken(text);
    if (rlx_error* e = rlx_executable_explain(handle_.get(), RLX_JSON, &json))
      throw Exception(Error(e));
    return {std::move(t), detail::taken(json)};
  }

 private:
  std::unique_ptr<rlx_executable, detail::Free> handle_;
};

namespace detail {
// The C struct of the options, and what it points to.
struct COptions {
  rlx_options c = RLX_OPTIONS_INIT;
  std::vector<rlx_dim> dims;
  std::vector<const char*> allowHost;
  explicit COptions(const Options& o) {
    for (const auto& [symbol, value] : o.dims) dims.push_back({symbol.c_str(), value});
    for (const std::string& op : o.allowHost) allowHost.push_back(op.c_str());
    c.device = o.device.c_str();
    c.device_index = o.deviceIndex;
    c.threads = o.threads;
    c.policy = static_cast<int32_t>(o.policy);
    c.dims = dims.data(), c.dim_count = dims.size();
    c.allow_host = allowHost.data(), c.allow_host_count = allowHost.size();
    c.cache_dir = o.cacheDir.empty() ? nullptr : o.cacheDir.c_str();
  }
};
}  // namespace detail

inline Result<Executable> compile(const Graph& model, const Options& options = {}) {
  const detail::COptions o(options);
  rlx_executable* exe = nullptr;
  if (rlx_error* e = rlx_compile(model.handle(), &o.c, &exe)) return Error(e);
  return Executable(exe);
}
// The report alone; nodes that cannot run are part of it.
inline Result<Report> explain(const Graph& model, const Options& options = {}) {
  const detail::COptions o(options);
  char *text = nullptr, *json = nullptr;
  if (rlx_error* e = rlx_explain(model.handle(), &o.c, RLX_TEXT, &text)) return Error(e);
  std::string t = detail::taken(text);
  if (rlx_error* e = rlx_explain(model.handle(), &o.c, RLX_JSON, &json)) return Error(e);
  return Report(std::move(t), detail::taken(json));
}

// ---- Graphs in code

// An extent: a number, a symbol, or arithmetic over them.
class Dim {
 public:
  Dim(int64_t value) : text_(std::to_string(value)) {}
  Dim(int value) : Dim(int64_t{value}) {}
  static Dim symbol(std::string_view name) { return Dim(std::string(name)); }
  const std::string& text() const { return text_; }
  friend Dim operator+(const Dim& a, const Dim& b) { return Dim(a.text_ + " + (" + b.text_ + ")"); }
  friend Dim operator-(const Dim& a, const Dim& b) { return Dim(a.text_ + " - (" + b.text_ + ")"); }
  friend Dim operator*(const Dim& a, const Dim& b) {
    return Dim("(" + a.text_ + ")*(" + b.text_ + ")");
  }

 private:
  explicit Dim(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

// A value of a builder, good until its finish(). Arithmetic on values adds nodes.
struct Value {
  rlx_builder* builder = nullptr;
  uint32_t id = RLX_NO_VALUE;
  int32_t rank() const { return rlx_builder_rank(builder, id); }
  DType dtype() const { return DType{rlx_builder_dtype(builder, id)}; }
};

// The first error sticks, with the line of the call that made it, and comes out of finish().
class Builder {
 public:
  explicit Builder(const std::string& name = "graph") {
    rlx_builder* b = nullptr;
    if (rlx_error* e = rlx_builder_create(name.c_str(), &b)) throw Exception(Error(e));
    handle_.reset(b);
  }
  static Dim symbol(std::string_view name) { return Dim::symbol(name); }
  Value input(const std::string& name, DType dtype, const std::vector<Dim>& shape,
              const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    at(file, line);
    std::vector<const char*> extents;
    for (const Dim& d : shape) extents.push_back(d.text().c_str());
    return {handle(), rlx_builder_input(handle(), name.c_str(), static_cast<rlx_dtype>(dtype),
                                        extents.data(), extents.size())};
  }
  // A parameter without a value is an input: every run passes it.
  Value parameter(const std::string& name, DType dtype, const std::vector<Dim>& shape,
                  const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return input(name, dtype, shape, file, line);
  }
  Value parameter(const std::string& name, const Tensor& value, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
    return constant(value, name, file, line);
  }
  Value constant(const Tensor& value, const std::string& name = {},
                 const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    at(file, line);
    return {handle(), rlx_builder_constant(handle(), name.c_str(), value.handle())};
  }
  // Any op by its name and attributes in the text form: op("reduce", {x}, "{kind=sum axes=[1]
  // keepDims=false}").
  Value op(const std::string& name, std::initializer_list<Value> operands,
           const std::string& attributes = {}, const char* file = __builtin_FILE(),
           int line = __builtin_LINE()) {
    at(file, line);
    return emit(name, operands, attributes);
  }
  void output(const std::string& name, Value value) {
    rlx_builder_output(handle(), name.c_str(), value.id);
  }
  Result<Graph> finish() && {
    rlx_model* m = nullptr;
    if (rlx_error* e = rlx_builder_finish(handle(), &m)) return Error(e);
    return Graph(m);
  }
  rlx_builder* handle() const { return handle_.get(); }
  void at(const char* file, int line) {
    const std::string place = std::string(file) + ":" + std::to_string(line);
    rlx_builder_context(handle(), nullptr, place.c_str());
  }

 private:
  Value emit(const std::string& name, std::initializer_list<Value> operands,
             const std::string& attributes) {
    std::vector<uint32_t> ids;
    for (const Value& v : operands) ids.push_back(v.id);
    return {handle(),
            rlx_builder_emit(handle(), name.c_str(), ids.data(), ids.size(), attributes.c_str())};
  }
  std::unique_ptr<rlx_builder, detail::Free> handle_;
};

namespace detail {
inline Value emit(const char* op, std::initializer_list<Value> operands,
                  const std::string& attributes, const char* file, int line) {
  rlx_builder* b = nullptr;
  std::vector<uint32_t> ids;
  for (const Value& v : operands) {
    if (!b) b = v.builder;
    ids.push_back(v.id);
  }
  // An operator cannot know its line: no place is better than the last one.
  const std::string place = file ? std::string(file) + ":" + std::to_string(line) : std::string();
  rlx_builder_context(b, nullptr, place.c_str());
  return {b, rlx_builder_emit(b, op, ids.data(), ids.size(), attributes.c_str())};
}
inline std::string list(const std::vector<int64_t>& v) {
  std::string s = "[";
  for (std::size_t k = 0; k < v.size(); ++k) s += (k ? "," : "") + std::to_string(v[k]);
  return s + "]";
}
inline std::string list(const std::vector<Dim>& v) {
  std::string s = "[";
  for (std::size_t k = 0; k < v.size(); ++k) s += (k ? "," : "") + v[k].text();
  return s + "]";
}
}  // namespace detail

inline Value operator+(Value a, Value b) {
  return detail::emit("add", {a, b}, "", nullptr, 0);
}
inline Value operator-(Value a, Value b) {
  return detail::emit("sub", {a, b}, "", nullptr, 0);
}
inline Value operator*(Value a, Value b) {
  return detail::emit("mul", {a, b}, "", nullptr, 0);
}
inline Value operator/(Value a, Value b) {
  return detail::emit("div", {a, b}, "", nullptr, 0);
}
inline Value operator-(Value a) {
  return detail::emit("neg", {a}, "", nullptr, 0);
}

#define RLX_UNARY_(name)                                                                         \
  inline Value name(Value x, const char* file = __builtin_FILE(), int line = __builtin_LINE()) { \
    return detail::emit(#name, {x}, "", file, line);                                             \
  }
RLX_UNARY_(abs)
RLX_UNARY_(exp)
RLX_UNARY_(log)
RLX_UNARY_(sqrt)
RLX_UNARY_(rsqrt)
RLX_UNARY_(tanh)
RLX_UNARY_(erf)
RLX_UNARY_(relu)
RLX_UNARY_(sigmoid)
RLX_UNARY_(silu)
RLX_UNARY_(gelu)
#undef RLX_UNARY_

inline Value matmul(Value a, Value b, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  return detail::emit("matmul", {a, b}, "", file, line);
}
// x [..., k] times w [k, n] (or [n, k] when transposed) plus bias [n], which may be Value{}.
inline Value linear(Value x, Value w, Value bias, bool transposed = false,
                    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return detail::emit("linear", {x, w, bias},
                      std::string("{transposed=") + (transposed ? "true}" : "false}"), file, line);
}
inline Value softmax(Value x, int64_t axis = -1, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE()) {
  return detail::emit("softmax", {x}, "{axis=" + std::to_string(axis) + "}", file, line);
}
inline Value sum(Value x, const std::vector<int64_t>& axes, bool keepDims = false,
                 const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return detail::emit(
      "reduce", {x},
      "{kind=sum axes=" + detail::list(axes) + (keepDims ? " keepDims=true}" : " keepDims=false}"),
      file, line);
}
inline Value reshape(Value x, const std::vector<Dim>& shape, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE()) {
  return detail::emit("reshape", {x}, "{shape=" + detail::list(shape) + "}", file, line);
}
inline Value transpose(Value x, const std::vector<int64_t>& perm,
                       const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return detail::emit("transpose", {x}, "{perm=" + detail::list(perm) + "}", file, line);
}

}  // namespace rlx
