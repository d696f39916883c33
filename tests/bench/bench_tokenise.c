/*
 * bench_tokenise DIRECTORY FILE...: speed of tokenising, one thread.
 *
 * Cold: a new encoder, the files once. Warm: the same encoder again, best of nine. Documents are cut
 * at 64 KiB, at a line's end.
 */
#include "tests/lib/tokenizer_files.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DOCUMENT 65536u
#define PASSES 9

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static size_t document(const uint8_t *p, size_t left)
{
    if (left <= DOCUMENT)
        return left;
    const uint8_t *line = memrchr(p, '\n', DOCUMENT);
    if (line != NULL)
        return (size_t)(line - p) + 1;
    size_t n = DOCUMENT;
    while ((p[n] & 0xc0) == 0x80)
        n--;
    return n;
}

/* One pass; returns the seconds, sets the number of tokens. */
static double pass(struct lk_encoder *encoder, const struct lk_buf *text, size_t *ret_tokens)
{
    struct lk_tokens ids = {0};
    double start = now();

    *ret_tokens = 0;
    for (size_t at = 0, n; at < text->len; at += n) {
        n = document(text->data + at, text->len - at);
        ids.n = 0;
        lk_encode(encoder, text->data + at, n, &ids);
        *ret_tokens += ids.n;
    }
    double seconds = now() - start;
    lk_tokens_done(&ids);
    return seconds;
}

static void report(const char *name, const struct lk_tokenizer *tokenizer,
                   const struct lk_buf *text, double load)
{
    size_t tokens = 0;
    struct lk_encoder *encoder = lk_encoder_new(tokenizer);
    double cold = pass(encoder, text, &tokens), warm = 1e9;

    for (int i = 0; i < PASSES; i++) {
        double seconds = pass(encoder, text, &tokens);
        warm = seconds < warm ? seconds : warm;
    }
    double mb = (double)text->len / 1e6;
    printf("%-24s %7.1f MB %9zu tokens  load %4.0f ms  cold %6.1f MB/s  warm %6.1f MB/s  "
           "%5.1f Mtokens/s\n",
           name, mb, tokens, load * 1e3, mb / cold, mb / warm, (double)tokens / warm / 1e6);
    lk_encoder_free(encoder);
}

int main(int argc, char **argv)
{
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_err err;
    struct lk_buf text = {0};

    if (argc < 3) {
        fprintf(stderr, "usage: bench_tokenise DIRECTORY FILE...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        size_t n = 0;
        uint8_t *data = lk_test_read("", argv[i], &n);
        if (data == NULL || lk_utf8_valid_prefix(data, n) != n) {
            fprintf(stderr, "bench_tokenise: %s: not readable as UTF-8\n", argv[i]);
            return 1;
        }
        lk_buf_put(&text, data, n);
        free(data);
    }
    double start = now();
    if (lk_test_tokenizer(argv[1], LK_SPECIAL_SPLIT, &tokenizer, &err) != LK_OK) {
        fprintf(stderr, "bench_tokenise: %s\n", err.text);
        return 1;
    }
    report(argv[1], tokenizer, &text, now() - start);
    lk_tokenizer_free(tokenizer);
    lk_buf_done(&text);
    return 0;
}
