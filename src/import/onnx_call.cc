// Call: how handlers reach operands, attributes and what is known at import; and the small graph
// pieces that several families build.
#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "import/onnx_importer.h"

namespace rlx::onnx {

Call::Call(Importer& importer, const NodeDef& n, int64_t version, std::vector<Item*> in,
           const std::vector<AttributeDef>* bindings)
    : b(importer.builder),
      node(n),
      opset(version),
      importer_(importer),
      inputs_(std::move(in)),
      bindings_(bindings),
      results_(n.outputs.size()) {}

Value Call::in(std::size_t k) {
  return has(k) ? importer_.value(*inputs_[k], node.inputs[k]) : Value{};
}

std::vector<Value> Call::all() {
  std::vector<Value> out;
  for (std::size_t k = 0; k < inputs_.size(); ++k)
    if (has(k)) out.push_back(in(k));
  return out;
}

Error Call::unsupported(std::string why) const {
  return Error(Errc::Unsupported, std::move(why));
}

Error Call::bad(std::string why) const {
  return Error(Errc::BadGraph, std::move(why));
}

std::optional<Error> Call::takeError() {
  std::optional<Error> e = std::move(error_);
  error_.reset();
  return e;
}

// ---- Contents known at import
// ----------------------------------------------------------------------

const Extents* Call::extents(std::size_t k) {
  if (!has(k)) return nullptr;
  Item& item = *inputs_[k];
  if (!item.extents && item.literal)
    if (auto e = extentsOf(*item.literal))
      item.extents = std::make_shared<const Extents>(std::move(*e));
  return item.extents.get();
}

Result<std::shared_ptr<const RefTensor>> Call::contents(std::size_t k) {
  RLX_CHECK(has(k), "contents of an absent operand");
  if (inputs_[k]->literal) {
    RLX_TRY(RefTensor t, fromLiteral(*inputs_[k]->literal));
    return std::make_shared<const RefTensor>(std::move(t));
  }
  if (auto t = importer_.fold(in(k))) return t;
  std::string why = "input " + std::to_string(k) + " '" + shorten(node.inputs[k], 120) +
                    "' must be known at import";
  const auto& wanted = importer_.wanted;
  for (std::size_t i = 0; i < wanted.size() && i < 4; ++i)
    why += (i ? ", '" : "; it depends on graph input '") + shorten(wanted[i], 120) + "'";
  return unsupported(std::move(why));
}

Result<std::vector<Dim>> Call::dims(std::size_t k) {
  if (const Extents* e = extents(k)) return e->dims;
  RLX_TRY(const std::vector<int64_t> v, integers(k));
  return std::vector<Dim>(v.begin(), v.end());
}

Result<std::vector<int64_t>> Call::integers(std::size_t k) {
  if (const Extents* e = extents(k)) {
    std::vector<int64_t> out;
    for (const Dim& d : e->dims) {
      if (!d.isConst())
        return unsupported("input " + std::to_string(k) + " must be a number, it is " + d.text());
      out.push_back(d.value());
    }
    return out;
  }
  RLX_TRY(const auto t, contents(k));
  if (!t->isInt()) return bad("input " + std::to_string(k) + " must hold integers");
  std::vector<int64_t> out;
  for (int64_t j = 0; j < t->elements(); ++j) out.push_back(static_cast<int64_t>(t->integer(j)));
  return out;
}

Result<std::vector<double>> Call::numbers(std::size_t k) {
  RLX_TRY(const auto t, contents(k));
  if (isComplex(t->dtype)) return unsupported("complex contents");
  std::vector<double> out;
  for (int64_t j = 0; j < t->elements(); ++j) out.push_back(t->number(j));
  return out;
}

Result<int64_t> Call::integer(std::size_t k) {
  RLX_TRY(const std::vector<int64_t> v, integers(k));
  if (v.size() != 1)
    return bad("input " + std::to_string(k) + " has " + std::to_string(v.size()) +
               " elements, expected one");
  return v[0];
}

Result<double> Call::number(std::size_t k) {
  RLX_TRY(const std::vector<double> v, numbers(k));
  if (v.size() != 1)
    return bad("input " + std::to_string(k) + " has " + std::to_string(v.size()) +
               " elements, expected one");
  return v[0];
}

bool Call::isConstant(std::size_t k) {
  if (!has(k)) return false;
  if (inputs_[k]->literal) return true;
  return importer_.fold(in(k)) != nullptr;
}

// ---- Attributes
// ------------------------------------------------------------------------------------

const AttributeDef* Call::find(std::string_view name) const {
  for (const AttributeDef& a : node.attributes) {
    if (a.name != name) continue;
    if (a.reference.empty()) return &a;
    if (bindings_)
      for (const AttributeDef& outer : *bindings_)
        if (outer.name == a.reference) return &outer;
    return nullptr;
  }
  return nullptr;
}

static std::optional<Error> wrongKind(const AttributeDef& a, std::string_view expected) {
  return Error(Errc::BadAttribute,
               "attribute '" + shorten(a.name, 120) + "' is not " + std::string(expected));
}

int64_t Call::attr(std::string_view name, int64_t otherwise) {
  const AttributeDef* a = find(name);
  if (!a) return otherwise;
  if (a->kind == AttributeDef::Kind::Int) return a->i;
  if (!error_) error_ = wrongKind(*a, "an integer");
  return otherwise;
}

double Call::attr(std::string_view name, double otherwise) {
  const AttributeDef* a = find(name);
  if (!a) return otherwise;
  if (a->kind == AttributeDef::Kind::Float) return a->f;
  if (a->kind == AttributeDef::Kind::Int) return static_cast<double>(a->i);
  if (!error_) error_ = wrongKind(*a, "a number");
  return otherwise;
}

std::string Call::attr(std::string_view name, std::string_view otherwise) {
  const AttributeDef* a = find(name);
  if (!a) return std::string(otherwise);
  if (a->kind == AttributeDef::Kind::String) return a->s;
  if (!error_) error_ = wrongKind(*a, "a string");
  return std::string(otherwise);
}

std::vector<int64_t> Call::ints(std::string_view name) {
  const AttributeDef* a = find(name);
  if (!a) return {};
  if (a->kind == AttributeDef::Kind::Ints) return a->ints;
  if (!error_) error_ = wrongKind(*a, "a list of integers");
  return {};
}

std::vector<double> Call::floats(std::string_view name) {
  const AttributeDef* a = find(name);
  if (!a) return {};
  if (a->kind == AttributeDef::Kind::Floats) return a->floats;
  if (!error_) error_ = wrongKind(*a, "a list of numbers");
  return {};
}

const TensorDef* Call::tensor(std::string_view name) {
  const AttributeDef* a = find(name);
  if (!a) return nullptr;
  if (a->kind == AttributeDef::Kind::Tensor) return a->t.get();
  if (!error_) error_ = wrongKind(*a, "a tensor");
  return nullptr;
}

Result<std::optional<std::vector<int64_t>>> Call::axes(std::size_t k, std::string_view name,
                                                       int64_t rank) {
  std::vector<int64_t> given;
  if (has(k)) {
    RLX_TRY(given, integers(k));
  } else if (hasAttr(name)) {
    given = ints(name);
  } else {
    return std::optional<std::vector<int64_t>>();
  }
  std::vector<int64_t> out;
  for (const int64_t a : given) {
    RLX_TRY(const int64_t axis, normalizeAxis(node.op, a, static_cast<std::size_t>(rank)));
    out.push_back(axis);
  }
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end())
    return bad("an axis is named twice in " + toText(given));
  return std::optional(std::move(out));
}

Result<int64_t> Call::axis(std::string_view name, int64_t otherwise, int64_t rank) {
  return normalizeAxis(node.op, attr(name, otherwise), static_cast<std::size_t>(rank));
}

// ---- Results
// ---------------------------------------------------------------------------------------

void Call::out(std::size_t k, Value v) {
  if (k < results_.size()) results_[k].value = v;
}
void Call::out(std::size_t k, Extents e) {
  if (k < results_.size()) results_[k].extents = std::make_shared<const Extents>(std::move(e));
}
void Call::out(std::size_t k, Literal l) {
  if (k < results_.size()) results_[k].literal = std::move(l);
}

// ---- Graph pieces
// ----------------------------------------------------------------------------------

std::vector<int64_t> range(int64_t from, int64_t to) {
  std::vector<int64_t> out(static_cast<std::size_t>(std::max<int64_t>(to - from, 0)));
  std::iota(out.begin(), out.end(), from);
  return out;
}

Value mean(Value x, const std::vector<int64_t>& axes, KeepDims keep) {
  Dim n(1);
  for (const int64_t a : axes) n = n * extent(x, a);
  const Value sum = reduce(x, ReduceKind::Sum, axes, keep);
  return sum / dimValue(*x.builder, x.dtype(), n);
}

Value perChannel(Value v, int64_t rank) {
  Shape column(static_cast<std::size_t>(std::max<int64_t>(rank - 1, 1)), Dim(1));
  column[0] = elements(v.shape());
  return reshape(v, std::move(column));
}

Value sliceAxis(Value x, int64_t axis, const Dim& from, const Dim& size) {
  Shape start(x.shape().size(), Dim(0)), extents = x.shape();
  if (axis >= 0 && axis < x.rank())
    start[static_cast<std::size_t>(axis)] = from, extents[static_cast<std::size_t>(axis)] = size;
  return slice(x, std::move(start), std::move(extents));
}

Value constantInts(Builder& b, std::vector<int64_t> shape, const std::vector<int64_t>& v) {
  return b.constant(Literal::of(DType::I64, std::move(shape), v));
}

Value constantFloats(Builder& b, DType dtype, std::vector<int64_t> shape,
                     const std::vector<double>& v) {
  RefTensor t(dtype, shape);
  for (std::size_t k = 0; k < v.size(); ++k)
    t.setNumber(static_cast<int64_t>(k), isFloat(dtype) ? roundTo(dtype, v[k]) : v[k]);
  auto bytes = toBytes(t);
  if (!bytes) return b.fail(std::move(bytes).error()), Value{&b, {}};
  return b.constant(Literal::copy(dtype, std::move(shape), *bytes));
}

}  // namespace rlx::onnx
