// Kernel IR, level 3: one kernel as structured loops over buffers. Everything that runs on a device
// is this; emitters and dialects only spell it.
//
// Model of execution. A launch has a grid of groups; a group has block[0]*block[1]*block[2] lanes
// that share Shared buffers and meet at Barrier statements (uniform flow only). On the CPU block is
// {1,1,1}, groups are spread over threads, and loops marked Vector are executed several iterations
// at once.
//
// Types. Values that take part in arithmetic (Apply) are F64 F32 I64 I32 U64 U32 or Bool. Narrow
// types (F16 BF16 I16 I8 U16 U8) occur only as the result of Load and Cast and as the operand of
// Cast, Store, Let and Select: a lowering casts to computeType(t), computes, and casts back once
// per op. Bool buffers hold one byte per element, 0 or 1. Index expressions are I32.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/dtype.h"
#include "scalar/scalar.h"

namespace rlx::kir {

enum class ExprKind : uint8_t {
  Const,    // fvalue (Float) or ivalue (integers, Bool), of `type`
  Var,      // kernel.vars[id]
  Param,    // kernel.params[id], I32, the same for all lanes of a launch
  GroupId,  // I32, axis `id` 0..2 of the grid
  LocalId,  // I32, axis `id` 0..2 of the block
  Load,     // kernel.buffers[id] at element args[0] (I32). With args[1] (Bool) and args[2]: when
            // args[1] is false nothing is read and the value is args[2]
  Apply,    // scalar op `op` over args
  Cast,     // value conversion by the rules of numerics.md (float to int saturates, NaN to 0)
  Bitcast,  // same bits, same width
};

struct ExprNode;

// A handle to an immutable expression; cheap to copy, shared freely. A Domain: an elementwise op is
// lowered by running its definition over Expr. A literal made from a double is *weak*: it takes the
// type of the operand it meets.
class Expr {
 public:
  Expr() = default;
  Expr(double weakLiteral);
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  explicit operator bool() const { return node_ != nullptr; }
  const ExprNode& operator*() const { return *node_; }
  const ExprNode* operator->() const { return node_.get(); }
  const ExprNode* get() const { return node_.get(); }
  // Applies a scalar op: resolves weak literals, folds constants and neutral elements of integer
  // arithmetic. Operand types must agree (Select: the last two; its first is Bool).
  static Expr apply(ScalarOp op, const Expr& a, const Expr& b, const Expr& c);

 private:
  std::shared_ptr<const ExprNode> node_;
};

struct ExprNode {
  ExprKind kind{};
  DType type{};
  bool weak = false;
  double fvalue = 0;
  int64_t ivalue = 0;
  uint32_t id = 0;  // variable, parameter, buffer or axis
  ScalarOp op{};
  std::array<Expr, 3> args;
};

// Constructors. Integer literals wrap to the type.
Expr constant(DType type, double value);
Expr integer(DType type, int64_t value);
Expr zero(DType type);  // 0 of any dtype; narrow floats by a cast from f32
inline Expr index(int64_t value) {
  return integer(DType::I32, value);
}
Expr groupId(int axis);
Expr localId(int axis);
Expr cast(DType type, const Expr& x);     // folds constants and identities
Expr bitcast(DType type, const Expr& x);  // widths must agree
Expr load(uint32_t buffer, DType type, const Expr& at);
Expr loadIf(uint32_t buffer, DType type, const Expr& at, const Expr& when, const Expr& otherwise);
// True and *value set when x is an integer constant.
bool isInteger(const Expr& x, int64_t* value = nullptr);
// Structural equality.
bool same(const Expr& a, const Expr& b);

enum class StmtKind : uint8_t {
  Let,         // var = value; single assignment
  Mutable,     // var = value; may be assigned later
  Assign,      // var = value
  Accumulate,  // var = op(var, value): a reduction whose order may be changed (Add Mul Max Min And
               // Or)
  Store,       // buffers[buffer][index] = value, when `condition` is absent or true
  For,         // for (var = lo; var < hi; var += step) body; step > 0, constant
  If,          // if (condition) body else otherwise
  Barrier,     // all lanes of the group meet; Shared and Global writes before are visible after
};

enum class LoopKind : uint8_t {
  Serial,
  Unroll,  // constant trip count, repeated in full
  Vector,  // iterations are independent but for Accumulate; several may run at once
};

struct Stmt {
  StmtKind kind{};
  uint32_t var = 0;     // Let Mutable Assign Accumulate For
  uint32_t buffer = 0;  // Store
  ScalarOp op{};        // Accumulate
  LoopKind loop{};      // For
  int64_t step = 1;     // For
  Expr value;           // Let Mutable Assign Accumulate Store
  Expr index;           // Store
  Expr condition;       // If; Store: optional
  Expr lo, hi;          // For, I32
  std::vector<Stmt> body, otherwise;
};

enum class Space : uint8_t { Global, Shared, Local };  // Local: private to a lane (a small array)
enum class Access : uint8_t { Read, Write, ReadWrite };

struct Buffer {
  std::string name;
  DType type{};
  Space space = Space::Global;
  Access access = Access::Read;
  int64_t elements = 0;  // Shared and Local: constant size. Global: 0, known at launch
};

struct Var {
  std::string name;
  DType type{};
};

// Globals come first in `buffers`; their order is the binding order.
struct Kernel {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<std::string> params;
  std::vector<Var> vars;
  std::array<int32_t, 3> block{1, 1, 1};
  std::vector<Stmt> body;
};

inline std::size_t globalCount(const Kernel& k) {
  std::size_t n = 0;
  while (n < k.buffers.size() && k.buffers[n].space == Space::Global) ++n;
  return n;
}

}  // namespace rlx::kir
