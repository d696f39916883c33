#include "worker/memory.h"

#include "tests/lib/check_main.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define MIB ((size_t)1 << 20)

/* Reserved, not touched: the limit counts it all the same. */
static bool room_for(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p != MAP_FAILED)
        ck_assert_int_eq(munmap(p, bytes), 0);
    return p != MAP_FAILED;
}

START_TEST(memory_may_grow_up_to_the_limit_and_no_further)
{
    ck_assert(room_for(600 * MIB));
    memory_limit(512 * MIB);
    ck_assert(room_for(400 * MIB));
    ck_assert(!room_for(600 * MIB));
}
END_TEST

START_TEST(lower_limit_that_is_there_already_stays)
{
    struct rlimit limit;
    memory_limit(256 * MIB);
    memory_limit(1024 * MIB);
    ck_assert(!room_for(512 * MIB));
    ck_assert_int_eq(getrlimit(RLIMIT_DATA, &limit), 0);
    ck_assert_uint_eq(limit.rlim_max, RLIM_INFINITY);
}
END_TEST

START_TEST(limit_beyond_all_numbers_is_none)
{
    struct rlimit before, after;
    ck_assert_int_eq(getrlimit(RLIMIT_DATA, &before), 0);
    memory_limit(UINT64_MAX);
    ck_assert_int_eq(getrlimit(RLIMIT_DATA, &after), 0);
    ck_assert_uint_eq(before.rlim_cur, after.rlim_cur);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("worker/memory");
    TCase *t = tcase_create("memory");
    tcase_add_test(t, memory_may_grow_up_to_the_limit_and_no_further);
    tcase_add_test(t, lower_limit_that_is_there_already_stays);
    tcase_add_test(t, limit_beyond_all_numbers_is_none);
    suite_add_tcase(s, t);
    return s;
}
