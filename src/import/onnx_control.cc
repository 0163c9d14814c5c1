// Control flow that is decided at import, and the ops that are known but not supported.
#include "import/onnx_importer.h"

namespace rlx::onnx {
namespace {

Status ifOp(Call& c) {
  const AttributeDef *yes = c.find("then_branch"), *no = c.find("else_branch");
  if (!yes || !no || !yes->g || !no->g) return c.bad("then_branch or else_branch is missing");
  auto condition = c.number(0);
  if (!condition && condition.error().code() == Errc::Unsupported)
    return c.unsupported("a condition that is not known at import; " + condition.error().message());
  if (!condition) return std::move(condition).error();
  const GraphDef& branch = *condition != 0 ? *yes->g : *no->g;
  RLX_TRY(std::vector<Item> out, c.importer().inlineGraph(branch));
  if (out.size() != c.outputs())
    return c.bad("the branch has " + std::to_string(out.size()) + " outputs, the node " +
                 std::to_string(c.outputs()));
  c.results() = std::move(out);
  return Ok{};
}

constexpr OpRow kOps[] = {{"If", ifOp, 1, 1, -1}};

constexpr std::string_view kLoop = "loops over graphs are not supported";
constexpr std::string_view kRecurrent = "recurrent layers are not supported";
constexpr std::string_view kSequence = "sequences of tensors are not supported";
constexpr std::string_view kOptional = "optional values are not supported";
constexpr std::string_view kString = "strings are not supported";
constexpr std::string_view kData = "the size of its result depends on data";
constexpr std::string_view kRandom = "random numbers are not supported";

constexpr RefusedOp kRefused[] = {
    {"Loop", kLoop},
    {"Scan", kLoop},
    {"LSTM", kRecurrent},
    {"GRU", kRecurrent},
    {"RNN", kRecurrent},
    {"SequenceAt", kSequence},
    {"SequenceConstruct", kSequence},
    {"SequenceEmpty", kSequence},
    {"SequenceErase", kSequence},
    {"SequenceInsert", kSequence},
    {"SequenceLength", kSequence},
    {"SequenceMap", kSequence},
    {"SplitToSequence", kSequence},
    {"ConcatFromSequence", kSequence},
    {"Optional", kOptional},
    {"OptionalGetElement", kOptional},
    {"OptionalHasElement", kOptional},
    {"StringNormalizer", kString},
    {"StringConcat", kString},
    {"StringSplit", kString},
    {"RegexFullMatch", kString},
    {"TfIdfVectorizer", kString},
    {"NonMaxSuppression", kData},
    {"Unique", kData},
    {"Bernoulli", kRandom},
    {"Multinomial", kRandom},
    {"RandomNormal", kRandom},
    {"RandomNormalLike", kRandom},
    {"RandomUniform", kRandom},
    {"RandomUniformLike", kRandom},
};

}  // namespace

std::span<const OpRow> controlOps() {
  return kOps;
}
std::span<const RefusedOp> refusedOps() {
  return kRefused;
}

}  // namespace rlx::onnx
