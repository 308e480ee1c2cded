/* Runs a bundle on frame after frame with a deadline, as a camera loop would: main model.edge [frames] [deadline in ms]. */
#include <edgert/edgert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_BINDINGS = 16, MOST_FRAMES = 1000000 };

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Stands for the camera: writes the next frame where the session reads it. */
static void capture(float *pixels, size_t count, unsigned frame) {
  for (size_t i = 0; i < count; i++) pixels[i] = (float)((i * 31 + frame * 17) % 256) / 255.0f;
}

/* Gives the session a buffer for every input and output. */
static edgert_status bind_all(edgert_session *session, void **buffers) {
  uint32_t inputs = edgert_session_input_count(session), outputs = edgert_session_output_count(session);
  edgert_status status = EDGERT_OK;
  for (uint32_t i = 0; status == EDGERT_OK && i < inputs + outputs && i < MOST_BINDINGS; i++) {
    edgert_tensor_info info;
    status = i < inputs ? edgert_session_input(session, i, &info) : edgert_session_output(session, i - inputs, &info);
    if (status != EDGERT_OK) return status;
    buffers[i] = calloc(1, info.bytes + 1);
    if (!buffers[i]) return EDGERT_ERROR_OUT_OF_MEMORY;
    status = i < inputs ? edgert_session_bind_input(session, i, buffers[i], info.bytes)
                        : edgert_session_bind_output(session, i - inputs, buffers[i], info.bytes);
  }
  return status;
}

static edgert_status run_frames(edgert_session *session, float *pixels, size_t count, double *ms, unsigned frames) {
  for (unsigned frame = 0; frame < frames; frame++) {
    capture(pixels, count, frame);
    double begin = now_ms();
    edgert_status status = edgert_session_run(session);
    if (status != EDGERT_OK) return status;
    ms[frame] = now_ms() - begin;
  }
  return EDGERT_OK;
}

static void report(double *ms, unsigned frames, double deadline) {
  unsigned missed = 0;
  for (unsigned i = 0; i < frames; i++) missed += ms[i] > deadline;
  qsort(ms, frames, sizeof *ms, compare);
  printf("%u frames: p50 %.3f ms, p90 %.3f ms, p99 %.3f ms, max %.3f ms\n", frames, ms[frames / 2], ms[frames * 9 / 10],
         ms[frames * 99 / 100], ms[frames - 1]);
  printf("deadline of %.3f ms missed by %u\n", deadline, missed);
}

int main(int count, char **arguments) {
  if (count < 2) {
    fprintf(stderr, "usage: %s model.edge [frames] [deadline in ms]\n", arguments[0]);
    return 2;
  }
  unsigned frames = count > 2 ? (unsigned)strtoul(arguments[2], NULL, 10) : 100;
  double deadline = count > 3 ? strtod(arguments[3], NULL) : 33.3;
  if (frames < 1 || frames > MOST_FRAMES) frames = 100;

  edgert_bundle *bundle = NULL;
  edgert_session *session = NULL;
  edgert_tensor_info input;
  void *buffers[MOST_BINDINGS] = {NULL};
  double *ms = calloc(frames, sizeof *ms);
  int failed = 1;

  if (!ms || edgert_bundle_open(arguments[1], NULL, &bundle) || edgert_session_open(bundle, NULL, &session) ||
      bind_all(session, buffers) || edgert_session_input(session, 0, &input)) {
    fprintf(stderr, "%s\n", edgert_last_error());
  } else if (input.dtype != EDGERT_F32) {
    fprintf(stderr, "the first input, %s, is not float32\n", input.name);
  } else if (run_frames(session, buffers[0], input.bytes / sizeof(float), ms, frames)) {
    fprintf(stderr, "%s\n", edgert_last_error());
  } else {
    report(ms, frames, deadline);
    failed = 0;
  }

  edgert_session_close(session);
  edgert_bundle_close(bundle);
  for (int i = 0; i < MOST_BINDINGS; i++) free(buffers[i]);
  free(ms);
  return failed;
}
