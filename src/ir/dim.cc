#include "ir/dim.h"

#include <algorithm>
#include <charconv>

namespace rlx {

// One factor: a symbol, or an operation that polynomials do not have.
struct Dim::Atom {
  enum Kind : uint8_t { Symbol, FloorDiv, Mod, Max, Min, Overflow } kind = Symbol;
  std::string key;  // printed form; the canonical order
  Dim a, b;
};
// coeff * product of factors; factors sorted by key.
struct Dim::Term {
  int64_t coeff = 0;
  std::vector<std::shared_ptr<const Atom>> factors;
  std::string key;
};
struct Dim::Poly {
  std::vector<Term> terms;  // sorted by key, non-zero, not just a constant
  std::string text;
  bool overflow = false;
};

namespace {

// Larger polynomials count as overflow: files could otherwise make them grow without bound.
constexpr std::size_t kMaxTerms = 1024, kMaxFactors = 32, kMaxText = std::size_t{1} << 14;

std::string productKey(const std::vector<std::shared_ptr<const Dim::Atom>>& factors) {
  std::string key;
  for (const auto& f : factors) key += (key.empty() ? "" : "*") + f->key;
  return key;
}

// Requires b != 0, and not INT64_MIN / -1.
int64_t floorDivide(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

}  // namespace

void Bindings::set(std::string_view symbol, int64_t value) {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), symbol,
                                   [](const auto& e, std::string_view s) { return e.first < s; });
  if (at != entries_.end() && at->first == symbol)
    at->second = value;
  else
    entries_.insert(at, {std::string(symbol), value});
}

const int64_t* Bindings::find(std::string_view symbol) const {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), symbol,
                                   [](const auto& e, std::string_view s) { return e.first < s; });
  return at != entries_.end() && at->first == symbol ? &at->second : nullptr;
}

int64_t Dim::value() const {
  RLX_CHECK(isConst(), "value of a symbolic dim");
  return value_;
}

bool Dim::operator==(const Dim& o) const {
  if (isConst() || o.isConst()) return isConst() && o.isConst() && value_ == o.value_;
  if (overflows() || o.overflows()) return false;
  return poly_ == o.poly_ || poly_->text == o.poly_->text;
}

bool Dim::overflows() const {
  return poly_ && poly_->overflow;
}

Dim Dim::overflow() {
  auto a = std::make_shared<Atom>();
  a->kind = Atom::Overflow;
  a->key = "overflow()";
  auto poly = std::make_shared<Poly>();
  poly->text = a->key;
  poly->terms.push_back(Term{1, {std::move(a)}, "overflow()"});
  poly->overflow = true;
  Dim d;
  d.poly_ = std::move(poly);
  return d;
}

std::vector<Dim::Term> Dim::terms(const Dim& d) {
  if (d.poly_) return d.poly_->terms;
  if (d.value_ == 0) return {};
  return {Term{d.value_, {}, ""}};
}

Dim Dim::fromTerms(std::vector<Term> in) {
  std::stable_sort(in.begin(), in.end(),
                   [](const Term& x, const Term& y) { return x.key < y.key; });
  std::vector<Term> out;
  for (Term& t : in) {
    if (t.coeff == INT64_MIN) return overflow();
    if (out.empty() || out.back().key != t.key)
      out.push_back(std::move(t));
    else if (__builtin_add_overflow(out.back().coeff, t.coeff, &out.back().coeff) ||
             out.back().coeff == INT64_MIN)
      return overflow();
    if (out.back().coeff == 0) out.pop_back();
  }
  if (out.empty()) return Dim(0);
  if (out.size() > kMaxTerms) return overflow();
  if (out.size() == 1 && out[0].factors.empty()) return Dim(out[0].coeff);
  auto poly = std::make_shared<Poly>();
  std::string text;
  // Symbols first, the constant (which sorts first) last: "2*seq + 1".
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Term& t = out[(i + (out[0].factors.empty() ? 1 : 0)) % out.size()];
    const int64_t magnitude = t.coeff < 0 ? -t.coeff : t.coeff;
    text += text.empty() ? (t.coeff < 0 ? "-" : "") : (t.coeff < 0 ? " - " : " + ");
    if (t.factors.empty() || magnitude != 1) text += std::to_string(magnitude);
    if (!t.factors.empty()) text += (magnitude != 1 ? "*" : "") + t.key;
    if (text.size() > kMaxText) return overflow();
  }
  poly->terms = std::move(out);
  poly->text = std::move(text);
  Dim d;
  d.poly_ = std::move(poly);
  return d;
}

Dim Dim::atom(std::shared_ptr<const Atom> a) {
  std::string key = a->key;
  return fromTerms({Term{1, {std::move(a)}, std::move(key)}});
}

Dim Dim::symbol(std::string_view name) {
  auto a = std::make_shared<Atom>();
  a->key = std::string(name);
  return atom(std::move(a));
}

std::string_view Dim::symbolName() const {
  if (!poly_ || poly_->terms.size() != 1) return {};
  const Term& t = poly_->terms[0];
  if (t.coeff != 1 || t.factors.size() != 1 || t.factors[0]->kind != Atom::Symbol) return {};
  return t.factors[0]->key;
}

std::string Dim::text() const {
  return poly_ ? poly_->text : std::to_string(value_);
}

void Dim::symbols(std::vector<std::string>& out) const {
  if (!poly_) return;
  for (const Term& t : poly_->terms)
    for (const auto& f : t.factors) {
      if (f->kind == Atom::Overflow) continue;
      if (f->kind != Atom::Symbol) {
        f->a.symbols(out), f->b.symbols(out);
      } else if (const auto at = std::lower_bound(out.begin(), out.end(), f->key);
                 at == out.end() || *at != f->key) {
        out.insert(at, f->key);
      }
    }
}

Result<int64_t> Dim::evaluate(const Bindings& bindings) const {
  if (!poly_) return value_;
  if (overflows()) return Error(Errc::InvalidArgument, "a dim overflows 64 bits");
  int64_t sum = 0;
  for (const Term& t : poly_->terms) {
    int64_t product = t.coeff;
    for (const auto& f : t.factors) {
      int64_t v = 0;
      if (f->kind == Atom::Symbol) {
        const int64_t* p = bindings.find(f->key);
        if (!p) return Error(Errc::InvalidArgument, "symbol '" + f->key + "' has no value");
        v = *p;
      } else {
        RLX_TRY(const int64_t a, f->a.evaluate(bindings));
        RLX_TRY(const int64_t b, f->b.evaluate(bindings));
        const bool divides = f->kind == Atom::FloorDiv || f->kind == Atom::Mod;
        if (divides && b == 0)
          return Error(Errc::InvalidArgument, "division by zero in dim '" + text() + "'");
        if (divides && a == INT64_MIN && b == -1)
          return Error(Errc::InvalidArgument, "dim '" + text() + "' overflows");
        v = f->kind == Atom::FloorDiv ? floorDivide(a, b)
            : f->kind == Atom::Mod    ? a - floorDivide(a, b) * b
            : f->kind == Atom::Max    ? std::max(a, b)
                                      : std::min(a, b);
      }
      if (__builtin_mul_overflow(product, v, &product))
        return Error(Errc::InvalidArgument, "dim '" + text() + "' overflows");
    }
    if (__builtin_add_overflow(sum, product, &sum))
      return Error(Errc::InvalidArgument, "dim '" + text() + "' overflows");
  }
  return sum;
}

Dim Dim::substitute(const std::vector<std::pair<std::string, Dim>>& with) const {
  if (!poly_ || overflows()) return *this;
  Dim sum(0);
  for (const Term& t : poly_->terms) {
    Dim product(t.coeff);
    for (const auto& f : t.factors) {
      Dim v;
      switch (f->kind) {
        case Atom::Symbol: {
          v = symbol(f->key);
          for (const auto& [from, to] : with)
            if (from == f->key) v = to;
          break;
        }
        case Atom::FloorDiv: v = floorDiv(f->a.substitute(with), f->b.substitute(with)); break;
        case Atom::Mod: v = mod(f->a.substitute(with), f->b.substitute(with)); break;
        case Atom::Max: v = max(f->a.substitute(with), f->b.substitute(with)); break;
        case Atom::Min: v = min(f->a.substitute(with), f->b.substitute(with)); break;
        case Atom::Overflow: v = overflow(); break;
      }
      product = product * v;
    }
    sum = sum + product;
  }
  return sum;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.overflows() || b.overflows()) return Dim::overflow();
  if (int64_t sum = 0; a.isConst() && b.isConst())
    return __builtin_add_overflow(a.value_, b.value_, &sum) ? Dim::overflow() : Dim(sum);
  std::vector<Dim::Term> t = Dim::terms(a);
  for (Dim::Term& x : Dim::terms(b)) t.push_back(std::move(x));
  return Dim::fromTerms(std::move(t));
}

Dim operator-(const Dim& a, const Dim& b) {
  return a + Dim(-1) * b;
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.overflows() || b.overflows()) return Dim::overflow();
  if (int64_t product = 0; a.isConst() && b.isConst())
    return __builtin_mul_overflow(a.value_, b.value_, &product) ? Dim::overflow() : Dim(product);
  std::vector<Dim::Term> out;
  const std::vector<Dim::Term> left = Dim::terms(a), right = Dim::terms(b);
  if (left.size() * right.size() > kMaxTerms) return Dim::overflow();
  for (const Dim::Term& x : left)
    for (const Dim::Term& y : right) {
      Dim::Term t{0, x.factors, ""};
      if (__builtin_mul_overflow(x.coeff, y.coeff, &t.coeff) ||
          x.factors.size() + y.factors.size() > kMaxFactors)
        return Dim::overflow();
      t.factors.insert(t.factors.end(), y.factors.begin(), y.factors.end());
      std::stable_sort(t.factors.begin(), t.factors.end(),
                       [](const auto& p, const auto& q) { return p->key < q->key; });
      t.key = productKey(t.factors);
      out.push_back(std::move(t));
    }
  return Dim::fromTerms(std::move(out));
}

bool divideExactly(const Dim& a, const Dim& b, Dim* quotient) {
  if (a.overflows() || b.overflows() || a.is(INT64_MIN) || b.is(INT64_MIN)) return false;
  if (a == b) return *quotient = Dim(1), true;
  if (b.isConst() && b.value_ == 0) return false;
  if (a.isConst() && a.value_ == 0) return *quotient = Dim(0), true;
  const std::vector<Dim::Term> divisor = Dim::terms(b);
  if (divisor.size() != 1) {  // c * b for a constant c, or not at all
    const std::vector<Dim::Term> top = Dim::terms(a);
    if (top.empty() || divisor[0].coeff == 0 || top[0].coeff % divisor[0].coeff != 0) return false;
    const Dim c(top[0].coeff / divisor[0].coeff);
    if (!(c * b == a)) return false;
    return *quotient = c, true;
  }
  std::vector<Dim::Term> out;
  for (Dim::Term t : Dim::terms(a)) {
    if (t.coeff % divisor[0].coeff != 0) return false;
    t.coeff /= divisor[0].coeff;
    for (const auto& f : divisor[0].factors) {
      const auto at = std::find_if(t.factors.begin(), t.factors.end(),
                                   [&](const auto& g) { return g->key == f->key; });
      if (at == t.factors.end()) return false;
      t.factors.erase(at);
    }
    t.key = productKey(t.factors);
    out.push_back(std::move(t));
  }
  return *quotient = Dim::fromTerms(std::move(out)), true;
}

static std::shared_ptr<Dim::Atom> binaryAtom(Dim::Atom::Kind kind, const char* spelled,
                                             const Dim& a, const Dim& b) {
  auto x = std::make_shared<Dim::Atom>();
  x->kind = kind;
  x->a = a, x->b = b;
  x->key = std::string(spelled) + "(" + a.text() + ", " + b.text() + ")";
  return x;
}

Dim floorDiv(const Dim& a, const Dim& b) {
  if (a.overflows() || b.overflows()) return Dim::overflow();
  if (b.is(-1)) return Dim(-1) * a;
  if (a.isConst() && b.isConst() && b.value_ != 0) return Dim(floorDivide(a.value_, b.value_));
  if (Dim q; divideExactly(a, b, &q)) return q;
  if (b.isConst() && b.value_ > 0) {  // (b*x + r) / b = x + r / b
    std::vector<Dim::Term> whole, rest;
    for (Dim::Term& t : Dim::terms(a)) {
      if (t.coeff % b.value_ == 0)
        t.coeff /= b.value_, whole.push_back(std::move(t));
      else
        rest.push_back(std::move(t));
    }
    if (!whole.empty())
      return Dim::fromTerms(std::move(whole)) + floorDiv(Dim::fromTerms(std::move(rest)), b);
  }
  return Dim::atom(binaryAtom(Dim::Atom::FloorDiv, "floordiv", a, b));
}

Dim mod(const Dim& a, const Dim& b) {
  if (a.overflows() || b.overflows()) return Dim::overflow();
  if (b.is(-1)) return Dim(0);
  if (a.isConst() && b.isConst() && b.value_ != 0)
    return Dim(a.value_ - floorDivide(a.value_, b.value_) * b.value_);
  if (Dim q; divideExactly(a, b, &q)) return Dim(0);
  return Dim::atom(binaryAtom(Dim::Atom::Mod, "mod", a, b));
}

Dim max(const Dim& a, const Dim& b) {
  if (a.overflows() || b.overflows()) return Dim::overflow();
  const Dim d = a - b;
  if (d.overflows()) return d;
  if (d.isConst()) return d.value_ >= 0 ? a : b;
  return Dim::atom(binaryAtom(Dim::Atom::Max, "max", a, b));
}

Dim min(const Dim& a, const Dim& b) {
  if (a.overflows() || b.overflows()) return Dim::overflow();
  const Dim d = a - b;
  if (d.overflows()) return d;
  if (d.isConst()) return d.value_ <= 0 ? a : b;
  return Dim::atom(binaryAtom(Dim::Atom::Min, "min", a, b));
}

namespace {

// Grammar: sum = ["-"] product {("+"|"-") product}; product = primary {"*" primary};
// primary = integer | name | name "(" sum "," sum ")" | "(" sum ")".
struct DimParser {
  std::string_view text;
  std::size_t at = 0;
  int depth = 0;

  void blanks() {
    while (at < text.size() && text[at] == ' ') ++at;
  }
  bool eat(char c) {
    blanks();
    if (at >= text.size() || text[at] != c) return false;
    return ++at, true;
  }
  Error fail(const char* expected) const {
    return Error(Errc::BadText, "dim '" + std::string(text) + "': expected " + expected +
                                    " at column " + std::to_string(at + 1));
  }
  Result<Dim> sum() {
    if (++depth > 64) return Error(Errc::BadText, "dim nested deeper than 64");
    const bool negative = eat('-');
    RLX_TRY(Dim d, product());
    if (negative) d = Dim(0) - d;
    for (;;) {
      if (eat('+')) {
        RLX_TRY(const Dim r, product());
        d = d + r;
      } else if (eat('-')) {
        RLX_TRY(const Dim r, product());
        d = d - r;
      } else {
        return --depth, d;
      }
    }
  }
  Result<Dim> product() {
    RLX_TRY(Dim d, primary());
    while (eat('*')) {
      RLX_TRY(const Dim r, primary());
      d = d * r;
    }
    return d;
  }
  Result<Dim> primary() {
    blanks();
    if (eat('(')) {
      RLX_TRY(Dim d, sum());
      if (!eat(')')) return fail("')'");
      return d;
    }
    if (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      int64_t v = 0;
      const auto [p, e] = std::from_chars(text.data() + at, text.data() + text.size(), v);
      if (e != std::errc{}) return fail("an integer below 2^63");
      at = static_cast<std::size_t>(p - text.data());
      return Dim(v);
    }
    const std::size_t start = at;
    auto isName = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '.' || c == ':' || c == '/';
    };
    while (at < text.size() && isName(text[at])) ++at;
    if (at == start) return fail("a number or a symbol");
    const std::string_view name = text.substr(start, at - start);
    if (!eat('(')) return Dim::symbol(name);
    RLX_TRY(const Dim a, sum());
    if (!eat(',')) return fail("','");
    RLX_TRY(const Dim b, sum());
    if (!eat(')')) return fail("')'");
    if (name == "floordiv") return floorDiv(a, b);
    if (name == "mod") return mod(a, b);
    if (name == "max") return max(a, b);
    if (name == "min") return min(a, b);
    return fail("floordiv, mod, max or min");
  }
};

}  // namespace

Result<Dim> parseDim(std::string_view text) {
  if (text.size() > 4096) return Error(Errc::FileBudget, "a dim is longer than 4096 characters");
  DimParser p{text};
  RLX_TRY(Dim d, p.sum());
  p.blanks();
  if (p.at != text.size()) return p.fail("the end");
  if (d.overflows()) return p.fail("a polynomial of 64-bit coefficients and at most 1024 terms");
  return d;
}

Dim elements(const Shape& shape) {
  Dim n(1);
  for (const Dim& d : shape) n = n * d;
  return n;
}

std::string text(const Shape& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? "," : "") + shape[i].text();
  return out + "]";
}

}  // namespace rlx
