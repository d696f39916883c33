/*
 * bench_runs DIRECTORY FILE...: what tokenises slowest, one thread. Prints one JSON object.
 *
 * Of the documents of the FILEs (documents.h), in a cold pass: the slowest one of at least 4 kB, in
 * bytes per second. Then runs of a megabyte that have been somebody's worst case, each with an encoder that
 * has seen nothing. Time is the thread's own, and the best of three such passes for each text: one alone
 * finds the document that a guest's processor was taken away from.
 */
#include "tests/bench/documents.h"
#include "tests/lib/tokenizer_files.h"

#include <stdlib.h>
#include <time.h>

#define LEAST 4096u
#define PASSES 3
#define RUN 1000000u

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double bytes_per_s(struct lk_encoder *encoder, struct lk_tokens *ids, const uint8_t *text, size_t n)
{
    double start = now();

    ids->n = 0;
    lk_encode(encoder, text, n, ids);
    return (double)n / (now() - start);
}

/* One cold pass; @best: each document's, so far. */
static void pass(const struct lk_tokenizer *tokenizer, const struct lk_test_documents *docs, double *best)
{
    struct lk_encoder *encoder = lk_encoder_new(tokenizer);
    struct lk_tokens ids = {0};

    for (size_t i = 0, at = 0; i < docs->n; at = docs->ends[i++]) {
        double speed = bytes_per_s(encoder, &ids, docs->text.data + at, docs->ends[i] - at);
        best[i] = speed > best[i] ? speed : best[i];
    }
    lk_tokens_done(&ids);
    lk_encoder_free(encoder);
}

static void documents(const struct lk_tokenizer *tokenizer, const struct lk_test_documents *docs)
{
    double *best = lk_zalloc(docs->n + 1, sizeof *best), worst = 1e18;
    size_t number = 0, size = 0;

    for (int i = 0; i < PASSES; i++)
        pass(tokenizer, docs, best);
    for (size_t i = 0, at = 0; i < docs->n; at = docs->ends[i++])
        if (docs->ends[i] - at >= LEAST && best[i] < worst) {
            worst = best[i];
            number = i;
            size = docs->ends[i] - at;
        }
    printf("{\"worst_document\":%.0f,\"worst_number\":%zu,\"worst_bytes\":%zu,\"runs\":{", worst, number, size);
    free(best);
}

static double run_speed(const struct lk_tokenizer *tokenizer, const uint8_t *text, size_t n)
{
    double best = 0;

    for (int i = 0; i < PASSES; i++) {
        struct lk_encoder *encoder = lk_encoder_new(tokenizer);
        struct lk_tokens ids = {0};
        double speed = bytes_per_s(encoder, &ids, text, n);
        best = speed > best ? speed : best;
        lk_tokens_done(&ids);
        lk_encoder_free(encoder);
    }
    return best;
}

/* @unit again and again; NULL: letters by chance, of the alphabet's first @letters. */
static uint8_t *make(const char *unit, unsigned letters)
{
    uint8_t *text = lk_alloc(RUN);
    uint64_t state = 88172645463325252u;
    size_t n = unit == NULL ? 0 : strlen(unit);

    for (size_t i = 0; i < RUN; i++) {
        state ^= state << 13; /* xorshift (Marsaglia 2003) */
        state ^= state >> 7;
        state ^= state << 17;
        text[i] = unit == NULL ? (uint8_t)('a' + state % letters) : (uint8_t)unit[i % n];
    }
    return text;
}

static void runs(const struct lk_tokenizer *tokenizer)
{
    static const struct {
        const char *name, *unit;
        unsigned letters;
    } kinds[] = {
        {"letter", "a", 0},         {"spaces", " ", 0},       {"line_ends", "\n", 0},
        {"circumflexes", "^", 0},   {"digits", "0", 0},       {"ideographs", "\xe4\xb8\xad", 0},
        {"hyphens_and_equals", "-=", 0}, {"random_letters", NULL, 26}, {"random_ab", NULL, 2},
        {"accents", "\xcc\x81\xcc\xa7", 0},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        uint8_t *text = make(kinds[i].unit, kinds[i].letters);
        size_t n = kinds[i].unit == NULL ? RUN : RUN / strlen(kinds[i].unit) * strlen(kinds[i].unit);
        printf("%s\"%s\":%.0f", i > 0 ? "," : "", kinds[i].name, run_speed(tokenizer, text, n));
        free(text);
    }
    puts("}}");
}

int main(int argc, char **argv)
{
    struct lk_test_documents docs = {0};
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_err err;
    bool ok = argc > 2;

    if (!ok)
        fprintf(stderr, "usage: bench_runs DIRECTORY FILE...\n");
    for (int i = 2; ok && i < argc; i++)
        ok = lk_test_documents_read(&docs, "bench_runs", argv[i]);
    if (ok && lk_test_tokenizer(argv[1], LK_SPECIAL_SPLIT, &tokenizer, &err) != LK_OK) {
        fprintf(stderr, "bench_runs: %s\n", err.text);
        ok = false;
    }
    if (ok) {
        documents(tokenizer, &docs);
        runs(tokenizer);
    }
    lk_tokenizer_free(tokenizer);
    lk_test_documents_done(&docs);
    return ok ? 0 : 1;
}
