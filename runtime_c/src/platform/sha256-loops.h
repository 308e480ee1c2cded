/* The loops over blocks of one message and of two: the end of a file that has defined `words` (four words in a register),
 * `add`, `stream` (state[2] and w[4], both words), `load_state`, `store_state` and `rounds`. */

static void one(uint32_t state[8], const uint8_t *data, size_t blocks) {
  stream s = load_state(state);
  for (; blocks > 0; blocks--, data += 64) {
    const words first = s.state[0], second = s.state[1];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) rounds(&s, data, i);
    s.state[0] = add(s.state[0], first);
    s.state[1] = add(s.state[1], second);
  }
  store_state(&s, state);
}

/* Both at once: the rounds of one wait for each other, those of two do not. */
static void two(uint32_t state_a[8], const uint8_t *a, uint32_t state_b[8], const uint8_t *b, size_t blocks) {
  stream s = load_state(state_a), t = load_state(state_b);
  for (; blocks > 0; blocks--, a += 64, b += 64) {
    const words s_first = s.state[0], s_second = s.state[1], t_first = t.state[0], t_second = t.state[1];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
      rounds(&s, a, i);
      rounds(&t, b, i);
    }
    s.state[0] = add(s.state[0], s_first);
    s.state[1] = add(s.state[1], s_second);
    t.state[0] = add(t.state[0], t_first);
    t.state[1] = add(t.state[1], t_second);
  }
  store_state(&s, state_a);
  store_state(&t, state_b);
}

void ert_sha256_compress_native(uint32_t state_a[8], const uint8_t *a, uint32_t state_b[8], const uint8_t *b,
                                size_t blocks) {
  if (b) {
    two(state_a, a, state_b, b, blocks);
  } else {
    one(state_a, a, blocks);
  }
}
