// One executable of a BERT with symbolic batch and sequence against a compile per shape: the same
// numbers, no recompilation. Without --model=FOLDER a small model with random weights is made.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

#include "base/file.h"
#include "model/load.h"
#include "ops/ref_tensor.h"
#include "ops/tolerance.h"
#include "runtime/executable.h"

// A sanitizer has its own allocator, which must stay the one that new and delete use.
#if defined(__SANITIZE_ADDRESS__)
#define RLX_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RLX_COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef RLX_COUNTS_ALLOCATIONS
#define RLX_COUNTS_ALLOCATIONS 1
#endif

#if RLX_COUNTS_ALLOCATIONS
namespace {
std::atomic<int64_t> allocations{0};  // by operator new, in the whole program
}  // namespace

__attribute__((noinline)) void* operator new(std::size_t size) {
  ++allocations;
  if (void* const p = std::malloc(size ? size : 1)) return p;
  std::abort();
}
__attribute__((noinline)) void* operator new(std::size_t size, std::align_val_t alignment) {
  ++allocations;
  const auto a = static_cast<std::size_t>(alignment);
  if (void* const p = std::aligned_alloc(a, (size + a) / a * a)) return p;
  std::abort();
}
__attribute__((noinline)) void operator delete(void* p) noexcept {
  std::free(p);
}
__attribute__((noinline)) void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
__attribute__((noinline)) void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
__attribute__((noinline)) void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
#endif

namespace rlx {
namespace {

std::string folder;  // of the model
std::string device = "cpu";

void write(const std::string& path, const std::string& content) {
  ASSERT_TRUE(writeFileAtomic(path, content));
}

// A folder as Hugging Face writes it: config.json and model.safetensors.
void makeModel(const std::string& to) {
  constexpr int64_t kHidden = 48, kLayers = 2, kWide = 80, kWords = 97, kPositions = 256;
  write(joinPath(to, "config.json"),
        R"({"model_type":"bert","hidden_size":48,"num_hidden_layers":2,"num_attention_heads":3,)"
        R"("intermediate_size":80,"vocab_size":97,"max_position_embeddings":256,)"
        R"("type_vocab_size":2,"hidden_act":"gelu","layer_norm_eps":1e-12})");
  std::string header = "{", data;
  std::mt19937 random(7);
  auto tensor = [&](const std::string& name, std::vector<int64_t> shape) {
    std::normal_distribution<float> value(name.ends_with("Norm.weight") ? 1.0f : 0.0f, 0.2f);
    int64_t n = 1;
    std::string dims;
    for (const int64_t e : shape) n *= e, dims += (dims.empty() ? "" : ",") + std::to_string(e);
    const std::size_t from = data.size();
    for (int64_t k = 0; k < n; ++k) {
      const float x = value(random);
      data.append(reinterpret_cast<const char*>(&x), sizeof x);
    }
    header += (header.size() > 1 ? ",\"" : "\"") + name + R"(":{"dtype":"F32","shape":[)" + dims +
              R"(],"data_offsets":[)" + std::to_string(from) + "," + std::to_string(data.size()) +
              "]}";
  };
  auto dense = [&](const std::string& name, int64_t out, int64_t in) {
    tensor(name + ".weight", {out, in});
    tensor(name + ".bias", {out});
  };
  auto norm = [&](const std::string& name) {
    tensor(name + ".weight", {kHidden});
    tensor(name + ".bias", {kHidden});
  };
  tensor("embeddings.word_embeddings.weight", {kWords, kHidden});
  tensor("embeddings.position_embeddings.weight", {kPositions, kHidden});
  tensor("embeddings.token_type_embeddings.weight", {2, kHidden});
  norm("embeddings.LayerNorm");
  for (int64_t l = 0; l < kLayers; ++l) {
    const std::string p = "encoder.layer." + std::to_string(l) + ".";
    for (const char* name : {"query", "key", "value"})
      dense(p + "attention.self." + name, kHidden, kHidden);
    dense(p + "attention.output.dense", kHidden, kHidden);
    norm(p + "attention.output.LayerNorm");
    dense(p + "intermediate.dense", kWide, kHidden);
    dense(p + "output.dense", kHidden, kWide);
    norm(p + "output.LayerNorm");
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  const uint64_t size = header.size();
  std::string file(reinterpret_cast<const char*>(&size), sizeof size);
  write(joinPath(to, "model.safetensors"), file + header + data);
}

std::vector<NamedTensor> inputs(int64_t batch, int64_t seq) {
  std::mt19937_64 random(static_cast<uint64_t>(batch * 1000 + seq));
  std::vector<int64_t> ids, mask, types;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t s = 0; s < seq; ++s) {
      ids.push_back(static_cast<int64_t>(random() % 97));
      mask.push_back(s < seq - b % 3);  // rows of the batch are of different lengths
      types.push_back(s > seq / 2);
    }
  return {{"input_ids", Literal::of(DType::I64, {batch, seq}, ids)},
          {"attention_mask", Literal::of(DType::I64, {batch, seq}, mask)},
          {"token_type_ids", Literal::of(DType::I64, {batch, seq}, types)}};
}

TEST(SymbolicBert, EveryShapeEqualsItsFixedCompile) {
  auto model = loadModel(folder);
  ASSERT_TRUE(model) << model.error().text();
  CompileOptions options;
  options.device = device;
  auto symbolic = compile(*model, options);
  ASSERT_TRUE(symbolic) << symbolic.error().text();
  int64_t shapes = 0;
  double worst = 0;
  const bool slow = device != "cpu";  // a compile takes seconds: fewer shapes
  for (int64_t batch = 1; batch <= 8; batch += slow ? 3 : 1)
    for (const int64_t seq : {8, 9, 16, 33, 64, 100, 128, 256}) {
      if (slow && seq != 9 && seq != 64) continue;
      const std::vector<NamedTensor> in = inputs(batch, seq);
      CompileOptions fixed = options;
      fixed.dims = {{"batch", batch}, {"seq", seq}};
      auto one = compile(*model, fixed);
      ASSERT_TRUE(one) << one.error().text();
      auto want = one->run(in);
      auto got = symbolic->run(in);
      ASSERT_TRUE(want && got);
      for (std::size_t k = 0; k < want->size(); ++k) {
        const Tensor &a = (*got)[k].tensor, &b = (*want)[k].tensor;
        ASSERT_EQ(a.shape, b.shape);
        auto x = fromLiteral(a), y = fromLiteral(b);
        ASSERT_TRUE(x && y);
        // Known extents may change the tiles, and with them the order of sums.
        const Difference d = compare(*x, *y, graphTolerance(a.dtype, one->stats().steps, 128));
        EXPECT_TRUE(d.equal) << batch << " x " << seq << ": " << d.got << ", fixed " << d.want;
        worst = std::max(worst, d.maxAbs);
      }
      ++shapes;
    }
  EXPECT_EQ(symbolic->stats().recompiles, 0);
  EXPECT_EQ(symbolic->stats().runs, shapes);
  std::printf("%lld shapes, %lld recompilations, largest difference %.3g\n",
              static_cast<long long>(shapes), static_cast<long long>(symbolic->stats().recompiles),
              worst);
}

// Chains share rows and heads out among the threads; the order of every sum stays.
TEST(SymbolicBert, EveryThreadCountGivesTheSameBits) {
  if (device != "cpu") GTEST_SKIP() << "threads are the host's";
  auto model = loadModel(folder);
  ASSERT_TRUE(model) << model.error().text();
  std::vector<std::vector<NamedTensor>> want;
  const std::pair<int64_t, int64_t> shapes[] = {{1, 9}, {1, 128}, {3, 100}, {5, 64}};
  for (const int threads : {1, 2, 3, 4}) {
    CompileOptions options;
    options.threads = threads;
    auto exe = compile(*model, options);
    ASSERT_TRUE(exe) << exe.error().text();
    EXPECT_GT(exe->program().chains.size(), 1u);
    for (std::size_t k = 0; k < std::size(shapes); ++k) {
      auto got = exe->run(inputs(shapes[k].first, shapes[k].second));
      ASSERT_TRUE(got) << got.error().text();
      if (threads == 1) {
        want.push_back(*std::move(got));
        continue;
      }
      for (std::size_t o = 0; o < got->size(); ++o)
        EXPECT_TRUE((*got)[o].tensor == want[k][o].tensor) << threads << " threads, shape " << k;
    }
  }
}

#if RLX_COUNTS_ALLOCATIONS
int64_t pageFaults() {
  rusage r{};
  getrusage(RUSAGE_SELF, &r);
  return r.ru_minflt + r.ru_majflt;
}

// Allocations, bytes of the heap and page faults of ten calls whose sizes are known.
TEST(SymbolicBert, AKnownCallAllocatesNothing) {
  if (device != "cpu") GTEST_SKIP() << "drivers allocate as they like";
  auto model = loadModel(folder);
  ASSERT_TRUE(model) << model.error().text();
  auto exe = compile(*model, CompileOptions{});
  ASSERT_TRUE(exe) << exe.error().text();
  for (const auto& [batch, seq] : {std::pair{1, 9}, {1, 128}, {4, 100}}) {
    const std::vector<NamedTensor> in = inputs(batch, seq);
    std::vector<NamedTensor> out;
    for (int k = 0; k < 3; ++k) ASSERT_TRUE(exe->run(in, &out));
    int64_t leastFaults = INT64_MAX;  // the system may move pages of its own accord
    for (int attempt = 0; attempt < 5; ++attempt) {
      const int64_t before = allocations, faults = pageFaults();
      const auto heap = mallinfo2().uordblks;
      for (int k = 0; k < 10; ++k)
        if (!exe->run(in, &out)) FAIL();
      EXPECT_EQ(allocations - before, 0) << batch << " x " << seq;
      EXPECT_EQ(mallinfo2().uordblks, heap) << batch << " x " << seq;
      leastFaults = std::min(leastFaults, pageFaults() - faults);
    }
    EXPECT_EQ(leastFaults, 0) << batch << " x " << seq;
  }
}
#endif

// What a caller still holds is not written again.
TEST(SymbolicBert, HeldResultsStay) {
  auto model = loadModel(folder);
  ASSERT_TRUE(model) << model.error().text();
  CompileOptions options;
  options.device = device;
  auto exe = compile(*model, options);
  ASSERT_TRUE(exe) << exe.error().text();
  std::vector<NamedTensor> out;
  ASSERT_TRUE(exe->run(inputs(1, 9), &out));
  const std::vector<NamedTensor> held = out;
  const Tensor copy =
      Tensor::copy(held[0].tensor.dtype, held[0].tensor.shape, held[0].tensor.bytes);
  ASSERT_TRUE(exe->run(inputs(1, 9), &out));
  ASSERT_TRUE(exe->run(inputs(2, 9), &out));
  EXPECT_TRUE(held[0].tensor == copy);
  EXPECT_NE(held[0].tensor.bytes.data(), out[0].tensor.bytes.data());
}

}  // namespace
}  // namespace rlx

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int k = 1; k < argc; ++k) {
    const std::string_view a = argv[k];
    if (a.starts_with("--model=")) rlx::folder = a.substr(8);
    if (a.starts_with("--device=")) rlx::device = a.substr(9);
  }
  std::string made;
  if (rlx::folder.empty()) {
    char name[] = "/tmp/rlx_bert_XXXXXX";
    if (!mkdtemp(name)) return 1;
    rlx::folder = made = name;
    rlx::makeModel(made);
  }
  const int status = RUN_ALL_TESTS();
  if (!made.empty()) {
    for (const char* file : {"config.json", "model.safetensors"})
      (void)unlink(rlx::joinPath(made, file).c_str());
    (void)rmdir(made.c_str());
  }
  return status;
}
