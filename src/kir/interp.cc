#include "kir/interp.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "kir/interp_ops.h"
#include "kir/verify.h"

namespace rlx::kir {
namespace {

// Register r of lane l is regs[r * lanes + l].
enum class Code : uint8_t { Op, Load, Cast, Recast, Copy, MaskedCopy };

struct Instr {
  Code code{};
  bool predicated = false;
  ScalarOp op{};
  DType type{};  // of the result; of the operands for Op
  DType from{};
  LaneFn fn = nullptr;
  uint32_t dst = 0, a = 0, b = 0, c = 0;  // registers, counted in lanes
  uint32_t buffer = 0;
};

struct Node {
  StmtKind kind{};
  uint32_t var = 0, value = 0, index = 0, condition = 0, lo = 0, hi = 0, buffer = 0;
  bool conditional = false;
  int64_t step = 1;
  std::vector<Instr> code;  // evaluated before the statement
  std::vector<Node> body, otherwise;
};

// Kernel to flat code. Constants, parameters and ids have registers of their own.
class Compiler {
 public:
  explicit Compiler(const Kernel& k) : next_(static_cast<uint32_t>(k.vars.size())) {
    for (uint32_t& r : ids) r = next_++;
    params = next_;
    next_ += static_cast<uint32_t>(k.params.size());
    body = block(k.body);
  }

  std::vector<Node> body;
  std::vector<std::pair<uint32_t, Bits>> constants;
  std::array<uint32_t, 6> ids{};  // group.0-2, local.0-2
  uint32_t params = 0;
  uint32_t registers() const { return next_; }

 private:
  std::vector<Node> block(const std::vector<Stmt>& stmts) {
    std::vector<Node> out;
    out.reserve(stmts.size());
    for (const Stmt& s : stmts) {
      Node n;
      n.kind = s.kind;
      n.var = s.var;
      n.buffer = s.buffer;
      n.step = s.step;
      values_.clear();
      code_ = &n.code;
      switch (s.kind) {
        case StmtKind::Let:
        case StmtKind::Mutable: into(s.var, s.value, Code::Copy); break;
        case StmtKind::Assign: into(s.var, s.value, Code::MaskedCopy); break;
        case StmtKind::Accumulate: {
          Instr i;
          i.op = s.op;
          i.type = s.value->type;
          i.a = s.var;
          i.b = i.c = expr(s.value);
          emit(i);
          copy(s.var, n.code.back().dst, Code::MaskedCopy);
          break;
        }
        case StmtKind::Store:
          if (s.condition) {
            n.conditional = true;
            n.condition = expr(s.condition);
            // The rest runs only where the condition holds: a statement of its own.
            Node inner;
            inner.kind = StmtKind::Store;
            inner.buffer = s.buffer;
            code_ = &inner.code;
            values_.clear();
            inner.index = expr(s.index);
            inner.value = expr(s.value);
            n.kind = StmtKind::If;
            n.body.push_back(std::move(inner));
            break;
          }
          n.index = expr(s.index);
          n.value = expr(s.value);
          break;
        case StmtKind::For:
          n.lo = expr(s.lo);
          n.hi = expr(s.hi);
          n.body = block(s.body);
          break;
        case StmtKind::If:
          n.condition = expr(s.condition);
          n.body = block(s.body);
          n.otherwise = block(s.otherwise);
          break;
        case StmtKind::Barrier: break;
      }
      out.push_back(std::move(n));
    }
    return out;
  }

  void emit(Instr i) {
    if (i.code == Code::Op) i.fn = laneFunction(i.op, i.type);
    i.dst = next_++;
    code_->push_back(i);
  }
  void copy(uint32_t dst, uint32_t src, Code code) {
    Instr i;
    i.code = code;
    i.dst = dst;
    i.a = src;
    code_->push_back(i);
  }
  void into(uint32_t var, const Expr& e, Code code) {
    const std::size_t before = code_->size();
    const uint32_t r = expr(e);
    if (code == Code::Copy && code_->size() > before && code_->back().dst == r)
      code_->back().dst = var;
    else
      copy(var, r, code);
  }

  uint32_t constant(Bits bits) {
    auto [at, fresh] = constants_.try_emplace(bits, next_);
    if (fresh) constants.emplace_back(next_++, bits);
    return at->second;
  }

  uint32_t expr(const Expr& e) {
    switch (e->kind) {
      case ExprKind::Const:
        return constant(isFloat(e->type) ? fromDouble(e->type, e->fvalue)
                                         : static_cast<Bits>(e->ivalue));
      case ExprKind::Var: return e->id;
      case ExprKind::Param: return params + e->id;
      case ExprKind::GroupId: return ids[e->id];
      case ExprKind::LocalId: return ids[3 + e->id];
      case ExprKind::Load:
      case ExprKind::Apply:
      case ExprKind::Cast:
      case ExprKind::Bitcast: break;
    }
    if (const auto at = values_.find(e.get()); at != values_.end()) return at->second;
    Instr i;
    i.type = e->type;
    std::array<uint32_t, 3> r{};
    for (std::size_t n = 0; n < 3; ++n) r[n] = e->args[n] ? expr(e->args[n]) : r[0];
    i.a = r[0], i.b = r[1], i.c = r[2];
    if (e->kind == ExprKind::Load) {
      i.code = Code::Load;
      i.buffer = e->id;
      i.predicated = static_cast<bool>(e->args[1]);
    } else if (e->kind == ExprKind::Apply) {
      i.op = e->op;
      i.type = e->args[e->op == ScalarOp::Select ? 1 : 0]->type;
    } else {
      i.code = e->kind == ExprKind::Cast ? Code::Cast : Code::Recast;
      i.from = e->args[0]->type;
    }
    emit(i);
    values_.emplace(e.get(), code_->back().dst);
    return code_->back().dst;
  }

  uint32_t next_;
  std::vector<Instr>* code_ = nullptr;
  std::unordered_map<const ExprNode*, uint32_t> values_;
  std::unordered_map<Bits, uint32_t> constants_;
};

// Who touched an element last. Epochs are barrier intervals, never reused; 0 is none.
struct Shadow {
  uint32_t writeEpoch = 0, writeLane = 0, readEpoch = 0, readLane = 0;
  uint32_t writeGroup = 0, readGroup = 0;
};
constexpr uint32_t kMany = UINT32_MAX;

struct Memory {
  std::byte* data = nullptr;
  int64_t elements = 0;
  int width = 0;
  std::size_t laneStride = 0;  // Local: bytes from one lane's array to the next
  Shadow* shadow = nullptr;
  bool global = false;
};

using Mask = std::vector<uint8_t>;

class Machine {
 public:
  Machine(const Kernel& k, const Compiler& code, InterpOptions options)
      : k_(k), code_(code), options_(options) {
    lanes_ = static_cast<std::size_t>(k.block[0]) * static_cast<std::size_t>(k.block[1]) *
             static_cast<std::size_t>(k.block[2]);
    regs_.resize(lanes_ * code.registers());
  }

  Status run(std::array<int64_t, 3> grid, std::span<const std::span<std::byte>> globals,
             std::span<const int32_t> params) {
    RLX_OK(memory(globals));
    for (const auto& [r, bits] : code_.constants) fill(r, bits);
    for (std::size_t i = 0; i < params.size(); ++i)
      fill(code_.params + static_cast<uint32_t>(i), wrapBits(DType::I32, params[i]));
    for (std::size_t l = 0; l < lanes_; ++l) {
      const auto bx = static_cast<std::size_t>(k_.block[0]);
      const auto by = static_cast<std::size_t>(k_.block[1]);
      lane(code_.ids[3])[l] = l % bx;
      lane(code_.ids[4])[l] = l / bx % by;
      lane(code_.ids[5])[l] = l / bx / by;
    }
    for (int64_t z = 0; z < grid[2]; ++z)
      for (int64_t y = 0; y < grid[1]; ++y)
        for (int64_t x = 0; x < grid[0]; ++x) {
          fill(code_.ids[0], static_cast<Bits>(x));
          fill(code_.ids[1], static_cast<Bits>(y));
          fill(code_.ids[2], static_cast<Bits>(z));
          group_ = {x, y, z};
          ++groupNumber_;
          ++epoch_;
          if (!own_.empty()) std::memset(own_.data(), 0xcd, own_.size());
          if (!block(code_.body, nullptr)) return std::move(*error_);
        }
    return Ok{};
  }

 private:
  Bits* lane(uint32_t r) { return regs_.data() + r * lanes_; }
  void fill(uint32_t r, Bits bits) { std::fill_n(lane(r), lanes_, bits); }

  Status memory(std::span<const std::span<std::byte>> globals) {
    std::size_t bytes = 0;
    auto size = [&](const Buffer& b) {
      const auto one = static_cast<std::size_t>(b.elements * rlx::bytes(b.type));
      return ((b.space == Space::Local ? one * lanes_ : one) + 15) / 16 * 16;
    };
    for (const Buffer& b : k_.buffers)
      if (b.space != Space::Global) bytes += size(b);
    own_.resize(bytes);
    bytes = 0;
    shadows_.resize(k_.buffers.size());
    for (std::size_t i = 0; i < k_.buffers.size(); ++i) {
      const Buffer& b = k_.buffers[i];
      Memory m;
      m.width = rlx::bytes(b.type);
      m.global = b.space == Space::Global;
      if (m.global) {
        m.data = globals[i].data();
        m.elements = static_cast<int64_t>(globals[i].size()) / m.width;
        if (b.elements && b.elements > m.elements)
          return Error(Errc::InvalidArgument, "buffer " + b.name + " is smaller than declared");
      } else {
        m.data = own_.data() + bytes;
        m.elements = b.elements;
        if (b.space == Space::Local) m.laneStride = static_cast<std::size_t>(b.elements * m.width);
        bytes += size(b);
      }
      if (options_.races && b.space != Space::Local) {
        // One shadow for buffers that are the same memory.
        for (std::size_t j = 0; j < i && m.global && !m.shadow; ++j)
          if (memory_[j].global && memory_[j].data == m.data && memory_[j].width == m.width &&
              memory_[j].elements >= m.elements)
            m.shadow = memory_[j].shadow;
        if (!m.shadow) {
          shadows_[i].resize(static_cast<std::size_t>(m.elements));
          m.shadow = shadows_[i].data();
        }
      }
      memory_.push_back(m);
    }
    return Ok{};
  }

  bool fail(Errc code, std::string what) {
    error_.emplace(code, "kernel " + k_.name + ": " + std::move(what) + " (group " +
                             std::to_string(group_[0]) + ", " + std::to_string(group_[1]) + ", " +
                             std::to_string(group_[2]) + ")");
    return false;
  }

  bool race(uint32_t buffer, int64_t at, const char* what) {
    return fail(Errc::CheckFailed,
                "race on " + k_.buffers[buffer].name + "[" + std::to_string(at) + "]: " + what);
  }

  bool touch(uint32_t buffer, int64_t at, std::size_t l, bool write) {
    Memory& m = memory_[buffer];
    if (at < 0 || at >= m.elements)
      return fail(Errc::IndexRange, std::string(write ? "store to " : "load from ") +
                                        k_.buffers[buffer].name + "[" + std::to_string(at) +
                                        "], which has " + std::to_string(m.elements) + " elements");
    if (!m.shadow) return true;
    Shadow& s = m.shadow[at];
    const auto me = static_cast<uint32_t>(l);
    if (m.global) {
      if (s.writeGroup && s.writeGroup != groupNumber_)
        return race(buffer, at, "another group wrote it");
      if (write && s.readGroup && s.readGroup != groupNumber_)
        return race(buffer, at, "another group read it");
      if (write)
        s.writeGroup = groupNumber_;
      else
        s.readGroup = s.readGroup && s.readGroup != groupNumber_ ? kMany : groupNumber_;
    }
    if (s.writeEpoch == epoch_ && s.writeLane != me)
      return race(buffer, at, "another lane wrote it since the last barrier");
    if (write && s.readEpoch == epoch_ && s.readLane != me)
      return race(buffer, at, "another lane read it since the last barrier");
    if (write) {
      s.writeEpoch = epoch_;
      s.writeLane = me;
    } else {
      s.readLane = s.readEpoch == epoch_ && s.readLane != me ? kMany : me;
      s.readEpoch = epoch_;
    }
    return true;
  }

  std::byte* address(const Memory& m, int64_t at, std::size_t l) {
    return m.data + l * m.laneStride + at * m.width;
  }

  bool load(const Instr& i, const Mask* mask) {
    const Memory& m = memory_[i.buffer];
    Bits* dst = lane(i.dst);
    const Bits* index = lane(i.a);
    const Bits* when = i.predicated ? lane(i.b) : nullptr;
    const Bits* other = lane(i.c);
    const bool extend = isSigned(i.type);
    const int shift = 64 - 8 * m.width;
    for (std::size_t l = 0; l < lanes_; ++l) {
      if (mask && !(*mask)[l]) continue;
      if (when && !when[l]) {
        dst[l] = other[l];
        continue;
      }
      const auto at = static_cast<int64_t>(index[l]);
      if (!touch(i.buffer, at, l, false)) return false;
      Bits v = 0;
      std::memcpy(&v, address(m, at, l), static_cast<std::size_t>(m.width));
      if (extend) v = static_cast<Bits>(static_cast<int64_t>(v << shift) >> shift);
      dst[l] = v;
    }
    return true;
  }

  bool store(const Node& n, const Mask* mask) {
    const Memory& m = memory_[n.buffer];
    const Bits* value = lane(n.value);
    const Bits* index = lane(n.index);
    for (std::size_t l = 0; l < lanes_; ++l) {
      if (mask && !(*mask)[l]) continue;
      const auto at = static_cast<int64_t>(index[l]);
      if (!touch(n.buffer, at, l, true)) return false;
      std::memcpy(address(m, at, l), &value[l], static_cast<std::size_t>(m.width));
    }
    return true;
  }

  bool evaluate(const std::vector<Instr>& code, const Mask* mask) {
    for (const Instr& i : code) {
      switch (i.code) {
        case Code::Op:
          i.fn({i.op, i.type, lane(i.dst), lane(i.a), lane(i.b), lane(i.c)}, lanes_);
          break;
        case Code::Load:
          if (!load(i, mask)) return false;
          break;
        case Code::Cast:
          for (std::size_t l = 0; l < lanes_; ++l)
            lane(i.dst)[l] = castBits(i.type, i.from, lane(i.a)[l]);
          break;
        case Code::Recast:
          for (std::size_t l = 0; l < lanes_; ++l)
            lane(i.dst)[l] = recastBits(i.type, lane(i.a)[l]);
          break;
        case Code::Copy: std::copy_n(lane(i.a), lanes_, lane(i.dst)); break;
        case Code::MaskedCopy:
          for (std::size_t l = 0; l < lanes_; ++l)
            if (!mask || (*mask)[l]) lane(i.dst)[l] = lane(i.a)[l];
          break;
      }
    }
    steps_ += static_cast<int64_t>((code.size() + 1) * lanes_);
    if (options_.maxSteps > 0 && steps_ > options_.maxSteps)
      return fail(Errc::FileBudget, "it runs longer than the step budget");
    return true;
  }

  bool block(const std::vector<Node>& body, const Mask* mask) {
    for (const Node& n : body) {
      if (!evaluate(n.code, mask)) return false;
      switch (n.kind) {
        case StmtKind::Let:
        case StmtKind::Mutable:
        case StmtKind::Assign:
        case StmtKind::Accumulate: break;
        case StmtKind::Store:
          if (!store(n, mask)) return false;
          break;
        case StmtKind::For:
          if (!loop(n, mask)) return false;
          break;
        case StmtKind::If:
          if (!branch(n, mask)) return false;
          break;
        case StmtKind::Barrier:
          if (mask) return fail(Errc::CheckFailed, "a barrier that not all lanes reach");
          ++epoch_;
          break;
      }
    }
    return true;
  }

  // The lanes of `mask` where `holds(l)`. Full and empty sets need no mask.
  template <class F>
  std::size_t narrow(const Mask* mask, Mask& out, F holds) {
    out.resize(lanes_);
    std::size_t count = 0;
    for (std::size_t l = 0; l < lanes_; ++l) {
      out[l] = (!mask || (*mask)[l]) && holds(l);
      count += out[l];
    }
    return count;
  }

  bool branch(const Node& n, const Mask* mask) {
    const Bits* condition = lane(n.condition);
    if (lanes_ == 1) return block(condition[0] ? n.body : n.otherwise, mask);
    // Both sets before either body runs: a body may assign the variable that is the condition.
    Mask yes, no;
    const std::size_t taken = narrow(mask, yes, [&](std::size_t l) { return condition[l] != 0; });
    const std::size_t left = narrow(mask, no, [&](std::size_t l) { return condition[l] == 0; });
    if (taken && !block(n.body, taken == lanes_ ? nullptr : &yes)) return false;
    return !left || block(n.otherwise, left == lanes_ ? nullptr : &no);
  }

  bool loop(const Node& n, const Mask* mask) {
    // The bounds are those at entry, whatever the body assigns.
    std::vector<int64_t> at(lanes_), end(lanes_);
    for (std::size_t l = 0; l < lanes_; ++l) {
      at[l] = static_cast<int64_t>(lane(n.lo)[l]);
      end[l] = static_cast<int64_t>(lane(n.hi)[l]);
    }
    Mask inner;
    while (true) {
      const std::size_t active = narrow(mask, inner, [&](std::size_t l) { return at[l] < end[l]; });
      if (!active) return true;
      Bits* var = lane(n.var);
      for (std::size_t l = 0; l < lanes_; ++l) var[l] = static_cast<Bits>(at[l]);
      if (!block(n.body, active == lanes_ ? nullptr : &inner)) return false;
      for (std::size_t l = 0; l < lanes_; ++l) at[l] += n.step;
      steps_ += static_cast<int64_t>(lanes_);
      if (options_.maxSteps > 0 && steps_ > options_.maxSteps)
        return fail(Errc::FileBudget, "it runs longer than the step budget");
    }
  }

  const Kernel& k_;
  const Compiler& code_;
  InterpOptions options_;
  std::size_t lanes_ = 1;
  std::vector<Bits> regs_;
  std::vector<Memory> memory_;
  std::vector<std::byte> own_;
  std::vector<std::vector<Shadow>> shadows_;
  std::array<int64_t, 3> group_{};
  uint32_t groupNumber_ = 0, epoch_ = 0;
  int64_t steps_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Status interpret(const Kernel& kernel, std::array<int64_t, 3> grid,
                 std::span<const std::span<std::byte>> globals, std::span<const int32_t> params,
                 InterpOptions options) {
  RLX_OK(verify(kernel));
  if (globals.size() != globalCount(kernel) || params.size() != kernel.params.size())
    return Error(Errc::InvalidArgument, "kernel " + kernel.name + " takes " +
                                            std::to_string(globalCount(kernel)) + " buffers and " +
                                            std::to_string(kernel.params.size()) +
                                            " parameters, given " + std::to_string(globals.size()) +
                                            " and " + std::to_string(params.size()));
  for (int64_t g : grid)
    if (g < 0 || g > INT32_MAX)
      return Error(Errc::InvalidArgument, "grid extent " + std::to_string(g) + " is out of range");
  const Compiler code(kernel);
  return Machine(kernel, code, options).run(grid, globals, params);
}

}  // namespace rlx::kir
