/* The emulated device and the switches of the emulator, from the environment. */
#ifndef EMU_BASE_DEVICE_H
#define EMU_BASE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EMU_WARP = 32, EMU_MAX_THREADS = 1024, EMU_MAX_WARPS = EMU_MAX_THREADS / EMU_WARP };

typedef struct emu_device {
  const char *id;       /* value of EDGERT_EMULATOR_DEVICE */
  const char *name;     /* as cuDeviceGetName gives it */
  int sm;               /* compute capability: 62 is 6.2 */
  int driver;           /* as cuDriverGetVersion gives it: 10020 is 10.2 */
  int multiprocessors;  /* */
  int clock_khz;        /* */
  size_t memory;        /* bytes */
  int shared_per_block; /* bytes without opting in: 48 KB everywhere */
  int shared_opt_in;    /* the most that a kernel may ask for */
  int shared_per_multiprocessor;
  int registers_per_block;
  int threads_per_multiprocessor;
  int l2_bytes;
  bool integrated; /* shares the memory of the host */
} emu_device;

typedef struct emu_settings {
  emu_device device;
  bool present;             /* EDGERT_EMULATOR_DEVICE is not "none" */
  bool check_uninitialized; /* reads of memory that nobody wrote are failures */
  bool check_memory;        /* bounds and alignment; without, wild addresses hit the process */
  bool check_races;         /* two warps meet in a word of shared memory between barriers */
  bool refuse_cubin;        /* also those that cuLinkComplete made */
  uint64_t seed;            /* of the order of warps */
  uint64_t limit;           /* instructions that one warp may execute in a launch */
  unsigned threads;         /* of the host, that run blocks */
} emu_settings;

/* Reads the environment; cuInit does. */
void emu_settings_read(void);

const emu_settings *emu_settings_get(void);

/* The newest PTX that the driver takes, such as 65 for 6.5. */
int emu_device_ptx(const emu_device *device);

#endif
