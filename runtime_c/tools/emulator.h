/* Which device an emulator has to be for a bundle. */
#ifndef EDGERT_TOOLS_EMULATOR_H
#define EDGERT_TOOLS_EMULATOR_H

#include <stdbool.h>

#include "arguments.h"

/* Sets the session's options for --emulate, --cuda-library, --allow-native and --code-cache. With --emulate the target is that
 * of the first program for a device, and the emulator will be the oldest device that runs it, unless the environment says
 * which one. False with an error printed if there is none. */
bool emulator_choose(const edgert_bundle *bundle, const arguments *a, edgert_session_options *options);

#endif
