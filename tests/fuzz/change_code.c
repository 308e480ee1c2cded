/* Changes to the PTX of a module: tokens and lines of it, or of other modules, in other places. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backends/cuda/inflate.h"
#include "base/checked.h"
#include "change.h"

enum { MOST_TEXT = 1 << 17, MOST_BLOCK = 65535 };

/* Text in memory of MOST_TEXT bytes. */
typedef struct text {
  char *data;
  size_t count;
} text;

/* A piece of a text. */
typedef struct span {
  size_t begin, end;
} span;

/* The PTX in a stream of a segment; empty if it does not lie there, or is too long. */
static text ptx_at(const edgert_bundle *bundle, uint64_t segment, uint64_t offset, uint64_t stored, uint64_t bytes,
                   pool *work) {
  text out = {pool_take(work, MOST_TEXT), 0};
  ert_vector segments = ert_items(bundle->root, ERT_FIELD_BUNDLE_SEGMENTS);
  if (!out.data || segment >= segments.count || bytes > MOST_TEXT / 2) return out;
  ert_table from = ert_item(segments, (uint32_t)segment);
  if (!ert_within(offset, stored, ert_u64(from, ERT_FIELD_SEGMENT_LENGTH, 0))) return out;
  if (ert_inflate(ert_segment_data(bundle, from) + offset, stored, (uint8_t *)out.data, bytes)) out.count = bytes;
  return out;
}

/* The PTX of a random module; empty if there is none. */
static text any_ptx(const edgert_bundle *bundle, dice *d, pool *work) {
  ert_vector programs = ert_items(bundle->root, ERT_FIELD_BUNDLE_PROGRAMS), modules = {NULL, 0};
  if (programs.count > 0)
    modules = ert_items(ert_item(programs, (uint32_t)below(d, programs.count)), ERT_FIELD_PROGRAM_MODULES);
  if (modules.count == 0) return (text){NULL, 0};
  ert_table m = ert_item(modules, (uint32_t)below(d, modules.count));
  return ptx_at(bundle, ert_u32(m, ERT_FIELD_MODULE_PTX_SEGMENT, UINT32_MAX),
                ert_u64(m, ERT_FIELD_MODULE_PTX_OFFSET, 0), ert_u64(m, ERT_FIELD_MODULE_PTX_STORED, 0),
                ert_u64(m, ERT_FIELD_MODULE_PTX_BYTES, 0), work);
}

static bool is_word(char c) { return isalnum((unsigned char)c) || strchr("%._$", c); }

/* A random token: a word, or another character by itself. */
static span token_of(const text *t, dice *d) {
  span s = {below(d, t->count), 0};
  while (s.begin < t->count && isspace((unsigned char)t->data[s.begin])) s.begin++;
  for (s.end = s.begin; s.end < t->count && is_word(t->data[s.end]); s.end++) continue;
  if (s.end == s.begin) s.end += s.end < t->count;
  while (s.begin > 0 && is_word(t->data[s.begin]) && is_word(t->data[s.begin - 1])) s.begin--;
  return s;
}

/* A random line, its end included. */
static span line_of(const text *t, dice *d) {
  span s = {below(d, t->count), 0};
  for (s.end = s.begin; s.end < t->count && t->data[s.end] != '\n'; s.end++) continue;
  s.end += s.end < t->count;
  while (s.begin > 0 && t->data[s.begin - 1] != '\n') s.begin--;
  return s;
}

/* Puts other characters where a piece was, if there is room. */
static void replace(text *t, span old, const char *with, size_t count) {
  char piece[512];
  if (count > sizeof piece || t->count - (old.end - old.begin) + count > MOST_TEXT) return;
  memcpy(piece, with, count); /* which may be of this very text */
  memmove(t->data + old.begin + count, t->data + old.end, t->count - old.end);
  memcpy(t->data + old.begin, piece, count);
  t->count = t->count - (old.end - old.begin) + count;
}

static void change_text(text *t, const text *donor, dice *d) {
  const text *from = donor->count && one_in(d, 3) ? donor : t;
  char number[32];
  span to, piece;
  switch (below(d, 6)) {
    case 0: /* a line elsewhere */
      to = line_of(t, d);
      to.end = to.begin;
      piece = line_of(from, d);
      replace(t, to, from->data + piece.begin, piece.end - piece.begin);
      return;
    case 1: /* no line */
      replace(t, line_of(t, d), "", 0);
      return;
    case 2: { /* a number */
      int64_t x = (int64_t)odd_integer(d, one_in(d, 2) ? 4 : 8);
      int n = snprintf(number, sizeof number, one_in(d, 4) ? "0f%08" PRIX64 : "%" PRId64, x);
      replace(t, token_of(t, d), number, (size_t)n);
      return;
    }
    case 3: /* a character */
      t->data[below(d, t->count)] = (char)below(d, one_in(d, 2) ? 128 : 256);
      return;
    default: /* a token elsewhere */
      to = token_of(t, d);
      piece = token_of(from, d);
      replace(t, to, from->data + piece.begin, piece.end - piece.begin);
      return;
  }
}

/* A raw DEFLATE stream of stored blocks; its length. */
static size_t store_blocks(const text *t, uint8_t *out) {
  size_t used = 0, at = 0;
  do {
    size_t count = t->count - at < MOST_BLOCK ? t->count - at : MOST_BLOCK;
    out[used++] = at + count == t->count;
    for (int i = 0; i < 4; i++) out[used++] = (uint8_t)((i < 2 ? count : ~count) >> 8 * (i % 2));
    memcpy(out + used, t->data + at, count);
    used += count;
    at += count;
  } while (at < t->count);
  return used;
}

patch change_code(node *root, const edgert_bundle *seed, const edgert_bundle *donor, size_t *lengths, dice *d,
                  pool *work) {
  patch none = {.count = 0};
  node *programs = tree_field(root, ERT_FIELD_BUNDLE_PROGRAMS);
  if (programs->count == 0) return none;
  node *modules = tree_field(&programs->items[below(d, programs->count)], ERT_FIELD_PROGRAM_MODULES);
  if (modules->count == 0) return none;
  node *m = &modules->items[below(d, modules->count)];
  node *segment = tree_field(m, ERT_FIELD_MODULE_PTX_SEGMENT), *at = tree_field(m, ERT_FIELD_MODULE_PTX_OFFSET);
  node *stored = tree_field(m, ERT_FIELD_MODULE_PTX_STORED), *bytes = tree_field(m, ERT_FIELD_MODULE_PTX_BYTES);
  if (!segment->present) return none;
  text own = ptx_at(seed, segment->scalar, at->scalar, stored->scalar, bytes->scalar, work);
  text other = any_ptx(donor, d, work);
  uint8_t *stream = pool_take(work, MOST_TEXT + 64);
  if (!stream) return none;
  for (uint64_t changes = 1 + below(d, 3); changes > 0 && own.count > 0; changes--) change_text(&own, &other, d);
  if (own.count == 0) return none;
  patch code = {.bytes = stream, .segment = (uint32_t)segment->scalar, .at = (lengths[segment->scalar] + 63) / 64 * 64};
  code.count = store_blocks(&own, stream);
  lengths[code.segment] = code.at + code.count;
  set_scalar(at, code.at);
  set_scalar(stored, code.count);
  set_scalar(bytes, own.count);
  return code;
}
