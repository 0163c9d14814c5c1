// Lowering of the kernel IR to machine-level code: structured loops become labels and jumps, Vector
// loops become lanes, expressions become instructions placed at the outermost loop where they are
// invariant. The class is split by subject: statements, Vector loops, memory, values, ops, casts.
#pragma once
#include <array>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/cpu/emitter_code.h"
#include "kir/kernel.h"

namespace rlx::cpu {

class Lowering {
 public:
  Lowering(const kir::Kernel& kernel, IsaLevel isa) : kernel_(kernel), isa_(isa) {}
  Result<MachineCode> run();

 private:
  static constexpr int kMaxParts = 4;
  using Parts = std::array<Reg, kMaxParts>;
  // A value: one register, or one for each part of a vector, and the scope in which it is
  // invariant.
  struct Value {
    Parts r{kNone, kNone, kNone, kNone};
    int level = 0;
  };

  // An interned expression node. Structurally equal nodes have one id, so equal work is done once.
  struct Node {
    kir::ExprKind kind{};
    DType type{};
    ScalarOp op{};
    uint32_t id = 0;
    int64_t ivalue = 0;
    double fvalue = 0;
    std::array<int, 3> args{-1, -1, -1};
    uint64_t vars = 0, buffers = 0;  // Bloom sets of mutable variables and buffers it reads
    kir::Expr expr;
  };
  // What makes two nodes equal.
  struct Key {
    std::array<uint64_t, 5> words{};
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& k) const {
      uint64_t h = 0;
      for (uint64_t w : k.words) h = (h ^ w) * 0x9e3779b97f4a7c15U, h ^= h >> 29;
      return h;
    }
  };
  enum class Form : uint8_t { Scalar, Full, Half, Quad, Wide };
  static constexpr std::size_t kForms = 5;
  struct Memo {
    Value value;
    uint32_t scope = 0;  // serial; 0: none
    uint32_t epoch = 0;
  };

  enum class ScopeKind : uint8_t {
    Loop,    // own lists: what is invariant goes before it, after its guard
    Branch,  // may not run: nothing computed inside is known outside
    Plain,   // a repeated body
  };
  struct Effects {
    uint64_t vars = 0, buffers = 0;  // Bloom sets of what is assigned and stored
  };
  struct Scope {
    ScopeKind kind{};
    bool certain = false;  // a loop that runs at least once
    uint32_t serial = 0;
    Effects effects;
    std::vector<Inst> before, body;
  };
  struct Target {
    std::vector<Inst>* list;
    int scope;
  };

  struct Binding {
    enum class Kind : uint8_t { None, Constant, Scalar, Vector } kind = Kind::None;
    int64_t constant = 0;
    Value value;
    int let = -1;  // node of a Let that stands for its value in index arithmetic
  };

  // The Vector loop that is being lowered.
  struct VectorContext {
    bool active = false;
    bool quad = false;  // a scalar evaluated in four lanes of which the first counts
    int lanes = 1, parts = 1;
    uint32_t var = 0;
    uint32_t serial = 0;
    int level = 0;
    Value exec;               // lanes that run; none: all
    Value taken;              // lanes for which enclosing conditions hold; none: all
    std::vector<int> leaves;  // of quad
  };

  // A sum of products, in elements: constant + sum(coefficient * product of atoms).
  struct Term {
    std::array<int, 3> atoms{-1, -1, -1};
    int64_t coefficient = 0;
  };
  struct Linear {
    int64_t constant = 0;
    int level = 0;  // of the repeated bodies whose constant it used
    std::vector<Term> terms;
  };
  struct Address {
    Reg base = kNone, index = kNone;
    uint8_t scale = 1;
    int64_t disp = 0;
    int level = 0;
  };

  // Statements (emitter_lower.cc).
  void statements(const std::vector<kir::Stmt>& body);
  void statement(const kir::Stmt& s);
  void forLoop(const kir::Stmt& s);
  void serialLoop(const kir::Stmt& s, int lo, int hi);
  bool vectorLoop(const kir::Stmt& s, int lo, int hi);
  void vectorStages(const kir::Stmt& s, int lo, int hi, int parts);
  void stage(const kir::Stmt& s, Reg j, Reg hi, int64_t hiConstant, int parts, bool masked,
             int64_t trips);
  void ifStatement(const kir::Stmt& s);
  void accumulate(const kir::Stmt& s);
  void assign(uint32_t var, const Value& v, bool declare);
  void store(const kir::Stmt& s);
  void groupLoop();
  Effects effects(const std::vector<kir::Stmt>& body) const;
  void invalidate(const Effects& e);
  int pushScope(ScopeKind kind, const Effects& e, bool certain);
  std::vector<Inst>& current();
  Target place(int level);
  int variableLevel(uint32_t var, int declared) const;
  int loadLevel(uint32_t buffer, bool safe) const;

  // Analysis of a Vector loop.
  bool vectorizable(const std::vector<kir::Stmt>& body, bool outer);
  bool spread(const std::vector<kir::Stmt>& body, bool varying);
  void measure(const std::vector<kir::Stmt>& body);
  bool varying(int node);

  // Memory (emitter_memory.cc).
  Linear linear(int node, int* budget);
  void addTerm(Linear& l, const Term& t) const;
  Value wide(int node);
  Value product(const Term& t);
  Value scaled(const Term& t, int64_t bytes);
  Value basePointer(uint32_t buffer);
  Address address(uint32_t buffer, const Linear& l);
  bool contiguous(const Linear& l);
  void setMemory(Inst& n, const Address& a, int64_t extra = 0);
  Reg pointer(const Address& a, int64_t extra);
  Value scalarLoad(int node);
  Value vectorLoad(int node);
  Reg loadPart(DType t, const Address& a, int part, Reg mask);
  void storePart(DType t, const Address& a, int part, Reg value, Reg mask);
  Reg gatherPart(DType t, uint32_t buffer, Reg index, Reg mask);
  void scatterPart(DType t, uint32_t buffer, Reg index, Reg value, Reg mask);
  int synthetic(int kind, int64_t a, int64_t b, int64_t c, uint64_t vars, uint64_t buffers);

  // Values (emitter_values.cc, emitter_casts.cc).
  int intern(const kir::Expr& e);
  Value scalar(int node);
  Value vector(int node);
  Value scalarApply(const Node& n, int id);
  Value broadcast(DType t, const Value& s);
  Value expanded(int id, int root);
  int expansion(const Node& n);
  Reg apply(ScalarOp op, DType t, const std::array<int, 3>& args, Reg a, Reg b, Reg c, Reg dst);
  Reg floatApply(ScalarOp op, DType t, const std::array<int, 3>& args, Reg a, Reg b, Reg c,
                 Reg dst);
  Reg integerApply(ScalarOp op, DType t, const std::array<int, 3>& args, Reg a, Reg b, Reg c,
                   Reg dst);
  Reg generalApply(ScalarOp op, DType t, const std::array<int, 3>& args, Reg a, Reg b, Reg c,
                   Reg dst);
  Reg boolApply(ScalarOp op, Reg a, Reg b, Reg c, Reg dst);
  Reg divideByConstant(ScalarOp op, Reg a, int64_t divisor, Reg dst);
  Reg castPart(DType to, DType from, Reg x);
  Reg castCore(DType to, DType from, Reg x);
  Reg castScalar(DType to, DType from, Reg x);
  Reg saturate(DType to, DType from, Reg x);
  Reg call(LaneFn fn, DType out, DType in, Reg a, Reg b, Reg c, Reg dst = kNone);
  Reg largeArguments(ScalarOp op, Reg x, Reg y);
  Reg neutral(ScalarOp op, DType t);
  Reg reduceLanes(ScalarOp op, DType t, Reg x);

  // Instructions.
  Inst& put(Op op, DType t = DType::F32);
  Reg fresh(RegClass cls, int bytes);
  Reg freshVector(DType t, int lanes);
  Reg freshMask(int lanes);
  Reg v(Op op, DType t, Reg a, Reg b = kNone, Reg c = kNone, Reg dst = kNone, int64_t imm = 0);
  Reg g(Op op, DType t, ScalarOp s, Reg a, Reg b, int64_t imm = 0, Reg dst = kNone);
  Reg gImm(int64_t value);
  Reg compareFloat(DType t, int64_t predicate, Reg a, Reg b);
  Reg compareInteger(DType t, ScalarOp op, Reg a, Reg b);
  Reg blend(DType t, Reg mask, Reg a, Reg b, Reg dst = kNone);
  Reg maskFor(DType t, Reg mask);
  Reg narrow(DType to, DType from, Reg x);
  Reg widenTo(DType to, DType from, Reg x);
  Reg vectorConstant(DType t, uint64_t bits);
  Reg exponential(Reg x, Reg dst);
  Reg floatConstant(DType t, double value);
  Reg integerConstant(DType t, int64_t value) {
    return vectorConstant(t, static_cast<uint64_t>(value));
  }
  Reg poolConstant(const std::string& bytes, int registerBytes);
  Reg iota(int start);
  int newLabel() { return out_.labels++; }
  void jump(Op op, int label, Reg a = kNone, Reg b = kNone, int64_t imm = 0);
  void label(int l);
  bool wideVector() const { return isa_ == IsaLevel::Avx512; }
  int vectorBytes() const { return wideVector() ? 64 : 32; }
  int lanes() const { return ctx_.active ? ctx_.lanes : 1; }
  Form form() const;
  const Memo* find(Form f, int node) const;
  void remember(Form f, int node, const Value& v, int scope);
  Memo& memo(Form f, int node) {
    return memo_[static_cast<std::size_t>(node) * kForms + static_cast<std::size_t>(f)];
  }
  const Node& node(int id) const { return nodes_[static_cast<std::size_t>(id)]; }
  void fail(std::string message);

  const kir::Kernel& kernel_;
  IsaLevel isa_;
  MachineCode out_;
  std::string error_;
  std::deque<Scope> scopes_;
  std::vector<Inst>* list_ = nullptr;  // where put() appends
  std::vector<uint8_t> alive_{0};      // by scope serial
  std::deque<Node> nodes_;
  std::vector<Memo> memo_;
  std::unordered_map<const kir::ExprNode*, int> byPointer_;
  std::unordered_map<Key, int, KeyHash> byValue_;
  std::unordered_map<uint64_t, int> expansions_;
  std::unordered_map<std::string, int32_t> poolOffsets_;
  std::vector<Binding> bindings_;
  std::vector<uint8_t> mutable_;
  std::vector<int32_t> arrays_;  // frame offset by buffer
  std::array<uint32_t, 64> varEpoch_{}, bufferEpoch_{};
  uint32_t epoch_ = 1;
  std::array<Reg, 3> group_{kNone, kNone, kNone};
  std::vector<uint8_t> wideRegs_;      // by register: holds a sign-extended 64-bit value
  std::vector<uint8_t> variableRegs_;  // by register: belongs to a mutable variable
  bool usesGroups_ = false;

  VectorContext ctx_;
  uint32_t contexts_ = 0;
  std::vector<uint32_t> varyMemo_;  // by node: 2 * serial + answer
  std::vector<uint8_t> varyingVar_, inside_, reduced_;
  std::vector<ScalarOp> reduceOp_;
  std::vector<Parts> reduction_;
  struct {
    int nodes = 0, accumulators = 0;
    bool wideTypes = false, nested = false, branches = false, narrow = false;
  } measured_;
};

}  // namespace rlx::cpu
