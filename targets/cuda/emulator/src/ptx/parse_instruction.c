/* Instructions: the opcode by its table, the operands by the letters of its signature. */
#include <string.h>

#include "ptx/parser.h"

static const struct {
  const char *name;
  ptx_special special;
  uint8_t width;
} specials[] = {{"%tid.x", SR_TID_X, 2},
                {"%tid.y", SR_TID_Y, 2},
                {"%tid.z", SR_TID_Z, 2},
                {"%ntid.x", SR_NTID_X, 2},
                {"%ntid.y", SR_NTID_Y, 2},
                {"%ntid.z", SR_NTID_Z, 2},
                {"%ctaid.x", SR_CTAID_X, 2},
                {"%ctaid.y", SR_CTAID_Y, 2},
                {"%ctaid.z", SR_CTAID_Z, 2},
                {"%nctaid.x", SR_NCTAID_X, 2},
                {"%nctaid.y", SR_NCTAID_Y, 2},
                {"%nctaid.z", SR_NCTAID_Z, 2},
                {"%laneid", SR_LANEID, 2},
                {"%warpid", SR_WARPID, 2},
                {"%nwarpid", SR_NWARPID, 2},
                {"%smid", SR_SMID, 2},
                {"%nsmid", SR_NSMID, 2},
                {"%gridid", SR_GRIDID, 3},
                {"%clock", SR_CLOCK, 2},
                {"%clock64", SR_CLOCK64, 3},
                {"%globaltimer", SR_GLOBALTIMER, 3},
                {"%lanemask_eq", SR_LANEMASK_EQ, 2},
                {"%lanemask_lt", SR_LANEMASK_LT, 2},
                {"%lanemask_le", SR_LANEMASK_LE, 2},
                {"%lanemask_gt", SR_LANEMASK_GT, 2},
                {"%lanemask_ge", SR_LANEMASK_GE, 2},
                {"%dynamic_smem_size", SR_DYNAMIC_SHARED, 2},
                {"%total_smem_size", SR_TOTAL_SHARED, 2}};

static unsigned width_of(unsigned bytes) { return bytes == 8 ? 3 : bytes == 4 ? 2 : bytes == 2 ? 1 : 0; }

bool parse_constant(parser *p, uint64_t value, uint32_t *index) {
  ptx_function *f = p->f;
  for (uint32_t i = f->constant_count, n = 0; i > 0 && n < 4; i--, n++) {
    bool patched = p->dynamic_count && p->dynamic[p->dynamic_count - 1] == i - 1;
    if (f->constants[i - 1] == value && !patched) {
      *index = i - 1;
      return true;
    }
  }
  if (!parse_grow(p, &f->constants, f->constant_count, &p->constant_capacity, sizeof *f->constants)) return false;
  if (f->constant_count > PTX_MAX_INDEX) return parse_error(p, "too many constants");
  *index = f->constant_count;
  f->constants[f->constant_count++] = value;
  return true;
}

/* A constant of its own, to which the size of the static shared memory is added at the end of the function. */
static bool dynamic_constant(parser *p, uint64_t value, uint32_t *index) {
  ptx_function *f = p->f;
  if (!parse_grow(p, &f->constants, f->constant_count, &p->constant_capacity, sizeof *f->constants)) return false;
  if (!parse_grow(p, &p->dynamic, p->dynamic_count, &p->dynamic_capacity, sizeof *p->dynamic)) return false;
  *index = f->constant_count;
  p->dynamic[p->dynamic_count++] = *index;
  f->constants[f->constant_count++] = value;
  return true;
}

/* A register by its name: one declared so, or one of a range such as %f<8>. */
static bool find_register(parser *p, const token *t, uint32_t *index, unsigned *width) {
  symbol *s = symbol_find(&p->names, t->text, t->length, false);
  if (s) {
    *index = s->index;
    *width = s->width;
    return s->kind == SYMBOL_REGISTER;
  }
  uint64_t number = 0, unit = 1;
  for (size_t n = t->length; n > 1 && t->text[n - 1] >= '0' && t->text[n - 1] <= '9' && unit < 1000000000; n--) {
    number += (uint64_t)(t->text[n - 1] - '0') * unit;
    unit *= 10;
    s = symbol_find(&p->names, t->text, n - 1, true);
    if (s && number < s->count) {
      *index = s->index + (uint32_t)number;
      *width = s->width;
      return true;
    }
  }
  return false;
}

/* A register of exactly `width`, or of at least that if `wider`. */
static bool parse_register(parser *p, unsigned width, bool wider, ptx_operand *out) {
  token t = p->l.now;
  uint32_t index;
  unsigned have;
  *out = 0;
  if (t.kind != TOKEN_WORD || !find_register(p, &t, &index, &have))
    return parse_error(p, "%.*s is no register", (int)t.length, t.text);
  bool fits = have == width || (wider && have != WIDTH_PREDICATE && width != WIDTH_PREDICATE && have > width);
  if (!fits) return parse_error(p, "register %.*s is not of the size that the instruction has", (int)t.length, t.text);
  *out = ptx_operand_make(OPERAND_REGISTER, have, index);
  lexer_next(&p->l);
  return true;
}

/* A register that is written, or "_" for none. */
static bool parse_sink(parser *p, unsigned width, bool wider, ptx_operand *out) {
  *out = 0;
  if (!token_is(&p->l.now, "_")) return parse_register(p, width, wider, out);
  lexer_next(&p->l);
  return true;
}

static bool parse_number(parser *p, ptx_type type, unsigned width, ptx_operand *out) {
  token t = p->l.now;
  uint64_t value = t.value;
  uint32_t index;
  bool wanted = type == T_F32 || type == T_F64;
  if (t.kind == TOKEN_FLOAT32 || t.kind == TOKEN_FLOAT64) {
    lexer_next(&p->l);
    if (t.kind == TOKEN_FLOAT64 && width == 2) {
      double number;
      memcpy(&number, &t.value, sizeof number);
      float single = (float)number;
      uint32_t bits;
      memcpy(&bits, &single, sizeof bits);
      value = bits;
    } else if (t.kind == TOKEN_FLOAT32 && type == T_F64) {
      float single;
      memcpy(&single, &t.value, sizeof single);
      double number = single;
      memcpy(&value, &number, sizeof value);
    }
  } else {
    if (wanted) return parse_error(p, "a constant of a float is written 0f... or 0d...");
    if (!parse_integer(p, &value)) return false;
  }
  if (!parse_constant(p, value, &index)) return false;
  *out = ptx_operand_make(OPERAND_CONSTANT, width, index);
  return true;
}

/* The text of %name or %name.x; false if it is no special register. */
static bool parse_special(parser *p, ptx_operand *out) {
  token t = p->l.now;
  const char *end = t.text + t.length;
  if (end + 1 < p->l.end && end[0] == '.' && end[1] >= 'w' && end[1] <= 'z') t.length += 2;
  for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++) {
    if (!token_is(&t, specials[i].name)) continue;
    *out = ptx_operand_make(OPERAND_SPECIAL, specials[i].width, specials[i].special);
    lexer_next(&p->l);
    if (end < p->l.end && t.length > (size_t)(end - t.text)) lexer_next(&p->l);
    return true;
  }
  return false;
}

static bool parse_source(parser *p, ptx_type type, unsigned width, bool wider, ptx_operand *out) {
  token t = p->l.now;
  uint32_t index;
  if (token_is(&t, "WARP_SZ")) {
    lexer_next(&p->l);
    if (!parse_constant(p, 32, &index)) return false;
    *out = ptx_operand_make(OPERAND_CONSTANT, width, index);
    return true;
  }
  if (t.kind != TOKEN_WORD) return parse_number(p, type, width, out);
  if (t.text[0] == '%' && parse_special(p, out)) {
    if (ptx_width(*out) < width) return parse_error(p, "%.*s has fewer bits", (int)t.length, t.text);
    *out = ptx_operand_make(OPERAND_SPECIAL, width, ptx_index(*out));
    return true;
  }
  return parse_register(p, width, wider, out);
}

/* A predicate, perhaps with "!" before. */
static bool parse_predicate(parser *p, ptx_operand *out) {
  bool negated = parse_accept(p, '!');
  if (p->l.now.kind == TOKEN_INTEGER) {
    uint32_t index;
    uint64_t value;
    if (!parse_integer(p, &value) || !parse_constant(p, value ? 0xffffffff : 0, &index)) return false;
    *out = ptx_operand_make(OPERAND_CONSTANT, WIDTH_PREDICATE, index);
  } else if (!parse_register(p, WIDTH_PREDICATE, false, out)) {
    return false;
  }
  if (negated) *out |= PTX_NEGATED;
  return true;
}

/* The address of a variable, with an offset, as a constant. */
static bool parse_variable_address(parser *p, symbol *s, unsigned width, ptx_operand *out) {
  uint64_t address, offset = 0;
  uint32_t index;
  if (!parse_place(p, s, &address)) return false;
  lexer_next(&p->l);
  bool minus = token_sign(&p->l.now, '-');
  if ((minus || parse_accept(p, '+')) && !parse_integer(p, &offset)) return false;
  if (!(s->dynamic ? dynamic_constant : parse_constant)(p, address + offset, &index)) return false;
  *out = ptx_operand_make(OPERAND_CONSTANT, width, index);
  return true;
}

static symbol *find_variable(parser *p) {
  if (p->l.now.kind != TOKEN_WORD) return NULL;
  symbol *s = symbol_find(&p->names, p->l.now.text, p->l.now.length, false);
  return s && s->kind == SYMBOL_VARIABLE ? s : NULL;
}

static bool parse_address(parser *p, ptx_instruction *i) {
  if (!parse_expect(p, '[')) return false;
  symbol *s = find_variable(p);
  uint64_t offset = 0;
  uint32_t index;
  i->x[4] = 0;
  if (s) {
    if (i->space == SPACE_GENERIC) i->space = s->space;
    return parse_variable_address(p, s, 3, &i->x[5]) && parse_expect(p, ']');
  }
  if (p->l.now.kind == TOKEN_WORD) {
    if (!parse_register(p, 2, true, &i->x[4])) return false;
    bool minus = token_sign(&p->l.now, '-');
    if ((minus || parse_accept(p, '+')) && !parse_integer(p, &offset)) return false;
  } else if (!parse_integer(p, &offset)) {
    return false;
  }
  if (!parse_constant(p, offset, &index)) return false;
  i->x[5] = ptx_operand_make(OPERAND_CONSTANT, 3, index);
  return parse_expect(p, ']');
}

/* A list in braces, of registers or, if `source`, also of numbers. */
static bool parse_list(parser *p, ptx_type type, unsigned width, bool wider, bool source, ptx_operand *out,
                       unsigned *count) {
  if (!parse_expect(p, '{')) return false;
  for (*count = 0;;) {
    if (*count == 4) return parse_error(p, "more than 4 elements");
    ptx_operand *x = &out[(*count)++];
    if (source ? !parse_source(p, type, width, wider, x) : !parse_sink(p, width, wider, x)) return false;
    if (!parse_accept(p, ',')) break;
  }
  return parse_expect(p, '}');
}

static bool parse_vector(parser *p, ptx_instruction *i, ptx_type type, unsigned width, bool source) {
  if (i->vector == 1 && !token_sign(&p->l.now, '{'))
    return source ? parse_source(p, type, width, true, &i->x[0]) : parse_register(p, width, true, &i->x[0]);
  unsigned count;
  if (!parse_list(p, type, width, true, source, i->x, &count)) return false;
  return count == i->vector || parse_error(p, "%u registers for a vector of %u", count, i->vector);
}

/* The width of each element of the list that comes next, which together have `width`. */
static bool split_width(parser *p, unsigned width, unsigned *part) {
  lexer ahead = p->l;
  unsigned count = 1;
  for (; p->l.now.kind != TOKEN_END && !token_sign(&p->l.now, '}'); lexer_next(&p->l))
    count += token_sign(&p->l.now, ',');
  p->l = ahead;
  unsigned shift = count == 4 ? 2 : 1;
  if ((count != 2 && count != 4) || width < 1 + shift) return parse_error(p, "a list of %u elements in mov", count);
  *part = width - shift;
  return true;
}

/* mov d, {a, b}: the elements must have a half or a quarter of the bits. */
static bool parse_pack(parser *p, ptx_instruction *i, unsigned width) {
  unsigned count, part;
  if (!split_width(p, width, &part) || !parse_list(p, T_U16, part, false, true, &i->x[1], &count)) return false;
  i->code = CODE(OP_PACK, i->code % 16);
  i->vector = (uint8_t)count;
  return true;
}

/* mov {a, b}, s. */
static bool parse_unpack(parser *p, ptx_instruction *i, unsigned width) {
  unsigned count, part;
  if (!split_width(p, width, &part) || !parse_list(p, T_U16, part, false, false, i->x, &count)) return false;
  if (!parse_expect(p, ',') || !parse_source(p, T_U64, width, false, &i->x[4])) return false;
  i->code = CODE(OP_UNPACK, i->code % 16);
  i->group = G_EXCHANGE;
  i->vector = (uint8_t)count;
  return true;
}

static bool parse_move_source(parser *p, ptx_instruction *i, ptx_type type, unsigned width, ptx_operand *out) {
  if (token_sign(&p->l.now, '{')) return parse_pack(p, i, width);
  symbol *s = find_variable(p);
  if (!s) return parse_source(p, type, width, false, out);
  if (width < 2) return parse_error(p, "an address does not fit in this type");
  return parse_variable_address(p, s, width, out);
}

static symbol *label_of(parser *p, const token *t) {
  symbol *s = symbol_find(&p->labels, t->text, t->length, false);
  if (s) return s;
  s = symbol_add(&p->labels, t->text, t->length);
  if (s) {
    s->kind = SYMBOL_LABEL;
    s->index = UINT32_MAX;
  }
  return s;
}

bool parse_label_reference(parser *p, uint32_t where, bool in_targets) {
  token t = p->l.now;
  if (t.kind != TOKEN_WORD) return parse_error(p, "expected a label");
  symbol *s = label_of(p, &t);
  if (!s || !parse_grow(p, &p->fixups, p->fixup_count, &p->fixup_capacity, sizeof *p->fixups)) return false;
  p->fixups[p->fixup_count++] = (fixup){(uint32_t)(s - p->labels.entries), where, in_targets};
  lexer_next(&p->l);
  return true;
}

bool parse_label_definition(parser *p, const token *name, uint32_t value, bool list) {
  symbol *s = label_of(p, name);
  if (!s) return parse_error(p, "no memory");
  if (s->index != UINT32_MAX) return parse_error(p, "label %.*s is defined twice", (int)name->length, name->text);
  s->index = value;
  s->count = list;
  return true;
}

/* Parses the operand that `letter` describes; *next is the slot of the next source. */
static bool parse_operand(parser *p, ptx_instruction *i, char letter, unsigned *next) {
  ptx_type type = (ptx_type)(i->code % 16), second = (ptx_type)i->second;
  unsigned width = width_of(ptx_bytes(type)), other = width_of(ptx_bytes(second));
  unsigned slot = *next;
  switch (letter) {
    case 'd':
      if (i->code / 16 == OP_MOV && token_sign(&p->l.now, '{')) return parse_unpack(p, i, width);
      return parse_register(p, width, false, &i->x[0]);
    case 'e':
      return parse_register(p, other, false, &i->x[0]);
    case 'D':
      return parse_register(p, width + 1, false, &i->x[0]);
    case 'U':
      return parse_register(p, 2, false, &i->x[0]);
    case 'Y':
      return parse_register(p, width, true, &i->x[0]);
    case 'P':
      return parse_sink(p, WIDTH_PREDICATE, false, &i->x[0]);
    case 'Q':
      return !parse_accept(p, '|') || parse_sink(p, WIDTH_PREDICATE, false, &i->x[5]);
    case 'A':
      return parse_address(p, i);
    case 'V':
      return parse_vector(p, i, type, width, false);
    case 'v':
      return parse_vector(p, i, type, width, true);
    case 'L':
      return parse_label_reference(p, p->f->instructions, false);
    case 'T':
      return parse_label_reference(p, p->f->instructions, false);
    default:
      break;
  }
  (*next)++;
  if (slot >= PTX_OPERANDS) return parse_error(p, "too many operands");
  switch (letter) {
    case 'a':
    case 'c':
      return parse_source(p, type, width, false, &i->x[slot]);
    case 'b':
      return parse_source(p, second, other, false, &i->x[slot]);
    case 'W':
      return parse_source(p, T_U64, width + 1, false, &i->x[slot]);
    case 'X':
      return parse_source(p, second, other, true, &i->x[slot]);
    case 'u':
    case 'o':
      return parse_source(p, T_U32, 2, false, &i->x[slot]);
    case 'p':
    case 'q':
      return parse_predicate(p, &i->x[slot]);
    case 'm':
      return parse_move_source(p, i, type, width, &i->x[slot]);
    default:
      return parse_error(p, "unknown operand");
  }
}

static bool optional(char letter) { return letter == 'o' || letter == 'q' || letter == 'c'; }

static bool parse_operands(parser *p, ptx_instruction *i, const char *signature) {
  unsigned next = i->group == G_MEMORY ? 6 : 1;
  for (const char *letter = signature; *letter; letter++) {
    if (optional(*letter) && token_sign(&p->l.now, ';')) break;
    if (letter != signature && *letter != 'Q' && !parse_expect(p, ',')) return false;
    if (!parse_operand(p, i, *letter, &next)) return false;
    if (i->code / 16 == OP_UNPACK) break;
  }
  if (i->group < G_ROWS)
    for (unsigned slot = 1; slot < 5; slot++)
      if (i->x[slot]) i->sources = (uint8_t)slot;
  if (i->mode == MODE_CAS && i->code / 16 == OP_ATOM && !i->x[7]) return parse_error(p, "atom.cas needs four operands");
  return true;
}

static const ptx_opcode *find_opcode(parser *p, const token *text) {
  uint32_t h = 5381;
  for (size_t i = 0; i < text->length; i++) h = h * 33 + (unsigned char)text->text[i];
  size_t slot = h % OPCODE_CACHE;
  if (p->cache[slot].text && p->cache[slot].length == text->length &&
      memcmp(p->cache[slot].text, text->text, text->length) == 0)
    return &p->cache[slot].opcode;
  char message[PTX_MESSAGE];
  if (!ptx_opcode_find(text->text, text->length, &p->cache[slot].opcode, message)) {
    p->cache[slot].text = NULL;
    parse_error(p, "%s", message);
    return NULL;
  }
  p->cache[slot].text = text->text;
  p->cache[slot].length = text->length;
  return &p->cache[slot].opcode;
}

bool parse_instruction(parser *p) {
  ptx_operand guard = 0;
  uint32_t line = p->l.now.line;
  if (parse_accept(p, '@') && !parse_predicate(p, &guard)) return false;
  if (p->l.now.kind != TOKEN_WORD) return parse_error(p, "expected an instruction");
  token text = lexer_opcode(&p->l);
  const ptx_opcode *opcode = find_opcode(p, &text);
  if (!opcode) return false;
  if (!parse_grow(p, &p->f->code, p->f->instructions, &p->instruction_capacity, sizeof *p->f->code)) return false;
  ptx_instruction i = opcode->prototype;
  i.line = line;
  i.guard = guard;
  if (!parse_operands(p, &i, opcode->signature)) return false;
  if (!token_sign(&p->l.now, ';'))
    return parse_error(p, "%.*s: expected ; after its operands", (int)text.length, text.text);
  lexer_next(&p->l);
  p->f->code[p->f->instructions++] = i;
  return true;
}
