#include "base/keys.h"
#include "tests/lib/check_main.h"
#include "tests/lib/feed.h"

enum { N = 400, T = 32, BINS = 5 };

static const uint32_t group_of[1] = {0};

static void make_trial(struct trial *t, bool best, uint32_t bins, const uint32_t *tokens, uint32_t n)
{
    trial_init(t, SEQ_FIT,
               &(struct seq_params){.sequence = T, .pool = bins, .groups = 1, .group_of = group_of,
                                    .best = best, .bounds.datasets = 1},
               &(struct feed){.tokens = tokens, .n = n, .wants = true});
}

/* The same by searching all bins from end to end. */
struct naive {
    uint32_t room[BINS], since[BINS], n[BINS], row[BINS][N];
    uint32_t clock;
    struct lk_buf text;
};

static void naive_give(struct naive *v, uint32_t b)
{
    lk_buf_puts(&v->text, v->text.len > 0 ? " /" : "");
    for (uint32_t i = 0; i < v->n[b]; i++)
        lk_buf_putf(&v->text, "%s%u", v->text.len > 0 ? " " : "", v->row[b][i]);
    v->n[b] = 0;
    v->room[b] = T;
    v->since[b] = ++v->clock;
}

/* The bin with the least room of those with at least @tokens; @first: the lowest number instead. */
static uint32_t naive_find(const struct naive *v, uint32_t tokens, bool first)
{
    uint32_t found = BINS;
    for (uint32_t b = 0; b < BINS; b++) {
        if (v->room[b] < tokens || (first && found < BINS))
            continue;
        if (found == BINS || v->room[b] < v->room[found] ||
            (v->room[b] == v->room[found] && v->since[b] < v->since[found]))
            found = b;
    }
    return found;
}

static void naive_run(struct naive *v, bool best, const uint32_t *tokens, uint32_t n)
{
    *v = (struct naive){.clock = BINS};
    for (uint32_t b = 0; b < BINS; b++) {
        v->room[b] = T;
        v->since[b] = b;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t b = naive_find(v, tokens[i], !best);
        if (b == BINS) {
            naive_give(v, naive_find(v, 1, false));
            b = naive_find(v, tokens[i], !best);
        }
        v->row[b][v->n[b]++] = i;
        v->room[b] -= tokens[i];
        v->since[b] = ++v->clock;
        if (v->room[b] == 0)
            naive_give(v, b);
    }
    for (uint32_t b = 0; b < BINS; b++)
        if (v->n[b] > 0)
            naive_give(v, b);
}

static void agree(bool best)
{
    static struct naive naive;
    for (uint64_t key = 0; key < 50; key++) {
        uint32_t tokens[N];
        for (uint64_t i = 0; i < N; i++)
            tokens[i] = 1 + (uint32_t)lk_below(lk_key(key, i), key % 2 == 0 ? T : T / 3);
        naive_run(&naive, best, tokens, N);

        struct trial t;
        struct lk_item item;
        struct lk_buf text = {0};
        make_trial(&t, best, BINS, tokens, N);
        while (trial_next(&t, &item) == SEQ_OK) {
            lk_buf_puts(&text, text.len > 0 ? " /" : "");
            for (uint32_t i = 0; i < item.n; i++) {
                ck_assert_uint_eq(item.span[i].first, 0); /* documents stay whole */
                lk_buf_putf(&text, "%s%u", text.len > 0 ? " " : "", (unsigned)item.span[i].row);
            }
        }
        ck_assert_str_eq(lk_buf_cstr(&text), lk_buf_cstr(&naive.text));
        ck_assert_uint_eq(t.counts.lost, 0);
        ck_assert_uint_eq(t.counts.padded, t.counts.sequences * T - t.out);
        trial_done(&t);
        lk_buf_done(&text);
        lk_buf_done(&naive.text);
    }
}

START_TEST(first_fit_agrees_with_a_plain_search)
{
    agree(false);
}
END_TEST

START_TEST(best_fit_agrees_with_a_plain_search)
{
    agree(true);
}
END_TEST

START_TEST(first_fit_takes_the_first_bin_and_best_fit_the_fullest)
{
    static const uint32_t tokens[] = {10, 30, 2, 20};
    struct lk_buf text = {0};
    struct trial t;
    make_trial(&t, false, 2, tokens, 4);
    ck_assert_str_eq(trial_text(&t, 9, &text), "0:0+10 2:0+2 3:0+20 / 1:0+30");
    trial_done(&t);
    make_trial(&t, true, 2, tokens, 4);
    ck_assert_str_eq(trial_text(&t, 9, &text), "1:0+30 2:0+2 / 0:0+10 3:0+20");
    trial_done(&t);
    lk_buf_done(&text);
}
END_TEST

START_TEST(the_fullest_bin_is_padded_when_none_has_room)
{
    static const uint32_t tokens[] = {20, 25, 13};
    struct lk_buf text = {0};
    struct trial t;
    make_trial(&t, false, 2, tokens, 3);
    ck_assert_str_eq(trial_text(&t, 1, &text), "1:0+25");
    ck_assert_uint_eq(t.counts.padded, T - 25);
    ck_assert_str_eq(trial_text(&t, 9, &text), "0:0+20 / 2:0+13");
    trial_done(&t);
    lk_buf_done(&text);
}
END_TEST

START_TEST(a_record_longer_than_the_sequence_is_an_error_that_names_it_and_loses_nothing)
{
    static const uint32_t tokens[] = {5, T + 1};
    struct trial t;
    struct lk_item item;
    make_trial(&t, true, 2, tokens, 2);
    ck_assert_int_eq(trial_next(&t, &item), SEQ_ERROR);
    ck_assert_int_eq(t.err.code, LK_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(t.err.text, "row 1"));
    ck_assert_ptr_nonnull(strstr(t.err.text, "split"));
    ck_assert_uint_eq(t.ops->waiting(t.stage), 5 + T + 1);
    ck_assert_int_eq(trial_next(&t, &item), SEQ_ERROR);
    trial_done(&t);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("seq/fit");
    TCase *t = tcase_create("fit");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, first_fit_agrees_with_a_plain_search);
    tcase_add_test(t, best_fit_agrees_with_a_plain_search);
    tcase_add_test(t, first_fit_takes_the_first_bin_and_best_fit_the_fullest);
    tcase_add_test(t, the_fullest_bin_is_padded_when_none_has_room);
    tcase_add_test(t, a_record_longer_than_the_sequence_is_an_error_that_names_it_and_loses_nothing);
    suite_add_tcase(s, t);
    return s;
}
