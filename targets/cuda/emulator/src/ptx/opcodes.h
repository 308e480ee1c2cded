/* From the text of an opcode to a prototype of its instruction and what its operands are. */
#ifndef EMU_PTX_OPCODES_H
#define EMU_PTX_OPCODES_H

#include <stdbool.h>
#include <stddef.h>

#include "ptx/program.h"

/* `signature` has a letter for each operand:
 *   d a  destination and source of the type        e b  of the second type        D W  of twice the type's width
 *   U u  32-bit destination and source             o    optional 32-bit source    P p  predicates ("!" before a source)
 *   Q    optional "|predicate" after a destination q    optional predicate source
 *   A    address in brackets                       V v  one register, or as many as the vector has, in braces
 *   L T  label of an instruction, of a list of targets                            m    source of mov, also a variable
 *   X Y  source and destination of cvt, ld and st: registers may be wider than the type */
typedef struct ptx_opcode {
  ptx_instruction prototype;
  const char *signature;
} ptx_opcode;

enum { PTX_MESSAGE = 160 };

/* False, with a message, for an opcode or suffix that is not known. */
bool ptx_opcode_find(const char *text, size_t length, ptx_opcode *opcode, char message[PTX_MESSAGE]);

/* The type of a directive such as ".f32"; T_NONE if it is none. */
ptx_type ptx_type_find(const char *text, size_t length);

/* Whether the instruction writes operand x[slot]. */
bool ptx_writes(const ptx_instruction *instruction, unsigned slot);

#endif
