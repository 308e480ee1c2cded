/* Raw DEFLATE streams (RFC 1951): canonical Huffman codes, decoded bit by bit along their lengths. */
#include "backends/cuda/inflate.h"

#include <string.h>

enum { LONGEST = 15, LITERALS = 288, DISTANCES = 30, END_OF_BLOCK = 256 };

typedef struct stream {
  const uint8_t *in;
  size_t stored, next; /* bytes there are, and bytes taken */
  uint32_t bits;       /* taken, but not used yet; the next one is the lowest */
  unsigned held;       /* how many */
  uint8_t *out;
  size_t bytes, made;
  bool failed;
} stream;

/* The codes of an alphabet: how many have each length, and the symbols in the order of their codes. */
typedef struct codes {
  uint16_t count[LONGEST + 1];
  uint16_t symbols[LITERALS];
} codes;

/* The next `n` <= 16 bits; 0 past the end, and the stream has failed. */
static unsigned take(stream *s, unsigned n) {
  while (s->held < n) {
    if (s->next == s->stored) {
      s->failed = true;
      return 0;
    }
    s->bits |= (uint32_t)s->in[s->next++] << s->held;
    s->held += 8;
  }
  unsigned value = s->bits & ((1u << n) - 1);
  s->bits >>= n;
  s->held -= n;
  return value;
}

/* Codes from their lengths, 0 for symbols without one. False if they are more than the lengths have room for, or fewer,
 * unless there is at most one. */
static bool make_codes(codes *c, const uint8_t *lengths, unsigned n) {
  memset(c->count, 0, sizeof c->count);
  for (unsigned i = 0; i < n; i++) c->count[lengths[i]]++;
  unsigned present = n - c->count[0];
  c->count[0] = 0;
  int room = 1;
  uint16_t first[LONGEST + 2] = {0};
  for (unsigned length = 1; length <= LONGEST; length++) {
    room = room * 2 - c->count[length];
    if (room < 0) return false;
    first[length + 1] = (uint16_t)(first[length] + c->count[length]);
  }
  if (room > 0 && present > 1) return false;
  for (unsigned i = 0; i < n; i++)
    if (lengths[i]) c->symbols[first[lengths[i]]++] = (uint16_t)i;
  return true;
}

/* The symbol of the next code; fails where no code continues as the bits do. */
static unsigned decode(stream *s, const codes *c) {
  unsigned code = 0, first = 0, index = 0;
  for (unsigned length = 1; length <= LONGEST && !s->failed; length++) {
    code |= take(s, 1);
    unsigned count = c->count[length];
    if (code < first + count) return c->symbols[index + (code - first)];
    index += count;
    first = (first + count) << 1;
    code <<= 1;
  }
  s->failed = true;
  return 0;
}

static void copy_stored(stream *s) {
  s->bits = 0; /* the rest of a byte; no whole one is held */
  s->held = 0;
  unsigned length = take(s, 16), complement = take(s, 16);
  if (s->failed || (length ^ complement) != 0xffff || length > s->stored - s->next || length > s->bytes - s->made) {
    s->failed = true;
    return;
  }
  memcpy(s->out + s->made, s->in + s->next, length);
  s->next += length;
  s->made += length;
}

/* Repeats `length` bytes from `distance` back, byte by byte: what is written may be repeated, too. */
static void repeat(stream *s, size_t length, size_t distance) {
  if (s->failed || distance > s->made || length > s->bytes - s->made) {
    s->failed = true;
    return;
  }
  uint8_t *to = s->out + s->made;
  for (size_t i = 0; i < length; i++) to[i] = to[i - distance];
  s->made += length;
}

static void read_block(stream *s, const codes *literals, const codes *distances) {
  static const uint16_t length_base[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                           31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
  static const uint8_t length_bits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                          2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
  static const uint16_t distance_base[DISTANCES] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                                    33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                                    1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
  while (!s->failed) {
    unsigned symbol = decode(s, literals);
    if (s->failed || symbol == END_OF_BLOCK) return;
    if (symbol < END_OF_BLOCK) {
      if (s->made == s->bytes)
        s->failed = true;
      else
        s->out[s->made++] = (uint8_t)symbol;
      continue;
    }
    symbol -= END_OF_BLOCK + 1;
    if (symbol >= sizeof length_bits) {
      s->failed = true;
      return;
    }
    size_t length = length_base[symbol] + (size_t)take(s, length_bits[symbol]);
    unsigned far = decode(s, distances);
    if (s->failed || far >= DISTANCES) {
      s->failed = true;
      return;
    }
    repeat(s, length, distance_base[far] + (size_t)take(s, far < 2 ? 0 : far / 2 - 1));
  }
}

static void read_fixed(stream *s) {
  uint8_t lengths[LITERALS];
  codes literals, distances;
  for (unsigned i = 0; i < LITERALS; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  (void)make_codes(&literals, lengths, LITERALS);
  memset(lengths, 5, 32);
  (void)make_codes(&distances, lengths, 32);
  read_block(s, &literals, &distances);
}

/* The lengths of both alphabets, which are themselves coded: 16 repeats the last one, 17 and 18 are runs of 0. */
static bool read_lengths(stream *s, const codes *c, uint8_t *lengths, unsigned n) {
  unsigned i = 0;
  while (i < n && !s->failed) {
    unsigned symbol = decode(s, c), count = 1, length = symbol;
    if (symbol >= 16) {
      if (symbol == 16 && i == 0) return false;
      length = symbol == 16 ? lengths[i - 1] : 0;
      count = symbol == 16 ? 3 + take(s, 2) : symbol == 17 ? 3 + take(s, 3) : 11 + take(s, 7);
    }
    if (count > n - i) return false;
    memset(lengths + i, (int)length, count);
    i += count;
  }
  return !s->failed;
}

static void read_dynamic(stream *s) {
  static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  uint8_t lengths[LITERALS + 32] = {0};
  codes literals, distances;
  unsigned n_literals = 257 + take(s, 5), n_distances = 1 + take(s, 5), n_lengths = 4 + take(s, 4);
  for (unsigned i = 0; i < n_lengths; i++) lengths[order[i]] = (uint8_t)take(s, 3);
  bool good = !s->failed && n_literals <= 286 && n_distances <= DISTANCES && make_codes(&literals, lengths, 19);
  if (good) {
    codes of_lengths = literals;
    memset(lengths, 0, sizeof lengths);
    good = read_lengths(s, &of_lengths, lengths, n_literals + n_distances) && lengths[END_OF_BLOCK] != 0 &&
           make_codes(&literals, lengths, n_literals) && make_codes(&distances, lengths + n_literals, n_distances);
  }
  if (good)
    read_block(s, &literals, &distances);
  else
    s->failed = true;
}

bool ert_inflate(const uint8_t *in, size_t stored, uint8_t *to, size_t bytes) {
  stream s = {.in = in, .stored = stored, .out = to, .bytes = bytes};
  unsigned last;
  do {
    last = take(&s, 1);
    unsigned kind = take(&s, 2);
    if (s.failed) break;
    if (kind == 0)
      copy_stored(&s);
    else if (kind == 1)
      read_fixed(&s);
    else if (kind == 2)
      read_dynamic(&s);
    else
      s.failed = true;
  } while (!last && !s.failed);
  return !s.failed && s.made == bytes && s.next == stored;
}
