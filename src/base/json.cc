#include "base/json.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"

namespace rlx {
namespace {

// Builds the tree from parser events. The parser keeps its own stack on the heap, so neither it nor
// this recurses on the input's depth; the limit keeps later walks over the tree safe as well.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(Json& root, int maxDepth) : root_(root), maxDepth_(maxDepth) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return fail(Errc::BadFile, "binary value in JSON"); }
  bool start_object(std::size_t) override { return open(Json::value_t::object); }
  bool start_array(std::size_t) override { return open(Json::value_t::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    auto [entry, inserted] = stack_.back()->get_ref<Json::object_t&>().try_emplace(key, nullptr);
    if (!inserted) return fail(Errc::BadFile, "duplicate key '" + clip(key) + "'");
    slot_ = &entry->second;
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 5: ...".
    std::string_view what = error.what();
    if (const std::size_t end = what.find("] "); end != what.npos) what.remove_prefix(end + 2);
    return fail(Errc::BadFile, std::string(what));
  }

  bool failed() const { return failed_; }
  Error takeError() { return Error(code_, std::move(message_)); }

  static std::string clip(std::string_view text) { return shorten(text, 80); }

 private:
  bool fail(Errc code, std::string message) {
    if (!failed_) {
      code_ = code;
      message_ = std::move(message);
      failed_ = true;
    }
    return false;
  }
  template <class T>
  Json* place(T&& value) {
    if (stack_.empty()) {
      root_ = Json(std::forward<T>(value));
      return &root_;
    }
    if (stack_.back()->is_array()) {
      auto& array = stack_.back()->get_ref<Json::array_t&>();
      array.emplace_back(std::forward<T>(value));
      return &array.back();
    }
    *slot_ = Json(std::forward<T>(value));
    return slot_;
  }
  template <class T>
  bool add(T&& value) {
    place(std::forward<T>(value));
    return true;
  }
  bool open(Json::value_t type) {
    if (static_cast<int>(stack_.size()) >= maxDepth_)
      return fail(Errc::FileBudget, "nested deeper than the limit of " + std::to_string(maxDepth_));
    stack_.push_back(place(type));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }

  Json& root_;
  int maxDepth_;
  std::vector<Json*> stack_;
  Json* slot_ = nullptr;
  bool failed_ = false;
  Errc code_ = Errc::BadFile;
  std::string message_;
};

std::string display(const std::string& path) {
  return path.empty() ? std::string("the document") : "'" + shorten(path, 120) + "'";
}

Error wrongType(const JsonRef& ref, std::string_view expected) {
  std::string found = ref.json().type_name();
  if (ref.isNumber()) found += " " + ref.json().dump();
  if (ref.json().is_string())
    found += " " + quoteJson(shorten(ref.json().get_ref<const std::string&>(), 40));
  return Error(Errc::BadFile,
               display(ref.path()) + ": expected " + std::string(expected) + ", found " + found);
}

std::string childPath(const std::string& path, std::string_view key) {
  std::string out = path;
  if (!out.empty()) out += '.';
  out += key;
  return out;
}

Error missing(const JsonRef& ref, std::string_view key) {
  if (!ref.isObject()) return wrongType(ref, "an object with '" + shorten(key, 80) + "'");
  Error error(Errc::NotFound, display(ref.path()) + " has no entry '" + shorten(key, 80) + "'");
  std::vector<std::string_view> names;
  for (const auto& [name, value] : ref.json().get_ref<const Json::object_t&>()) {
    names.push_back(name);
    if (names.size() == 1000) break;
  }
  if (const std::string_view near = nearestName(key, names); !near.empty())
    return std::move(error).hint("did you mean '" + std::string(near) + "'?");
  return error;
}

}  // namespace

bool JsonRef::isObject() const {
  return value_->is_object();
}
bool JsonRef::isArray() const {
  return value_->is_array();
}
bool JsonRef::isString() const {
  return value_->is_string();
}
bool JsonRef::isNumber() const {
  return value_->is_number();
}
bool JsonRef::isBool() const {
  return value_->is_boolean();
}
bool JsonRef::isNull() const {
  return value_->is_null();
}

Result<JsonRef> JsonRef::at(std::string_view dotted) const {
  JsonRef ref = *this;
  for (;;) {
    const std::size_t dot = dotted.find('.');
    RLX_TRY(ref, ref.member(dotted.substr(0, dot)));
    if (dot == dotted.npos) return ref;
    dotted.remove_prefix(dot + 1);
  }
}

Result<JsonRef> JsonRef::member(std::string_view key) const {
  if (value_->is_object()) {
    const auto& object = value_->get_ref<const Json::object_t&>();
    if (const auto it = object.find(std::string(key)); it != object.end())
      return JsonRef(it->second, childPath(path_, key));
  }
  return missing(*this, key);
}

bool JsonRef::has(std::string_view key) const {
  if (!value_->is_object()) return false;
  const auto& object = value_->get_ref<const Json::object_t&>();
  const auto it = object.find(std::string(key));
  return it != object.end() && !it->second.is_null();
}

Result<int64_t> JsonRef::asInt() const {
  if (value_->is_number_unsigned()) {
    const auto number = value_->get<uint64_t>();
    if (number <= static_cast<uint64_t>(INT64_MAX)) return static_cast<int64_t>(number);
  } else if (value_->is_number_integer()) {
    return value_->get<int64_t>();
  }
  return wrongType(*this, "a 64-bit integer");
}

Result<uint64_t> JsonRef::asUint() const {
  if (value_->is_number_unsigned()) return value_->get<uint64_t>();
  if (value_->is_number_integer() && value_->get<int64_t>() >= 0)
    return static_cast<uint64_t>(value_->get<int64_t>());
  return wrongType(*this, "a non-negative 64-bit integer");
}

Result<double> JsonRef::asDouble() const {
  if (value_->is_number()) return value_->get<double>();
  return wrongType(*this, "a number");
}

Result<bool> JsonRef::asBool() const {
  if (value_->is_boolean()) return value_->get<bool>();
  return wrongType(*this, "true or false");
}

Result<std::string_view> JsonRef::asString() const {
  if (value_->is_string()) return std::string_view(value_->get_ref<const std::string&>());
  return wrongType(*this, "a string");
}

Result<std::vector<int64_t>> JsonRef::asInts() const {
  RLX_TRY(const auto list, elements());
  std::vector<int64_t> out;
  for (const JsonRef& element : list) {
    RLX_TRY(const int64_t number, element.asInt());
    out.push_back(number);
  }
  return out;
}

Result<std::vector<std::string>> JsonRef::asStrings() const {
  RLX_TRY(const auto list, elements());
  std::vector<std::string> out;
  for (const JsonRef& element : list) {
    RLX_TRY(const std::string_view text, element.asString());
    out.emplace_back(text);
  }
  return out;
}

Result<std::vector<JsonRef>> JsonRef::elements() const {
  if (!value_->is_array()) return wrongType(*this, "an array");
  std::vector<JsonRef> out;
  for (const Json& element : *value_)
    out.emplace_back(element, path_ + "[" + std::to_string(out.size()) + "]");
  return out;
}

Result<std::vector<JsonMember>> JsonRef::members() const {
  if (!value_->is_object()) return wrongType(*this, "an object");
  std::vector<JsonMember> out;
  for (const auto& [key, value] : value_->get_ref<const Json::object_t&>())
    out.push_back({key, JsonRef(value, childPath(path_, key))});
  return out;
}

Result<int64_t> JsonRef::intOr(std::string_view key, int64_t fallback) const {
  if (!has(key)) return fallback;
  RLX_TRY(const JsonRef value, member(key));
  return value.asInt();
}
Result<double> JsonRef::doubleOr(std::string_view key, double fallback) const {
  if (!has(key)) return fallback;
  RLX_TRY(const JsonRef value, member(key));
  return value.asDouble();
}
Result<bool> JsonRef::boolOr(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  RLX_TRY(const JsonRef value, member(key));
  return value.asBool();
}
Result<std::string> JsonRef::stringOr(std::string_view key, std::string_view fallback) const {
  if (!has(key)) return std::string(fallback);
  RLX_TRY(const JsonRef value, member(key));
  RLX_TRY(const std::string_view text, value.asString());
  return std::string(text);
}

Result<JsonDocument> parseJson(std::string_view text, JsonBudget budget) {
  if (text.size() > budget.maxBytes)
    return Error(Errc::FileBudget, "JSON text of " + std::to_string(text.size()) +
                                       " bytes, the limit is " + std::to_string(budget.maxBytes));
  // The library throws only for want of memory here: syntax errors come as events.
  try {
    auto tree = std::make_shared<Json>();
    Builder builder(*tree, budget.maxDepth);
    const bool parsed = Json::sax_parse(text.begin(), text.end(), &builder);
    if (builder.failed()) return builder.takeError();
    if (!parsed) return Error(Errc::BadFile, "not JSON");
    return JsonDocument(std::move(tree));
  } catch (const std::bad_alloc&) {
    return Error(Errc::OutOfMemory,
                 "no memory for a JSON text of " + std::to_string(text.size()) + " bytes");
  } catch (const std::exception& error) {
    return Error(Errc::BadFile, error.what());
  }
}

Result<JsonDocument> readJson(const std::string& path, JsonBudget budget) {
  RLX_TRY(const std::string text, readFile(path, budget.maxBytes));
  auto document = parseJson(text, budget);
  if (!document) return std::move(document).error().note("while reading '" + path + "'");
  return document;
}

std::string quoteJson(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      const int length = utf8Length(text.substr(i));
      out += length == 0 ? std::string_view("\xef\xbf\xbd")
                         : text.substr(i, static_cast<std::size_t>(length));
      i += length == 0 ? 1 : static_cast<std::size_t>(length);
      continue;
    }
    ++i;
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (c < 0x20 || c == 0x7f) {
          out += "\\u00";
          out += kHex[c >> 4];
          out += kHex[c & 15];
        } else {
          out += static_cast<char>(c);
        }
    }
  }
  return out + '"';
}

}  // namespace rlx
