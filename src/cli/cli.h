// The command line: one function per verb, and what they share.
#pragma once
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/executable.h"

namespace rlx::cli {

// Options that every verb takes.
struct Common {
  bool json = false, quiet = false, verbose = false;
  int threads = 0;
};

// Options of verbs that compile a model.
struct ModelOptions {
  std::string file, device = "cpu", policy = "prefer-native";
  std::vector<std::string> dims, inputs, allowHost, opPolicies;
};

// Adds the options to a subcommand.
void addModel(CLI::App& app, ModelOptions& o);
void addDevice(CLI::App& app, ModelOptions& o);
void addInputs(CLI::App& app, ModelOptions& o);

// The options as the compiler takes them; Usage names what does not parse.
Result<CompileOptions> compileOptions(const ModelOptions& o, const Common& common);
// Inputs of a graph from NAME=x.npy | x.pb | random:SEED | zeros; those not named are random:0.
Result<std::vector<NamedTensor>> makeInputs(const Graph& graph, const ModelOptions& o,
                                            const CompileOptions& options);
Result<Tensor> readTensor(const std::string& path);
Status writeTensor(const std::string& path, const Tensor& tensor);
// "f32[2,3]: 0.1 0.2 ...".
std::string head(const Tensor& tensor, int count = 6);
// Prints one JSON document to stdout.
void printJson(const nlohmann::json& j);

// Registers a verb: `run` is called after parsing and returns the exit code.
using Verb = void (*)(CLI::App& app, Common& common, int& exitCode);
std::span<const Verb> verbs();
// Prints the error (as JSON with --json) and returns its exit code.
int report(const Error& error, const Common& common);

// The whole program.
int main(int argc, char** argv);

}  // namespace rlx::cli
