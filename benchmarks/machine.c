/* What the processor itself allows: the rate of multiply-adds on registers alone, and how long a cache line takes from
 * one core to another and back. machine.py builds it for the processor at hand. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#if defined(__aarch64__)
#define REGISTER "+w"
#else
#define REGISTER "+v"
#endif
#define ADD(sum)                                                                           \
  do {                                                                                     \
    sum = sum * x + y;                                                                     \
    __asm__ volatile("" : REGISTER(sum)); /* kept in a register, and not optimised away */ \
  } while (0)

enum { SUMS = 12, STEPS = 100000 };

typedef float vector __attribute__((vector_size(VECTOR_BYTES)));

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Floating-point operations a second of one core: the best of `bursts`, each of a few hundred microseconds. Twelve
 * independent sums hide the latency of a multiply-add. */
double machine_flops(int bursts) {
  volatile float one = 1.0f, little = 1e-30f;
  vector x = (vector){0} + one, y = (vector){0} + little;
  vector a = y, b = y, c = y, d = y, e = y, f = y, g = y, h = y, i = y, j = y, k = y, l = y;
  double best = 0;
  for (int burst = 0; burst < bursts; burst++) {
    double begin = now();
    for (int step = 0; step < STEPS; step++) {
      ADD(a);
      ADD(b);
      ADD(c);
      ADD(d);
      ADD(e);
      ADD(f);
      ADD(g);
      ADD(h);
      ADD(i);
      ADD(j);
      ADD(k);
      ADD(l);
    }
    double rate = 2.0 * SUMS * STEPS * (VECTOR_BYTES / 4) / (now() - begin);
    if (rate > best) best = rate;
  }
  return best;
}

typedef struct {
  _Alignas(128) atomic_int *ball;
  int cpu, turn, rounds;
  double seconds; /* of one round */
} player;

/* Waits for the ball, which counts its flights, and passes it back. */
static void *play(void *argument) {
  player *me = argument;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(me->cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  int untimed = me->rounds / 10;
  double begin = now();
  for (int i = 0; i < me->rounds; i++) {
    if (i == untimed) begin = now();
    while (atomic_load_explicit(me->ball, memory_order_acquire) != 2 * i + me->turn) continue;
    atomic_store_explicit(me->ball, 2 * i + me->turn + 1, memory_order_release);
  }
  me->seconds = (now() - begin) / (me->rounds - untimed);
  return NULL;
}

/* Seconds that a cache line takes from one processor to another and back, over `rounds` (10 or more); negative if no
 * threads could be started. */
double machine_round_trip(int cpu, int other, int rounds) {
  _Alignas(128) atomic_int ball = 0;
  player players[2] = {{&ball, cpu, 0, rounds, 0}, {&ball, other, 1, rounds, 0}};
  pthread_t threads[2];
  if (pthread_create(&threads[0], NULL, play, &players[0])) return -1;
  if (pthread_create(&threads[1], NULL, play, &players[1])) {
    play(&players[1]); /* so that the other one ends */
    pthread_join(threads[0], NULL);
    return -1;
  }
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return players[0].seconds;
}
