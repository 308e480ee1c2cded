/* Opening bundles: good ones, and every kind of damage. What opens in spite of damage is run. */
#include "base/checked.h"
#include "bundle/flatbuffer.h"
#include "metadata.h"
#include "platform/clock.h"

static file good;
static const char *path, *small_path;

static edgert_status open_with(const file *f, edgert_integrity integrity, edgert_bundle **bundle) {
  edgert_open_options options = {.struct_size = sizeof options, .integrity = integrity, .threads = 2};
  return edgert_bundle_open_memory(f->data, f->bytes, &options, bundle);
}

static edgert_status try(const file *f, edgert_integrity integrity) {
  edgert_bundle *bundle;
  edgert_status status = open_with(f, integrity, &bundle);
  CHECK((status == EDGERT_OK) == (bundle != NULL));
  edgert_bundle_close(bundle);
  return status;
}

/* Runs the first program that can run, if its buffers are of a reasonable size. */
static void run_if_possible(const edgert_bundle *bundle) {
  edgert_session_options options = {.struct_size = sizeof options, .threads = 1};
  edgert_session *session;
  for (uint32_t i = 0; i < edgert_bundle_program_count(bundle); i++) {
    edgert_program_info info;
    edgert_status status = edgert_bundle_program(bundle, i, &info);
    CHECK(status == EDGERT_OK || status == EDGERT_ERROR_MALFORMED);
    if (status == EDGERT_OK && info.arena_bytes > 1 << 26) return;
  }
  if (edgert_session_open(bundle, &options, &session) != EDGERT_OK) return;
  enum { BUFFERS = 8 };
  file buffers[BUFFERS];
  uint32_t used = 0, inputs = edgert_session_input_count(session), outputs = edgert_session_output_count(session);
  bool fits = inputs + outputs <= BUFFERS;
  for (uint32_t i = 0; fits && i < inputs + outputs; i++) {
    edgert_tensor_info info;
    CHECK((i < inputs ? edgert_session_input(session, i, &info) : edgert_session_output(session, i - inputs, &info)) ==
          0);
    fits = info.bytes <= good.bytes;
    if (!fits) break;
    buffers[used++] = copy_bytes(good.data, info.bytes);
    fits = (i < inputs ? edgert_session_bind_input(session, i, buffers[i].data, info.bytes)
                       : edgert_session_bind_output(session, i - inputs, buffers[i].data, info.bytes)) == EDGERT_OK;
  }
  if (fits) (void)edgert_session_run(session);
  for (uint32_t i = 0; i < used; i++) free(buffers[i].data);
  edgert_session_close(session);
}

static void opens(void) {
  CHECK(try(&good, EDGERT_INTEGRITY_FULL) == EDGERT_OK);
  CHECK(try(&good, EDGERT_INTEGRITY_METADATA) == EDGERT_OK);
  edgert_bundle *bundle;
  CHECK(edgert_bundle_open(path, NULL, &bundle) == EDGERT_OK);
  CHECK(edgert_bundle_program_count(bundle) == 2);
  edgert_program_info info;
  CHECK(edgert_bundle_program(bundle, 0, &info) == EDGERT_OK);
  CHECK(strcmp(info.target, "cpu") == 0 && strcmp(info.arch, "x86_64") == 0 && info.steps == 4);
  CHECK(edgert_bundle_program(bundle, 2, &info) == EDGERT_ERROR_INVALID_ARGUMENT);
  run_if_possible(bundle);
  edgert_bundle_close(bundle);
  edgert_bundle_close(NULL);
}

static void bad_arguments(void) {
  edgert_bundle *bundle;
  edgert_open_options options = {.struct_size = 1};
  CHECK(edgert_bundle_open(path, &options, &bundle) == EDGERT_ERROR_INVALID_ARGUMENT && bundle == NULL);
  options = (edgert_open_options){.struct_size = sizeof options, .integrity = (edgert_integrity)7};
  CHECK(edgert_bundle_open(path, &options, &bundle) == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(edgert_bundle_open(NULL, NULL, &bundle) == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(edgert_bundle_open(path, NULL, NULL) == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(edgert_bundle_open_memory(good.data + 8, 64, NULL, &bundle) == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(edgert_bundle_open_memory(NULL, 64, NULL, &bundle) == EDGERT_ERROR_INVALID_ARGUMENT);
  CHECK(edgert_bundle_open_memory(NULL, 0, NULL, &bundle) == EDGERT_ERROR_NOT_A_BUNDLE);
  CHECK(edgert_bundle_open("/nonexistent.edge", NULL, &bundle) == EDGERT_ERROR_IO && bundle == NULL);
  CHECK(edgert_bundle_open("/", NULL, &bundle) == EDGERT_ERROR_IO);
  CHECK(edgert_bundle_open("/dev/null", NULL, &bundle) == EDGERT_ERROR_IO);
}

static int lines(const char *text) {
  int n = *text != '\0';
  for (; *text; text++) n += *text == '\n';
  return n;
}

/* Changes one byte and expects an error. */
static void expect(size_t at, uint8_t value, bool signed_again, edgert_status wanted) {
  file f = copy_bytes(good.data, good.bytes);
  f.data[at] = value;
  if (signed_again) sign(&f);
  edgert_status got = try(&f, EDGERT_INTEGRITY_FULL);
  if (got != wanted) fprintf(stderr, "byte %zu: wanted %d, got %d\n", at, (int)wanted, (int)got);
  CHECK(got == wanted && lines(edgert_last_error()) <= 4);
  free(f.data);
}

static void header_damage(void) {
  expect(0, 0, false, EDGERT_ERROR_NOT_A_BUNDLE);
  expect(8, 2, false, EDGERT_ERROR_VERSION);
  expect(10, (uint8_t)(good.data[10] + 1), false, EDGERT_ERROR_VERSION);
  expect(12, 1, false, EDGERT_ERROR_VERSION);
  expect(16, (uint8_t)(good.data[16] + 1), false, EDGERT_ERROR_TRUNCATED);
  expect(24, 129, true, EDGERT_ERROR_MALFORMED);
  expect(39, 1, false, EDGERT_ERROR_MALFORMED);
  expect(40, 1, true, EDGERT_ERROR_MALFORMED);
  expect(DIGEST_AT, (uint8_t)~good.data[DIGEST_AT], false, EDGERT_ERROR_CORRUPT);
  expect(96, 1, true, EDGERT_ERROR_MALFORMED);
  expect(HEADER + 20, (uint8_t)~good.data[HEADER + 20], false, EDGERT_ERROR_CORRUPT);
  size_t digests = HEADER + metadata_length(&good);
  size_t gap = digests + ERT_SHA256_BYTES * ert_metadata_pieces(metadata_length(&good));
  CHECK(good.data[MINOR_AT] == MINOR_OF_PIECES && gap % 4096 != 0);
  expect(digests, (uint8_t)~good.data[digests], false, EDGERT_ERROR_CORRUPT);
  expect(gap - 1, (uint8_t)~good.data[gap - 1], false, EDGERT_ERROR_CORRUPT);
  expect(gap, 1, false, EDGERT_ERROR_CORRUPT);
  expect((gap + 4095) / 4096 * 4096, 1, false, EDGERT_ERROR_CORRUPT);
  expect(good.bytes - 1, (uint8_t)~good.data[good.bytes - 1], false, EDGERT_ERROR_CORRUPT);
}

/* With METADATA integrity the segments' contents are not looked at. */
static void contents_unseen(void) {
  file f = copy_bytes(good.data, good.bytes);
  f.data[good.bytes - 1] ^= 1;
  CHECK(try(&f, EDGERT_INTEGRITY_METADATA) == EDGERT_OK);
  CHECK(try(&f, EDGERT_INTEGRITY_FULL) == EDGERT_ERROR_CORRUPT);
  free(f.data);
}

static void truncations(void) {
  size_t step = 1;
  for (size_t bytes = 0; bytes < good.bytes; bytes += step) {
    if (bytes > HEADER + metadata_length(&good)) step = 997;
    file f = copy_bytes(good.data, bytes);
    edgert_status status = try(&f, EDGERT_INTEGRITY_FULL);
    CHECK(status == (bytes == 0 ? EDGERT_ERROR_NOT_A_BUNDLE : EDGERT_ERROR_TRUNCATED));
    free(f.data);
  }
}

/* Of a small bundle, each byte changed in several ways and each shorter file: full integrity sees all of them. */
static void every_byte_and_length(void) {
  file f = read_whole(small_path);
  for (size_t at = 0; at < f.bytes; at++) {
    const uint8_t changes[] = {1, 0x80, 0xff, (uint8_t)(1u << at % 8)};
    for (size_t i = 0; i < sizeof changes; i++) {
      f.data[at] ^= changes[i];
      CHECK(try(&f, EDGERT_INTEGRITY_FULL) != EDGERT_OK);
      f.data[at] ^= changes[i];
    }
  }
  CHECK(try(&f, EDGERT_INTEGRITY_FULL) == EDGERT_OK);
  for (size_t bytes = 0; bytes < f.bytes; bytes++) {
    file part = copy_bytes(f.data, bytes);
    CHECK(try(&part, EDGERT_INTEGRITY_FULL) == (bytes == 0 ? EDGERT_ERROR_NOT_A_BUNDLE : EDGERT_ERROR_TRUNCATED));
    free(part.data);
  }
  free(f.data);
}

/* Whether all programs of a bundle hold, which with METADATA integrity is found out one by one. */
static bool programs_hold(const edgert_bundle *bundle) {
  bool hold = true;
  for (uint32_t i = 0; i < edgert_bundle_program_count(bundle); i++) {
    edgert_program_info info;
    edgert_status status = edgert_bundle_program(bundle, i, &info);
    CHECK(status == EDGERT_OK || status == EDGERT_ERROR_MALFORMED);
    hold = hold && status == EDGERT_OK;
  }
  return hold;
}

/* Every byte of the metadata set to several values, with a valid digest: what does not hold is found on opening, or where
 * it is of a program, when that is looked at. */
static void metadata_damage(void) {
  file f = copy_bytes(good.data, good.bytes);
  uint32_t accepted = 0, refused = 0, late = 0;
  for (size_t at = HEADER; at < HEADER + metadata_length(&good); at++) {
    uint8_t old = f.data[at];
    const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff, old ^ 1, old ^ 0x80, (uint8_t)(old + 4), (uint8_t)(old - 4)};
    for (size_t i = 0; i < sizeof values; i++) {
      if (values[i] == old) continue;
      f.data[at] = values[i];
      sign(&f);
      edgert_bundle *bundle;
      edgert_status status = open_with(&f, EDGERT_INTEGRITY_METADATA, &bundle);
      CHECK(status == EDGERT_OK || status == EDGERT_ERROR_MALFORMED);
      bool holds = bundle && programs_hold(bundle);
      if (bundle) run_if_possible(bundle);
      edgert_bundle_close(bundle);
      CHECK(holds == (try(&f, EDGERT_INTEGRITY_FULL) != EDGERT_ERROR_MALFORMED));
      holds ? accepted++ : refused++;
      late += !holds && status == EDGERT_OK;
    }
    f.data[at] = old;
  }
  CHECK(refused > accepted / 2 && late > refused / 4);
  printf("  %u accepted, %u refused, %u of them late\n", accepted, refused, late);
  free(f.data);
}

/* Several bytes at once, anywhere in the metadata. */
static void random_damage(void) {
  file f = copy_bytes(good.data, good.bytes);
  uint32_t seed = 3;
  for (int round = 0; round < 5000; round++) {
    size_t length = metadata_length(&good);
    for (uint32_t n = 2 + next_random(&seed) % 6; n > 0; n--) {
      size_t at = HEADER + next_random(&seed) % length;
      f.data[at] = next_random(&seed) % 2 ? f.data[HEADER + next_random(&seed) % length] : (uint8_t)next_random(&seed);
    }
    sign(&f);
    edgert_bundle *bundle;
    if (open_with(&f, EDGERT_INTEGRITY_METADATA, &bundle) == EDGERT_OK) run_if_possible(bundle);
    edgert_bundle_close(bundle);
    memcpy(f.data + HEADER, good.data + HEADER, length);
  }
  free(f.data);
}

static void put32(file *f, size_t at, uint32_t x) { memcpy(f->data + at, &x, sizeof x); }
static void put16(file *f, size_t at, uint16_t x) { memcpy(f->data + at, &x, sizeof x); }

/* A table with one field, `id`, that leads to a vector at `vector`; the vtable lies behind it. */
static void put_table(file *f, size_t at, uint32_t id, size_t vector) {
  size_t vtable = at + 8;
  put32(f, at, (uint32_t)(at - vtable));
  put32(f, at + 4, (uint32_t)(vector - (at + 4)));
  put16(f, vtable, (uint16_t)(4 + 2 * (id + 1)));
  put16(f, vtable + 2, 8);
  put16(f, vtable + 4 + 2 * id, 4);
}

/* A vector of `count` offsets that all lead to the same place. */
static void put_references(file *f, size_t at, uint32_t count, size_t target) {
  put32(f, at, count);
  for (uint32_t i = 0; i < count; i++) put32(f, at + 4 + 4 * (size_t)i, (uint32_t)(target - (at + 4 + 4 * (size_t)i)));
}

/* Whether a file is nothing but valid metadata, intact. */
static edgert_status verify(const file *f) {
  ert_metadata metadata = {.data = f->data, .bytes = f->bytes};
  CHECK(ert_metadata_open(&metadata, true) == EDGERT_OK);
  edgert_status status = ert_flatbuffer_verify(&metadata, ERT_REACH_ALL);
  ert_metadata_close(&metadata);
  return status;
}

/* Ten thousand references to one program with ten thousand references to one tensor: work must not multiply. */
static void shared_contents(void) {
  enum { COUNT = 10000, PROGRAMS = 64, PROGRAM = 50064, TENSORS = 50128, TENSOR = 100128, BYTES = 100192 };
  uint8_t *zeros = calloc(1, BYTES);
  CHECK(zeros != NULL);
  file f = copy_bytes(zeros, BYTES);
  free(zeros);
  put32(&f, 0, 8);
  put_table(&f, 8, ERT_FIELD_BUNDLE_PROGRAMS, PROGRAMS);
  put_references(&f, PROGRAMS, COUNT, PROGRAM);
  put_table(&f, PROGRAM, ERT_FIELD_PROGRAM_TENSORS, TENSORS);
  put_references(&f, TENSORS, COUNT, TENSOR);
  put_table(&f, TENSOR, ERT_FIELD_TENSOR_SHAPE, TENSOR + 28);
  uint64_t begin = ert_clock_ns();
  CHECK(verify(&f) == EDGERT_ERROR_MALFORMED);
  CHECK(strstr(edgert_last_error(), "stored once") != NULL);
  CHECK(ert_clock_ns() - begin < 1000000000u);
  free(f.data);
}

/* A lone bundle table with one text, over all that can be wrong with a text. */
static void texts(void) {
  static const struct {
    const char *bytes;
    uint32_t length;
    bool valid;
  } cases[] = {
      {"abc", 3, true},
      {"a\0c", 3, false},
      {"\xc3\xa9", 2, true},
      {"\xc0\xaf", 2, false},
      {"\xe2\x82\xac", 3, true},
      {"\xe0\x80\xaf", 3, false},
      {"\xed\xa0\x80", 3, false},
      {"\xf0\x9f\x98\x80", 4, true},
      {"\xf5\x80\x80\x80", 4, false},
      {"\xf4\x90\x80\x80", 4, false},
      {"\xc3", 1, false},
      {"\x80", 1, false},
      {"", 0, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint8_t zeros[40] = {0};
    file f = copy_bytes(zeros, 28 + cases[i].length + 1);
    put32(&f, 0, 4);
    put_table(&f, 4, ERT_FIELD_BUNDLE_PRODUCER, 24);
    put32(&f, 24, cases[i].length);
    memcpy(f.data + 28, cases[i].bytes, cases[i].length);
    CHECK((verify(&f) == EDGERT_OK) == cases[i].valid);
    f.data[f.bytes - 1] = 'x'; /* no final NUL */
    CHECK(verify(&f) == EDGERT_ERROR_MALFORMED);
    free(f.data);
  }
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  path = golden_path(arguments, "session.edge");
  good = read_whole(path);
  static char small[4096];
  snprintf(small, sizeof small, "%s/format-1.0.edge", arguments[1]);
  small_path = small;
  RUN(opens);
  RUN(bad_arguments);
  RUN(header_damage);
  RUN(contents_unseen);
  RUN(truncations);
  RUN(every_byte_and_length);
  RUN(metadata_damage);
  RUN(random_damage);
  RUN(shared_contents);
  RUN(texts);
  free(good.data);
  static const char *const others[] = {"format-1.1.edge", "format-1.2.edge"}; /* views and two cores; a device */
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    good = read_whole(golden_path(arguments, others[i]));
    RUN(metadata_damage);
    RUN(random_damage);
    free(good.data);
  }
  return 0;
}
