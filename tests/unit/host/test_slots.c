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

Suite *suite(void)
{
    Suite *s = suite_create("host/slots");
    TCase *t = tcase_create("slots");
    tcase_add_test(t, a_slot_is_free_again_when_cursor_and_leases_are_gone);
    tcase_add_test(t, a_dead_client_gives_everything_back);
    tcase_add_test(t, only_so_many_slots_can_be_leased);
    tcase_add_test(t, rows_tokens_and_parts_do_not_overlap);
    tcase_add_test(t, a_receiver_of_the_descriptor_can_only_read);
    suite_add_tcase(s, t);
    return s;
}
