/* Images, and the options of the compiler. */
#include "driver/image.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/device.h"

enum { MARK_AT = 8, MACHINE_AT = 18, FLAGS_AT = 48, LENGTH_AT = 64, SUM_AT = 72, MACHINE_CUDA = 190 };

static const char mark[8] = {'E', 'M', 'U', 'L', 'A', 'T', 'E', 'D'};

static uint64_t sum(const char *bytes, size_t count) {
  uint64_t h = 1469598103934665603u;
  for (size_t i = 0; i < count; i++) h = (h ^ (unsigned char)bytes[i]) * 1099511628211u;
  return h;
}

void *emu_image_make(const char *texts, size_t bytes, size_t *size) {
  uint8_t *image = calloc(1, EMU_IMAGE_HEADER + bytes);
  if (!image) return NULL;
  uint16_t machine = MACHINE_CUDA;
  uint32_t flags = (uint32_t)emu_settings_get()->device.sm;
  uint64_t length = bytes, check = sum(texts, bytes);
  memcpy(image, "\177ELF\2\1\1", 7);
  memcpy(image + MARK_AT, mark, sizeof mark);
  memcpy(image + MACHINE_AT, &machine, sizeof machine);
  memcpy(image + FLAGS_AT, &flags, sizeof flags);
  memcpy(image + LENGTH_AT, &length, sizeof length);
  memcpy(image + SUM_AT, &check, sizeof check);
  memcpy(image + EMU_IMAGE_HEADER, texts, bytes);
  *size = EMU_IMAGE_HEADER + bytes;
  return image;
}

CUresult emu_image_texts(const void *image, const char **texts, size_t *bytes) {
  const uint8_t *at = image;
  if (memcmp(at, "\177ELF", 4) != 0) {
    *texts = image;
    *bytes = strlen(image) + 1;
    if (at[0] == 0x50 && at[1] == 0xed) return emu_fail(CUDA_ERROR_INVALID_IMAGE, "fat binaries are not emulated");
    return CUDA_SUCCESS;
  }
  uint32_t flags;
  uint64_t length, check;
  memcpy(&flags, at + FLAGS_AT, sizeof flags);
  if (memcmp(at + MARK_AT, mark, sizeof mark) != 0)
    return emu_fail(CUDA_ERROR_NO_BINARY_FOR_GPU, "the image is a cubin; only PTX can be emulated");
  if (emu_settings_get()->refuse_cubin)
    return emu_fail(CUDA_ERROR_NO_BINARY_FOR_GPU, "cubins are refused as asked for");
  if ((int)flags != emu_settings_get()->device.sm)
    return emu_fail(CUDA_ERROR_NO_BINARY_FOR_GPU, "the image is for sm_%u, the device is sm_%d", flags,
                    emu_settings_get()->device.sm);
  memcpy(&length, at + LENGTH_AT, sizeof length);
  memcpy(&check, at + SUM_AT, sizeof check);
  *texts = (const char *)at + EMU_IMAGE_HEADER;
  *bytes = length;
  if (sum(*texts, length) != check) return emu_fail(CUDA_ERROR_INVALID_IMAGE, "the image is damaged");
  return CUDA_SUCCESS;
}

void emu_jit_read(emu_jit *jit, unsigned count, const int *options, void **values) {
  enum { INFO_LOG = 3, INFO_BYTES = 4, ERROR_LOG = 5, ERROR_BYTES = 6 };
  memset(jit, 0, sizeof *jit);
  for (unsigned i = 0; options && values && i < count; i++) {
    unsigned number = (unsigned)(uintptr_t)values[i];
    if (options[i] == INFO_LOG) jit->info_log = values[i];
    if (options[i] == INFO_BYTES) jit->info_bytes = number, jit->info_slot = &values[i];
    if (options[i] == ERROR_LOG) jit->error_log = values[i];
    if (options[i] == ERROR_BYTES) jit->error_bytes = number, jit->error_slot = &values[i];
  }
}

static void write_log(char *log, unsigned bytes, void **slot, const char *text) {
  int n = log && bytes ? snprintf(log, bytes, "%s", text) : 0;
  if (slot) *slot = (void *)(uintptr_t)(n < (int)bytes ? (unsigned)n : bytes);
}

void emu_jit_write(const emu_jit *jit, const char *error, const char *info) {
  write_log(jit->error_log, jit->error_bytes, jit->error_slot, error);
  write_log(jit->info_log, jit->info_bytes, jit->info_slot, info);
}
