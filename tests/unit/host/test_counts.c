#include "host/counts.h"

#include "base/keys.h"
#include "tests/lib/check_main.h"
#include "tests/lib/temp_dir.h"

#include <dirent.h>
#include <fcntl.h>

#define SHARDS 6 /* one of them without rows */
#define SHARD_ROWS 2000
#define ROWS (5 * SHARD_ROWS)

static const struct log quiet = {.level = LOG_LEVEL_ERROR};
static const struct lk_digest ops = {.lo = 1, .hi = 2}, other_ops = {.lo = 1, .hi = 3};
static struct temp_dir dir;
static char folder[128];
static uint32_t row_bytes[ROWS];
static struct lk_index_shard shard[SHARDS];
static struct lk_index index_of_rows = {
    .shards = SHARDS, .shard = shard, .rows = ROWS, .row_bytes = row_bytes, .digest = {5, 6}};

static void setup(void)
{
    static const char *const names[SHARDS] = {"a", "b", "c", "d", "e", "f"};
    uint64_t first = 0;
    temp_dir_init(&dir);
    snprintf(folder, sizeof folder, "%s/counts", dir.path);
    for (uint32_t s = 0; s < SHARDS; s++) {
        shard[s] = (struct lk_index_shard){
            .name = names[s], .first_row = first, .rows = s == 2 ? 0 : SHARD_ROWS, .content = {s, 9}};
        first += shard[s].rows;
    }
    for (uint32_t r = 0; r < ROWS; r++)
        row_bytes[r] = 100 + (uint32_t)(lk_key(3, r) % 5000);
}

static void teardown(void)
{
    temp_dir_done(&dir);
}

static struct counts *open_with(uint64_t disk, uint64_t memory, bool write, const struct log *log)
{
    struct counts_config config = {
        .dir = folder, .disk_bytes = disk, .memory_bytes = memory, .write = write, .log = log};
    struct counts *counts;
    struct lk_err err;
    ck_assert_int_eq(counts_open(&config, &counts, &err), LK_OK);
    return counts;
}

static struct counts *open_here(void)
{
    return open_with(1u << 30, 64u << 20, true, &quiet);
}

static struct counts_set *set_of(struct counts *counts)
{
    return counts_set(counts, ops, &index_of_rows, "docs");
}

static struct lk_count count_of(uint64_t row)
{
    struct lk_count count = {.known = true, .drop = row % 50 == 7 ? 4 : 0, .text_bytes = row_bytes[row] - 60};
    if (count.drop == 0) {
        count.tokens = 1 + count.text_bytes / 4 + (uint32_t)(lk_key(4, row) % 20);
        count.specials = row % 9 == 0;
    }
    return count;
}

static void put_rows(struct counts_set *set, uint64_t from, uint64_t to)
{
    for (uint64_t row = from; row < to; row++)
        counts_put(set, row, count_of(row));
}

/* Found or not, what is found has to be right. */
static bool get_row(struct counts_set *set, uint64_t row)
{
    struct lk_count got, expected = count_of(row);
    if (!counts_get(set, &row, 1, &got))
        return false;
    ck_assert_uint_eq(got.tokens, expected.tokens);
    ck_assert_uint_eq(got.drop, expected.drop);
    ck_assert_uint_eq(got.text_bytes, expected.text_bytes);
    ck_assert_uint_eq(got.specials, expected.specials);
    return true;
}

static uint64_t found_rows(struct counts_set *set, uint64_t from, uint64_t to)
{
    uint64_t found = 0;
    for (uint64_t row = from; row < to; row++)
        found += get_row(set, row);
    return found;
}

static struct counts_stats stats_of(struct counts *counts)
{
    struct counts_stats stats;
    counts_stats(counts, &stats);
    return stats;
}

static void fill(uint64_t from, uint64_t to)
{
    struct counts *counts = open_here();
    put_rows(set_of(counts), from, to);
    counts_close(counts);
}

/* Calls @each with the path of every file; how many there are. */
static int each_file(void (*each)(const char *path))
{
    int n = 0;
    DIR *open = opendir(folder);
    for (struct dirent *entry; open != NULL && (entry = readdir(open)) != NULL;) {
        char path[512];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (each != NULL)
            each(path);
        n++;
    }
    if (open != NULL)
        closedir(open);
    return n;
}

START_TEST(what_was_put_is_found_by_whoever_measures_alike)
{
    fill(0, ROWS);
    struct counts *counts = open_here();
    struct counts_set *set = set_of(counts);
    uint64_t rows[] = {2 * SHARD_ROWS + 300, 2 * SHARD_ROWS + 7, 3 * SHARD_ROWS - 1, 3 * SHARD_ROWS, 0, ROWS - 1};
    struct lk_count got[6];
    ck_assert_ptr_eq(set_of(counts), set);
    ck_assert_uint_eq(counts_known(set), ROWS);
    ck_assert_uint_eq(found_rows(set, 0, ROWS), ROWS);
    ck_assert(counts_get(set, rows, 6, got)); /* of four shards */
    for (int i = 0; i < 6; i++)
        ck_assert_uint_eq(got[i].tokens, count_of(rows[i]).tokens);
    counts_used(set, 3);
    ck_assert_uint_eq(stats_of(counts).used, 3);
    ck_assert_uint_eq(counts_known(counts_set(counts, other_ops, &index_of_rows, "docs")), 0);
    ck_assert_int_eq(each_file(NULL), SHARDS - 1);
    counts_close(counts);
}
END_TEST

START_TEST(rows_that_were_not_measured_are_not_known)
{
    fill(100, 300);
    struct counts *counts = open_here();
    struct counts_set *set = set_of(counts);
    uint64_t rows[] = {299, 300}, elsewhere[] = {299, ROWS - 1};
    struct lk_count got[2];
    ck_assert_uint_eq(found_rows(set, 0, ROWS), 200);
    ck_assert(!counts_get(set, rows, 2, got));
    ck_assert(!counts_get(set, elsewhere, 2, got));
    ck_assert(counts_get(set, rows, 1, got));
    counts_close(counts);
}
END_TEST

START_TEST(another_shard_of_the_same_name_is_another)
{
    fill(0, SHARD_ROWS);
    shard[0].content.lo = 77;
    struct counts *counts = open_here();
    ck_assert_uint_eq(found_rows(set_of(counts), 0, SHARD_ROWS), 0);
    counts_close(counts);
    shard[0].content.lo = 0;
    row_bytes[5]++; /* the same bytes, cut into other rows */
    counts = open_here();
    ck_assert_uint_eq(found_rows(set_of(counts), 0, SHARD_ROWS), 0);
    counts_close(counts);
}
END_TEST

/* One that has the folder open sees what the other writes, within about a second. */
START_TEST(two_at_one_folder_add_to_each_other)
{
    struct counts *a = open_here(), *b = open_here();
    ck_assert_uint_eq(found_rows(set_of(b), 0, 500), 0);
    put_rows(set_of(a), 0, 500);
    put_rows(set_of(b), 400, 900);
    counts_flush(a);
    counts_flush(b);
    usleep(1100000);
    ck_assert_uint_eq(found_rows(set_of(a), 0, ROWS), 900);
    ck_assert_uint_eq(found_rows(set_of(b), 0, ROWS), 900);
    put_rows(set_of(a), 900, 1000);
    counts_flush(a);
    usleep(1100000);
    ck_assert_uint_eq(found_rows(set_of(b), 0, ROWS), 1000);
    ck_assert_uint_eq(stats_of(a).kept + stats_of(b).kept, 1000);
    ck_assert_uint_eq(stats_of(a).wrong + stats_of(b).wrong, 0);
    counts_close(a);
    counts_close(b);
}
END_TEST

START_TEST(what_is_known_is_not_written_again)
{
    fill(0, ROWS);
    struct counts *counts = open_here();
    put_rows(set_of(counts), 0, ROWS);
    counts_flush(counts);
    ck_assert_uint_eq(stats_of(counts).written, 0);
    ck_assert_uint_eq(stats_of(counts).waiting, 0);
    counts_close(counts);
}
END_TEST

static size_t cut_to;

static void cut(const char *path)
{
    ck_assert_int_eq(truncate(path, (off_t)cut_to), 0);
}

START_TEST(torn_at_any_byte_they_are_ignored_and_made_anew)
{
    struct counts_stats stats;
    for (cut_to = 0; cut_to < 200; cut_to++) {
        fill(0, 40);
        ck_assert_int_eq(each_file(cut), 1);
        struct counts *counts = open_with(1u << 30, 4u << 20, true, &quiet);
        uint64_t found = found_rows(set_of(counts), 0, 40);
        ck_assert_msg(found == 0 || found == 40, "%zu bytes: %d rows", cut_to, (int)found);
        put_rows(set_of(counts), 0, 40);
        counts_flush(counts);
        stats = stats_of(counts);
        counts_close(counts);
        counts = open_here();
        ck_assert_uint_eq(found_rows(set_of(counts), 0, 40), 40);
        ck_assert_uint_eq(stats_of(counts).damaged, 0);
        counts_close(counts);
        ck_assert_msg(stats.damaged == (found == 0) && stats.written == (found == 0), "%zu bytes", cut_to);
    }
}
END_TEST

static size_t flip_at;

static void flip(const char *path)
{
    char byte;
    int fd = open(path, O_RDWR);
    ck_assert_int_eq(pread(fd, &byte, 1, (off_t)flip_at), 1);
    byte ^= (char)(1 << flip_at % 8);
    ck_assert_int_eq(pwrite(fd, &byte, 1, (off_t)flip_at), 1);
    close(fd);
}

START_TEST(a_flipped_bit_is_noticed)
{
    for (flip_at = 0; flip_at < 180; flip_at++) {
        fill(0, 60);
        ck_assert_int_eq(each_file(flip), 1);
        struct counts *counts = open_with(1u << 30, 4u << 20, true, &quiet);
        ck_assert_uint_eq(found_rows(set_of(counts), 0, 60), 0);
        ck_assert_uint_eq(stats_of(counts).damaged, 1);
        ck_assert_int_eq(each_file(NULL), 0);
        counts_close(counts);
    }
}
END_TEST

START_TEST(who_only_reads_changes_nothing)
{
    fill(0, 60);
    flip_at = 100;
    ck_assert_int_eq(each_file(flip), 1);
    struct counts *counts = open_with(1u << 30, 4u << 20, false, &quiet);
    ck_assert_uint_eq(found_rows(set_of(counts), 0, 60), 0);
    put_rows(set_of(counts), 0, 60);
    counts_flush(counts);
    counts_close(counts);
    ck_assert_int_eq(each_file(NULL), 1);
    ck_assert_int_eq(each_file(flip), 1); /* back */
    counts = open_with(1u << 30, 4u << 20, false, &quiet);
    ck_assert_uint_eq(found_rows(set_of(counts), 0, 60), 60);
    counts_close(counts);
}
END_TEST

START_TEST(what_contradicts_is_named_and_replaced)
{
    struct lk_count wrong = {.tokens = 1, .text_bytes = 9};
    uint64_t row = 42;
    struct counts *counts = open_here();
    put_rows(set_of(counts), 0, 42);
    counts_put(set_of(counts), 42, wrong);
    put_rows(set_of(counts), 43, 100);
    counts_close(counts);
    counts = open_with(1u << 30, 4u << 20, true, &quiet);
    struct lk_count got;
    ck_assert(counts_get(set_of(counts), &row, 1, &got));
    ck_assert_uint_eq(got.tokens, 1);
    put_rows(set_of(counts), 0, 100);
    ck_assert(get_row(set_of(counts), row)); /* at once */
    counts_flush(counts);
    ck_assert_uint_eq(stats_of(counts).wrong, 1);
    counts_close(counts);
    counts = open_here();
    ck_assert_uint_eq(found_rows(set_of(counts), 0, 100), 100);
    counts_close(counts);
}
END_TEST

START_TEST(what_was_found_to_be_wrong_is_not_used_again)
{
    struct lk_count wrong = {.tokens = 1, .text_bytes = 9}, got;
    uint64_t row = 42, late = SHARD_ROWS + 42;
    struct counts *counts = open_here();
    counts_put(set_of(counts), row, wrong);
    counts_put(set_of(counts), late, wrong);
    counts_close(counts);
    counts = open_here();
    struct counts_set *set = set_of(counts);
    counts_put(set, row, count_of(row)); /* nobody has read the file */
    ck_assert_uint_eq(counts_doubts(set), 0);
    counts_correct(set, row, count_of(row));
    ck_assert_uint_eq(counts_doubts(set), 1);
    ck_assert(get_row(set, row));
    counts_put(set, late, count_of(late));
    ck_assert(counts_get(set, &late, 1, &got));
    ck_assert_uint_eq(got.tokens, 1); /* it is not written yet */
    counts_flush(counts);
    ck_assert_uint_eq(counts_doubts(set), 2); /* each once */
    ck_assert(get_row(set, row));
    ck_assert(get_row(set, late));
    ck_assert_uint_eq(counts_doubts(set), 2);
    counts_close(counts);
}
END_TEST

static uint64_t all_bytes;

static void add_bytes(const char *path)
{
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    all_bytes += (uint64_t)st.st_size;
}

START_TEST(the_folder_stays_within_its_size_and_the_oldest_go)
{
    for (uint64_t s = 0; s < 5; s++) {
        struct counts *counts = open_with(7000, 64u << 20, true, &quiet);
        put_rows(set_of(counts), s * SHARD_ROWS, (s + 1) * SHARD_ROWS);
        counts_close(counts);
        usleep(20000);
    }
    all_bytes = 0;
    int files = each_file(add_bytes);
    ck_assert_msg(files > 0 && files < 5 && all_bytes <= 7000, "%d files, %d bytes", files, (int)all_bytes);
    struct counts *counts = open_here();
    ck_assert_uint_eq(found_rows(set_of(counts), 0, SHARD_ROWS), 0);
    ck_assert_uint_eq(found_rows(set_of(counts), 4 * SHARD_ROWS, ROWS), SHARD_ROWS);
    counts_close(counts);
}
END_TEST

/* Little memory costs reading again, in whatever order. */
START_TEST(memory_is_bounded)
{
    fill(0, ROWS);
    struct counts *counts = open_with(1u << 30, 128u << 10, true, &quiet);
    struct counts_set *set = set_of(counts);
    for (uint64_t i = 0; i < 3000; i++) {
        ck_assert(get_row(set, lk_key(8, i) % ROWS));
        ck_assert_uint_le(stats_of(counts).memory, 128u << 10);
    }
    for (uint64_t i = 0; i < 5000; i++) {
        counts_put(set, lk_key(9, i) % ROWS, (struct lk_count){.tokens = 1, .text_bytes = 1});
        ck_assert_uint_le(stats_of(counts).memory, 128u << 10);
    }
    ck_assert_uint_gt(stats_of(counts).dropped, 0);
    counts_close(counts);
}
END_TEST

/* Measuring ahead outruns the disk: then it waits. */
START_TEST(who_is_eager_loses_nothing_with_little_memory)
{
    struct counts_config config = {.dir = folder, .disk_bytes = 1u << 30, .memory_bytes = 64u << 10,
                                   .write = true, .eager = true, .log = &quiet};
    struct counts *counts;
    struct lk_err err;
    ck_assert_int_eq(counts_open(&config, &counts, &err), LK_OK);
    struct counts_set *set = set_of(counts);
    for (uint64_t row = 0; row < ROWS; row++) { /* of all shards in turns */
        uint64_t of = row % 2 == 0 ? row / 2 : ROWS - 1 - row / 2;
        counts_put(set, of, count_of(of));
        ck_assert_uint_le(stats_of(counts).memory, config.memory_bytes);
    }
    counts_flush(counts);
    ck_assert_uint_eq(stats_of(counts).dropped, 0);
    ck_assert_uint_eq(found_rows(set, 0, ROWS), ROWS);
    counts_close(counts);
}
END_TEST

START_TEST(a_folder_that_goes_away_costs_the_files_alone)
{
    struct counts *counts = open_with(1u << 30, 4u << 20, true, &quiet);
    put_rows(set_of(counts), 0, 100);
    counts_flush(counts);
    ck_assert_int_eq(each_file(NULL), 1);
    ck_assert_int_eq(nftw(folder, temp_dir_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    put_rows(set_of(counts), 100, 200);
    counts_flush(counts);
    ck_assert_uint_eq(stats_of(counts).failed, 1);
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    put_rows(set_of(counts), 200, 300);
    counts_flush(counts);
    counts_close(counts);
    counts = open_here();
    ck_assert_uint_eq(found_rows(set_of(counts), 0, 300), 100);
    counts_close(counts);
}
END_TEST

static void rewrite_version(const char *path)
{
    uint8_t head[96];
    int fd = open(path, O_RDWR);
    ck_assert_int_eq(read(fd, head, sizeof head), sizeof head);
    head[4] = 9;
    uint64_t hash = lk_hash64(head, 88, 0);
    memcpy(head + 88, &hash, 8);
    ck_assert_int_eq(pwrite(fd, head, sizeof head, 0), sizeof head);
    close(fd);
}

START_TEST(files_of_another_version_are_left_alone)
{
    fill(0, 100);
    ck_assert_int_eq(each_file(rewrite_version), 1);
    struct counts *counts = open_with(1u << 30, 4u << 20, true, &quiet);
    ck_assert_uint_eq(found_rows(set_of(counts), 0, 100), 0);
    put_rows(set_of(counts), 0, 100);
    counts_flush(counts);
    ck_assert_uint_eq(stats_of(counts).damaged, 0);
    ck_assert_uint_eq(stats_of(counts).failed, 1);
    counts_close(counts);
    ck_assert_int_eq(each_file(NULL), 1);
}
END_TEST

START_TEST(a_file_is_checked)
{
    uint64_t rows, known;
    struct lk_err err;
    char name[512];
    fill(0, 100);
    snprintf(name, sizeof name, "%s/%016x%016x-%016x%016x.lkc", folder, 2, 1, 9, 0);
    ck_assert_int_eq(counts_check(name, &rows, &known, &err), LK_OK);
    ck_assert_uint_eq(rows, SHARD_ROWS);
    ck_assert_uint_eq(known, 100);
    flip_at = 130;
    flip(name);
    ck_assert_int_eq(counts_check(name, &rows, &known, &err), LK_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(err.text, "checksum"));
    flip(name);
    ck_assert_int_eq(rename(name, temp_path(&dir, "x.lkc")), 0);
    ck_assert_int_eq(counts_check(temp_path(&dir, "x.lkc"), &rows, &known, &err), LK_DATA_LOSS);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("host/counts");
    TCase *t = tcase_create("counts");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, what_was_put_is_found_by_whoever_measures_alike);
    tcase_add_test(t, rows_that_were_not_measured_are_not_known);
    tcase_add_test(t, another_shard_of_the_same_name_is_another);
    tcase_add_test(t, two_at_one_folder_add_to_each_other);
    tcase_add_test(t, what_is_known_is_not_written_again);
    tcase_add_test(t, torn_at_any_byte_they_are_ignored_and_made_anew);
    tcase_add_test(t, a_flipped_bit_is_noticed);
    tcase_add_test(t, who_only_reads_changes_nothing);
    tcase_add_test(t, what_contradicts_is_named_and_replaced);
    tcase_add_test(t, what_was_found_to_be_wrong_is_not_used_again);
    tcase_add_test(t, the_folder_stays_within_its_size_and_the_oldest_go);
    tcase_add_test(t, memory_is_bounded);
    tcase_add_test(t, who_is_eager_loses_nothing_with_little_memory);
    tcase_add_test(t, a_folder_that_goes_away_costs_the_files_alone);
    tcase_add_test(t, files_of_another_version_are_left_alone);
    tcase_add_test(t, a_file_is_checked);
    suite_add_tcase(s, t);
    return s;
}
