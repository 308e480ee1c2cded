/* Golden samples: what they hold, that the program answers them, and samples that are not the program's. */
#include <stdbool.h>

#include "metadata.h"

enum { ROWS = 64, COLUMNS = 96, SIZE = ROWS * COLUMNS }; /* as in bundles.py */

static file good;

static edgert_bundle *open_with(const file *f, edgert_integrity integrity) {
  edgert_open_options options = {.struct_size = sizeof options, .integrity = integrity, .threads = 1};
  edgert_bundle *bundle;
  CHECK(edgert_bundle_open_memory(f->data, f->bytes, &options, &bundle) == EDGERT_OK);
  return bundle;
}

static edgert_session *open_session(const edgert_bundle *bundle) {
  edgert_session *session;
  CHECK(edgert_session_open(bundle, NULL, &session) == EDGERT_OK);
  return session;
}

static void describes(void) {
  edgert_bundle *bundle = open_with(&good, EDGERT_INTEGRITY_FULL);
  edgert_bundle_info info;
  CHECK(edgert_bundle_describe(bundle, &info) == EDGERT_OK);
  CHECK(strcmp(info.model, "session") == 0 && strcmp(info.producer, "edgert tests") == 0);
  CHECK(info.bytes == good.bytes && info.segments == 2 && info.goldens == 1);
  CHECK(info.segment_bytes > 2 * SIZE * sizeof(float) && info.segment_bytes < good.bytes);
  edgert_bundle_close(bundle);
}

/* The stored output is what the program answers to the stored input, whatever was hashed on opening. */
static void answers(void) {
  for (int integrity = 0; integrity < 2; integrity++) {
    edgert_bundle *bundle = open_with(&good, (edgert_integrity)integrity);
    edgert_session *session = open_session(bundle);
    edgert_golden_info info = {1, 1};
    CHECK(edgert_session_golden(session, 0, &info) == EDGERT_OK && info.atol == 0 && info.rtol == 0);
    const void *x, *y, *where;
    size_t x_bytes, y_bytes, where_bytes;
    CHECK(edgert_session_golden_input(session, 0, 0, &x, &x_bytes) == EDGERT_OK && x_bytes == SIZE * sizeof(float));
    CHECK(edgert_session_golden_output(session, 0, 0, &y, &y_bytes) == EDGERT_OK && y_bytes == SIZE * sizeof(float));
    CHECK(edgert_session_golden_output(session, 0, 1, &where, &where_bytes) == EDGERT_OK);
    CHECK(where == NULL && where_bytes == 0); /* not in the sample */
    float *got = calloc(SIZE, sizeof *got);
    int64_t *positions = calloc(2 * SIZE, sizeof *positions);
    CHECK(got && positions);
    CHECK(edgert_session_bind_input(session, 0, x, x_bytes) == EDGERT_OK);
    CHECK(edgert_session_bind_output(session, 0, got, y_bytes) == EDGERT_OK);
    CHECK(edgert_session_bind_output(session, 1, positions, 2 * SIZE * sizeof *positions) == EDGERT_OK);
    CHECK(edgert_session_run(session) == EDGERT_OK);
    CHECK(memcmp(got, y, y_bytes) == 0);
    edgert_session_close(session);
    edgert_bundle_close(bundle);
    free(got);
    free(positions);
  }
}

static void ranges(void) {
  edgert_bundle *bundle = open_with(&good, EDGERT_INTEGRITY_FULL);
  edgert_session *session = open_session(bundle);
  edgert_golden_info info;
  const void *data;
  size_t bytes;
  CHECK(edgert_session_golden(session, 1, &info) == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(edgert_session_golden_input(session, 1, 0, &data, &bytes) == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(edgert_session_golden_input(session, 0, 1, &data, &bytes) == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(edgert_session_golden_output(session, 0, 2, &data, &bytes) == EDGERT_ERROR_INVALID_ARGUMENT);
  edgert_session_close(session);
  edgert_bundle_close(bundle);
}

/* What was not hashed on opening is hashed before it is handed out; the samples are the file's last bytes. */
static void hashed_before_use(void) {
  file f = copy_bytes(good.data, good.bytes);
  f.data[f.bytes - 1] ^= 1;
  edgert_bundle *bundle = open_with(&f, EDGERT_INTEGRITY_METADATA);
  edgert_session *session = open_session(bundle);
  const void *data;
  size_t bytes;
  CHECK(edgert_session_golden_input(session, 0, 0, &data, &bytes) == EDGERT_ERROR_CORRUPT && data == NULL);
  CHECK(edgert_session_golden_output(session, 0, 0, &data, &bytes) == EDGERT_ERROR_CORRUPT && data == NULL);
  edgert_session_close(session);
  edgert_bundle_close(bundle);
  free(f.data);
}

static bool arena_is_small(const edgert_bundle *bundle) {
  for (uint32_t i = 0; i < edgert_bundle_program_count(bundle); i++) {
    edgert_program_info info;
    edgert_status status = edgert_bundle_program(bundle, i, &info);
    CHECK(status == EDGERT_OK || status == EDGERT_ERROR_MALFORMED);
    if (status == EDGERT_OK && info.arena_bytes > 1 << 26) return false;
  }
  return true;
}

/* Every byte of the metadata changed, signed again: whatever is still accepted stays within the file. */
static void damaged_samples(void) {
  file f = copy_bytes(good.data, good.bytes);
  uint32_t names = 0, inputs = 0, outputs = 0;
  for (size_t at = HEADER; at < HEADER + metadata_length(&f); at++) {
    for (int shift = 0; shift < 8; shift += 3) {
      f.data[at] ^= (uint8_t)(1 << shift);
      sign(&f);
      edgert_open_options options = {.struct_size = sizeof options, .integrity = EDGERT_INTEGRITY_METADATA};
      edgert_bundle *bundle = NULL;
      edgert_session *session = NULL;
      edgert_session_options single = {.struct_size = sizeof single, .threads = 1};
      edgert_golden_info info;
      const void *data;
      size_t bytes;
      if (edgert_bundle_open_memory(f.data, f.bytes, &options, &bundle) == EDGERT_OK && arena_is_small(bundle) &&
          edgert_session_open(bundle, &single, &session) == EDGERT_OK) {
        names += edgert_session_golden(session, 0, &info) == EDGERT_ERROR_MALFORMED;
        inputs += edgert_session_golden_input(session, 0, 0, &data, &bytes) == EDGERT_ERROR_MALFORMED;
        outputs += edgert_session_golden_output(session, 0, 0, &data, &bytes) == EDGERT_ERROR_MALFORMED;
        if (data) CHECK((const uint8_t *)data + bytes <= f.data + f.bytes);
      }
      edgert_session_close(session);
      edgert_bundle_close(bundle);
      f.data[at] ^= (uint8_t)(1 << shift);
    }
  }
  CHECK(names > 0 && inputs > 0 && outputs > 0);
  free(f.data);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  good = read_whole(golden_path(arguments, "session.edge"));
  RUN(describes);
  RUN(answers);
  RUN(ranges);
  RUN(hashed_before_use);
  RUN(damaged_samples);
  free(good.data);
  return 0;
}
