/* Images of modules: PTX text, or what cuLinkComplete makes of it: an ELF header of the device with the text behind it. */
#ifndef EMU_DRIVER_IMAGE_H
#define EMU_DRIVER_IMAGE_H

#include <stddef.h>

#include "base/result.h"

enum { EMU_IMAGE_HEADER = 80 };

/* An image of `bytes` of texts, each ending in NUL, for the device; NULL without memory. */
void *emu_image_make(const char *texts, size_t bytes, size_t *size);

/* The texts in an image, which may be a text itself; real cubins are refused: they cannot be emulated. */
CUresult emu_image_texts(const void *image, const char **texts, size_t *bytes);

/* The options of cuModuleLoadDataEx and cuLinkCreate; texts are written to the buffers that the caller gave. */
typedef struct emu_jit {
  char *error_log, *info_log;
  unsigned error_bytes, info_bytes;
  void **error_slot, **info_slot; /* where the lengths go */
} emu_jit;

void emu_jit_read(emu_jit *jit, unsigned count, const int *options, void **values);
void emu_jit_write(const emu_jit *jit, const char *error, const char *info);

#endif
