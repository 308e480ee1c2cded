/* Array files: numpy's .npy, and raw little-endian elements. */
#include "npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor.h"
#include "text.h"

enum { MAGIC_BYTES = 6, MOST_HEADER = 1 << 16, ALIGNMENT = 64 };

static const char magic[MAGIC_BYTES + 1] = "\x93NUMPY";

typedef struct header {
  char descr[16];
  bool fortran;
  uint32_t rank;
  int64_t shape[EDGERT_MAX_RANK];
} header;

/* The value of a key in the header, which is the text of a Python dictionary; NULL if it is not there. */
static const char *value_of(const char *dictionary, const char *key) {
  const char *at = strstr(dictionary, key);
  if (!at) return NULL;
  at += strlen(key);
  return at + strspn(at, ": ");
}

static bool parse_shape(const char *at, header *out) {
  if (!at || *at++ != '(') return false;
  for (;;) {
    at += strspn(at, ", ");
    if (*at == ')') return true;
    char *end;
    errno = 0;
    long long extent = strtoll(at, &end, 10);
    if (end == at || errno || extent < 0 || out->rank == EDGERT_MAX_RANK) return false;
    out->shape[out->rank++] = extent;
    at = end;
  }
}

static bool parse_header(const char *dictionary, header *out) {
  *out = (header){.rank = 0};
  const char *descr = value_of(dictionary, "'descr'"), *fortran = value_of(dictionary, "'fortran_order'");
  if (!descr || *descr != '\'' || !fortran) return false;
  size_t length = strcspn(descr + 1, "'");
  if (length == 0 || length >= sizeof out->descr) return false;
  memcpy(out->descr, descr + 1, length);
  out->fortran = strncmp(fortran, "True", 4) == 0;
  return parse_shape(value_of(dictionary, "'shape'"), out);
}

/* Reads up to the first element. */
static bool read_header(FILE *file, header *out) {
  unsigned char start[MAGIC_BYTES + 2], raw[4] = {0};
  if (fread(start, 1, sizeof start, file) != sizeof start || memcmp(start, magic, MAGIC_BYTES) != 0) return false;
  size_t width = start[MAGIC_BYTES] == 1 ? 2 : 4;
  if (start[MAGIC_BYTES] < 1 || start[MAGIC_BYTES] > 3 || fread(raw, 1, width, file) != width) return false;
  uint32_t length = (uint32_t)raw[0] | (uint32_t)raw[1] << 8 | (uint32_t)raw[2] << 16 | (uint32_t)raw[3] << 24;
  if (length > MOST_HEADER) return false;
  char *dictionary = allocate(length + 1u, 1);
  bool good = dictionary && fread(dictionary, 1, length, file) == length && parse_header(dictionary, out);
  free(dictionary);
  return good;
}

static bool same_shape(const edgert_tensor_info *info, const header *h) {
  uint32_t missing = info->rank == h->rank + 1 && info->shape[0] == 1 ? 1 : 0;
  return info->rank == h->rank + missing && memcmp(info->shape + missing, h->shape, h->rank * sizeof *h->shape) == 0;
}

static bool check_header(const char *path, FILE *file, const edgert_tensor_info *info) {
  header h;
  if (!read_header(file, &h)) return fail("%s: not a .npy file that can be read\nSave it with numpy.save.", path);
  bool ordered = !h.fortran || h.rank < 2;
  if (strcmp(h.descr, dtype_descr(info->dtype)) == 0 && same_shape(info, &h) && ordered) return true;
  return fail("%s\nexpected %s%s, '%s', got '%s'%s%s", path, dtype_name(info->dtype),
              shape_text(info->rank, info->shape).s, dtype_descr(info->dtype), h.descr, shape_text(h.rank, h.shape).s,
              ordered ? "" : ", in Fortran's order");
}

/* Reads what is left of the file, which must be exactly `bytes`. */
static bool read_elements(const char *path, FILE *file, void *data, size_t bytes) {
  size_t got = fread(data, 1, bytes, file);
  if (ferror(file)) return fail("%s: %s", path, strerror(errno));
  if (got < bytes) return fail("%s\nexpected %zu bytes of elements, got %zu", path, bytes, got);
  if (fgetc(file) != EOF) return fail("%s\nexpected %zu bytes of elements, got more", path, bytes);
  return true;
}

bool array_read(const char *path, const edgert_tensor_info *info, void *data) {
  FILE *file = fopen(path, "rb");
  if (!file) return fail("%s: %s", path, strerror(errno));
  size_t length = strlen(path);
  bool npy = length >= 4 && strcmp(path + length - 4, ".npy") == 0;
  bool good = (!npy || check_header(path, file, info)) && read_elements(path, file, data, info->bytes);
  fclose(file);
  return good;
}

bool npy_write(const char *path, edgert_dtype dtype, uint32_t rank, const int64_t *shape, const void *data) {
  char dictionary[512];
  int end =
      snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': False, 'shape': (", dtype_descr(dtype));
  for (uint32_t i = 0; i < rank; i++)
    end += snprintf(dictionary + end, sizeof dictionary - (size_t)end, "%" PRId64 ",%s", shape[i],
                    i + 1 < rank ? " " : "");
  end += snprintf(dictionary + end, sizeof dictionary - (size_t)end, "), }");
  int start = MAGIC_BYTES + 4, total = (start + end + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  unsigned length = (unsigned)(total - start);
  size_t bytes = shape_elements(rank, shape) * dtype_bytes(dtype);
  FILE *file = fopen(path, "wb");
  if (!file) return fail("%s: %s", path, strerror(errno));
  bool good = fprintf(file, "%s%c%c%c%c%-*s\n", magic, 1, 0, (int)(length & 0xff), (int)(length >> 8), (int)length - 1,
                      dictionary) == total;
  good = good && fwrite(data, 1, bytes, file) == bytes;
  good = fclose(file) == 0 && good;
  return good || fail("%s: %s", path, strerror(errno));
}
