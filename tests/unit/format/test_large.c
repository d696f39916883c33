/* Shards larger than 32 bits can count, without storing one: a source that makes up its bytes. */
#include "format/format.h"
#include "tests/lib/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB (1ull << 30)

/* Where a short row lies among filling, as "\nrow N\n"; in rising order. Filling between two is a row of
 * its own, of at most LK_ROW_BYTES_MAX. */
enum { ISLAND = 7, ISLANDS = 8 };
static const uint64_t islands[ISLANDS] = {GIB,         2 * GIB - 8, 2 * GIB, 3 * GIB,
                                          4 * GIB - 8, 4 * GIB,     5 * GIB, 6 * GIB - ISLAND};

struct made_up {
    struct lk_source source;
    bool one_row; /* filling alone */
};

static void put_islands(uint64_t offset, uint8_t *to, size_t n)
{
    for (int i = 0; i < ISLANDS; i++) {
        char text[ISLAND + 1];
        (void)snprintf(text, sizeof text, "\nrow %d\n", i);
        for (uint64_t k = 0; k < ISLAND; k++)
            if (islands[i] + k >= offset && islands[i] + k - offset < n)
                to[islands[i] + k - offset] = (uint8_t)text[k];
    }
}

static enum lk_code read_at(struct lk_source *source, uint64_t offset, void *to, size_t n, struct lk_err *err)
{
    if (offset > source->bytes || n > source->bytes - offset)
        return lk_fail(err, LK_DATA_LOSS, "%s: cut off at %llu", source->name, (unsigned long long)offset);
    memset(to, 'x', n);
    if (!((struct made_up *)source)->one_row)
        put_islands(offset, to, n);
    return LK_OK;
}

static void close_source(struct lk_source *source)
{
    free(source);
}

static enum lk_code open_source(void *owner, const char *path, struct lk_source **ret_source, struct lk_err *err)
{
    static const struct lk_source_ops ops = {.read_at = read_at, .close = close_source};
    (void)err;
    ck_assert_str_eq(path, "d/x.jsonl");
    struct made_up *made = lk_zalloc(1, sizeof *made);
    made->source = (struct lk_source){.ops = &ops, .name = "d/x.jsonl", .bytes = *(const uint64_t *)owner};
    made->one_row = made->source.bytes < islands[ISLANDS - 1];
    *ret_source = &made->source;
    return LK_OK;
}

static enum lk_code index_of(uint64_t *bytes, struct lk_index *ret_index, struct lk_err *err)
{
    char root[] = "d", name[] = "x.jsonl", *names[] = {name};
    enum lk_codec codecs[] = {LK_CODEC_PLAIN};
    struct lk_dataset_files files = {.root = root, .n = 1, .names = names, .codecs = codecs, .bytes = bytes};
    struct lk_index_build build = {.files = &files, .opener = {.open = open_source, .owner = bytes}, .threads = 1};
    struct lk_buf made = {0};
    enum lk_code code = lk_index_build(&build, &made, err);
    if (code == LK_OK)
        code = lk_index_of_bytes("x.index", &made, ret_index, err);
    lk_buf_done(&made);
    return code;
}

static enum lk_code take(void *owner, uint32_t i, const uint8_t *bytes, uint32_t n, struct lk_err *err)
{
    uint32_t *came = owner;
    char want[8];
    (void)err;
    (void)snprintf(want, sizeof want, "row %u", ISLANDS - 1 - i);
    ck_assert_uint_eq(n, strlen(want));
    ck_assert_mem_eq(bytes, want, n);
    ++*came;
    return LK_OK;
}

START_TEST(rc_084_rows_around_2_and_4_gib_and_beyond_are_found_and_read_where_they_are)
{
    uint64_t bytes = 6 * GIB;
    struct lk_index index = {0};
    struct lk_err err = {0};
    struct lk_row_span rows[ISLANDS];
    ck_assert_msg(index_of(&bytes, &index, &err) == LK_OK, "%s", err.text);
    ck_assert_uint_eq(index.rows, 2 * ISLANDS); /* each has filling before it, of one byte below 2 and 4 GiB */
    ck_assert_uint_eq(index.shard[0].data_bytes, 6 * GIB);
    ck_assert_uint_eq(lk_index_place(&index, 0).bytes, LK_ROW_BYTES_MAX);
    int found = 0;
    for (uint64_t row = 0; row < index.rows; row++) {
        struct lk_row_place place = lk_index_place(&index, row);
        if (place.bytes != ISLAND - 2)
            continue;
        ck_assert_int_lt(found, ISLANDS);
        ck_assert_uint_eq(place.offset, islands[found] + 1);
        rows[ISLANDS - 1 - found++] =
            (struct lk_row_span){.row = row, .offset = place.offset, .bytes = place.bytes, .hash = place.hash};
    }
    ck_assert_int_eq(found, ISLANDS);
    uint32_t came = 0;
    struct lk_shard_cache *cache = lk_shard_cache_new((struct lk_opener){.open = open_source, .owner = &bytes}, 2, 0);
    ck_assert_msg(lk_shard_read_rows(cache, "d", "x.jsonl", LK_CODEC_PLAIN, bytes, rows, ISLANDS, take, &came, &err) == LK_OK,
                  "%s", err.text);
    ck_assert_uint_eq(came, ISLANDS);
    lk_shard_cache_free(cache);
    lk_index_close(&index);
}
END_TEST

START_TEST(rc_090_a_row_of_more_than_2_gib_is_refused_by_place_and_limit)
{
    uint64_t bytes = 2 * GIB + 5;
    struct lk_index index = {0};
    struct lk_err err = {0};
    ck_assert_int_ne(index_of(&bytes, &index, &err), LK_OK);
    ck_assert_ptr_nonnull(strstr(err.text, "x.jsonl"));
    ck_assert_ptr_nonnull(strstr(err.text, "line 1"));
    ck_assert_ptr_nonnull(strstr(err.text, "1073741824"));
    lk_index_close(&index);
}
END_TEST

Suite *suite(void)
{
    Suite *suite_ = suite_create("format/large");
    TCase *t = tcase_create("large");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, rc_084_rows_around_2_and_4_gib_and_beyond_are_found_and_read_where_they_are);
    tcase_add_test(t, rc_090_a_row_of_more_than_2_gib_is_refused_by_place_and_limit);
    suite_add_tcase(suite_, t);
    return suite_;
}
