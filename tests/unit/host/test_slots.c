#include "host/slots.h"

#include "tests/lib/check_main.h"

#include <errno.h>
#include <sys/mman.h>

static struct slots *open_slots(uint32_t n, uint32_t leased_max)
{
    struct slots *slots;
    struct lk_err err;
    ck_assert_int_eq(slots_open(3, n, leased_max, 4, 16, &slots, &err), LK_OK);
    return slots;
}

START_TEST(a_slot_is_free_again_when_cursor_and_leases_are_gone)
{
    struct slots *slots = open_slots(1, 1);
    uint32_t slot = slots_take(slots, 5, 4);
    ck_assert_uint_eq(slot, 0);
    ck_assert_uint_eq(slots_take(slots, 6, 4), SLOT_NONE);
    uint64_t lease = slots_lease(slots, slot, 77);
    ck_assert_uint_ne(lease, 0);
    ck_assert_uint_eq(slots_region(lease), 3);
    slots_put(slots, slot);
    ck_assert_uint_eq(slots_take(slots, 6, 4), SLOT_NONE); /* a trainer reads it */
    slots_release(slots, 78, lease);                       /* not the holder */
    ck_assert_uint_eq(slots_take(slots, 6, 4), SLOT_NONE);
    slots_release(slots, 77, lease);
    slots_release(slots, 77, lease); /* twice is nothing */
    ck_assert_uint_eq(slots_take(slots, 6, 4), 0);
    slots_close(slots);
}
END_TEST

START_TEST(a_dead_client_gives_everything_back)
{
    struct slots *slots = open_slots(3, 3);
    struct slots_stats stats;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t slot = slots_take(slots, i, 4);
        ck_assert_uint_ne(slots_lease(slots, slot, 1), 0);
        ck_assert_uint_ne(slots_lease(slots, slot, 2), 0);
        slots_put(slots, slot);
    }
    slots_release_all(slots, 1);
    slots_stats(slots, &stats);
    ck_assert_uint_eq(stats.leased, 3);
    slots_release_all(slots, 2);
    slots_stats(slots, &stats);
    ck_assert_uint_eq(stats.leased, 0);
    ck_assert_uint_eq(stats.leases, 0);
    slots_close(slots);
}
END_TEST

START_TEST(only_so_many_slots_can_be_leased)
{
    struct slots *slots = open_slots(3, 1);
    uint32_t a = slots_take(slots, 0, 4), b = slots_take(slots, 1, 4);
    ck_assert_uint_ne(slots_lease(slots, a, 1), 0);
    ck_assert_uint_eq(slots_lease(slots, b, 1), 0);
    ck_assert_uint_ne(slots_lease(slots, a, 2), 0); /* the same slot again is no more memory */
    slots_close(slots);
}
END_TEST

START_TEST(rows_tokens_and_parts_do_not_overlap)
{
    struct slots *slots = open_slots(2, 0);
    uint32_t a = slots_take(slots, 0, 4), b = slots_take(slots, 1, 3);
    struct lk_batch_head *head = slots_head(slots, a);
    ck_assert_uint_eq(head->rows, 4);
    ck_assert_uint_eq(slots_head(slots, b)->rows, 3);
    ck_assert_uint_eq(head->tokens_at % 64, 0);
    for (uint32_t row = 0; row < 4; row++)
        for (uint32_t i = 0; i < 16; i++)
            slots_tokens(slots, a, row)[i] = row * 100 + i;
    for (uint32_t i = 0; i < 64; i++)
        slots_parts(slots, a)[i] = (struct lk_batch_part){.row = i, .tokens = 1};
    for (uint32_t row = 0; row < 4; row++) {
        ck_assert_uint_eq(slots_row(slots, a, row)->used, 0);
        for (uint32_t i = 0; i < 16; i++)
            ck_assert_uint_eq(slots_tokens(slots, a, row)[i], row * 100 + i);
    }
    ck_assert_ptr_eq(slots_parts(slots, a) + 64 <= (struct lk_batch_part *)slots_head(slots, b)
                         ? NULL
                         : slots,
                     NULL);
    slots_close(slots);
}
END_TEST

START_TEST(a_receiver_of_the_descriptor_can_only_read)
{
    struct slots *slots = open_slots(1, 1);
    void *map = mmap(NULL, slots_bytes(slots), PROT_READ | PROT_WRITE, MAP_SHARED, slots_fd(slots), 0);
    ck_assert_ptr_eq(map, MAP_FAILED);
    ck_assert_int_eq(errno, EPERM);
    map = mmap(NULL, slots_bytes(slots), PROT_READ, MAP_SHARED, slots_fd(slots), 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
    ck_assert_int_ne(mprotect(map, slots_bytes(slots), PROT_READ | PROT_WRITE), 0);
    munmap(map, slots_bytes(slots));
    slots_close(slots);
}
END_TEST

/* Training arrays ----------------------------------------------------------------------------- */

static const struct lk_training_wish labels = {
    LK_TRAINING_WANTED | LK_TRAINING_WIDE | LK_TRAINING_SHIFTED, -100};
static const struct lk_training_wish places = {LK_TRAINING_WANTED | LK_TRAINING_OF_ROW, 0};

/* A slot of four full rows of 16 tokens: row r has r × 1000 + i at i. */
static uint32_t take_filled(struct slots *slots, uint64_t step)
{
    uint32_t slot = slots_take(slots, step, 4);
    ck_assert_uint_ne(slot, SLOT_NONE);
    for (uint32_t r = 0; r < 4; r++) {
        slots_parts(slots, slot)[r] = (struct lk_batch_part){.tokens = 16};
        *slots_row(slots, slot, r) = (struct lk_batch_row){.first_part = r, .n_parts = 1, .used = 16};
        for (uint32_t i = 0; i < 16; i++)
            slots_tokens(slots, slot, r)[i] = r * 1000 + i;
    }
    return slot;
}

static uint64_t rows_made(const struct slots *slots)
{
    struct slots_stats stats;
    slots_stats(slots, &stats);
    return stats.training_rows;
}

START_TEST(training_arrays_are_made_once_for_all_that_ask)
{
    struct slots *slots = open_slots(4, 2);
    struct lk_training_layout layout;
    uint32_t slot = take_filled(slots, 5);
    uint64_t at[3], bytes[3];
    ck_assert_uint_ne(slots_lease(slots, slot, 1), 0);
    ck_assert(slots_training(slots, slot, &labels, 1, 2, &at[0], &bytes[0]));
    ck_assert_uint_eq(rows_made(slots), 2);
    ck_assert_uint_ne(slots_lease(slots, slot, 2), 0);
    ck_assert(slots_training(slots, slot, &labels, 1, 2, &at[1], &bytes[1])); /* a peer */
    ck_assert_uint_eq(rows_made(slots), 2);
    ck_assert(slots_training(slots, slot, &labels, 2, 2, &at[2], &bytes[2])); /* another cut */
    ck_assert_uint_eq(rows_made(slots), 3);
    lk_training_layout(&labels, 4, 16, &layout);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(at[i], at[0]);
        ck_assert_uint_eq(bytes[i], layout.bytes);
    }
    ck_assert_uint_ge(at[0], 4 * slots_offset(slots, 1)); /* behind the slots */
    ck_assert_uint_le(at[0] + bytes[0], slots_bytes(slots));
    const uint8_t *block = mmap(NULL, slots_bytes(slots), PROT_READ, MAP_SHARED, slots_fd(slots), 0);
    ck_assert_ptr_ne(block, MAP_FAILED);
    const int64_t *label = (const int64_t *)(const void *)(block + at[0] + layout.at[LK_TRAINING_AT_LABELS]);
    for (int r = 1; r < 4; r++)
        for (int i = 0; i < 16; i++)
            ck_assert_int_eq(label[16 * r + i], i < 15 ? r * 1000 + i + 1 : -100);
    munmap((void *)(uintptr_t)block, slots_bytes(slots));
    slots_close(slots);
}
END_TEST

START_TEST(training_arrays_in_use_are_not_made_anew_otherwise)
{
    struct slots *slots = open_slots(4, 2);
    uint32_t slot = take_filled(slots, 5);
    uint64_t at, bytes;
    uint64_t first = slots_lease(slots, slot, 1);
    ck_assert(slots_training(slots, slot, &labels, 0, 4, &at, &bytes));
    uint64_t second = slots_lease(slots, slot, 2);
    ck_assert(!slots_training(slots, slot, &places, 0, 4, &at, &bytes));
    ck_assert(slots_training(slots, slot, &labels, 0, 4, &at, &bytes)); /* they are still there */
    ck_assert_uint_eq(rows_made(slots), 4);
    slots_release(slots, 1, first);
    slots_release(slots, 2, second);
    ck_assert_uint_ne(slots_lease(slots, slot, 3), 0);
    ck_assert(slots_training(slots, slot, &places, 0, 4, &at, &bytes)); /* now nobody reads them */
    ck_assert_uint_eq(rows_made(slots), 8);
    slots_close(slots);
}
END_TEST

START_TEST(training_arrays_outlive_a_lease_and_not_the_step)
{
    struct slots *slots = open_slots(4, 2);
    uint32_t slot = take_filled(slots, 5);
    uint64_t at, bytes;
    uint64_t lease = slots_lease(slots, slot, 1);
    ck_assert(slots_training(slots, slot, &labels, 0, 4, &at, &bytes));
    slots_release(slots, 1, lease);
    lease = slots_lease(slots, slot, 2); /* a peer that comes late */
    ck_assert(slots_training(slots, slot, &labels, 0, 4, &at, &bytes));
    ck_assert_uint_eq(rows_made(slots), 4);
    slots_release(slots, 2, lease);
    slots_put(slots, slot);
    ck_assert_uint_eq(take_filled(slots, 6), slot); /* another step in the same slot */
    ck_assert_uint_ne(slots_lease(slots, slot, 1), 0);
    ck_assert(slots_training(slots, slot, &labels, 0, 4, &at, &bytes));
    ck_assert_uint_eq(rows_made(slots), 8);
    slots_close(slots);
}
END_TEST

START_TEST(areas_go_round_and_never_from_under_a_lease)
{
    struct slots *slots = open_slots(6, 2);
    struct slots_stats stats;
    uint64_t at[2], other, bytes, lease = 0;
    for (uint64_t step = 0; step < 50; step++) { /* one at a time touches one area */
        uint32_t slot = take_filled(slots, step);
        lease = slots_lease(slots, slot, 1);
        ck_assert(slots_training(slots, slot, &labels, 0, 4, &at[0], &bytes));
        slots_release(slots, 1, lease);
        slots_put(slots, slot);
    }
    slots_stats(slots, &stats);
    ck_assert_uint_eq(stats.areas, 2);
    ck_assert_uint_eq(stats.areas_used, 1);
    uint32_t held = take_filled(slots, 100), next = take_filled(slots, 101);
    ck_assert_uint_ne(slots_lease(slots, held, 1), 0);
    ck_assert(slots_training(slots, held, &labels, 0, 4, &at[0], &bytes));
    for (uint64_t step = 101; step < 105; step++) { /* steps that stay in the window, leased in turn */
        lease = slots_lease(slots, next, 1);
        ck_assert(slots_training(slots, next, &labels, 0, 4, &at[1], &bytes));
        ck_assert_uint_ne(at[0], at[1]);
        slots_release(slots, 1, lease);
        if (step < 104)
            next = take_filled(slots, step + 1);
    }
    ck_assert(slots_training(slots, held, &labels, 0, 4, &other, &bytes));
    ck_assert_uint_eq(other, at[0]);
    ck_assert_uint_eq(rows_made(slots), 4 * (50 + 1 + 4));
    slots_close(slots);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("host/slots");
    TCase *t = tcase_create("slots");
    tcase_add_test(t, a_slot_is_free_again_when_cursor_and_leases_are_gone);
    tcase_add_test(t, a_dead_client_gives_everything_back);
    tcase_add_test(t, only_so_many_slots_can_be_leased);
    tcase_add_test(t, rows_tokens_and_parts_do_not_overlap);
    tcase_add_test(t, a_receiver_of_the_descriptor_can_only_read);
    tcase_add_test(t, training_arrays_are_made_once_for_all_that_ask);
    tcase_add_test(t, training_arrays_in_use_are_not_made_anew_otherwise);
    tcase_add_test(t, training_arrays_outlive_a_lease_and_not_the_step);
    tcase_add_test(t, areas_go_round_and_never_from_under_a_lease);
    suite_add_tcase(s, t);
    return s;
}
