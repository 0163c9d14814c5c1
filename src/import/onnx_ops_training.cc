// ONNX optimisers (ai.onnx.preview.training): one step as a formula over tensors.
#include "import/onnx_import.h"

namespace rlx::onnx {
namespace {

// Inputs: rate, step count, then `groups` lists of equally many tensors; the first two are the
// parameters and their gradients.
struct Step {
  Value rate, count;
  std::size_t tensors = 0;
  std::vector<Value> in;
  Value at(std::size_t group, std::size_t k) const { return in[2 + group * tensors + k]; }
};

Result<Step> readStep(Call& c, std::size_t groups) {
  Step s;
  s.in = c.all();
  if (s.in.size() != c.inputs() || (s.in.size() - 2) % groups != 0)
    return c.bad(std::to_string(s.in.size()) + " inputs");
  s.rate = reshape(s.in[0], {}), s.count = reshape(s.in[1], {});
  s.tensors = (s.in.size() - 2) / groups;
  return s;
}

Value scaled(const Value& v, double by) {
  return v * literal(v, by);
}

Value regularized(Call& c, const Value& x, const Value& g) {
  return scaled(x, c.attr("norm_coefficient", 0.0)) + g;
}

Status adagrad(Call& c) {
  RLX_TRY(const Step s, readStep(c, 3));
  const Value t = convert(s.count, s.rate.dtype());
  const Value rate = s.rate / (literal(t, 1) + scaled(t, c.attr("decay_factor", 0.0)));
  for (std::size_t k = 0; k < s.tensors; ++k) {
    const Value x = s.at(0, k), g = regularized(c, x, s.at(1, k));
    const Value h = s.at(2, k) + g * g;
    const Value root = apply(ScalarOp::Sqrt, h);
    c.out(k, x - rate * g / (root + literal(root, c.attr("epsilon", 1e-6))));
    c.out(s.tensors + k, h);
  }
  return Ok{};
}

Status adam(Call& c) {
  RLX_TRY(const Step s, readStep(c, 4));
  const double alpha = c.attr("alpha", 0.9), beta = c.attr("beta", 0.999);
  const Value t = convert(s.count, s.rate.dtype()), one = literal(t, 1);
  auto power = [&](double base) { return one - apply(ScalarOp::Pow, literal(t, base), t); };
  const Value adjusted = s.rate * apply(ScalarOp::Sqrt, power(beta)) / power(alpha);
  const Value rate = choose(apply(ScalarOp::Gt, t, literal(t, 0)), adjusted, s.rate);
  for (std::size_t k = 0; k < s.tensors; ++k) {
    const Value x = s.at(0, k), g = regularized(c, x, s.at(1, k));
    const Value v = scaled(s.at(2, k), alpha) + scaled(g, 1 - alpha);
    const Value h = scaled(s.at(3, k), beta) + scaled(g * g, 1 - beta);
    const Value root = apply(ScalarOp::Sqrt, h);
    const Value y = x - rate * v / (root + literal(root, c.attr("epsilon", 1e-6)));
    c.out(k, scaled(y, 1 - c.attr("norm_coefficient_post", 0.0)));
    c.out(s.tensors + k, v);
    c.out(2 * s.tensors + k, h);
  }
  return Ok{};
}

Status momentum(Call& c) {
  RLX_TRY(const Step s, readStep(c, 3));
  const double alpha = c.attr("alpha", 0.0), beta = c.attr("beta", 0.0);
  const bool nesterov = c.attr("mode", std::string_view("standard")) == "nesterov";
  const Value later = apply(ScalarOp::Gt, s.count, literal(s.count, 0));
  const Value factor = choose(later, literal(s.rate, beta), literal(s.rate, 1));
  for (std::size_t k = 0; k < s.tensors; ++k) {
    const Value x = s.at(0, k), g = regularized(c, x, s.at(1, k));
    const Value v = scaled(s.at(2, k), alpha) + factor * g;
    c.out(k, x - s.rate * (nesterov ? g + scaled(v, alpha) : v));
    c.out(s.tensors + k, v);
  }
  return Ok{};
}

constexpr OpRow kOps[] = {
    {"ai.onnx.preview.training::Adagrad", adagrad, 5, -1, -1},
    {"ai.onnx.preview.training::Adam", adam, 6, -1, -1},
    {"ai.onnx.preview.training::Momentum", momentum, 5, -1, -1},
};

}  // namespace

std::span<const OpRow> trainingOps() {
  return kOps;
}

}  // namespace rlx::onnx
