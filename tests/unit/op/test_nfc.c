/*
 * Composition as the reference's normaliser does it; expected values from it.
 */
#include "op/text/nfc.h"

#include "tests/lib/check_main.h"

#include <string.h>

static const struct {
    const char *text, *normal;
} cases[] = {
    {"plain", "plain"},
    {"e\314\201", "\303\251"},
    {"\341\204\200\341\205\241\341\206\250x", "\352\260\201x"},
    {"\352\260\200\341\206\250", "\352\260\201"},
    {"a\314\225\314\200\326\256\314\200b", "\303\240\326\256\314\200\314\225b"},
    {"\342\204\253\342\204\246", "\303\205\316\251"},
    {"\340\245\230", "\340\244\225\340\244\274"},
    {"\315\204", "\314\210\314\201"},
    {"\341\272\233\314\243", "\341\272\233\314\243"},
    {"\314\201a\314\201", "\314\201\303\241"},
    {"\360\235\205\236", "\360\235\205\227\360\235\205\245"},
    {"\340\257\206\340\256\276", "\340\257\212"},
    {"e\314\247\314\201", "\310\251\314\201"},
    {"A\314\212\314\201", "\307\272"},
    {"\341\204\200\341\205\241\341\205\241\341\206\250", "\352\260\200\341\205\241\341\206\250"},
};

static void normalise(const char *text, size_t n, struct lk_buf *out)
{
    struct lk_unicode unicode;
    struct lk_nfc_scratch scratch = {0};
    struct lk_nfc nfc = {0};

    lk_unicode_init(&unicode);
    lk_nfc_init(&nfc);
    lk_nfc_append(&nfc, &unicode, &scratch, (const uint8_t *)text, n, out);
    /* What passes the quick check is its own normal form. */
    if (lk_nfc_quick(&unicode, (const uint8_t *)text, n)) {
        ck_assert_uint_eq(out->len, n);
        ck_assert_mem_eq(out->data, text, n);
    }
    lk_nfc_scratch_done(&scratch);
    lk_nfc_done(&nfc);
    lk_unicode_done(&unicode);
}

START_TEST(text_becomes_what_the_reference_makes_of_it)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lk_buf out = {0};
        normalise(cases[i].text, strlen(cases[i].text), &out);
        ck_assert_str_eq(lk_buf_cstr(&out), cases[i].normal);
        out.len = 0; /* and that is final */
        normalise(cases[i].normal, strlen(cases[i].normal), &out);
        ck_assert_str_eq(lk_buf_cstr(&out), cases[i].normal);
        lk_buf_done(&out);
    }
}
END_TEST

START_TEST(a_million_unsorted_marks_are_sorted_in_linear_time)
{
    static const char above[] = "\314\201", below[] = "\314\247"; /* U+0301: 230, U+0327: 202 */
    struct lk_buf text = {0}, out = {0};

    lk_buf_puts(&text, "x");
    for (size_t i = 0; i < 250000; i++) {
        lk_buf_puts(&text, above);
        lk_buf_puts(&text, below);
    }
    normalise((const char *)text.data, text.len, &out);
    ck_assert_uint_eq(out.len, text.len);
    ck_assert_mem_eq(out.data + 1, below, 2);
    ck_assert_mem_eq(out.data + 499999, below, 2);
    ck_assert_mem_eq(out.data + 500001, above, 2);
    lk_buf_done(&text);
    lk_buf_done(&out);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("op/nfc");
    TCase *t = tcase_create("nfc");
    tcase_add_test(t, text_becomes_what_the_reference_makes_of_it);
    tcase_add_test(t, a_million_unsorted_marks_are_sorted_in_linear_time);
    suite_add_tcase(s, t);
    return s;
}
