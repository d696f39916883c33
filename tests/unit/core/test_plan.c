#include "tests/lib/check_main.h"
#include "tests/lib/synth.h"

#include <string.h>

static struct synth s;
static struct lk_err err;

/* A planned stream of one dataset of @shards shards. */
static void make_plan(uint32_t lanes, uint32_t block_rows, bool permuted, const uint64_t *rows,
                      uint32_t shards)
{
    synth_init(&s, 8);
    s.recipe.lanes = lanes;
    s.recipe.block_rows = block_rows;
    s.recipe.permute_blocks = s.recipe.permute_rows = permuted;
    synth_pack(&s, LK_PACK_CONCAT, 0);
    (void)synth_sharded(&s, 1, rows, shards);
    ck_assert_int_eq(synth_plan(&s, &err), LK_OK);
}

/* Every row of an epoch in the order the lanes have them, lane after lane; checks the inverse. */
static uint64_t draw_epoch(uint32_t epoch, uint64_t *ret_rows)
{
    uint64_t n = 0;
    for (uint32_t lane = 0; lane < s.recipe.lanes; lane++)
        for (uint64_t k = 0; k < plan_lane_blocks(&s.plan, 0, lane); k++) {
            struct plan_block block = plan_block_at(&s.plan, 0, lane, epoch, k);
            for (uint64_t r = 0; r < block.rows; r++) {
                uint64_t row = plan_row(&block, r);
                struct plan_place place = plan_find(&s.plan, 0, epoch, row);
                ck_assert(place.lane == lane && place.k == k && place.r == r);
                ret_rows[n++] = row;
            }
        }
    return n;
}

START_TEST(every_row_is_drawn_once_an_epoch_whatever_the_lanes_and_blocks)
{
    static const uint64_t shapes[][5] = {
        {1000, 0, 0, 0, 0}, {0, 7, 0, 900, 64}, {64, 0, 0, 0, 1}, {65, 65, 65, 1, 64}};
    static const uint32_t lanes[] = {1, 2, 7, 64}, block_rows[] = {0, 1, 3, 256, 1u << 31};
    uint64_t rows[1024];
    for (int i = 0; i < 4 * 4 * 5 * 2; i++) {
        make_plan(lanes[i % 4], block_rows[i / 4 % 5], i / 20 % 2 != 0, shapes[i / 40], 5);
        uint8_t seen[1024] = {0};
        uint64_t n = draw_epoch((uint32_t)i, rows);
        ck_assert_uint_eq(n, s.plan.dataset[0].rows);
        for (uint64_t k = 0; k < n; k++)
            ck_assert_int_eq(seen[rows[k]]++, 0);
        synth_done(&s);
    }
}
END_TEST

START_TEST(rc_020_epochs_differ_pairwise_and_a_second_run_is_the_same)
{
    static uint64_t order[2][3][1000];
    static const uint64_t rows[] = {1000};
    for (int run = 0; run < 2; run++) {
        make_plan(1, 256, true, rows, 1);
        for (uint32_t epoch = 0; epoch < 3; epoch++)
            ck_assert_uint_eq(draw_epoch(epoch, order[run][epoch]), 1000);
        synth_done(&s);
    }
    ck_assert_mem_eq(order[0], order[1], sizeof order[0]);
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < a; b++)
            ck_assert_mem_ne(order[0][a], order[0][b], sizeof order[0][a]);
}
END_TEST

START_TEST(another_seed_or_dataset_name_is_another_order)
{
    static uint64_t order[3][1000];
    static const uint64_t rows[] = {1000};
    for (int i = 0; i < 3; i++) {
        make_plan(1, 256, true, rows, 1);
        plan_done(&s.plan);
        s.recipe.seed += i == 1;
        s.dataset[0].name[0] = i == 2 ? 'x' : 'd';
        ck_assert_int_eq(synth_plan(&s, &err), LK_OK);
        (void)draw_epoch(0, order[i]);
        synth_done(&s);
    }
    ck_assert_mem_ne(order[0], order[1], sizeof order[0]);
    ck_assert_mem_ne(order[0], order[2], sizeof order[0]);
}
END_TEST

START_TEST(nothing_permuted_is_the_order_of_the_shards)
{
    static const uint64_t rows[] = {10, 0, 20};
    uint64_t order[30];
    make_plan(1, 0, false, rows, 3);
    ck_assert_uint_eq(draw_epoch(5, order), 30);
    for (uint64_t i = 0; i < 30; i++)
        ck_assert_uint_eq(order[i], i);
    synth_done(&s);
}
END_TEST

START_TEST(blocks_shrink_until_each_lane_has_enough_of_them)
{
    static const uint64_t few[] = {4096}, many[] = {1 << 20};
    make_plan(8, 256, true, few, 1);
    ck_assert_uint_eq(s.plan.dataset[0].block_rows, 16); /* 256 blocks: 32 for each of the 8 lanes */
    synth_done(&s);
    make_plan(8, 256, true, many, 1);
    ck_assert_uint_eq(s.plan.dataset[0].block_rows, 256);
    synth_done(&s);
}
END_TEST

START_TEST(rc_091_a_dataset_of_fewer_rows_than_lanes_is_refused_with_both_numbers)
{
    synth_init(&s, 8);
    s.recipe.lanes = 8;
    synth_pack(&s, LK_PACK_CONCAT, 0);
    (void)synth_dataset(&s, 1, 8);
    (void)synth_dataset(&s, 1, 2);
    ck_assert_int_eq(synth_plan(&s, &err), LK_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(err.text, "d1"));
    ck_assert_ptr_nonnull(strstr(err.text, "2 rows"));
    ck_assert_ptr_nonnull(strstr(err.text, "8 lanes"));
    synth_done(&s);
}
END_TEST

START_TEST(rc_085_rows_beyond_2_to_the_31_and_32_are_found_where_they_are)
{
    static const uint64_t rows[] = {3000000000u, 2000000000u};
    static const uint64_t asked[] = {0, (1ull << 31) - 1, 1ull << 31, (1ull << 31) + 1,
                                     2999999999u, 3000000000u, (1ull << 32) - 1, 1ull << 32,
                                     4999999999u};
    for (int permuted = 0; permuted < 2; permuted++) {
        make_plan(3, 1, permuted != 0, rows, 2);
        ck_assert_uint_eq(s.plan.dataset[0].blocks, 5000000000u);
        for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
            struct plan_place place = plan_find(&s.plan, 0, 1, asked[i]);
            struct plan_block block = plan_block_at(&s.plan, 0, place.lane, 1, place.k);
            ck_assert_uint_eq(plan_row(&block, place.r), asked[i]);
            if (permuted == 0)
                ck_assert_uint_eq(place.k * 3 + place.lane, asked[i]);
        }
        synth_done(&s);
    }
}
END_TEST

START_TEST(rc_085_the_five_millionth_epoch_is_a_permutation_like_the_first)
{
    static const uint64_t rows[] = {1000};
    uint64_t order[1000];
    uint8_t seen[1000] = {0};
    make_plan(1, 1, true, rows, 1);
    ck_assert_uint_eq(draw_epoch(5000000, order), 1000);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(seen[order[i]]++, 0);
    synth_done(&s);
}
END_TEST

START_TEST(stage_keys_of_lanes_and_stages_are_distinct)
{
    static const uint64_t rows[] = {100};
    uint64_t key[4 * 8];
    make_plan(4, 1, true, rows, 1);
    for (uint32_t i = 0; i < 32; i++) {
        key[i] = plan_stage_key(&s.plan, i / 4, i % 4);
        for (uint32_t j = 0; j < i; j++)
            ck_assert_uint_ne(key[i], key[j]);
    }
    synth_done(&s);
}
END_TEST

Suite *suite(void)
{
    Suite *suite_ = suite_create("core/plan");
    TCase *t = tcase_create("plan");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_row_is_drawn_once_an_epoch_whatever_the_lanes_and_blocks);
    tcase_add_test(t, rc_020_epochs_differ_pairwise_and_a_second_run_is_the_same);
    tcase_add_test(t, another_seed_or_dataset_name_is_another_order);
    tcase_add_test(t, nothing_permuted_is_the_order_of_the_shards);
    tcase_add_test(t, blocks_shrink_until_each_lane_has_enough_of_them);
    tcase_add_test(t, rc_091_a_dataset_of_fewer_rows_than_lanes_is_refused_with_both_numbers);
    tcase_add_test(t, rc_085_rows_beyond_2_to_the_31_and_32_are_found_where_they_are);
    tcase_add_test(t, rc_085_the_five_millionth_epoch_is_a_permutation_like_the_first);
    tcase_add_test(t, stage_keys_of_lanes_and_stages_are_distinct);
    suite_add_tcase(suite_, t);
    return suite_;
}
