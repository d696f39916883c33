/*
 * A good configuration, damaged at every byte: it is accepted or refused with a message, but never
 * crashes and never reads beyond its end (the copy is exactly as long as the text, for ASan).
 */
#include "tests/unit/config/sample.h"

#include "config/canonical.h"
#include "tests/lib/check_main.h"

/* Parses an exact copy; true when it was accepted. */
static bool try_parse(const char *text, size_t n)
{
    char *copy = lk_alloc(n);
    struct lk_config config;
    struct lk_err err = {.text = ""};
    if (n > 0)
        memcpy(copy, text, n);
    enum lk_code code = lk_config_parse("c.yaml", copy, n, "/conf", &config, &err);
    free(copy);
    if (code != LK_OK) {
        ck_assert_int_eq(code, LK_INVALID_ARGUMENT);
        ck_assert_int_eq(strncmp(err.text, "c.yaml:", 7), 0);
        return false;
    }
    struct lk_buf order = {0}, batch = {0};
    for (uint32_t i = 0; i < config.n_streams; i++)
        lk_recipe_canonical(&config.stream[i], &order, &batch);
    lk_buf_done(&order);
    lk_buf_done(&batch);
    lk_config_done(&config);
    return true;
}

START_TEST(truncation_at_every_byte_is_harmless)
{
    unsigned refused = 0;
    for (size_t n = 0; n < sizeof sample; n++)
        refused += !try_parse(sample, n);
    ck_assert_uint_gt(refused, 400); /* all that end before the pipeline is whole */
}
END_TEST

static const char replacements[] = {'\0', '\t', '\n', '\r', ' ',  '!',  '"',    '#',    '%',   '&',
                                    '*',  ',',  '-',  '0',  ':',  '<',  '>',    '?',    '@',   '[',
                                    ']',  '`',  '{',  '|',  '}',  '~',  '\x01', '\x7F', '\xC3', '\xFF'};

START_TEST(replacing_every_byte_is_harmless)
{
    char text[sizeof sample];
    char with = replacements[_i];
    unsigned refused = 0;
    memcpy(text, sample, sizeof sample);
    for (size_t i = 0; i + 1 < sizeof sample; i++) {
        text[i] = with;
        refused += !try_parse(text, sizeof sample - 1);
        text[i] = sample[i];
    }
    ck_assert_uint_gt(refused, 0);
}
END_TEST

START_TEST(inserting_at_every_byte_is_harmless)
{
    char text[sizeof sample + 1];
    char with = replacements[_i];
    unsigned refused = 0;
    for (size_t i = 0; i + 1 < sizeof sample; i++) {
        memcpy(text, sample, i);
        text[i] = with;
        memcpy(text + i + 1, sample + i, sizeof sample - 1 - i);
        refused += !try_parse(text, sizeof sample);
    }
    ck_assert_uint_gt(refused, 0);
}
END_TEST

START_TEST(deleting_or_doubling_every_line_is_harmless)
{
    unsigned refused = 0;
    for (const char *line = sample; *line != '\0';) {
        const char *end = strchr(line, '\n') + 1;
        char *without = lk_format("%.*s%s", (int)(line - sample), sample, end);
        char *doubled = lk_format("%.*s%s", (int)(end - sample), sample, line);
        refused += !try_parse(without, strlen(without));
        refused += !try_parse(doubled, strlen(doubled));
        free(without);
        free(doubled);
        line = end;
    }
    ck_assert_uint_gt(refused, 20);
}
END_TEST

/* An alias bomb, and depth without end: refused at once, at their first sign. */
START_TEST(bombs_are_refused)
{
    struct lk_buf text = {0};
    lk_buf_puts(&text, "a: &a [x,x,x,x,x,x,x,x]\n");
    for (char c = 'b'; c < 'z'; c++)
        lk_buf_putf(&text, "%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c - 1, c - 1, c - 1, c - 1,
                    c - 1, c - 1);
    must_fail(lk_buf_cstr(&text), "anchors");
    text.len = 0;
    for (int i = 0; i < 500000; i++)
        lk_buf_puts(&text, "[{");
    must_fail(lk_buf_cstr(&text), "c.yaml:1:");
    text.len = 0;
    for (int i = 0; i < 500000; i++)
        lk_buf_puts(&text, "- ");
    must_fail(lk_buf_cstr(&text), "c.yaml:1:");
    text.len = 0;
    for (int i = 0; i < 140000; i++)
        lk_buf_putf(&text, "%x:\n", i);
    must_fail(lk_buf_cstr(&text), "too many entries");
    lk_buf_done(&text);
}
END_TEST

Suite *suite(void)
{
    int n = (int)sizeof replacements;
    Suite *s = suite_create("config/damage");
    TCase *t = tcase_create("damage");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, truncation_at_every_byte_is_harmless);
    tcase_add_loop_test(t, replacing_every_byte_is_harmless, 0, n);
    tcase_add_loop_test(t, inserting_at_every_byte_is_harmless, 0, n);
    tcase_add_test(t, deleting_or_doubling_every_line_is_harmless);
    tcase_add_test(t, bombs_are_refused);
    suite_add_tcase(s, t);
    return s;
}
