/* RLX, the C interface: load or build a model, compile it for a device, run it.
 *
 * Rules of the whole interface. A function that can fail returns an rlx_error*, NULL on success; the
 * caller frees it. Results come through the last pointers and are untouched on failure. What a
 * function returns through a pointer to a handle or a char* belongs to the caller, who frees it with
 * the function of that type; freeing NULL does nothing. Strings are UTF-8 and end with a zero byte.
 * Pointers that accessors return live as long as their handle. An executable and a builder serve one
 * thread at a time; models, tensors and errors are immutable and may be shared. No function throws.
 */
#ifndef RLX_RLX_H
#define RLX_RLX_H

#include <stddef.h>
#include <stdint.h>

#define RLX_VERSION_MAJOR 0
#define RLX_VERSION_MINOR 1
#define RLX_VERSION_PATCH 0

#if defined(__GNUC__)
#define RLX_API __attribute__((visibility("default")))
#else
#define RLX_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rlx_error rlx_error;
typedef struct rlx_model rlx_model;
typedef struct rlx_tensor rlx_tensor;
typedef struct rlx_executable rlx_executable;
typedef struct rlx_builder rlx_builder;

/* The version of the library that is loaded, major * 1000000 + minor * 1000 + patch. */
RLX_API uint32_t rlx_version(void);

/* ---- Errors ---- */

/* The stable number: 412 for E0412. */
RLX_API int32_t rlx_error_code(const rlx_error* error);
RLX_API const char* rlx_error_message(const rlx_error* error);
/* The model node the error belongs to, and what to do about it; empty when there is nothing to say. */
RLX_API const char* rlx_error_node(const rlx_error* error);
RLX_API const char* rlx_error_hint(const rlx_error* error);
/* What was being done, innermost first; NULL beyond the last. */
RLX_API size_t rlx_error_note_count(const rlx_error* error);
RLX_API const char* rlx_error_note(const rlx_error* error, size_t index);
/* Everything as several lines for a person. */
RLX_API const char* rlx_error_text(const rlx_error* error);
RLX_API void rlx_error_free(rlx_error* error);

RLX_API void rlx_string_free(char* string);

/* ---- Tensors: dtype, shape and row-major little-endian bytes in host memory ---- */

typedef enum rlx_dtype {
  RLX_F64 = 0,
  RLX_F32 = 1,
  RLX_F16 = 2,
  RLX_BF16 = 3,
  RLX_C64 = 4,
  RLX_I8 = 5,
  RLX_I16 = 6,
  RLX_I32 = 7,
  RLX_I64 = 8,
  RLX_U8 = 9,
  RLX_U16 = 10,
  RLX_U32 = 11,
  RLX_U64 = 12,
  RLX_BOOL = 13, /* one byte, 0 or 1 */
  RLX_I4 = 14,   /* two to a byte, low half first */
  RLX_U4 = 15,
  RLX_C128 = 16,
  RLX_F8E4M3FN = 17,
  RLX_F8E5M2 = 18,
  RLX_F4E2M1 = 19
} rlx_dtype;

/* Copies `bytes` bytes, which must be what the shape takes. NULL data: zeros. */
RLX_API rlx_error* rlx_tensor_create(rlx_dtype dtype, const int64_t* shape, size_t rank,
                                     const void* data, size_t bytes, rlx_tensor** tensor);
RLX_API rlx_error* rlx_tensor_from_npy(const char* path, rlx_tensor** tensor);
RLX_API rlx_error* rlx_tensor_to_npy(const rlx_tensor* tensor, const char* path);
RLX_API int32_t rlx_tensor_dtype(const rlx_tensor* tensor);
RLX_API size_t rlx_tensor_rank(const rlx_tensor* tensor);
RLX_API const int64_t* rlx_tensor_shape(const rlx_tensor* tensor);
RLX_API const void* rlx_tensor_data(const rlx_tensor* tensor);
RLX_API size_t rlx_tensor_bytes(const rlx_tensor* tensor);
RLX_API void rlx_tensor_free(rlx_tensor* tensor);

/* ---- Models ---- */

/* From a file or folder: ONNX, a Hugging Face folder, the text or binary form of a graph. */
RLX_API rlx_error* rlx_model_load(const char* path, rlx_model** model);
/* From the text form of a graph. */
RLX_API rlx_error* rlx_model_parse(const char* text, size_t length, rlx_model** model);
/* The text form. */
RLX_API rlx_error* rlx_model_print(const rlx_model* model, char** text);
RLX_API size_t rlx_model_input_count(const rlx_model* model);
RLX_API size_t rlx_model_output_count(const rlx_model* model);
/* NULL beyond the last. A type reads "f32[batch,384]". */
RLX_API const char* rlx_model_input_name(const rlx_model* model, size_t index);
RLX_API const char* rlx_model_input_type(const rlx_model* model, size_t index);
RLX_API const char* rlx_model_output_name(const rlx_model* model, size_t index);
RLX_API const char* rlx_model_output_type(const rlx_model* model, size_t index);
RLX_API void rlx_model_free(rlx_model* model);

/* ---- Compiling and running ---- */

typedef enum rlx_policy {
  RLX_PREFER_NATIVE = 0, /* a kernel of the device's own where one accepts the node */
  RLX_FORCE_COMMON = 1,  /* the common lowering everywhere */
  RLX_FORCE_NATIVE = 2   /* fails where no kernel of the device's own accepts */
} rlx_policy;

typedef struct rlx_dim {
  const char* symbol;
  int64_t value;
} rlx_dim;

/* Start from RLX_OPTIONS_INIT. The size says which fields the caller knows: later versions append. */
typedef struct rlx_options {
  size_t size;
  const char* device; /* NULL: "cpu" */
  int32_t device_index;
  int32_t threads; /* 0: what the process may use */
  int32_t policy;  /* rlx_policy */
  const rlx_dim* dims; /* symbols fixed to a value */
  size_t dim_count;
  const char* const* allow_host; /* ops that may run on the host where the device cannot */
  size_t allow_host_count;
  const char* cache_dir; /* NULL: none */
} rlx_options;
#define RLX_OPTIONS_INIT {sizeof(rlx_options), NULL, 0, 0, RLX_PREFER_NATIVE, NULL, 0, NULL, 0, NULL}

/* NULL options: the defaults. The executable does not need the model any more. */
RLX_API rlx_error* rlx_compile(const rlx_model* model, const rlx_options* options,
                               rlx_executable** executable);
/* Runs with the inputs by name, all of them, in any order. `outputs` has room for
 * rlx_executable_output_count handles and receives that many. */
RLX_API rlx_error* rlx_executable_run(rlx_executable* executable, const char* const* names,
                                      const rlx_tensor* const* inputs, size_t count,
                                      rlx_tensor** outputs);
RLX_API size_t rlx_executable_output_count(const rlx_executable* executable);
RLX_API const char* rlx_executable_output_name(const rlx_executable* executable, size_t index);
RLX_API void rlx_executable_free(rlx_executable* executable);

typedef enum rlx_format { RLX_TEXT = 0, RLX_JSON = 1 } rlx_format;

/* What each node became on the device, and why. */
RLX_API rlx_error* rlx_executable_explain(const rlx_executable* executable, rlx_format format,
                                          char** report);
/* The same before compiling; nodes that cannot run are part of the report, not an error. */
RLX_API rlx_error* rlx_explain(const rlx_model* model, const rlx_options* options,
                               rlx_format format, char** report);
/* A JSON list of the devices of this build: name, status, detail. */
RLX_API rlx_error* rlx_devices(char** json);

/* ---- Graphs in code ----
 * Values are numbers from 0. The first error sticks: calls after it return RLX_NO_VALUE, and
 * rlx_builder_finish returns it. An absent optional operand is RLX_NO_VALUE. */

#define RLX_NO_VALUE UINT32_MAX

RLX_API rlx_error* rlx_builder_create(const char* name, rlx_builder** builder);
/* The node name and the place (file and line) that following nodes carry into errors and reports;
 * NULL: none. */
RLX_API void rlx_builder_context(rlx_builder* builder, const char* name, const char* location);
/* Extents as text: "32", "batch", "2*seq + 1". */
RLX_API uint32_t rlx_builder_input(rlx_builder* builder, const char* name, rlx_dtype dtype,
                                   const char* const* extents, size_t rank);
RLX_API uint32_t rlx_builder_constant(rlx_builder* builder, const char* name,
                                      const rlx_tensor* tensor);
/* An op by its name in the text form, with its attributes as there: "softmax", "{axis=-1}"; NULL
 * where the op has none. Returns the first result, others follow it. */
RLX_API uint32_t rlx_builder_emit(rlx_builder* builder, const char* op, const uint32_t* operands,
                                  size_t count, const char* attributes);
/* The rank of a value, or -1 after an error. */
RLX_API int32_t rlx_builder_rank(const rlx_builder* builder, uint32_t value);
RLX_API int32_t rlx_builder_dtype(const rlx_builder* builder, uint32_t value);
RLX_API void rlx_builder_output(rlx_builder* builder, const char* name, uint32_t value);
/* The builder is empty afterwards and still to be freed. */
RLX_API rlx_error* rlx_builder_finish(rlx_builder* builder, rlx_model** model);
RLX_API void rlx_builder_free(rlx_builder* builder);

#ifdef __cplusplus
}
#endif
#endif
