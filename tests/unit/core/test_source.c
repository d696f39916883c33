#include "core/source.h"

#include "tests/lib/check_main.h"
#include "tests/lib/synth.h"

#include <string.h>

static struct synth s;
static struct source *source;
static struct lk_err err;

static void begin(void)
{
    synth_init(&s, 8);
    synth_pack(&s, LK_PACK_CONCAT, 0);
}

static void start(void)
{
    ck_assert_int_eq(synth_plan(&s, &err), LK_OK);
    source = source_new(&s.plan, 0);
}

static void end(void)
{
    source_free(source);
    source_free(NULL);
    synth_done(&s);
}

static enum seq_pull next(struct lk_item *ret_item)
{
    enum seq_pull got;
    while ((got = source_next(source, ret_item, &err)) == SEQ_WANT)
        ck_assert(synth_feed(&s, source, source_wanted(source)));
    return got;
}

/* Adds a dataset whose rows are called 10*d, 10*d + 1, … in what drawn() says. */
static void add_ids(uint32_t rows, uint32_t epochs, enum lk_then then)
{
    struct lk_dataset_recipe *dataset = synth_dataset(&s, 1, rows);
    dataset->epochs = epochs;
    dataset->then = then;
}

/* The next @max records, by the names above. */
static const char *drawn(uint32_t max, struct lk_buf *text)
{
    struct lk_item item;
    text->len = 0;
    for (uint32_t i = 0; i < max && next(&item) == SEQ_OK; i++)
        lk_buf_putf(text, "%s%u", i > 0 ? " " : "",
                    10 * item.span->dataset + (unsigned)item.span->row);
    return lk_buf_cstr(text);
}

START_TEST(rc_081_stop_ends_with_the_first_dataset_that_is_asked_for_and_has_no_more)
{
    struct lk_buf text = {0};
    begin();
    add_ids(3, 1, LK_THEN_STOP);
    add_ids(4, 1, LK_THEN_STOP);
    add_ids(5, 1, LK_THEN_STOP);
    start();
    ck_assert_str_eq(drawn(99, &text), "0 10 20 1 11 21 2 12 22");
    lk_buf_done(&text);
    end();
}
END_TEST

START_TEST(rc_081_repeat_goes_round)
{
    struct lk_buf text = {0};
    begin();
    add_ids(3, 0, LK_THEN_REPEAT);
    add_ids(4, 0, LK_THEN_REPEAT);
    add_ids(5, 1, LK_THEN_STOP);
    start();
    ck_assert_str_eq(drawn(15, &text), "0 10 20 1 11 21 2 12 22 0 13 23 1 10 24");
    lk_buf_done(&text);
    end();
}
END_TEST

START_TEST(rc_081_release_goes_on_without_the_dataset_that_has_no_more)
{
    struct lk_buf text = {0};
    begin();
    add_ids(3, 1, LK_THEN_RELEASE);
    add_ids(4, 1, LK_THEN_RELEASE);
    add_ids(3, 1, LK_THEN_RELEASE);
    start();
    ck_assert_str_eq(drawn(99, &text), "0 10 20 1 11 21 2 12 22 13");
    ck_assert(!source_takes_part(source, 0));
    ck_assert(!synth_feed(&s, source, 0));
    lk_buf_done(&text);
    end();
}
END_TEST

START_TEST(rc_077_three_hundred_datasets_of_equal_weight_are_each_drawn_once_in_a_round)
{
    struct lk_item item;
    begin();
    for (int d = 0; d < 300; d++)
        (void)synth_dataset(&s, 1, 1);
    start();
    for (uint32_t i = 0; i < 600; i++) {
        ck_assert_int_eq(next(&item), SEQ_OK);
        ck_assert_uint_eq(item.span->dataset, i % 300);
        ck_assert_uint_eq(item.span->epoch, i / 300);
    }
    end();
}
END_TEST

/* Draws @records and checks at every moment that no dataset is ahead of its share or behind it by more
 * than one record of at most @most. */
static void check_shares(uint64_t records, uint64_t most)
{
    __extension__ typedef __int128 i128;
    uint64_t cost[SYNTH_DATASETS_MAX] = {0}, total = 0, weights = 0;
    uint32_t n = s.recipe.n_datasets;
    for (uint32_t d = 0; d < n; d++)
        weights += s.dataset[d].weight;
    for (uint64_t i = 0; i < records; i++) {
        struct lk_item item;
        ck_assert_int_eq(next(&item), SEQ_OK);
        uint64_t c = s.recipe.mixture == LK_MEASURE_SAMPLES ? 1 : item.tokens;
        cost[item.span->dataset] += c;
        total += c;
        for (uint32_t d = 0; d < n; d++) {
            i128 over = (i128)weights * cost[d] - (i128)s.dataset[d].weight * total;
            if (over > (i128)weights * most || -over > (i128)weights * most)
                ck_abort_msg("record %llu: dataset %u is off its share", (unsigned long long)i, d);
        }
    }
}

START_TEST(rc_078_extreme_weights_are_kept_within_one_record_at_every_moment)
{
    static const uint64_t weights[][3] = {{1, 999, 0}, {999, 1, 0}, {1, 1, 999999998},
                                          {999999998, 1, 1}, {1, 999999999, 0}};
    for (int i = 0; i < 5; i++) {
        begin();
        for (int d = 0; d < 3 && weights[i][d] > 0; d++)
            (void)synth_dataset(&s, weights[i][d], 100);
        start();
        check_shares(100000, 1);
        ck_assert_uint_ge(source_epoch(source, i == 0 || i == 4 ? 1 : i == 2 ? 2 : 0), 998);
        end();
    }
}
END_TEST

START_TEST(the_picks_of_small_weights_are_exact)
{
    struct lk_buf text = {0};
    begin();
    (void)synth_dataset(&s, 7, 1);
    (void)synth_dataset(&s, 3, 1);
    start();
    ck_assert_str_eq(drawn(10, &text), "0 10 0 0 10 0 0 10 0 0");
    end();
    begin();
    (void)synth_dataset(&s, 2, 1);
    (void)synth_dataset(&s, 1, 1);
    (void)synth_dataset(&s, 1, 1);
    start();
    ck_assert_str_eq(drawn(12, &text), "0 10 0 20 0 10 0 20 0 10 0 20");
    end();
    lk_buf_done(&text);
}
END_TEST

/* @datasets with random weights and rows of 0 to 99 tokens, a fifth of them dropped. */
static void start_random(uint64_t key, uint32_t datasets)
{
    uint32_t tokens[200];
    begin();
    s.recipe.mixture = LK_MEASURE_TOKENS;
    s.recipe.permute_blocks = s.recipe.permute_rows = true;
    for (uint32_t d = 0; d < datasets; d++) {
        uint64_t of = lk_key(key, d);
        for (uint64_t i = 0; i < 200; i++)
            tokens[i] = lk_below(lk_key(of, 2 * i), 5) == 0
                            ? 0
                            : 1 + (uint32_t)lk_below(lk_key(of, 2 * i + 1), 99);
        (void)synth_tokens(&s, 1 + lk_below(lk_key(of, 500), 100), tokens, 200, LK_THEN_REPEAT);
    }
    start();
}

START_TEST(shares_of_two_in_surviving_tokens_are_within_one_record_at_every_moment)
{
    for (uint64_t key = 0; key < 20; key++) {
        start_random(key, 2);
        check_shares(5000, 99);
        end();
    }
}
END_TEST

START_TEST(shares_of_many_in_surviving_tokens_are_within_one_record_at_every_moment)
{
    for (uint64_t key = 0; key < 24; key++) {
        start_random(100 + key, key < 20 ? 3 + (uint32_t)key % 8 : 100);
        check_shares(3000, 99);
        end();
    }
}
END_TEST

START_TEST(dropped_rows_are_counted_listed_in_order_and_cost_nothing)
{
    static const uint64_t where[] = {0, 2, 3};
    static const uint32_t some[] = {0, 5, 0, 0, 5}, all[] = {5, 5, 5, 5, 5};
    struct lk_buf text = {0};
    struct lk_dropped dropped[8];
    begin();
    (void)synth_tokens(&s, 1, some, 5, LK_THEN_RELEASE);
    (void)synth_tokens(&s, 1, all, 5, LK_THEN_RELEASE);
    s.row[0][2].drop = 4;
    start();
    ck_assert_str_eq(drawn(99, &text), "1 10 4 11 12 13 14");
    ck_assert_uint_eq(source_counts(source, 0)->rows, 5);
    ck_assert_uint_eq(source_counts(source, 0)->records, 2);
    ck_assert_uint_eq(source_counts(source, 0)->dropped[1], 2);
    ck_assert_uint_eq(source_counts(source, 0)->dropped[4], 1);
    ck_assert_uint_eq(source_take_dropped(source, dropped, 2), 2);
    ck_assert_uint_eq(source_take_dropped(source, dropped + 2, 6), 1);
    ck_assert_uint_eq(source_take_dropped(source, dropped + 3, 5), 0);
    for (int i = 0; i < 3; i++)
        ck_assert(dropped[i].dataset == 0 && dropped[i].drop == (i == 1 ? 4 : 1) &&
                  dropped[i].row == where[i]);
    lk_buf_done(&text);
    end();
}
END_TEST

START_TEST(a_repeated_dataset_that_yields_no_token_is_an_error_and_no_loop)
{
    static const uint32_t none[40] = {0};
    struct lk_item item;
    begin();
    synth_tokens(&s, 1, none, 40, LK_THEN_REPEAT)->epochs = 0;
    start();
    ck_assert_int_eq(next(&item), SEQ_ERROR);
    ck_assert_int_eq(err.code, LK_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(err.text, "d0"));
    ck_assert_ptr_nonnull(strstr(err.text, "40 rows"));
    ck_assert_uint_eq(source_counts(source, 0)->dropped[1], 40);
    end();
}
END_TEST

START_TEST(no_slice_has_more_rows_than_there_is_room_for_and_what_has_ended_plans_none)
{
    struct lk_slice slice;
    struct lk_item item;
    begin();
    struct lk_dataset_recipe *dataset = synth_dataset(&s, 1, 200000);
    dataset->epochs = 1;
    dataset->then = LK_THEN_STOP;
    start();
    do
        ck_assert(source_plan(source, 0, UINT64_MAX, UINT32_MAX, &slice));
    while (slice.n < LK_SLICE_ROWS_MAX && source_planned(source, 0) < LK_SLICES_MAX);
    ck_assert_uint_eq(slice.n, LK_SLICE_ROWS_MAX);
    end();

    begin();
    add_ids(1, 1, LK_THEN_STOP);
    add_ids(9, 1, LK_THEN_STOP);
    start();
    while (next(&item) == SEQ_OK)
        continue;
    for (uint32_t d = 0; d < 2; d++)
        ck_assert(!source_plan(source, d, UINT64_MAX, 1, &slice));
    end();
}
END_TEST

START_TEST(slices_go_on_over_blocks_in_drawn_order_within_their_limits_and_their_pass)
{
    struct lk_slice slice;
    uint32_t bytes[100];
    for (uint32_t i = 0; i < 100; i++)
        bytes[i] = 10;
    begin();
    (void)synth_dataset(&s, 1, 100);
    s.shape[0].row_bytes = bytes;
    start(); /* 100 rows make blocks of 3 */
    ck_assert(source_plan(source, 0, UINT64_MAX, 2, &slice));
    ck_assert(slice.n == 2 && slice.rows[0] == 0 && slice.rows[1] == 1 && slice.bytes == 20);
    ck_assert(source_plan(source, 0, 49, 99, &slice));
    ck_assert(slice.n == 4 && slice.rows[0] == 2 && slice.rows[1] == 3 && slice.rows[3] == 5);
    ck_assert(source_plan(source, 0, 1, 99, &slice)); /* one row even beyond the limit */
    ck_assert(slice.n == 1 && slice.rows[0] == 6);
    ck_assert(source_plan(source, 0, UINT64_MAX, 200, &slice));
    ck_assert(slice.n == 93 && slice.rows[0] == 7 && slice.rows[92] == 99 && slice.epoch == 0);
    ck_assert(source_plan(source, 0, 20, 99, &slice));
    ck_assert(slice.n == 2 && slice.rows[0] == 0 && slice.epoch == 1);
    for (uint32_t i = 5; i < LK_SLICES_MAX; i++)
        ck_assert(source_plan(source, 0, 20, 99, &slice));
    ck_assert(!source_plan(source, 0, 20, 99, &slice));
    ck_assert_uint_eq(source_planned(source, 0), LK_SLICES_MAX);
    source_check(source);
    end();
}
END_TEST

/* Wherever it is drawn to, in the midst of a block, or of a slice over many. */
START_TEST(a_state_names_the_next_row_whatever_slice_that_is_in)
{
    for (uint32_t most = 1; most <= 64; most += 7)
        for (uint32_t drawn_rows = 0; drawn_rows < 130; drawn_rows++) {
            struct lk_buf state = {0};
            struct lk_item item;
            begin();
            (void)synth_dataset(&s, 1, 100);
            s.slice_rows = most;
            start();
            for (uint32_t i = 0; i < drawn_rows; i++)
                ck_assert_int_eq(next(&item), SEQ_OK);
            source_save(source, &state);
            source_free(source);
            source = source_new(&s.plan, 0);
            struct lk_reader in = {.at = state.data, .end = state.data + state.len};
            source_load(source, &in);
            ck_assert(!in.bad && in.at == in.end);
            ck_assert_int_eq(next(&item), SEQ_OK);
            ck_assert(item.span->row == drawn_rows % 100 && item.span->epoch == drawn_rows / 100);
            lk_buf_done(&state);
            end();
        }
}
END_TEST

START_TEST(late_repeated_and_unknown_measures_are_ignored)
{
    struct lk_slice first, second;
    struct lk_row_measure seven[1] = {{.tokens = 7}}, nine[1] = {{.tokens = 9}};
    struct lk_item item;
    begin();
    (void)synth_dataset(&s, 1, 100);
    start();
    ck_assert(source_plan(source, 0, UINT64_MAX, 1, &first));
    ck_assert(source_plan(source, 0, UINT64_MAX, 1, &second));
    source_measured(source, 0, second.id, nine, 1);
    ck_assert_int_eq(source_next(source, &item, &err), SEQ_WANT);
    source_measured(source, 0, 12345, nine, 1);
    ck_assert_int_eq(source_next(source, &item, &err), SEQ_WANT);
    source_measured(source, 0, first.id, seven, 1);
    source_measured(source, 0, first.id, nine, 1);
    ck_assert_int_eq(source_next(source, &item, &err), SEQ_OK);
    ck_assert_uint_eq(item.tokens, 7);
    source_measured(source, 0, first.id, nine, 1);
    ck_assert_int_eq(source_next(source, &item, &err), SEQ_OK);
    ck_assert_uint_eq(item.tokens, 9);
    ck_assert_int_eq(source_next(source, &item, &err), SEQ_WANT);
    ck_assert_uint_eq(source_wanted(source), 0);
    end();
}
END_TEST

START_TEST(rows_before_one_that_cannot_be_measured_are_drawn)
{
    struct lk_slice first, second;
    struct lk_row_measure some[3] = {{.tokens = 7}, {.drop = 2}, {.tokens = 9}};
    struct lk_item item;
    uint64_t front;
    begin();
    (void)synth_dataset(&s, 1, 100);
    start();
    ck_assert(source_plan(source, 0, UINT64_MAX, 5, &first));
    ck_assert(source_plan(source, 0, UINT64_MAX, 5, &second));
    source_measured(source, 0, second.id, some, 1);
    source_measured(source, 0, first.id, some, 3);
    ck_assert_int_eq(source_next(source, &item, &err), SEQ_OK);
    ck_assert_uint_eq(item.tokens, 7);
    ck_assert_int_eq(source_next(source, &item, &err), SEQ_OK);
    ck_assert_uint_eq(item.span->row, 2);
    source_check(source);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(source_next(source, &item, &err), SEQ_WANT);
        ck_assert(source_front(source, 0, &front) && front == first.id);
        source_measured(source, 0, first.id, some, 3); /* no second time */
    }
    end();
}
END_TEST

START_TEST(rc_085_a_thousand_rows_asked_for_far_beyond_their_number_go_round)
{
    struct lk_item item;
    begin();
    (void)synth_dataset(&s, 1, 1000);
    s.slice_rows = LK_SLICE_ROWS_MAX;
    start();
    for (uint64_t i = 0; i < 1000000; i++) {
        if (next(&item) != SEQ_OK || item.span->row != i % 1000 || item.span->epoch != i / 1000)
            ck_abort_msg("record %llu", (unsigned long long)i);
    }
    end();
}
END_TEST

Suite *suite(void)
{
    Suite *suite_ = suite_create("core/source");
    TCase *t = tcase_create("source");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, rc_081_stop_ends_with_the_first_dataset_that_is_asked_for_and_has_no_more);
    tcase_add_test(t, rc_081_repeat_goes_round);
    tcase_add_test(t, rc_081_release_goes_on_without_the_dataset_that_has_no_more);
    tcase_add_test(t, rc_077_three_hundred_datasets_of_equal_weight_are_each_drawn_once_in_a_round);
    tcase_add_test(t, rc_078_extreme_weights_are_kept_within_one_record_at_every_moment);
    tcase_add_test(t, the_picks_of_small_weights_are_exact);
    tcase_add_test(t, shares_of_two_in_surviving_tokens_are_within_one_record_at_every_moment);
    tcase_add_test(t, shares_of_many_in_surviving_tokens_are_within_one_record_at_every_moment);
    tcase_add_test(t, dropped_rows_are_counted_listed_in_order_and_cost_nothing);
    tcase_add_test(t, a_repeated_dataset_that_yields_no_token_is_an_error_and_no_loop);
    tcase_add_test(t, no_slice_has_more_rows_than_there_is_room_for_and_what_has_ended_plans_none);
    tcase_add_test(t, slices_go_on_over_blocks_in_drawn_order_within_their_limits_and_their_pass);
    tcase_add_test(t, a_state_names_the_next_row_whatever_slice_that_is_in);
    tcase_add_test(t, rows_before_one_that_cannot_be_measured_are_drawn);
    tcase_add_test(t, late_repeated_and_unknown_measures_are_ignored);
    tcase_add_test(t, rc_085_a_thousand_rows_asked_for_far_beyond_their_number_go_round);
    suite_add_tcase(suite_, t);
    return suite_;
}
