/* Live objects, and lists of work. */
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "edgert-cuda-emulator.h"

static emu_object *objects;

void *emu_object_create(size_t bytes, emu_kind kind, CUcontext context) {
  emu_object *o = calloc(1, bytes);
  if (!o) return NULL;
  *o = (emu_object){objects, kind, context};
  objects = o;
  return o;
}

bool emu_object_valid(const void *object, emu_kind kind) {
  for (const emu_object *o = objects; o; o = o->next)
    if (o == object) return o->kind == kind;
  return false;
}

void emu_object_destroy(void *object) {
  for (emu_object **link = &objects; *link; link = &(*link)->next) {
    if (*link != object) continue;
    *link = (*link)->next;
    free(object);
    return;
  }
}

void *emu_object_any(emu_kind kind, const struct emu_context *context) {
  for (emu_object *o = objects; o; o = o->next)
    if (o->kind == kind && o->context == context) return o;
  return NULL;
}

EMU_EXPORT uint64_t edgertEmulatorObjects(void) {
  uint64_t count = 0;
  for (const emu_object *o = objects; o; o = o->next) count++;
  return count;
}

bool emu_list_add(emu_list *list, const emu_work *work) {
  emu_work *copy = malloc(sizeof *copy);
  if (!copy) return false;
  *copy = *work;
  copy->next = NULL;
  if (list->last)
    list->last->next = copy;
  else
    list->first = copy;
  list->last = copy;
  return true;
}

bool emu_list_copy(emu_list *to, const emu_list *from) {
  for (const emu_work *w = from->first; w; w = w->next) {
    emu_work copy = *w;
    if (w->data) {
      copy.data = malloc(w->bytes ? w->bytes : 1);
      if (!copy.data) return false;
      memcpy(copy.data, w->data, w->bytes);
    }
    if (!emu_list_add(to, &copy)) {
      free(copy.data);
      return false;
    }
  }
  return true;
}

void emu_list_clear(emu_list *list) {
  for (emu_work *w = list->first, *next; w; w = next) {
    next = w->next;
    free(w->data);
    free(w);
  }
  *list = (emu_list){NULL, NULL};
}

void emu_list_forget(emu_list *list, const struct emu_module *module) {
  for (emu_work *w = list->first; w; w = w->next)
    for (const struct emu_function *f = module->functions; f; f = f->next)
      if (w->function == f->f) w->function = NULL;
}
