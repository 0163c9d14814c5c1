// Inference: each constraint of each op, by the message that names it.
#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ops/attrs.h"

namespace rlx {
namespace {

TensorType type(std::string_view text) {
  TensorType t;
  EXPECT_TRUE(fromText(text, t.dtype) && fromText(text, t.shape)) << text;
  return t;
}

struct Case {
  const char* op;
  std::vector<const char*> operands;  // "_": absent
  const char* attrs;
  const char* want;  // result types, or a part of the message
  Errc code = Errc::ShapeMismatch;
};

Result<std::string> infer(const Case& c) {
  const auto op = parseOpKind(c.op);
  EXPECT_TRUE(op) << c.op;
  std::vector<TensorType> types;
  std::vector<bool> present;
  for (const char* t : c.operands) {
    present.push_back(std::string_view(t) != "_");
    types.push_back(present.back() ? type(t) : TensorType{});
  }
  const OpInfo& d = opInfo(*op);
  std::string_view text = c.attrs;
  Attrs attrs(*d.attrs, d.attrs->parse(text));
  EXPECT_TRUE(text.empty() && d.attrs->parse(text = c.attrs)) << c.op << " " << c.attrs;
  RLX_TRY(const std::vector<TensorType> r, inferNode(*op, types, present, attrs, {}));
  std::string out;
  for (const TensorType& t : r) out += (out.empty() ? "" : " ") + rlx::text(t);
  return out;
}

TEST(Infer, ResultTypes) {
  const Case cases[] = {
      {"add", {"f32[n,1,3]", "f32[4,3]"}, "", "f32[n,4,3]"},
      {"lt", {"f16[2]", "f16[2]"}, "", "bool[2]"},
      {"select", {"bool[2,1]", "i8[3]", "i8[]"}, "", "i8[2,3]"},
      {"convert", {"f32[n]"}, "{dtype=u8}", "u8[n]"},
      {"reshape", {"f32[n,6]"}, "{shape=[n,2,3]}", "f32[n,2,3]"},
      {"reshape", {"f32[0,6]"}, "{shape=[0]}", "f32[0]"},
      {"transpose", {"f32[n,2,3]"}, "{perm=[2,0,1]}", "f32[3,n,2]"},
      {"broadcast", {"f32[1,3]"}, "{shape=[n,2,3]}", "f32[n,2,3]"},
      {"slice", {"f32[10,n]"}, "{start=[8,0] size=[3,n] step=[-4,1]}", "f32[3,n]"},
      {"pad", {"f32[n]"}, "{low=[1] high=[-1] mode=edge}", "f32[n]"},
      {"concat", {"f32[n,2]", "f32[3,2]"}, "{axis=-2}", "f32[n + 3,2]"},
      {"iota", {}, "{dtype=i32 shape=[n,2] axis=1}", "i32[n,2]"},
      {"dim", {}, "{dtype=i64 value=2*n}", "i64[]"},
      {"gather", {"f32[5,n]", "i64[2,3]"}, "{axis=0}", "f32[2,3,n]"},
      {"gather_elements", {"f32[5,4]", "i32[2,4]"}, "{axis=0}", "f32[2,4]"},
      {"gather_nd", {"f32[b,5,4,3]", "i64[b,7,2]"}, "{batchDims=1}", "f32[b,7,3]"},
      {"gather", {"f32[0,3]", "i64[0]"}, "{axis=0}", "f32[0,3]"},
      {"scatter_nd", {"f32[5,4]", "i64[3,1]", "f32[3,4]"}, "{axis=0 kind=add}", "f32[5,4]"},
      {"reduce", {"f32[n,2,3]"}, "{kind=sum axes=[-1,0] keepDims=false}", "f32[2]"},
      {"reduce", {"f32[n,2]"}, "{kind=max axes=[] keepDims=true}", "f32[n,2]"},
      {"arg_reduce", {"f32[n,2]"}, "{kind=max axis=1 keepDims=true selectLast=false}", "i64[n,1]"},
      {"arg_reduce", {"f32[0,0]"}, "{kind=max axis=1 keepDims=false selectLast=false}", "i64[0]"},
      {"cumulative_scan", {"i8[n]"}, "{kind=sum axis=0 exclusive=true reverse=false}", "i8[n]"},
      {"sort_rank", {"bool[n]"}, "{axis=0 descending=true}", "i32[n]"},
      {"sort", {"f32[n,2]"}, "{axis=0 descending=false}", "f32[n,2] i64[n,2]"},
      {"top_k", {"f32[9]"}, "{axis=0 k=4 largest=true}", "f32[4] i64[4]"},
      {"dot_general",
       {"f32[b,m,k]", "f32[b,k,n]"},
       "{lhsBatch=[0] rhsBatch=[0] lhsContract=[2] rhsContract=[1]}",
       "f32[b,m,n]"},
      {"dot_general",
       {"u8[m,k]", "i8[k,n]"},
       "{lhsBatch=[] rhsBatch=[] lhsContract=[1] rhsContract=[0] result=i32}",
       "i32[m,n]"},
      {"conv",
       {"f32[n,4,9]", "f32[6,2,3]"},
       "{strides=[2] dilations=[1] padLow=[1] padHigh=[1] groups=2}",
       "f32[n,6,5]"},
      {"pool",
       {"f32[n,4,s]"},
       "{kind=max window=[2] strides=[2] dilations=[1] padLow=[0] padHigh=[0] countPadding=false "
       "ceilMode=false}",
       "f32[n,4,floordiv(s, 2)]"},
      {"softmax", {"f16[n,4]"}, "{axis=-1}", "f16[n,4]"},
      {"matmul", {"f32[k]", "f32[b,k,n]"}, "", "f32[b,n]"},
      {"matmul", {"f32[k]", "f32[k]"}, "", "f32[]"},
      {"linear", {"f32[b,s,4]", "f32[7,4]", "f32[7]"}, "{transposed=true}", "f32[b,s,7]"},
      {"embedding", {"f16[9,4]", "i32[b,s]"}, "", "f16[b,s,4]"},
      {"attention",
       {"f32[b,8,s,4]", "f32[b,2,t,4]", "f32[b,2,t,5]", "bool[s,t]"},
       "{scale=0 causal=true}",
       "f32[b,8,s,5]"},
      {"layer_norm", {"f32[n,4]", "f32[4]", "_"}, "{axis=-1 epsilon=1e-05}", "f32[n,4]"},
  };
  for (const Case& c : cases) {
    auto got = infer(c);
    ASSERT_TRUE(got) << c.op << " " << c.attrs << ": " << got.error().text();
    EXPECT_EQ(*got, c.want) << c.op << " " << c.attrs;
  }
}

constexpr Errc kType = Errc::TypeMismatch, kAttr = Errc::BadAttribute, kArg = Errc::InvalidArgument;
constexpr const char* kConv = "{strides=[1] dilations=[1] padLow=[0] padHigh=[0] groups=1}";

TEST(Infer, Constraints) {
  const Case cases[] = {
      // Scalar maps
      {"add", {"f32[2]"}, "", "add: takes 2 operands, got 1", kArg},
      {"add", {"f32[2]", "_"}, "", "add: operand 1 is absent", kArg},
      {"add", {"f32[2]", "f32[3]"}, "", "shapes [2] and [3] do not broadcast: 2 against 3"},
      {"add", {"f32[n]", "f32[m]"}, "", "n against m"},
      {"add", {"f32[2]", "f16[2]"}, "", "operands have dtypes f32 and f16", kType},
      {"add", {"bool[2]", "bool[2]"}, "", "add: operand 0 has dtype bool", kType},
      {"sqrt", {"i32[2]"}, "", "sqrt: operand 0 has dtype i32", kType},
      {"shl", {"f32[2]", "f32[2]"}, "", "shl: operand 0 has dtype f32", kType},
      {"select", {"i8[2]", "f32[2]", "f32[2]"}, "", "select: operand 0 has dtype i8", kType},
      {"select", {"bool[2]", "f32[2]", "f16[2]"}, "", "dtypes f32 and f16", kType},
      {"gelu", {"i32[2]"}, "", "gelu: operand 0 has dtype i32", kType},
      // Movement
      {"convert", {"c64[2]"}, "{dtype=f32}", "convert: operand 0 has dtype c64", kType},
      {"convert", {"f32[2]"}, "{dtype=q4_0}", "to dtype q4_0 is not defined", kType},
      {"convert", {"f32[2]"}, "{dtype=c64}", "to dtype c64 is not defined", kType},
      {"reshape", {"f32[n,6]"}, "{shape=[n,5]}", "[n,6] has 6*n elements, [n,5] has 5*n"},
      {"reshape", {"f32[n]"}, "{shape=[m]}", "[n] has n elements, [m] has m"},
      {"transpose", {"f32[2,3]"}, "{perm=[0,0]}", "is not a permutation of rank 2", kAttr},
      {"transpose", {"f32[2,3]"}, "{perm=[0,2]}", "is not a permutation of rank 2", kAttr},
      {"transpose", {"f32[2,3]"}, "{perm=[-1,0]}", "is not a permutation of rank 2", kAttr},
      {"transpose", {"f32[2,3]"}, "{perm=[1]}", "perm [1] for rank 2", kAttr},
      {"broadcast", {"f32[2]"}, "{shape=[3]}", "do not broadcast"},
      {"broadcast", {"f32[2,3]"}, "{shape=[3]}", "[2,3] does not fit in [3]"},
      {"slice",
       {"f32[4]"},
       "{start=[0] size=[2,1] step=[1]}",
       "one entry for each of 1 axes",
       kAttr},
      {"slice", {"f32[4]"}, "{start=[0] size=[2] step=[0]}", "step 0 on axis 0", kAttr},
      {"slice",
       {"f32[4]"},
       "{start=[3] size=[2] step=[1]}",
       "elements 3 to 4 of axis 0 with extent 4"},
      {"slice", {"f32[4]"}, "{start=[1] size=[3] step=[-1]}", "elements 1 to -1 of axis 0"},
      {"slice", {"f32[4]"}, "{start=[0] size=[-1] step=[1]}", "axis 0 with extent 4"},
      {"slice",
       {"f32[4]"},
       "{start=[1] size=[3] step=[9223372036854775807]}",
       "axis 0 with extent 4"},
      {"pad",
       {"f32[4]"},
       "{low=[1,1] high=[0] mode=constant}",
       "one entry for each of 1 axes",
       kAttr},
      {"pad", {"f32[4]"}, "{low=[-3] high=[-2] mode=constant}", "axis 0 would have extent -1"},
      {"pad",
       {"f32[0]"},
       "{low=[1] high=[0] mode=wrap}",
       "axis 0 is empty and has nothing to repeat"},
      {"pad",
       {"f32[4]", "f16[]"},
       "{low=[1] high=[0] mode=constant}",
       "one element of dtype f32",
       kType},
      {"pad",
       {"f32[4]", "f32[2]"},
       "{low=[1] high=[0] mode=constant}",
       "one element of dtype f32",
       kType},
      {"concat", {}, "{axis=0}", "concat: takes 1 or more operands, got 0", kArg},
      {"concat", {"f32[2]", "f16[2]"}, "{axis=0}", "operand 1 has dtype f16, the first f32", kType},
      {"concat", {"f32[2]", "f32[2,1]"}, "{axis=0}", "operands of ranks 1 and 2"},
      {"concat",
       {"f32[2,3]", "f32[2,4]"},
       "{axis=0}",
       "operand 1 has shape [2,4], the first [2,3]"},
      {"concat", {"f32[2]"}, "{axis=1}", "concat: axis 1 is outside a tensor of rank 1", kAttr},
      {"concat", {"f32[2]"}, "{axis=-2}", "concat: axis -2 is outside a tensor of rank 1", kAttr},
      {"iota",
       {},
       "{dtype=i32 shape=[2] axis=1}",
       "iota: axis 1 is outside a tensor of rank 1",
       kAttr},
      {"iota", {}, "{dtype=bool shape=[2] axis=0}", "iota: of dtype bool", kType},
      {"dim", {}, "{dtype=c64 value=n}", "dim: of dtype c64", kType},
      // Indexing
      {"gather", {"f32[2]", "f32[2]"}, "{axis=0}", "gather: operand 1 has dtype f32", kType},
      {"gather", {"f32[2]", "i64[2]"}, "{axis=1}", "gather: axis 1 is outside", kAttr},
      {"gather",
       {"f32[0,3]", "i64[2]"},
       "{axis=0}",
       "axis 0 of [0,3] is empty and has nothing to gather"},
      {"gather_elements",
       {"f32[2]", "i64[2,2]"},
       "{axis=0}",
       "operand 1 has shape [2,2], expected rank 1"},
      {"gather_elements",
       {"f32[2,2]", "i64[2,3]"},
       "{axis=0}",
       "indices of shape [2,3] into [2,2]"},
      {"gather_elements", {"f32[0]", "i64[2]"}, "{axis=0}", "nothing to gather"},
      {"gather_nd", {"f32[2]", "i64[]"}, "{batchDims=0}", "gather_nd: indices of shape []"},
      {"gather_nd", {"f32[2]", "i64[n]"}, "{batchDims=0}", "gather_nd: indices of shape [n]"},
      {"gather_nd",
       {"f32[2]", "i64[3,2]"},
       "{batchDims=0}",
       "indices of shape [3,2] with 0 batch axes into [2]"},
      {"gather_nd", {"f32[2,3]", "i64[4,1]"}, "{batchDims=1}", "batch axis 0 has extents 2 and 4"},
      {"gather_nd", {"f32[2]", "i64[3,1]"}, "{batchDims=-1}", "-1 batch axes"},
      {"scatter_elements",
       {"f32[2]", "f32[2]", "f32[2]"},
       "{axis=0 kind=none}",
       "operand 1 has dtype f32",
       kType},
      {"scatter_elements",
       {"f32[2]", "i64[2]", "f16[2]"},
       "{axis=0 kind=none}",
       "updates have dtype f16, the data f32",
       kType},
      {"scatter_elements",
       {"bool[2]", "i64[2]", "bool[2]"},
       "{axis=0 kind=add}",
       "operand 0 has dtype bool",
       kType},
      {"scatter_elements",
       {"f32[2]", "i64[2]", "f32[1]"},
       "{axis=0 kind=none}",
       "indices [2] and updates [1]"},
      {"scatter_elements",
       {"f32[2]", "i64[2]", "f32[2]"},
       "{axis=3 kind=none}",
       "axis 3 is outside",
       kAttr},
      {"scatter_nd",
       {"f32[2]", "i64[3,2]", "f32[3]"},
       "{axis=0 kind=none}",
       "indices of shape [3,2] into [2]"},
      {"scatter_nd",
       {"f32[2,4]", "i64[3,1]", "f32[3]"},
       "{axis=0 kind=none}",
       "updates have shape [3], expected [3,4]"},
      // Reductions
      {"reduce",
       {"f32[2]"},
       "{kind=any axes=[0] keepDims=false}",
       "reduce: operand 0 has dtype f32",
       kType},
      {"reduce",
       {"bool[2]"},
       "{kind=sum axes=[0] keepDims=false}",
       "reduce: operand 0 has dtype bool",
       kType},
      {"reduce", {"f32[2]"}, "{kind=sum axes=[1] keepDims=false}", "axis 1 is outside", kAttr},
      {"reduce",
       {"f32[2]"},
       "{kind=sum axes=[0,-1] keepDims=false}",
       "axis -1 is named twice",
       kAttr},
      {"arg_reduce",
       {"f32[2,0]"},
       "{kind=max axis=1 keepDims=false selectLast=false}",
       "an empty axis has no largest element"},
      {"arg_reduce",
       {"c64[2]"},
       "{kind=max axis=0 keepDims=false selectLast=false}",
       "operand 0 has dtype c64",
       kType},
      {"cumulative_scan",
       {"f32[2]"},
       "{kind=any axis=0 exclusive=false reverse=false}",
       "kind must be sum, prod, max or min",
       kAttr},
      {"cumulative_scan",
       {"bool[2]"},
       "{kind=sum axis=0 exclusive=false reverse=false}",
       "operand 0 has dtype bool",
       kType},
      {"sort_rank",
       {"f32[]"},
       "{axis=0 descending=false}",
       "axis 0 is outside a tensor of rank 0",
       kAttr},
      {"top_k", {"f32[3]"}, "{axis=0 k=4 largest=true}", "k is 4, the axis has 3 elements", kAttr},
      {"top_k", {"f32[3]"}, "{axis=0 k=-1 largest=true}", "k is -1", kAttr},
      // Contractions and windows
      {"dot_general",
       {"f32[2]", "f16[2]"},
       "{lhsBatch=[] rhsBatch=[] lhsContract=[0] rhsContract=[0]}",
       "dtypes f32 and f16",
       kType},
      {"dot_general",
       {"u8[2]", "i8[2]"},
       "{lhsBatch=[] rhsBatch=[] lhsContract=[0] rhsContract=[0]}",
       "dtypes u8 and i8",
       kType},
      {"dot_general",
       {"u8[2]", "i16[2]"},
       "{lhsBatch=[] rhsBatch=[] lhsContract=[0] rhsContract=[0] result=i32}",
       "dtypes u8 and i16, expected i8 or u8",
       kType},
      {"dot_general",
       {"u8[2]", "i8[2]"},
       "{lhsBatch=[] rhsBatch=[] lhsContract=[0] rhsContract=[0] result=i64}",
       "result is i64, expected i32",
       kAttr},
      {"dot_general",
       {"f32[2]", "f32[3]"},
       "{lhsBatch=[] rhsBatch=[] lhsContract=[0] rhsContract=[0]}",
       "inner dimensions differ, 2 against 3"},
      {"dot_general",
       {"f32[2,4]", "f32[3,4]"},
       "{lhsBatch=[0] rhsBatch=[0] lhsContract=[1] rhsContract=[1]}",
       "batch dimensions differ, 2 against 3"},
      {"dot_general",
       {"f32[2]", "f32[2]"},
       "{lhsBatch=[] rhsBatch=[] lhsContract=[0] rhsContract=[]}",
       "equally many",
       kAttr},
      {"dot_general",
       {"f32[2]", "f32[2]"},
       "{lhsBatch=[] rhsBatch=[] lhsContract=[1] rhsContract=[0]}",
       "axes {",
       kAttr},
      {"dot_general",
       {"f32[2]", "f32[2]"},
       "{lhsBatch=[0] rhsBatch=[0] lhsContract=[0] rhsContract=[0]}",
       "axes {",
       kAttr},
      {"conv", {"f32[1,2]", "f32[1,2]"}, kConv, "expected 1 to 3 spatial axes"},
      {"conv", {"f32[1,2,3]", "f32[1,2]"}, kConv, "operand 1 has shape [1,2], expected rank 3"},
      {"conv",
       {"f32[1,2,3]", "f16[1,2,1]"},
       kConv,
       "operand 1 has dtype f16, the input f32",
       kType},
      {"conv",
       {"f32[1,2,3]", "f32[1,3,1]"},
       kConv,
       "input has 2 channels, the weight 3 times 1 groups"},
      {"conv",
       {"f32[1,2,3]", "f32[3,1,1]"},
       "{strides=[1] dilations=[1] padLow=[0] padHigh=[0] groups=2}",
       "3 output channels in 2 groups"},
      {"conv", {"f32[1,2,3]", "f32[4,2,1]", "f32[3]"}, kConv, "bias has shape [3], expected [4]"},
      {"conv", {"f32[1,2,3]", "f32[1,2,7]"}, kConv, "the kernel is larger than the padded input"},
      {"conv", {"f32[1,2,3]", "f32[1,2,k]"}, kConv, "symbolic kernel extents"},
      {"conv",
       {"f32[1,2,3]", "f32[1,2,1]"},
       "{strides=[0] dilations=[1] padLow=[0] padHigh=[0] groups=1}",
       "strides and dilations must be at least 1",
       kAttr},
      {"conv",
       {"f32[1,2,3]", "f32[1,2,1]"},
       "{strides=[1] dilations=[1] padLow=[9223372036854775807] padHigh=[0] groups=1}",
       "is out of range",
       kAttr},
      {"conv",
       {"f32[1,2,3]", "f32[1,2,1]"},
       "{strides=[1,1] dilations=[1] padLow=[0] padHigh=[0] groups=1}",
       "need 1 entries",
       kAttr},
      {"conv",
       {"f32[1,2,3]", "f32[1,2,1]"},
       "{strides=[1] dilations=[1] padLow=[0] padHigh=[0] groups=0}",
       "groups must be at least 1",
       kAttr},
      {"pool",
       {"i32[1,2,3]"},
       "{kind=average window=[1] strides=[1] dilations=[1] padLow=[0] padHigh=[0] "
       "countPadding=false ceilMode=false}",
       "operand 0 has dtype i32",
       kType},
      {"pool",
       {"f32[1,2,3]"},
       "{kind=max window=[0] strides=[1] dilations=[1] padLow=[0] padHigh=[0] countPadding=false "
       "ceilMode=false}",
       "window extents must be at least 1",
       kAttr},
      {"pool",
       {"f32[1,2,3]"},
       "{kind=max window=[1,1] strides=[1] dilations=[1] padLow=[0] padHigh=[0] countPadding=false "
       "ceilMode=false}",
       "window needs 1 entries",
       kAttr},
      {"pool",
       {"f32[1,2,3]"},
       "{kind=max window=[5] strides=[1] dilations=[1] padLow=[0] padHigh=[0] countPadding=false "
       "ceilMode=false}",
       "the window is larger than the padded input"},
      // Composites
      {"softmax", {"i32[2]"}, "{axis=0}", "softmax: operand 0 has dtype i32", kType},
      {"log_softmax", {"f32[2]"}, "{axis=1}", "log_softmax: axis 1 is outside", kAttr},
      {"layer_norm", {"f32[2,4]", "f32[3]"}, "{axis=-1 epsilon=0}", "do not broadcast"},
      {"layer_norm",
       {"f32[2,4]", "f32[3,2,4]"},
       "{axis=-1 epsilon=0}",
       "operand 1 has shape [3,2,4], expected [4]"},
      {"layer_norm",
       {"f32[2,4]", "f16[4]"},
       "{axis=-1 epsilon=0}",
       "need the dtype of the input",
       kType},
      {"rms_norm", {"f32[2,4]"}, "{axis=2 epsilon=0}", "rms_norm: axis 2 is outside", kAttr},
      {"batch_norm",
       {"f32[2]", "f32[2]", "f32[2]", "f32[2]", "f32[2]"},
       "{epsilon=0}",
       "expected [n, c, ...]"},
      {"batch_norm",
       {"f32[2,3]", "f32[3]", "f32[2]", "f32[3]", "f32[3]"},
       "{epsilon=0}",
       "operand 2 has type f32[2], expected [3]"},
      {"matmul", {"f32[2]", "f32[]"}, "", "operands must have rank 1 or more"},
      {"matmul", {"f32[4,2]", "f32[3,4]"}, "", "inner dimensions differ, 2 against 3"},
      {"matmul", {"f32[2,4,2]", "f32[3,2,4]"}, "", "do not broadcast"},
      {"matmul", {"f32[2,2]", "f64[2,2]"}, "", "dtypes f32 and f64", kType},
      {"linear",
       {"f32[2,4]", "f32[3,4]"},
       "{transposed=false}",
       "inner dimensions differ, [2,4] against weight [3,4]"},
      {"linear",
       {"f32[2,4]", "f32[4,3]", "f32[4]"},
       "{transposed=false}",
       "bias has shape [4], expected [3]"},
      {"linear", {"f32[2,4]", "f16[4,3]"}, "{transposed=false}", "operands differ in dtype", kType},
      {"linear", {"f32[2,4]", "f32[4]"}, "{transposed=false}", "expected rank 2"},
      {"embedding", {"f32[2,4]", "f32[4]"}, "", "operand 1 has dtype f32", kType},
      {"embedding", {"f32[2,4,2]", "i32[4]"}, "", "expected rank 2"},
      {"embedding", {"f32[0,4]", "i32[4]"}, "", "an empty table has no rows"},
      {"attention",
       {"f32[1,2,3]", "f32[1,2,3,4]", "f32[1,2,3,4]"},
       "{scale=0 causal=false}",
       "operand 0 has shape [1,2,3], expected rank 4"},
      {"attention",
       {"f32[1,2,3,4]", "f32[1,2,3,5]", "f32[1,2,3,4]"},
       "{scale=0 causal=false}",
       "do not fit"},
      {"attention",
       {"f32[1,3,3,4]", "f32[1,2,3,4]", "f32[1,2,3,4]"},
       "{scale=0 causal=false}",
       "3 query heads are no multiple of 2 key heads"},
      {"attention",
       {"f32[1,2,3,4]", "f32[1,2,3,4]", "f32[1,2,3,4]", "f32[5,3]"},
       "{scale=0 causal=false}",
       "do not broadcast"},
      {"attention",
       {"f32[1,2,3,4]", "f32[1,2,3,4]", "f32[1,2,3,4]", "i32[3,3]"},
       "{scale=0 causal=false}",
       "the mask must be bool or of the dtype of q",
       kType},
  };
  for (const Case& c : cases) {
    auto got = infer(c);
    ASSERT_FALSE(got) << c.op << " " << c.attrs << " gives " << *got;
    EXPECT_EQ(got.error().code(), c.code) << c.op << ": " << got.error().text();
    EXPECT_NE(got.error().message().find(c.want), std::string::npos)
        << c.op << " says: " << got.error().message();
  }
}

// The extents of a window are the same whether a size is a number or a symbol with that value.
TEST(Infer, WindowExtentsAgreeWithTheirSymbols) {
  for (int64_t n = 1; n < 12; ++n)
    for (int64_t window = 1; window < 4; ++window)
      for (int64_t stride = 1; stride < 4; ++stride)
        for (int64_t pad = 0; pad < window; ++pad)
          for (const char* ceil : {"true", "false"}) {
            const std::string attrs =
                "{kind=max window=[" + std::to_string(window) + "] strides=[" +
                std::to_string(stride) + "] dilations=[1] padLow=[" + std::to_string(pad) +
                "] padHigh=[" + std::to_string(pad) + "] countPadding=false ceilMode=" + ceil + "}";
            if (n + 2 * pad < window) continue;
            const std::string fixed = "f32[1,1," + std::to_string(n) + "]";
            auto a = infer({"pool", {fixed.c_str()}, attrs.c_str(), ""});
            auto b = infer({"pool", {"f32[1,1,n]"}, attrs.c_str(), ""});
            ASSERT_TRUE(a && b);
            Bindings bind;
            bind.set("n", n);
            EXPECT_EQ(type(*a).shape[2].value(), *type(*b).shape[2].evaluate(bind))
                << *b << " n=" << n;
          }
}

}  // namespace
}  // namespace rlx
