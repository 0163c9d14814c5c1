#include "runtime/host_kernel.h"

#include <cstring>

#include "ops/op.h"

namespace rlx {
namespace {

class HostProgram final : public NativeProgram {
 public:
  HostProgram(const Graph& g, const Node& n) : op_(n.op), attrs_(n.attrs) {
    for (const ValueId v : n.inputs)
      types_.push_back(v ? g.type(v).dtype : DType::F32), present_.push_back(static_cast<bool>(v));
    result_ = g.type(n.results[0]).dtype;
  }
  Status run(const NativeCall& call) override {
    std::vector<RefTensor> values;
    values.reserve(types_.size());
    std::vector<const RefTensor*> in;
    std::size_t next = 0;
    for (std::size_t k = 0; k < types_.size(); ++k) {
      if (!present_[k]) {
        in.push_back(nullptr);
        continue;
      }
      const NativeTensor& t = call.operands[next++];
      // Gather the strided view into a dense copy.
      std::vector<std::byte> dense(
          static_cast<std::size_t>(storageBytes(types_[k], product(t.shape))));
      const auto size = static_cast<std::size_t>(bytes(types_[k]));
      std::vector<int64_t> at(t.shape.size(), 0);
      if (!dense.empty()) {
        std::size_t to = 0;
        do {
          int64_t from = 0;
          for (std::size_t d = 0; d < at.size(); ++d) from += at[d] * t.strides[d];
          std::memcpy(dense.data() + to, t.data + from * static_cast<int64_t>(size), size);
          to += size;
        } while (nextIndex(at, t.shape));
      }
      RLX_TRY(RefTensor value, fromBytes(types_[k], t.shape, dense));
      values.push_back(std::move(value));
      in.push_back(&values.back());
    }
    const RefType type{result_, call.result.shape};
    const Bindings none;
    RLX_TRY(const std::vector<RefTensor> y,
            opDef(op_).reference(RefContext{op_, attrs_, in, std::span(&type, 1), none}));
    RLX_TRY(const std::vector<std::byte> out, toBytes(y[0]));
    if (!out.empty()) std::memcpy(call.result.data, out.data(), out.size());
    return Ok{};
  }

 private:
  OpKind op_;
  Attrs attrs_;
  std::vector<DType> types_;
  std::vector<bool> present_;
  DType result_{};
};

Status accepts(const NativeQuery& q) {
  const Node& n = q.get();
  if (n.results.size() != 1) return Error(Errc::Unsupported, "host placement of several results");
  for (const ValueId v : n.inputs)
    if (v && !isPlain(q.graph.type(v).dtype)) return Error(Errc::Unsupported, "packed dtype");
  std::vector<std::string> symbols;
  opInfo(n.op).symbols(n.attrs, symbols);
  if (!symbols.empty())
    return Error(Errc::Unsupported, "attributes with the symbol '" + symbols[0] + "'");
  return Ok{};
}

Result<std::unique_ptr<NativeProgram>> make(const NativeQuery& q) {
  RLX_OK(accepts(q));
  return std::unique_ptr<NativeProgram>(std::make_unique<HostProgram>(q.graph, q.get()));
}

constinit const NativeKernel kHost{OpKind::Input, "host reference", &accepts, &make, true};

}  // namespace

const NativeKernel& hostKernel() {
  return kHost;
}

}  // namespace rlx
