#include "core/steps.h"

#include "base/keys.h"
#include "tests/lib/check_main.h"

static struct lk_batch_recipe schedule[] = {{0, 8}, {3, 16}, {4, 4}, {1000, 32}};

static struct lk_recipe recipe_of(uint32_t lanes, uint32_t entries)
{
    return (struct lk_recipe){.lanes = lanes, .n_batches = entries, .batch = schedule};
}

START_TEST(a_schedule_moves_only_the_borders_of_steps)
{
    struct lk_recipe recipe = recipe_of(4, 4);
    uint64_t position = 0;
    for (uint64_t step = 0; step < 1100; step++) {
        uint32_t size = step < 3 ? 8 : step < 4 ? 16 : step < 1000 ? 4 : 32;
        ck_assert_uint_eq(steps_size(&recipe, step), size);
        ck_assert_uint_eq(steps_start(&recipe, step), position);
        position += size / 4;
    }
}
END_TEST

START_TEST(at_is_the_inverse_of_start)
{
    for (uint32_t entries = 1; entries <= 4; entries++) {
        struct lk_recipe recipe = recipe_of(2, entries);
        for (uint64_t step = 0; step < 1200; step++)
            for (uint64_t p = steps_start(&recipe, step); p < steps_start(&recipe, step + 1); p++)
                ck_assert_uint_eq(steps_at(&recipe, p), step);
    }
}
END_TEST

START_TEST(steps_far_beyond_32_bits_are_exact)
{
    struct lk_recipe recipe = recipe_of(1, 1);
    for (int i = 0; i < 20; i++) {
        uint64_t step = LK_STEP_MAX - (uint64_t)i;
        ck_assert_uint_eq(steps_start(&recipe, step), 8 * step);
        ck_assert_uint_eq(steps_at(&recipe, 8 * step), step);
        ck_assert_uint_eq(steps_at(&recipe, 8 * step - 1), step - 1);
    }
}
END_TEST

START_TEST(rc_007_the_cuts_of_any_world_concatenate_to_the_batch)
{
    static const uint32_t sizes[] = {1, 2, 7, 12, 64, 1000, LK_BATCH_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint32_t size = sizes[s];
        for (uint32_t world = 1; world <= size; world += size > 1000 && world > 100 ? 997 : 1) {
            uint32_t next = 0, least = size, most = 0;
            for (uint32_t rank = 0; rank < world; rank++) {
                struct steps_cut cut = steps_cut(size, rank, world);
                ck_assert_uint_eq(cut.first, next);
                next += cut.rows;
                least = cut.rows < least ? cut.rows : least;
                most = cut.rows > most ? cut.rows : most;
            }
            ck_assert_uint_eq(next, size);
            ck_assert_uint_ge(least, 1);
            ck_assert_uint_le(most, least + 1);
        }
    }
}
END_TEST

START_TEST(rows_of_a_batch_stand_in_lane_order)
{
    struct lk_recipe recipe = recipe_of(4, 2);
    static const uint32_t lanes[] = {0, 0, 1, 1, 2, 2, 3, 3};
    for (uint32_t row = 0; row < 8; row++)
        ck_assert_uint_eq(steps_lane(&recipe, 8, row), lanes[row]);
    for (uint32_t row = 0; row < 16; row++)
        ck_assert_uint_eq(steps_lane(&recipe, 16, row), row / 4);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("core/steps");
    TCase *t = tcase_create("steps");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_schedule_moves_only_the_borders_of_steps);
    tcase_add_test(t, at_is_the_inverse_of_start);
    tcase_add_test(t, steps_far_beyond_32_bits_are_exact);
    tcase_add_test(t, rc_007_the_cuts_of_any_world_concatenate_to_the_batch);
    tcase_add_test(t, rows_of_a_batch_stand_in_lane_order);
    suite_add_tcase(s, t);
    return s;
}
