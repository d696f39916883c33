#include "host/snapshots.h"

#include "tests/lib/check_main.h"
#include "tests/lib/temp_dir.h"

#include <dirent.h>
#include <unistd.h>

static const struct log quiet = {.level = LOG_LEVEL_ERROR};
static const struct lk_digest order = {.lo = 1, .hi = 2};
static struct temp_dir dir;

/* One sequence a step and lane: positions are steps. */
static struct lk_batch_recipe batch = {.size = 8};
static const struct lk_recipe recipe = {.lanes = 8, .n_batches = 1, .batch = &batch};

static void setup(void)
{
    temp_dir_init(&dir);
}

static void teardown(void)
{
    temp_dir_done(&dir);
}

static struct snapshots *open_here(uint32_t keep)
{
    struct snapshots *s;
    struct lk_err err;
    ck_assert_int_eq(snapshots_open(dir.path, keep, &quiet, &s, &err), LK_OK);
    return s;
}

/* A state whose bytes tell its position. */
static void write_state(struct snapshots *s, uint32_t lane, uint64_t position)
{
    struct lk_buf state = {0};
    for (int i = 0; i < 200; i++)
        lk_buf_putf(&state, "lane %u position %llu;", lane, (unsigned long long)position);
    snapshots_write(s, &recipe, 100, order, lane, position, &state);
    ck_assert_ptr_null(state.data);
}

static bool read_state(struct snapshots *s, uint32_t lane, uint64_t until, uint64_t *ret_position)
{
    struct lk_buf state = {0};
    char expected[64];
    bool found = snapshots_read(s, order, lane, 1, until, ret_position, &state);
    if (found) {
        snprintf(expected, sizeof expected, "lane %u position %llu;", lane,
                 (unsigned long long)*ret_position);
        ck_assert_mem_eq(state.data, expected, strlen(expected));
    }
    lk_buf_done(&state);
    return found;
}

static void path_of(uint32_t lane, uint64_t position, char ret_path[256])
{
    snprintf(ret_path, 256, "%s/%016x%016x-%05u-%020llu.lks", dir.path, 2, 1, lane,
             (unsigned long long)position);
}

START_TEST(the_newest_at_or_before_is_read_back)
{
    struct snapshots *s = open_here(8);
    uint64_t at;
    for (uint64_t p = 100; p <= 500; p += 100)
        write_state(s, 3, p);
    write_state(s, 4, 300);
    snapshots_close(s); /* writes what is queued */
    s = open_here(8);
    ck_assert(read_state(s, 3, 450, &at));
    ck_assert_uint_eq(at, 400);
    ck_assert(read_state(s, 3, 500, &at));
    ck_assert_uint_eq(at, 500);
    ck_assert(!read_state(s, 3, 99, &at));
    ck_assert(read_state(s, 4, 1000, &at));
    ck_assert_uint_eq(at, 300);
    ck_assert(!read_state(s, 5, 1000, &at));
    snapshots_close(s);
}
END_TEST

static void put_file(const char *path, const uint8_t *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* The older one is used, and the damaged one is gone. */
static void passed_over(const char *path)
{
    struct snapshots *s = open_here(8);
    uint64_t at;
    ck_assert(read_state(s, 0, 1000, &at));
    ck_assert_uint_eq(at, 100);
    ck_assert_int_ne(access(path, F_OK), 0);
    snapshots_close(s);
}

/* Every truncation and every flipped bit of the newest. */
START_TEST(a_damaged_one_is_passed_over_and_removed)
{
    struct snapshots *s = open_here(8);
    char path[256];
    uint8_t bytes[4096];
    uint64_t at;
    write_state(s, 0, 100);
    write_state(s, 0, 200);
    snapshots_close(s);
    path_of(0, 200, path);
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    ck_assert_uint_gt(n, 64);
    for (size_t i = 0; i < n; i++) {
        put_file(path, bytes, i);
        passed_over(path);
        bytes[i] ^= (uint8_t)(1u << i % 8);
        put_file(path, bytes, n);
        bytes[i] ^= (uint8_t)(1u << i % 8);
        passed_over(path);
    }
    put_file(path, bytes, n);
    s = open_here(8);
    ck_assert(read_state(s, 0, 1000, &at));
    ck_assert_uint_eq(at, 200);
    snapshots_close(s);
}
END_TEST

START_TEST(another_runs_newer_files_cost_this_one_nothing)
{
    struct snapshots *s = open_here(4);
    uint64_t at;
    write_state(s, 0, 100000000);
    for (uint64_t p = 100; p <= 2000; p += 100)
        write_state(s, 0, p);
    snapshots_close(s);
    s = open_here(4);
    ck_assert(read_state(s, 0, 2000, &at));
    ck_assert_uint_eq(at, 2000);
    ck_assert(read_state(s, 0, 1900, &at));
    ck_assert_uint_eq(at, 1900);
    ck_assert(read_state(s, 0, UINT64_MAX, &at));
    ck_assert_uint_eq(at, 100000000);
    snapshots_close(s);
}
END_TEST

START_TEST(a_renamed_one_is_not_believed)
{
    struct snapshots *s = open_here(8);
    char from[256], to[256];
    uint64_t at;
    struct lk_digest found;
    struct lk_err err;
    uint32_t lane;
    write_state(s, 0, 100);
    snapshots_close(s);
    path_of(0, 100, from);
    path_of(0, 900, to);
    ck_assert_int_eq(snapshot_check(from, &found, &lane, &at, &err), LK_OK);
    ck_assert_uint_eq(at, 100);
    ck_assert_int_eq(rename(from, to), 0);
    ck_assert_int_eq(snapshot_check(to, &found, &lane, &at, &err), LK_DATA_LOSS);
    s = open_here(8);
    ck_assert(!read_state(s, 0, 1000, &at));
    write_state(s, 0, 100);
    snapshots_close(s);
    path_of(7, 100, to); /* of another lane, at its own position */
    ck_assert_int_eq(rename(from, to), 0);
    s = open_here(8);
    ck_assert(!read_state(s, 7, 1000, &at));
    snapshots_close(s);
}
END_TEST

static unsigned count_files(void)
{
    unsigned n = 0;
    DIR *d = opendir(dir.path);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += strstr(e->d_name, ".lks") != NULL;
    closedir(d);
    return n;
}

START_TEST(old_ones_are_thinned_but_never_all_gone)
{
    struct snapshots *s = open_here(4);
    uint64_t at;
    for (uint64_t p = 100; p <= 20000; p += 100)
        write_state(s, 0, p);
    snapshots_close(s);
    /* The last four, every other one of the four before, every fourth of the eight before these, … */
    for (uint64_t number = 1; number <= 200; number++) {
        char path[256];
        uint64_t age = 200 - number, every = 1;
        for (uint64_t from = 4; age >= from; from *= 2)
            every *= 2;
        path_of(0, 100 * number, path);
        ck_assert_int_eq(access(path, F_OK) == 0, number % every == 0);
    }
    s = open_here(4);
    ck_assert_uint_lt(count_files(), 30);
    for (uint64_t age = 100; age < 19000; age += 700) { /* never further than 2/keep of the age */
        if (!read_state(s, 0, 20000 - age, &at))
            at = 0; /* the beginning is always there */
        ck_assert_uint_le(20000 - age - at, age / 2 + 100);
    }
    snapshots_close(s);
}
END_TEST

START_TEST(a_directory_that_cannot_be_made_is_named)
{
    struct snapshots *s;
    struct lk_err err;
    ck_assert_int_ne(snapshots_open("/proc/none/here", 1, &quiet, &s, &err), LK_OK);
    ck_assert_ptr_nonnull(strstr(err.text, "/proc/none/here"));
}
END_TEST

START_TEST(an_order_can_be_forgotten)
{
    static const struct lk_digest other = {.lo = 5, .hi = 6};
    struct lk_buf state = {0};
    struct snapshots *s = open_here(8);
    uint64_t at;
    for (uint64_t p = 100; p <= 500; p += 100)
        write_state(s, 3, p);
    lk_buf_puts(&state, "another order's");
    snapshots_write(s, &recipe, 100, other, 3, 100, &state);
    snapshots_close(s);
    s = open_here(8);
    ck_assert(read_state(s, 3, 500, &at));
    snapshots_forget(s, order);
    ck_assert(!read_state(s, 3, 500, &at));
    ck_assert(snapshots_read(s, other, 3, 1, 500, &at, &state));
    write_state(s, 3, 600); /* and it goes on */
    snapshots_close(s);
    s = open_here(8);
    ck_assert(read_state(s, 3, 700, &at));
    ck_assert_uint_eq(at, 600);
    snapshots_close(s);
    lk_buf_done(&state);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("host/snapshots");
    TCase *t = tcase_create("snapshots");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, the_newest_at_or_before_is_read_back);
    tcase_add_test(t, a_damaged_one_is_passed_over_and_removed);
    tcase_add_test(t, another_runs_newer_files_cost_this_one_nothing);
    tcase_add_test(t, a_renamed_one_is_not_believed);
    tcase_add_test(t, old_ones_are_thinned_but_never_all_gone);
    tcase_add_test(t, a_directory_that_cannot_be_made_is_named);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, an_order_can_be_forgotten);
    suite_add_tcase(s, t);
    return s;
}
