/* Memory taken piece by piece: zeroed, aligned, each piece apart, whoever takes it, few blocks however much is taken, and
 * refused without harm to what was taken before. */
#include "base/room.h"

#include <pthread.h>

#include "base/fault.h"
#include "test.h"

enum { MOST = 4000 };

/* Takes a piece that nobody has written to, and fills it. */
static uint8_t *take(ert_room *room, size_t bytes, uint8_t with) {
  void *piece;
  CHECK(ert_room_take(room, bytes, "test", &piece) == EDGERT_OK);
  CHECK(piece != NULL && (uintptr_t)piece % 64 == 0);
  for (size_t i = 0; i < bytes; i++) CHECK(((uint8_t *)piece)[i] == 0);
  memset(piece, with, bytes);
  return piece;
}

static void pieces(void) {
  static uint8_t *found[MOST];
  static size_t bytes[MOST];
  ert_room room = {.count = 0};
  for (int again = 0; again < 2; again++) { /* a room that was closed may be used anew */
    for (size_t i = 0; i < MOST; i++) {
      bytes[i] = i % 500 == 499 ? 300000 : i * 37 % 1500;
      found[i] = take(&room, bytes[i], (uint8_t)(i % 255 + 1));
    }
    for (size_t i = 0; i < MOST; i++)
      for (size_t k = 0; k < bytes[i]; k++) CHECK(found[i][k] == (uint8_t)(i % 255 + 1));
    CHECK(room.count > 1 && room.count < 8);
    ert_room_finish(&room);
    ert_room_close(&room);
    CHECK(room.count == 0);
  }
}

/* A thread that takes pieces of a room which others take pieces of, too. */
typedef struct taker {
  pthread_t thread;
  ert_room *room;
  uint8_t *pieces[MOST / 4];
  uint8_t with;
} taker;

static size_t piece_bytes(size_t i) { return i * 37 % 1500 + 1; }

static void *take_many(void *argument) {
  taker *t = argument;
  for (size_t i = 0; i < MOST / 4; i++) t->pieces[i] = take(t->room, piece_bytes(i), t->with);
  return NULL;
}

static void pieces_of_several_threads(void) {
  static taker takers[4];
  ert_room room = {.count = 0};
  for (uint8_t i = 0; i < 4; i++) {
    takers[i].room = &room;
    takers[i].with = (uint8_t)(i + 1);
    CHECK(pthread_create(&takers[i].thread, NULL, take_many, &takers[i]) == 0);
  }
  for (int i = 0; i < 4; i++) CHECK(pthread_join(takers[i].thread, NULL) == 0);
  for (int i = 0; i < 4; i++)
    for (size_t k = 0; k < MOST / 4; k++)
      for (size_t at = 0; at < piece_bytes(k); at++) CHECK(takers[i].pieces[k][at] == takers[i].with);
  ert_room_close(&room);
}

static void large_pieces_begin_with_a_page(void) {
  ert_room room = {.count = 0};
  CHECK((uintptr_t)take(&room, 5 << 20, 1) % (2 << 20) == 0);
  take(&room, 1000, 2);
  CHECK(room.count == 1); /* in the rest of the last page */
  take(&room, 2 << 20, 3);
  CHECK(room.count == 2);
  take(&room, 3 << 20, 4);
  CHECK(room.count == 2); /* blocks are as large as all before */
  ert_room_close(&room);
}

static bool refuse(ert_operation operation) { return operation == ERT_OPERATION_ALLOCATE; }

static void refused(void) {
  ert_room room = {.count = 0};
  ert_room_finish(&room);
  const uint8_t *kept = take(&room, 100, 7);
  void *piece = &room;
  CHECK(ert_room_take(&room, SIZE_MAX, "test", &piece) == EDGERT_ERROR_OUT_OF_MEMORY && piece == NULL);
  CHECK(ert_room_take(&room, SIZE_MAX / 2, "test", &piece) == EDGERT_ERROR_OUT_OF_MEMORY && piece == NULL);
  ert_fault_hook = refuse;
  CHECK(ert_room_take(&room, 1 << 20, "test", &piece) == EDGERT_ERROR_OUT_OF_MEMORY && piece == NULL);
  CHECK(ert_room_take(&room, 100, "test", &piece) == EDGERT_OK && piece != NULL); /* of what is there */
  ert_fault_hook = NULL;
  CHECK(kept[0] == 7 && kept[99] == 7);
  ert_room_close(&room);
}

int main(void) {
  RUN(pieces);
  RUN(pieces_of_several_threads);
  RUN(large_pieces_begin_with_a_page);
  RUN(refused);
  return 0;
}
