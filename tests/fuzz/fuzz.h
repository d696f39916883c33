/*
 * A fuzzed target: one function, which libFuzzer calls with what it thinks of (`make fuzz`), and replay.c
 * with the files of a corpus (`make check`). Whatever is wrong aborts: LK_CHECK, or a sanitizer.
 */
#ifndef LK_TESTS_FUZZ_H
#define LK_TESTS_FUZZ_H

#include "base/mem.h"
#include "base/status.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Takes the input apart, from its front; what is no longer there is 0. */
struct lk_fuzz_input {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t lk_fuzz_byte(struct lk_fuzz_input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

/* A copy of exactly its size, so that a sanitizer sees a byte too many; the caller frees. */
static inline uint8_t *lk_fuzz_copy(const uint8_t *data, size_t n)
{
    uint8_t *copy = lk_alloc(n);
    if (n > 0)
        memcpy(copy, data, n);
    return copy;
}

/* @data as valid UTF-8: what is none becomes U+FFFD. The caller frees; exactly its size again. */
static inline uint8_t *lk_fuzz_text(const uint8_t *data, size_t n, size_t *ret_n)
{
    struct lk_buf text = {0};

    for (size_t at = 0, step; at < n; at += step) {
        bool valid = false;
        step = lk_utf8_step(data + at, n - at, &valid);
        if (valid)
            lk_buf_put(&text, data + at, step);
        else
            lk_buf_puts(&text, "\xef\xbf\xbd");
    }
    uint8_t *exact = lk_fuzz_copy(text.data, text.len);
    *ret_n = text.len;
    lk_buf_done(&text);
    return exact;
}

#endif
