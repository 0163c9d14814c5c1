// The C interface from inside: ownership, errors, bad arguments.
#include <gtest/gtest.h>
#include <rlx/rlx.h>

#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr const char* kText = R"(graph "g" model {
  %0:f32[n] = input() {name="x" dtype=f32 shape=[n]}
  %1:f32[n] = exp(%0) @"/e"
  output "y" = %1
}
)";

// The code of an error, which it frees; 0 for success. `text` receives everything it says.
int code(rlx_error* e, std::string* text = nullptr) {
  const int c = rlx_error_code(e);
  if (text) *text = rlx_error_text(e);
  rlx_error_free(e);
  return c;
}

rlx_model* model() {
  rlx_model* m = nullptr;
  EXPECT_EQ(code(rlx_model_parse(kText, std::strlen(kText), &m)), 0);
  return m;
}

TEST(CInterface, RunsAModel) {
  rlx_model* m = model();
  EXPECT_EQ(rlx_model_input_count(m), 1u);
  EXPECT_STREQ(rlx_model_input_name(m, 0), "x");
  EXPECT_STREQ(rlx_model_input_type(m, 0), "f32[n]");
  EXPECT_STREQ(rlx_model_output_type(m, 0), "f32[n]");
  EXPECT_EQ(rlx_model_input_name(m, 1), nullptr);
  char* text = nullptr;
  ASSERT_EQ(code(rlx_model_print(m, &text)), 0);
  EXPECT_STREQ(text, kText);
  rlx_string_free(text);

  rlx_options o = RLX_OPTIONS_INIT;
  o.device = "reference";
  rlx_executable* exe = nullptr;
  ASSERT_EQ(code(rlx_compile(m, &o, &exe)), 0);
  rlx_model_free(m);  // the executable does not need it
  const float values[] = {0, 1};
  const int64_t shape[] = {2};
  rlx_tensor* x = nullptr;
  ASSERT_EQ(code(rlx_tensor_create(RLX_F32, shape, 1, values, sizeof values, &x)), 0);
  const char* names[] = {"x"};
  const rlx_tensor* inputs[] = {x};
  rlx_tensor* y = nullptr;
  ASSERT_EQ(code(rlx_executable_run(exe, names, inputs, 1, &y)), 0);
  ASSERT_EQ(rlx_executable_output_count(exe), 1u);
  EXPECT_STREQ(rlx_executable_output_name(exe, 0), "y");
  ASSERT_EQ(rlx_tensor_bytes(y), 8u);
  EXPECT_EQ(rlx_tensor_dtype(y), RLX_F32);
  EXPECT_EQ(rlx_tensor_rank(y), 1u);
  EXPECT_EQ(rlx_tensor_shape(y)[0], 2);
  const auto* out = static_cast<const float*>(rlx_tensor_data(y));
  EXPECT_EQ(out[0], 1);
  EXPECT_NEAR(static_cast<double>(out[1]), 2.718281828, 1e-6);
  char* report = nullptr;
  ASSERT_EQ(code(rlx_executable_explain(exe, RLX_JSON, &report)), 0);
  EXPECT_NE(std::strstr(report, "\"/e\""), nullptr);
  rlx_string_free(report);
  // The wrong name: the number, the text and no output.
  names[0] = "z";
  rlx_tensor* none = nullptr;
  std::string said;
  EXPECT_EQ(code(rlx_executable_run(exe, names, inputs, 1, &none), &said), 110);
  EXPECT_NE(said.find("error E0110: the program has no input 'z'; it has: 'x'"), std::string::npos);
  EXPECT_EQ(none, nullptr);
  rlx_tensor_free(x);
  rlx_tensor_free(y);
  rlx_executable_free(exe);
}

TEST(CInterface, BadArgumentsAreErrors) {
  rlx_model* m = model();
  rlx_model* other = nullptr;
  rlx_executable* exe = nullptr;
  rlx_tensor* t = nullptr;
  char* text = nullptr;
  const int64_t negative[] = {-1}, huge[] = {INT64_MAX, 2}, two[] = {2};
  EXPECT_EQ(code(rlx_model_load(nullptr, &other)), 101);
  EXPECT_EQ(code(rlx_model_load("/nowhere/model.onnx", &other)), 103);
  EXPECT_EQ(code(rlx_model_parse(kText, 20, &other)), 204);
  EXPECT_EQ(code(rlx_model_print(nullptr, &text)), 101);
  EXPECT_EQ(code(rlx_compile(nullptr, nullptr, &exe)), 101);
  EXPECT_EQ(code(rlx_compile(m, nullptr, nullptr)), 101);
  EXPECT_EQ(code(rlx_executable_run(nullptr, nullptr, nullptr, 0, nullptr)), 101);
  EXPECT_EQ(code(rlx_tensor_create(RLX_F32, negative, 1, nullptr, 0, &t)), 101);
  EXPECT_EQ(code(rlx_tensor_create(RLX_F32, huge, 2, nullptr, 0, &t)), 101);
  EXPECT_EQ(code(rlx_tensor_create(RLX_F32, two, 1, negative, 7, &t)), 101);
  EXPECT_EQ(code(rlx_tensor_create(static_cast<rlx_dtype>(77), two, 1, nullptr, 0, &t)), 101);
  EXPECT_EQ(code(rlx_tensor_create(RLX_F32, nullptr, 1, nullptr, 0, &t)), 101);
  EXPECT_EQ(code(rlx_tensor_from_npy("/nowhere.npy", &t)), 103);
  rlx_options o = RLX_OPTIONS_INIT;
  o.device = "gpu9";
  EXPECT_EQ(code(rlx_compile(m, &o, &exe)), 501);
  o = RLX_OPTIONS_INIT;
  o.policy = 9;
  EXPECT_EQ(code(rlx_compile(m, &o, &exe)), 101);
  o = RLX_OPTIONS_INIT;
  o.dim_count = 1;
  EXPECT_EQ(code(rlx_compile(m, &o, &exe)), 101);
  o = RLX_OPTIONS_INIT;
  o.size = 0;
  EXPECT_EQ(code(rlx_compile(m, &o, &exe)), 101);
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(exe, nullptr);
  EXPECT_EQ(t, nullptr);
  rlx_model_free(m);
}

TEST(CInterface, FreeingAndAskingNullDoesNothing) {
  rlx_error_free(nullptr);
  rlx_tensor_free(nullptr);
  rlx_model_free(nullptr);
  rlx_executable_free(nullptr);
  rlx_builder_free(nullptr);
  rlx_string_free(nullptr);
  EXPECT_EQ(rlx_error_code(nullptr), 0);
  EXPECT_STREQ(rlx_error_text(nullptr), "");
  EXPECT_EQ(rlx_tensor_data(nullptr), nullptr);
  EXPECT_EQ(rlx_model_input_count(nullptr), 0u);
  EXPECT_EQ(rlx_builder_rank(nullptr, 0), -1);
  EXPECT_EQ(rlx_version(), 1000u * RLX_VERSION_MINOR + 1000000u * RLX_VERSION_MAJOR);
}

// A caller compiled against a shorter struct: what it does not know keeps its default.
TEST(CInterface, OlderOptionsAreUnderstood) {
  rlx_model* m = model();
  rlx_options o = RLX_OPTIONS_INIT;
  o.size = offsetof(rlx_options, device_index);
  o.device = "reference";
  o.policy = 99;  // beyond the size: not read
  rlx_executable* exe = nullptr;
  EXPECT_EQ(code(rlx_compile(m, &o, &exe)), 0);
  rlx_executable_free(exe);
  rlx_model_free(m);
}

TEST(CInterface, ListsDevices) {
  char* json = nullptr;
  ASSERT_EQ(code(rlx_devices(&json)), 0);
  EXPECT_NE(std::strstr(json, "\"reference\""), nullptr) << json;
  rlx_string_free(json);
}

TEST(CInterface, BuildsGraphs) {
  rlx_builder* b = nullptr;
  ASSERT_EQ(code(rlx_builder_create("built", &b)), 0);
  const char* extents[] = {"2*n + 1", "4"};
  const uint32_t x = rlx_builder_input(b, "x", RLX_F32, extents, 2);
  const uint32_t y = rlx_builder_emit(b, "softmax", &x, 1, "{axis=1}");
  EXPECT_EQ(rlx_builder_rank(b, y), 2);
  EXPECT_EQ(rlx_builder_dtype(b, y), RLX_F32);
  rlx_builder_output(b, "y", y);
  rlx_model* m = nullptr;
  ASSERT_EQ(code(rlx_builder_finish(b, &m)), 0);
  EXPECT_STREQ(rlx_model_output_type(m, 0), "f32[2*n + 1,4]");
  rlx_model_free(m);
  rlx_builder_free(b);
}

TEST(CInterface, TheFirstErrorOfABuilderSticks) {
  const struct {
    uint32_t (*wrong)(rlx_builder*, uint32_t x);
    int code;
    const char* message;
  } cases[] = {
      {[](rlx_builder* b, uint32_t x) { return rlx_builder_emit(b, "softmax", &x, 1, "{axis=7}"); },
       303, "softmax: axis 7 is outside"},
      {[](rlx_builder* b, uint32_t x) { return rlx_builder_emit(b, "softmax", &x, 1, "{}"); }, 204,
       "attributes of softmax do not parse; fields: axis"},
      {[](rlx_builder* b, uint32_t x) { return rlx_builder_emit(b, "softmaxx", &x, 1, ""); }, 103,
       "there is no op 'softmaxx'"},
      {[](rlx_builder* b, uint32_t) {
         const uint32_t wrong = 9;
         return rlx_builder_emit(b, "exp", &wrong, 1, nullptr);
       },
       101, "there is no value 9"},
      {[](rlx_builder* b, uint32_t) {
         const char* extent = "n +";
         return rlx_builder_input(b, "z", RLX_F32, &extent, 1);
       },
       204, "dim 'n +'"},
      {[](rlx_builder* b, uint32_t) {
         const char* extent = "-3";
         return rlx_builder_input(b, "z", RLX_F32, &extent, 1);
       },
       101, "has extent -3"},
      {[](rlx_builder* b, uint32_t) { return rlx_builder_constant(b, "c", nullptr); }, 101, "NULL"},
      {[](rlx_builder* b, uint32_t) {
         return rlx_builder_emit(b, "iota", nullptr, 0, "{dtype=f32 shape=[ghost] axis=0}");
       },
       205, "symbol 'ghost' is in no input's type"},
  };
  for (const auto& c : cases) {
    rlx_builder* b = nullptr;
    ASSERT_EQ(code(rlx_builder_create(nullptr, &b)), 0);
    const char* extent = "4";
    const uint32_t x = rlx_builder_input(b, "x", RLX_F32, &extent, 1);
    rlx_builder_context(b, "/node", "place.c:7");
    const uint32_t y = c.wrong(b, x);
    rlx_builder_context(b, nullptr, nullptr);
    (void)rlx_builder_emit(b, "exp", &y, 1, nullptr);
    rlx_builder_output(b, "y", x);
    rlx_model* m = nullptr;
    rlx_error* e = rlx_builder_finish(b, &m);
    EXPECT_EQ(rlx_error_code(e), c.code) << rlx_error_text(e);
    EXPECT_NE(std::strstr(rlx_error_message(e), c.message), nullptr) << rlx_error_text(e);
    EXPECT_STREQ(rlx_error_node(e), "/node");
    rlx_error_free(e);
    EXPECT_EQ(m, nullptr);
    rlx_builder_free(b);
  }
}

}  // namespace
