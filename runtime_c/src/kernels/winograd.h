/* Winograd's convolution F(m x m, 3 x 3): the points between which its three transforms interpolate.
 *
 * A tile of m x m outputs needs (m + 2) x (m + 2) inputs. Along one dimension, with points 0, p, -p, ... and infinity, inputs d
 * and weights g become values of polynomials at the points, which are multiplied, and the outputs are interpolated from the
 * products. The inputs' transform has the coefficients of M(x) / (x - point), M(x) = x (x^2 - p^2) ..., so that all divisions
 * are left to the weights, which the packer transforms, or a run. But for `scale`, all coefficients are exact in float32. */
#ifndef ERT_KERNELS_WINOGRAD_H
#define ERT_KERNELS_WINOGRAD_H

/* Products along both dimensions of the largest tile; and input channels that are added up in one chain of additions: sums of
 * chains are more exact than one long chain. */
enum { ERT_WINOGRAD_EDGE = 8, ERT_WINOGRAD_CHAIN = 32 };

typedef struct ert_winograd {
  int tile;           /* m: 2, 4 or 6 outputs */
  float point[3];     /* the m/2 positive ones */
  float all[3];       /* coefficients of z^0, z^1, ... of the product of all z - p^2, whose highest one is 1 */
  float others[3][2]; /* of the product without one factor */
  float scale[4]; /* of weights at 0 and at the positive points: one over the product of all differences to others */
} ert_winograd;

static const ert_winograd ert_winograd_2 = {2, {1.0f}, {-1.0f}, {{0}}, {-1.0f, 0.5f}};

/* 5/8 and 3/2 have the least error of all pairs of multiples of 1/16 below 2, less than half of that of 1 and 2. */
static const ert_winograd ert_winograd_4 = {4,
                                            {0.625f, 1.5f},
                                            {0.87890625f, -2.640625f},
                                            {{-2.25f}, {-0.390625f}},
                                            {1 / 0.87890625f, 1 / -1.452636719f, 1 / 8.3671875f}};

static const ert_winograd ert_winograd_6 = {6,
                                            {0.5f, 1.0f, 2.0f},
                                            {-1.0f, 5.25f, -5.25f},
                                            {{4.0f, -5.0f}, {1.0f, -4.25f}, {0.25f, -1.25f}},
                                            {-1.0f, 1 / 1.40625f, 1 / -4.5f, 1 / 90.0f}};

#endif
