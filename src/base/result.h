// Result<T>: a value, or an Error that says what failed, where, and under which operation.
// It stands alone so that every layer, the C ABI and the Python classes share one error type.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rlx {

// std::source_location is missing in clang 14 with libstdc++ 12; both compilers have the builtins.
struct SourceLoc {
  const char* file = "";
  int line = 0;
  static constexpr SourceLoc here(const char* f = __builtin_FILE(), int l = __builtin_LINE()) {
    return {f, l};
  }
};

enum class Errc : uint16_t {
#define RLX_ERROR(Id, number, exit, title, text) Id = number,
#include "base/errors.def"
#undef RLX_ERROR
};

struct ErrcInfo {
  Errc code;
  std::string_view name;
  int exitCode;
  std::string_view title;
  std::string_view text;
};
// The record of a code. Every enumerator has one.
const ErrcInfo& info(Errc code);
// The record of "E0412" or "0412" or "412", or null when there is no such code.
const ErrcInfo* findErrc(std::string_view spelling);
// "E0412".
std::string spelling(Errc code);

// One pointer wide; the payload exists only on failure.
class [[nodiscard]] Error {
 public:
  explicit Error(Errc code, std::string message, SourceLoc at = SourceLoc::here())
      : body_(std::make_unique<Body>(Body{code, std::move(message), at, {}, {}, {}})) {}
  // Adds an outer frame: what was being done. Innermost first.
  Error&& note(std::string text) && {
    body_->notes.push_back(std::move(text));
    return std::move(*this);
  }
  // What the user can do about it.
  Error&& hint(std::string text) && {
    body_->hint = std::move(text);
    return std::move(*this);
  }
  // The model node the error belongs to.
  Error&& node(std::string name) && {
    body_->node = std::move(name);
    return std::move(*this);
  }
  Errc code() const { return body_->code; }
  const std::string& message() const { return body_->message; }
  const std::vector<std::string>& notes() const { return body_->notes; }
  const std::string& hint() const { return body_->hint; }
  const std::string& node() const { return body_->node; }
  SourceLoc where() const { return body_->at; }
  // "error E0301: matmul: inner dimensions differ, 128 against 64\n  note: ...\n  hint: ...".
  std::string text() const;
  // A deep copy; errors are otherwise move-only.
  Error clone() const;

 private:
  struct Body {
    Errc code;
    std::string message;
    SourceLoc at;
    std::vector<std::string> notes;
    std::string hint;
    std::string node;
  };
  std::unique_ptr<Body> body_;
};

// Called by RLX_CHECK and RLX_UNREACHABLE; the default prints one line to stderr and aborts.
using CheckHandler = void (*)(const char* condition, const char* message, SourceLoc at);
CheckHandler setCheckHandler(CheckHandler handler);
[[noreturn]] void checkFailed(const char* condition, const char* message,
                              SourceLoc at = SourceLoc::here());

// What only our own bug can cause. On in every build.
#define RLX_CHECK(cond, message) \
  (static_cast<bool>(cond) ? static_cast<void>(0) : ::rlx::checkFailed(#cond, message))
#define RLX_UNREACHABLE(message) ::rlx::checkFailed("unreachable", message)

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return check(), *std::get_if<0>(&state_); }
  const T& operator*() const& { return check(), *std::get_if<0>(&state_); }
  T&& operator*() && { return check(), std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return check(), std::get_if<0>(&state_); }
  const T* operator->() const { return check(), std::get_if<0>(&state_); }
  Error&& error() && { return std::move(*std::get_if<1>(&state_)); }
  const Error& error() const& { return *std::get_if<1>(&state_); }

 private:
  void check() const { RLX_CHECK(state_.index() == 0, "value of a failed Result"); }
  std::variant<T, Error> state_;
};

// Success without a value.
struct Ok {};
using Status = Result<Ok>;

}  // namespace rlx

// RLX_TRY(auto plan, makePlan(graph)); binds the value or returns the error. Two statements: no
// braceless if. RLX_OK(verify(graph)); does so for a Status.
#define RLX_TRY(decl, expr) RLX_TRY_(decl, expr, RLX_CAT(rlxTry_, __LINE__))
#define RLX_TRY_(decl, expr, tmp)          \
  auto tmp = (expr);                       \
  if (!tmp) return std::move(tmp).error(); \
  decl = *std::move(tmp)
#define RLX_OK(expr) RLX_OK_(expr, RLX_CAT(rlxOk_, __LINE__))
#define RLX_OK_(expr, tmp) \
  if (auto tmp = (expr); !tmp) return std::move(tmp).error()
#define RLX_CAT(a, b) RLX_CAT_(a, b)
#define RLX_CAT_(a, b) a##b
