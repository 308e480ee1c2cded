/* Taking pieces of the last block, and adding blocks. */
#include "base/room.h"

#include "base/alloc.h"
#include "base/checked.h"

#ifdef __SANITIZE_ADDRESS__ /* what is not taken may not be touched, nor the line behind each piece */
void __asan_poison_memory_region(const volatile void *begin, size_t bytes);
void __asan_unpoison_memory_region(const volatile void *begin, size_t bytes);
static void forbid(const void *begin, size_t bytes) { __asan_poison_memory_region(begin, bytes); }
static void allow(const void *begin, size_t bytes) { __asan_unpoison_memory_region(begin, bytes); }
#else
static void forbid(const void *begin, size_t bytes) { (void)begin, (void)bytes; }
static void allow(const void *begin, size_t bytes) { (void)begin, (void)bytes; }
#endif

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static edgert_status add_block(ert_room *room, size_t bytes, const char *what) {
  if (room->count == ERT_ROOM_BLOCKS)
    return ert_fail(EDGERT_ERROR_OUT_OF_MEMORY, ert_format("%s: %zu bytes", what, bytes).s, NULL, NULL);
  ert_pages *block = &room->blocks[room->count];
  ERT_TRY(ert_pages_open(larger(bytes, larger(room->taken, ERT_PAGES_SMALL)), what, block));
  forbid(block->data, block->bytes);
  room->count++;
  room->used = 0;
  return EDGERT_OK;
}

static edgert_status take(ert_room *room, size_t bytes, const char *what, void **out) {
  size_t needed;
  if (!ert_align_up(bytes, ERT_ALIGNMENT, &needed) || !ert_add(needed, ERT_ALIGNMENT, &needed)) needed = SIZE_MAX;
  if (room->count == 0 || needed > room->blocks[room->count - 1].bytes - room->used)
    ERT_TRY(add_block(room, needed, what));
  *out = room->blocks[room->count - 1].data + room->used;
  allow(*out, bytes);
  room->used += needed;
  room->taken += needed;
  return EDGERT_OK;
}

edgert_status ert_room_take(ert_room *room, size_t bytes, const char *what, void **out) {
  *out = NULL;
  while (atomic_exchange_explicit(&room->taking, true, memory_order_acquire)) continue; /* it takes some nanoseconds */
  edgert_status status = take(room, bytes, what, out);
  atomic_store_explicit(&room->taking, false, memory_order_release);
  return status;
}

void ert_room_finish(const ert_room *room) {
  if (room->count == 0) return;
  const ert_pages *last = &room->blocks[room->count - 1];
  const size_t left = last->bytes - room->used;
  if (last->bytes <= ERT_PAGES_SMALL) /* the rest of a huge page is there */
    ert_pages_touch(last->data + room->used,
                    last->data + room->used + (left < ERT_PAGES_BESIDE ? left : ERT_PAGES_BESIDE));
}

void ert_room_close(ert_room *room) {
  for (uint32_t i = 0; i < room->count; i++) {
    allow(room->blocks[i].data, room->blocks[i].bytes);
    ert_pages_close(room->blocks[i]);
  }
  *room = (ert_room){.count = 0};
}
