#include <glslang/Public/ResourceLimits.h>
#include <glslang/Public/ShaderLang.h>
#include <glslang/SPIRV/GlslangToSpv.h>

#include <unordered_map>
#include <unordered_set>

#include "backend/vulkan/vulkan.h"

namespace rlx::backend::vulkan {
namespace {

// Building the tables of built-ins takes a tenth of a second; once for the process.
void initialize() {
  static const bool done = glslang::InitializeProcess();
  (void)done;
}

// Numbers of the SPIR-V specification.
constexpr uint32_t kTypePointer = 32, kVariable = 59, kDecorate = 71, kMemberDecorate = 72;
constexpr uint32_t kNonWritable = 24, kBinding = 33, kNoContraction = 42;
constexpr uint32_t kFNegate = 127, kFAdd = 129, kFSub = 131, kFMul = 133, kFDiv = 136;
constexpr uint32_t kFirstType = 19;  // declarations of types follow the decorations
constexpr std::size_t kHeaderWords = 5;

bool isArithmetic(uint32_t op) {
  return op == kFNegate || op == kFAdd || op == kFSub || op == kFMul || op == kFDiv;
}

// `precise` does not reach through function arguments; here every operation gets its decoration.
void forbidContraction(std::vector<uint32_t>& words) {
  std::vector<uint32_t> decorations;
  std::unordered_set<uint32_t> already;
  std::size_t place = 0;
  for (std::size_t i = kHeaderWords; i < words.size();) {
    const uint32_t count = words[i] >> 16, op = words[i] & 0xffff;
    if (count == 0) return;
    if (place == 0 && op >= kFirstType && op <= kTypePointer) place = i;
    if (op == kDecorate && count >= 3 && words[i + 2] == kNoContraction)
      already.insert(words[i + 1]);
    if (isArithmetic(op) && already.insert(words[i + 2]).second)
      decorations.insert(decorations.end(), {(3u << 16) | kDecorate, words[i + 2], kNoContraction});
    i += count;
  }
  if (place)
    words.insert(words.begin() + static_cast<std::ptrdiff_t>(place), decorations.begin(),
                 decorations.end());
}

}  // namespace

Result<std::vector<uint32_t>> compileGlsl(const std::string& source) {
  initialize();
  constexpr auto kMessages = static_cast<EShMessages>(EShMsgSpvRules | EShMsgVulkanRules);
  glslang::TShader shader(EShLangCompute);
  const char* text = source.c_str();
  shader.setStrings(&text, 1);
  shader.setEnvInput(glslang::EShSourceGlsl, EShLangCompute, glslang::EShClientVulkan, 100);
  shader.setEnvClient(glslang::EShClientVulkan, glslang::EShTargetVulkan_1_1);
  shader.setEnvTarget(glslang::EShTargetSpv, glslang::EShTargetSpv_1_3);
  glslang::TProgram program;
  const bool parsed = shader.parse(GetDefaultResources(), 450, false, kMessages);
  if (parsed) program.addShader(&shader);
  if (!parsed || !program.link(kMessages))
    return Error(Errc::Internal, std::string("glslang refuses a kernel: ") +
                                     (parsed ? program.getInfoLog() : shader.getInfoLog()))
        .note(source);
  glslang::SpvOptions options;
  options.disableOptimizer = true;
  std::vector<uint32_t> words;
  glslang::GlslangToSpv(*program.getIntermediate(EShLangCompute), words, &options);
  if (words.empty()) return Error(Errc::Internal, "glslang made no SPIR-V of a kernel");
  forbidContraction(words);
  return words;
}

std::vector<bool> readOnlyBindings(std::span<const uint32_t> words, uint32_t bindings) {
  std::unordered_map<uint32_t, uint32_t> bindingOf, pointee, typeOf;
  std::unordered_map<uint32_t, bool> readOnly;  // struct types
  for (std::size_t i = kHeaderWords; i < words.size();) {
    const uint32_t count = words[i] >> 16, op = words[i] & 0xffff;
    if (count == 0 || i + count > words.size()) break;
    const auto w = words.subspan(i, count);
    if (op == kDecorate && count >= 4 && w[2] == kBinding) bindingOf[w[1]] = w[3];
    if (op == kMemberDecorate && count >= 4 && w[3] == kNonWritable) readOnly[w[1]] = true;
    if (op == kTypePointer && count >= 4) pointee[w[1]] = w[3];
    if (op == kVariable && count >= 4) typeOf[w[2]] = w[1];
    i += count;
  }
  std::vector<bool> out(bindings, false);
  for (const auto& [variable, binding] : bindingOf) {
    if (binding >= bindings) continue;
    const auto type = typeOf.find(variable);
    if (type == typeOf.end()) continue;
    const auto structure = pointee.find(type->second);
    out[binding] = structure != pointee.end() && readOnly.contains(structure->second);
  }
  return out;
}

}  // namespace rlx::backend::vulkan
