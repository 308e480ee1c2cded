/* Initialisation, and what the device is like. */
#include <string.h>

#include "driver/driver.h"

EMU_EXPORT CUresult cuInit(unsigned flags) {
  EMU_CALL("cuInit", false);
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  emu_settings_read();
  if (!emu_settings_get()->present) return CUDA_ERROR_NO_DEVICE;
  emu_initialised();
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDriverGetVersion(int *version) {
  EMU_CALL("cuDriverGetVersion", false);
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  if (emu_settings_get()->device.driver == 0) emu_settings_read();
  *version = emu_settings_get()->device.driver;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDeviceGetCount(int *count) {
  EMU_CALL("cuDeviceGetCount", false);
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = 1;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  EMU_CALL("cuDeviceGet", false);
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  EMU_CALL("cuDeviceGetName", false);
  if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  strncpy(name, emu_settings_get()->device.name, (size_t)length);
  name[length - 1] = '\0';
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  EMU_CALL("cuDeviceTotalMem_v2", false);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = emu_settings_get()->device.memory;
  return CUDA_SUCCESS;
}

typedef struct emu_uuid {
  char bytes[16];
} emu_uuid;

EMU_EXPORT CUresult cuDeviceGetUuid(emu_uuid *uuid, CUdevice device) {
  EMU_CALL("cuDeviceGetUuid", false);
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  memset(uuid->bytes, 0, sizeof uuid->bytes);
  memcpy(uuid->bytes, emu_settings_get()->device.id, strnlen(emu_settings_get()->device.id, sizeof uuid->bytes));
  return CUDA_SUCCESS;
}

/* The value of an attribute by its number; -1 if the emulator does not know it. */
static int attribute_value(const emu_device *d, int attribute) {
  switch (attribute) {
    case 1:
      return EMU_MAX_THREADS; /* threads of a block */
    case 2:
    case 3:
      return 1024; /* x and y of a block */
    case 4:
      return 64;
    case 5:
      return 2147483647; /* x of the grid */
    case 6:
    case 7:
      return 65535;
    case 8:
      return d->shared_per_block;
    case 9:
      return 65536; /* constant memory */
    case 10:
      return EMU_WARP;
    case 12:
      return d->registers_per_block;
    case 13:
      return d->clock_khz;
    case 14:
      return 512; /* alignment of textures */
    case 16:
      return d->multiprocessors;
    case 17:
      return 0; /* limit on run time */
    case 18:
      return d->integrated;
    case 19:
      return 1; /* maps host memory */
    case 20:
      return 0; /* compute mode */
    case 31:
      return 1; /* concurrent kernels */
    case 32:
      return 0; /* ECC */
    case 33:
      return 0; /* PCI bus, device, domain */
    case 34:
      return 0;
    case 36:
      return d->clock_khz; /* memory clock */
    case 37:
      return 128; /* memory bus */
    case 38:
      return d->l2_bytes;
    case 39:
      return d->threads_per_multiprocessor;
    case 40:
      return 1; /* copy engines */
    case 41:
      return 0; /* unified addressing */
    case 50:
      return 0;
    case 75:
      return d->sm / 10;
    case 76:
      return d->sm % 10;
    case 78:
      return 1; /* stream priorities */
    case 81:
      return d->shared_per_multiprocessor;
    case 82:
      return d->registers_per_block; /* of a multiprocessor */
    case 83:
      return 1; /* managed memory */
    case 91:
      return 0; /* host pointers for registered memory */
    case 95:
      return 0; /* cooperative launch */
    case 97:
      return d->shared_opt_in;
    default:
      return -1;
  }
}

EMU_EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  EMU_CALL("cuDeviceGetAttribute", false);
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  int found = attribute_value(&emu_settings_get()->device, attribute);
  if (!value || found < 0) return CUDA_ERROR_INVALID_VALUE;
  *value = found;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
  EMU_CALL("cuDeviceComputeCapability", false);
  if (!major || !minor || device != 0) return CUDA_ERROR_INVALID_VALUE;
  *major = emu_settings_get()->device.sm / 10;
  *minor = emu_settings_get()->device.sm % 10;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuGetErrorName(CUresult error, const char **name) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = emu_result_name(error);
  return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EMU_EXPORT CUresult cuGetErrorString(CUresult error, const char **sentence) {
  if (!sentence) return CUDA_ERROR_INVALID_VALUE;
  *sentence = emu_result_sentence(error);
  return *sentence ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
