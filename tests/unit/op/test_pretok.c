/*
 * Where the reference cuts text into pieces; expected values from its own pre-tokenizers. The letters
 * outside ASCII are chosen for what implementations get wrong: marks, title case, modifier letters,
 * U+180E and U+200B (no spaces), U+0085 and U+3000 (spaces), the long s.
 */
#include "op/pretok/pretok.h"

#include "base/mem.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>
#include <string.h>

#define TAIL "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CASED(end)                                                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" end        \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" end "|"

static const char *const expressions[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL,
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL,
    CASED("(?i:'s|'t|'re|'ve|'m|'ll|'d)?") "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL,
    CASED("") "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL,
};

#define EXPRESSIONS (sizeof expressions / sizeof *expressions)

static const struct {
    const char *text;
    const char *pieces[EXPRESSIONS]; /* separated by bars */
} cases[] = {
    {"It's we'RE o'clock 'llama",
     {"It|'s| we|'|RE| o|'|clock| '|llama",
      "It|'s| we|'RE| o|'clock| '|llama",
      "It|'s| we|'RE| o|'clock| '|llama",
      "It's| we'RE| o|'clock| '|llama",
      "It|'s| we|'RE| o|'clock| '|llama"}},
    {"  two  spaces \012\012 \011 tab",
     {" | two| | spaces| \012\012 \011| tab",
      " | two| | spaces| \012\012| \011| tab",
      " | two| | spaces| \012\012| \011| tab",
      " | two| | spaces| \012\012| \011| tab",
      " | two| | spaces| \012\012| \011| tab"}},
    {"12345 67",
     {"12345| 67",
      "123|45| |67",
      "1|2|3|4|5| |6|7",
      "123|45| |67",
      "1|2|3|4|5| |6|7"}},
    {".NET getHTTPResponse/\012/x",
     {".|NET| getHTTPResponse|/|\012|/|x",
      ".NET| getHTTPResponse|/\012|/x",
      ".NET| getHTTPResponse|/\012|/x",
      ".NET| get|HTTPResponse|/\012/|x",
      ".NET| get|HTTPResponse|/\012/|x"}},
    {"caf\303\251 e\314\201\314\201 \303\211COLE'S",
     {"caf\303\251| e|\314\201\314\201| \303\211COLE|'|S",
      "caf\303\251| e|\314\201\314\201| \303\211COLE|'S",
      "caf\303\251| e|\314\201\314\201| \303\211COLE|'S",
      "caf\303\251| e\314\201\314\201| \303\211COLE'S",
      "caf\303\251| e\314\201\314\201| \303\211COLE|'S"}},
    {"\344\275\240\345\245\275\357\274\214\331\241\331\242\331\243\331\244 \343\200\200\343\200\200x",
     {"\344\275\240\345\245\275|\357\274\214|\331\241\331\242\331\243\331\244| \343\200\200|\343\200\200|x",
      "\344\275\240\345\245\275|\357\274\214|\331\241\331\242\331\243|\331\244| \343\200\200|\343\200\200x",
      "\344\275\240\345\245\275|\357\274\214|\331\241|\331\242|\331\243|\331\244| \343\200\200|\343\200\200x",
      "\344\275\240\345\245\275|\357\274\214|\331\241\331\242\331\243|\331\244| \343\200\200|\343\200\200x",
      "\344\275\240\345\245\275|\357\274\214|\331\241|\331\242|\331\243|\331\244| \343\200\200|\343\200\200x"}},
    {"a\341\240\216b\302\205c\342\200\213d \302\240e",
     {"a|\341\240\216|b|\302\205|c|\342\200\213|d| |\302\240|e",
      "a|\341\240\216b|\302\205c|\342\200\213d| |\302\240e",
      "a|\341\240\216b|\302\205c|\342\200\213d| |\302\240e",
      "a|\341\240\216b|\302\205c|\342\200\213d| |\302\240e",
      "a|\341\240\216b|\302\205c|\342\200\213d| |\302\240e"}},
    {"don'\305\277 'S",
     {"don|'|\305\277| '|S",
      "don|'\305\277| '|S",
      "don|'\305\277| '|S",
      "don'\305\277| '|S",
      "don|'\305\277| '|S"}},
    {"!!!\015\012\015\012  end  ",
     {"!!!|\015\012\015\012 | end|  ",
      "!!!\015\012\015\012| | end|  ",
      "!!!\015\012\015\012| | end|  ",
      "!!!\015\012\015\012| | end|  ",
      "!!!\015\012\015\012| | end|  "}},
    {"\307\205a\312\260B\302\252c\314\201D",
     {"\307\205a\312\260B\302\252c|\314\201|D",
      "\307\205a\312\260B\302\252c|\314\201D",
      "\307\205a\312\260B\302\252c|\314\201D",
      "\307\205a\312\260|B\302\252c\314\201|D",
      "\307\205a\312\260|B\302\252c\314\201|D"}},
};

/* Number @k: each expression by the scalar code first, then by what the processor has. */
static struct lk_cutter cutter_of(const struct lk_unicode *unicode, size_t k)
{
    const char *text = expressions[k % EXPRESSIONS];
    struct lk_cutter cutter;
    struct lk_pattern pattern = {.text = (const uint8_t *)text, .n = strlen(text)};
    enum lk_code code = lk_cutter_of_patterns(&pattern, 1, unicode, (enum lk_simd)(k / EXPRESSIONS),
                                              &cutter);
    ck_assert_msg(code == LK_OK, "%s", text);
    return cutter;
}

static char *cut(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end)
{
    struct lk_buf out = {0};
    const uint8_t *stops[LK_PIECES_MAX];

    while (p < end) {
        size_t n = cutter->cut(cutter, p, end, stops);
        ck_assert_uint_gt(n, 0);
        for (size_t i = 0; i < n; p = stops[i++]) {
            ck_assert(stops[i] > p && stops[i] <= end);
            if (out.len > 0)
                lk_buf_puts(&out, "|");
            lk_buf_put(&out, p, (size_t)(stops[i] - p));
        }
    }
    char *copy = lk_strdup(lk_buf_cstr(&out));
    lk_buf_done(&out);
    return copy;
}

START_TEST(every_expression_cuts_where_the_reference_does)
{
    struct lk_unicode unicode;
    lk_unicode_init(&unicode);
    for (size_t k = 0; k < EXPRESSIONS * (LK_SIMD_BEST + 1); k++) {
        struct lk_cutter cutter = cutter_of(&unicode, k);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            size_t n = strlen(cases[i].text);
            uint8_t *exact = lk_alloc(n); /* sanitizers see a read beyond it */
            memcpy(exact, cases[i].text, n);
            char *got = cut(&cutter, exact, exact + n);
            ck_assert_msg(strcmp(got, cases[i].pieces[k % EXPRESSIONS]) == 0,
                          "%s\n\"%s\": got \"%s\", expected \"%s\"", expressions[k % EXPRESSIONS],
                          cases[i].text, got, cases[i].pieces[k % EXPRESSIONS]);
            free(got);
            free(exact);
        }
    }
    lk_unicode_done(&unicode);
}
END_TEST

START_TEST(invalid_utf8_never_leads_outside_the_text)
{
    struct lk_unicode unicode;
    uint32_t state = 7;

    lk_unicode_init(&unicode);
    for (size_t round = 0; round < 3000; round++) {
        size_t n = 1 + round % 13;
        uint8_t *text = lk_alloc(n);
        for (size_t i = 0; i < n; i++) {
            state = state * 1664525u + 1013904223u;
            text[i] = (uint8_t)(state >> 24);
        }
        for (size_t k = 0; k < EXPRESSIONS * (LK_SIMD_BEST + 1); k++) {
            struct lk_cutter cutter = cutter_of(&unicode, k);
            free(cut(&cutter, text, text + n));
        }
        free(text);
    }
    lk_unicode_done(&unicode);
}
END_TEST

START_TEST(another_expression_is_not_taken_for_a_known_one)
{
    struct lk_pattern pattern = {.text = (const uint8_t *)expressions[0], .n = 0};
    struct lk_cutter cutter;

    ck_assert_int_eq(lk_cutter_of_patterns(&pattern, 1, NULL, LK_SIMD_BEST, &cutter), LK_NOT_FOUND);
    pattern.n = strlen(expressions[0]) - 1;
    ck_assert_int_eq(lk_cutter_of_patterns(&pattern, 1, NULL, LK_SIMD_BEST, &cutter), LK_NOT_FOUND);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("op/pretok");
    TCase *t = tcase_create("pretok");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_expression_cuts_where_the_reference_does);
    tcase_add_test(t, invalid_utf8_never_leads_outside_the_text);
    tcase_add_test(t, another_expression_is_not_taken_for_a_known_one);
    suite_add_tcase(s, t);
    return s;
}
