/*
 * Where text is cut: every known expression by every kind of code that this processor can run, against
 * the scalar one; that one against the engine for any expression, which knows nothing of it; and, whatever
 * the code, pieces that make up the text and do not depend on where cutting was taken up.
 *
 * Input: a byte that chooses the expression, a byte that says how the text is repeated, the text.
 */
#include "op/pretok/regex.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>

#define UPPER "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define SHORT "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define ENDS "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char *const known[][3] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" ENDS},
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}|"
     " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" ENDS},
    {UPPER "*" LOWER "+" SHORT "|" UPPER "+" LOWER "*" SHORT
           "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" ENDS},
    {UPPER "*" LOWER "+|" UPPER "+" LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" ENDS},
    /* DeepSeek V3 */
    {"\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
     "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
     " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"},
    /* BLOOM */
    {" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"},
};

enum { KNOWN = sizeof known / sizeof *known, TEXT_MAX = 1 << 13, ENGINE_MAX = 1 << 11 };

struct ends {
    size_t *at;
    size_t n, cap;
};

/* All the pieces from @from on. */
static void cut(const struct lk_cutter *cutter, const uint8_t *text, size_t from, size_t n,
                struct ends *ends)
{
    const uint8_t *stops[LK_PIECES_MAX], *end = text + n;

    for (const uint8_t *p = text + from; p < end;) {
        size_t found = cutter->cut(cutter, p, end, stops);
        LK_CHECK(found > 0 && found <= LK_PIECES_MAX);
        for (size_t i = 0; i < found; p = stops[i++]) {
            LK_CHECK(stops[i] > p && stops[i] <= end);
            if (ends->n == ends->cap) {
                ends->cap = ends->cap * 2 + 64;
                ends->at = lk_resize(ends->at, ends->cap, sizeof *ends->at);
            }
            ends->at[ends->n++] = (size_t)(stops[i] - text);
        }
    }
}

static void check_same(const struct ends *want, size_t skip, const struct ends *got, size_t which,
                       enum lk_simd simd)
{
    size_t i = 0;

    while (i < got->n && skip + i < want->n && got->at[i] == want->at[skip + i])
        i++;
    if (i == got->n && skip + i == want->n)
        return;
    fprintf(stderr, "fuzz_pretok: expression %zu, simd %d, from piece %zu: piece %zu differs\n", which,
            (int)simd, skip, i);
    abort();
}

/* By the engine: each expression cuts the pieces of the one before. */
static void cut_by_engine(const struct lk_cutter *cutters, size_t stages, const uint8_t *text, size_t from,
                          size_t n, struct ends *ends)
{
    struct ends outer = {0};

    if (stages == 1) {
        cut(&cutters[0], text, from, n, ends);
        return;
    }
    cut(&cutters[0], text, from, n, &outer);
    for (size_t i = 0, start = from; i < outer.n; start = outer.at[i++])
        cut_by_engine(cutters + 1, stages - 1, text, start, outer.at[i], ends);
    free(outer.at);
}

static void check_engine(size_t which, const struct lk_unicode *unicode, const uint8_t *text, size_t n,
                         const struct ends *want)
{
    struct lk_cutter cutters[3] = {{0}};
    struct ends got = {0};
    struct lk_err err;
    size_t stages = 0;

    for (; stages < 3 && known[which][stages] != NULL; stages++) {
        const char *expression = known[which][stages];
        struct lk_pattern pattern = {(const uint8_t *)expression, strlen(expression)};
        LK_CHECK(lk_cutter_regex(&pattern, unicode, LK_SPLIT_ISOLATED, NULL, &cutters[stages], &err) == LK_OK);
    }
    cut_by_engine(cutters, stages, text, 0, n, &got);
    if (want->n > 0)
        check_same(want, 0, &got, which, LK_SIMD_SCALAR);
    free(got.at);
    for (size_t i = 0; i < stages; i++)
        lk_cutter_done(&cutters[i]);
}

/* False: no family has the expression. */
static bool make(size_t which, const struct lk_unicode *unicode, enum lk_simd simd,
                 struct lk_cutter *ret_cutter)
{
    struct lk_pattern patterns[3];
    size_t n = 0;

    for (; n < 3 && known[which][n] != NULL; n++)
        patterns[n] = (struct lk_pattern){(const uint8_t *)known[which][n], strlen(known[which][n])};
    return lk_cutter_of_patterns(patterns, n, unicode, simd, ret_cutter) == LK_OK;
}

static void check_text(size_t which, const struct lk_unicode *unicode, const uint8_t *text, size_t n)
{
    struct ends want = {0}, got = {0};

    for (enum lk_simd simd = LK_SIMD_SCALAR; simd <= lk_simd_here(); simd++) {
        struct lk_cutter cutter = {0};
        if (!make(which, unicode, simd, &cutter))
            break;
        got.n = 0;
        cut(&cutter, text, 0, n, &got);
        if (simd == LK_SIMD_SCALAR) {
            want = got;
            got = (struct ends){0};
        } else {
            check_same(&want, 0, &got, which, simd);
        }
        if (want.n > 1) { /* taken up after one of the pieces */
            size_t skip = (size_t)text[n / 2] % want.n + 1;
            got.n = 0;
            cut(&cutter, text, want.at[skip - 1], n, &got);
            check_same(&want, skip, &got, which, simd);
        }
        lk_cutter_done(&cutter);
    }
    if (n <= ENGINE_MAX)
        check_engine(which, unicode, text, n, &want);
    free(want.at);
    free(got.at);
}

/* What is no valid UTF-8 may be cut anyhow, but inside of the text. */
static void check_invalid(size_t which, const struct lk_unicode *unicode, const uint8_t *data, size_t n)
{
    uint8_t *exact = lk_fuzz_copy(data, n);
    struct ends ends = {0};

    for (enum lk_simd simd = LK_SIMD_SCALAR; simd <= lk_simd_here(); simd++) {
        struct lk_cutter cutter = {0};
        if (!make(which, unicode, simd, &cutter))
            break;
        cut(&cutter, exact, 0, n, &ends);
        lk_cutter_done(&cutter);
    }
    free(ends.at);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct lk_unicode unicode; /* made once, for all inputs */
    struct lk_fuzz_input input = {data, n};
    size_t which = lk_fuzz_byte(&input) % KNOWN, times = 1, text_n = 0;
    uint8_t how = lk_fuzz_byte(&input);

    if (unicode.pages == NULL)
        lk_unicode_init(&unicode);
    if (input.left == 0)
        return 0;
    check_invalid(which, &unicode, input.at, input.left);
    uint8_t *text = lk_fuzz_text(input.at, input.left, &text_n);
    if (how >= 240 && text_n * how <= TEXT_MAX) /* many pieces, and all places in a vector */
        times = how;
    uint8_t *repeated = lk_alloc(text_n * times);
    for (size_t i = 0; i < times; i++)
        memcpy(repeated + i * text_n, text, text_n);
    check_text(which, &unicode, repeated, text_n * times);
    free(repeated);
    free(text);
    return 0;
}
