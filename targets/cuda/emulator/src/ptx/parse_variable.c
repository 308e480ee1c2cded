/* Variables: .global and .const ones get memory and content, the others a place in their space. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ptx/parser.h"

typedef struct declaration {
  ptx_type type;
  uint64_t elements;
  uint32_t align;
  bool open; /* [] without a size */
} declaration;

static bool parse_type(parser *p, declaration *d) {
  *d = (declaration){T_NONE, 1, 0, false};
  while (p->l.now.kind == TOKEN_DIRECTIVE) {
    token t = p->l.now;
    lexer_next(&p->l);
    if (token_is(&t, ".align")) {
      uint64_t align;
      if (!parse_integer(p, &align)) return false;
      if (align == 0 || align > 4096 || (align & (align - 1))) return parse_error(p, "alignment is no power of two");
      d->align = (uint32_t)align;
    } else if (token_is(&t, ".v2") || token_is(&t, ".v4")) {
      d->elements *= (uint64_t)(t.text[2] - '0');
    } else if ((d->type = ptx_type_find(t.text, t.length)) == T_NONE || d->type == T_PRED) {
      return parse_error(p, "%.*s is no type of a variable", (int)t.length, t.text);
    }
  }
  if (d->type == T_NONE) return parse_error(p, "expected a type");
  if (d->align < ptx_bytes(d->type) * d->elements && d->align == 0)
    d->align = (uint32_t)(ptx_bytes(d->type) * d->elements);
  return true;
}

static bool parse_dimensions(parser *p, declaration *d) {
  while (parse_accept(p, '[')) {
    uint64_t n;
    if (parse_accept(p, ']')) {
      d->open = true;
      continue;
    }
    if (!parse_integer(p, &n) || !parse_expect(p, ']')) return false;
    if (n > ((uint64_t)1 << 32) || __builtin_mul_overflow(d->elements, n, &d->elements) ||
        d->elements > (uint64_t)1 << 36)
      return parse_error(p, "the array is too large");
  }
  return true;
}

/* A number as the bits of the element type. */
static bool element(parser *p, ptx_type type, uint64_t *bits) {
  const token *t = &p->l.now;
  if (t->kind == TOKEN_WORD) return parse_error(p, "addresses as initial values are not supported");
  if (t->kind == TOKEN_FLOAT64 && type == T_F32) {
    double value;
    memcpy(&value, &t->value, sizeof value);
    float single = (float)value;
    uint32_t word;
    memcpy(&word, &single, sizeof word);
    *bits = word;
    lexer_next(&p->l);
    return true;
  }
  return parse_integer(p, bits);
}

static bool initialise(parser *p, const declaration *d, uint8_t *content, uint64_t bytes) {
  unsigned size = ptx_bytes(d->type);
  uint64_t at = 0;
  int depth = 0;
  do {
    if (parse_accept(p, '{')) {
      depth++;
      continue;
    }
    if (parse_accept(p, '}')) {
      depth--;
    } else {
      uint64_t bits;
      if (!element(p, d->type, &bits)) return false;
      if (at + size > bytes) return parse_error(p, "more initial values than elements");
      memcpy(content + at, &bits, size);
      at += size;
    }
    if (depth > 0) parse_accept(p, ',');
  } while (depth > 0);
  return true;
}

static bool make_global(parser *p, symbol *s, const declaration *d) {
  uint64_t bytes = s->bytes;
  uint8_t *content = calloc(bytes ? bytes : 1, 1);
  ptx_variable *v = calloc(1, sizeof *v);
  bool constant = s->space == SPACE_CONST;
  if (!content || !v || !(v->name = strndup(s->name, s->length))) {
    free(content);
    free(v);
    p->result = CUDA_ERROR_OUT_OF_MEMORY;
    return parse_error(p, "no memory");
  }
  bool ok = true;
  if (parse_accept(p, '=')) ok = initialise(p, d, content, bytes);
  if (ok && emu_memory_allocate(bytes, EMU_VARIABLE, &v->address) != CUDA_SUCCESS) {
    p->result = CUDA_ERROR_OUT_OF_MEMORY;
    ok = parse_error(p, "no memory for variable %s", v->name);
  }
  if (ok) {
    emu_memory_write(v->address, content, bytes);
    ((emu_region *)emu_region_find(v->address, 1))->read_only = constant;
    v->bytes = bytes;
    v->next = p->program->variables;
    p->program->variables = v;
    s->address = v->address;
  } else {
    free(v->name);
    free(v);
  }
  free(content);
  return ok;
}

static uint64_t place(uint64_t end, uint32_t align) { return (end + align - 1) & ~(uint64_t)(align - 1); }

bool parse_place(parser *p, symbol *s, uint64_t *address) {
  if (s->space == SPACE_SHARED && !s->dynamic && s->owner != p->owner) {
    uint64_t at = place(p->f->shared_bytes, s->align);
    if (at + s->bytes > 1u << 20) return parse_error(p, "more than 1 MB of shared memory");
    s->address = at;
    s->owner = p->owner;
    p->f->shared_bytes = (uint32_t)(at + s->bytes);
  }
  *address = s->address;
  return true;
}

static bool parse_one(parser *p, ptx_space space, bool external, declaration d) {
  token name = p->l.now;
  if (name.kind != TOKEN_WORD) return parse_error(p, "expected the name of a variable");
  lexer_next(&p->l);
  if (!parse_dimensions(p, &d)) return false;
  symbol *s = symbol_add(&p->names, name.text, name.length);
  if (!s) return parse_error(p, "no memory");
  s->kind = SYMBOL_VARIABLE;
  s->space = (uint8_t)space;
  s->align = d.align;
  s->bytes = d.elements * ptx_bytes(d.type);
  s->dynamic = space == SPACE_SHARED && (d.open || (external && s->bytes == 0));
  if (s->dynamic) return true;
  if (d.open) return parse_error(p, "array without a size");
  uint64_t address;
  switch (space) {
    case SPACE_GLOBAL:
    case SPACE_CONST:
      if (external) return parse_error(p, "%.*s is defined nowhere", (int)name.length, name.text);
      if (space == SPACE_CONST && s->bytes > 65536) return parse_error(p, "more than 64 KB of constants");
      return make_global(p, s, &d);
    case SPACE_LOCAL:
      s->address = place(p->f->local_bytes, s->align);
      if (s->address + s->bytes > 1u << 19) return parse_error(p, "more than 512 KB of local memory");
      p->f->local_bytes = (uint32_t)(s->address + s->bytes);
      return true;
    default:
      return p->f ? parse_place(p, s, &address) : true;
  }
}

bool parse_variables(parser *p, ptx_space space, bool external) {
  declaration d;
  if (space == SPACE_LOCAL && !p->f) return parse_error(p, ".local outside of a function");
  if (!parse_type(p, &d)) return false;
  do {
    if (!parse_one(p, space, external, d)) return false;
  } while (parse_accept(p, ','));
  return parse_expect(p, ';');
}
