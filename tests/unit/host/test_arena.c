#include "host/arena.h"

#include "tests/lib/check_main.h"

#include <stdlib.h>

static struct arena_key key_of(uint64_t row)
{
    return (struct arena_key){.row = row, .dataset = 1, .stream = 2};
}

static void put_row(struct arena *arena, uint64_t row, uint32_t n, uint32_t base)
{
    uint32_t *ids = calloc(n, sizeof *ids);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = base + i;
    arena_put(arena, key_of(row), ids, n);
    free(ids);
}

START_TEST(gives_back_what_was_put_in_any_piece)
{
    struct arena *arena = arena_new(1 << 20);
    uint32_t out[10];
    put_row(arena, 7, 10, 100);
    ck_assert(arena_take(arena, key_of(7), 3, 4, out));
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_uint_eq(out[i], 103 + i);
    ck_assert(!arena_take(arena, key_of(8), 0, 1, out));
    ck_assert(!arena_take(arena, key_of(7), 8, 3, out)); /* beyond the row */
    arena_free(arena);
}
END_TEST

START_TEST(ids_above_sixteen_bits_survive)
{
    struct arena *arena = arena_new(1 << 20);
    const uint32_t ids[] = {65535, 65536, 70000, (1u << 24) - 1};
    uint32_t out[4];
    arena_put(arena, key_of(1), ids, 4);
    ck_assert(arena_take(arena, key_of(1), 0, 4, out));
    ck_assert_mem_eq(out, ids, sizeof ids);
    arena_free(arena);
}
END_TEST

/* Every length that vectors and what is left of them make, at every place. */
START_TEST(rows_of_any_length_come_back_from_any_place)
{
    struct arena *arena = arena_new(1 << 20);
    uint32_t ids[70], out[72];
    for (uint32_t n = 1; n <= 70; n++) {
        for (uint32_t i = 0; i < n; i++)
            ids[i] = (65535 - i * 997) ^ (_i == 1 && i == n - 1 ? 1u << 16 : 0);
        for (uint32_t first = 0; first < n; first++) {
            arena_put(arena, key_of(n), ids, n);
            ck_assert_uint_eq(arena_has(arena, key_of(n)), n);
            out[n - first] = 12345;
            ck_assert(arena_take(arena, key_of(n), first, n - first, out));
            ck_assert_mem_eq(out, ids + first, 4 * (n - first));
            ck_assert_uint_eq(out[n - first], 12345); /* nothing is written beyond */
        }
    }
    arena_free(arena);
}
END_TEST

START_TEST(a_row_used_up_is_dropped)
{
    struct arena *arena = arena_new(1 << 20);
    struct arena_stats stats;
    uint32_t out[10];
    put_row(arena, 7, 10, 0);
    ck_assert(arena_take(arena, key_of(7), 0, 6, out));
    arena_stats(arena, &stats);
    ck_assert_uint_eq(stats.rows, 1);
    ck_assert(arena_take(arena, key_of(7), 6, 4, out));
    arena_stats(arena, &stats);
    ck_assert_uint_eq(stats.rows, 0);
    ck_assert_uint_eq(stats.bytes, 0);
    arena_free(arena);
}
END_TEST

START_TEST(the_budget_is_never_exceeded_and_the_oldest_goes_first)
{
    struct arena *arena = arena_new(20000);
    struct arena_stats stats;
    uint32_t out[1];
    for (uint64_t row = 0; row < 500; row++) {
        put_row(arena, row, 200, (uint32_t)row);
        arena_stats(arena, &stats);
        ck_assert_uint_le(stats.bytes, 20000);
    }
    ck_assert_uint_gt(stats.evicted, 400);
    ck_assert(arena_take(arena, key_of(499), 0, 1, out));
    ck_assert(!arena_take(arena, key_of(0), 0, 1, out));
    put_row(arena, 1000, 100000, 0); /* larger than the budget: not kept, nothing else lost */
    ck_assert(!arena_take(arena, key_of(1000), 0, 1, out));
    ck_assert(arena_take(arena, key_of(498), 0, 1, out));
    arena_free(arena);
}
END_TEST

START_TEST(many_rows_are_found_after_the_table_has_grown)
{
    struct arena *arena = arena_new(64 << 20);
    uint32_t out[2];
    for (uint64_t row = 0; row < 20000; row++)
        put_row(arena, row, 2, (uint32_t)row);
    for (uint64_t row = 0; row < 20000; row++) {
        ck_assert(arena_take(arena, key_of(row), 0, 2, out));
        ck_assert_uint_eq(out[0], row);
    }
    arena_free(arena);
}
END_TEST

START_TEST(putting_a_row_again_replaces_it)
{
    struct arena *arena = arena_new(1 << 20);
    struct arena_stats stats;
    uint32_t out[1];
    put_row(arena, 1, 5, 10);
    put_row(arena, 1, 5, 20);
    arena_stats(arena, &stats);
    ck_assert_uint_eq(stats.rows, 1);
    ck_assert(arena_take(arena, key_of(1), 0, 1, out));
    ck_assert_uint_eq(out[0], 20);
    arena_free(arena);
}
END_TEST

START_TEST(a_row_put_twice_is_there_for_both)
{
    struct arena *arena = arena_new(1 << 20);
    struct arena_stats stats;
    uint32_t out[10];
    put_row(arena, 7, 10, 0);
    ck_assert(arena_take(arena, key_of(7), 0, 4, out));
    put_row(arena, 7, 10, 0); /* the next epoch's, while the last one's is in use */
    ck_assert(arena_take(arena, key_of(7), 0, 10, out));
    ck_assert(arena_take(arena, key_of(7), 4, 5, out));
    arena_stats(arena, &stats);
    ck_assert_uint_eq(stats.rows, 1);
    ck_assert(arena_take(arena, key_of(7), 9, 1, out));
    ck_assert_uint_eq(out[0], 9);
    arena_stats(arena, &stats);
    ck_assert_uint_eq(stats.rows, 0);
    ck_assert_uint_eq(stats.misses, 0);
    arena_free(arena);
}
END_TEST

START_TEST(asking_changes_nothing)
{
    struct arena *arena = arena_new(1 << 20);
    struct arena_stats before, after;
    uint32_t out[1];
    arena_ask(arena, key_of(7), 0); /* nothing is here */
    put_row(arena, 7, 20000, 0);
    put_row(arena, 8, 10, 0);
    arena_stats(arena, &before);
    for (uint32_t first = 0; first < 20100; first += 100)
        arena_ask(arena, key_of(7), first);
    arena_ask(arena, key_of(7), UINT32_MAX);
    arena_ask(arena, key_of(9), 3);
    arena_stats(arena, &after);
    ck_assert_mem_eq(&before, &after, sizeof before);
    ck_assert(arena_take(arena, key_of(7), 19999, 1, out));
    ck_assert_uint_eq(out[0], 19999);
    arena_free(arena);
}
END_TEST

/* A vocabulary may be on either side of sixteen bits, and its rows on both, in any turn. */
START_TEST(wide_and_narrow_rows_by_turns)
{
    struct arena *arena = arena_new(1 << 20);
    struct arena_stats stats;
    uint32_t out[600];
    for (uint32_t turn = 0; turn < 64; turn++) {
        for (uint32_t row = 0; row < 6; row++)
            put_row(arena, row, 600, (turn >> row & 1) != 0 ? 65000 : 1000); /* wide: 65,536 is among them */
        for (uint32_t row = 0; row < 6; row++) {
            ck_assert(arena_take(arena, key_of(row), 0, 600, out));
            for (uint32_t i = 0; i < 600; i++)
                ck_assert_uint_eq(out[i], ((turn >> row & 1) != 0 ? 65000 : 1000) + i);
        }
    }
    arena_stats(arena, &stats);
    ck_assert_uint_eq(stats.rows, 0);
    ck_assert_uint_eq(stats.bytes, 0);
    arena_free(arena);
}
END_TEST

/* A row that fits as half and not as a whole: what had to go for it went, and it is not kept. */
START_TEST(a_wide_row_larger_than_the_budget_is_not_kept)
{
    struct arena *arena = arena_new(20000);
    struct arena_stats stats;
    uint32_t out[1];
    put_row(arena, 1, 8000, 65000);
    arena_stats(arena, &stats);
    ck_assert_uint_eq(stats.rows, 0);
    ck_assert_uint_eq(stats.bytes, 0);
    ck_assert(!arena_take(arena, key_of(1), 0, 1, out));
    put_row(arena, 1, 8000, 0);
    ck_assert(arena_take(arena, key_of(1), 7999, 1, out));
    ck_assert_uint_eq(out[0], 7999);
    arena_free(arena);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("host/arena");
    TCase *t = tcase_create("arena");
    tcase_add_test(t, gives_back_what_was_put_in_any_piece);
    tcase_add_test(t, ids_above_sixteen_bits_survive);
    tcase_add_loop_test(t, rows_of_any_length_come_back_from_any_place, 0, 2);
    tcase_add_test(t, a_row_used_up_is_dropped);
    tcase_add_test(t, the_budget_is_never_exceeded_and_the_oldest_goes_first);
    tcase_add_test(t, many_rows_are_found_after_the_table_has_grown);
    tcase_add_test(t, putting_a_row_again_replaces_it);
    tcase_add_test(t, a_row_put_twice_is_there_for_both);
    tcase_add_test(t, asking_changes_nothing);
    tcase_add_test(t, wide_and_narrow_rows_by_turns);
    tcase_add_test(t, a_wide_row_larger_than_the_budget_is_not_kept);
    suite_add_tcase(s, t);
    return s;
}
