// The kernels of random programs, run twice on the same memory: by the kernel interpreter, which
// finds races and accesses out of bounds, and as the machine code of the x86-64 emitter. Both ISA
// levels that the processor has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "backend/cpu/emitter.h"
#include "fuzz/random_graph.h"
#include "kir/interp.h"
#include "kir/print.h"
#include "kir/verify.h"
#include "ops/interpreter.h"
#include "ops/tolerance.h"
#include "passes/passes.h"
#include "runtime/registry.h"
#include "schedule/memory_plan.h"
#include "schedule/schedule.h"

namespace rlx {
namespace {

using Bytes = std::vector<std::byte>;

// What a CPU schedules for, whatever the processor: vector loops, and every binding.
Caps cpuCaps() {
  for (const Backend* b : backends())
    if (b->name == "cpu") return b->defaultCaps;
  return {};
}

// The memory of every program buffer before the first step.
std::vector<Bytes> memoryOf(const Program& p, const MemoryPlan& plan,
                            const std::vector<RefTensor>& inputs) {
  std::vector<Bytes> memory;
  for (std::size_t b = 0; b < p.buffers.size(); ++b) {
    const ProgramBuffer& buffer = p.buffers[b];
    // What no step has written reads as NaN.
    Bytes bytes(static_cast<std::size_t>(plan.bytes[b]), std::byte{0xff});
    if (buffer.kind == BufferKind::Input) {
      auto in = toBytes(inputs[static_cast<std::size_t>(buffer.port)]);
      EXPECT_TRUE(in);
      bytes = *std::move(in);
    } else if (buffer.kind == BufferKind::Constant) {
      const auto& v = p.graph.definition(buffer.value).attrs.as<ConstantAttrs>().value;
      bytes.assign(v.bytes.begin(), v.bytes.end());
    }
    memory.push_back(std::move(bytes));
  }
  return memory;
}

// Runs one step's machine code over copies of the buffers and returns what it wrote.
Bytes runEmitted(const Step& step, cpu::IsaLevel isa, std::array<int64_t, 3> grid,
                 const std::vector<int32_t>& params, const std::vector<Bytes>& memory) {
  auto code = cpu::emitKernel(step.kernel, isa);
  EXPECT_TRUE(code) << code.error().text();
  auto loaded = cpu::ExecutableMemory::create(*code);
  EXPECT_TRUE(loaded) << loaded.error().text();
  std::vector<Bytes> copies;
  for (const uint32_t b : step.buffers) copies.push_back(memory[b]);
  // The contract: 64 bytes of slack are not promised, so each copy is exact.
  std::vector<std::byte*> pointers;
  for (Bytes& c : copies) pointers.push_back(c.data());
  const int64_t groups = grid[0] * grid[1] * grid[2];
  // In two parts, as threads would.
  loaded->entry()(pointers.data(), params.data(), grid.data(), groups / 2, groups);
  loaded->entry()(pointers.data(), params.data(), grid.data(), 0, groups / 2);
  for (std::size_t k = 0; k < copies.size(); ++k) {
    if (step.buffers[k] != step.written) {
      EXPECT_EQ(copies[k], memory[step.buffers[k]]) << "a read buffer was written";
    }
  }
  return copies.back();
}

void checkKernels(uint32_t seed, const std::vector<cpu::IsaLevel>& levels, int64_t* kernels) {
  test::RandomGraphOptions small;
  small.maxElements = 150;
  small.maxNodes = 8;
  const test::RandomGraph r = test::randomGraph(seed, small);
  const std::string where = "seed " + std::to_string(seed) + "\n" + print(r.graph);
  auto flat = decompose(r.graph, {}, nullptr);
  ASSERT_TRUE(flat) << where;
  auto graph = simplify(*flat);
  ASSERT_TRUE(graph) << where;
  const std::vector<const NativeKernel*> none(graph->nodes.size(), nullptr);
  auto program = schedule(*graph, cpuCaps(), none);
  ASSERT_TRUE(program) << program.error().text() << where;
  std::vector<std::pair<DType, std::vector<int64_t>>> types;
  for (const RefTensor& t : r.inputs) types.emplace_back(t.dtype, t.shape);
  auto bindings = bindInputs(program->graph, types);
  ASSERT_TRUE(bindings) << where;
  auto plan = planMemory(*program, *bindings);
  ASSERT_TRUE(plan) << where;
  std::vector<Bytes> memory = memoryOf(*program, *plan, r.inputs);
  for (const Step& step : program->steps) {
    const std::string kernel = step.label + "\n" + kir::print(step.kernel) + where;
    const Status verified = kir::verify(step.kernel);
    ASSERT_TRUE(verified) << verified.error().text() << kernel;
    std::array<int64_t, 3> grid{};
    for (std::size_t k = 0; k < 3; ++k) {
      auto v = step.grid[k].evaluate(*bindings);
      ASSERT_TRUE(v) << kernel;
      grid[k] = *v;
    }
    std::vector<int32_t> params;
    for (const Dim& d : step.params) {
      auto v = d.evaluate(*bindings);
      ASSERT_TRUE(v) << kernel;
      params.push_back(static_cast<int32_t>(*v));
    }
    std::vector<Bytes> emitted;
    for (const cpu::IsaLevel isa : levels)
      emitted.push_back(runEmitted(step, isa, grid, params, memory));
    std::vector<std::span<std::byte>> globals;
    for (const uint32_t b : step.buffers) globals.emplace_back(memory[b]);
    const Status ran = kir::interpret(step.kernel, grid, globals, params);
    ASSERT_TRUE(ran) << ran.error().text() << "\n" << kernel;
    // Elements as flat tensors of the buffer's dtype.
    const DType t = program->buffers[step.written].dtype;
    const auto count = static_cast<int64_t>(memory[step.written].size()) / bytes(t);
    auto want = fromBytes(t, {count}, memory[step.written]);
    ASSERT_TRUE(want) << kernel;
    DType narrowest = t;
    for (const kir::Var& v : step.kernel.vars)
      if (isFloat(t) && isFloat(v.type) && info(v.type).bits < info(narrowest).bits)
        narrowest = v.type;
    for (const Bytes& out : emitted) {
      auto got = fromBytes(t, {count}, out);
      ASSERT_TRUE(got) << kernel;
      // Both follow the kernel's own order of rounding but for contraction, lanes of a sum and the
      // approximation of functions.
      const Difference d = compare(
          *got, *want,
          graphTolerance(narrowest, static_cast<int64_t>(step.nodes.size()), r.depths[0].terms), 8);
      ASSERT_TRUE(d.equal) << "element " << d.at << ": emitted " << d.got << ", interpreted "
                           << d.want << "\n"
                           << kernel;
    }
    ++*kernels;
  }
}

TEST(FuzzKernel, MachineCodeAgreesWithTheInterpreter) {
  auto best = cpu::detectIsa();
  if (!best) GTEST_SKIP() << best.error().message();
  std::vector<cpu::IsaLevel> levels{cpu::IsaLevel::Avx2};
  if (*best == cpu::IsaLevel::Avx512) levels.push_back(cpu::IsaLevel::Avx512);
  const char* one = std::getenv("RLX_FUZZ_SEED");
  const char* count = std::getenv("RLX_FUZZ_COUNT");
  const auto first = one ? static_cast<uint32_t>(std::strtoul(one, nullptr, 10)) : 1;
  const auto last = first + (one     ? 1
                             : count ? static_cast<uint32_t>(std::strtoul(count, nullptr, 10))
                                     : 200);
  int64_t kernels = 0;
  for (uint32_t seed = first; seed < last && !HasFailure(); ++seed)
    checkKernels(seed, levels, &kernels);
  EXPECT_GT(kernels, 0);
}

}  // namespace
}  // namespace rlx
