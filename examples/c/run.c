/* Loads a model, runs it once on zeros and prints the first elements of its outputs.
 * usage: run MODEL [DEVICE]; symbols of the inputs become 1. */
#include <rlx/rlx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                    \
  do {                                                 \
    rlx_error* error_ = (call);                        \
    if (error_) {                                      \
      fprintf(stderr, "%s\n", rlx_error_text(error_)); \
      rlx_error_free(error_);                          \
      exit(1);                                         \
    }                                                  \
  } while (0)

/* Zeros of a type such as "f32[batch,4]". */
static rlx_tensor* zeros(const char* type) {
  int64_t shape[16];
  size_t rank = 0;
  const char* at = strchr(type, '[');
  rlx_tensor* tensor = NULL;
  rlx_dtype dtype = strncmp(type, "i64", 3) == 0 ? RLX_I64 : RLX_F32;
  while (at && *at && *at != ']' && at[1] != ']' && rank < 16) {
    char* end = NULL;
    const long n = strtol(at + 1, &end, 10);
    shape[rank++] = end == at + 1 ? 1 : n;
    at = strpbrk(at + 1, ",]");
  }
  CHECK(rlx_tensor_create(dtype, shape, rank, NULL, 0, &tensor));
  return tensor;
}

int main(int argc, char** argv) {
  rlx_model* model = NULL;
  rlx_executable* exe = NULL;
  rlx_options options = RLX_OPTIONS_INIT;
  const char* names[16];
  rlx_tensor* inputs[16];
  rlx_tensor* outputs[16];
  size_t count, k;
  char* report = NULL;
  if (argc < 2) {
    fprintf(stderr, "usage: run MODEL [DEVICE]\n");
    return 2;
  }
  if (argc > 2) options.device = argv[2];
  CHECK(rlx_model_load(argv[1], &model));
  count = rlx_model_input_count(model);
  if (count > 16 || rlx_model_output_count(model) > 16) return 2;
  for (k = 0; k < count; ++k) {
    names[k] = rlx_model_input_name(model, k);
    inputs[k] = zeros(rlx_model_input_type(model, k));
  }
  CHECK(rlx_compile(model, &options, &exe));
  CHECK(rlx_executable_run(exe, names, (const rlx_tensor* const*)inputs, count, outputs));
  for (k = 0; k < rlx_executable_output_count(exe); ++k) {
    printf("%s: %zu bytes", rlx_executable_output_name(exe, k), rlx_tensor_bytes(outputs[k]));
    if (rlx_tensor_dtype(outputs[k]) == RLX_F32 && rlx_tensor_bytes(outputs[k]) > 0)
      printf(", first element %g", (double)*(const float*)rlx_tensor_data(outputs[k]));
    printf("\n");
    rlx_tensor_free(outputs[k]);
  }
  CHECK(rlx_executable_explain(exe, RLX_TEXT, &report));
  printf("%s", report);
  rlx_string_free(report);
  for (k = 0; k < count; ++k) rlx_tensor_free(inputs[k]);
  rlx_executable_free(exe);
  rlx_model_free(model);
  return 0;
}
