/* Monotonic time. */
#ifndef ERT_PLATFORM_CLOCK_H
#define ERT_PLATFORM_CLOCK_H

#include <stdint.h>

/* Nanoseconds since an arbitrary moment; never goes back. */
uint64_t ert_clock_ns(void);

#endif
