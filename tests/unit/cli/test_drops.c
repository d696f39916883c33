/* The list of dropped rows: in order, bounded, whole lines. The command is in tests/e2e/test_counts.py. */
#include "client/cli/drops.h"

#include "op/measure.h"
#include "tests/lib/check_main.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANY 1150000u /* rows: more than may wait */
#define FEW 3u

struct fix {
    struct lk_dataset_recipe recipe_of[2];
    struct lk_recipe recipe;
    struct lk_index_shard shard[3];
    struct lk_index index[2];
    struct stream stream;
    struct measure_dataset dataset[2];
    struct measure_result result;
    struct drops drops;
    int out, stdout_before; /* standard output is a file meanwhile */
};

static struct lk_index index_of(struct lk_index_shard *shard, uint32_t shards, uint64_t rows)
{
    struct lk_index index = {.shards = shards, .shard = shard, .rows = rows};
    index.row_bytes = index.row_hash = lk_zalloc(rows, sizeof *index.row_bytes);
    index.granule = lk_zalloc(rows / LK_INDEX_GRANULE + shards, sizeof *index.granule);
    return index;
}

/* Dataset "big" has two shards, the second one of 7 rows, "small" one with an odd name. */
static void open_fix(struct fix *f, bool json)
{
    char path[] = "/tmp/lk-drops-XXXXXX";
    *f = (struct fix){.recipe_of = {{.name = (char *)"big"}, {.name = (char *)"small"}},
                      .recipe = {.name = (char *)"s", .n_datasets = 2},
                      .shard = {{.name = "one.jsonl", .rows = MANY - 7, .stride = LK_INDEX_GRANULE},
                                {.name = "two.jsonl", .first_row = MANY - 7, .rows = 7, .stride = LK_INDEX_GRANULE,
                                 .first_granule = MANY / LK_INDEX_GRANULE},
                                {.name = "a\nb\x1b.jsonl", .rows = FEW, .stride = LK_INDEX_GRANULE}},
                      .dataset = {{.dataset = 0}, {.dataset = 1}}};
    f->recipe.dataset = f->recipe_of;
    f->index[0] = index_of(&f->shard[0], 2, MANY);
    f->index[1] = index_of(&f->shard[2], 1, FEW);
    f->stream = (struct stream){.recipe = &f->recipe, .index = f->index};
    f->result = (struct measure_result){.stream = &f->stream, .n_streams = 1, .dataset = f->dataset, .n = 2};
    f->out = mkstemp(path);
    ck_assert_int_ge(f->out, 0);
    (void)unlink(path);
    f->stdout_before = dup(STDOUT_FILENO);
    ck_assert_int_eq(dup2(f->out, STDOUT_FILENO), STDOUT_FILENO);
    drops_init(&f->drops, &f->result, json, NULL);
}

/* What was written; caller frees. */
static char *close_fix(struct fix *f)
{
    size_t n = (size_t)lseek(f->out, 0, SEEK_END);
    char *text = lk_zalloc(n + 1, 1);
    ck_assert_int_eq(pread(f->out, text, n, 0), (ssize_t)n);
    drops_done(&f->drops);
    (void)dup2(f->stdout_before, STDOUT_FILENO);
    (void)close(f->stdout_before);
    (void)close(f->out);
    for (int i = 0; i < 2; i++) {
        free((void *)f->index[i].row_bytes);
        free((void *)f->index[i].granule);
    }
    return text;
}

static void write_some(struct fix *f, bool all)
{
    struct lk_err err;
    ck_assert_int_eq(drops_write(&f->drops, all, -1, &err), LK_OK);
    ck_assert_uint_le(f->drops.out.len, PIPE_BUF);
}

START_TEST(rows_that_come_last_first_are_listed_in_order)
{
    struct fix f;
    open_fix(&f, false);
    for (uint64_t row = 1000; row-- > 1;)
        drops_put(&f.drops, 0, row, row == 7 ? LK_DROP_MALFORMED : row == 70 ? LK_DROP_FILTER_BYTES : LK_DROP_NONE);
    write_some(&f, true);
    ck_assert_int_eq(lseek(f.out, 0, SEEK_END), 0); /* the first one is not known yet */
    drops_put(&f.drops, 0, 0, LK_DROP_FIELD);
    write_some(&f, false);
    ck_assert_int_eq(lseek(f.out, 0, SEEK_END), 0); /* nor is there enough to be worth it */
    write_some(&f, true);
    char *text = close_fix(&f);
    ck_assert_str_eq(text, "s: dataset big shard one.jsonl row 0: missing_text\n"
                           "s: dataset big shard one.jsonl row 7: malformed_row\n"
                           "s: dataset big shard one.jsonl row 70: filter_bytes\n");
    free(text);
}
END_TEST

START_TEST(more_rows_than_may_wait_are_listed_piece_by_piece)
{
    struct fix f;
    open_fix(&f, true);
    uint64_t room = 0, waits = 0;
    for (uint64_t row = 1; row < MANY; row++) {
        if (!drops_room(&f.drops, 0, row, 1)) {
            room = waits++ == 0 ? row : room;
            drops_put(&f.drops, 0, 0, LK_DROP_NONE); /* what all wait for, the first time */
            write_some(&f, false);
            ck_assert_uint_eq(waits, 1);
        }
        drops_put(&f.drops, 0, row, row % 1000 == 999 ? LK_DROP_CRASH : LK_DROP_NONE);
        if (waits > 0 && row % 200 == 0)
            write_some(&f, false);
    }
    ck_assert_uint_eq(room, 1u << 20);
    ck_assert_uint_eq(waits, 1);
    write_some(&f, false);
    for (uint32_t row = 0; row < FEW; row++)
        drops_put(&f.drops, 1, row, row == 2 ? LK_DROP_SPECIAL : LK_DROP_NONE);
    ck_assert(drops_room(&f.drops, 1, 0, 1));
    write_some(&f, true);
    write_some(&f, true); /* at the end there is nothing more */
    char *text = close_fix(&f), *line = text;
    for (uint64_t row = 999; row < MANY; row += 1000) {
        bool last = row == MANY - 1;
        char *want = lk_format("{\"stream\":\"s\",\"dataset\":\"big\",\"shard\":\"%s\",\"row_in_shard\":%llu,"
                               "\"row\":%llu,\"reason\":\"crashes_worker\"}\n", last ? "two.jsonl" : "one.jsonl",
                               last ? 6ull : (unsigned long long)row, (unsigned long long)row);
        ck_assert_int_eq(strncmp(line, want, strlen(want)), 0);
        line += strlen(want);
        free(want);
    }
    ck_assert_str_eq(line, "{\"stream\":\"s\",\"dataset\":\"small\",\"shard\":\"a\\nb\\u001b.jsonl\",\"row_in_shard\":2,"
                           "\"row\":2,\"reason\":\"special_token\"}\n");
    free(text);
}
END_TEST

START_TEST(an_odd_name_stays_on_its_line)
{
    struct fix f;
    open_fix(&f, false);
    f.result.n = 1;
    f.dataset[0].dataset = 1;
    drops_done(&f.drops);
    drops_init(&f.drops, &f.result, false, NULL);
    drops_put(&f.drops, 0, 0, LK_DROP_EMPTY);
    write_some(&f, true);
    char *text = close_fix(&f);
    ck_assert_str_eq(text, "s: dataset small shard \"a\\nb\\x1b.jsonl\" row 0: no_tokens\n");
    free(text);
}
END_TEST

START_TEST(a_signal_ends_it_and_a_full_disk_is_an_error)
{
    struct fix f;
    struct lk_err err;
    int stop[2];
    open_fix(&f, false);
    ck_assert_int_eq(pipe(stop), 0);
    drops_put(&f.drops, 0, 0, LK_DROP_EMPTY);
    ck_assert_int_eq(write(stop[1], "x", 1), 1);
    ck_assert_int_eq(drops_write(&f.drops, true, stop[0], &err), LK_CANCELLED);
    (void)close(STDOUT_FILENO);
    ck_assert_int_ne(drops_write(&f.drops, true, -1, &err), LK_OK);
    ck_assert_ptr_nonnull(strstr(err.text, "cannot write to standard output"));
    char *text = close_fix(&f);
    ck_assert_str_eq(text, "");
    free(text);
    (void)close(stop[0]);
    (void)close(stop[1]);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("drops");
    TCase *t = tcase_create("drops");
    tcase_add_test(t, rows_that_come_last_first_are_listed_in_order);
    tcase_add_test(t, more_rows_than_may_wait_are_listed_piece_by_piece);
    tcase_add_test(t, an_odd_name_stays_on_its_line);
    tcase_add_test(t, a_signal_ends_it_and_a_full_disk_is_an_error);
    tcase_set_timeout(t, 60);
    suite_add_tcase(s, t);
    return s;
}
