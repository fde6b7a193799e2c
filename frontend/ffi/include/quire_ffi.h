/* The C interface of functions that quire calls from compiled programs (quire.ffi, docs/ffi.md).
 *
 *     #include "quire_ffi.h"
 *
 *     const char *scale(const quire_ffi_call *call) {
 *       if (call->args[0].dtype != QUIRE_FFI_F32) return "scale: expected float32";
 *       const quire_ffi_attr *by = quire_ffi_find_attr(call, "by");
 *       if (by == NULL || by->dtype != QUIRE_FFI_F32) return "scale: expected an attribute by of float32";
 *       const float *x = call->args[0].data;
 *       float *y = call->results[0].data;
 *       for (int64_t i = 0; i < call->args[0].size; ++i) y[i] = x[i] * *(const float *)by->data;
 *       return NULL;
 *     }
 *
 * A function returns NULL, or a text that says what went wrong, which becomes an exception. The text must stay where it
 * is until the thread calls the function again. The function is called without Python's lock; it must keep no pointer.
 */
#ifndef QUIRE_FFI_H
#define QUIRE_FFI_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIRE_FFI_VERSION 1

enum {
  QUIRE_FFI_BOOL = 1, /* one byte, 0 or 1 */
  QUIRE_FFI_S8 = 2,
  QUIRE_FFI_S16 = 3,
  QUIRE_FFI_S32 = 4,
  QUIRE_FFI_S64 = 5,
  QUIRE_FFI_U8 = 6,
  QUIRE_FFI_U16 = 7,
  QUIRE_FFI_U32 = 8,
  QUIRE_FFI_U64 = 9,
  QUIRE_FFI_F16 = 10,
  QUIRE_FFI_BF16 = 11,
  QUIRE_FFI_F32 = 12,
  QUIRE_FFI_F64 = 13,
  QUIRE_FFI_C64 = 14,  /* two floats */
  QUIRE_FFI_C128 = 15, /* two doubles */
  QUIRE_FFI_STRING = 16 /* of attributes: `count` bytes, and a zero */
};

/* An array: elements one after the other, the last dimension fastest. An argument must not be written. */
typedef struct {
  void *data;
  const int64_t *shape;
  int64_t size; /* the number of elements */
  int32_t rank;
  int32_t dtype;
} quire_ffi_buffer;

/* A number (`count` is 1), several, or a text. A Python int is S64, a float F64, a bool BOOL; a NumPy scalar or array
 * has its own dtype. */
typedef struct {
  const char *name;
  const void *data;
  int64_t count;
  int32_t dtype;
} quire_ffi_attr;

typedef struct {
  int32_t version; /* QUIRE_FFI_VERSION; later versions add members at the end */
  int32_t num_args;
  const quire_ffi_buffer *args;
  int32_t num_results;
  int32_t num_attrs;
  const quire_ffi_buffer *results; /* whose data is to be written */
  const quire_ffi_attr *attrs;
} quire_ffi_call;

typedef const char *(*quire_ffi_function)(const quire_ffi_call *call);

static inline const quire_ffi_attr *quire_ffi_find_attr(const quire_ffi_call *call, const char *name) {
  for (int32_t i = 0; i < call->num_attrs; ++i)
    if (strcmp(call->attrs[i].name, name) == 0) return &call->attrs[i];
  return NULL;
}

#ifdef __cplusplus
}
#endif

#endif
