/* Runs a kernel. */
#ifndef EMU_EXECUTE_LAUNCH_H
#define EMU_EXECUTE_LAUNCH_H

#include "base/result.h"
#include "ptx/program.h"

/* All blocks of the grid, on the host's threads; returns when they have ended. */
CUresult emu_launch_run(const ptx_function *f, const uint32_t grid[3], const uint32_t threads[3],
                        uint32_t dynamic_shared, const void *parameters);

#endif
