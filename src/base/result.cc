#include "base/result.h"

#include <cstdio>
#include <cstdlib>

namespace rlx {
namespace {

constexpr ErrcInfo kErrors[] = {
#define RLX_ERROR(Id, number, exit, title, text) {Errc::Id, #Id, exit, title, text},
#include "base/errors.def"
#undef RLX_ERROR
};

void printAndAbort(const char* condition, const char* message, SourceLoc at) {
  std::fprintf(stderr, "internal error: %s (%s) at %s:%d\n", message, condition, at.file, at.line);
  std::abort();
}

constinit CheckHandler checkHandler = &printAndAbort;

}  // namespace

const ErrcInfo& info(Errc code) {
  for (const ErrcInfo& e : kErrors)
    if (e.code == code) return e;
  RLX_UNREACHABLE("error code without a record");
}

const ErrcInfo* findErrc(std::string_view spelling) {
  if (!spelling.empty() && (spelling[0] == 'E' || spelling[0] == 'e')) spelling.remove_prefix(1);
  if (spelling.empty() || spelling.size() > 4) return nullptr;
  unsigned number = 0;
  for (char c : spelling) {
    if (c < '0' || c > '9') return nullptr;
    number = number * 10 + static_cast<unsigned>(c - '0');
  }
  for (const ErrcInfo& e : kErrors)
    if (static_cast<unsigned>(e.code) == number) return &e;
  return nullptr;
}

std::string spelling(Errc code) {
  std::string digits = std::to_string(static_cast<unsigned>(code));
  return "E" + std::string(4 - digits.size(), '0') + digits;
}

std::string Error::text() const {
  std::string out = "error " + spelling(code()) + ": " + message();
  if (!node().empty()) out += " [node " + node() + "]";
  for (const std::string& n : notes()) out += "\n  note: " + n;
  if (!hint().empty()) out += "\n  hint: " + hint();
  return out;
}

Error Error::clone() const {
  Error copy(code(), message(), where());
  *copy.body_ = *body_;
  return copy;
}

CheckHandler setCheckHandler(CheckHandler handler) {
  return std::exchange(checkHandler, handler ? handler : &printAndAbort);
}

void checkFailed(const char* condition, const char* message, SourceLoc at) {
  checkHandler(condition, message, at);
  std::abort();
}

}  // namespace rlx
