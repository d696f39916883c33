/*
 * Cutters that look for matches: expressions that are no known family, texts, kinds of characters. Expected
 * pieces from the reference's own Split; much more of it in tests/oracle/components_oracle.py.
 */
#include "op/pretok/regex.h"

#include "base/mem.h"
#include "tests/lib/check_main.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const struct {
    const char *expression;
    enum lk_split how;
    const char *text, *pieces; /* separated by slashes */
} cases[] = {
    {"a|b", LK_SPLIT_ISOLATED,
     "xxabyaz",
     "xx/a/b/y/a/z"},
    {"a|b", LK_SPLIT_WITH_PREVIOUS,
     "xxabyaz",
     "xxa/b/ya/z"},
    {"a|b", LK_SPLIT_WITH_NEXT,
     "xxabyaz",
     "xx/a/by/az"},
    {"a|b", LK_SPLIT_CONTIGUOUS,
     "xxabyaz",
     "xx/ab/y/a/z"},
    {"a|b", LK_SPLIT_WITH_NEXT,
     "abxa",
     "a/bx/a"},
    {"a|b", LK_SPLIT_WITH_PREVIOUS,
     "baxb",
     "b/a/xb"},
    {" ?[^(\\s|[.,!?\342\200\246\343\200\202\357\274\214\343\200\201\340\245\244\333\224\330\214])]+", LK_SPLIT_ISOLATED,
     "Hi there, (x|y) \344\270\255\343\200\202 2.5",
     "Hi/ there/, (/x/|/y/)/ \344\270\255/\343\200\202/ 2/./5"},
    {"[\\p{Han}]+|[\\p{L}\\p{M}&&[^\\p{Han}]]+|\\p{N}{1,3}|\\s+(?!\\S)|\\s", LK_SPLIT_ISOLATED,
     "ab\344\270\255\346\226\207c\314\2011234  x",
     "ab/\344\270\255\346\226\207/c\314\201/123/4/ / /x"},
    {"(?i:'k|'s)|\\w+|[^\\w\\s]+", LK_SPLIT_ISOLATED,
     "It'S 'K \302\262_\305\277'\305\277 '\342\204\252",
     "It/'S/ /'K/ /\302\262_\305\277/'\305\277/ /'\342\204\252"},
    {"(?:ab|a)(?:bc|c)?", LK_SPLIT_ISOLATED,
     "ababcabc",
     "ab/abc/abc"},
    {"a+?b|a{2}|a{3,}", LK_SPLIT_ISOLATED,
     "aaaabaaaaa",
     "aaaab/aa/aa/a"},
    {"a*+b|.", LK_SPLIT_ISOLATED,
     "aabaa\012",
     "aab/a/a/\012"},
    {"\\s+$|\\S+(?=\\s)|\\S", LK_SPLIT_ISOLATED,
     "ab cd \012ef  ",
     "ab/ /cd/ /\012/ef/  "},
    {"a\\z|b$|.", LK_SPLIT_CONTIGUOUS,
     "a\012b\012b",
     "a/\012/b/\012/b"},
    {"[^a-z&&[^aeiou]]+", LK_SPLIT_ISOLATED,
     "abcEfoox",
     "a/bc/E/f/oo/x"},
    {"[-a]+|[b-]+|[\\]\\[]|\\x{1F600}+", LK_SPLIT_ISOLATED,
     "-a-b-]\360\237\230\200\360\237\230\200",
     "-a-/b-/]/\360\237\230\200\360\237\230\200"},
    {"(?:a|b)*?c|[ab]", LK_SPLIT_ISOLATED,
     "abcab",
     "abc/a/b"},
};

/* From @p on, as often as the cutter wants to be called. */
static char *cut(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end)
{
    const uint8_t *stops[LK_PIECES_MAX];
    struct lk_buf out = {0};

    while (p < end) {
        size_t n = cutter->cut(cutter, p, end, stops);
        ck_assert(n > 0 && n <= LK_PIECES_MAX);
        for (size_t i = 0; i < n; p = stops[i++]) {
            ck_assert(stops[i] > p && stops[i] <= end);
            if (out.len > 0)
                lk_buf_puts(&out, "/");
            lk_buf_put(&out, p, (size_t)(stops[i] - p));
        }
    }
    char *copy = lk_strdup(lk_buf_cstr(&out));
    lk_buf_done(&out);
    return copy;
}

static void expect(const struct lk_cutter *cutter, const char *text, const char *want)
{
    size_t n = strlen(text);
    uint8_t *exact = lk_alloc(n); /* sanitizers see a read beyond it */

    memcpy(exact, text, n);
    char *got = cut(cutter, exact, exact + n);
    ck_assert_msg(strcmp(got, want) == 0, "\"%s\": got \"%s\", expected \"%s\"", text, got, want);
    free(got);
    free(exact);
}

static enum lk_code make(const char *expression, enum lk_split how, lk_spelled *spelled,
                         struct lk_cutter *ret_cutter, struct lk_err *err)
{
    struct lk_pattern pattern = {.text = (const uint8_t *)expression, .n = strlen(expression)};
    return lk_cutter_regex(&pattern, NULL, how, spelled, ret_cutter, err);
}

static struct lk_cutter made(const char *expression, enum lk_split how)
{
    struct lk_cutter cutter = {0};
    struct lk_err err;

    if (make(expression, how, NULL, &cutter, &err) != LK_OK)
        ck_abort_msg("%s: %s", expression, err.text);
    return cutter;
}

START_TEST(expressions_cut_where_the_reference_does)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lk_cutter cutter = made(cases[i].expression, cases[i].how);
        expect(&cutter, cases[i].text, cases[i].pieces);
        lk_cutter_done(&cutter);
    }
}
END_TEST

START_TEST(what_is_uncertain_is_refused_with_its_place)
{
    static const struct {
        const char *expression;
        enum lk_code code;
        const char *part;
    } refused[] = {
        {"ab^", LK_UNIMPLEMENTED, "^ at byte 2"},
        {"\\ba", LK_UNIMPLEMENTED, "an escape at byte 0"},
        {"(a)\\1", LK_UNIMPLEMENTED, "an escape at byte 3"},
        {"a(?<!b)", LK_UNIMPLEMENTED, "this kind of group at byte 1"},
        {"(?>a)", LK_UNIMPLEMENTED, "this kind of group at byte 0"},
        {"a(?i)b", LK_UNIMPLEMENTED, "this kind of group at byte 1"},
        {"a{1,2}+", LK_UNIMPLEMENTED, "what follows an interval at byte 1"},
        {"a{2}?", LK_UNIMPLEMENTED, "what follows an interval at byte 1"},
        {"a{3,2}", LK_UNIMPLEMENTED, "this interval at byte 1"},
        {"a{x", LK_UNIMPLEMENTED, "a brace that begins no interval at byte 1"},
        {"a+*", LK_UNIMPLEMENTED, "a quantifier of a quantifier at byte 2"},
        {"(?:ab)++", LK_UNIMPLEMENTED, "a possessive group at byte 6"},
        {"(?:a*)+b", LK_UNIMPLEMENTED, "repeating what may be empty at byte 6"},
        {"(?=a+)b", LK_UNIMPLEMENTED, "looking ahead at more than 8 characters at byte 0"},
        {"(?i:as?s)", LK_OK, NULL},
        {"(?i:ass)", LK_UNIMPLEMENTED, "letters under (?i: that one character is a case of at byte 6"},
        {"(?i:(?:f|x)i)", LK_UNIMPLEMENTED, "letters under (?i: that one character is a case of"},
        {"(?i:\303\251)", LK_UNIMPLEMENTED, "a letter beyond ASCII under (?i: at byte 4"},
        {"(?i:[^a])", LK_UNIMPLEMENTED, "a negative class under (?i: at byte 4"},
        {"[[:alpha:]]", LK_UNIMPLEMENTED, "a POSIX bracket at byte 1"},
        {"[a-\\d]", LK_UNIMPLEMENTED, "this range at byte 1"},
        {"[\\d-a]", LK_UNIMPLEMENTED, "a hyphen in the middle of a class at byte 3"},
        {"[b-a]", LK_INVALID_ARGUMENT, "a range that ends before it begins at byte 1"},
        {"\\p{Emoji}", LK_UNIMPLEMENTED, "this property at byte 0"},
        {"\\xe9", LK_UNIMPLEMENTED, "an escape at byte 0"},
        {"a*", LK_UNIMPLEMENTED, "matches the empty text"},
        {"a|", LK_UNIMPLEMENTED, "matches the empty text"},
        {"", LK_UNIMPLEMENTED, "matches the empty text"},
        {"a)", LK_INVALID_ARGUMENT, "a ) too many at byte 1"},
        {"a(b", LK_INVALID_ARGUMENT, "a group without an end at byte 1"},
        {"[a", LK_INVALID_ARGUMENT, "a class without an end at byte 0"},
        {"a\\", LK_INVALID_ARGUMENT, "a backslash that escapes nothing at byte 1"},
        {"((((((((((((((((((((((((((((((((((a", LK_UNIMPLEMENTED, "nesting as deep as this"},
        {"(?:(?:ab){99}c){99}", LK_UNIMPLEMENTED, "an expression as long as this"},
    };

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct lk_cutter cutter = {0};
        struct lk_err err = {.code = LK_OK};
        ck_assert_msg(make(refused[i].expression, LK_SPLIT_ISOLATED, NULL, &cutter, &err) ==
                          refused[i].code,
                      "%s: %s", refused[i].expression, err.text);
        ck_assert_msg(refused[i].part == NULL || strstr(err.text, refused[i].part) != NULL,
                      "%s: \"%s\" lacks \"%s\"", refused[i].expression, err.text, refused[i].part);
        lk_cutter_done(&cutter);
    }
}
END_TEST

static size_t count_pieces(const char *expression, const uint8_t *text, size_t n)
{
    struct lk_cutter cutter = made(expression, LK_SPLIT_ISOLATED);
    const uint8_t *stops[LK_PIECES_MAX], *p = text;
    size_t count = 0;

    while (p < text + n) {
        size_t more = cutter.cut(&cutter, p, text + n, stops);
        count += more;
        p = stops[more - 1];
    }
    lk_cutter_done(&cutter);
    return count;
}

/* @n bytes of @unit again and again, the last one @last. */
static size_t count_in_run(const char *expression, const char *unit, size_t n, char last)
{
    uint8_t *text = lk_alloc(n);

    for (size_t i = 0; i < n; i++)
        text[i] = (uint8_t)unit[i % strlen(unit)];
    text[n - 1] = (uint8_t)last;
    size_t count = count_pieces(expression, text, n);
    free(text);
    return count;
}

/* Whatever stack or memory a match of a megabyte takes. */
START_TEST(matches_may_be_long)
{
    static const struct {
        const char *expression, *unit;
        char last;
        size_t want;
    } runs[] = {
        {"\\s+(?!\\S)|\\s+|\\S", " ", 'x', 3},
        {"\\s+$|\\s|\\S", " ", ' ', 1},
        {"(?:a|b)+|c", "ab", 'c', 2},
        {"(?:a|b)*?c|[ab]+", "ab", 'c', 1},
        {"(?:ab?)+?c|[ab]", "ab", 'c', 1},
        {"(?:a+)+b|a", "a", 'b', 1},
        {"a*?b", "a", 'b', 1},
        {"b", "a", 'b', 2},
    };

    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        size_t count = count_in_run(runs[i].expression, runs[i].unit, (1u << 20) + 1, runs[i].last);
        ck_assert_msg(count == runs[i].want, "%s: %zu pieces", runs[i].expression, count);
    }
}
END_TEST

/* The part of the text that is looked at ends somewhere, as no piece may tell. */
START_TEST(pieces_do_not_depend_on_what_is_looked_at_together)
{
    static const char *const expressions[] = {"ab+(?!c)|a|b+|c", "a(?=b{0,7}c)|(?:ab|a)b|.", "(?:ab*c)+?(?=a)|[ab]|c$"};

    for (size_t k = 0; k < 3; k++) {
        struct lk_cutter cutter = made(expressions[k], LK_SPLIT_ISOLATED);
        for (size_t lead = 480; lead < 2080; lead += lead % 512 == 4 ? 444 : 1) { /* around multiples of 512 */
            uint8_t *text = lk_alloc(lead + 12);
            memset(text, 'x', lead); /* nothing matches there, or "." */
            memcpy(text + lead, "abbbcabbcabb", 12);
            char *whole = cut(&cutter, text, text + lead + 12);
            char *tail = cut(&cutter, text + lead, text + lead + 12);
            size_t n = strlen(whole), m = strlen(tail);
            ck_assert_msg(n > m && memcmp(whole + n - m, tail, m) == 0 && whole[n - m - 1] == '/',
                          "%s after %zu: %s", expressions[k], lead, whole + n - m);
            free(whole);
            free(tail);
            free(text);
        }
        lk_cutter_done(&cutter);
    }
}
END_TEST

/* It shall leave no core file. */
START_TEST(a_text_that_takes_too_long_ends_the_process)
{
    static const char *const expressions[] = {"(?:a+)+b|a", "(?:a|aa)+$|b"};
    struct rlimit none = {0};

    (void)setrlimit(RLIMIT_CORE, &none);
    (void)count_in_run(expressions[_i], "a", 5000, '!');
}
END_TEST

START_TEST(it_is_known_whether_text_can_lie_between_matches)
{
    static const struct {
        const char *expression;
        bool covers;
    } expressions[] = {
        {".", false},
        {".|\\n", true},
        {"\\s+|\\S", true},
        {"\\s+(?!\\S)|\\S", false},
        {"\\s+(?!\\S)|\\s+|\\S+", true},
        {"\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s", true},
        {"[^x]?+\\p{L}+|\\P{L}", false},
        {"[^x]?\\p{L}+|\\P{L}", true},
        {"a\\z|[^a]", false},
        {"(?:\\s|\\p{L}){1,3}x?|[^\\s\\p{L}]", true},
        {"(?:\\s|\\p{L}){2}|[^\\s\\p{L}]", false},
        {"(", false},
    };

    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
        const char *text = expressions[i].expression;
        struct lk_pattern pattern = {.text = (const uint8_t *)text, .n = strlen(text)};
        ck_assert_msg(lk_regex_covers(&pattern) == expressions[i].covers, "%s", text);
    }
}
END_TEST

START_TEST(digits_and_punctuation_are_cut_out)
{
    struct lk_unicode unicode;
    struct lk_cutter cutter;

    lk_unicode_init(&unicode);
    lk_cutter_chars(&unicode, LK_CLASS_NUMERIC, LK_SPLIT_ISOLATED, NULL, &cutter);
    expect(&cutter, "ab12 \302\2753c", "ab/1/2/ /\302\275/3/c");
    lk_cutter_done(&cutter);
    lk_cutter_chars(&unicode, LK_CLASS_NUMERIC, LK_SPLIT_CONTIGUOUS, NULL, &cutter);
    expect(&cutter, "ab12 \302\2753c", "ab/12/ /\302\2753/c");
    lk_cutter_done(&cutter);
    lk_cutter_chars(&unicode, LK_CLASS_PUNCTUATION, LK_SPLIT_WITH_NEXT, NULL, &cutter);
    expect(&cutter, "a.b!?c$\302\243", "a/.b/!/?c/$\302\243"); /* the pound sign is none */
    lk_cutter_done(&cutter);
    lk_unicode_done(&unicode);
}
END_TEST

START_TEST(texts_are_found_from_the_left)
{
    struct lk_cutter cutter;

    lk_cutter_literal((const uint8_t *)"aa", 2, LK_SPLIT_ISOLATED, &cutter);
    expect(&cutter, "baaab", "b/aa/ab");
    lk_cutter_done(&cutter);
    lk_cutter_literal((const uint8_t *)" ", 1, LK_SPLIT_WITH_PREVIOUS, &cutter);
    expect(&cutter, "ab  c ", "ab / /c ");
    lk_cutter_done(&cutter);
    lk_cutter_literal((const uint8_t *)" ", 1, LK_SPLIT_WITH_NEXT, &cutter);
    expect(&cutter, "ab  c ", "ab/ / c/ ");
    lk_cutter_done(&cutter);
}
END_TEST

/* After ByteLevel every byte is a character: here byte b is U+0100 + b, but for ASCII. */
START_TEST(stages_after_byte_level_see_bytes)
{
    struct lk_unicode unicode;
    struct lk_cutter cutter;
    struct lk_err err;
    uint32_t points[256];

    for (uint32_t b = 0; b < 256; b++)
        points[b] = b > ' ' && b < 0x7f ? b : 0x100 + b;
    points[0xb2] = 0xb2; /* a superscript two */
    lk_unicode_init(&unicode);
    lk_cutter_chars(&unicode, LK_CLASS_NUMERIC, LK_SPLIT_ISOLATED, &points, &cutter);
    expect(&cutter, "a1\303\262", "a/1/\303/\262");
    lk_cutter_done(&cutter);
    ck_assert_int_eq(make("[\\u0120a]+|\\s|x$|\\z\\n", LK_SPLIT_ISOLATED, &points, &cutter, &err), LK_OK);
    expect(&cutter, "b a \nx\nx", "b/ a /\nx\n/x"); /* the space is U+0120, and no white space */
    lk_cutter_done(&cutter);
    lk_unicode_done(&unicode);
}
END_TEST

START_TEST(invalid_utf8_never_leads_outside_the_text)
{
    static const char *const expressions[] = {"(?:\\p{L}+|.)(?!\\s\\S)|\\s+?$|[^a]", "(?:\\S|a)*?x|[^x]{1,3}|.*y"};
    uint32_t state = 7;

    for (size_t k = 0; k < 2; k++) {
        struct lk_cutter cutter = made(expressions[k], LK_SPLIT_CONTIGUOUS);
        for (size_t round = 0; round < 3000; round++) {
            size_t n = 1 + round % 13;
            uint8_t *text = lk_alloc(n);
            for (size_t i = 0; i < n; i++) {
                state = state * 1664525u + 1013904223u;
                text[i] = (uint8_t)(state >> 24);
            }
            free(cut(&cutter, text, text + n));
            free(text);
        }
        lk_cutter_done(&cutter);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("op/pretok_regex");
    TCase *t = tcase_create("regex");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, expressions_cut_where_the_reference_does);
    tcase_add_test(t, what_is_uncertain_is_refused_with_its_place);
    tcase_add_test(t, matches_may_be_long);
    tcase_add_test(t, pieces_do_not_depend_on_what_is_looked_at_together);
    tcase_add_loop_test_raise_signal(t, a_text_that_takes_too_long_ends_the_process, SIGABRT, 0, 2);
    tcase_add_test(t, it_is_known_whether_text_can_lie_between_matches);
    tcase_add_test(t, digits_and_punctuation_are_cut_out);
    tcase_add_test(t, texts_are_found_from_the_left);
    tcase_add_test(t, stages_after_byte_level_see_bytes);
    tcase_add_test(t, invalid_utf8_never_leads_outside_the_text);
    suite_add_tcase(s, t);
    return s;
}
