/* What the emulator exports beside the functions of the CUDA driver. */
#ifndef EDGERT_CUDA_EMULATOR_H
#define EDGERT_CUDA_EMULATOR_H

#include <stdint.h>

/* The last message of any failure in this process, such as "kernel k, line 12, block (0,0,0), thread (3,0,0): ..."; "" if
 * there was none. Valid until the next failure. */
const char *edgertEmulatorMessage(void);

/* Called with every message, from any thread; NULL: nobody. */
void edgertEmulatorSetLog(void (*log)(void *context, const char *message), void *context);

/* Counts since the last reset, for all kernels together, as JSON; valid until the next call. README.md names the keys. */
const char *edgertEmulatorCounters(void);
void edgertEmulatorResetCounters(void);

/* Driver objects and device bytes that have not been given back. */
uint64_t edgertEmulatorObjects(void);
uint64_t edgertEmulatorBytes(void);

#endif
