// From bytes to the structs of onnx_model.h. Initialisers are found by a scan of the wire format
// first, so that their raw data is never copied and never counts against protobuf's 2 GiB; what
// remains is small and goes through the generated parser.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "base/text.h"
#include "import/onnx_model.h"
#include "onnx.pb.h"

namespace rlx::onnx {
namespace {

namespace pb = ::onnx;
using Bytes = std::span<const std::byte>;

constexpr std::size_t kMaxRank = 64;

struct DTypeRow {
  int64_t code;
  std::string_view name;
  std::optional<DType> dtype;
};
constexpr DTypeRow kDTypeRows[] = {
    {1, "float", DType::F32},
    {2, "uint8", DType::U8},
    {3, "int8", DType::I8},
    {4, "uint16", DType::U16},
    {5, "int16", DType::I16},
    {6, "int32", DType::I32},
    {7, "int64", DType::I64},
    {8, "string", std::nullopt},
    {9, "bool", DType::Bool},
    {10, "float16", DType::F16},
    {11, "double", DType::F64},
    {12, "uint32", DType::U32},
    {13, "uint64", DType::U64},
    {14, "complex64", DType::C64},
    {15, "complex128", DType::C128},
    {16, "bfloat16", DType::BF16},
    {17, "float8e4m3fn", DType::F8E4M3},
    {18, "float8e4m3fnuz", std::nullopt},
    {19, "float8e5m2", DType::F8E5M2},
    {20, "float8e5m2fnuz", std::nullopt},
    {21, "uint4", DType::U4},
    {22, "int4", DType::I4},
    {23, "float4e2m1", DType::F4E2M1},
    {24, "float8e8m0", std::nullopt},
    {25, "uint2", std::nullopt},
    {26, "int2", std::nullopt},
};

std::string quoted(std::string_view name) {
  return "'" + shorten(name, 120) + "'";
}

Error bad(std::string what) {
  return Error(Errc::BadFile, std::move(what));
}

// ---- Wire format
// -----------------------------------------------------------------------------------

struct Field {
  uint64_t number = 0;
  Bytes whole;    // with its tag
  Bytes payload;  // of a length-delimited field
};

// Reads one field after another of a message.
class WireReader {
 public:
  explicit WireReader(Bytes bytes) : bytes_(bytes) {}
  bool done() const { return at_ == bytes_.size(); }
  Result<Field> next() {
    Field f;
    const std::size_t start = at_;
    RLX_TRY(const uint64_t tag, varint());
    f.number = tag >> 3;
    if (f.number == 0) return bad("field number 0 at offset " + std::to_string(start));
    uint64_t size = 0;
    switch (tag & 7) {
      case 0: RLX_OK(varint()); break;
      case 1: size = 8; break;
      case 2: {
        RLX_TRY(size, varint());
        break;
      }
      case 5: size = 4; break;
      default:
        return bad("wire type " + std::to_string(tag & 7) + " at offset " + std::to_string(start));
    }
    if (size > bytes_.size() - at_)
      return Error(Errc::FileTruncated, "field " + std::to_string(f.number) + " at offset " +
                                            std::to_string(start) + " has " + std::to_string(size) +
                                            " bytes, " + std::to_string(bytes_.size() - at_) +
                                            " are left");
    f.payload = bytes_.subspan(at_, static_cast<std::size_t>(size));
    at_ += static_cast<std::size_t>(size);
    f.whole = bytes_.subspan(start, at_ - start);
    return f;
  }

 private:
  Result<uint64_t> varint() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) return Error(Errc::FileTruncated, "the file ends inside a number");
      const auto b = static_cast<uint64_t>(bytes_[at_++]);
      v |= (b & 0x7f) << shift;
      if (b < 0x80) return v;
    }
    return bad("a number longer than 10 bytes at offset " + std::to_string(at_));
  }
  Bytes bytes_;
  std::size_t at_ = 0;
};

// The message without the fields of that number, and those fields' payloads.
Status split(Bytes message, uint64_t number, uint64_t maxRest, std::string* rest,
             std::vector<Bytes>* taken) {
  WireReader r(message);
  while (!r.done()) {
    RLX_TRY(const Field f, r.next());
    if (f.number == number) {
      taken->push_back(f.payload);
      continue;
    }
    if (f.whole.size() > maxRest - rest->size())
      return Error(Errc::FileBudget,
                   "more than " + std::to_string(maxRest) + " bytes besides the initialisers");
    rest->append(reinterpret_cast<const char*>(f.whole.data()), f.whole.size());
  }
  return Ok{};
}

Status parse(std::string_view bytes, const OnnxOptions& options, google::protobuf::MessageLite* out,
             std::string_view what) {
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    return Error(Errc::FileBudget, std::string(what) + " of " + std::to_string(bytes.size()) +
                                       " bytes, protobuf's limit is 2 GiB");
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  // A graph in an attribute of a node takes three levels.
  in.SetRecursionLimit(static_cast<int>(std::clamp<int64_t>(4 * options.maxDepth + 8, 16, 1000)));
  in.SetTotalBytesLimit(static_cast<int>(bytes.size()));
  if (!out->MergePartialFromCodedStream(&in) || !in.ConsumedEntireMessage())
    return bad(std::string(what) + " is not well-formed protobuf, or nested too deeply");
  return Ok{};
}

// ---- Tensors
// ---------------------------------------------------------------------------------------

class ModelReader {
 public:
  ModelReader(std::shared_ptr<const MappedFile> file, std::string folder,
              const OnnxOptions& options)
      : file_(std::move(file)), folder_(std::move(folder)), options_(options) {}

  Result<ModelDef> model();
  // `raw`: the payload when the caller found it on the wire.
  Result<TensorDef> tensor(pb::TensorProto& t, const Bytes* raw);
  Result<TensorDef> initializer(Bytes message);

 private:
  Status fillTyped(const pb::TensorProto& t, int64_t count, TensorDef* out);
  Status fillExternal(const pb::TensorProto& t, uint64_t needed, TensorDef* out);
  Result<AttributeDef> attribute(pb::AttributeProto& a, int64_t depth);
  Result<NodeDef> node(pb::NodeProto& n, int64_t depth);
  Result<GraphDef> graph(pb::GraphProto& g, int64_t depth);
  Result<FunctionDef> function(pb::FunctionProto& f);
  Result<ValueDef> value(const pb::ValueInfoProto& v);
  OpsetDef opset(const pb::OperatorSetIdProto& o) const {
    return {o.domain() == "ai.onnx" ? std::string() : o.domain(), o.version()};
  }
  std::string domain(const std::string& d) const { return d == "ai.onnx" ? std::string() : d; }

  std::shared_ptr<const MappedFile> file_;
  std::string folder_;
  const OnnxOptions& options_;
  int64_t nodes_ = 0;
  std::vector<std::pair<std::string, std::shared_ptr<const MappedFile>>> external_;
};

// Elements from a repeated field of another width.
template <class To, class From>
void narrow(const From& from, std::span<std::byte> to) {
  for (int i = 0; i < from.size(); ++i) {
    const To v = static_cast<To>(from.Get(i));
    std::memcpy(to.data() + static_cast<std::size_t>(i) * sizeof(To), &v, sizeof v);
  }
}

Status ModelReader::fillTyped(const pb::TensorProto& t, int64_t count, TensorDef* out) {
  const DType dtype = out->value.dtype;
  std::span<std::byte> to;
  auto expect = [&](int got, int64_t want, const char* field) -> Status {
    if (got == want) {
      out->value = Literal::zeros(dtype, out->value.shape, &to);
      return Ok{};
    }
    return bad("tensor " + quoted(t.name()) + ": " + field + " has " + std::to_string(got) +
               " entries, the shape needs " + std::to_string(want));
  };
  RLX_CHECK(info(dtype).kind != DTypeKind::Block, "a dtype that ONNX lacks");
  const int width = info(dtype).bits;
  // Which field holds what: onnx.proto, at TensorProto.
  if (dtype == DType::F32 || dtype == DType::C64) {
    RLX_OK(expect(t.float_data_size(), isComplex(dtype) ? 2 * count : count, "float_data"));
    narrow<float>(t.float_data(), to);
  } else if (dtype == DType::F64 || dtype == DType::C128) {
    RLX_OK(expect(t.double_data_size(), isComplex(dtype) ? 2 * count : count, "double_data"));
    narrow<double>(t.double_data(), to);
  } else if (dtype == DType::I64) {
    RLX_OK(expect(t.int64_data_size(), count, "int64_data"));
    narrow<int64_t>(t.int64_data(), to);
  } else if (dtype == DType::U32 || dtype == DType::U64) {
    RLX_OK(expect(t.uint64_data_size(), count, "uint64_data"));
    if (width == 32)
      narrow<uint32_t>(t.uint64_data(), to);
    else
      narrow<uint64_t>(t.uint64_data(), to);
  } else {
    // Packed elements come two in each entry, as in raw data.
    RLX_OK(expect(t.int32_data_size(), isPlain(dtype) ? count : storageBytes(dtype, count),
                  "int32_data"));
    if (dtype == DType::Bool)
      narrow<bool>(t.int32_data(), to);
    else if (width == 32)
      narrow<int32_t>(t.int32_data(), to);
    else if (width == 16)
      narrow<uint16_t>(t.int32_data(), to);
    else
      narrow<uint8_t>(t.int32_data(), to);
  }
  return Ok{};
}

Status ModelReader::fillExternal(const pb::TensorProto& t, uint64_t needed, TensorDef* out) {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  auto number = [&](const std::string& text) -> Result<uint64_t> {
    uint64_t v = 0;
    if (text.empty() || text.size() > 19 ||
        text.find_first_not_of("0123456789") != std::string::npos)
      return bad("tensor " + quoted(t.name()) + ": external data number " + quoted(text));
    for (const char c : text) v = v * 10 + static_cast<uint64_t>(c - '0');
    return v;
  };
  for (const pb::StringStringEntryProto& e : t.external_data()) {
    if (e.key() == "location") location = e.value();
    if (e.key() == "offset") {
      RLX_TRY(offset, number(e.value()));
    }
    if (e.key() == "length") {
      RLX_TRY(length, number(e.value()));
    }
  }
  auto resolved = resolveInside(folder_, location);
  if (!resolved)
    return std::move(resolved).error().note("external data of tensor " + quoted(t.name()));
  std::shared_ptr<const MappedFile> file;
  for (const auto& [path, opened] : external_)
    if (path == *resolved) file = opened;
  if (!file) {
    auto opened = MappedFile::open(*resolved);
    if (!opened)
      return std::move(opened).error().note("external data of tensor " + quoted(t.name()));
    file = *opened;
    external_.emplace_back(*resolved, file);
  }
  if (length && *length != needed)
    return bad("tensor " + quoted(t.name()) + ": external data of " + std::to_string(*length) +
               " bytes, the shape needs " + std::to_string(needed));
  if (offset > file->size() || needed > file->size() - offset)
    return Error(Errc::FileTruncated, "tensor " + quoted(t.name()) + ": external data at " +
                                          std::to_string(offset) + " of " + std::to_string(needed) +
                                          " bytes, " + quoted(location) + " has " +
                                          std::to_string(file->size()));
  out->value.bytes =
      file->bytes().subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(needed));
  out->value.owner = file;
  return Ok{};
}

Result<TensorDef> ModelReader::tensor(pb::TensorProto& t, const Bytes* raw) {
  TensorDef out;
  out.name = t.name();
  const std::string what = "tensor " + quoted(t.name());
  if (t.has_segment()) return Error(Errc::Unsupported, what + ": stored in segments");
  if (static_cast<std::size_t>(t.dims_size()) > kMaxRank)
    return Error(Errc::FileBudget, what + ": " + std::to_string(t.dims_size()) +
                                       " dimensions, the limit is " + std::to_string(kMaxRank));
  int64_t count = 1;
  bool empty = false, overflow = false;
  for (const int64_t d : t.dims()) {
    if (d < 0) return bad(what + ": negative extent " + std::to_string(d));
    empty = empty || d == 0;
    overflow = overflow || __builtin_mul_overflow(count, std::max<int64_t>(d, 1), &count);
    out.value.shape.push_back(d);
  }
  if (empty) count = 0;
  if (overflow || count > options_.maxElements)
    return Error(Errc::FileBudget, what + ": shape " + toText(out.value.shape) + " has more than " +
                                       std::to_string(options_.maxElements) + " elements");
  if (!findDType(t.data_type(), &out.value.dtype)) {
    out.unsupported = "dtype " + dtypeName(t.data_type());
    return out;
  }
  const auto needed = static_cast<uint64_t>(storageBytes(out.value.dtype, count));
  if (t.data_location() == pb::TensorProto::EXTERNAL) {
    RLX_OK(fillExternal(t, needed, &out));
  } else if (raw || t.has_raw_data()) {
    std::shared_ptr<const std::string> own;
    Bytes bytes;
    if (raw) {
      bytes = *raw;
      out.value.owner = file_;
    } else {
      own = std::make_shared<const std::string>(std::move(*t.mutable_raw_data()));
      bytes = std::as_bytes(std::span(own->data(), own->size()));
      out.value.owner = own;
    }
    if (bytes.size() != needed)
      return bad(what + ": shape " + toText(out.value.shape) + " of " + dtypeName(t.data_type()) +
                 " needs " + std::to_string(needed) + " bytes, raw_data has " +
                 std::to_string(bytes.size()));
    out.value.bytes = bytes;
  } else {
    RLX_OK(fillTyped(t, count, &out));
  }
  if (out.value.dtype == DType::Bool)
    for (const std::byte b : out.value.bytes)
      if (b > std::byte{1}) return bad(what + ": a bool that is neither 0 nor 1");
  return out;
}

Result<TensorDef> ModelReader::initializer(Bytes message) {
  std::string rest;
  std::vector<Bytes> raw;
  RLX_OK(
      split(message, pb::TensorProto::kRawDataFieldNumber, options_.maxMessageBytes, &rest, &raw));
  pb::TensorProto t;
  RLX_OK(parse(rest, options_, &t, "an initialiser"));
  return tensor(t, raw.empty() ? nullptr : &raw.back());
}

// ---- Messages
// --------------------------------------------------------------------------------------

Result<AttributeDef> ModelReader::attribute(pb::AttributeProto& a, int64_t depth) {
  using Kind = AttributeDef::Kind;
  AttributeDef out;
  out.name = a.name();
  out.reference = a.ref_attr_name();
  // Files of the first IR versions have no type; the field that is set tells it.
  auto type = a.type();
  if (type == pb::AttributeProto::UNDEFINED)
    type = a.has_f()              ? pb::AttributeProto::FLOAT
           : a.has_i()            ? pb::AttributeProto::INT
           : a.has_s()            ? pb::AttributeProto::STRING
           : a.has_t()            ? pb::AttributeProto::TENSOR
           : a.has_g()            ? pb::AttributeProto::GRAPH
           : a.floats_size() > 0  ? pb::AttributeProto::FLOATS
           : a.strings_size() > 0 ? pb::AttributeProto::STRINGS
                                  : pb::AttributeProto::INTS;
  switch (type) {
    case pb::AttributeProto::FLOAT: out.kind = Kind::Float, out.f = a.f(); break;
    case pb::AttributeProto::INT: out.kind = Kind::Int, out.i = a.i(); break;
    case pb::AttributeProto::STRING: out.kind = Kind::String, out.s = a.s(); break;
    case pb::AttributeProto::TENSOR: {
      RLX_TRY(TensorDef t, tensor(*a.mutable_t(), nullptr));
      out.kind = Kind::Tensor;
      out.t = std::make_shared<const TensorDef>(std::move(t));
      break;
    }
    case pb::AttributeProto::GRAPH: {
      RLX_TRY(GraphDef g, graph(*a.mutable_g(), depth + 1));
      out.kind = Kind::Graph;
      out.g = std::make_shared<const GraphDef>(std::move(g));
      break;
    }
    case pb::AttributeProto::FLOATS:
      out.kind = Kind::Floats;
      out.floats.assign(a.floats().begin(), a.floats().end());
      break;
    case pb::AttributeProto::INTS:
      out.kind = Kind::Ints;
      out.ints.assign(a.ints().begin(), a.ints().end());
      break;
    case pb::AttributeProto::STRINGS:
      out.kind = Kind::Strings;
      out.strings.assign(a.strings().begin(), a.strings().end());
      break;
    case pb::AttributeProto::UNDEFINED:
    case pb::AttributeProto::TENSORS:
    case pb::AttributeProto::GRAPHS:
    case pb::AttributeProto::SPARSE_TENSOR:
    case pb::AttributeProto::SPARSE_TENSORS:
    case pb::AttributeProto::TYPE_PROTO:
    case pb::AttributeProto::TYPE_PROTOS: out.kind = Kind::Other; break;
  }
  return out;
}

Result<NodeDef> ModelReader::node(pb::NodeProto& n, int64_t depth) {
  if (++nodes_ > options_.maxNodes)
    return Error(Errc::FileBudget, "more than " + std::to_string(options_.maxNodes) + " nodes");
  NodeDef out;
  out.name = n.name(), out.op = n.op_type(), out.domain = domain(n.domain());
  out.inputs.assign(n.input().begin(), n.input().end());
  out.outputs.assign(n.output().begin(), n.output().end());
  for (pb::AttributeProto& a : *n.mutable_attribute()) {
    auto read = attribute(a, depth);
    if (!read)
      return std::move(read).error().note("attribute " + quoted(a.name()) + " of node " +
                                          quoted(n.name()) + " (" + n.op_type() + ")");
    for (const AttributeDef& seen : out.attributes)
      if (seen.name == a.name())
        return bad("node " + quoted(n.name()) + " (" + n.op_type() + ") has attribute " +
                   quoted(a.name()) + " twice");
    out.attributes.push_back(std::move(*read));
  }
  return out;
}

Result<ValueDef> ModelReader::value(const pb::ValueInfoProto& v) {
  ValueDef out;
  out.name = v.name();
  const pb::TypeProto& type = v.type();
  if (!type.has_tensor_type()) {
    out.unsupported = type.has_sequence_type()        ? "a sequence"
                      : type.has_optional_type()      ? "an optional"
                      : type.has_map_type()           ? "a map"
                      : type.has_sparse_tensor_type() ? "a sparse tensor"
                                                      : "a value without a type";
    return out;
  }
  if (!findDType(type.tensor_type().elem_type(), &out.dtype))
    out.unsupported = "a tensor of dtype " + dtypeName(type.tensor_type().elem_type());
  out.hasShape = type.tensor_type().has_shape();
  const pb::TensorShapeProto& shape = type.tensor_type().shape();
  if (static_cast<std::size_t>(shape.dim_size()) > kMaxRank)
    return Error(Errc::FileBudget, "value " + quoted(v.name()) + ": " +
                                       std::to_string(shape.dim_size()) + " dimensions");
  for (const pb::TensorShapeProto::Dimension& d : shape.dim()) {
    DimDef dim;
    if (d.has_dim_value()) {
      // Some exporters write -1 or 0 for "any".
      if (d.dim_value() < -1 || d.dim_value() > options_.maxElements)
        return bad("value " + quoted(v.name()) + ": extent " + std::to_string(d.dim_value()));
      if (d.dim_value() >= 0) dim.kind = DimDef::Kind::Extent, dim.extent = d.dim_value();
    } else if (!d.dim_param().empty()) {
      dim.kind = DimDef::Kind::Symbol, dim.symbol = d.dim_param();
    }
    out.shape.push_back(std::move(dim));
  }
  return out;
}

Result<GraphDef> ModelReader::graph(pb::GraphProto& g, int64_t depth) {
  if (depth > options_.maxDepth)
    return Error(Errc::FileBudget,
                 "graphs nested deeper than " + std::to_string(options_.maxDepth));
  GraphDef out;
  out.name = g.name();
  if (g.sparse_initializer_size() > 0)
    return Error(Errc::Unsupported,
                 "graph " + quoted(g.name()) + ": sparse initialisers are not supported");
  for (pb::TensorProto& t : *g.mutable_initializer()) {
    RLX_TRY(TensorDef def, tensor(t, nullptr));
    out.initializers.push_back(std::move(def));
  }
  for (pb::NodeProto& n : *g.mutable_node()) {
    RLX_TRY(NodeDef def, node(n, depth));
    out.nodes.push_back(std::move(def));
  }
  for (const pb::ValueInfoProto& v : g.input()) {
    RLX_TRY(ValueDef def, value(v));
    out.inputs.push_back(std::move(def));
  }
  for (const pb::ValueInfoProto& v : g.output()) {
    RLX_TRY(ValueDef def, value(v));
    out.outputs.push_back(std::move(def));
  }
  return out;
}

Result<FunctionDef> ModelReader::function(pb::FunctionProto& f) {
  FunctionDef out;
  out.name = f.name(), out.domain = domain(f.domain());
  out.inputs.assign(f.input().begin(), f.input().end());
  out.outputs.assign(f.output().begin(), f.output().end());
  for (pb::NodeProto& n : *f.mutable_node()) {
    RLX_TRY(NodeDef def, node(n, 1));
    out.nodes.push_back(std::move(def));
  }
  for (const pb::OperatorSetIdProto& o : f.opset_import()) out.opsets.push_back(opset(o));
  // Default attributes are newer than the message definition that older systems install.
  constexpr uint64_t kAttributeProto = 11;
  const std::string& unknown = f.unknown_fields();
  WireReader r(std::as_bytes(std::span(unknown.data(), unknown.size())));
  while (!r.done()) {
    RLX_TRY(const Field field, r.next());
    if (field.number != kAttributeProto) continue;
    pb::AttributeProto a;
    RLX_OK(parse({reinterpret_cast<const char*>(field.payload.data()), field.payload.size()},
                 options_, &a, "a default attribute"));
    RLX_TRY(AttributeDef def, attribute(a, 1));
    out.defaults.push_back(std::move(def));
  }
  return out;
}

Result<ModelDef> ModelReader::model() {
  std::string modelRest, graphRest;
  std::vector<Bytes> graphs, initializers;
  RLX_OK(split(file_->bytes(), pb::ModelProto::kGraphFieldNumber, options_.maxMessageBytes,
               &modelRest, &graphs));
  for (const Bytes g : graphs)
    RLX_OK(split(g, pb::GraphProto::kInitializerFieldNumber, options_.maxMessageBytes, &graphRest,
                 &initializers));
  pb::ModelProto m;
  RLX_OK(parse(modelRest, options_, &m, "the model"));
  pb::GraphProto g;
  RLX_OK(parse(graphRest, options_, &g, "the graph"));
  if (graphs.empty()) return bad("the model has no graph");
  ModelDef out;
  out.irVersion = m.ir_version();
  out.producer = m.producer_name() + " " + m.producer_version();
  for (const pb::OperatorSetIdProto& o : m.opset_import()) out.opsets.push_back(opset(o));
  RLX_TRY(out.graph, graph(g, 0));
  for (const Bytes bytes : initializers) {
    RLX_TRY(TensorDef def, initializer(bytes));
    out.graph.initializers.push_back(std::move(def));
  }
  for (pb::FunctionProto& f : *m.mutable_functions()) {
    RLX_TRY(FunctionDef def, function(f));
    out.functions.push_back(std::move(def));
  }
  return out;
}

}  // namespace

bool findDType(int64_t code, DType* out) {
  for (const DTypeRow& row : kDTypeRows)
    if (row.code == code && row.dtype) return *out = *row.dtype, true;
  return false;
}

std::string dtypeName(int64_t code) {
  for (const DTypeRow& row : kDTypeRows)
    if (row.code == code) return std::string(row.name);
  return "number " + std::to_string(code);
}

Result<ModelDef> readModel(const std::shared_ptr<const MappedFile>& file, const std::string& folder,
                           const OnnxOptions& options) {
  return ModelReader(file, folder, options).model();
}

}  // namespace rlx::onnx

namespace rlx {

Result<OnnxTensor> parseOnnxTensor(const std::shared_ptr<const MappedFile>& file) {
  const OnnxOptions options;
  auto read = onnx::ModelReader(file, std::string(parentPath(file->path())), options)
                  .initializer(file->bytes());
  if (read && !read->unsupported.empty())
    return Error(Errc::Unsupported, "tensor '" + read->name + "' of " + read->unsupported)
        .note("while reading '" + file->path() + "'");
  if (!read) return std::move(read).error().note("while reading '" + file->path() + "'");
  return OnnxTensor{std::move(read->name), std::move(read->value)};
}

Result<OnnxTensor> readOnnxTensor(const std::string& path) {
  RLX_TRY(auto file, MappedFile::open(path));
  return parseOnnxTensor(file);
}

}  // namespace rlx
