/*
 * What the reference's normalisers make of text; expected values from them. Every code point and random
 * mixes: tests/oracle/components_oracle.py.
 */
#include "op/text/normal.h"

#include "tests/lib/check_main.h"

#include <stdlib.h>
#include <string.h>

/* A normaliser with one step or, from its kinds in order, several without texts. */
static void make(struct lk_normal *normal, const struct lk_unicode *unicode, size_t n,
                 const enum lk_normal_kind *kinds)
{
    *normal = (struct lk_normal){0};
    for (size_t i = 0; i < n; i++)
        ck_assert(lk_normal_add(normal, (struct lk_normal_step){.kind = kinds[i]}));
    lk_normal_build(normal, unicode);
}

static void expect_n(const struct lk_normal *normal, const char *text, size_t n, const char *want,
                     size_t want_n)
{
    struct lk_normal_scratch scratch = {0};
    const uint8_t *got = NULL;
    size_t got_n = 0;
    uint8_t *exact = lk_alloc(n + 1) + 1; /* sanitizers see a read beyond it */

    memcpy(exact, text, n);
    for (int pass = 0; pass < 2; pass++) { /* with used scratch, too */
        lk_normal_apply(normal, &scratch, exact, n, &got, &got_n);
        ck_assert_uint_eq(got_n, want_n);
        ck_assert_mem_eq(got, want, want_n);
    }
    /* What passes the quick check is left alone. */
    if (lk_normal_quick(normal, exact, n)) {
        ck_assert_uint_eq(want_n, n);
        ck_assert_mem_eq(want, text, n);
    }
    lk_normal_scratch_trim(&scratch, 0);
    ck_assert_uint_eq(scratch.bufs[0].cap + scratch.bufs[1].cap + scratch.points.cap, 0);
    lk_normal_scratch_done(&scratch);
    free(exact - 1);
}

static void expect(const struct lk_normal *normal, const char *text, const char *want)
{
    expect_n(normal, text, strlen(text), want, strlen(want));
}

static const struct {
    const char *text, *forms[4]; /* NFC, NFD, NFKC, NFKD */
} cases[] = {
    {"plain", {"plain", "plain", "plain", "plain"}},
    {"e\314\201", {"\303\251", "e\314\201", "\303\251", "e\314\201"}},
    {"\341\204\200\341\205\241\341\206\250x",
     {"\352\260\201x",
      "\341\204\200\341\205\241\341\206\250x",
      "\352\260\201x",
      "\341\204\200\341\205\241\341\206\250x"}},
    {"\352\260\200\341\206\250",
     {"\352\260\201",
      "\341\204\200\341\205\241\341\206\250",
      "\352\260\201",
      "\341\204\200\341\205\241\341\206\250"}},
    {"a\314\225\314\200\326\256\314\200b",
     {"\303\240\326\256\314\200\314\225b",
      "a\326\256\314\200\314\200\314\225b",
      "\303\240\326\256\314\200\314\225b",
      "a\326\256\314\200\314\200\314\225b"}},
    {"\342\204\253\342\204\246",
     {"\303\205\316\251",
      "A\314\212\316\251",
      "\303\205\316\251",
      "A\314\212\316\251"}},
    {"\340\245\230",
     {"\340\244\225\340\244\274",
      "\340\244\225\340\244\274",
      "\340\244\225\340\244\274",
      "\340\244\225\340\244\274"}},
    {"\315\204", {"\314\210\314\201", "\314\210\314\201", "\314\210\314\201", "\314\210\314\201"}},
    {"\341\272\233\314\243",
     {"\341\272\233\314\243",
      "\305\277\314\243\314\207",
      "\341\271\251",
      "s\314\243\314\207"}},
    {"\314\201a\314\201",
     {"\314\201\303\241",
      "\314\201a\314\201",
      "\314\201\303\241",
      "\314\201a\314\201"}},
    {"\360\235\205\236",
     {"\360\235\205\227\360\235\205\245",
      "\360\235\205\227\360\235\205\245",
      "\360\235\205\227\360\235\205\245",
      "\360\235\205\227\360\235\205\245"}},
    {"\340\257\206\340\256\276",
     {"\340\257\212",
      "\340\257\206\340\256\276",
      "\340\257\212",
      "\340\257\206\340\256\276"}},
    {"e\314\247\314\201",
     {"\310\251\314\201",
      "e\314\247\314\201",
      "\310\251\314\201",
      "e\314\247\314\201"}},
    {"A\314\212\314\201", {"\307\272", "A\314\212\314\201", "\307\272", "A\314\212\314\201"}},
    {"\341\204\200\341\205\241\341\205\241\341\206\250",
     {"\352\260\200\341\205\241\341\206\250",
      "\341\204\200\341\205\241\341\205\241\341\206\250",
      "\352\260\200\341\205\241\341\206\250",
      "\341\204\200\341\205\241\341\205\241\341\206\250"}},
    {"\357\254\201\342\221\240\302\275\302\240x",
     {"\357\254\201\342\221\240\302\275\302\240x",
      "\357\254\201\342\221\240\302\275\302\240x",
      "fi11\342\201\2042 x",
      "fi11\342\201\2042 x"}},
    {"\357\267\272",
     {"\357\267\272",
      "\357\267\272",
      "\330\265\331\204\331\211 \330\247\331\204\331\204\331\207 \330\271\331\204\331\212\331\207 \331\210\330\263\331\204\331\205",
      "\330\265\331\204\331\211 \330\247\331\204\331\204\331\207 \330\271\331\204\331\212\331\207 \331\210\330\263\331\204\331\205"}},
    {"\343\216\222\357\274\241\357\275\266\357\276\236",
     {"\343\216\222\357\274\241\357\275\266\357\276\236",
      "\343\216\222\357\274\241\357\275\266\357\276\236",
      "MHzA\343\202\254",
      "MHzA\343\202\253\343\202\231"}},
    {"\305\277\314\207", {"\341\272\233", "\305\277\314\207", "\341\271\241", "s\314\207"}},
    {"\341\272\277\355\225\234\352\270\200\340\275\267",
     {"\341\272\277\355\225\234\352\270\200\340\275\267",
      "e\314\202\314\201\341\204\222\341\205\241\341\206\253\341\204\200\341\205\263\341\206\257\340\275\267",
      "\341\272\277\355\225\234\352\270\200\340\276\262\340\275\261\340\276\200",
      "e\314\202\314\201\341\204\222\341\205\241\341\206\253\341\204\200\341\205\263\341\206\257\340\276\262\340\275\261\340\276\200"}},
};

START_TEST(text_in_every_form_is_what_the_reference_makes_of_it)
{
    struct lk_unicode unicode;
    struct lk_normal normal;

    lk_unicode_init(&unicode);
    for (enum lk_normal_kind kind = LK_NORMAL_NFC; kind <= LK_NORMAL_NFKD; kind++) {
        make(&normal, &unicode, 1, &kind);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            expect(&normal, cases[i].text, cases[i].forms[kind]);
            expect(&normal, cases[i].forms[kind], cases[i].forms[kind]); /* and that is final */
        }
        lk_normal_done(&normal);
    }
    lk_unicode_done(&unicode);
}
END_TEST

START_TEST(a_million_unsorted_marks_are_sorted_in_linear_time)
{
    static const char above[] = "\314\201", below[] = "\314\247"; /* U+0301: 230, U+0327: 202 */
    struct lk_buf text = {0}, want = {0};
    struct lk_unicode unicode;
    struct lk_normal normal;

    lk_unicode_init(&unicode);
    make(&normal, &unicode, 1, (enum lk_normal_kind[]){LK_NORMAL_NFC});
    lk_buf_puts(&text, "x");
    lk_buf_puts(&want, "x");
    for (size_t i = 0; i < 250000; i++) {
        lk_buf_puts(&text, above);
        lk_buf_puts(&text, below);
        lk_buf_puts(&want, below);
    }
    for (size_t i = 0; i < 250000; i++)
        lk_buf_puts(&want, above);
    expect_n(&normal, (const char *)text.data, text.len, (const char *)want.data, want.len);
    lk_buf_done(&text);
    lk_buf_done(&want);
    lk_normal_done(&normal);
    lk_unicode_done(&unicode);
}
END_TEST

START_TEST(letters_lose_their_case_one_by_one)
{
    struct lk_unicode unicode;
    struct lk_normal normal;

    lk_unicode_init(&unicode);
    make(&normal, &unicode, 1, (enum lk_normal_kind[]){LK_NORMAL_LOWERCASE});
    expect(&normal, "", "");
    expect(&normal, "plain 1", "plain 1");
    expect(&normal, "A\303\211Z \305\270", "a\303\251z \303\277");
    expect(&normal, "\304\260\304\261I", "i\314\207\304\261i");                 /* the dotted I */
    expect(&normal, "\316\221\316\243 \316\243", "\316\261\317\203 \317\203"); /* no final sigma */
    expect(&normal, "\307\205\360\220\220\200\341\272\236", "\307\206\360\220\220\250\303\237");
    lk_normal_done(&normal);
    lk_unicode_done(&unicode);
}
END_TEST

START_TEST(white_space_is_stripped_where_it_is_asked_for)
{
    static const char text[] = "\302\205\342\200\203 a b \t\343\200\200";
    struct lk_unicode unicode;
    struct lk_normal normal;

    lk_unicode_init(&unicode);
    make(&normal, &unicode, 1, (enum lk_normal_kind[]){LK_NORMAL_STRIP_LEFT});
    ck_assert(lk_normal_moves_start(&normal));
    expect(&normal, text, "a b \t\343\200\200");
    expect(&normal, " \n", "");
    lk_normal_done(&normal);
    make(&normal, &unicode, 1, (enum lk_normal_kind[]){LK_NORMAL_STRIP_RIGHT});
    ck_assert(!lk_normal_moves_start(&normal));
    expect(&normal, text, "\302\205\342\200\203 a b");
    expect(&normal, " \342\200\213 ", " \342\200\213"); /* U+200B is no space */
    lk_normal_done(&normal);
    lk_unicode_done(&unicode);
}
END_TEST

START_TEST(accents_vanish_from_what_is_decomposed)
{
    struct lk_unicode unicode;
    struct lk_normal normal;

    lk_unicode_init(&unicode);
    make(&normal, &unicode, 1, (enum lk_normal_kind[]){LK_NORMAL_STRIP_ACCENTS});
    expect(&normal, "\303\251e\314\201\314\247o\314\201", "\303\251eo");
    lk_normal_done(&normal);
    make(&normal, &unicode, 3,
         (enum lk_normal_kind[]){LK_NORMAL_NFD, LK_NORMAL_STRIP_ACCENTS, LK_NORMAL_LOWERCASE});
    expect(&normal, "\303\211e\314\201 \341\272\255\304\260", "ee ai");
    lk_normal_done(&normal);
    lk_unicode_done(&unicode);
}
END_TEST

static void add(struct lk_normal *normal, enum lk_normal_kind kind, const char *from, const char *to)
{
    ck_assert(lk_normal_add(normal, (struct lk_normal_step){.kind = kind,
                                                            .from = (uint8_t *)lk_strdup(from),
                                                            .from_n = strlen(from),
                                                            .to = (uint8_t *)lk_strdup(to),
                                                            .to_n = strlen(to)}));
}

START_TEST(several_characters_replaced_move_the_start_and_one_does_not)
{
    static const struct {
        const char *from, *to;
        bool moves;
    } replaced[] = {{" ", "\342\226\201", false}, {"\342\226\201", " ", false}, {"a", "", true},
                 {"ab", "b", true},           {"ab", "abc", true},           {"\303\251\303\251", "e", true}};

    for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++) {
        struct lk_normal normal = {0};
        add(&normal, LK_NORMAL_REPLACE, replaced[i].from, replaced[i].to);
        ck_assert_msg(lk_normal_moves_start(&normal) == replaced[i].moves, "%s", replaced[i].from);
        lk_normal_done(&normal);
    }
}
END_TEST

START_TEST(texts_are_put_in_front_and_replaced_in_the_order_of_the_steps)
{
    struct lk_unicode unicode;
    struct lk_normal normal = {0};

    lk_unicode_init(&unicode);
    add(&normal, LK_NORMAL_PREPEND, "", "\342\226\201");
    add(&normal, LK_NORMAL_REPLACE, " ", "\342\226\201");
    add(&normal, LK_NORMAL_REPLACE, "aa", "a");
    lk_normal_build(&normal, &unicode);
    expect(&normal, "", "");
    expect(&normal, "x", "\342\226\201x");
    expect(&normal, " b  aaaaa", "\342\226\201\342\226\201b\342\226\201\342\226\201aaa");
    lk_normal_done(&normal);

    add(&normal, LK_NORMAL_REPLACE, "ab", "");
    lk_normal_build(&normal, &unicode);
    ck_assert(lk_normal_moves_start(&normal));
    expect(&normal, "aabb", "ab"); /* once: what arises is not looked at again */
    expect(&normal, "abab", "");
    for (size_t i = 1; i < LK_NORMAL_STEPS; i++)
        ck_assert(lk_normal_add(&normal, (struct lk_normal_step){.kind = LK_NORMAL_NFC}));
    ck_assert(!lk_normal_add(&normal, (struct lk_normal_step){.kind = LK_NORMAL_NFC,
                                                              .to = (uint8_t *)lk_strdup("x")}));
    lk_normal_done(&normal);
    lk_unicode_done(&unicode);
}
END_TEST

/* The quick check looks at 32 bytes at a time. */
START_TEST(one_letter_to_change_is_found_wherever_it_stands)
{
    char text[100], want[100];
    struct lk_unicode unicode;
    struct lk_normal normal;

    lk_unicode_init(&unicode);
    make(&normal, &unicode, 1, (enum lk_normal_kind[]){LK_NORMAL_NFC});
    for (size_t at = 0; at < sizeof text - 3; at++) {
        memset(text, 'e', sizeof text);
        memcpy(text + at + 1, "\314\201", 2);
        memset(want, 'e', sizeof want);
        memcpy(want + at, "\303\251", 2);
        expect_n(&normal, text, sizeof text, want, sizeof want - 1);
    }
    lk_normal_done(&normal);
    lk_unicode_done(&unicode);
}
END_TEST

/* Where the engines of the reference disagree: counts over all code points, from it. */
START_TEST(code_points_have_the_classes_that_the_reference_gives_them)
{
    static const size_t want[8] = {959278, 1889, 2258, 136881, 2501, 1911, 25, 9369};
    size_t classes[8] = {0}, word = 0, numeric = 0, punctuation = 0;
    struct lk_unicode unicode;

    lk_unicode_init(&unicode);
    for (uint32_t c = 0; c < 0x110000; c++) {
        unsigned flags = lk_unicode_flags(&unicode, c);
        classes[flags & LK_CLASS_MASK]++;
        word += (flags & LK_CLASS_WORD) != 0;
        numeric += (flags & LK_CLASS_NUMERIC) != 0;
        punctuation += (flags & LK_CLASS_PUNCTUATION) != 0;
    }
    ck_assert_mem_eq(classes, want, sizeof want);
    ck_assert_uint_eq(word, 144667);
    ck_assert_uint_eq(numeric, 1924);
    ck_assert_uint_eq(punctuation, 726);
    lk_unicode_done(&unicode);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("op/normal");
    TCase *t = tcase_create("normal");
    tcase_add_test(t, text_in_every_form_is_what_the_reference_makes_of_it);
    tcase_add_test(t, a_million_unsorted_marks_are_sorted_in_linear_time);
    tcase_add_test(t, letters_lose_their_case_one_by_one);
    tcase_add_test(t, white_space_is_stripped_where_it_is_asked_for);
    tcase_add_test(t, accents_vanish_from_what_is_decomposed);
    tcase_add_test(t, several_characters_replaced_move_the_start_and_one_does_not);
    tcase_add_test(t, texts_are_put_in_front_and_replaced_in_the_order_of_the_steps);
    tcase_add_test(t, one_letter_to_change_is_found_wherever_it_stands);
    tcase_add_test(t, code_points_have_the_classes_that_the_reference_gives_them);
    suite_add_tcase(s, t);
    return s;
}
