/* PTX made machine code by the driver's own compiler, which takes seconds: what comes out is kept. */
#ifndef ERT_BACKENDS_CUDA_TRANSLATE_H
#define ERT_BACKENDS_CUDA_TRANSLATE_H

#include "backends/cuda/internal.h"

/* Loads the module that a text is, from the device's cache or translated. `text` ends in a zero, which `bytes` counts;
 * `what` names it in messages. */
edgert_status ert_translate(ert_device *device, const char *text, size_t bytes, const char *what, CUmodule *out);

#endif
