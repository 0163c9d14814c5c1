// OpDef: the one record per op, built from the op's struct. A rule the struct lacks is a null
// pointer, and every consumer (verifier, interpreter, scheduler, dispatch, tests, docs) reads the
// same record.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "kir/kernel.h"
#include "ops/ref_tensor.h"

namespace rlx {

// ---- Reference
// -----------------------------------------------------------------------------------
struct RefType {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
};
struct RefContext {
  OpKind op;
  const Attrs& attrs;
  std::span<const RefTensor* const> inputs;  // null: absent
  std::span<const RefType> results;          // inferred, under the symbol values of the run
  const Bindings& bindings;                  // of the symbols in attributes
  const RefTensor& in(std::size_t k) const { return *inputs[k]; }
  bool has(std::size_t k) const { return k < inputs.size() && inputs[k]; }
  // Every symbol of a run is bound before it starts.
  int64_t dim(const Dim& d) const {
    auto v = d.evaluate(bindings);
    RLX_CHECK(v, "an unbound symbol in an attribute");
    return *v;
  }
  RefTensor out(std::size_t k = 0) const { return RefTensor(results[k].dtype, results[k].shape); }
};
using RefResult = Result<std::vector<RefTensor>>;

// ---- Lowering to kernel IR
// -------------------------------------------------------------------------
using Index = std::vector<kir::Expr>;  // one I32 expression per axis

// What a lowering rule sees of the kernel being built. The scheduler implements it; a rule never
// knows whether an operand is in memory or computed on the spot.
class LowerContext {
 public:
  virtual ~LowerContext() = default;
  const Node* node = nullptr;
  std::vector<const TensorType*> operands;  // null: absent
  std::vector<const TensorType*> results;
  // The operand's element at an index inside its shape, in the operand's dtype.
  virtual kir::Expr operand(std::size_t k, const Index& at) = 0;
  // The same where `when` holds; `otherwise` elsewhere, and then nothing is read.
  virtual kir::Expr operandIf(std::size_t k, const Index& at, const kir::Expr& when,
                              const kir::Expr& otherwise) = 0;
  virtual kir::Expr dim(const Dim& d) = 0;
  // Names a value so that it is computed once.
  virtual kir::Expr let(const kir::Expr& x) = 0;

  template <class A>
  const A& attrs() const {
    return node->attrs.as<A>();
  }
  const Shape& shape(std::size_t k) const { return operands[k]->shape; }
  bool has(std::size_t k) const { return k < operands.size() && operands[k]; }
  // Computes in computeType(dtype): operand cast up; `narrow` casts a result back.
  kir::Expr wide(std::size_t k, const Index& at);
  kir::Expr narrow(const kir::Expr& x) { return kir::cast(results[0]->dtype, x); }
};

struct Accumulator {
  DType type{};
  kir::Expr init;
  ScalarOp op = ScalarOp::Add;  // how a value joins, unless the fold is ordered
};

// A reduction: for every result element, a loop nest over `extents`.
struct Fold {
  std::vector<Dim> extents;
  std::vector<Accumulator> accumulators;
  bool ordered =
      false;  // steps run in row-major order and compute the next accumulators themselves
  bool alongMemory = false;  // the innermost extent is contiguous in memory: lanes go along it
  int tileAxis = -1;         // result axis along which several results share most reads
};

struct OpDef {
  OpInfo info;
  std::string_view doc;
  RefResult (*reference)(const RefContext&) = nullptr;
  // Composite: the same results by simpler ops.
  std::vector<Value> (*decompose)(Builder&, std::span<const Value>, const Attrs&) = nullptr;
  // Lowering, one of: map, fold, lanes.
  kir::Expr (*element)(LowerContext&, const Index& at) = nullptr;
  Fold (*fold)(LowerContext&, const Index& at) = nullptr;
  // Unordered: `values` receives what joins each accumulator. Ordered: it holds the accumulators
  // and receives the next ones.
  void (*foldStep)(LowerContext&, const Index& at, const Index& r,
                   std::vector<kir::Expr>& values) = nullptr;
  kir::Expr (*foldFinish)(LowerContext&, const Index& at, std::span<const kir::Expr> acc) = nullptr;
  // Serial along one axis of result 0, in parallel over the others: returns the axis; `scanStep`
  // computes the result element from the carry and the next carry.
  int64_t (*scanAxis)(LowerContext&) = nullptr;
  void (*scanStep)(LowerContext&, const Index& at, kir::Expr& carry, kir::Expr& out) = nullptr;
  kir::Expr (*scanInit)(LowerContext&) = nullptr;
  // True where the attributes make scanStep run from the end.
  bool (*scanReverse)(LowerContext&) = nullptr;
  bool reuses = false;     // of a fold: operand elements are read by many results (dot, conv)
  bool indexOnly = false;  // a map that only moves elements: free to recompute
  double cost = 1;         // of a map, in additions
};
const OpDef& opDef(OpKind op);

namespace ops {
template <class A>
Attrs substituteDims(const Attrs& attrs, const std::vector<std::pair<std::string, Dim>>& with) {
  A a = attrs.as<A>();
  [[maybe_unused]] auto one = [&](auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, Dim>) field = field.substitute(with);
    if constexpr (std::is_same_v<Field, Shape>)
      for (Dim& d : field) d = d.substitute(with);
  };
  std::apply([&](auto&... f) { (one(f), ...); }, a.fields());
  return Attrs::of(std::move(a));
}

template <class A>
void dimSymbols(const Attrs& attrs, std::vector<std::string>& out) {
  [[maybe_unused]] auto one = [&](const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, Dim>) field.symbols(out);
    if constexpr (std::is_same_v<Field, Shape>)
      for (const Dim& d : field) d.symbols(out);
  };
  std::apply([&](const auto&... f) { (one(f), ...); }, attrs.as<A>().fields());
}

template <class T>
constexpr OpDef makeDef(OpKind kind) {
  OpDef d;
  d.info.name = name(kind);
  d.info.minInputs = T::minInputs;
  d.info.maxInputs = T::maxInputs;
  d.info.attrs = &attrsInfo<typename T::Attributes>();
  d.info.infer = &T::infer;
  d.info.substitute = &substituteDims<typename T::Attributes>;
  d.info.symbols = &dimSymbols<typename T::Attributes>;
  d.doc = T::doc;
  d.reference = &T::reference;
  if constexpr (requires { &T::decompose; }) d.decompose = &T::decompose, d.info.composite = true;
  if constexpr (requires { &T::element; }) d.element = &T::element;
  if constexpr (requires { &T::fold; })
    d.fold = &T::fold, d.foldStep = &T::foldStep, d.foldFinish = &T::foldFinish;
  if constexpr (requires { &T::scanStep; })
    d.scanAxis = &T::scanAxis, d.scanStep = &T::scanStep, d.scanInit = &T::scanInit,
    d.scanReverse = &T::scanReverse;
  if constexpr (requires { T::reuses; }) d.reuses = T::reuses;
  if constexpr (requires { T::indexOnly; }) d.indexOnly = T::indexOnly;
  if constexpr (requires { T::cost; }) d.cost = T::cost;
  static_assert(
      requires { &T::decompose; } || requires { &T::element; } || requires { &T::fold; } ||
          requires { &T::scanStep; } || requires { requires T::leaf; },
      "an op lowers to a kernel, decomposes into other ops, or is a leaf");
  return d;
}
}  // namespace ops

// The op's rules are the struct ops::Id of the same file.
#define RLX_DEFINE_OP(Id)   \
  extern const OpDef k##Id; \
  constinit const OpDef k##Id = makeDef<Id>(OpKind::Id);

}  // namespace rlx
