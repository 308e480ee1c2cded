/* Memory that is taken piece by piece and given back as a whole. */
#ifndef ERT_BASE_ROOM_H
#define ERT_BASE_ROOM_H

#include <stdatomic.h>

#include "base/pages.h"

enum { ERT_ROOM_BLOCKS = 48 }; /* each is as large as all before, or larger: more do not fit 64 bits */

/* Any thread may take pieces. They lie one behind the other in few blocks, so that they share pages: until one appears takes
 * some 2 us if it is small, and 200 if it is huge. All zero: nothing is taken yet. */
typedef struct ert_room {
  ert_pages blocks[ERT_ROOM_BLOCKS];
  uint32_t count;
  atomic_bool taking; /* whether a thread does */
  size_t used;        /* of the last block */
  size_t taken;       /* of all blocks */
} ert_room;

/* `bytes` of zeroed memory, 64-byte aligned, for as long as the room is open. *out is NULL on failure. `what` names it in
 * the message. The first piece begins with a page, a huge one if it is large enough. */
edgert_status ert_room_take(ert_room *room, size_t bytes, const char *what, void **out);

/* After the last piece: vectors may read beside it as beside a block (base/pages.h). */
void ert_room_finish(const ert_room *room);

/* Gives all back; the room may be used anew. */
void ert_room_close(ert_room *room);

#endif
