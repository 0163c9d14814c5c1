// The one printer. It knows no language: all spelling comes from the record.
#include <bit>
#include <charconv>
#include <cmath>

#include "dialect/dialect.h"
#include "kir/number.h"

namespace rlx {
namespace {

using kir::Expr;
using kir::ExprKind;
using kir::ExprNode;
using kir::Kernel;
using kir::Space;
using kir::Stmt;
using kir::StmtKind;

bool isWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Replaces $words. A word ends where `get` knows no longer one: single letters and digits are
// words.
template <class Get>
void fill(std::string& out, std::string_view text, Get&& get) {
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '$') {
      out += text[i++];
      continue;
    }
    std::size_t end = i + 1;
    while (end < text.size() && isWord(text[end])) ++end;
    while (end > i + 1 && !get(text.substr(i + 1, end - i - 1))) --end;
    RLX_CHECK(end > i + 1, "a dialect template has an unknown word");
    i = end;
  }
}

// Words to texts, for templates whose parts are strings.
struct Words {
  std::initializer_list<std::pair<std::string_view, std::string_view>> list;
};
std::string filled(std::string_view text, Words words) {
  std::string out;
  fill(out, text, [&](std::string_view w) {
    for (const auto& [key, value] : words.list)
      if (key == w) return out += value, true;
    return false;
  });
  return out;
}

std::string sanitized(std::string_view name) {
  std::string out;
  for (char c : name)
    if (isWord(c) || (c == '_' && !out.empty() && out.back() != '_')) out += c;
  if (out.empty() || (out[0] >= '0' && out[0] <= '9') || out.starts_with("gl")) out = "k" + out;
  if (out.back() == '_') out.pop_back();
  return out;
}

class Printer {
 public:
  Printer(const Kernel& k, const Dialect& d) : k_(k), d_(d) {
    for (std::size_t i = 0; i < k.vars.size(); ++i)
      vars_.push_back(sanitized(k.vars[i].name) + "_" + std::to_string(i));
    for (std::size_t i = 0; i < k.buffers.size(); ++i)
      buffers_.push_back(sanitized(k.buffers[i].name) + "_b" + std::to_string(i));
    for (std::size_t i = 0; i < k.params.size(); ++i) {
      params_.push_back(sanitized(k.params[i]) + "_p" + std::to_string(i));
      uses_.push_back(filled(d.paramUse, {{{"n", params_[i]}, {"i", std::to_string(i)}}}));
    }
  }

  Result<std::string> run() {
    mutable_.assign(k_.vars.size(), false);
    block(k_.body, d_.indent);
    const std::string body = std::move(out_);
    const std::string args = arguments();
    const std::string shared = arrays(Space::Shared), local = arrays(Space::Local);
    if (!missing_.empty())
      return Error(Errc::Unsupported, "kernel " + k_.name + ": dialect " + std::string(d_.name) +
                                          " has no spelling for " + missing_);
    std::string features;
    for (std::size_t t = 0; t < kDTypeCount; ++t)
      if (used_ & bit(static_cast<DType>(t))) features += d_.features[t];
    const int64_t lanes = int64_t{1} * k_.block[0] * k_.block[1] * k_.block[2];
    return filled(d_.frame, {{{"features", features},
                              {"helpers", helpers(body)},
                              {"args", args},
                              {"shared", shared},
                              {"local", local},
                              {"name", entryPoint(k_)},
                              {"x", std::to_string(k_.block[0])},
                              {"y", std::to_string(k_.block[1])},
                              {"z", std::to_string(k_.block[2])},
                              {"lanes", std::to_string(lanes)},
                              {"body", body}}});
  }

 private:
  std::string_view type(DType t) {
    used_ |= bit(t);
    const std::string_view text = d_.types[static_cast<std::size_t>(t)];
    if (text.empty()) miss("type " + std::string(name(t)));
    return text;
  }
  void miss(std::string what) {
    if (missing_.empty()) missing_ = std::move(what);
  }

  std::string arguments() {
    std::string out;
    std::size_t place = 0;
    auto add = [&](std::string_view text, const std::string& n, std::size_t i, DType t) {
      if (place++ && text.size()) out += d_.separator;
      out += filled(
          text,
          {{{"n", n}, {"i", std::to_string(i)}, {"k", std::to_string(place - 1)}, {"t", type(t)}}});
    };
    for (std::size_t i = 0; i < kir::globalCount(k_); ++i) {
      const kir::Access access = k_.buffers[i].access;
      add(access == kir::Access::Read    ? d_.readBuffer
          : access == kir::Access::Write ? d_.writeBuffer
                                         : d_.readWriteBuffer,
          buffers_[i], i, k_.buffers[i].type);
    }
    if (params_.empty()) return out;
    const std::string slot = std::to_string(place);
    out += filled(d_.paramsOpen, {{{"k", slot}}});
    if (!d_.paramsOpen.empty()) place = 0;
    for (std::size_t i = 0; i < params_.size(); ++i) add(d_.param, params_[i], i, DType::I32);
    out += filled(d_.paramsClose, {{{"k", slot}}});
    return out;
  }

  std::string arrays(Space space) {
    std::string out;
    for (std::size_t i = 0; i < k_.buffers.size(); ++i) {
      const kir::Buffer& b = k_.buffers[i];
      if (b.space != space) continue;
      out += filled(space == Space::Shared ? d_.shared : d_.local,
                    {{{"n", buffers_[i]}, {"t", type(b.type)}, {"c", std::to_string(b.elements)}}});
      out += "\n";
    }
    return out;
  }

  std::string helpers(const std::string& body) const {
    std::string out, text = body;
    for (std::size_t i = d_.helpers.size(); i-- > 0;) {
      const DialectHelper& h = d_.helpers[i];
      if (text.find(std::string(h.name) + "(") == std::string::npos) continue;
      out = std::string(h.text) + out;
      text += h.text;
    }
    return out;
  }

  void literal(DType t, std::string_view digits) {
    const std::string_view text = d_.literals[static_cast<std::size_t>(t)];
    used_ |= bit(t);
    if (!text.empty()) {
      fill(out_, text, [&](std::string_view w) { return w == "v" && (out_ += digits, true); });
      return;
    }
    // A type without literals of its own: a cast of the computing type's.
    const DType wide = computeType(t);
    if (wide == t) return miss("literals of type " + std::string(name(t)));
    const std::string_view as = type(t);
    fill(out_, d_.cast, [&](std::string_view w) {
      if (w == "t") return out_ += as, true;
      return w == "0" && (literal(wide, digits), true);
    });
  }

  void constant(const ExprNode& n) {
    if (n.type == DType::Bool) {
      out_ += n.ivalue ? "true" : "false";
      return;
    }
    if (!isFloat(n.type)) {
      const bool negative = isSigned(n.type) && n.ivalue < 0;
      const bool least = negative && kir::wrapBits(n.type, -scalar::Wide{n.ivalue}) ==
                                         static_cast<kir::Bits>(n.ivalue);
      const uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(n.ivalue) - (least ? 1 : 0)
                                          : static_cast<uint64_t>(n.ivalue);
      if (negative) out_ += "(-";
      literal(n.type, std::to_string(magnitude));
      if (least) {
        out_ += " - ";
        literal(n.type, "1");
      }
      if (negative) out_ += ")";
      return;
    }
    if (!std::isfinite(n.fvalue)) {
      const DType bits = n.type == DType::F64   ? DType::U64
                         : n.type == DType::F32 ? DType::U32
                                                : DType::U16;
      const double v = std::isnan(n.fvalue) ? std::nan("") : n.fvalue;
      bitcast(n.type, kir::integer(bits, static_cast<int64_t>(kir::fromDouble(n.type, v))));
      return;
    }
    char buffer[64];
    const double a = std::fabs(n.fvalue);
    const auto end = n.type == DType::F32
                         ? std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(a))
                         : std::to_chars(buffer, buffer + sizeof buffer, a);
    std::string digits(buffer, end.ptr);
    if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
    const bool negative = std::signbit(n.fvalue);
    if (negative) out_ += "(-";
    literal(n.type, digits);
    if (negative) out_ += ")";
  }

  void bitcast(DType to, const Expr& x) {
    used_ |= bit(to) | bit(x->type);
    for (const DialectBitcast& b : d_.bitcasts)
      if (b.to == to && b.from == x->type)
        return fill(out_, b.text, [&](std::string_view w) { return w == "0" && (expr(x), true); });
    miss("bitcast from " + std::string(name(x->type)) + " to " + std::string(name(to)));
  }

  void axis(std::string_view text, uint32_t id) {
    fill(out_, text, [&](std::string_view w) {
      if (w == "a") return out_ += "xyz"[id], true;
      return w == "d" && (out_ += static_cast<char>('0' + id), true);
    });
  }

  void expr(const Expr& e) {
    switch (e->kind) {
      case ExprKind::Const: return constant(*e);
      case ExprKind::Var: out_ += vars_[e->id]; return;
      case ExprKind::Param: out_ += uses_[e->id]; return;
      case ExprKind::GroupId: return axis(d_.groupId, e->id);
      case ExprKind::LocalId: return axis(d_.localId, e->id);
      case ExprKind::Load:
        used_ |= bit(e->type);
        return fill(out_, e->args[1] ? d_.loadIf : d_.load, [&](std::string_view w) {
          if (w == "n") return out_ += buffers_[e->id], true;
          if (w == "i") return expr(e->args[0]), true;
          if (w == "c") return expr(e->args[1]), true;
          return w == "e" && (expr(e->args[2]), true);
        });
      case ExprKind::Apply: return apply(e->op, operandType(*e), e->args);
      case ExprKind::Cast: {
        const std::string_view to = type(e->type);
        return fill(out_, d_.cast, [&](std::string_view w) {
          if (w == "t") return out_ += to, true;
          return w == "0" && (expr(e->args[0]), true);
        });
      }
      case ExprKind::Bitcast: return bitcast(e->type, e->args[0]);
    }
  }

  static DType operandType(const ExprNode& n) {
    return n.args[n.op == ScalarOp::Select ? 1 : 0]->type;
  }

  void apply(ScalarOp op, DType t, const std::array<Expr, 3>& args) {
    used_ |= bit(t);
    const std::string_view text = d_.table(t)[static_cast<std::size_t>(op)];
    if (text.empty()) return miss(std::string(info(op).name) + " on " + std::string(name(t)));
    fill(out_, text, [&](std::string_view w) {
      if (w == "s") return out_ += name(t), true;
      if (w.size() != 1 || w[0] < '0' || w[0] > '2') return false;
      return expr(args[static_cast<std::size_t>(w[0] - '0')]), true;
    });
  }

  void let(uint32_t var, const Expr& value, bool isMutable) {
    const DType t = k_.vars[var].type;
    const std::string_view as = type(t);
    const std::string_view forFloat = isMutable ? d_.floatMutableLet : d_.floatLet;
    const std::string_view plain = isMutable ? d_.mutableLet : d_.let;
    mutable_[var] = isMutable;
    fill(out_, isFloat(t) && !forFloat.empty() ? forFloat : plain, [&](std::string_view w) {
      if (w == "n") return out_ += vars_[var], true;
      if (w == "t") return out_ += as, true;
      return w == "e" && (expr(value), true);
    });
  }

  // Bounds are those at entry; text evaluates them at every turn.
  bool stable(const Expr& e) const {
    return e->kind == ExprKind::Const || e->kind == ExprKind::Param ||
           (e->kind == ExprKind::Var && !mutable_[e->id]);
  }

  void block(const std::vector<Stmt>& body, std::string_view outer) {
    const std::string pad(outer);
    for (const Stmt& s : body) stmt(s, pad);
  }

  void stmt(const Stmt& s, const std::string& pad) {
    out_ += pad;
    switch (s.kind) {
      case StmtKind::Let: let(s.var, s.value, false); break;
      case StmtKind::Mutable: let(s.var, s.value, true); break;
      case StmtKind::Assign:
        out_ += vars_[s.var] + " = ";
        expr(s.value);
        out_ += ";";
        break;
      case StmtKind::Accumulate: {
        ExprNode v;
        v.kind = ExprKind::Var;
        v.type = k_.vars[s.var].type;
        v.id = s.var;
        out_ += vars_[s.var] + " = ";
        apply(s.op, v.type, {Expr(std::make_shared<const ExprNode>(v)), s.value, Expr()});
        out_ += ";";
        break;
      }
      case StmtKind::Store:
        if (s.condition) {
          out_ += "if (";
          expr(s.condition);
          out_ += ") { ";
        }
        out_ += buffers_[s.buffer] + "[";
        expr(s.index);
        out_ += "] = ";
        expr(s.value);
        out_ += s.condition ? "; }" : ";";
        break;
      case StmtKind::For: return loop(s, pad);
      case StmtKind::If:
        out_ += "if (";
        expr(s.condition);
        out_ += ") {\n";
        block(s.body, pad + "  ");
        if (!s.otherwise.empty()) {
          out_ += pad + "} else {\n";
          block(s.otherwise, pad + "  ");
        }
        out_ += pad + "}";
        break;
      case StmtKind::Barrier: out_ += d_.barrier; break;
    }
    out_ += "\n";
  }

  void loop(const Stmt& s, const std::string& pad) {
    std::string end;
    if (!stable(s.hi)) {
      end = "end_" + std::to_string(s.var);
      const std::string_view as = type(DType::I32);
      fill(out_, d_.let, [&](std::string_view w) {
        if (w == "n") return out_ += end, true;
        if (w == "t") return out_ += as, true;
        return w == "e" && (expr(s.hi), true);
      });
      out_ += "\n" + pad;
    }
    if (s.loop == kir::LoopKind::Unroll && !d_.unroll.empty())
      out_ += std::string(d_.unroll) + "\n" + pad;
    fill(out_, d_.loop, [&](std::string_view w) {
      if (w == "n") return out_ += vars_[s.var], true;
      if (w == "lo") return expr(s.lo), true;
      if (w == "hi") return end.empty() ? expr(s.hi) : void(out_ += end), true;
      return w == "step" && (out_ += std::to_string(s.step), true);
    });
    out_ += "\n";
    block(s.body, pad + "  ");
    out_ += pad + "}\n";
  }

  const Kernel& k_;
  const Dialect& d_;
  std::vector<std::string> vars_, buffers_, params_, uses_;
  std::vector<bool> mutable_;
  uint32_t used_ = 0;
  std::string out_, missing_;
};

}  // namespace

Result<std::string> printKernel(const kir::Kernel& kernel, const Dialect& dialect) {
  return Printer(kernel, dialect).run();
}

}  // namespace rlx
