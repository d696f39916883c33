/*
 * bench_pretok [--passes N] FILE...: speed of finding pieces, one thread.
 *
 * Every family by every kind of code that this processor can run, over the documents of the FILEs
 * (documents.h), the median of N passes (5). The kinds take turns, so that a noisy machine is noisy to
 * all of them. The sum tells whether they found the same pieces.
 */
#include "op/pretok/families.h"
#include "tests/bench/documents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PASSES_MAX 99

static const struct {
    const char *name;
    lk_cut_fn *(*family)(enum lk_simd simd);
} families[] = {
    {"gpt2", lk_cut_gpt2}, {"cl100k", lk_cut_cl100k}, {"qwen", lk_cut_qwen},
    {"o200k", lk_cut_o200k}, {"tekken", lk_cut_tekken}, {"deepseek", lk_cut_deepseek},
};

struct kind {
    struct lk_cutter cutter;
    size_t pieces;
    uint64_t sum;
    double seconds[PASSES_MAX];
};

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void cut_document(struct kind *kind, const uint8_t *p, const uint8_t *end, bool sum)
{
    const uint8_t *stops[LK_PIECES_MAX];

    for (const uint8_t *text = p; p < end;) {
        size_t n = kind->cutter.cut(&kind->cutter, p, end, stops);
        for (size_t i = 0; sum && i < n; i++)
            kind->sum = kind->sum * 31 + (uint64_t)(stops[i] - text);
        kind->pieces += n;
        p = stops[n - 1];
    }
}

static double pass(struct kind *kind, const struct lk_test_documents *docs, bool sum)
{
    double start = now();

    kind->pieces = 0;
    kind->sum = 0;
    for (size_t i = 0, at = 0; i < docs->n; at = docs->ends[i++])
        if (docs->ends[i] > at)
            cut_document(kind, docs->text.data + at, docs->text.data + docs->ends[i], sum);
    return now() - start;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(size_t family, const struct lk_unicode *unicode,
                    const struct lk_test_documents *docs, size_t passes)
{
    static const char *const names[] = {"scalar", "avx2", "avx512"};
    static struct kind kinds[LK_SIMD_BEST + 1];
    enum lk_simd best = lk_simd_here();

    for (enum lk_simd simd = 0; simd <= best; simd++)
        kinds[simd].cutter = (struct lk_cutter){.cut = families[family].family(simd), .unicode = unicode};
    for (size_t i = 0; i < passes; i++)
        for (enum lk_simd simd = 0; simd <= best; simd++)
            kinds[simd].seconds[i] = pass(&kinds[simd], docs, false);
    for (enum lk_simd simd = 0; simd <= best; simd++) {
        struct kind *kind = &kinds[simd];
        (void)pass(kind, docs, true); /* makes the sum; not timed, it costs as much as the rest */
        qsort(kind->seconds, passes, sizeof *kind->seconds, by_size);
        double seconds = kind->seconds[passes / 2];
        printf("%-8s %-7s %7.1f MB/s %6.2f ns a piece %10zu pieces  %016llx\n", families[family].name,
               names[simd], (double)docs->text.len / 1e6 / seconds, seconds * 1e9 / (double)kind->pieces,
               kind->pieces, (unsigned long long)kind->sum);
    }
}

int main(int argc, char **argv)
{
    struct lk_test_documents docs = {0};
    struct lk_unicode unicode;
    size_t passes = 5;
    int i = 1;
    bool ok = true;

    if (argc > 2 && strcmp(argv[1], "--passes") == 0) {
        passes = strtoul(argv[2], NULL, 10);
        i = 3;
    }
    if (i >= argc || passes < 1 || passes > PASSES_MAX) {
        fprintf(stderr, "usage: bench_pretok [--passes 1..%d] FILE...\n", PASSES_MAX);
        return 2;
    }
    for (; ok && i < argc; i++)
        ok = lk_test_documents_read(&docs, "bench_pretok", argv[i]);
    lk_unicode_init(&unicode);
    for (size_t family = 0; ok && docs.text.len > 0 && family < sizeof families / sizeof *families; family++)
        measure(family, &unicode, &docs, passes);
    lk_unicode_done(&unicode);
    lk_test_documents_done(&docs);
    return ok ? 0 : 1;
}
