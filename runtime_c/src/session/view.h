/* A view: a box of another tensor, its root, in whatever layout. */
#ifndef ERT_SESSION_VIEW_H
#define ERT_SESSION_VIEW_H

#include "base/kernel.h"

/* Bytes from the root's first element to that of the view whose box begins at `begin`; 0 if it has none. */
size_t ert_view_at(const ert_tensor *view, const int64_t *begin);

/* Whether the view's memory has no gaps, so that a kernel may take it for a tensor of its own shape. */
bool ert_view_compact(const ert_tensor *view);

#endif
