/* Tokens of PTX text. */
#ifndef EMU_PTX_LEXER_H
#define EMU_PTX_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum token_kind {
  TOKEN_END,
  TOKEN_WORD,      /* an identifier, %r1 included */
  TOKEN_DIRECTIVE, /* .reg, .f32: the text includes the point */
  TOKEN_INTEGER,
  TOKEN_FLOAT32, /* 0f3f800000: value has the bits */
  TOKEN_FLOAT64, /* 0d..., or 1.5 */
  TOKEN_STRING,
  TOKEN_SIGN, /* one character */
  TOKEN_BAD,
} token_kind;

typedef struct token {
  token_kind kind;
  uint32_t line;
  const char *text;
  size_t length;
  uint64_t value;
} token;

typedef struct lexer {
  const char *at, *end;
  uint32_t line;
  token now; /* the current token */
} lexer;

/* Begins with the first token. */
void lexer_start(lexer *l, const char *text, size_t length);

void lexer_next(lexer *l);

/* If the current token is a word: the whole opcode with its points, such as "ld.global.nc.f32"; moves beyond it. */
token lexer_opcode(lexer *l);

/* Moves to the token after the end of this line. */
void lexer_skip_line(lexer *l);

bool token_is(const token *t, const char *text);

static inline bool token_sign(const token *t, char sign) { return t->kind == TOKEN_SIGN && t->text[0] == sign; }

#endif
