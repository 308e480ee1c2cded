/* Instructions for AVX-512 out of a stream of non-zeros: the weights' places are in the code, so no index is read and no loop
 * ends while they are multiplied.
 *
 * Registers 0 to 27 have the sums of sixteen positions of as many filters, the last four the inputs of four places. Each
 * place is one load, and each weight is one multiply-add that broadcasts it from where the bundle has it, so products are the
 * limit: one a cycle where vectors of 512 bits are multiplied one a cycle.
 *
 * The code is a frame, which begins and ends the sums of 28 filters and is entered where it does so for as many as a group
 * has, and the bodies of a set of groups, through all of which each vector goes. Bodies are made anew for each strip, those of
 * a set over those of the one before, and stay in the cache meanwhile; or once, for all strips (base/made.h). */
#ifndef ERT_KERNELS_SIMD_UNROLL_AVX512_H
#define ERT_KERNELS_SIMD_UNROLL_AVX512_H

/* What the code is called with for each group: what it runs over the vectors with, and where it is entered for each of them.
 * `to` and `residual` are those of the last filter; `to` and `from` those of the next vector where they are sums. */
typedef struct unrolled_call {
  const float *x, *to, *residual, *from;
  float *kept;        /* NULL: nothing is */
  const char *values; /* what displacements are from: as far on as they reach back */
  const ert_unrolled_vector *vector, *end;
  const uint16_t *masks;                   /* of the taps of the first vector */
  int64_t y_filter, residual_filter, sums; /* bytes from one to the next */
  const uint8_t *enter, *body;
  float lo, hi;
} unrolled_call;
typedef void (*unrolled_code)(const unrolled_call *calls, const unrolled_call *end);

enum {
  UNROLLED_INPUT = 28, /* the first register of inputs; behind all products two of them have limits of outputs */
  UNROLLED_LO = 28,
  UNROLLED_HI = 29,
  UNROLLED_REACH = 256, /* values that a displacement of one byte tells apart */
  UNROLLED_BACK = 512,  /* bytes that it reaches back */
  UNROLLED_BEGIN = 6,   /* bytes that begin a sum */
  UNROLLED_LOAD = 10,   /* of a load, of one that is near, and of a multiply-add */
  UNROLLED_NEAR_LOAD = 7,
  UNROLLED_PRODUCT = 8,
  UNROLLED_TAP = 16,    /* of a tap's mask, and to move on to its inputs */
  UNROLLED_TAIL = 128,  /* of what is behind the products, and what is written behind that before the next ones are */
  UNROLLED_AHEAD = 128, /* owners of values that are read at once, at most */
  UNROLLED_SOON = 1024, /* bytes to where lines of the cache are asked for that will be written */
};

/* General registers as instructions number them. Of a vector: rdi is the input of its first position, r9 the vector, r11 its
 * masks; of a group: r15 its call, rsi the values from where displacements count, r14 where inputs are kept, rdx where sums
 * begin, rcx and r8 outputs and residuals of a filter. Of all: rbx what x is relative to, r10 and rax from one filter to the
 * next, r12 behind the last vector, r13 the calls, rbp behind them; r14 is free but for what is kept. */
enum { RAX, RCX, RDX, RBX, RSI = 6, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

static size_t unrolled_bytes(size_t taps, size_t batches, size_t values, size_t kept) {
  const size_t steps = values / (UNROLLED_REACH / 2) + 1; /* of rsi */
  return taps * UNROLLED_TAP + batches * 4 * UNROLLED_LOAD + values * UNROLLED_PRODUCT + steps * 7 + UNROLLED_TAIL +
         (kept > 0 ? (batches * 4 + kept * 2) * UNROLLED_LOAD : 0);
}

/* An operation of one of the opcode maps, with its mandatory prefix; and 16 if one float of memory is for all lanes. */
typedef struct unrolled_op {
  uint8_t map, prefix, code, one;
} unrolled_op;

static const unrolled_op unrolled_load = {1, 0, 0x10, 0}, unrolled_store = {1, 0, 0x11, 0},
                         unrolled_plus = {1, 0, 0x58, 0}, unrolled_plus_one = {1, 0, 0x58, 16},
                         unrolled_least = {1, 0, 0x5d, 0}, unrolled_most = {1, 0, 0x5f, 0},
                         unrolled_splat = {2, 1, 0x18, 0}, unrolled_compress = {2, 1, 0x8a, 0},
                         unrolled_xor = {1, 1, 0xef, 0};

/* An instruction of 512 bits: destination (or source of a store), first operand (0: none), and memory at base + disp32, or
 * register number -1 - base; under a mask (0: none), whose other lanes become zeros. */
ERT_INLINE uint8_t *unrolled_evex(uint8_t *p, unrolled_op op, int to, int first, int base, int disp, int mask) {
  const int rm = base < 0 ? -1 - base : base;
  const bool zeroed = mask > 0 && op.code != unrolled_store.code;
  *p++ = 0x62;
  *p++ = (uint8_t)((~to >> 3 & 1) << 7 | (base < 0 ? ~rm >> 4 & 1 : 1) << 6 | (~rm >> 3 & 1) << 5 |
                   (~to >> 4 & 1) << 4 | op.map);
  *p++ = (uint8_t)((~first & 15) << 3 | 4 | op.prefix);
  *p++ = (uint8_t)((zeroed ? 0x80 : 0) | 0x40 | op.one | (~first >> 4 & 1) << 3 | mask);
  *p++ = op.code;
  *p++ = (uint8_t)((base < 0 ? 0xc0 : 0x80) | (to & 7) << 3 | (rm & 7));
  if (base < 0) return p;
  memcpy(p, &disp, 4);
  return p + 4;
}

/* What general registers need: bytes as the manual has them. */
ERT_INLINE uint8_t *unrolled_put(uint8_t *p, const char *bytes, size_t n) {
  memcpy(p, bytes, n);
  return p + n;
}
#define UNROLLED_PUT(p, bytes) unrolled_put(p, bytes, sizeof bytes - 1)

/* A general register out of the call. */
ERT_INLINE uint8_t *unrolled_fetch(uint8_t *p, int to, size_t at) {
  *p++ = (uint8_t)(0x49 | to >> 3 << 2);
  *p++ = 0x8b;
  *p++ = (uint8_t)(0x47 | (to & 7) << 3);
  *p++ = (uint8_t)at;
  return p;
}
#define UNROLLED_FETCH(p, to, what) unrolled_fetch(p, to, offsetof(unrolled_call, what))

/* From the place behind `p`, which has the four bytes of the distance, to `there`. */
ERT_INLINE uint8_t *unrolled_jump(uint8_t *p, const uint8_t *there) {
  const int32_t distance = (int32_t)(there - (p + 4));
  memcpy(p, &distance, 4);
  return p + 4;
}

/* The frame; what it is lies before it. */
typedef struct unrolled_frame {
  uint8_t *call, *vector, *group; /* where it is called, and where each vector and a group of it begin */
  uint8_t *whole, *part;          /* where 28 sums are ended, of a vector whose lanes are all valid or not */
  size_t each[2];                 /* bytes for one of them */
  uint8_t *begin;                 /* where 28 sums are begun */
  uint8_t *end;
  const uint8_t *at; /* where it was made, of which kind, for how many taps */
  uint32_t kind;
  size_t taps;
} unrolled_frame;

/* All that frames differ by but the taps; never 0. */
static uint32_t unrolled_kind(const ert_unrolled *u) {
  return 1u | (uint32_t)u->first << 1 | (uint32_t)u->last << 2 | (uint32_t)u->together << 3 |
         (uint32_t)(u->bias != NULL) << 4 | (uint32_t)(u->residual != NULL) << 5 | (uint32_t)(u->lo > -INFINITY) << 6 |
         (uint32_t)(u->hi < INFINITY) << 7;
}

/* Registers of the calls, those of a vector and those of a group. */
static uint8_t *unrolled_enter(const ert_unrolled *u, unrolled_frame *f, uint8_t *p) {
  f->call = p;
  p = UNROLLED_PUT(p, "\x53\x55\x41\x54\x41\x55\x41\x56\x41\x57"); /* push rbx, rbp, r12 to r15 */
  p = UNROLLED_PUT(p, "\x49\x89\xff\x49\x89\xfd\x48\x89\xf5");     /* mov r15, rdi; mov r13, rdi; mov rbp, rsi */
  p = UNROLLED_FETCH(p, RBX, x);
  p = UNROLLED_FETCH(p, R9, vector);
  p = UNROLLED_FETCH(p, R10, y_filter);
  p = UNROLLED_FETCH(p, R11, masks);
  p = UNROLLED_FETCH(p, R12, end);
  p = UNROLLED_FETCH(p, RAX, residual_filter);
  f->vector = p;
  p = UNROLLED_PUT(p, "\x49\x8b\x39\x48\x8d\x3c\xbb"); /* rdi = rbx + 4 vector->x */
  f->group = p;
  p = UNROLLED_FETCH(p, RSI, values);
  p = UNROLLED_FETCH(p, RDX, from);
  if (u->last) { /* rcx = to + 4 vector->y */
    p = UNROLLED_FETCH(p, R14, to);
    p = UNROLLED_PUT(p, "\x49\x8b\x49\x08\x49\x8d\x0c\x8e");
  } else {
    p = UNROLLED_FETCH(p, RCX, to);
  }
  if (u->residual) { /* r8 = residual + 4 vector->residual */
    p = UNROLLED_FETCH(p, R14, residual);
    p = UNROLLED_PUT(p, "\x4d\x8b\x41\x10\x4f\x8d\x04\x86");
  }
  p = UNROLLED_PUT(p, "\x41\xff\x67"); /* jmp [r15 + enter] */
  *p++ = (uint8_t)offsetof(unrolled_call, enter);
  return p;
}

/* Where sums of the call's next vector are: [r15 + at] += r14. */
static uint8_t *unrolled_advance(uint8_t *p, size_t at) {
  p = UNROLLED_PUT(p, "\x4d\x01\x77");
  *p++ = (uint8_t)at;
  return p;
}

/* On to the next group, to the next vector, or back. */
static uint8_t *unrolled_next(const ert_unrolled *u, const unrolled_frame *f, uint8_t *p) {
  const uint32_t masks = (uint32_t)(u->taps * sizeof *u->masks);
  if (!u->first || !u->last) p = UNROLLED_FETCH(p, R14, sums);
  if (!u->first) p = unrolled_advance(p, offsetof(unrolled_call, from));
  if (!u->last) p = unrolled_advance(p, offsetof(unrolled_call, to));
  p = UNROLLED_PUT(p, "\x49\x83\xc7"); /* add r15, size of a call */
  *p++ = (uint8_t)sizeof(unrolled_call);
  p = UNROLLED_PUT(p, "\x49\x39\xef\x0f\x82"); /* cmp r15, rbp; jb */
  p = unrolled_jump(p, f->group);
  p = UNROLLED_PUT(p, "\x4d\x89\xef\x49\x83\xc1\x20\x49\x81\xc3"); /* mov r15, r13; add r9, 32; add r11, masks */
  memcpy(p, &masks, 4);
  p = UNROLLED_PUT(p + 4, "\x4d\x39\xe1\x0f\x82"); /* cmp r9, r12; jb */
  p = unrolled_jump(p, f->vector);
  p = UNROLLED_PUT(p, "\xc5\xf8\x77");                                    /* vzeroupper */
  return UNROLLED_PUT(p, "\x41\x5f\x41\x5e\x41\x5d\x41\x5c\x5d\x5b\xc3"); /* pop r15 to r12, rbp, rbx; ret */
}

/* Each output: add the bias, or the sum of the tiles before, and the residual; limit, store. Where outputs move together,
 * lanes that are none are left out. */
static uint8_t *unrolled_finish(const ert_unrolled *u, uint8_t *p, bool whole) {
  const int mask = whole ? 0 : 2;
  for (int f = ERT_UNROLLED_FILTERS - 1; f >= 0; f--) {
    if (!u->first)
      p = unrolled_evex(p, unrolled_plus, f, f, RDX, f * 64, 0);
    else if (u->bias)
      p = unrolled_evex(p, unrolled_plus_one, f, f, RDX, f * 4, 0);
    if (!u->last) {
      p = unrolled_evex(p, unrolled_store, f, 0, RCX, f * 64, 0);
      continue;
    }
    if (u->together && !whole) p = unrolled_evex(p, unrolled_compress, f, 0, -1 - f, 0, 1);
    if (u->residual) p = unrolled_evex(p, unrolled_plus, f, f, R8, 0, mask);
    if (u->lo > -INFINITY) p = unrolled_evex(p, unrolled_most, f, UNROLLED_LO, -1 - f, 0, 0);
    if (u->hi < INFINITY) p = unrolled_evex(p, unrolled_least, f, UNROLLED_HI, -1 - f, 0, 0);
    p = unrolled_evex(p, unrolled_store, f, 0, RCX, 0, mask);
    p = UNROLLED_PUT(p, "\x4c\x29\xd1");                  /* sub rcx, r10 */
    if (u->residual) p = UNROLLED_PUT(p, "\x49\x29\xc0"); /* sub r8, rax */
  }
  return p;
}

/* The frame that is there, if it is one of this kind: strips, groups and steps often have the same. */
static uint8_t *unrolled_make_frame(const ert_unrolled *u) {
  unrolled_frame *f = (unrolled_frame *)(void *)u->code;
  if (f->kind == unrolled_kind(u) && f->taps == u->taps && f->at == u->code) return f->end;
  f->kind = unrolled_kind(u), f->taps = u->taps, f->at = u->code;
  uint8_t *p = unrolled_enter(u, f, u->code + sizeof *f);
  f->whole = p;
  p = unrolled_finish(u, p, true);
  f->each[0] = (size_t)(p - f->whole) / ERT_UNROLLED_FILTERS;
  f->part = p = unrolled_next(u, f, p);
  p = unrolled_finish(u, p, false);
  f->each[1] = (size_t)(p - f->part) / ERT_UNROLLED_FILTERS;
  f->begin = p = unrolled_next(u, f, p);
  for (int i = ERT_UNROLLED_FILTERS - 1; i >= 0; i--) p = unrolled_evex(p, unrolled_xor, i, i, -1 - i, 0, 0);
  p = UNROLLED_PUT(p, "\x41\xff\x67"); /* jmp [r15 + body] */
  *p++ = (uint8_t)offsetof(unrolled_call, body);
  return f->end = p;
}

/* Behind the products: masks and limits, and on to where the sums are ended. */
static uint8_t *unrolled_tail(const ert_unrolled *u, const unrolled_frame *f, uint8_t *p) {
  const size_t skipped = ERT_UNROLLED_FILTERS - u->n_filters;
  if (u->last) {
    p = UNROLLED_PUT(p, "\xc4\xc1\x78\x90\x49\x18\xc4\xc1\x78\x90\x51\x1a"); /* kmovw k1, [r9 + 24]; k2, [r9 + 26] */
    if (u->lo > -INFINITY) p = unrolled_evex(p, unrolled_splat, UNROLLED_LO, 0, R15, offsetof(unrolled_call, lo), 0);
    if (u->hi < INFINITY) p = unrolled_evex(p, unrolled_splat, UNROLLED_HI, 0, R15, offsetof(unrolled_call, hi), 0);
    p = UNROLLED_PUT(p, "\x45\x0f\xb7\x71\x18\x41\x81\xfe\xff\xff\x00\x00\x0f\x85"); /* [r9 + 24] != 0xffff? */
    p = unrolled_jump(p, f->part + skipped * f->each[1]);
  }
  return unrolled_jump(UNROLLED_PUT(p, "\xe9"), f->whole + skipped * f->each[0]);
}

/* Eight multiply-adds, each in eight bytes: sum += input * [rsi + 4 (number - 128)]. The bytes are a prefix that does
 * nothing, the four of EVEX, opcode, operands and displacement. An owner is a sum, whose number is in the operands' bits and
 * inverted in two of the second byte, and an input, inverted in the third one: its parts are put into these bytes,
 * multiplied to where they belong, and exchanged in what is `displaced`. */
ERT_INLINE __m512i unrolled_products(__m512i owners, __m512i spread, __m512i displaced) {
  const __m512i parts = _mm512_set1_epi64(INT64_C(0x0007000060180000)),
                to = _mm512_set1_epi64(INT64_C(0x0008000040110000));
  const __m512i own = _mm512_set1_epi64(INT64_C(0x0038000018900000));
  const __m512i moved = _mm512_maddubs_epi16(_mm512_and_si512(_mm512_shuffle_epi8(owners, spread), parts), to);
  return _mm512_ternarylogic_epi64(moved, own, displaced, 0x6a);
}

/* Bytes `first`, first + 1 of sixteen, and so on, where unrolled_products needs them, in eight bytes each. */
ERT_INLINE __m512i unrolled_spread(int first) {
  const __m512i number = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  const __m512i repeated = _mm512_mullo_epi64(number, _mm512_set1_epi64(INT64_C(0x0001000001010000)));
  return _mm512_add_epi8(repeated, _mm512_set1_epi8((char)first));
}

/* Four loads of inputs, or stores, displaced by 32 bits each, whose bytes are those of words of two. */
ERT_INLINE __m512i unrolled_loads(__m512i four, __m128i displaced) {
  const __m512i words = _mm512_castsi128_si512(displaced);
  const __m512i to =
      _mm512_set_epi16(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 6, 0, 0, 0, 5, 4, 0, 0, 0, 3, 2, 0, 0, 0, 1, 0, 0, 0, 0);
  return _mm512_mask_permutexvar_epi16(four, 0xc6318, to, words);
}

/* Keeps the channels of which the group reads none, and goes on with what is kept. */
static uint8_t *unrolled_keep_others(const ert_unrolled *u, const bool *kept, uint8_t *p) {
  for (size_t i = 0; i < u->channels; i++) {
    if (kept[i]) continue;
    p = unrolled_evex(p, unrolled_load, UNROLLED_INPUT, 0, RDI, u->offsets[0] + (int)i * u->channel, 3);
    p = unrolled_evex(p, unrolled_store, UNROLLED_INPUT, 0, R14, (int)i * ERT_UNROLLED_LINE, 0);
  }
  return UNROLLED_PUT(p, "\x4c\x89\xf7"); /* mov rdi, r14 */
}

/* What is left of a group, and where its instructions go on. */
typedef struct unrolled_rest {
  uint8_t *p;
  const uint8_t *owner, *safe; /* the last owner from which on as many can be read as are at once */
  const uint32_t *batch;
  const uint32_t *ahead, *behind; /* the batches that fetch what the next vector reads: from one to before the other */
  size_t at;                      /* values since rsi moved */
  int32_t moved;                  /* bytes that rdi did */
  bool *kept;                     /* channels that are */
  __m512i far, keep;              /* four loads and stores of channels apart */
  __m256i near;                   /* four loads of lines */
  uint8_t owners[2 * UNROLLED_AHEAD]; /* the last ones, behind which there is nothing to read */
} unrolled_rest;

/* A general register += bytes. */
ERT_INLINE uint8_t *unrolled_move(uint8_t *p, int to, int32_t bytes) {
  *p++ = 0x48;
  *p++ = 0x81;
  *p++ = (uint8_t)(0xc0 | to);
  memcpy(p, &bytes, 4);
  return p + 4;
}

/* How a batch's inputs are loaded: from channels apart, likewise and kept, or from those that are lines one behind the other,
 * which displacements of one byte tell apart. */
typedef enum unrolled_inputs_of { UNROLLED_APART, UNROLLED_KEEPING, UNROLLED_NEAR } unrolled_inputs_of;

/* The instructions of a batch's loads and stores, without displacements. */
static void unrolled_list_loads(unrolled_rest *rest) {
  uint8_t far[64] = {0}, near[32] = {0}, keep[64] = {0};
  for (int i = 0; i < 4; i++) {
    (void)unrolled_evex(far + i * UNROLLED_LOAD, unrolled_load, UNROLLED_INPUT + i, 0, RDI, 0, 3);
    (void)unrolled_evex(keep + i * UNROLLED_LOAD, unrolled_store, UNROLLED_INPUT + i, 0, R14, 0, 0);
    memcpy(near + i * UNROLLED_NEAR_LOAD, far + i * UNROLLED_LOAD, UNROLLED_NEAR_LOAD);
    near[i * UNROLLED_NEAR_LOAD + 5] ^= 0xc0; /* of one byte */
  }
  rest->far = _mm512_loadu_si512(far), rest->keep = _mm512_loadu_si512(keep);
  rest->near = _mm256_loadu_si256((const __m256i *)(const void *)near);
}

/* Fetches the inputs of the next vector, which lie a line behind those displaced. */
ERT_INLINE uint8_t *unrolled_fetch_ahead(uint8_t *p, __m128i displaced) {
  int32_t next[4];
  _mm_storeu_si128((__m128i *)(void *)next, _mm_add_epi32(displaced, _mm_set1_epi32(ERT_UNROLLED_LINE)));
  for (int i = 0; i < 4; i++, p += 4) {
    p = UNROLLED_PUT(p, "\x0f\x18\x8f"); /* prefetcht0 [rdi + disp32] */
    memcpy(p, next + i, 4);
  }
  return p;
}

/* How many of the last places of a batch only fill it: they are no further on than those before, and of no value. */
static size_t unrolled_filling(uint32_t batch, const uint8_t *owners, size_t n) {
  const uint32_t further = batch & 0x3f3f3f3f;
  size_t places = further == 0 ? 1 : 4 - (size_t)__builtin_clz(further) / 8;
  for (size_t i = 0; i < n; i++) {
    const size_t place = (owners[i] >> 5 & 3) + 1u;
    places = place > places ? place : places;
  }
  return 4 - places;
}

/* The batches of a tap, before `last`. */
ERT_INLINE void unrolled_make_batches(const ert_unrolled *u, unrolled_rest *rest, const uint32_t *last, int32_t offset,
                                      unrolled_inputs_of inputs) {
  /* vfmadd231ps (or vpdpbusd) zmm0, zmm28, [rsi - 512]{1to16}, eight displaced one after the other */
  const uint64_t product = u->bytes ? UINT64_C(0x804650501df2623e) : UINT64_C(0x8046b8501df2623e);
  const __m512i each = _mm512_setr_epi64(0, INT64_C(1) << 56, INT64_C(2) << 56, INT64_C(3) << 56, INT64_C(4) << 56,
                                         INT64_C(5) << 56, INT64_C(6) << 56, INT64_C(7) << 56);
  const __m512i first = _mm512_add_epi64(each, _mm512_set1_epi64((long long)product));
  const __m512i eight = _mm512_set1_epi64(INT64_C(8) << 56);
  const __m512i low = unrolled_spread(0), high = unrolled_spread(8);
  const __m256i displacement = _mm256_setr_epi8(-1, -1, -1, -1, -1, -1, 0, -1, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1,
                                                -1, -1, 2, -1, -1, -1, -1, -1, -1, 3, -1, -1, -1, -1);
  const __m128i channel = _mm_set1_epi32(u->channel);
  __m128i from = _mm_set1_epi32(offset), number = _mm_setzero_si128();
  const uint8_t *owner = rest->owner, *safe = rest->safe;
  uint8_t *p = rest->p;
  size_t at = rest->at;
  const size_t load = inputs == UNROLLED_NEAR ? UNROLLED_NEAR_LOAD : UNROLLED_LOAD; /* or the store of what is kept */
  uint32_t lines = 0; /* in each byte: how many the last channel is behind the 128th one before rdi */
  if (inputs == UNROLLED_NEAR) {
    const int32_t to = offset + 128 * ERT_UNROLLED_LINE;
    p = unrolled_move(p, RDI, to - rest->moved);
    rest->moved = to;
  }
  for (const uint32_t *batch = rest->batch; batch < last; batch++) {
    const size_t n = _pext_u32(*batch, 0xc0c0c0c0); /* ert_unrolled_values, in one instruction */
    const uint32_t further = ert_unrolled_further(*batch);
    __builtin_prefetch(p + UNROLLED_SOON, 1);
    __builtin_prefetch(p + UNROLLED_SOON + 64, 1);
    if (__builtin_expect(owner > safe, 0)) {
      const size_t left = (size_t)(u->owners + u->n_values - owner);
      memcpy(rest->owners, owner, left);
      memset(rest->owners + left, 0, sizeof rest->owners - left);
      owner = rest->owners, safe = owner + UNROLLED_AHEAD;
    }
    if (__builtin_expect(at + n > UNROLLED_REACH, 0)) {
      p = unrolled_move(p, RSI, (int32_t)at * 4);
      at = 0;
    }
    if (inputs == UNROLLED_NEAR) {
      uint32_t four;
      if (__builtin_expect(__builtin_add_overflow(further, lines, &four), 0)) {
        const int32_t bytes = (int32_t)(lines & 255) * ERT_UNROLLED_LINE;
        p = unrolled_move(p, RDI, bytes);
        rest->moved += bytes, four = further;
      }
      lines = (four >> 24) * 0x01010101;
      const __m256i displaced = _mm256_set1_epi32((int32_t)(four ^ 0x80808080));
      const __m256i loads = _mm256_or_si256(_mm256_shuffle_epi8(displaced, displacement), rest->near);
      _mm256_storeu_si256((__m256i *)(void *)p, loads);
      p += 4 * UNROLLED_NEAR_LOAD;
    } else {
      const __m128i on = _mm_cvtepu8_epi32(_mm_cvtsi32_si128((int32_t)further));
      from = _mm_add_epi32(_mm_mullo_epi32(on, channel), from);
      if (inputs == UNROLLED_APART && batch >= rest->ahead && batch < rest->behind) p = unrolled_fetch_ahead(p, from);
      _mm512_storeu_si512(p, unrolled_loads(rest->far, from));
      from = _mm_shuffle_epi32(from, 0xff);
      p += 4 * UNROLLED_LOAD;
      if (inputs == UNROLLED_KEEPING) {
        int32_t numbers[4];
        number = _mm_add_epi32(number, on);
        _mm_storeu_si128((__m128i *)(void *)numbers, number);
        for (int i = 0; i < 4; i++) rest->kept[numbers[i]] = true;
        _mm512_storeu_si512(p, unrolled_loads(rest->keep, _mm_slli_epi32(number, 6)));
        number = _mm_shuffle_epi32(number, 0xff);
        p += 4 * UNROLLED_LOAD;
      }
    }
    if (__builtin_expect(*batch << 2 >> 26 == 0, 0)) p -= unrolled_filling(*batch, owner, n) * load;
    __m512i displaced = _mm512_add_epi64(first, _mm512_set1_epi64((long long)((uint64_t)at << 56)));
    size_t k = 0;
    do {
      const __m512i owners = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)(owner + k)));
      uint8_t *to = p + k * UNROLLED_PRODUCT;
      _mm512_storeu_si512(to, unrolled_products(owners, low, displaced));
      displaced = _mm512_add_epi64(displaced, eight);
      _mm512_storeu_si512(to + 64, unrolled_products(owners, high, displaced));
      displaced = _mm512_add_epi64(displaced, eight);
      k += 16;
    } while (__builtin_expect(k < n, 0));
    p += n * UNROLLED_PRODUCT, owner += n, at += n;
  }
  rest->p = p, rest->owner = owner, rest->safe = safe, rest->batch = last, rest->at = at;
}

static uint8_t *unrolled_make_group(const ert_unrolled *u) {
  bool kept[ERT_UNROLLED_KEPT];
  unrolled_rest rest;
  rest.p = u->body, rest.owner = u->owners, rest.batch = u->batches, rest.at = 0, rest.moved = 0, rest.kept = kept;
  rest.safe = u->n_values < UNROLLED_AHEAD ? NULL : u->owners + u->n_values - UNROLLED_AHEAD;
  unrolled_list_loads(&rest);
  if (u->kept) {
    memset(kept, 0, sizeof kept);
    rest.p = UNROLLED_FETCH(rest.p, R14, kept);
  }
  const bool near = !u->kept && u->channel == ERT_UNROLLED_LINE;
  for (size_t tap = 0; tap < u->taps; tap++) {
    const int32_t mask = (int32_t)tap * 2;
    const size_t batches = (size_t)u->tap_batches[tap], shares = tap + 1 == u->taps ? u->shares : 0;
    const uint32_t *last = rest.batch + batches;
    rest.ahead = rest.batch + (shares ? batches * u->share / shares : 0);
    rest.behind = rest.batch + (shares ? batches * (u->share + 1) / shares : 0);
    rest.p = UNROLLED_PUT(rest.p, "\xc4\xc1\x78\x90\x9b"); /* kmovw k3, [r11 + mask] */
    memcpy(rest.p, &mask, 4);
    rest.p += 4;
    if (u->kept)
      unrolled_make_batches(u, &rest, last, u->offsets[tap], UNROLLED_KEEPING);
    else if (near)
      unrolled_make_batches(u, &rest, last, u->offsets[tap], UNROLLED_NEAR);
    else
      unrolled_make_batches(u, &rest, last, u->offsets[tap], UNROLLED_APART);
  }
  if (near) rest.p = unrolled_move(rest.p, RDI, -rest.moved);
  if (u->kept) rest.p = unrolled_keep_others(u, kept, rest.p);
  return unrolled_tail(u, (const unrolled_frame *)(const void *)u->code, rest.p);
}

static unrolled_call unrolled_call_of(const ert_unrolled *u, const unrolled_frame *frame) {
  const ptrdiff_t last = (ptrdiff_t)u->n_filters - 1;
  return (unrolled_call){
      .x = u->x,
      .to = u->last ? u->y + last * u->y_filter : u->sums,
      .residual = u->residual ? u->residual + last * u->residual_filter : NULL,
      .from = u->first ? u->bias : u->sums,
      .kept = u->kept,
      .values = (const char *)u->values + UNROLLED_BACK,
      .vector = u->vectors,
      .end = u->vectors + u->n_vectors,
      .masks = u->masks,
      .y_filter = u->y_filter * 4,
      .residual_filter = u->residual_filter * 4,
      .sums = (int64_t)(u->n_filters * ERT_UNROLLED_LANES * sizeof(float)),
      .enter = frame->begin + (ERT_UNROLLED_FILTERS - u->n_filters) * UNROLLED_BEGIN + u->executable,
      .body = u->body + u->executable,
      .lo = u->lo,
      .hi = u->hi,
  };
}

static void unrolled_run(const ert_unrolled *groups, size_t n) {
  if (!groups->code) {
    unrolled_walk(groups, n);
    return;
  }
  const unrolled_frame *frame = (const unrolled_frame *)(const void *)groups->code;
  unrolled_call calls[ERT_UNROLLED_SET];
  for (size_t i = 0; i < n; i++) calls[i] = unrolled_call_of(groups + i, frame);
  ((unrolled_code)(uintptr_t)(frame->call + groups->executable))(calls, calls + n);
}

_Static_assert(sizeof(unrolled_call) < 128, "a displacement of one byte reaches its parts");
_Static_assert(sizeof(ert_unrolled_vector) == 32 && offsetof(ert_unrolled_vector, y) == 8 &&
                   offsetof(ert_unrolled_vector, residual) == 16 && offsetof(ert_unrolled_vector, valid) == 24 &&
                   offsetof(ert_unrolled_vector, stored) == 26,
               "instructions know where its parts are");

#endif
