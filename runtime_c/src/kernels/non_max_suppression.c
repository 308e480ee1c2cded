/* non_max_suppression: per image and class, the best boxes that overlap no better one by more than a threshold. */
#include <math.h>

#include "kernels/ranking.h"
#include "kernels/tensor.h"

typedef struct nms_state {
  int64_t batches, classes, boxes, limit; /* limit: rows per class, at most `boxes` */
  float iou_threshold, score_threshold;
  bool center;
} nms_state;

/* A box with its corners in order. */
typedef struct box {
  float x0, y0, x1, y1, area;
} box;

static edgert_status prepare(ert_prepare *p) {
  ERT_TRY(ert_expect_operands(p, 2, 2, 2, 2));
  ERT_TRY(ert_expect_planar(p));
  ert_step *step = p->step;
  const ert_tensor *boxes = step->in[0], *scores = step->in[1], *selected = step->out[0], *count = step->out[1];
  for (int i = 0; i < 2; ++i) {
    ERT_TRY(ert_expect_dtype(p, step->in[i], EDGERT_F32));
    ERT_TRY(ert_expect_dtype(p, step->out[i], EDGERT_I64));
    if (step->in[i]->rank != 3) return ert_reject(p, "rank of an input", "3", "%d", step->in[i]->rank);
  }
  int64_t limit, center;
  nms_state s = {.batches = boxes->shape[0], .classes = scores->shape[1], .boxes = boxes->shape[1]};
  ERT_TRY(ert_expect_shape(p, boxes, 3, (const int64_t[]){s.batches, s.boxes, 4}));
  ERT_TRY(ert_expect_shape(p, scores, 3, (const int64_t[]){s.batches, s.classes, s.boxes}));
  ERT_TRY(ert_int(p, "max_output", 0, INT64_MAX, &limit));
  ERT_TRY(ert_int_or(p, "center_point_box", 0, 1, 0, &center));
  ERT_TRY(ert_float_or(p, "iou_threshold", 0, &s.iou_threshold));
  ERT_TRY(ert_float_or(p, "score_threshold", -INFINITY, &s.score_threshold));
  s.center = center;
  s.limit = ert_min64(limit, s.boxes);
  int64_t rows, one = 1;
  if (__builtin_mul_overflow(s.batches, s.classes, &rows) || __builtin_mul_overflow(rows, s.limit, &rows))
    return ert_reject(p, "number of boxes", "a size that fits in memory", "more");
  ERT_TRY(ert_expect_shape(p, selected, 2, (const int64_t[]){rows, 3}));
  ERT_TRY(ert_expect_shape(p, count, 1, &one));

  void *memory;
  ERT_TRY(ert_state(p, sizeof s, &memory));
  *(nms_state *)memory = s;
  if (__builtin_mul_overflow((size_t)s.boxes, sizeof(ert_ranked) + sizeof(box), &step->scratch_bytes))
    return ert_reject(p, "number of boxes", "a size that fits in memory", "more");
  step->tasks = 1; /* where a class's boxes go depends on how many came before */
  return EDGERT_OK;
}

static box read_box(const float *b, bool center) {
  box r;
  if (center) { /* x, y, width, height */
    float half_width = b[2] / 2, half_height = b[3] / 2;
    r = (box){.x0 = b[0] - half_width, .y0 = b[1] - half_height, .x1 = b[0] + half_width, .y1 = b[1] + half_height};
  } else { /* y, x, y, x of opposite corners */
    r = (box){.x0 = b[1], .y0 = b[0], .x1 = b[3], .y1 = b[2]};
    if (r.x0 >= r.x1) r.x0 = b[3], r.x1 = b[1];
    if (r.y0 >= r.y1) r.y0 = b[2], r.y1 = b[0];
  }
  r.area = (r.x1 - r.x0) * (r.y1 - r.y0);
  return r;
}

static bool overlap(const box *a, const box *b, float threshold) {
  float x0 = a->x0 > b->x0 ? a->x0 : b->x0, x1 = a->x1 < b->x1 ? a->x1 : b->x1;
  float y0 = a->y0 > b->y0 ? a->y0 : b->y0, y1 = a->y1 < b->y1 ? a->y1 : b->y1;
  if (!(x1 > x0 && y1 > y0)) return false;
  float common = (x1 - x0) * (y1 - y0), all = a->area + b->area - common;
  if (!(common > 0 && a->area > 0 && b->area > 0 && all > 0)) return false;
  return common / all > threshold;
}

/* Boxes with a score above the threshold, as a heap with the best at the root. */
static int64_t rank_scores(const nms_state *s, const float *scores, ert_ranked *heap) {
  int64_t n = 0;
  for (int64_t i = 0; i < s->boxes; ++i) {
    float score = scores[i];
    if (score > s->score_threshold || (s->score_threshold == -INFINITY && score == score))
      heap[n++] = (ert_ranked){ert_key_f32(score), i};
  }
  ert_heapify(heap, n, false);
  return n;
}

/* The selection of one class; returns how many indices it wrote. */
static int64_t select_boxes(const nms_state *s, const float *boxes, int64_t candidates, ert_ranked *heap, box *kept,
                            int64_t rows[][3], int64_t batch, int64_t class) {
  int64_t n = 0;
  while (candidates > 0 && n < s->limit) {
    int64_t index = heap[0].index;
    heap[0] = heap[--candidates];
    ert_sift(heap, candidates, 0, false);
    box next = read_box(boxes + 4 * index, s->center);
    int64_t i = 0;
    while (i < n && !overlap(&next, &kept[i], s->iou_threshold)) ++i;
    if (i < n) continue;
    kept[n] = next;
    rows[n][0] = batch;
    rows[n][1] = class;
    rows[n++][2] = index;
  }
  return n;
}

static void run(const ert_step *step, int64_t begin, int64_t end, void *scratch) {
  if (begin >= end) return;
  const nms_state *s = step->state;
  ert_ranked *heap = scratch;
  box *kept = (box *)(void *)(heap + s->boxes);
  const float *boxes = step->in[0]->data, *scores = step->in[1]->data;
  int64_t (*rows)[3] = step->out[0]->data;
  int64_t count = 0, total = step->out[0]->shape[0];
  for (int64_t batch = 0; batch < s->batches; ++batch) {
    for (int64_t class = 0; class < s->classes; ++class) {
      int64_t candidates = rank_scores(s, scores + (batch * s->classes + class) * s->boxes, heap);
      count += select_boxes(s, boxes + batch * s->boxes * 4, candidates, heap, kept, rows + count, batch, class);
    }
  }
  memset(rows + count, 0, (size_t)(total - count) * sizeof *rows);
  *(int64_t *)step->out[1]->data = count;
}

const ert_kernel ert_kernel_non_max_suppression = {.name = "non_max_suppression", .prepare = prepare, .run = run};
