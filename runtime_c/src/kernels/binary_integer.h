/* Rows of the pointwise functions of two variables on element types other than float32, and comparisons of float32. */
#ifndef ERT_KERNELS_BINARY_INTEGER_H
#define ERT_KERNELS_BINARY_INTEGER_H

#include <stddef.h>
#include <stdint.h>

/* y[i] = f(a[i * a_step], b[i * b_step]), steps 0 or 1. Integers wrap; dividing by zero gives 0. */
typedef void (*ert_binary_row)(const void *a, const void *b, void *y, size_t n, size_t a_step, size_t b_step);

/* The function of a kind on an element type (edgert_dtype); NULL if there is none. */
ert_binary_row ert_binary_row_find(int kind, int dtype);

#endif
