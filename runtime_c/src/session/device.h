/* What a program asks of a device, and what it has for it. */
#ifndef ERT_SESSION_DEVICE_H
#define ERT_SESSION_DEVICE_H

#include "backends/cuda/device.h"
#include "bundle/bundle.h"

/* Whether the program has steps for a device. */
static inline bool ert_program_has_device(ert_table program) { return *ert_string(program, ERT_FIELD_PROGRAM_DEVICE); }

/* Fills in the steps on the device, the modules and the bytes of their code. */
void ert_device_describe(const edgert_bundle *bundle, ert_table program, edgert_program_info *out);

/* The request of a program that has; free its codes with ert_free. */
edgert_status ert_device_request_of(const edgert_bundle *bundle, ert_table program,
                                    const edgert_session_options *options, ert_device_request *out);

#endif
