// A graph in code: one dense layer with softmax, for any batch.
#include <cstdio>
#include <rlx/rlx.hpp>

int main(int argc, char** argv) try {
  rlx::Builder b("classifier");
  auto x = b.input("x", rlx::f32, {b.symbol("batch"), 3});
  auto w = b.parameter("w", rlx::Tensor::of<float>({3, 2}, {1, -1, 2, 0, 0.5f, 3}).value());
  b.output("y", softmax(matmul(x, w), /*axis=*/1));
  rlx::Graph g = std::move(b).finish().value();
  std::printf("%s", g.text().value().c_str());

  auto exe = rlx::compile(g, {.device = argc > 1 ? argv[1] : "cpu", .threads = 1}).value();
  for (const int64_t batch : {1, 4}) {
    const std::vector<float> ones(static_cast<std::size_t>(3 * batch), 1.0f);
    const rlx::Tensor y =
        exe.run({{"x", rlx::Tensor::of<float>({batch, 3}, ones).value()}}).value()["y"];
    const std::vector<float> p = y.values<float>();
    std::printf("batch %d: %.4f %.4f\n", static_cast<int>(batch), static_cast<double>(p[0]),
                static_cast<double>(p[1]));
    const float sum = p[0] + p[1];
    if (sum < 0.999f || sum > 1.001f) return 1;
  }
  return 0;
} catch (const rlx::Exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
