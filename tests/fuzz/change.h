/* The parts of mutate.c: changes to the decoded metadata, and the file that is made of it. */
#ifndef EDGERT_FUZZ_CHANGE_H
#define EDGERT_FUZZ_CHANGE_H

#include "mutate.h"

enum { SITES = 4096, MOST_SEGMENTS = 8 };

/* Fields that may be changed. */
typedef struct sites {
  node *at[SITES];
  uint32_t count;
} sites;

/* What becomes of a piece of a segment. */
typedef struct patch {
  const uint8_t *bytes;
  uint32_t segment;
  size_t at, count; /* count 0: nothing is changed */
} patch;

bool one_in(dice *d, uint64_t n);

/* ---- change_field.c ---- */

/* Adds the fields of a table and of all tables below it; those that are for people only seldom. */
void collect(sites *s, node *table, dice *d);
node *pick(const sites *s, dice *d);

void set_scalar(node *field, uint64_t x);
uint64_t element(const node *field, uint32_t i);
void set_element(node *field, uint32_t i, uint64_t x);
/* False if there is no room. */
bool resize(pool *from, node *field, uint32_t count);

/* Another value for a field, maybe that of an alike one of `s`, or of `donor`. */
void change_field(node *field, const sites *s, const sites *donor, dice *d, pool *work);
/* Every number in shapes and attributes that equals a random extent becomes another one: shapes stay consistent. */
void change_extent(const sites *s, dice *d);
/* The element type or layout of all tensors that have a certain one. */
void change_type(const sites *s, dice *d);

/* ---- change_program.c ---- */

/* Lets a step work on views: of every operand, or of some, that has a certain extent along a certain dimension. */
void cut_operands(node *root, dice *d, pool *work);
/* Deals the steps to some cores and phases. */
void deal_out(node *root, dice *d);
/* Gives views what they have of their roots. */
void follow_roots(node *root, pool *work);
/* Moves inputs, outputs and constants into the arena, where they overlap as they please. */
void move_to_arena(node *root, dice *d);

/* ---- change_code.c ---- */

/* Gives a module PTX of its own: its text with some changes, as stored blocks behind all else in its segment. */
patch change_code(node *root, const edgert_bundle *seed, const edgert_bundle *donor, size_t *lengths, dice *d,
                  pool *work);

/* ---- assemble.c ---- */

/* Makes room: arena and segments become as large as the tensors in them ask for, if that is not too much. */
void make_room(node *root, size_t *lengths, uint32_t segments);
/* Encodes metadata with segments of the given lengths, filled from the seed's and the patch. */
mutant assemble(node *root, const edgert_bundle *seed, const size_t *lengths, const patch *code, dice *d, pool *work);

#endif
