/* The state of the parser, shared by its parts. */
#ifndef EMU_PTX_PARSER_H
#define EMU_PTX_PARSER_H

#include "base/result.h"
#include "ptx/lexer.h"
#include "ptx/opcodes.h"
#include "ptx/program.h"
#include "ptx/symbols.h"

enum { OPCODE_CACHE = 512 };

typedef struct fixup {
  uint32_t symbol, place; /* of labels; instruction, or entry of the targets */
  bool in_targets;
} fixup;

typedef struct parser {
  lexer l;
  ptx_program *program;
  symbol_table names, labels;
  CUresult result;
  char message[512];
  struct {
    const char *text;
    size_t length;
    ptx_opcode opcode;
  } cache[OPCODE_CACHE];
  /* The function in progress. */
  ptx_function *f;
  uint32_t owner; /* its number, from 1 */
  uint32_t instruction_capacity, constant_capacity, target_capacity, fixup_capacity, dynamic_capacity, widths_capacity;
  uint8_t *widths; /* of virtual registers */
  uint32_t virtual_count;
  fixup *fixups;
  uint32_t fixup_count;
  uint32_t *dynamic; /* constants to which the size of the static shared memory must be added */
  uint32_t dynamic_count;
} parser;

/* Notes the first error, with its line; returns false. */
bool parse_error(parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Room for one more element of `size` in *array of `count`. */
bool parse_grow(parser *p, void *array, uint32_t count, uint32_t *capacity, size_t size);

bool parse_expect(parser *p, char sign);
bool parse_accept(parser *p, char sign);
/* An integer, perhaps with "-" before. */
bool parse_integer(parser *p, uint64_t *value);

/* After a directive of a space such as .shared: the declarations up to ";". */
bool parse_variables(parser *p, ptx_space space, bool external);

/* Where the variable is, in its space; shared ones of the module get their place in the function now. */
bool parse_place(parser *p, symbol *variable, uint64_t *address);

/* The label that the current token names: to be resolved into the instruction, or entry of the targets, `where`. */
bool parse_label_reference(parser *p, uint32_t where, bool in_targets);
/* The label is the instruction, or list of targets, `value`. */
bool parse_label_definition(parser *p, const token *name, uint32_t value, bool list);

/* One instruction with its guard, up to ";". */
bool parse_instruction(parser *p);

/* Index of a new constant of the function. */
bool parse_constant(parser *p, uint64_t value, uint32_t *index);

/* The module of a text; on failure the message is what parse_error noted. *program is to be given to ptx_program_free in
 * any case. */
CUresult ptx_parse(const char *text, size_t length, ptx_program *program, char message[512]);

void ptx_program_free(ptx_program *program);

/* Assigns rows to the virtual registers, so that those that never live at the same time share one. */
bool ptx_assign_registers(ptx_function *f, const uint8_t *widths, uint32_t count);

#endif
