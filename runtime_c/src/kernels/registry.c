/* The table of all kernels. A kernel NAME is a `const ert_kernel ert_kernel_NAME` in a file of this folder, or for steps on
 * a device (get, launch, put) of backends/. */
#include <stdlib.h>
#include <string.h>

#include "base/kernel.h"

/* In the order of their names, which they are searched by. */
#define KERNELS(X)            \
  X(arg_reduce)               \
  X(attention)                \
  X(binary)                   \
  X(cast)                     \
  X(compress)                 \
  X(concat)                   \
  X(conv)                     \
  X(conv_bf16)                \
  X(conv_depthwise)           \
  X(conv_depthwise_integer)   \
  X(conv_depthwise_planar)    \
  X(conv_depthwise_quantized) \
  X(conv_direct)              \
  X(conv_im2col_caffe)        \
  X(conv_im2col_nhwc)         \
  X(conv_integer)             \
  X(conv_quantized)           \
  X(conv_sparse)              \
  X(conv_transpose)           \
  X(conv_unrolled)            \
  X(conv_unrolled_quantized)  \
  X(conv_winograd)            \
  X(conv_winograd_bf16)       \
  X(copy)                     \
  X(cum_sum)                  \
  X(dequantize_linear)        \
  X(dynamic_levels)           \
  X(gather)                   \
  X(gather_elements)          \
  X(gather_nd)                \
  X(get)                      \
  X(grid_sample)              \
  X(launch)                   \
  X(linear)                   \
  X(linear_integer)           \
  X(linear_masked)            \
  X(linear_quantized)         \
  X(linear_sliced)            \
  X(linear_sparse)            \
  X(lookup)                   \
  X(lp_normalize)             \
  X(lrn)                      \
  X(matmul)                   \
  X(max_unpool)               \
  X(non_max_suppression)      \
  X(non_zero)                 \
  X(normalize)                \
  X(one_hot)                  \
  X(pack_weights)             \
  X(pad)                      \
  X(pool)                     \
  X(put)                      \
  X(quantize_linear)          \
  X(quantized_binary)         \
  X(recurrent)                \
  X(recurrent_sliced)         \
  X(reduce)                   \
  X(reorder)                  \
  X(resize)                   \
  X(reverse_sequence)         \
  X(roi_align)                \
  X(scale_shift)              \
  X(scatter_elements)         \
  X(scatter_nd)               \
  X(softmax)                  \
  X(sum)                      \
  X(top_k)                    \
  X(trilu)                    \
  X(unary)                    \
  X(where)

#define DECLARE(name) extern const ert_kernel ert_kernel_##name;
#define ENTRY(name)   &ert_kernel_##name,

KERNELS(DECLARE)

static const ert_kernel *const kernels[] = {KERNELS(ENTRY)};

static int compare(const void *name, const void *entry) {
  return strcmp(name, (*(const ert_kernel *const *)entry)->name);
}

const ert_kernel *ert_kernel_find(const char *name) {
  const ert_kernel *const *found =
      bsearch(name, kernels, sizeof kernels / sizeof kernels[0], sizeof kernels[0], compare);
  return found ? *found : NULL;
}
