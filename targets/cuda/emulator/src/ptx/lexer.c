/* Cuts PTX into tokens; no allocation, tokens point into the text. */
#include "ptx/lexer.h"

#include <stdlib.h>
#include <string.h>

static bool starts_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

static bool digit(char c) { return c >= '0' && c <= '9'; }

static bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || digit(c) || c == '_' || c == '$';
}

static void skip_blank(lexer *l) {
  for (; l->at < l->end; l->at++) {
    char c = *l->at;
    if (c == '\n') l->line++;
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\0') continue;
    if (c != '/' || l->end - l->at < 2) return;
    if (l->at[1] == '/') {
      while (l->at + 1 < l->end && l->at[1] != '\n') l->at++;
    } else if (l->at[1] == '*') {
      for (l->at += 2; l->at + 1 < l->end && !(l->at[0] == '*' && l->at[1] == '/'); l->at++)
        if (*l->at == '\n') l->line++;
      if (l->at + 1 < l->end) l->at++;
    } else {
      return;
    }
  }
}

static int hex(char c) {
  if (digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

/* Digits of a base from `at`; the value wraps at 64 bits. */
static const char *digits(const lexer *l, const char *at, int base, uint64_t *value) {
  *value = 0;
  for (; at < l->end && hex(*at) < base; at++) *value = *value * (uint64_t)base + (uint64_t)hex(*at);
  return at;
}

static void lex_decimal_float(lexer *l, token *t) {
  char copy[64];
  size_t n = (size_t)(l->end - l->at) < sizeof copy - 1 ? (size_t)(l->end - l->at) : sizeof copy - 1;
  memcpy(copy, l->at, n);
  copy[n] = '\0';
  char *end;
  double value = strtod(copy, &end);
  memcpy(&t->value, &value, sizeof value);
  t->kind = TOKEN_FLOAT64;
  l->at += end - copy;
}

static void lex_number(lexer *l, token *t) {
  char next = l->end - l->at > 1 ? l->at[1] : ' ';
  t->kind = TOKEN_INTEGER;
  if (*l->at == '0' && (next == 'f' || next == 'F' || next == 'd' || next == 'D')) {
    bool single = next == 'f' || next == 'F';
    t->kind = single ? TOKEN_FLOAT32 : TOKEN_FLOAT64;
    const char *begin = l->at + 2;
    l->at = digits(l, begin, 16, &t->value);
    if (l->at - begin != (single ? 8 : 16)) t->kind = TOKEN_BAD;
    return;
  }
  if (*l->at == '0' && (next == 'x' || next == 'X')) {
    l->at = digits(l, l->at + 2, 16, &t->value);
  } else if (*l->at == '0' && (next == 'b' || next == 'B')) {
    l->at = digits(l, l->at + 2, 2, &t->value);
  } else {
    const char *end = digits(l, l->at, 10, &t->value);
    bool point = end + 1 < l->end && *end == '.' && digit(end[1]);
    if (point || (end < l->end && (*end == 'e' || *end == 'E'))) {
      lex_decimal_float(l, t);
      return;
    }
    if (*l->at == '0') digits(l, l->at, 8, &t->value);
    l->at = end;
  }
  if (l->at < l->end && *l->at == 'U') l->at++;
}

static void lex_string(lexer *l, token *t) {
  t->kind = TOKEN_STRING;
  for (l->at++; l->at < l->end && *l->at != '"' && *l->at != '\n'; l->at++) continue;
  if (l->at >= l->end || *l->at != '"')
    t->kind = TOKEN_BAD;
  else
    l->at++;
}

void lexer_next(lexer *l) {
  skip_blank(l);
  token *t = &l->now;
  *t = (token){TOKEN_END, l->line, l->at, 0, 0};
  if (l->at >= l->end) return;
  char c = *l->at;
  char next = l->end - l->at > 1 ? l->at[1] : ' ';
  if (starts_word(c)) {
    t->kind = TOKEN_WORD;
    for (l->at++; l->at < l->end && in_word(*l->at); l->at++) continue;
  } else if (c == '.' && starts_word(next)) {
    t->kind = TOKEN_DIRECTIVE;
    for (l->at++; l->at < l->end; l->at++) {
      if (in_word(*l->at)) continue;
      if (*l->at == ':' && l->end - l->at > 2 && l->at[1] == ':' && in_word(l->at[2])) {
        l->at++;
        continue;
      }
      break;
    }
  } else if (digit(c)) {
    lex_number(l, t);
  } else if (c == '"') {
    lex_string(l, t);
  } else {
    t->kind = TOKEN_SIGN;
    l->at++;
  }
  t->length = (size_t)(l->at - t->text);
}

token lexer_opcode(lexer *l) {
  token opcode = l->now;
  while (l->at < l->end && *l->at == '.') {
    lexer_next(l);
    if (l->now.kind != TOKEN_DIRECTIVE) break;
  }
  opcode.length = (size_t)(l->at - opcode.text);
  lexer_next(l);
  return opcode;
}

void lexer_skip_line(lexer *l) {
  uint32_t line = l->now.line;
  while (l->now.kind != TOKEN_END && l->now.line == line) lexer_next(l);
}

bool token_is(const token *t, const char *text) {
  return strlen(text) == t->length && memcmp(t->text, text, t->length) == 0;
}

void lexer_start(lexer *l, const char *text, size_t length) {
  *l = (lexer){text, text + length, 1, {0}};
  lexer_next(l);
}
