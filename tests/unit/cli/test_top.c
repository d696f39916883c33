/* What `lanekeeper top` shows of two samples, at every width and height; which cursor was which. */
#include "client/cli/top_view.h"

#include "base/utf8.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>
#include <string.h>

/* One cursor of a daemon's document. */
static void put_cursor(struct lk_buf *out, unsigned first, unsigned next, unsigned tokens, unsigned lanes)
{
    lk_buf_putf(out, "{\"first_step\":%u,\"next_step\":%u,\"asked_step\":%u,\"lanes_active\":%u,\"steps_held\":3,"
                     "\"steps_ready\":2,\"slices_measuring\":1,\"rows_fetching\":0,\"requests_waiting\":1,"
                     "\"sequences_made\":%u,\"rows\":9,\"records\":9,\"tokens_in\":%u,\"tokens_out\":%u,"
                     "\"tokens_waiting\":0,\"tokens_lost\":0,\"tokens_padded\":0,\"sequences\":4,\"cuts\":1,"
                     "\"identity\":true,\"dropped\":{\"malformed\":0,\"too_short\":1234},\"lanes\":[",
                first, next, next, lanes, next * 8, tokens, tokens);
    for (unsigned l = 0; l < lanes; l++)
        lk_buf_putf(out, "%s{\"lane\":%u,\"position\":%u,\"tokens_out\":%u,\"rows\":3}", l > 0 ? "," : "", l,
                    1000 + l, tokens / (lanes + l));
    lk_buf_puts(out, "]}");
}

static void put_daemon(struct lk_buf *out, unsigned pid, unsigned bytes, const char *cause)
{
    lk_buf_putf(out, "{\"pid\":%u,\"healthy\":true,\"health\":\"ok\",\"trainers_on_host\":7,\"refused\":0,"
                     "\"timed_out\":0,\"workers\":{\"local\":2,\"remote\":1,\"running\":3,\"queued\":4,"
                     "\"tasks\":10,\"deaths\":0,\"rows\":%u,\"tokens\":%u,\"data_bytes\":%u,"
                     "\"waits_for\":\"3 running\"},\"arena\":{\"bytes\":5242880,\"budget\":10485760,\"rows\":5},"
                     "\"waiting\":[{\"method\":\"NextBatch\",\"step\":12,\"rows\":8,\"age_ms\":2345,\"for\":\"%s\"}],"
                     "\"streams\":[", pid, bytes / 100, bytes / 4, bytes, cause);
}

static void put_stream(struct lk_buf *out, const char *name, unsigned batches)
{
    lk_buf_putf(out, "{\"name\":\"%s\",\"lanes\":8,\"sequence\":2048,\"batches\":%u,\"slots\":24,"
                     "\"slots_used\":12,\"slots_leased\":5,\"training_areas\":6,\"training_areas_used\":2,"
                     "\"cursors\":[", name, batches);
}

static struct sample sample_of(struct lk_buf *json, int64_t at_ms)
{
    struct sample sample;
    struct lk_err err;
    ck_assert_msg(sample_parse(lk_buf_cstr(json), at_ms, &sample, &err) == LK_OK, "%s", err.text);
    lk_buf_done(json);
    return sample;
}

/* Two streams; the first makes step @next. */
static struct sample usual(unsigned pid, unsigned next, int64_t at_ms, const char *cause)
{
    struct lk_buf json = {0};
    put_daemon(&json, pid, next * 1000000, cause);
    put_stream(&json, "pretrain", next * 2);
    put_cursor(&json, next - 3, next, next * 1000, 8);
    lk_buf_puts(&json, "]},");
    put_stream(&json, "validation", 0);
    lk_buf_puts(&json, "]}]}");
    return sample_of(&json, at_ms);
}

static char *text_of(const struct lines *lines)
{
    struct lk_buf all = {0};
    for (size_t i = 0; i < lines->n; i++)
        lk_buf_putf(&all, "%s\n", lines->line[i].text);
    char *text = lk_strdup(lk_buf_cstr(&all));
    lk_buf_done(&all);
    return text;
}

static char *shown(const struct top_view *view, const struct sample *old, const struct sample *new)
{
    struct lines lines = {.line = NULL};
    top_lines(view, old, new, &lines);
    char *text = text_of(&lines);
    lines_done(&lines);
    return text;
}

static void has(const char *text, const char *what)
{
    ck_assert_msg(strstr(text, what) != NULL, "no \"%s\" in\n%s", what, text);
}

static void lacks(const char *text, const char *what)
{
    ck_assert_msg(strstr(text, what) == NULL, "\"%s\" in\n%s", what, text);
}

START_TEST(everything_is_told_with_rates_of_the_interval)
{
    struct sample old = usual(77, 100, 5000, ""), new = usual(77, 120, 7000, "lane 3 needs rows");
    const struct top_view view = {.width = 120, .all = true, .address = "ipc:///run/x.sock"};
    char *text = shown(&view, &old, &new);
    has(text, "lanekeeper ipc:///run/x.sock, pid 77\n");
    has(text, "2 here, 1 elsewhere; tasks 3 running, 4 queued");
    has(text, "10.0 MB/s read, 100k rows/s, 2.50M tokens/s");
    has(text, "[||||||||||          ] 5.0 MiB of 10.0 MiB");
    has(text, "NextBatch of step 12, 8 rows, for 2.3 s: lane 3 needs rows");
    has(text, "7 trainers on the daemon's host");
    has(text, " 1 pretrain          20.0      240      5   12/24     2/6");
    has(text, "      120       120     2    10.0    10.0k       1       1");
    has(text, "dropped  1,234 too_short\n");
    has(text, "\n  7          1,007");
    has(text, "nothing has been asked for yet");
    free(text);
    sample_done(&old);
    sample_done(&new);
}
END_TEST

START_TEST(another_daemon_or_none_before_gives_no_rates)
{
    struct sample none = {.at_ms = 0}, old = usual(77, 100, 5000, ""), new = usual(78, 120, 7000, "");
    const struct top_view view = {.width = 120, .all = true};
    char *first = shown(&view, &none, &new), *other = shown(&view, &old, &new);
    has(first, "- MB/s read, - rows/s, - tokens/s");
    ck_assert_str_eq(first, other);
    free(first);
    free(other);
    sample_done(&old);
    sample_done(&new);
}
END_TEST

START_TEST(a_daemon_that_is_away_is_told_with_what_it_said_last)
{
    struct sample none = {.at_ms = 0}, new = usual(78, 120, 7000, "");
    const struct top_view view = {.width = 100, .height = 20, .address = "tcp://a:1", .away = "refused\033[2J"};
    char *text = shown(&view, &none, &none);
    has(text, "AWAY       refused\\x1b[2J; trying again\n");
    lacks(text, "workers");
    free(text);
    text = shown(&view, &none, &new);
    has(text, "What it said last:");
    has(text, "workers");
    free(text);
    sample_done(&new);
}
END_TEST

START_TEST(no_line_is_wider_and_no_screen_higher_than_it_is)
{
    struct sample old = usual(77, 100, 5000, ""), new = usual(77, 120, 7000, "lane 3 \xe2\x80\xa6 \\u0007\\n of /a/very-long/path/without/any/space/anywhere/at/all.jsonl.zst");
    for (unsigned width = 0; width <= 200; width += width < 50 ? 1 : 7) {
        for (unsigned height = 0; height <= 60; height += height < 5 ? 1 : 11) {
            struct top_view view = {.width = width, .height = height, .all = height == 0, .stream = height % 3};
            struct lines lines = {.line = NULL};
            top_lines(&view, &old, &new, &lines);
            for (size_t i = 0; i < lines.n; i++) {
                size_t columns = 0;
                bool valid = true;
                for (const char *c = lines.line[i].text; *c != '\0' && valid; columns++) {
                    ck_assert((unsigned char)*c >= ' ' && *c != 0x7f);
                    c += lk_utf8_step((const uint8_t *)c, strlen(c), &valid);
                }
                ck_assert(valid && columns <= (width < TOP_WIDTH_MIN ? TOP_WIDTH_MIN : width));
            }
            if (height > 0) {
                ck_assert_uint_eq(lines.n, height);
                ck_assert_ptr_nonnull(strstr(lines.line[height - 1].text, "q quit"));
            }
            lines_done(&lines);
        }
    }
    sample_done(&old);
    sample_done(&new);
}
END_TEST

START_TEST(one_stream_is_shown_in_full_and_its_lanes_move)
{
    struct sample none = {.at_ms = 0}, new = usual(77, 120, 7000, "");
    struct top_view view = {.width = 90, .height = 60};
    char *text = shown(&view, &none, &new);
    has(text, ">1 pretrain");
    has(text, " 2 validation");
    has(text, "\n  0          1,000");
    lacks(text, "nothing has been asked");
    free(text);
    view.first_lane = 5;
    text = shown(&view, &none, &new);
    lacks(text, "\n  4          1,004");
    has(text, "\n  5          1,005");
    has(text, "… 5 of 8 lanes above");
    free(text);
    view.stream = 1;
    text = shown(&view, &none, &new);
    has(text, ">2 validation");
    has(text, "nothing has been asked");
    free(text);
    view.only = "pretrain";
    text = shown(&view, &none, &new);
    has(text, ">1 pretrain");
    free(text);
    sample_done(&new);
}
END_TEST

static struct sample cursors(unsigned n, const unsigned (*at)[2])
{
    struct lk_buf json = {0};
    put_daemon(&json, 1, 0, "");
    put_stream(&json, "s", 0);
    for (unsigned i = 0; i < n; i++) {
        lk_buf_puts(&json, i > 0 ? "," : "");
        put_cursor(&json, at[i][0], at[i][1], at[i][1] * 10, 1);
    }
    lk_buf_puts(&json, "]}]}");
    return sample_of(&json, 1000);
}

/* The window's begin moves while a cursor is the same one. */
START_TEST(a_cursor_is_found_again_although_its_window_moved)
{
    const unsigned before[][2] = {{0, 8}, {500, 508}}, after[][2] = {{90, 99}, {505, 513}, {2000, 2001}};
    struct sample old = cursors(2, before), new = cursors(3, after);
    ck_assert_uint_eq(value_u64(sample_cursor(&old, &new, "s", 0), "next_step"), 8);
    ck_assert_uint_eq(value_u64(sample_cursor(&old, &new, "s", 1), "next_step"), 508);
    ck_assert_int_eq(sample_cursor(&old, &new, "s", 2)->type, LK_JSON_NULL);
    ck_assert_int_eq(sample_cursor(&old, &new, "s", 3)->type, LK_JSON_NULL);
    ck_assert_int_eq(sample_cursor(&new, &old, "s", 0)->type, LK_JSON_NULL);
    ck_assert_int_eq(sample_cursor(&old, &new, "t", 0)->type, LK_JSON_NULL);
    sample_done(&old);
    sample_done(&new);
}
END_TEST

START_TEST(numbers_are_short)
{
    static const struct {
        uint64_t n;
        const char *text;
    } rows[] = {{0, "0"}, {9999, "9,999"}, {10000, "10.0k"}, {99999, "99.9k"}, {123456, "123k"},
                {1234567, "1.23M"}, {999999999, "999M"}, {1000000000, "1.00G"}, {UINT64_MAX, "18.4E"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lk_buf out = {0};
        top_put_short(&out, rows[i].n);
        ck_assert_str_eq(lk_buf_cstr(&out), rows[i].text);
        lk_buf_done(&out);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("top");
    TCase *c = tcase_create("top");
    tcase_add_test(c, everything_is_told_with_rates_of_the_interval);
    tcase_add_test(c, another_daemon_or_none_before_gives_no_rates);
    tcase_add_test(c, a_daemon_that_is_away_is_told_with_what_it_said_last);
    tcase_add_test(c, no_line_is_wider_and_no_screen_higher_than_it_is);
    tcase_add_test(c, one_stream_is_shown_in_full_and_its_lanes_move);
    tcase_add_test(c, a_cursor_is_found_again_although_its_window_moved);
    tcase_add_test(c, numbers_are_short);
    suite_add_tcase(s, c);
    return s;
}
