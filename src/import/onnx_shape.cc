// Shape arithmetic at import: integer tensors of rank 0 and 1 whose contents are dims follow the
// nodes that exporters write between Shape and Reshape. Without it every model with a dynamic batch
// would seem to have shapes that depend on data. A rule that is not certain gives nothing, and the
// node is imported as ordinary arithmetic.
#include <algorithm>
#include <cmath>

#include "import/onnx_import.h"

namespace rlx::onnx {
namespace {

constexpr int64_t kMaxTracked = 1024;             // elements
constexpr int64_t kMaxFactor = int64_t{1} << 31;  // so that products stay in 64 bits

using Rule = std::optional<Extents> (*)(Call&);

bool small(const Dim& d) {
  return !d.isConst() || (d.value() < kMaxFactor && d.value() > -kMaxFactor);
}

// Whether every extent >= 0 makes the dim >= 0: it holds no minus sign.
bool neverNegative(const Dim& d) {
  return d.isConst() ? d.value() >= 0 : d.text().find('-') == std::string::npos;
}

std::optional<Dim> combine(std::string_view op, const Dim& a, const Dim& b, bool real) {
  if (!small(a) || !small(b)) return std::nullopt;
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Max") return max(a, b);
  if (op == "Min") return min(a, b);
  if (op == "Div") {
    if (!b.isConst() || b.value() <= 0) {
      Dim q;
      return !b.is(0) && divideExactly(a, b, &q) ? std::optional(q) : std::nullopt;
    }
    Dim q;
    if (divideExactly(a, b, &q)) return q;
    // Integers truncate; floor is the same for what is not negative.
    if (real || !neverNegative(a)) return std::nullopt;
    return floorDiv(a, b);
  }
  if (op == "Mod") {
    if (real || !b.isConst() || b.value() <= 0 || !neverNegative(a)) return std::nullopt;
    return mod(a, b);
  }
  return std::nullopt;
}

// 1, 0, or nothing when it is not certain.
std::optional<Dim> compare(std::string_view op, const Dim& a, const Dim& b) {
  const Dim d = a - b;
  auto sign = [&]() -> std::optional<int> {
    if (d.isConst()) return d.value() > 0 ? 1 : d.value() < 0 ? -1 : 0;
    if (b.isConst() && b.value() < 0 && neverNegative(a)) return 1;
    if (a.isConst() && a.value() < 0 && neverNegative(b)) return -1;
    return std::nullopt;
  }();
  if (!sign) return std::nullopt;
  if (op == "Equal") return Dim(*sign == 0);
  if (op == "Greater") return Dim(*sign > 0);
  if (op == "Less") return Dim(*sign < 0);
  if (op == "GreaterOrEqual") return Dim(*sign >= 0);
  if (op == "LessOrEqual") return Dim(*sign <= 0);
  return std::nullopt;
}

// Elementwise over operands that broadcast (rank 0 and 1).
template <class F>
std::optional<Extents> zip(const std::vector<const Extents*>& in, F&& fn) {
  Extents out;
  out.dtype = in.back()->dtype;
  out.scalar = true;
  std::size_t n = 1;
  for (const Extents* e : in) {
    out.scalar = out.scalar && e->scalar;
    if (e->dims.size() != 1) {
      if (n != 1 && n != e->dims.size()) return std::nullopt;
      n = e->dims.size();
    }
  }
  for (std::size_t k = 0; k < n; ++k) {
    std::vector<Dim> at;
    for (const Extents* e : in) at.push_back(e->dims.size() == 1 ? e->dims[0] : e->dims[k]);
    const std::optional<Dim> d = fn(at);
    if (!d) return std::nullopt;
    out.dims.push_back(*d);
  }
  return out;
}

std::vector<const Extents*> operands(Call& c) {
  std::vector<const Extents*> in;
  for (std::size_t k = 0; k < c.inputs(); ++k) {
    const Extents* e = c.extents(k);
    if (!e) return {};
    in.push_back(e);
  }
  return in;
}

std::optional<Extents> arithmetic(Call& c) {
  const auto in = operands(c);
  if (in.empty() || (c.node.op == "Mod" && c.attr("fmod", int64_t{0}) != 0)) return std::nullopt;
  for (const Extents* e : in)
    if (e->dtype != in[0]->dtype || e->dtype == DType::Bool) return std::nullopt;
  return zip(in, [&](const std::vector<Dim>& at) -> std::optional<Dim> {
    std::optional<Dim> d = at[0];
    for (std::size_t k = 1; k < at.size() && d; ++k)
      d = combine(c.node.op, *d, at[k], isFloat(in[0]->dtype));
    return d;
  });
}

std::optional<Extents> comparison(Call& c) {
  const auto in = operands(c);
  if (in.size() != 2) return std::nullopt;
  auto out = zip(in, [&](const std::vector<Dim>& at) { return compare(c.node.op, at[0], at[1]); });
  if (out) out->dtype = DType::Bool;
  return out;
}

std::optional<Extents> where(Call& c) {
  const auto in = operands(c);
  if (in.size() != 3 || in[0]->dtype != DType::Bool) return std::nullopt;
  return zip(in, [&](const std::vector<Dim>& at) -> std::optional<Dim> {
    if (!at[0].isConst()) return at[1] == at[2] ? std::optional(at[1]) : std::nullopt;
    return at[0].is(0) ? at[2] : at[1];
  });
}

std::optional<Extents> same(Call& c) {
  const Extents* e = c.extents(0);
  return e ? std::optional(*e) : std::nullopt;
}

std::optional<Extents> cast(Call& c) {
  const Extents* e = c.extents(0);
  DType to{};
  if (!e || !findDType(c.attr("to", int64_t{0}), &to)) return std::nullopt;
  if (to != DType::I32 && to != DType::I64 && to != DType::F32 && to != DType::F64)
    return std::nullopt;
  Extents out = *e;
  out.dtype = to;
  return out;
}

std::optional<Extents> concatenate(Call& c) {
  const auto in = operands(c);
  if (in.empty()) return std::nullopt;
  Extents out;
  out.dtype = in[0]->dtype;
  for (const Extents* e : in) {
    if (e->scalar || e->dtype != out.dtype) return std::nullopt;
    out.dims.insert(out.dims.end(), e->dims.begin(), e->dims.end());
  }
  return out;
}

std::optional<Extents> gatherRule(Call& c) {
  const Extents *data = c.extents(0), *at = c.extents(1);
  if (!data || !at || data->scalar || c.attr("axis", int64_t{0}) > 0) return std::nullopt;
  Extents out;
  out.dtype = data->dtype;
  out.scalar = at->scalar;
  const auto n = static_cast<int64_t>(data->dims.size());
  for (const Dim& d : at->dims) {
    if (!d.isConst() || d.value() < -n || d.value() >= n) return std::nullopt;
    out.dims.push_back(
        data->dims[static_cast<std::size_t>(d.value() < 0 ? d.value() + n : d.value())]);
  }
  return out;
}

std::optional<Extents> sliceRule(Call& c) {
  const Extents* data = c.extents(0);
  if (!data || data->scalar) return std::nullopt;
  auto one = [&](std::size_t k, std::string_view name,
                 int64_t otherwise) -> std::optional<int64_t> {
    if (c.opset < 10) {
      const auto v = c.ints(name);
      if (v.size() > 1) return std::nullopt;
      return v.empty() ? otherwise : v[0];
    }
    if (!c.has(k)) return otherwise;
    const Extents* e = c.extents(k);
    if (!e || e->dims.size() != 1 || !e->dims[0].isConst()) return std::nullopt;
    return e->dims[0].value();
  };
  const auto start = one(1, "starts", 0), end = one(2, "ends", 0), axis = one(3, "axes", 0),
             step = one(4, "steps", 1);
  if (!start || !end || !axis || !step || *step == 0 || (*axis != 0 && *axis != -1) ||
      *step < -kMaxTracked || *step > kMaxTracked)
    return std::nullopt;
  const auto n = static_cast<int64_t>(data->dims.size());
  auto clampTo = [&](int64_t v, int64_t lo, int64_t hi) {
    return std::clamp(v < 0 ? (v < -n ? -1 : v + n) : v, lo, hi);
  };
  const bool up = *step > 0;
  const int64_t from =
                    up ? std::max<int64_t>(clampTo(*start, -1, n), 0) : clampTo(*start, -1, n - 1),
                to = up ? std::max<int64_t>(clampTo(*end, -1, n), 0) : clampTo(*end, -1, n - 1);
  Extents out;
  out.dtype = data->dtype;
  for (int64_t k = from; up ? k < to : k > to; k += *step)
    out.dims.push_back(data->dims[static_cast<std::size_t>(k)]);
  return out;
}

std::optional<Extents> unsqueeze(Call& c) {
  const Extents* e = c.extents(0);
  if (!e || !e->scalar) return std::nullopt;
  const auto axes = c.axes(1, "axes", 1);
  if (!axes || !*axes || (*axes)->size() != 1) return std::nullopt;
  Extents out = *e;
  out.scalar = false;
  return out;
}

std::optional<Extents> squeeze(Call& c) {
  const Extents* e = c.extents(0);
  if (!e || e->dims.size() != 1) return std::nullopt;
  Extents out = *e;
  out.scalar = true;
  return out;
}

std::optional<Extents> reshapeRule(Call& c) {
  const Extents *e = c.extents(0), *to = c.extents(1);
  if (!e || !to || to->dims.size() > 1) return std::nullopt;
  const auto n = static_cast<int64_t>(e->dims.size());
  if (!to->dims.empty() && !to->dims[0].is(-1) && !to->dims[0].is(n)) return std::nullopt;
  if (to->dims.empty() && n != 1) return std::nullopt;
  Extents out = *e;
  out.scalar = to->dims.empty();
  return out;
}

std::optional<Extents> product(Call& c) {
  const Extents* e = c.extents(0);
  if (!e || c.attr("noop_with_empty_axes", int64_t{0}) != 0) return std::nullopt;
  Extents out;
  out.dtype = e->dtype;
  out.scalar = e->scalar || c.attr("keepdims", int64_t{1}) == 0;
  Dim total(c.node.op == "ReduceProd" ? 1 : 0);
  for (const Dim& d : e->dims) {
    const auto next = combine(c.node.op == "ReduceProd" ? "Mul" : "Add", total, d, false);
    if (!next) return std::nullopt;
    total = *next;
  }
  out.dims = {total};
  return out;
}

std::optional<Extents> expandRule(Call& c) {
  const Extents *e = c.extents(0), *to = c.extents(1);
  if (!e || !to || to->dims.size() != 1 || e->dims.size() != 1 || !to->dims[0].isConst())
    return std::nullopt;
  const int64_t n = to->dims[0].value();
  if (n < 0 || n > kMaxTracked) return std::nullopt;
  Extents out;
  out.dtype = e->dtype;
  out.dims.assign(static_cast<std::size_t>(n), e->dims[0]);
  return out;
}

std::optional<Extents> fill(Call& c) {
  const Extents* to = c.extents(0);
  if (!to || to->dims.size() > 1 || (to->dims.size() == 1 && !to->dims[0].isConst()))
    return std::nullopt;
  const int64_t n = to->dims.empty() ? 1 : to->dims[0].value();
  const TensorDef* t = c.tensor("value");
  if (n < 0 || n > kMaxTracked || !t || !t->unsupported.empty()) return std::nullopt;
  auto e = extentsOf(t->value);
  if (!e || e->dims.size() != 1) return std::nullopt;
  Extents out;
  out.dtype = e->dtype;
  out.scalar = to->dims.empty();
  out.dims.assign(static_cast<std::size_t>(n), e->dims[0]);
  return out;
}

std::optional<Extents> sequence(Call& c) {
  const auto in = operands(c);
  if (in.size() != 3) return std::nullopt;
  for (const Extents* e : in)
    if (e->dims.size() != 1 || !e->dims[0].isConst() || isFloat(e->dtype)) return std::nullopt;
  const int64_t from = in[0]->dims[0].value(), to = in[1]->dims[0].value(),
                step = in[2]->dims[0].value();
  if (step == 0 || !small(in[0]->dims[0]) || !small(in[1]->dims[0]) || !small(in[2]->dims[0]))
    return std::nullopt;
  Extents out;
  out.dtype = in[0]->dtype;
  for (int64_t k = from; step > 0 ? k < to : k > to; k += step) {
    if (static_cast<int64_t>(out.dims.size()) == kMaxTracked) return std::nullopt;
    out.dims.emplace_back(k);
  }
  return out;
}

struct RuleRow {
  std::string_view op;
  Rule rule;
};
constexpr RuleRow kRules[] = {
    {"Add", arithmetic},
    {"Sub", arithmetic},
    {"Mul", arithmetic},
    {"Div", arithmetic},
    {"Mod", arithmetic},
    {"Max", arithmetic},
    {"Min", arithmetic},
    {"Equal", comparison},
    {"Greater", comparison},
    {"Less", comparison},
    {"GreaterOrEqual", comparison},
    {"LessOrEqual", comparison},
    {"Where", where},
    {"Identity", same},
    {"Floor", same},
    {"Ceil", same},
    {"Round", same},
    {"Cast", cast},
    {"Concat", concatenate},
    {"Gather", gatherRule},
    {"Slice", sliceRule},
    {"Unsqueeze", unsqueeze},
    {"Squeeze", squeeze},
    {"Reshape", reshapeRule},
    {"ReduceProd", product},
    {"ReduceSum", product},
    {"Expand", expandRule},
    {"ConstantOfShape", fill},
    {"Range", sequence},
};

bool representable(DType t, int64_t v) {
  if (t == DType::I32) return v >= INT32_MIN && v <= INT32_MAX;
  if (t == DType::Bool) return v == 0 || v == 1;
  if (t == DType::F32) return v >= -(1 << 24) && v <= (1 << 24);
  return v > INT64_MIN / 4 && v < INT64_MAX / 4;
}

}  // namespace

std::optional<Extents> shapeRule(Call& c) {
  if (!c.node.domain.empty()) return std::nullopt;
  for (const RuleRow& row : kRules) {
    if (row.op != c.node.op) continue;
    auto out = row.rule(c);
    (void)c.takeError();  // the handler that runs instead reports it
    if (!out) return out;
    for (const Dim& d : out->dims)
      if (d.isConst() && !representable(out->dtype, d.value())) return std::nullopt;
    return out;
  }
  return std::nullopt;
}

std::optional<Extents> extentsOf(const Literal& v) {
  const bool known = v.dtype == DType::I64 || v.dtype == DType::I32 || v.dtype == DType::F32 ||
                     v.dtype == DType::F64 || v.dtype == DType::Bool;
  if (!known || v.shape.size() > 1 || v.elements() > kMaxTracked) return std::nullopt;
  auto t = fromLiteral(v);
  if (!t) return std::nullopt;
  Extents out;
  out.dtype = v.dtype;
  out.scalar = v.shape.empty();
  for (int64_t k = 0; k < t->elements(); ++k) {
    if (t->isInt()) {
      out.dims.emplace_back(static_cast<int64_t>(t->integer(k)));
      continue;
    }
    const double d = t->number(k);
    if (!(std::fabs(d) <= (1 << 24)) || d != std::trunc(d) || std::signbit(d)) return std::nullopt;
    out.dims.emplace_back(static_cast<int64_t>(d));
  }
  return out;
}

Value materialize(Builder& b, const Extents& e) {
  const bool fixed =
      std::all_of(e.dims.begin(), e.dims.end(), [](const Dim& d) { return d.isConst(); });
  std::vector<int64_t> shape;
  if (!e.scalar) shape.push_back(static_cast<int64_t>(e.dims.size()));
  if (fixed || e.dims.empty()) {
    std::vector<int64_t> v;
    for (const Dim& d : e.dims) v.push_back(d.value());
    RefTensor t(e.dtype, shape);
    for (std::size_t k = 0; k < v.size(); ++k) {
      if (t.isInt())
        t.setInteger(static_cast<int64_t>(k), v[k]);
      else
        t.setNumber(static_cast<int64_t>(k), static_cast<double>(v[k]));
    }
    auto bytes = toBytes(t);
    RLX_CHECK(bytes, "a plain dtype has bytes");
    return b.constant(Literal::copy(e.dtype, shape, *bytes));
  }
  const DType made = e.dtype == DType::Bool ? DType::I64 : e.dtype;
  if (e.scalar) return convert(dimValue(b, made, e.dims[0]), e.dtype);
  std::vector<Value> parts;
  for (const Dim& d : e.dims) parts.push_back(reshape(dimValue(b, made, d), {Dim(1)}));
  return convert(parts.size() == 1 ? parts[0] : concat(parts, 0), e.dtype);
}

}  // namespace rlx::onnx
