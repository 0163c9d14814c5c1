// JSON from files that nobody has checked: bounded size and depth, duplicate keys refused, integers
// exact, and every reader names the entry that is wrong. The parser's library stays inside json.cc.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rlx {

using Json = nlohmann::json;

struct JsonBudget {
  uint64_t maxBytes = uint64_t{256} << 20;
  int maxDepth = 64;
};

struct JsonMember;

// A value in a document, with its path for messages ("config.layers[3]"). It points into the
// document and lives no longer than it.
class JsonRef {
 public:
  JsonRef(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  const Json& json() const { return *value_; }
  bool isObject() const;
  bool isArray() const;
  bool isString() const;
  bool isNumber() const;
  bool isBool() const;
  bool isNull() const;

  // A member by a dotted path ("config.hidden_size"); NotFound, with the nearest key as hint.
  Result<JsonRef> at(std::string_view dotted) const;
  // A member by its exact key, which may contain dots.
  Result<JsonRef> member(std::string_view key) const;
  // Whether this is an object with that key, and the value is not null.
  bool has(std::string_view key) const;

  Result<int64_t> asInt() const;
  Result<uint64_t> asUint() const;
  // Integers are accepted too.
  Result<double> asDouble() const;
  Result<bool> asBool() const;
  // A view into the document.
  Result<std::string_view> asString() const;
  Result<std::vector<int64_t>> asInts() const;
  Result<std::vector<std::string>> asStrings() const;

  // Elements of an array.
  Result<std::vector<JsonRef>> elements() const;
  // Members of an object, sorted by key.
  Result<std::vector<JsonMember>> members() const;

  // at(key).asX(), or the fallback when the key is absent or null; a wrong type is an error.
  Result<int64_t> intOr(std::string_view key, int64_t fallback) const;
  Result<double> doubleOr(std::string_view key, double fallback) const;
  Result<bool> boolOr(std::string_view key, bool fallback) const;
  Result<std::string> stringOr(std::string_view key, std::string_view fallback) const;

 private:
  const Json* value_;
  std::string path_;
};

struct JsonMember {
  std::string_view key;
  JsonRef value;
};

// A parsed document. Copies share the tree.
class JsonDocument {
 public:
  explicit JsonDocument(std::shared_ptr<const Json> tree) : tree_(std::move(tree)) {}
  const Json& json() const { return *tree_; }
  JsonRef root() const { return JsonRef(*tree_, ""); }

 private:
  std::shared_ptr<const Json> tree_;
};

// One JSON value and nothing after it. BadFile with line and column for what is not JSON (or not
// UTF-8) and for a duplicate key; FileBudget for a text over the budget.
Result<JsonDocument> parseJson(std::string_view text, JsonBudget budget = {});
// The same for a file; errors name it.
Result<JsonDocument> readJson(const std::string& path, JsonBudget budget = {});

// The text as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string quoteJson(std::string_view text);

}  // namespace rlx
