#include "core/lane.h"

#include "core/steps.h"
#include "tests/lib/check_main.h"
#include "tests/lib/synth.h"

#include <malloc.h>
#include <string.h>

static struct synth s;
static struct lk_err err;

/* A stream of ids: one row is one token is one sequence, in order. */
static void begin_ids(uint32_t lanes, uint64_t rows)
{
    synth_init(&s, 1);
    s.recipe.lanes = lanes;
    synth_pack(&s, LK_PACK_CONCAT, 0);
    struct lk_dataset_recipe *dataset = synth_dataset(&s, 1, rows);
    dataset->epochs = 1;
    dataset->then = LK_THEN_STOP;
    ck_assert_int_eq(synth_plan(&s, &err), LK_OK);
}

/* A stream with everything in it: three datasets, drops, two shuffles, groups and exact_fit. */
static void begin_all(enum lk_pack algorithm)
{
    uint32_t tokens[150];
    synth_init(&s, 32);
    s.recipe.lanes = 3;
    s.recipe.mixture = LK_MEASURE_TOKENS;
    s.recipe.permute_blocks = s.recipe.permute_rows = true;
    for (uint32_t d = 0; d < 3; d++) {
        for (uint64_t i = 0; i < 150; i++)
            tokens[i] = (uint32_t)lk_below(lk_key(d, i), 70);
        synth_tokens(&s, 5 - 2 * d, tokens, 150, (enum lk_then)d)->group = d % 2;
    }
    synth_stage(&s, LK_STAGE_SPLIT)->max_tokens = algorithm == LK_PACK_EXACT_FIT ? 50 : 32;
    synth_stage(&s, LK_STAGE_SHUFFLE)->buffer = 6;
    synth_pack(&s, algorithm, 5);
    s.recipe.stage[2].groups = 2;
    synth_stage(&s, LK_STAGE_SHUFFLE)->buffer = 3;
    s.slice_rows = 4;
    ck_assert_int_eq(synth_plan(&s, &err), LK_OK);
}

static void check_identity(const struct lk_lane *lane)
{
    struct lane_totals t;
    lane_check(lane);
    lane_totals(lane, &t);
    ck_assert_uint_eq(t.tokens_in, t.tokens_out + t.pack.lost + t.waiting);
}

/* All sequences from here to the end, as text. */
static const char *rest_of(struct lk_lane *lane, struct lk_buf *text)
{
    struct lk_item item;
    enum seq_pull got;
    text->len = 0;
    while ((got = synth_next(&s, lane, &item)) == SEQ_OK) {
        check_identity(lane);
        for (uint32_t i = 0; i < item.n; i++)
            lk_buf_putf(text, " %u:%llu:%u:%u+%u", item.span[i].dataset,
                        (unsigned long long)item.span[i].row, item.span[i].epoch,
                        item.span[i].first, item.span[i].tokens);
        lk_buf_puts(text, " /");
    }
    ck_assert_int_eq(got, SEQ_END);
    check_identity(lane);
    return lk_buf_cstr(text);
}

/* The ids of rows [first, first + n) of @step, of lanes made for the purpose. */
static void read_rows(uint64_t step, struct steps_cut cut, uint64_t *ret_ids)
{
    uint32_t size = steps_size(&s.recipe, step), share = size / s.recipe.lanes;
    for (uint32_t row = cut.first; row < cut.first + cut.rows; row++) {
        struct lk_lane *lane = lane_new(&s.plan, steps_lane(&s.recipe, size, row));
        uint64_t position = steps_start(&s.recipe, step) + row % share;
        struct lk_item item;
        while (lane_position(lane) <= position)
            ck_assert_int_eq(synth_next(&s, lane, &item), SEQ_OK);
        *ret_ids++ = item.span->row;
        lane_free(lane);
    }
}

START_TEST(rc_007_every_world_reads_the_batch_and_every_sample_once)
{
    static const uint32_t worlds[] = {4, 3, 6, 1};
    uint64_t ids[12];
    begin_ids(1, 240);
    s.batch[0].size = 12;
    for (uint64_t step = 0; step < 20; step++) {
        uint32_t world = worlds[step / 5];
        for (uint32_t rank = 0; rank < world; rank++)
            read_rows(step, steps_cut(12, rank, world), ids + steps_cut(12, rank, world).first);
        for (uint64_t i = 0; i < 12; i++)
            ck_assert_uint_eq(ids[i], 12 * step + i);
    }
    synth_done(&s);
}
END_TEST

START_TEST(rc_009_after_ten_steps_of_four_the_first_of_six_begins_at_sample_forty)
{
    uint64_t ids[6];
    begin_ids(1, 103);
    s.batch[0].size = 4;
    s.batch[1] = (struct lk_batch_recipe){.from = 10, .size = 6};
    s.recipe.n_batches = 2;
    read_rows(9, steps_cut(4, 0, 1), ids);
    ck_assert_uint_eq(ids[3], 39);
    read_rows(10, steps_cut(6, 0, 1), ids);
    for (uint64_t i = 0; i < 6; i++)
        ck_assert_uint_eq(ids[i], 40 + i);
    synth_done(&s);
}
END_TEST

/* How many sequences each lane gives, and the steps of @size that all of them fill. */
static uint64_t whole_steps(uint32_t size, uint64_t *ret_left)
{
    uint64_t least = UINT64_MAX, all = 0;
    for (uint32_t i = 0; i < s.recipe.lanes; i++) {
        struct lk_lane *lane = lane_new(&s.plan, i);
        struct lk_item item;
        while (synth_next(&s, lane, &item) == SEQ_OK)
            check_identity(lane);
        least = lane_position(lane) < least ? lane_position(lane) : least;
        all += lane_position(lane);
        lane_free(lane);
    }
    uint64_t steps = least / (size / s.recipe.lanes);
    *ret_left = all - steps * size;
    return steps;
}

START_TEST(rc_091_two_samples_are_no_step_of_eight_and_ten_are_one_with_two_left)
{
    uint64_t left;
    begin_ids(1, 2);
    ck_assert_uint_eq(whole_steps(8, &left), 0);
    ck_assert_uint_eq(left, 2);
    synth_done(&s);
    begin_ids(1, 10);
    ck_assert_uint_eq(whole_steps(8, &left), 1);
    ck_assert_uint_eq(left, 2);
    synth_done(&s);
}
END_TEST

START_TEST(rc_092_all_lanes_end_at_the_same_step)
{
    uint64_t left;
    begin_ids(2, 25);
    ck_assert_uint_eq(whole_steps(10, &left), 2); /* batches of 5 on 2 ranks */
    ck_assert_uint_eq(left, 5);
    synth_done(&s);

    synth_init(&s, 10); /* 100 documents of one token, sequences of 10, 4 lanes */
    s.recipe.lanes = 4;
    synth_pack(&s, LK_PACK_CONCAT, 0);
    synth_dataset(&s, 1, 100)->epochs = 1;
    s.dataset[0].then = LK_THEN_STOP;
    ck_assert_int_eq(synth_plan(&s, &err), LK_OK);
    ck_assert_uint_eq(whole_steps(4, &left), 2);
    ck_assert_uint_eq(left, 0);
    synth_done(&s);
}
END_TEST

START_TEST(rc_073_a_row_without_tokens_leaves_no_piece)
{
    static const uint32_t tokens[] = {4, 4, 3, 5, 0, 1};
    struct lk_buf text = {0};
    struct lane_totals totals;
    synth_init(&s, 4);
    synth_pack(&s, LK_PACK_CONCAT, 0);
    (void)synth_tokens(&s, 1, tokens, 6, LK_THEN_STOP);
    ck_assert_int_eq(synth_plan(&s, &err), LK_OK);
    struct lk_lane *lane = lane_new(&s.plan, 0);
    ck_assert_str_eq(rest_of(lane, &text),
                     " 0:0:0:0+4 / 0:1:0:0+4 / 0:2:0:0+3 0:3:0:0+1 / 0:3:0:1+4 /");
    lane_totals(lane, &totals);
    ck_assert_uint_eq(totals.dropped[1], 1);
    ck_assert_uint_eq(totals.pack.lost, 1);
    lane_free(lane);
    lk_buf_done(&text);
    synth_done(&s);
}
END_TEST

START_TEST(saved_and_loaded_at_any_position_a_lane_goes_on_the_same)
{
    struct lk_buf state = {0}, again = {0}, rest = {0}, suffix = {0};
    struct lk_item item;
    begin_all((enum lk_pack)_i);
    for (uint64_t position = 0;; position++) {
        struct lk_lane *whole = lane_new(&s.plan, 1), *loaded = lane_new(&s.plan, 1);
        while (lane_position(whole) < position && synth_next(&s, whole, &item) == SEQ_OK)
            ;
        bool ended = lane_position(whole) < position;
        state.len = again.len = 0;
        lane_save(whole, &state);
        ck_assert_int_eq(lane_load(loaded, state.data, state.len, &err), LK_OK);
        ck_assert_uint_eq(lane_position(loaded), lane_position(whole));
        lane_save(loaded, &again);
        ck_assert_uint_eq(again.len, state.len);
        ck_assert_mem_eq(again.data, state.data, state.len);
        ck_assert_str_eq(rest_of(whole, &rest), rest_of(loaded, &suffix));
        ck_assert(position > 0 || rest.len > 1000);
        lane_free(whole);
        lane_free(loaded);
        if (ended)
            break;
    }
    lk_buf_done(&state);
    lk_buf_done(&again);
    lk_buf_done(&rest);
    lk_buf_done(&suffix);
    synth_done(&s);
}
END_TEST

START_TEST(the_size_of_slices_changes_neither_sequences_nor_state)
{
    struct lk_buf one = {0}, other = {0}, a = {0}, b = {0};
    begin_all((enum lk_pack)_i);
    struct lk_lane *lane = lane_new(&s.plan, 2);
    s.slice_rows = 1;
    (void)rest_of(lane, &one);
    lane_save(lane, &a);
    lane_free(lane);
    lane = lane_new(&s.plan, 2);
    s.slice_rows = 100;
    (void)rest_of(lane, &other);
    lane_save(lane, &b);
    lane_free(lane);
    ck_assert_str_eq(lk_buf_cstr(&one), lk_buf_cstr(&other));
    ck_assert(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    lk_buf_done(&one);
    lk_buf_done(&other);
    lk_buf_done(&a);
    lk_buf_done(&b);
    synth_done(&s);
}
END_TEST

/* The state of a lane in mid-run. */
static void some_state(uint32_t number, struct lk_buf *out)
{
    struct lk_lane *lane = lane_new(&s.plan, number);
    struct lk_item item;
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(synth_next(&s, lane, &item), SEQ_OK);
    lane_save(lane, out);
    lane_free(lane);
}

/* What a loaded lane still holds refers to rows that exist, however the state came about. */
static void draw_what_waits(struct lk_lane *lane)
{
    struct lk_item item;
    for (int i = 0; i < 50 && lane_next(lane, &item) == SEQ_OK; i++)
        for (uint32_t j = 0; j < item.n; j++)
            ck_assert_uint_lt(item.span[j].row, s.plan.dataset[item.span[j].dataset].rows);
}

static enum lk_code load_copy(uint32_t number, const void *bytes, size_t n)
{
    uint8_t *copy = lk_alloc(n + 1); /* of its own size, so that a read beyond it is found */
    struct lk_lane *lane = lane_new(&s.plan, number);
    memcpy(copy, bytes, n);
    copy = lk_resize(copy, n > 0 ? n : 1, 1);
    enum lk_code code = lane_load(lane, copy, n, &err);
    if (code == LK_OK) {
        lane_check(lane); /* what is taken holds together, whatever it says */
        draw_what_waits(lane);
    }
    lane_free(lane);
    free(copy);
    return code;
}

START_TEST(every_truncation_and_every_flipped_bit_is_data_loss)
{
    struct lk_buf state = {0};
    begin_all((enum lk_pack)_i);
    some_state(0, &state);
    ck_assert_int_eq(load_copy(0, state.data, state.len), LK_OK);
    for (size_t n = 0; n < state.len; n++)
        ck_assert_int_eq(load_copy(0, state.data, n), LK_DATA_LOSS);
    for (size_t bit = 0; bit < 8 * state.len; bit++) {
        state.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert_int_eq(load_copy(0, state.data, state.len), LK_DATA_LOSS);
        state.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    lk_buf_put(&state, "x", 1);
    ck_assert_int_eq(load_copy(0, state.data, state.len), LK_DATA_LOSS);
    lk_buf_done(&state);
    synth_done(&s);
}
END_TEST

/* Makes the checksum of the section that begins at @at fit again; where the next one begins. */
static size_t reseal(struct lk_buf *state, size_t at)
{
    uint32_t n = lk_get_u32(state->data + at);
    lk_put_u64(state->data + at + 4, lk_hash64(state->data + at + 12, n, 0));
    return at + 12 + n;
}

START_TEST(damage_below_a_checksum_that_fits_crashes_nothing)
{
    struct lk_buf state = {0};
    uint32_t refused = 0;
    begin_all((enum lk_pack)_i);
    some_state(0, &state);
    for (size_t at = 0, next; at < state.len; at = next) {
        next = at + 12 + lk_get_u32(state.data + at);
        for (size_t bit = 8 * (at + 12); bit < 8 * next; bit++) {
            state.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            (void)reseal(&state, at);
            enum lk_code code = load_copy(0, state.data, state.len);
            ck_assert(code == LK_OK || code == LK_DATA_LOSS);
            refused += code == LK_DATA_LOSS;
            state.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            (void)reseal(&state, at);
        }
    }
    ck_assert_uint_gt(refused, 100);
    ck_assert_int_eq(load_copy(0, state.data, state.len), LK_OK);
    lk_buf_done(&state);
    synth_done(&s);
}
END_TEST

START_TEST(the_state_of_another_lane_or_recipe_is_data_loss_that_names_the_lane)
{
    struct lk_buf state = {0};
    begin_all(LK_PACK_EXACT_FIT);
    some_state(1, &state);
    ck_assert_int_eq(load_copy(2, state.data, state.len), LK_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(err.text, "lane 2"));
    synth_done(&s);
    begin_all(LK_PACK_CONCAT);
    ck_assert_int_eq(load_copy(1, state.data, state.len), LK_DATA_LOSS);
    lk_buf_done(&state);
    synth_done(&s);
}
END_TEST

START_TEST(an_end_and_an_error_are_for_good)
{
    static const uint32_t tokens[] = {3, 9};
    struct lk_item item;
    begin_ids(1, 2);
    struct lk_lane *lane = lane_new(&s.plan, 0);
    ck_assert_int_eq(synth_next(&s, lane, &item), SEQ_OK);
    ck_assert_int_eq(synth_next(&s, lane, &item), SEQ_OK);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(synth_next(&s, lane, &item), SEQ_END);
    lane_free(lane);
    synth_done(&s);

    synth_init(&s, 8);
    synth_pack(&s, LK_PACK_FIRST_FIT, 2);
    (void)synth_tokens(&s, 1, tokens, 2, LK_THEN_STOP);
    ck_assert_int_eq(synth_plan(&s, &err), LK_OK);
    lane = lane_new(&s.plan, 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(synth_next(&s, lane, &item), SEQ_ERROR);
    ck_assert_int_eq(lane_error(lane)->code, LK_FAILED_PRECONDITION);
    check_identity(lane);
    lane_free(lane);
    synth_done(&s);
}
END_TEST

#ifndef __SANITIZE_ADDRESS__ /* whose allocator does not count */

static uint64_t in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Under memcheck it does not, either, which shows only as it runs. */
static bool is_counted(void)
{
    uint64_t before = in_use();
    void *p = lk_alloc(1 << 20);
    bool counted = in_use() - before >= 1 << 20;
    free(p);
    return counted;
}

START_TEST(with_records_of_one_token_a_lane_stays_within_its_bound_and_near_it)
{
    struct lk_item item;
    if (!is_counted())
        return;
    synth_init(&s, 256);
    s.slice_rows = LK_SLICE_ROWS_MAX;
    synth_stage(&s, LK_STAGE_SHUFFLE)->buffer = 100;
    synth_pack(&s, (enum lk_pack)_i, 64);
    synth_stage(&s, LK_STAGE_SHUFFLE)->buffer = 50;
    for (int d = 0; d < 3; d++)
        (void)synth_dataset(&s, 1, 100000);
    ck_assert_int_eq(synth_plan(&s, &err), LK_OK);
    uint64_t before = in_use(), bound = lane_bound(s.plan.recipe);
    struct lk_lane *lane = lane_new(&s.plan, 0);
    for (uint32_t d = 0; d < 3; d++)
        while (synth_feed(&s, lane_source(lane), d))
            ;
    for (int i = 0; i < 2000; i++)
        ck_assert_int_eq(synth_next(&s, lane, &item), SEQ_OK);
    uint64_t used = in_use() - before;
    ck_assert_msg(used <= bound + bound / 16 && used >= bound / 8, "%llu bytes used, bound %llu",
                  (unsigned long long)used, (unsigned long long)bound);
    lane_free(lane);
    synth_done(&s);
}
END_TEST

#endif

Suite *suite(void)
{
    enum { PACKS = LK_PACK_EXACT_FIT + 1 };
    Suite *suite_ = suite_create("core/lane");
    TCase *t = tcase_create("lane");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, rc_007_every_world_reads_the_batch_and_every_sample_once);
    tcase_add_test(t, rc_009_after_ten_steps_of_four_the_first_of_six_begins_at_sample_forty);
    tcase_add_test(t, rc_091_two_samples_are_no_step_of_eight_and_ten_are_one_with_two_left);
    tcase_add_test(t, rc_092_all_lanes_end_at_the_same_step);
    tcase_add_test(t, rc_073_a_row_without_tokens_leaves_no_piece);
    tcase_add_loop_test(t, saved_and_loaded_at_any_position_a_lane_goes_on_the_same, 0, PACKS);
    tcase_add_loop_test(t, the_size_of_slices_changes_neither_sequences_nor_state, 0, PACKS);
    tcase_add_loop_test(t, every_truncation_and_every_flipped_bit_is_data_loss, 0, PACKS);
    tcase_add_loop_test(t, damage_below_a_checksum_that_fits_crashes_nothing, 0, PACKS);
    tcase_add_test(t, the_state_of_another_lane_or_recipe_is_data_loss_that_names_the_lane);
    tcase_add_test(t, an_end_and_an_error_are_for_good);
#ifndef __SANITIZE_ADDRESS__
    tcase_add_loop_test(t, with_records_of_one_token_a_lane_stays_within_its_bound_and_near_it, 0,
                        PACKS);
#endif
    suite_add_tcase(suite_, t);
    return suite_;
}
