/* Dense inner loop: a tile of P pixels by Q blocks of 16 output channels stays in registers while all weights, or
 * those of a pass, go by.
 *
 * Each step broadcasts one input value a pixel against the vectors of one weight row, so everything that is a sum of
 * products over "spans" of consecutive inputs (convolution, matrix multiplication) is this one loop. Vectors lie along output
 * channels: nothing is wasted on odd image sizes, and tiles of a row are cut evenly. A row's result is the same whatever tile
 * it falls into, since every output is made of the same chains of multiply-adds in the order of the weights: a long sum is cut
 * into chains of ERT_CHAIN products, whose results are added up, so that rounding errors stay as small as in a blocked
 * matrix product. */
#ifndef ERT_KERNELS_SIMD_F32_DENSE_H
#define ERT_KERNELS_SIMD_F32_DENSE_H

#include <math.h>

#include "kernels/simd/simd.h"
#include "kernels/simd/vec.h"

/* The tiles X(pixels, blocks) of this instruction set: accumulators, one row of weights and a broadcast fit its registers. */
#if ERT_VECTOR_BYTES == 64
#define DENSE_TILES_1(X) \
  X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1) X(7, 1) X(8, 1) X(9, 1) X(10, 1) X(11, 1) X(12, 1) X(13, 1) X(14, 1)
#define DENSE_TILES_2(X) \
  X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 2) X(6, 2) X(7, 2) X(8, 2) X(9, 2) X(10, 2) X(11, 2) X(12, 2) X(13, 2) X(14, 2)
#define DENSE_TILES_3(X) X(1, 3) X(2, 3) X(3, 3) X(4, 3) X(5, 3) X(6, 3) X(7, 3) X(8, 3) X(9, 3)
#define DENSE_TILES_4(X) X(1, 4) X(2, 4) X(3, 4) X(4, 4) X(5, 4) X(6, 4)
#elif ERT_VECTOR_BYTES == 32
#define DENSE_TILES_1(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1)
#define DENSE_TILES_2(X) X(1, 2) X(2, 2)
#define DENSE_TILES_3(X)
#define DENSE_TILES_4(X) X(1, 4)
#elif defined(__aarch64__)
#define DENSE_TILES_1(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1)
#define DENSE_TILES_2(X) X(1, 2) X(2, 2)
#define DENSE_TILES_3(X)
#define DENSE_TILES_4(X)
#else
#define DENSE_TILES_1(X) X(1, 1) X(2, 1)
#define DENSE_TILES_2(X)
#define DENSE_TILES_3(X)
#define DENSE_TILES_4(X)
#endif

enum {
  DENSE_FROM = ERT_VECTOR_BYTES == 32 ? 1 : 3,     /* pixels whose inputs are told from one pointer, */
  DENSE_POINTERS = ERT_VECTOR_BYTES == 32 ? 6 : 5, /* and pointers for those of any tile */
  DENSE_STEPS = ERT_VECTOR_BYTES == 32 ? 8 : 4,    /* inputs of a pixel from one turn of the loop to the next */
  DENSE_MAX_P = 14,
  DENSE_MAX_VECTORS = 8,
  DENSE_FEW = 112,         /* positions that are few tiles */
  DENSE_STREAMS = 3,       /* blocks of weights that arrive in time without being asked for */
  DENSE_KEPT = 256 * 1024, /* bytes of weights that come from a second-level cache in time for short tiles */
  /* Rows of weights of a block that the first-level cache keeps, where tiles are so short that they need them often. */
  DENSE_PASS = ERT_VECTOR_BYTES == 32 ? 4 * ERT_CHAIN : 0,
};

/* Whether a lane of a vector can be multiplied without being broadcast first: then inputs are loaded four at a time. */
#if defined(__aarch64__)
#define DENSE_LANES 1
#else
#define DENSE_LANES 0
#endif

/* What a tile multiplies: floats with the weights of an ert_weights, or pairs of bf16, each one element of 32 bits. */
enum { DENSE_PAIRS = ERT_WEIGHTS_BF16 + 1 };

/* The weights of input c that are a vector from lane `lane` on. */
ERT_INLINE vf dense_weights(const char *w, int c, int lane, int kind) {
  if (kind == ERT_WEIGHTS_F16) return vload_f16((const uint16_t *)(const void *)w + c * 16 + lane);
  if (kind == ERT_WEIGHTS_BF16) {
    const vi pairs = vload_int((const int32_t *)(const void *)w + c / 2 * 16 + lane);
    return (vf)(c % 2 ? pairs & ~0xffff : pairs << 16);
  }
  return vload_now((const float *)(const void *)w + c * 16 + lane);
}

/* acc + x * w; of pairs the sum of both products. */
ERT_INLINE vf dense_add(vf acc, vf x, vf w, int kind) {
#ifdef __AVX512BF16__
  if (kind == DENSE_PAIRS) return (vf)_mm512_dpbf16_ps((__m512)acc, (__m512bh)w, (__m512bh)x);
#endif
  (void)kind;
  return vadd_now(acc, x, w);
}

/* `n` inputs from x on: floats, or of bf16, where a pair may begin at any of them. */
ERT_INLINE const void *dense_input(const void *x, ptrdiff_t n, int kind) {
  if (kind == DENSE_PAIRS) return (const uint16_t *)x + n;
  return (const float *)x + n;
}

/* Further on by so many. Pixels have pointers of their own where registers suffice, as instructions are what takes time if
 * another thread runs on the same core; compilers would tell them from each other nevertheless. */
ERT_INLINE const void *dense_on(const void *x, ptrdiff_t n, int kind) {
  x = dense_input(x, n, kind);
  if (DENSE_FROM == 1) __asm__("" : "+r"(x));
  return x;
}

/* An element for all lanes. */
ERT_INLINE vf dense_splat(const void *x, int kind) {
  int32_t bits;
  if (kind != DENSE_PAIRS) return vsplat_now((const float *)x);
  memcpy(&bits, x, sizeof bits);
  return (vf)(bits - (vi){0});
}

/* Adds `steps` (1, 2, 4 or 8) consecutive elements of each pixel times as many weight rows. Pixel p starts
 * p % DENSE_FROM * stride inputs from at[p / DENSE_FROM] on; blocks of weights lie w_block bytes apart. */
ERT_INLINE void dense_steps(vf acc[DENSE_MAX_P][DENSE_MAX_VECTORS], const void *const at[DENSE_POINTERS],
                            ptrdiff_t stride, const char *w, ptrdiff_t w_block, int steps, int P, int Q, int kind) {
  const int elements = kind == DENSE_PAIRS ? 2 : 1; /* inputs that are one */
  vf inputs[DENSE_MAX_P];
#pragma GCC unroll 14
  for (int p = 0; p < P; p++)
    if (DENSE_LANES && steps == VL) inputs[p] = vload(dense_input(at[p / DENSE_FROM], (p % DENSE_FROM) * stride, kind));
#pragma GCC unroll 8
  for (int c = 0; c < steps; c++) {
    vf row[DENSE_MAX_VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < Q * V16; v++)
      if (P > 1) row[v] = dense_weights(w + (v / V16) * w_block, c, (v % V16) * VL, kind);
#pragma GCC unroll 14
    for (int p = 0; p < P; p++) {
      const void *input = dense_input(at[p / DENSE_FROM], (p % DENSE_FROM) * stride + c * elements, kind);
      const vf x = DENSE_LANES && steps == VL ? vsplat(inputs[p][c]) : dense_splat(input, kind);
#pragma GCC unroll 8
      for (int v = 0; v < Q * V16; v++) {
        if (P == 1) row[v] = dense_weights(w + (v / V16) * w_block, c, (v % V16) * VL, kind);
        acc[p][v] = dense_add(acc[p][v], x, row[v], kind);
      }
    }
  }
}

/* Where vector v of pixel p lies relative to the first one of a tile of y. */
ERT_INLINE ptrdiff_t dense_at(const ert_dense *d, int p, int v) {
  return p * d->y_pixel + (v / V16) * d->y_block + (v % V16) * VL;
}

#define DENSE_EACH(p, v) \
  _Pragma("GCC unroll 14") for (int p = 0; p < P; p++) _Pragma("GCC unroll 8") for (int v = 0; v < Q * V16; v++)

/* One tile. Each step of the weights also asks for cache lines from `ahead`, and goes on by `asked` bytes there. */
ERT_INLINE void dense_tile(const ert_dense *d, const void *x, const char *w, const float *bias, ptrdiff_t y_at,
                           const char *ahead, ptrdiff_t asked, int P, int Q, int kind) {
  const int elements = kind == DENSE_PAIRS ? 2 : 1; /* of x that are one here */
  const int row_bytes = kind == ERT_WEIGHTS_F16 || kind == ERT_WEIGHTS_BF16 ? 32 : 64;
  const int few = kind == ERT_WEIGHTS_BF16 ? 2 : 1; /* rows at a time where four are too many */
  vf acc[DENSE_MAX_P][DENSE_MAX_VECTORS], total[DENSE_MAX_P][DENSE_MAX_VECTORS];
  size_t chain = ERT_CHAIN; /* products until the chain is full; or pairs of them */
  bool first = true;
#pragma GCC unroll 8
  for (int v = 0; v < Q * V16; v++) {
    const vf start = bias ? vload(bias + v * VL) : vzero();
#pragma GCC unroll 14
    for (int p = 0; p < P; p++) acc[p][v] = start;
  }
  if (d->begun) {
    const float *begun = d->y + y_at;
    DENSE_EACH(p, v) total[p][v] = vload(begun + dense_at(d, p, v));
    first = false;
  }
  const ptrdiff_t stride = d->x_pixel;
  const ptrdiff_t w_block = d->w_block * (kind == ERT_WEIGHTS_F32 ? 4 : 2);
  for (const ert_span *span = d->spans, *end = span + d->n_spans; span < end; span++) {
    const void *at[DENSE_POINTERS];
#pragma GCC unroll 6
    for (int i = 0; i < DENSE_POINTERS; i++) at[i] = dense_input(x, span->offset + DENSE_FROM * i * stride, kind);
    if (DENSE_PASS > 0 && span + 1 < end) /* the next inputs may be far: these arrive meanwhile */
#pragma GCC unroll 6
      for (int i = 0; i < P; i++) __builtin_prefetch(dense_input(x, span[1].offset + i * stride, kind));
    chain -= span->skip / (size_t)elements;
    w += (ptrdiff_t)(span->skip / (size_t)elements) * row_bytes;
    size_t rest = span->count / (size_t)elements;
    do {
      size_t left = rest < chain ? rest : chain;
      rest -= left;
      chain -= left;
      for (; left >= DENSE_STEPS; left -= DENSE_STEPS, w += DENSE_STEPS * row_bytes, ahead += asked) {
        __builtin_prefetch(ahead, 0, 2);
        __builtin_prefetch(ahead + 64, 0, 2);
        for (ptrdiff_t line = 128; line < asked; line += 64) __builtin_prefetch(ahead + line, 0, 2);
        dense_steps(acc, at, stride, w, w_block, DENSE_STEPS, P, Q, kind);
#pragma GCC unroll 6
        for (int i = 0; i < DENSE_POINTERS; i++) at[i] = dense_on(at[i], DENSE_STEPS * elements, kind);
      }
      if (DENSE_STEPS > 4 && left >= 4) {
        dense_steps(acc, at, stride, w, w_block, 4, P, Q, kind);
#pragma GCC unroll 6
        for (int i = 0; i < DENSE_POINTERS; i++) at[i] = dense_input(at[i], 4 * elements, kind);
        left -= 4, w += 4 * row_bytes;
      }
      for (; left > 0; left -= (size_t)few, w += few * row_bytes) {
        dense_steps(acc, at, stride, w, w_block, few, P, Q, kind);
#pragma GCC unroll 6
        for (int i = 0; i < DENSE_POINTERS; i++) at[i] = dense_input(at[i], few * elements, kind);
      }
      if (chain == 0) {
        DENSE_EACH(p, v) {
          total[p][v] = first ? acc[p][v] : total[p][v] + acc[p][v];
          acc[p][v] = vzero();
        }
        first = false;
        chain = ERT_CHAIN;
      }
    } while (rest > 0);
  }
  if (!first) DENSE_EACH(p, v) acc[p][v] += total[p][v];
  if (d->residual) {
    const float *residual = d->residual + y_at;
    DENSE_EACH(p, v) acc[p][v] += vload(residual + dense_at(d, p, v));
  }
  if (d->lo != -INFINITY) {
    const vf lo = vsplat(d->lo);
    DENSE_EACH(p, v) acc[p][v] = vmax(lo, acc[p][v]);
  }
  if (d->hi != INFINITY) {
    const vf hi = vsplat(d->hi);
    DENSE_EACH(p, v) acc[p][v] = vmin(hi, acc[p][v]);
  }
  float *y = d->y + y_at;
  DENSE_EACH(p, v) vstore(y + dense_at(d, p, v), acc[p][v]);
}

typedef void dense_tile_fn(const ert_dense *d, const void *x, const char *w, const float *bias, ptrdiff_t y_at,
                           const char *ahead, ptrdiff_t asked);

#define DENSE_FUNCTION(P, Q, KIND)                                                                               \
  static void dense_tile_##P##x##Q##_##KIND(const ert_dense *d, const void *x, const char *w, const float *bias, \
                                            ptrdiff_t y_at, const char *ahead, ptrdiff_t asked) {                \
    dense_tile(d, x, w, bias, y_at, ahead, asked, P, Q, KIND);                                                   \
  }
#ifdef __AVX512BF16__
#define DENSE_DEFINE(P, Q) DENSE_FUNCTION(P, Q, DENSE_PAIRS)
#else
#define DENSE_DEFINE(P, Q)              \
  DENSE_FUNCTION(P, Q, ERT_WEIGHTS_F32) \
  DENSE_FUNCTION(P, Q, ERT_WEIGHTS_F16) \
  DENSE_FUNCTION(P, Q, ERT_WEIGHTS_BF16)
#endif
DENSE_TILES_1(DENSE_DEFINE)
DENSE_TILES_2(DENSE_DEFINE)
DENSE_TILES_3(DENSE_DEFINE)
DENSE_TILES_4(DENSE_DEFINE)
#undef DENSE_DEFINE
#undef DENSE_FUNCTION

#define DENSE_COUNT(P, Q) +1
/* By blocks, then by what is multiplied, then by pixels. The tiles of a width are made for every number of pixels up to
 * `most`. */
#ifdef __AVX512BF16__
#define DENSE_PAIRS_ENTRY(P, Q) [P] = dense_tile_##P##x##Q##_DENSE_PAIRS,
#define DENSE_WIDTH(Q)                                                                                \
  {                                                                                                   \
    Q, 0 DENSE_TILES_##Q(DENSE_COUNT), { [DENSE_PAIRS] = {NULL, DENSE_TILES_##Q(DENSE_PAIRS_ENTRY)} } \
  }
#else
#define DENSE_F32_ENTRY(P, Q)  [P] = dense_tile_##P##x##Q##_ERT_WEIGHTS_F32,
#define DENSE_F16_ENTRY(P, Q)  [P] = dense_tile_##P##x##Q##_ERT_WEIGHTS_F16,
#define DENSE_BF16_ENTRY(P, Q) [P] = dense_tile_##P##x##Q##_ERT_WEIGHTS_BF16,
#define DENSE_WIDTH(Q)                                               \
  {                                                                  \
    Q, 0 DENSE_TILES_##Q(DENSE_COUNT), {                             \
      [ERT_WEIGHTS_F32] = {NULL, DENSE_TILES_##Q(DENSE_F32_ENTRY)},  \
      [ERT_WEIGHTS_F16] = {NULL, DENSE_TILES_##Q(DENSE_F16_ENTRY)},  \
      [ERT_WEIGHTS_BF16] = {NULL, DENSE_TILES_##Q(DENSE_BF16_ENTRY)} \
    }                                                                \
  }
#endif
static const struct dense_width {
  size_t blocks, most;
  dense_tile_fn *tiles[DENSE_PAIRS + 1][DENSE_MAX_P + 1];
} dense_widths[] = {DENSE_WIDTH(4), DENSE_WIDTH(3), DENSE_WIDTH(2), DENSE_WIDTH(1)};
#undef DENSE_WIDTH
#undef DENSE_COUNT

static size_t dense_tiles(const struct dense_width *width, size_t pixels) {
  return (pixels + width->most - 1) / width->most;
}

/* Whether tiles of a width compute as fast as the longest ones although they are more: they are not narrow, and their weights,
 * `bytes` for each block, stay in a second-level cache. */
static bool dense_is_kept(const struct dense_width *width, size_t pixels, ptrdiff_t bytes) {
  return width->most >= 4 && pixels >= 2 * width->most && (ptrdiff_t)width->blocks * bytes <= DENSE_KEPT;
}

/* The widest tile that needs no more of them for a row of `pixels` than the longest, or is as fast, and does not leave one
 * block alone. */
static const struct dense_width *dense_width_for(size_t pixels, size_t blocks, ptrdiff_t bytes) {
  const struct dense_width *width = dense_widths, *last = width + sizeof dense_widths / sizeof *width - 1;
  for (; width < last; width++) {
    if (width->blocks > blocks || width->most == 0 || (width->blocks > 2 && width->blocks + 1 == blocks)) continue;
    if (dense_tiles(width, pixels) <= dense_tiles(last, pixels) || dense_is_kept(width, pixels, bytes)) break;
  }
  return width;
}

/* Bytes of the next blocks' weights that each step of `tiles` of so many blocks asks for, whose own are `bytes`: enough for
 * all of them where there are few tiles. A single tile of several blocks, or of one position, streams through its own weights
 * in as many places as processors foresee, which is fastest with nothing else; as does the first tile of a pass. */
static ptrdiff_t dense_ahead(const ert_dense *d, size_t tiles, size_t blocks, size_t bytes) {
  if (d->w_pass > 0 && DENSE_PASS == 0) return 0;
  const size_t positions = d->rows * d->pixels, share = (bytes / 64 + tiles - 1) / tiles * 64;
  if (tiles == 1 && (positions == 1 || blocks >= DENSE_STREAMS)) return 0;
  return positions >= DENSE_FEW ? 64 : share < 128 ? 128 : (ptrdiff_t)share;
}

/* While the tiles of some blocks are computed, the weights of the next blocks are fetched into the second-level cache: line by
 * line, so that they arrive long before the first tile that streams through them. */
ERT_INLINE void dense_products(const ert_dense *d, int kind) {
  const ptrdiff_t bytes = kind == ERT_WEIGHTS_F32 ? 4 : 2, w_block = d->w_block * bytes;
  const ptrdiff_t row_bytes = kind == ERT_WEIGHTS_F16 || kind == ERT_WEIGHTS_BF16 ? 32 : 64;
  const ptrdiff_t pass = d->w_pass > 0 ? d->w_pass * bytes : w_block;
  for (size_t block = 0; block < d->blocks;) {
    const struct dense_width *width = dense_width_for(d->pixels, d->blocks - block, pass);
    const float *bias = d->bias ? d->bias + block * 16 : NULL;
    const char *w = (const char *)d->w + (ptrdiff_t)block * w_block;
    const char *ahead = w + (ptrdiff_t)width->blocks * w_block;
    const size_t tiles = dense_tiles(width, d->pixels);
    const ptrdiff_t asked =
        dense_ahead(d, tiles * d->rows, width->blocks, DENSE_STEPS * width->blocks * (size_t)row_bytes);
    for (size_t row = 0; row < d->rows; row++) {
      const void *x = dense_input(d->x, (ptrdiff_t)row * d->x_row, kind);
      const ptrdiff_t y_at = (ptrdiff_t)row * d->y_row + (ptrdiff_t)block * d->y_block;
      for (size_t tile = 0, begin = 0; tile < tiles; tile++) {
        const size_t count = (d->pixels - begin) / (tiles - tile);
        width->tiles[kind][count](d, dense_input(x, (ptrdiff_t)begin * d->x_pixel, kind), w, bias,
                                  y_at + (ptrdiff_t)begin * d->y_pixel, ahead, asked);
        begin += count;
        ahead += pass / row_bytes / DENSE_STEPS * asked;
      }
    }
    block += width->blocks;
  }
}

#ifndef __AVX512BF16__
static void dense_run(const ert_dense *d) { dense_products(d, (int)d->weights); }

static void round_bf16(const float *x, void *y, size_t n) {
  for (size_t i = 0; i < n; i += VL) vstore((float *)y + i, vround_bf16(vload(x + i)));
}
#endif

#endif
