/* Modules, kernels, and the statements of their bodies. */
#include "ptx/parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

bool parse_error(parser *p, const char *format, ...) {
  if (p->message[0]) return false;
  if (p->result == CUDA_SUCCESS) p->result = CUDA_ERROR_INVALID_PTX;
  int n = snprintf(p->message, sizeof p->message, "PTX line %u: ", p->l.now.line);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(p->message + n, sizeof p->message - (size_t)n, format, arguments);
  va_end(arguments);
  return false;
}

bool parse_grow(parser *p, void *array, uint32_t count, uint32_t *capacity, size_t size) {
  if (count < *capacity) return true;
  uint32_t more = *capacity ? *capacity * 2 : 64;
  void *old, *grown;
  memcpy(&old, array, sizeof old);
  grown = more > 1u << 28 ? NULL : realloc(old, more * size);
  if (!grown) {
    p->result = CUDA_ERROR_OUT_OF_MEMORY;
    return parse_error(p, "no memory");
  }
  memcpy(array, &grown, sizeof grown);
  *capacity = more;
  return true;
}

bool parse_accept(parser *p, char sign) {
  if (!token_sign(&p->l.now, sign)) return false;
  lexer_next(&p->l);
  return true;
}

bool parse_expect(parser *p, char sign) {
  if (parse_accept(p, sign)) return true;
  return parse_error(p, "expected %c, got %.*s", sign, (int)p->l.now.length, p->l.now.text);
}

bool parse_integer(parser *p, uint64_t *value) {
  bool minus = parse_accept(p, '-');
  token_kind kind = p->l.now.kind;
  if (kind != TOKEN_INTEGER && (minus || (kind != TOKEN_FLOAT32 && kind != TOKEN_FLOAT64)))
    return parse_error(p, "expected a number, got %.*s", (int)p->l.now.length, p->l.now.text);
  *value = minus ? 0 - p->l.now.value : p->l.now.value;
  lexer_next(&p->l);
  return true;
}

/* .reg .f32 %f<8>, a, b; */
static bool parse_registers(parser *p) {
  token type_name = p->l.now;
  ptx_type type = ptx_type_find(type_name.text, type_name.length);
  if (type == T_NONE) return parse_error(p, "%.*s is no type of a register", (int)type_name.length, type_name.text);
  unsigned bytes = ptx_bytes(type);
  uint8_t width = type == T_PRED ? WIDTH_PREDICATE : bytes == 8 ? 3 : bytes == 4 ? 2 : bytes == 2 ? 1 : 0;
  lexer_next(&p->l);
  do {
    token name = p->l.now;
    uint64_t count = 0;
    if (name.kind != TOKEN_WORD) return parse_error(p, "expected the name of a register");
    lexer_next(&p->l);
    if (parse_accept(p, '<') && (!parse_integer(p, &count) || !parse_expect(p, '>'))) return false;
    uint64_t registers = count ? count : 1;
    if (registers > PTX_MAX_INDEX - p->virtual_count) return parse_error(p, "too many registers");
    symbol *s = symbol_add(&p->names, name.text, name.length);
    if (!s) return parse_error(p, "no memory");
    s->kind = SYMBOL_REGISTER;
    s->width = width;
    s->index = p->virtual_count;
    s->count = (uint32_t)count;
    p->virtual_count += (uint32_t)registers;
    while (p->widths_capacity < p->virtual_count)
      if (!parse_grow(p, &p->widths, p->widths_capacity, &p->widths_capacity, 1)) return false;
    memset(p->widths + s->index, width, registers);
  } while (parse_accept(p, ','));
  return parse_expect(p, ';');
}

/* The parameters of a kernel, in parentheses. */
static bool parse_parameters(parser *p) {
  ptx_function *f = p->f;
  uint32_t capacity = 0;
  if (!parse_accept(p, '(')) return true;
  while (!token_sign(&p->l.now, ')')) {
    if (!token_is(&p->l.now, ".param")) return parse_error(p, "expected .param");
    lexer_next(&p->l);
    ptx_type type = T_NONE;
    uint64_t align = 0, count = 1;
    bool pointer = false;
    while (p->l.now.kind == TOKEN_DIRECTIVE) {
      token t = p->l.now;
      lexer_next(&p->l);
      uint64_t value = 0;
      if (token_is(&t, ".align")) {
        if (!parse_integer(p, &value)) return false;
        if (!pointer) align = value;
      } else if (token_is(&t, ".ptr")) {
        pointer = true;
      } else if (ptx_type_find(t.text, t.length) != T_NONE) {
        type = ptx_type_find(t.text, t.length);
      } else if (!pointer) {
        return parse_error(p, "%.*s in a parameter", (int)t.length, t.text);
      }
    }
    token name = p->l.now;
    if (type == T_NONE || type == T_PRED || name.kind != TOKEN_WORD) return parse_error(p, "expected a parameter");
    lexer_next(&p->l);
    if (parse_accept(p, '[') && (!parse_integer(p, &count) || !parse_expect(p, ']'))) return false;
    if (align == 0) align = ptx_bytes(type);
    if (align > 4096 || (align & (align - 1)) || count > 32768) return parse_error(p, "size of a parameter");
    uint32_t bytes = (uint32_t)count * ptx_bytes(type);
    uint32_t offset = (f->parameter_bytes + (uint32_t)align - 1) & ~((uint32_t)align - 1);
    if (offset + bytes > 32764) return parse_error(p, "more than 32764 bytes of parameters");
    if (!parse_grow(p, &f->parameters, f->parameter_count, &capacity, sizeof *f->parameters)) return false;
    f->parameters[f->parameter_count++] = (ptx_parameter){offset, bytes};
    f->parameter_bytes = offset + bytes;
    symbol *s = symbol_add(&p->names, name.text, name.length);
    if (!s) return parse_error(p, "no memory");
    s->kind = SYMBOL_VARIABLE;
    s->space = SPACE_PARAM;
    s->address = offset;
    s->bytes = bytes;
    if (!parse_accept(p, ',')) break;
  }
  return parse_expect(p, ')');
}

/* What stands between the parameters and the body: .maxntid 256, 1, 1 and the like. */
static bool parse_performance(parser *p) {
  while (p->l.now.kind == TOKEN_DIRECTIVE) {
    bool threads = token_is(&p->l.now, ".maxntid") || token_is(&p->l.now, ".reqntid");
    bool known = threads || token_is(&p->l.now, ".maxnreg") || token_is(&p->l.now, ".minnctapersm");
    if (!known) return parse_error(p, "%.*s is not supported", (int)p->l.now.length, p->l.now.text);
    uint64_t product = 1, value = 0;
    lexer_next(&p->l);
    do {
      if (!parse_integer(p, &value)) return false;
      product *= value & 0xffff;
    } while (parse_accept(p, ','));
    if (threads) p->f->max_threads = (uint32_t)product;
  }
  return true;
}

static bool parse_targets(parser *p, const token *name) {
  ptx_function *f = p->f;
  uint32_t head = f->target_count;
  if (!parse_label_definition(p, name, head, true)) return false;
  if (!parse_grow(p, &f->targets, f->target_count, &p->target_capacity, sizeof *f->targets)) return false;
  f->targets[f->target_count++] = 0;
  do {
    if (!parse_grow(p, &f->targets, f->target_count, &p->target_capacity, sizeof *f->targets)) return false;
    if (!parse_label_reference(p, f->target_count, true)) return false;
    f->target_count++;
    f->targets[head]++;
  } while (parse_accept(p, ','));
  return parse_expect(p, ';');
}

static bool parse_label(parser *p, const token *name) {
  if (!parse_expect(p, ':')) return false;
  if (token_is(&p->l.now, ".branchtargets")) {
    lexer_next(&p->l);
    return parse_targets(p, name);
  }
  return parse_label_definition(p, name, p->f->instructions, false);
}

static bool parse_space(parser *p, bool external) {
  static const struct {
    const char *text;
    ptx_space space;
  } spaces[] = {{".global", SPACE_GLOBAL}, {".const", SPACE_CONST}, {".shared", SPACE_SHARED}, {".local", SPACE_LOCAL}};
  for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
    if (!token_is(&p->l.now, spaces[i].text)) continue;
    lexer_next(&p->l);
    return parse_variables(p, spaces[i].space, external);
  }
  return parse_error(p, "%.*s is not supported", (int)p->l.now.length, p->l.now.text);
}

static bool skip_directive(parser *p) {
  if (token_is(&p->l.now, ".loc") || token_is(&p->l.now, ".file")) {
    lexer_skip_line(&p->l);
    return true;
  }
  if (token_is(&p->l.now, ".pragma")) {
    while (p->l.now.kind != TOKEN_END && !token_sign(&p->l.now, ';')) lexer_next(&p->l);
    lexer_next(&p->l);
    return true;
  }
  if (token_is(&p->l.now, ".section")) {
    while (p->l.now.kind != TOKEN_END && !token_sign(&p->l.now, '}')) lexer_next(&p->l);
    lexer_next(&p->l);
    return true;
  }
  return false;
}

static bool parse_statement(parser *p) {
  token t = p->l.now;
  if (t.kind == TOKEN_DIRECTIVE) {
    if (skip_directive(p)) return true;
    if (!token_is(&t, ".reg")) return parse_space(p, false);
    lexer_next(&p->l);
    return parse_registers(p);
  }
  if (t.kind == TOKEN_WORD) {
    lexer ahead = p->l;
    lexer_next(&p->l);
    if (token_sign(&p->l.now, ':')) return parse_label(p, &t);
    p->l = ahead;
  }
  return parse_instruction(p);
}

static bool parse_body(parser *p) {
  if (!parse_expect(p, '{')) return false;
  uint32_t outer = p->names.depth;
  for (;;) {
    if (p->l.now.kind == TOKEN_END) return parse_error(p, "the text ends within a function");
    if (parse_accept(p, '{')) {
      p->names.depth++;
    } else if (parse_accept(p, '}')) {
      if (p->names.depth == outer) return true;
      symbol_leave(&p->names);
    } else if (!parse_accept(p, ';') && !parse_statement(p)) {
      return false;
    }
  }
}

/* Labels are known now; so is the size of the static shared memory. */
static bool resolve(parser *p) {
  ptx_function *f = p->f;
  for (uint32_t i = 0; i < p->fixup_count; i++) {
    const symbol *s = &p->labels.entries[p->fixups[i].symbol];
    if (s->index == UINT32_MAX) return parse_error(p, "label %.*s is defined nowhere", (int)s->length, s->name);
    bool wants_list = !p->fixups[i].in_targets && f->code[p->fixups[i].place].code / 16 == OP_BRX;
    if (wants_list != (s->count == 1))
      return parse_error(p, "label %.*s is %s list of targets", (int)s->length, s->name, wants_list ? "no" : "a");
    if (p->fixups[i].in_targets)
      f->targets[p->fixups[i].place] = s->index;
    else
      f->code[p->fixups[i].place].target = s->index;
  }
  uint32_t end = (f->shared_bytes + 15) & ~15u;
  for (uint32_t i = 0; i < p->dynamic_count; i++) f->constants[p->dynamic[i]] += end;
  return true;
}

static bool append_exit(parser *p) {
  if (!parse_grow(p, &p->f->code, p->f->instructions, &p->instruction_capacity, sizeof *p->f->code)) return false;
  p->f->code[p->f->instructions++] =
      (ptx_instruction){.code = CODE(OP_EXIT, T_NONE), .group = G_CONTROL, .line = p->l.now.line};
  return true;
}

static bool parse_entry(parser *p) {
  token name = p->l.now;
  if (name.kind != TOKEN_WORD) return parse_error(p, "expected the name of a kernel");
  ptx_function *f = calloc(1, sizeof *f);
  if (!f || !(f->name = strndup(name.text, name.length))) {
    free(f);
    return parse_error(p, "no memory");
  }
  f->next = p->program->functions;
  p->program->functions = p->f = f;
  p->owner++;
  p->instruction_capacity = p->constant_capacity = p->target_capacity = 0;
  p->virtual_count = p->fixup_count = p->dynamic_count = 0;
  p->names.depth++;
  lexer_next(&p->l);
  if (!parse_parameters(p) || !parse_performance(p)) return false;
  if (!parse_accept(p, ';') && !parse_body(p)) return false; /* a declaration alone is the start of nothing */
  if (!append_exit(p) || !resolve(p)) return false;
  if (!ptx_assign_registers(f, p->widths, p->virtual_count)) {
    p->result = CUDA_ERROR_OUT_OF_MEMORY;
    return parse_error(p, "no memory");
  }
  symbol_leave(&p->names);
  symbol_clear(&p->labels);
  p->f = NULL;
  return true;
}

/* .version 8.8: the lexer makes a float of it, so the text is read again. */
static bool parse_version(parser *p) {
  char text[16] = {0};
  if (p->l.now.length < sizeof text) memcpy(text, p->l.now.text, p->l.now.length);
  int major = 0, minor = 0;
  if (sscanf(text, "%d.%d", &major, &minor) != 2) return parse_error(p, "expected a version");
  p->program->version = major * 10 + minor;
  lexer_next(&p->l);
  return true;
}

static bool parse_target(parser *p) {
  do {
    const token *t = &p->l.now;
    if (t->length > 3 && memcmp(t->text, "sm_", 3) == 0) p->program->target = atoi(t->text + 3);
    lexer_next(&p->l);
  } while (parse_accept(p, ','));
  return p->program->target > 0 || parse_error(p, "expected a target such as sm_62");
}

static bool parse_top(parser *p) {
  bool external = false;
  while (p->l.now.kind == TOKEN_DIRECTIVE) {
    token t = p->l.now;
    if (skip_directive(p)) return true;
    if (token_is(&t, ".func")) return parse_error(p, "functions that are called (.func) are not supported");
    if (token_is(&t, ".entry") || token_is(&t, ".version") || token_is(&t, ".target") ||
        token_is(&t, ".address_size")) {
      lexer_next(&p->l);
      if (token_is(&t, ".entry")) return parse_entry(p);
      if (token_is(&t, ".version")) return parse_version(p);
      if (token_is(&t, ".target")) return parse_target(p);
      uint64_t bits = 0;
      if (!parse_integer(p, &bits)) return false;
      return bits == 64 || parse_error(p, "addresses of %u bits are not supported", (unsigned)bits);
    }
    if (token_is(&t, ".extern")) external = true;
    if (!external && !token_is(&t, ".visible") && !token_is(&t, ".weak") && !token_is(&t, ".common"))
      return parse_space(p, false);
    if (external && !token_is(&t, ".extern")) return parse_space(p, true);
    lexer_next(&p->l);
  }
  return parse_error(p, "expected a directive, got %.*s", (int)p->l.now.length, p->l.now.text);
}

CUresult ptx_parse(const char *text, size_t length, ptx_program *program, char message[512]) {
  parser *p = calloc(1, sizeof *p);
  message[0] = '\0';
  if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
  p->program = program;
  lexer_start(&p->l, text, length);
  while (p->l.now.kind != TOKEN_END && parse_top(p)) continue;
  if (!p->message[0] && (program->version == 0 || program->target == 0)) parse_error(p, "no .version and .target");
  memcpy(message, p->message, sizeof p->message);
  CUresult result = p->result;
  symbol_clear(&p->names);
  symbol_clear(&p->labels);
  free(p->widths);
  free(p->fixups);
  free(p->dynamic);
  free(p);
  return result;
}

void ptx_program_free(ptx_program *program) {
  for (ptx_function *f = program->functions, *next; f; f = next) {
    next = f->next;
    free(f->name);
    free(f->code);
    free(f->targets);
    free(f->constants);
    free(f->parameters);
    free(f);
  }
  for (ptx_variable *v = program->variables, *next; v; v = next) {
    next = v->next;
    emu_memory_free(v->address);
    free(v->name);
    free(v);
  }
  *program = (ptx_program){0};
}
