// Runs a model on .npy files and writes its outputs. usage: run MODEL DEVICE [NAME=FILE.npy]...
#include <cstdio>
#include <rlx/rlx.hpp>

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "usage: run MODEL DEVICE [NAME=FILE.npy]...\n");
    return 2;
  }
  auto model = rlx::load(argv[1]).value();
  auto exe = rlx::compile(model, {.device = argv[2]}).value();
  std::vector<rlx::NamedTensor> inputs;
  for (int k = 3; k < argc; ++k) {
    const std::string argument = argv[k];
    const std::size_t cut = argument.find('=');
    if (cut == argument.npos) return 2;
    inputs.push_back(
        {argument.substr(0, cut), rlx::Tensor::fromNpy(argument.substr(cut + 1)).value()});
  }
  const rlx::Outputs outputs = exe.run(inputs).value();
  for (const auto& [name, tensor] : outputs) {
    std::printf("%s: %zu bytes -> %s.npy\n", name.c_str(), tensor.bytes().size(), name.c_str());
    (void)tensor.toNpy(name + ".npy").value();
  }
  std::printf("%s", exe.explain().text().c_str());
  return 0;
} catch (const rlx::Exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
