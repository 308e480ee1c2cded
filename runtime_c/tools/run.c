/* edgert-native run: once, on files. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "network.h"
#include "npy.h"
#include "tensor.h"
#include "verbs.h"

enum { TOP = 5 };

/* Numbers from the largest to the smallest, NaNs behind them, equal ones by position. */
static bool precedes(double a, double b) { return isnan(b) ? !isnan(a) : a > b; }

/* The largest scores, if the output looks like one score a class. */
static void print_top(const port *output, size_t count) {
  if (!dtype_is_float(output->info.dtype) || count < 2) return;
  for (uint32_t i = 0; i < output->info.rank; i++)
    if (output->shape[i] != 1 && (size_t)output->shape[i] != count) return;
  size_t best[TOP] = {0}, found = 0;
  for (size_t i = 0; i < count; i++) {
    double score = element(output->info.dtype, output->data, i);
    size_t place = found < TOP ? found++ : TOP;
    for (; place > 0 && precedes(score, element(output->info.dtype, output->data, best[place - 1])); place--)
      if (place < TOP) best[place] = best[place - 1];
    if (place < TOP) best[place] = i;
  }
  for (size_t i = 0; i < found; i++)
    printf("  %6zu  %.6g\n", best[i], element(output->info.dtype, output->data, best[i]));
}

static void print_output(const port *output) {
  size_t count = shape_elements(output->info.rank, output->shape);
  printf("%s: %s%s", printable(output->info.name).s, dtype_name(output->info.dtype),
         shape_text(output->info.rank, output->shape).s);
  if (count == 0) {
    printf("  empty\n");
    return;
  }
  double least = INFINITY, most = -INFINITY, sum = 0;
  for (size_t i = 0; i < count; i++) {
    double x = element(output->info.dtype, output->data, i);
    least = isnan(x) || x < least ? x : least; /* a NaN stays */
    most = isnan(x) || x > most ? x : most;
    sum += x;
  }
  printf("  min %.6g  max %.6g  mean %.6g\n", least, most, sum / (double)count);
  print_top(output, count);
}

/* The output's name as that of a file: different names stay different. */
static text file_name(const char *name) {
  text t;
  size_t end = 0;
  for (const char *c = name; *c && end + 4 < sizeof t.s; c++) {
    bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_' ||
                 *c == '-' || (*c == '.' && end > 0);
    end += (size_t)snprintf(t.s + end, sizeof t.s - end, plain ? "%c" : "%%%02x", (unsigned char)*c);
  }
  t.s[end] = '\0';
  return t;
}

static bool save(const char *folder, const port *output) {
  char path[4096];
  int length = snprintf(path, sizeof path, "%s/%s.npy", folder, file_name(output->info.name).s);
  if (length < 0 || (size_t)length >= sizeof path) return fail("%s: the path is too long", folder);
  return npy_write(path, output->info.dtype, output->info.rank, output->shape, output->data);
}

static bool show(const arguments *a, const network *n) {
  if (a->output && mkdir(a->output, 0777) != 0 && errno != EEXIST) return fail("%s: %s", a->output, strerror(errno));
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    if (a->output && !save(a->output, &n->outputs[i])) return false;
    print_output(&n->outputs[i]);
  }
  return true;
}

static bool run(const arguments *a, const edgert_bundle *bundle) {
  network n;
  bool good =
      network_open(bundle, a, a->isa, &n) && network_feed(&n, &a->inputs, true) && network_answer(&n) && show(a, &n);
  network_close(&n);
  return good;
}

int verb_run(const arguments *a) {
  edgert_open_options options = {.struct_size = sizeof options, .threads = a->threads};
  edgert_bundle *bundle;
  bool good = edgert_bundle_open(a->bundle, &options, &bundle) ? fail_library() : run(a, bundle);
  edgert_bundle_close(bundle);
  return good ? EXIT_PASSED : EXIT_ERROR;
}
