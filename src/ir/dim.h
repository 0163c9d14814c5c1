// Symbolic extents: a Dim is an integer polynomial over named symbols ("batch", "2*seq + 1"), with
// floor division, modulo, max and min as further atoms. Dims are kept in one normal form, so that
// equal polynomials compare equal; without it, shape rules would refuse models whose shapes are
// right.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace rlx {

// Values of symbols, sorted by name.
class Bindings {
 public:
  void set(std::string_view symbol, int64_t value);
  const int64_t* find(std::string_view symbol) const;
  const std::vector<std::pair<std::string, int64_t>>& entries() const { return entries_; }
  bool operator==(const Bindings&) const = default;

 private:
  std::vector<std::pair<std::string, int64_t>> entries_;
};

class Dim {
 public:
  Dim(int64_t value = 0) : value_(value) {}
  // An unknown extent >= 0. The name is an identifier.
  static Dim symbol(std::string_view name);
  bool isConst() const { return !poly_; }
  // Requires isConst().
  int64_t value() const;
  bool is(int64_t v) const { return isConst() && value_ == v; }
  // Non-empty exactly when the dim is one bare symbol.
  std::string_view symbolName() const;
  // The arithmetic left 64 bits, or made too large a polynomial. Such a dim equals nothing, not even
  // itself, and does not evaluate.
  bool overflows() const;
  // "2*seq + 1"; parseDim reads it back.
  std::string text() const;
  // Names of all symbols in it, sorted and unique, added to `out`.
  void symbols(std::vector<std::string>& out) const;
  // The value under bindings; InvalidArgument when a symbol has none, or on overflow or division by
  // 0.
  Result<int64_t> evaluate(const Bindings& bindings) const;
  // The dim with symbols replaced by dims; unnamed ones stay.
  Dim substitute(const std::vector<std::pair<std::string, Dim>>& with) const;
  bool operator==(const Dim& o) const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim floorDiv(const Dim& a, const Dim& b);
  friend Dim mod(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);
  friend Dim min(const Dim& a, const Dim& b);

  struct Atom;
  struct Term;
  struct Poly;

 private:
  static Dim fromTerms(std::vector<Term> terms);
  static Dim overflow();
  static Dim atom(std::shared_ptr<const Atom> a);
  static std::vector<Term> terms(const Dim& d);
  friend bool divideExactly(const Dim& a, const Dim& b, Dim* quotient);
  int64_t value_ = 0;
  std::shared_ptr<const Poly> poly_;
};

inline Dim ceilDiv(const Dim& a, const Dim& b) {
  return floorDiv(a + b - Dim(1), b);
}
// True and *quotient set when b divides a as polynomials.
bool divideExactly(const Dim& a, const Dim& b, Dim* quotient);
Result<Dim> parseDim(std::string_view text);

using Shape = std::vector<Dim>;
// Product of the extents; 1 for rank 0.
Dim elements(const Shape& shape);
// "[batch, seq, 384]".
std::string text(const Shape& shape);

}  // namespace rlx
