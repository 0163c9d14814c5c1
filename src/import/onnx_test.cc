#include "import/onnx.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/fuzz.h"
#include "ir/builder.h"
#include "ops/interpreter.h"

RLX_FUZZ_TARGET(fuzzOnnx);

namespace rlx {
namespace {

// ---- Files, in protobuf's wire format
// ---------------------------------------------------------------

std::string varint(uint64_t v) {
  std::string out;
  for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
  return out + static_cast<char>(v);
}
std::string number(uint64_t field, int64_t v) {
  return varint(field << 3) + varint(static_cast<uint64_t>(v));
}
std::string bytes(uint64_t field, std::string_view payload) {
  return varint(field << 3 | 2) + varint(payload.size()) + std::string(payload);
}

std::string floats(const std::vector<float>& v) {
  return std::string(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float));
}
std::string longs(const std::vector<int64_t>& v) {
  return std::string(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(int64_t));
}

constexpr int kFloat = 1, kUint8 = 2, kInt8 = 3, kInt64 = 7, kString = 8;

std::string tensor(std::string_view name, int type, const std::vector<int64_t>& dims,
                   std::string_view raw) {
  std::string t;
  for (const int64_t d : dims) t += number(1, d);
  return t + number(2, type) + bytes(8, name) + bytes(9, raw);
}

std::string attribute(std::string_view name, int64_t v) {
  return bytes(5, bytes(1, name) + number(20, 2) + number(3, v));
}
std::string graphAttribute(std::string_view name, std::string_view graph) {
  return bytes(5, bytes(1, name) + number(20, 5) + bytes(6, graph));
}

std::string node(std::string_view op, const std::vector<std::string>& in,
                 const std::vector<std::string>& out, std::string_view attributes = {},
                 std::string_view domain = {}) {
  std::string n;
  for (const std::string& s : in) n += bytes(1, s);
  for (const std::string& s : out) n += bytes(2, s);
  n += bytes(3, out[0] + "_node") + bytes(4, op) + std::string(attributes);
  return bytes(1, domain.empty() ? n : n + bytes(7, domain));
}

// A dim is a number, or a symbol when it does not start with a digit; empty is unknown.
std::string port(uint64_t field, std::string_view name, int type,
                 const std::vector<std::string>& dims) {
  std::string shape;
  for (const std::string& d : dims)
    shape += bytes(1, d.empty()                    ? std::string()
                      : d[0] >= '0' && d[0] <= '9' ? number(1, std::stoll(d))
                                                   : bytes(2, d));
  const std::string type_ = number(1, type) + bytes(2, shape);
  return bytes(field, bytes(1, name) + bytes(2, bytes(1, type_)));
}
std::string input(std::string_view name, int type, const std::vector<std::string>& dims) {
  return port(11, name, type, dims);
}
std::string output(std::string_view name) {
  return port(12, name, kFloat, {});
}
std::string initializer(const std::string& t) {
  return bytes(5, t);
}

std::string model(std::string_view graph, int64_t opset = 17, std::string_view more = {}) {
  return number(1, 8) + bytes(8, number(2, opset)) + bytes(7, graph) + std::string(more);
}

Result<Graph> import(std::string file, const OnnxOptions& options = {}) {
  return importOnnx(MappedFile::fromBytes("m.onnx", std::move(file)), "no-such-folder", options);
}

// Imports and runs; inputs are f32.
std::vector<double> run(const std::string& file, const std::vector<RefTensor>& inputs) {
  auto graph = import(file);
  EXPECT_TRUE(graph) << graph.error().text();
  if (!graph) return {};
  auto out = interpret(*graph, inputs);
  EXPECT_TRUE(out) << out.error().text();
  if (!out) return {};
  std::vector<double> v;
  for (int64_t k = 0; k < (*out)[0].elements(); ++k) v.push_back((*out)[0].number(k));
  return v;
}

RefTensor values(std::vector<int64_t> shape, const std::vector<double>& v) {
  RefTensor t(DType::F32, std::move(shape));
  for (std::size_t k = 0; k < v.size(); ++k) t.setNumber(static_cast<int64_t>(k), v[k]);
  return t;
}

// ---- What imports
// ----------------------------------------------------------------------------------

TEST(Onnx, ImportsWithRawDataInPlace) {
  const std::string file =
      model(input("x", kFloat, {"2"}) + initializer(tensor("w", kFloat, {2}, floats({3, 4}))) +
            node("Mul", {"x", "w"}, {"y"}) + output("y"));
  EXPECT_EQ(run(file, {values({2}, {5, 6})}), (std::vector<double>{15, 24}));
  const auto mapped = MappedFile::fromBytes("m.onnx", file);
  auto graph = importOnnx(mapped, ".");
  ASSERT_TRUE(graph);
  for (const Node& n : graph->nodes)
    if (n.op == OpKind::Constant) {
      const std::byte* at = n.attrs.as<ConstantAttrs>().value.bytes.data();
      EXPECT_GE(at, mapped->bytes().data());
      EXPECT_LT(at, mapped->bytes().data() + mapped->size());
    }
}

TEST(Onnx, ShapeArithmeticBecomesDims) {
  // y = reshape(x, [shape(x)[0], -1]) for x [n, 2, 3].
  const std::string graph =
      input("x", kFloat, {"n", "2", "3"}) + initializer(tensor("zero", kInt64, {}, longs({0}))) +
      initializer(tensor("axes", kInt64, {1}, longs({0}))) +
      initializer(tensor("rest", kInt64, {1}, longs({-1}))) + node("Shape", {"x"}, {"s"}) +
      node("Gather", {"s", "zero"}, {"n0"}) + node("Unsqueeze", {"n0", "axes"}, {"n1"}) +
      node("Concat", {"n1", "rest"}, {"to"}, attribute("axis", 0)) +
      node("Reshape", {"x", "to"}, {"y"}) + output("y");
  auto g = import(model(graph));
  ASSERT_TRUE(g) << g.error().text();
  EXPECT_EQ(text(g->type(g->outputs[0].value)), "f32[n,6]");
}

TEST(Onnx, OpsetsMoveAxesFromAttributesToInputs) {
  const std::string x = input("x", kFloat, {"2", "3"}), y = output("y");
  const std::string axes = initializer(tensor("a", kInt64, {1}, longs({1})));
  const std::string old = bytes(5, bytes(1, "axes") + number(20, 7) + number(8, 1));
  const RefTensor v = values({2, 3}, {1, 2, 3, 4, 5, 6});
  const std::vector<double> sums{6, 15};
  EXPECT_EQ(run(model(x + node("ReduceSum", {"x"}, {"y"}, old) + y, 11), {v}), sums);
  EXPECT_EQ(run(model(x + axes + node("ReduceSum", {"x", "a"}, {"y"}) + y, 13), {v}), sums);
}

TEST(Onnx, MatMulIntegerTakesZeroPointsAway) {
  struct Case {
    std::vector<std::string> zeroPoints;
    std::vector<double> want;
    int64_t reduces, ofConstant;  // sums when it runs, of any weight and of a constant one
  };
  // [[250, 3], [0, 7]] less 128 or less 128 and 1, by [[-128, 5, 127], [9, -1, 0]] less 0 or less
  // -2, 0 and 3, each row by each column.
  const Case cases[] = {
      {{}, {-31973, 1247, 31750, 63, -7, 0}, 0, 0},
      {{"none", "zeros"}, {-31973, 1247, 31750, 63, -7, 0}, 0, 0},
      {{"middle"}, {-16741, 735, 15494, 15295, -519, -16256}, 1, 0},
      {{"rows"}, {-16741, 735, 15494, 182, -11, -127}, 1, 0},
      {{"none", "columns"}, {-31467, 1247, 30991, 77, -7, -21}, 1, 1},
      {{"rows", "columns"}, {-16747, 735, 15503, 192, -11, -142}, 2, 1},
  };
  const std::string weight("\x80\x05\x7f\x09\xff\x00", 6);
  const std::string constants = initializer(tensor("constant", kInt8, {2, 3}, weight)) +
                                initializer(tensor("none", kUint8, {}, std::string(1, '\0'))) +
                                initializer(tensor("zeros", kInt8, {3}, std::string(3, '\0'))) +
                                initializer(tensor("middle", kUint8, {}, "\x80")) +
                                initializer(tensor("rows", kUint8, {2}, "\x80\x01")) +
                                initializer(tensor("columns", kInt8, {3}, {"\xfe\x00\x03", 3}));
  RefTensor x(DType::U8, {2, 2}), w(DType::I8, {2, 3});
  x.i = {250, 3, 0, 7}, w.i = {-128, 5, 127, 9, -1, 0};
  for (const Case& c : cases)
    for (const char* name : {"w", "constant"}) {
      std::vector<std::string> in{"x", name};
      in.insert(in.end(), c.zeroPoints.begin(), c.zeroPoints.end());
      const std::string file =
          model(input("x", kUint8, {"2", "2"}) + input("w", kInt8, {"2", "3"}) + constants +
                node("MatMulInteger", in, {"y"}) + output("y"));
      EXPECT_EQ(run(file, {x, w}), c.want) << name;
      auto graph = import(file);
      ASSERT_TRUE(graph);
      const auto count = [&](OpKind op) {
        return std::count_if(graph->nodes.begin(), graph->nodes.end(),
                             [op](const Node& n) { return n.op == op; });
      };
      EXPECT_EQ(count(OpKind::DotGeneral), 1);
      EXPECT_EQ(count(OpKind::Reduce), name[0] == 'w' ? c.reduces : c.ofConstant);
    }
}

TEST(Onnx, MatMulIntegerOfVectorsAndOfNothing) {
  const std::string zero = initializer(tensor("z", kUint8, {}, "\x02"));
  const std::string vectors =
      model(input("x", kUint8, {"3"}) + input("w", kUint8, {"3"}) + zero +
            node("MatMulInteger", {"x", "w", "z", "z"}, {"y"}) + output("y"));
  RefTensor x(DType::U8, {3}), w(DType::U8, {3});
  x.i = {1, 2, 3}, w.i = {10, 20, 255};
  EXPECT_EQ(run(vectors, {x, w}), std::vector<double>{245});
  // A weight without bytes says nothing about the memory of its sums.
  const std::string empty = model(
      input("x", kUint8, {"0", "0"}) + initializer(tensor("w", kUint8, {0, int64_t{1} << 39}, "")) +
      zero + node("MatMulInteger", {"x", "w", "z"}, {"y"}) + output("y"));
  auto graph = import(empty);
  EXPECT_TRUE(graph) << graph.error().text();
}

TEST(Onnx, UnknownDimsGetSymbols) {
  auto g = import(model(input("x", kFloat, {"", "batch size", "batch_size"}) +
                        node("Relu", {"x"}, {"y"}) + output("y")));
  ASSERT_TRUE(g) << g.error().text();
  EXPECT_EQ(text(g->type(g->inputs[0].value)), "f32[x_dim0,batch_size,batch_size_2]");
}

TEST(Onnx, InlinesFunctionsAndConstantBranches) {
  const std::string body = bytes(1, "Twice") + bytes(4, "a") + bytes(5, "b") +
                           bytes(7, node("Add", {"a", "a"}, {"b"}).substr(2)) +
                           bytes(9, number(2, 17)) + bytes(10, "mine");
  const std::string call =
      input("x", kFloat, {"1"}) + node("Twice", {"x"}, {"y"}, {}, "mine") + output("y");
  EXPECT_EQ(run(model(call, 17, bytes(25, body) + bytes(8, bytes(1, "mine") + number(2, 1))),
                {values({1}, {4})}),
            std::vector<double>{8});
  const std::string yes = node("Neg", {"x"}, {"t"}) + output("t"),
                    no = node("Abs", {"x"}, {"e"}) + output("e");
  const std::string branches =
      graphAttribute("then_branch", yes) + graphAttribute("else_branch", no);
  const std::string choice = input("x", kFloat, {"1"}) +
                             initializer(tensor("c", 9, {}, std::string(1, '\1'))) +
                             node("If", {"c"}, {"y"}, branches) + output("y");
  EXPECT_EQ(run(model(choice), {values({1}, {4})}), std::vector<double>{-4});
}

TEST(Onnx, AsksForInputsAndTakesThem) {
  const std::string file = model(input("x", kFloat, {"6"}) + input("to", kInt64, {"2"}) +
                                 node("Reshape", {"x", "to"}, {"y"}) + output("y"));
  std::vector<std::string> wanted;
  OnnxOptions options;
  options.wantedInputs = &wanted;
  auto first = import(file, options);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code(), Errc::Unsupported);
  ASSERT_EQ(wanted, std::vector<std::string>{"to"});
  options.fixedInputs = {{"to", Literal::of(DType::I64, {2}, std::vector<int64_t>{2, 3})}};
  auto second = import(file, options);
  ASSERT_TRUE(second) << second.error().text();
  EXPECT_EQ(second->inputs.size(), 1u);
  EXPECT_EQ(text(second->type(second->outputs[0].value)), "f32[2,3]");
  options.fixedInputs = {{"to", Literal::of(DType::I64, {1}, std::vector<int64_t>{6})}};
  auto third = import(file, options);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code(), Errc::InputType);
}

TEST(Onnx, ListsEverythingUnsupported) {
  auto g = import(model(input("x", kFloat, {"2"}) + node("Frobnicate", {"x"}, {"a"}) +
                        node("LSTM", {"a", "a", "a"}, {"b"}) + node("Relu", {"b"}, {"c"}) +
                        node("Other", {"c"}, {"y"}, {}, "com.example") + output("y")));
  ASSERT_FALSE(g);
  EXPECT_EQ(g.error().code(), Errc::Unsupported);
  EXPECT_EQ(g.error().message(), "3 parts of the model are not supported");
  ASSERT_EQ(g.error().notes().size(), 4u);
  EXPECT_EQ(g.error().notes()[0],
            "node 0 'a_node' (Frobnicate, opset 17): the op is not supported");
  EXPECT_EQ(g.error().notes()[1],
            "node 1 'b_node' (LSTM, opset 17): recurrent layers are not supported");
  EXPECT_EQ(g.error().notes()[2],
            "node 3 'y_node' (com.example::Other, opset 0): the op is not supported");
}

// ---- What does not
// ---------------------------------------------------------------------------------

TEST(Onnx, RefusesWhatIsNotWellFormed) {
  const std::string x = input("x", kFloat, {"2"}), y = output("y");
  const std::string relu = node("Relu", {"x"}, {"y"});
  const std::string external = number(1, 1) + number(2, kFloat) + bytes(8, "w") + number(14, 1);
  auto location = [&](std::string_view where) {
    return initializer(external + bytes(13, bytes(1, "location") + bytes(2, where)));
  };
  std::string nested = node("Relu", {"x"}, {"t"}) + output("t");
  for (int k = 0; k < 200; ++k)
    nested = node("If", {"x"}, {"t"}, graphAttribute("then_branch", nested));
  struct Case {
    std::string file;
    Errc code;
    std::string_view message;
  };
  const Case cases[] = {
      {"", Errc::BadFile, "the model has no graph"},
      {"\x07", Errc::BadFile, "field number 0 at offset 0"},
      {bytes(7, "abc").substr(0, 3), Errc::FileTruncated, "has 3 bytes, 1 are left"},
      {varint(7 << 3 | 2) + varint(uint64_t{1} << 62), Errc::FileTruncated,
       "has 4611686018427387904 bytes, 0 are left"},
      {std::string(11, '\xff'), Errc::BadFile, "a number longer than 10 bytes"},
      {model(x + node("Relu", {"z"}, {"y"}) + y), Errc::BadGraph,
       "node 0 'y_node' (Relu, opset 17): input 'z' is not defined before the node"},
      {model(x + node("Add", {"x", "b"}, {"y"}) + node("Relu", {"y"}, {"b"}) + y), Errc::BadGraph,
       "input 'b' is not defined before the node"},
      {model(x + relu + relu + y), Errc::BadGraph, "the name 'y' is defined twice"},
      {model(x + x + relu + y), Errc::BadGraph, "the input name 'x' is used twice"},
      {model(x + relu + output("z")), Errc::BadGraph, "graph output 'z' is not defined"},
      {model(x + node("Add", {"x"}, {"y"}) + y), Errc::BadGraph, "1 inputs, expected 2 to 2"},
      {model(x + node("Concat", {"x", "x"}, {"y"}, bytes(5, bytes(1, "axis") + number(20, 3))) + y),
       Errc::BadAttribute, "attribute 'axis' is not an integer"},
      {model(x + initializer(tensor("w", kFloat, {2}, "abc")) + relu + y), Errc::BadFile,
       "tensor 'w': shape [2] of float needs 8 bytes, raw_data has 3"},
      {model(x + initializer(tensor("w", kFloat, {-2}, "")) + relu + y), Errc::BadFile,
       "tensor 'w': negative extent -2"},
      {model(x + initializer(tensor("w", kFloat, {int64_t{1} << 40, int64_t{1} << 40}, "")) + relu +
             y),
       Errc::FileBudget, "tensor 'w': shape [1099511627776,1099511627776] has more than"},
      {model(x + initializer(tensor("w", 9, {1}, "\x02")) + relu + y), Errc::BadFile,
       "a bool that is neither 0 nor 1"},
      {model(x + location("../w") + relu + y), Errc::UnsafePath, "'../w'"},
      {model(x + location("/etc/passwd") + relu + y), Errc::UnsafePath, "'/etc/passwd'"},
      {model(x + location("gone") + relu + y), Errc::NotFound, "gone"},
      {model(input("x", kFloat, {"4611686018427387904"}) + relu + y), Errc::BadFile,
       "value 'x': extent 4611686018427387904"},
      {model(x + node("If", {"x"}, {"y"}, graphAttribute("then_branch", nested)) + y),
       Errc::BadFile, "nested too deeply"},
      {model(input("x", kString, {"2"}) + relu + y), Errc::Unsupported, "dtype string"},
      {model(x + relu + y, 99), Errc::Unsupported, "opset 99 is not known"},
  };
  for (const Case& c : cases) {
    auto result = import(c.file);
    ASSERT_FALSE(result) << c.message;
    EXPECT_EQ(result.error().code(), c.code) << result.error().text();
    EXPECT_NE(result.error().text().find(c.message), std::string::npos)
        << "expected: " << c.message << "\nfound: " << result.error().text();
  }
}

TEST(Onnx, RefusesRecursiveFunctions) {
  const std::string body = bytes(1, "F") + bytes(4, "a") + bytes(5, "b") +
                           bytes(7, node("F", {"a"}, {"b"}, {}, "mine").substr(2)) +
                           bytes(10, "mine");
  auto g =
      import(model(input("x", kFloat, {"1"}) + node("F", {"x"}, {"y"}, {}, "mine") + output("y"),
                   17, bytes(25, body)));
  ASSERT_FALSE(g);
  EXPECT_EQ(g.error().code(), Errc::FileBudget) << g.error().text();
}

TEST(Onnx, ReadsExternalDataInsideTheFolderOnly) {
  std::string pattern = ::testing::TempDir() + "/rlx_onnx_XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const std::string folder = pattern + "/m";
  ASSERT_TRUE(makeFolders(folder));
  ASSERT_TRUE(writeFileAtomic(folder + "/w.bin", "skip" + floats({7})));
  ASSERT_TRUE(writeFileAtomic(pattern + "/outside.bin", floats({7})));
  ASSERT_EQ(::symlink("../outside.bin", (folder + "/link.bin").c_str()), 0);
  auto load = [&](std::string_view where, std::string_view offset) {
    auto entry = [](std::string_view key, std::string_view v) {
      return bytes(13, bytes(1, key) + bytes(2, v));
    };
    const std::string w = number(1, 1) + number(2, kFloat) + bytes(8, "w") + number(14, 1) +
                          entry("location", where) + entry("offset", offset);
    const std::string file = model(input("x", kFloat, {"1"}) + initializer(w) +
                                   node("Add", {"x", "w"}, {"y"}) + output("y"));
    EXPECT_TRUE(writeFileAtomic(folder + "/model.onnx", file));
    return importOnnx(folder + "/model.onnx");
  };
  auto good = load("w.bin", "4");
  ASSERT_TRUE(good) << good.error().text();
  const std::vector<RefTensor> x{values({1}, {1})};
  EXPECT_EQ((*interpret(*good, x))[0].number(0), 8);
  auto late = load("w.bin", "8");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Errc::FileTruncated) << late.error().text();
  auto odd = load("w.bin", "-4");
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().code(), Errc::BadFile) << odd.error().text();
  auto link = load("link.bin", "0");
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code(), Errc::UnsafePath) << link.error().text();
  const std::string command = "rm -rf '" + pattern + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(Onnx, ReadsTensorFiles) {
  auto t = parseOnnxTensor(MappedFile::fromBytes("t.pb", tensor("x", kInt64, {2}, longs({5, -6}))));
  ASSERT_TRUE(t) << t.error().text();
  EXPECT_EQ(t->name, "x");
  EXPECT_EQ(t->value, Literal::of(DType::I64, {2}, std::vector<int64_t>{5, -6}));
  auto s = parseOnnxTensor(MappedFile::fromBytes("t.pb", tensor("x", kString, {0}, "")));
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code(), Errc::Unsupported);
}

TEST(Onnx, SurvivesMutations) {
  const std::string all = input("x", kFloat, {"n", "2", "4", "4"}) +
                          initializer(tensor("w", kFloat, {2, 2, 1, 1}, floats({1, 2, 3, 4}))) +
                          initializer(tensor("s", kInt64, {2}, longs({0, -1}))) +
                          node("Conv", {"x", "w"}, {"c"}) + node("Shape", {"c"}, {"d"}) +
                          node("Slice", {"c", "s", "d"}, {"e"}) +
                          node("Reshape", {"e", "s"}, {"f"}) +
                          node("ReduceMean", {"f"}, {"g"}, attribute("keepdims", 0)) +
                          node("Split", {"f"}, {"h", "i"}, attribute("axis", 1)) +
                          node("Concat", {"h", "i"}, {"y"}, attribute("axis", 0)) + output("y");
  fuzzMutations(fuzzOnnx,
                {model(all), model(all, 11),
                 model(input("x", kFloat, {"2"}) + node("Softmax", {"x"}, {"y"}) + output("y"), 9)},
                4000);
}

}  // namespace
}  // namespace rlx
