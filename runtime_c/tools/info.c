/* edgert-native info: what a bundle holds, and what of it can run here. */
#include <stdio.h>

#include "tensor.h"
#include "verbs.h"

static void print_port(const char *what, const edgert_tensor_info *t) {
  printf("  %s %s: %s%s%s\n", what, printable(t->name).s, dtype_name(t->dtype), shape_text(t->rank, t->shape).s,
         t->dynamic ? ", at most" : "");
}

static void print_ports(const edgert_session *session) {
  edgert_tensor_info t;
  for (uint32_t i = 0; edgert_session_input_count(session) > i; i++)
    if (edgert_session_input(session, i, &t) == EDGERT_OK) print_port("input ", &t);
  for (uint32_t i = 0; edgert_session_output_count(session) > i; i++)
    if (edgert_session_output(session, i, &t) == EDGERT_OK) print_port("output", &t);
}

/* The lines of a message, indented. */
static void print_reason(const char *message) {
  printf("  cannot run here: ");
  for (; *message; message++) {
    putchar(*message);
    if (*message == '\n') printf("    ");
  }
  putchar('\n');
}

static bool print_program(const arguments *a, const edgert_bundle *bundle, uint32_t index) {
  edgert_program_info info;
  edgert_session *session;
  if (edgert_bundle_program(bundle, index, &info)) return fail_library();
  printf("program %s, for %s, cores %u: %u steps, arena %s\n", printable(info.target).s, printable(info.arch).s,
         info.cores, info.steps, size_text(info.arena_bytes).s);
  if (*info.device)
    printf("  %u steps on %s, memory there %s; %u modules: machine code %s, PTX %s, deflated\n", info.device_steps,
           printable(info.device).s, size_text(info.device_bytes).s, info.modules, size_text(info.cubin_bytes).s,
           size_text(info.ptx_bytes).s);
  edgert_session_options options = {.struct_size = sizeof options,
                                    .target = info.target,
                                    .threads = info.cores,
                                    .allow_native = a->allow_native,
                                    .cuda_library = a->cuda_library,
                                    .code_cache = ""};
  if (edgert_session_open(bundle, &options, &session)) {
    print_reason(edgert_last_error());
  } else {
    printf("  can run here\n");
    print_ports(session);
  }
  edgert_session_close(session);
  return true;
}

static bool print_bundle(const arguments *a, const edgert_bundle *bundle) {
  edgert_bundle_info info;
  if (edgert_bundle_describe(bundle, &info)) return fail_library();
  printf("%s: '%s', %s, made by %s\n", printable(a->bundle).s, printable(info.model).s, size_text(info.bytes).s,
         printable(info.producer).s);
  printf("  segments: %u, %s; golden samples: %u\n", info.segments, size_text(info.segment_bytes).s, info.goldens);
  for (uint32_t i = 0; i < edgert_bundle_program_count(bundle); i++)
    if (!print_program(a, bundle, i)) return false;
  return true;
}

int verb_info(const arguments *a) {
  edgert_open_options options = {.struct_size = sizeof options, .integrity = EDGERT_INTEGRITY_METADATA};
  edgert_bundle *bundle;
  bool good = edgert_bundle_open(a->bundle, &options, &bundle) ? fail_library() : print_bundle(a, bundle);
  edgert_bundle_close(bundle);
  return good ? EXIT_PASSED : EXIT_ERROR;
}
