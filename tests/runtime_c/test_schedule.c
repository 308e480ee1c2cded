/* Schedules: who runs what, and where the workers wait for each other. */
#include "session/schedule.h"

#include "test.h"

enum { A = ERT_ALL_CORES, MOST = 16 };

/* A step of a made-up program. */
typedef struct made {
  uint32_t core, phase;
  int64_t tasks;
} made;

/* The schedule of steps of so many rounds as text: a line a worker, steps by letter with their tasks, "|" to wait. */
static const char *text_of(const made *steps, uint32_t count, int64_t rounds, uint32_t workers) {
  static char text[1024];
  ert_step made_steps[MOST];
  ert_turn turns[MOST];
  for (uint32_t i = 0; i < count; i++) {
    made_steps[i] = (ert_step){.index = i, .tasks = steps[i].tasks, .rounds = rounds};
    turns[i] = (ert_turn){steps[i].core, steps[i].phase};
  }
  ert_plan plan = {.steps = made_steps, .turns = turns, .n_steps = count};
  ert_room room = {.count = 0};
  ert_schedule *schedule;
  CHECK(ert_schedule_open(&plan, workers, &room, &schedule) == EDGERT_OK);
  char *end = text;
  for (uint32_t worker = 0; worker < workers; worker++) {
    for (size_t i = schedule->first[worker]; i < schedule->first[worker + 1]; i++) {
      const ert_work *w = &schedule->work[i];
      if (w->step)
        end += sprintf(end, "%c%d-%d ", 'a' + (char)w->step->index, (int)w->begin, (int)w->end);
      else
        end += sprintf(end, "| ");
    }
    end += sprintf(end, "\n");
  }
  ert_room_close(&room);
  return text;
}

#define EXPECT_ROUNDS(rounds, workers, expected, ...)                                    \
  do {                                                                                   \
    const made steps[] = {__VA_ARGS__};                                                  \
    const char *found = text_of(steps, sizeof steps / sizeof *steps, rounds, workers);   \
    if (strcmp(found, expected) != 0) fprintf(stderr, "%s, found\n%s", expected, found); \
    CHECK(strcmp(found, expected) == 0);                                                 \
  } while (0)
#define EXPECT(workers, expected, ...) EXPECT_ROUNDS(0, workers, expected, __VA_ARGS__)

static void shares(void) {
  EXPECT(1, "a0-7 \n", {A, 0, 7});
  EXPECT(3, "a0-3 \na3-5 \na5-7 \n", {A, 0, 7});
  EXPECT(3, "a0-1 \na1-2 \n\n", {A, 0, 2});
  EXPECT(2, "\n\n", {A, 0, 0}, {0, 0, 0});
}

/* Every worker is there in all rounds, with tasks of the first. */
static void rounds(void) {
  EXPECT_ROUNDS(3, 3, "a0-2 \na2-3 \na3-4 \n", {A, 0, 12});
  EXPECT_ROUNDS(5, 3, "a0-1 \na1-2 \na2-2 \n", {A, 0, 10});
}

/* Cores are dealt to the workers in turn; a step of one core is whole. */
static void cores(void) {
  EXPECT(3, "a0-4 \nb0-4 \nc0-1 \n", {0, 0, 4}, {1, 0, 4}, {2, 0, 1});
  EXPECT(2, "a0-4 c0-1 \nb0-4 d0-2 \n", {0, 0, 4}, {1, 0, 4}, {2, 0, 1}, {3, 0, 2});
  EXPECT(1, "a0-4 b0-4 c0-1 \n", {0, 0, 4}, {1, 0, 4}, {2, 1, 1});
}

static void waits(void) {
  EXPECT(2, "a0-1 | c0-1 \nb0-1 | d0-1 \n", {0, 0, 1}, {1, 0, 1}, {0, 1, 1}, {1, 1, 1});
  EXPECT(2, "a0-1 | \n| b0-1 \n", {0, 0, 1}, {1, 1, 1});
  EXPECT(2, "a0-2 | b0-1 | d0-1 \na2-4 | | c0-1 \n", {A, 0, 4}, {A, 1, 1}, {1, 2, 1}, {0, 2, 1});
  /* not between phases of one and the same worker, nor next to those without any work */
  EXPECT(2, "a0-1 b0-1 c0-1 \n\n", {0, 0, 1}, {0, 1, 1}, {A, 2, 1});
  EXPECT(2, "a0-1 b0-1 | \n| c0-1 d0-1 \n", {0, 0, 1}, {0, 1, 1}, {1, 2, 1}, {1, 3, 1});
  EXPECT(2, "a0-1 | \n| c0-1 \n", {0, 0, 1}, {0, 1, 0}, {1, 2, 1});
  EXPECT(2, "b0-1 \na0-1 \n", {1, 0, 1}, {0, 0, 1}, {0, 1, 0});
  EXPECT(2, "b0-1 \nc0-1 \n", {0, 0, 0}, {0, 1, 1}, {1, 1, 1});
  /* cores that are dealt to one worker are one and the same */
  EXPECT(2, "a0-1 b0-1 \n\n", {0, 0, 1}, {2, 1, 1});
}

int main(void) {
  RUN(shares);
  RUN(rounds);
  RUN(cores);
  RUN(waits);
  return 0;
}
