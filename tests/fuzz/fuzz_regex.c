/*
 * Any expression: it is taken, or refused with a word; and what was taken cuts any text into pieces that
 * make it up and do not depend on where cutting was taken up, or finds it too hard.
 *
 * Input: a byte for what becomes of matches, the expression, a byte 0xff, the text.
 */
#include "op/pretok/regex.h"
#include "tests/fuzz/fuzz.h"

#include <setjmp.h>

enum { TEXT_MAX = 160 }; /* such that what is not too hard does not take long */

static jmp_buf too_hard;
static size_t once[TEXT_MAX * 3 + 1], again[TEXT_MAX * 3 + 1]; /* a byte may become U+FFFD */

/* In the place of more steps, and of the one that ends the process. */
const uint32_t lk_regex_steps = 100000;

_Noreturn void lk_regex_too_hard(struct lk_pattern pattern, int code)
{
    LK_CHECK(pattern.n > 0 && code < 0);
    longjmp(too_hard, 1);
}

static size_t cut(const struct lk_cutter *cutter, const uint8_t *text, size_t from, size_t n, size_t *ends)
{
    const uint8_t *stops[LK_PIECES_MAX], *end = text + n;
    size_t total = 0;

    for (const uint8_t *p = text + from; p < end;) {
        size_t found = cutter->cut(cutter, p, end, stops);
        LK_CHECK(found > 0 && found <= LK_PIECES_MAX);
        for (size_t i = 0; i < found; p = stops[i++]) {
            LK_CHECK(stops[i] > p && stops[i] <= end);
            ends[total++] = (size_t)(stops[i] - text);
        }
    }
    return total;
}

static void check(const struct lk_cutter *cutter, const uint8_t *text, size_t n, bool valid)
{
    if (setjmp(too_hard) != 0)
        return;
    size_t pieces = cut(cutter, text, 0, n, once);
    size_t skip = pieces / 2;

    if (skip > 0 && valid) {
        LK_CHECK(cut(cutter, text, once[skip - 1], n, again) == pieces - skip);
        LK_CHECK(memcmp(again, once + skip, (pieces - skip) * sizeof *again) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct lk_unicode unicode; /* made once, for all inputs */
    struct lk_fuzz_input input = {data, n};
    enum lk_split how = (enum lk_split)(lk_fuzz_byte(&input) % (LK_SPLIT_CONTIGUOUS + 1));
    const uint8_t *mark = input.left > 0 ? memchr(input.at, 0xff, input.left) : NULL;
    size_t length = mark != NULL ? (size_t)(mark - input.at) : input.left, text_n = 0;
    struct lk_cutter cutter = {0};
    struct lk_err err = {0};

    if (unicode.pages == NULL)
        lk_unicode_init(&unicode);
    uint8_t *expression = lk_fuzz_text(input.at, length, &length); /* from JSON: valid UTF-8 */
    struct lk_pattern pattern = {.text = expression, .n = length};
    enum lk_code code = lk_cutter_regex(&pattern, &unicode, how, NULL, &cutter, &err);
    (void)lk_regex_covers(&pattern);
    free(expression); /* not kept */
    if (code == LK_OK && mark != NULL) {
        size_t left = (size_t)(data + n - mark - 1);
        uint8_t *text = lk_fuzz_text(mark + 1, left < TEXT_MAX ? left : TEXT_MAX, &text_n);
        uint8_t *raw = lk_fuzz_copy(mark + 1, left < TEXT_MAX ? left : TEXT_MAX);
        if (text_n > 0)
            check(&cutter, text, text_n, true);
        if (left > 0)
            check(&cutter, raw, left < TEXT_MAX ? left : TEXT_MAX, false);
        free(text);
        free(raw);
    }
    LK_CHECK(code == LK_OK || code == LK_UNIMPLEMENTED || code == LK_INVALID_ARGUMENT);
    LK_CHECK(code == LK_OK || err.text[0] != '\0');
    lk_cutter_done(&cutter);
    return 0;
}
