/* Every instruction set's pointwise, folding, softmax and pooling rows against the scalar ones, at every length and none
 * aligned to more than a float. */
#include <math.h>

#include "kernels/binary_kinds.h"
#include "kernels/simd/simd.h"
#include "kernels/unary_kinds.h"
#include "test.h"

enum { LONGEST = 83 };

static const ert_simd *table, *scalar;
static uint32_t seed = 1;

static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN,   1e-45f, -1e-45f, 1e-39f,  3e38f, -3e38f,
                                0.5f, -0.5f, 1.5f,     2.5f,      -2.5f, 88.7f,  -87.0f,  -104.0f, 1.0f,  -1.0f};
enum { SPECIALS = sizeof special / sizeof special[0] };

/* n floats, one float past an allocation of exactly n + 1, so that sanitizers see a step beyond. */
typedef struct row {
  float *all, *x;
} row;

static row new_row(size_t n, bool with_special) {
  row r = {malloc((n + 1) * sizeof(float)), NULL};
  CHECK(r.all != NULL);
  r.x = r.all + 1;
  for (size_t i = 0; i < n; i++) {
    const uint32_t random = next_random(&seed);
    r.x[i] = with_special && random % 4 == 0 ? special[random / 4 % SPECIALS]
                                             : (float)(int32_t)(random % 20001) / 1000.0f - 10.0f;
  }
  return r;
}

static bool close_to(float a, float b, float scale) {
  if (a != a || b != b) return a != a && b != b;
  return a == b || fabsf(a - b) <= 3e-6f * fmaxf(scale, fmaxf(fabsf(a), fabsf(b)));
}

static void check_rows(const char *what, int detail, const float *got, const float *want, size_t n, float scale) {
  for (size_t i = 0; i < n; i++) {
    if (close_to(got[i], want[i], scale)) continue;
    fprintf(stderr, "%s %d on %s: [%zu of %zu] is %.9g, not %.9g\n", what, detail, table->name, i, n, (double)got[i],
            (double)want[i]);
    exit(1);
  }
}

static void test_unary(void) {
  for (int kind = 0; kind < ERT_UNARY_IS_NAN; kind++) {
    if (!strchr(ert_unary_types[kind], 'f')) continue;
    for (size_t n = 0; n < LONGEST; n++) {
      row x = new_row(n, true), y = new_row(n, false), z = new_row(n, false);
      table->unary(kind, 0.75f, 1.25f, x.x, y.x, n);
      scalar->unary(kind, 0.75f, 1.25f, x.x, z.x, n);
      check_rows(ert_unary_names[kind], 0, y.x, z.x, n, 1.0f);
      table->unary(kind, 0.75f, 1.25f, x.x, x.x, n);
      check_rows(ert_unary_names[kind], 1, x.x, y.x, n, 0.0f);
      free(x.all), free(y.all), free(z.all);
    }
  }
}

static void test_binary(void) {
  for (int kind = ERT_BINARY_ADD; kind <= ERT_BINARY_PRELU; kind++)
    for (int form = ERT_FORM_SAME; form <= ERT_FORM_B_LANES; form++)
      for (size_t n = 0; n < LONGEST; n++) {
        const bool lanes = form == ERT_FORM_A_LANES || form == ERT_FORM_B_LANES;
        if (lanes && n % 16) continue;
        row a = new_row(form == ERT_FORM_A_ONE ? 1 : form == ERT_FORM_A_LANES ? 16 : n, true);
        row b = new_row(form == ERT_FORM_B_ONE ? 1 : form == ERT_FORM_B_LANES ? 16 : n, true);
        row y = new_row(n, false), z = new_row(n, false);
        table->binary(kind, form, a.x, b.x, y.x, n);
        scalar->binary(kind, form, a.x, b.x, z.x, n);
        check_rows("binary", kind, y.x, z.x, n, 0.0f);
        free(a.all), free(b.all), free(y.all), free(z.all);
      }
}

static void test_affine(void) {
  static const int forms[] = {ERT_FORM_SAME, ERT_FORM_B_ONE, ERT_FORM_B_LANES};
  for (int f = 0; f < 3; f++)
    for (size_t n = 0; n < LONGEST; n++) {
      if (forms[f] == ERT_FORM_B_LANES && n % 16) continue;
      const size_t parameters = forms[f] == ERT_FORM_SAME ? n : forms[f] == ERT_FORM_B_ONE ? 1 : 16;
      row x = new_row(n, false), scale = new_row(parameters, false), shift = new_row(parameters, false);
      row y = new_row(n, false), z = new_row(n, false);
      table->affine(forms[f], x.x, scale.x, shift.x, -1.0f, 2.0f, y.x, n);
      scalar->affine(forms[f], x.x, scale.x, shift.x, -1.0f, 2.0f, z.x, n);
      check_rows("affine", forms[f], y.x, z.x, n, 100.0f);
      free(x.all), free(scale.all), free(shift.all), free(y.all), free(z.all);
    }
}

static void test_normalize(void) {
  for (int with = 0; with < 8; with++)
    for (size_t n = 1; n < LONGEST; n++) {
      enum { ROWS = 6 };
      row x = new_row(n * ROWS, false), y = new_row(n * ROWS, false), z = new_row(n * ROWS, false);
      row scale = new_row(n, false), shift = new_row(n, false);
      const ert_normal p = {.n = n,
                            .epsilon = 1e-3,
                            .rms = with & 1,
                            .scale = with & 2 ? scale.x : NULL,
                            .shift = with & 4 ? shift.x : NULL};
      const ert_center fixed = {1.5f, 1e-3f, 0.3f};
      scalar->center(&fixed, p.scale, p.shift, x.x, z.x, n);
      table->center(&fixed, p.scale, p.shift, x.x, y.x, n);
      check_rows("center", with, y.x, z.x, n, 100.0f);
      scalar->normalize_rows(&p, x.x, (ptrdiff_t)n, z.x, (ptrdiff_t)n, ROWS);
      table->normalize_rows(&p, x.x, (ptrdiff_t)n, y.x, (ptrdiff_t)n, ROWS);
      check_rows("normalize_rows and scalar", with, y.x, z.x, n * ROWS, 100.0f);
      for (size_t r = 0; r < ROWS; r++) {
        const float *from = x.x + r * n;
        const float mean = p.rms ? 0.0f : (float)((double)table->fold_row(ERT_FOLD_SUM, 0, from, n) / (double)n);
        float sums[2], exact[2];
        table->moments(mean, from, n, sums);
        scalar->moments(mean, from, n, exact);
        check_rows("moments", with, sums, exact, 2, 1000.0f);
        const ert_center c = ert_center_of(&p, mean, (double)sums[0], (double)sums[1]);
        table->center(&c, p.scale, p.shift, from, z.x + r * n, n);
      }
      CHECK(memcmp(y.x, z.x, n * ROWS * sizeof(float)) == 0);
      table->normalize_rows(&p, x.x, (ptrdiff_t)n, x.x, (ptrdiff_t)n, ROWS);
      CHECK(memcmp(y.x, x.x, n * ROWS * sizeof(float)) == 0);
      free(x.all), free(y.all), free(z.all), free(scale.all), free(shift.all);
    }
}

static void test_folds(void) {
  for (int fold = ERT_FOLD_SUM; fold <= ERT_FOLD_MIN; fold++)
    for (size_t n = 0; n < LONGEST; n++) {
      const bool extreme = fold == ERT_FOLD_MAX || fold == ERT_FOLD_MIN;
      row x = new_row(n * 9, extreme && n % 2);
      const float neutral = fold == ERT_FOLD_MAX ? -INFINITY : fold == ERT_FOLD_MIN ? INFINITY : 0.0f;
      float got = table->fold_row(fold, 2.0f, x.x, n * 9), want = scalar->fold_row(fold, 2.0f, x.x, n * 9);
      check_rows("fold_row", fold, &got, &want, 1, 10000.0f);
      row sums = new_row(9, false), single = new_row(9, false);
      table->fold_rows(fold, x.x, (ptrdiff_t)n, n, 9, sums.x);
      for (size_t r = 0; r < 9; r++) single.x[r] = table->fold_row(fold, neutral, x.x + r * n, n);
      check_rows("fold_rows", fold, sums.x, single.x, 9, 0.0f);
      scalar->fold_rows(fold, x.x, (ptrdiff_t)n, n, 9, single.x);
      check_rows("fold_rows and scalar", fold, sums.x, single.x, 9, 1000.0f);
      free(sums.all), free(single.all);
      for (size_t rows = 0; rows < 9; rows++) {
        row y = new_row(n, false), z = new_row(n, false);
        memcpy(z.x, y.x, n * sizeof(float));
        table->fold_columns(fold, x.x, (ptrdiff_t)n, rows, y.x, n);
        scalar->fold_columns(fold, x.x, (ptrdiff_t)n, rows, z.x, n);
        check_rows("fold_columns", fold, y.x, z.x, n, 1000.0f);
        free(y.all), free(z.all);
      }
      free(x.all);
    }
}

static void test_lrn(void) {
  for (size_t n = 0; n < LONGEST; n++)
    for (int usual = 0; usual < 2; usual++) {
      row x = new_row(5 * n, false), y = new_row(n, false), z = new_row(n, false);
      ert_lrn l = {0.3f, usual ? 0.75f : 0.6f, 1.5f, x.x, (ptrdiff_t)n, 5, x.x + 2 * n, y.x, n};
      table->lrn(&l);
      l.y = z.x;
      scalar->lrn(&l);
      check_rows("lrn", usual, y.x, z.x, n, 1.0f);
      free(x.all), free(y.all), free(z.all);
    }
}

static void test_softmax(void) {
  for (int log = 0; log < 2; log++)
    for (size_t n = 1; n < LONGEST; n++) {
      row x = new_row(n * 7, false), y = new_row(n * 7, false), z = new_row(n * 7, false);
      for (size_t rows = 1; rows <= 7; rows += 3) {
        table->softmax_rows(log, x.x, (ptrdiff_t)n, y.x, (ptrdiff_t)n, n, rows);
        scalar->softmax_rows(log, x.x, (ptrdiff_t)n, z.x, (ptrdiff_t)n, n, rows);
        check_rows("softmax_rows", log, y.x, z.x, n * rows, log ? 1.0f : 0.0f);
      }
      table->softmax_columns(log, x.x, (ptrdiff_t)n, y.x, (ptrdiff_t)n, 7, n);
      scalar->softmax_columns(log, x.x, (ptrdiff_t)n, z.x, (ptrdiff_t)n, 7, n);
      check_rows("softmax_columns", log, y.x, z.x, n * 7, log ? 1.0f : 0.0f);
      free(x.all), free(y.all), free(z.all);
    }
}

/* Two channels of three rows of n windows: of 2 x 2 rows; of three, the first and last of a depth; of none. */
static void pool_planar(bool average, size_t n, size_t step, size_t taps, size_t tap) {
  const size_t reach = (n - 1) * step + (taps - 1) * tap + 1, before = reach > 2, columns = reach > 4 ? reach - 3 : 1;
  const size_t pitch = (reach + 15) / 16 * 16 + 32, x_size = 4 * columns;
  const ert_pool_row rows[3] = {
      {0, 0, {2, 2}, 4.0f}, {(ptrdiff_t)columns, (ptrdiff_t)n, {1, 3}, 3.0f}, {0, 2 * (ptrdiff_t)n, {0, 1}, 1.0f}};
  row x = new_row(2 * x_size, !average), y = new_row(6 * n, false), z = new_row(6 * n, false);
  row lines = new_row(6 * pitch + ERT_SLIDE_SLACK + 16, false), counts = new_row(n + ERT_SLIDE_SLACK, false),
      factors = new_row(n + ERT_SLIDE_SLACK, false);
  for (size_t o = 0; o < n; o++) counts.x[o] = (float)(1 + o % taps);
  ert_pool_planar p = {.average = average,
                       .x = x.x,
                       .x_channel = (ptrdiff_t)x_size,
                       .x_stride = {2 * (ptrdiff_t)columns, (ptrdiff_t)columns},
                       .rows = rows,
                       .n_rows = 3,
                       .channels = 2,
                       .columns = columns,
                       .before = before,
                       .taps = taps,
                       .step = step,
                       .tap = (ptrdiff_t)tap,
                       .divisors = counts.x,
                       .factors = factors.x,
                       .lines = lines.x + 16 - before,
                       .pitch = pitch,
                       .y = y.x,
                       .y_channel = 3 * (ptrdiff_t)n,
                       .n = n,
                       .joined = true};
  table->pool_planar(&p);
  p.y = z.x;
  scalar->pool_planar(&p);
  check_rows("pool_planar", (int)taps, y.x, z.x, 6 * n, 10.0f);
  free(x.all), free(y.all), free(z.all), free(lines.all), free(counts.all), free(factors.all);
}

static void test_pool(void) {
  for (int average = 0; average < 2; average++)
    for (size_t n = 0; n < LONGEST; n++) {
      for (size_t step = 1; step < 4; step++)
        for (size_t taps = 1; taps < 5; taps++) pool_planar(average, n + 1, step, taps, 1 + (n + taps) % 2);
      /* windows of 2 x 3 x 2 pixels in planes of 4 x (n + 2), two pixels apart */
      const size_t width = 2 * n + 2;
      const ert_taps window = {{2, 3, 2}, {(ptrdiff_t)(4 * width * 16), (ptrdiff_t)(width * 16), 16}};
      row x = new_row(2 * 4 * width * 16, !average), y = new_row(n * 16, false), z = new_row(n * 16, false);
      table->pool_blocks(average, &window, x.x, 32, 0.083f, y.x, n);
      scalar->pool_blocks(average, &window, x.x, 32, 0.083f, z.x, n);
      check_rows("pool_blocks", average, y.x, z.x, n * 16, 10.0f);
      free(x.all), free(y.all), free(z.all);
    }
}

int main(void) {
  scalar = ert_simd_find("scalar");
  CHECK(scalar != NULL);
  for (const ert_simd *const *each = ert_simd_available(); *each; each++) {
    table = *each;
    printf("%s\n", table->name);
    RUN(test_unary);
    RUN(test_binary);
    RUN(test_affine);
    RUN(test_folds);
    RUN(test_normalize);
    RUN(test_lrn);
    RUN(test_softmax);
    RUN(test_pool);
  }
  return 0;
}
