/* How anything here fails: a result of the driver, and a message that is logged. */
#ifndef EMU_BASE_RESULT_H
#define EMU_BASE_RESULT_H

typedef enum CUresult {
#define X(name, number, sentence) name = number,
#include "base/results.def"
#undef X
} CUresult;

/* "CUDA_ERROR_..." and its sentence; NULL for a number that is no result. */
const char *emu_result_name(CUresult result);
const char *emu_result_sentence(CUresult result);

/* The result with this name; CUDA_ERROR_UNKNOWN if there is none. */
CUresult emu_result_named(const char *name);

/* Returns `result` after logging the message: to the callback, and to the file that EDGERT_EMULATOR_LOG names ("-" is
 * the standard error). */
CUresult emu_fail(CUresult result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns from the calling function if the expression is an error. */
#define EMU_TRY(expression)                            \
  do {                                                 \
    CUresult emu_result = (expression);                \
    if (emu_result != CUDA_SUCCESS) return emu_result; \
  } while (0)

#endif
