#include "format/format.h"

#include "base/keys.h"
#include "tests/lib/check_main.h"
#include "tests/lib/compress.h"
#include "tests/lib/mem_store.h"
#include "tests/lib/temp_dir.h"

static struct mem_store store;

static void teardown(void)
{
    mem_store_done(&store);
}

static void put_stored(const char *path, enum lk_codec codec, const void *data, size_t n)
{
    struct lk_buf stored = {0};
    if (codec == LK_CODEC_PLAIN)
        lk_buf_put(&stored, data, n);
    else if (codec == LK_CODEC_GZIP)
        put_gzip(&stored, data, n);
    else
        put_zstd(&stored, data, n);
    mem_put(&store, path, stored.data, stored.len);
    lk_buf_done(&stored);
}

/* What came, row by row. */
struct got {
    struct lk_buf bytes;
    uint32_t n;
    uint32_t stop_at; /* fails at this row; 0 never */
};

static enum lk_code take(void *owner, uint32_t i, const uint8_t *bytes, uint32_t n,
                         struct lk_err *err)
{
    struct got *got = owner;
    ck_assert_uint_eq(i, got->n);
    got->n++;
    lk_buf_put(&got->bytes, bytes, n);
    lk_buf_puts(&got->bytes, "|");
    if (got->n == got->stop_at)
        return lk_fail(err, LK_ABORTED, "enough");
    return LK_OK;
}

static struct lk_row_span span(uint64_t row, uint64_t offset, const char *text)
{
    return (struct lk_row_span){.row = row,
                                .offset = offset,
                                .bytes = (uint32_t)strlen(text),
                                .hash = lk_hash32(text, strlen(text))};
}

static const char text[] = "first\nsecond\r\n\nthird";
enum { TEXT_BYTES = sizeof text - 1 };

static void three_rows(struct lk_row_span rows[3])
{
    rows[0] = span(2, 15, "third");
    rows[1] = span(0, 0, "first");
    rows[2] = span(1, 6, "second");
}

static enum lk_code read_text(struct lk_shard_cache *cache, const char *shard, enum lk_codec codec,
                              struct got *got, struct lk_err *err)
{
    struct lk_row_span rows[3];
    three_rows(rows);
    got->n = 0;
    got->bytes.len = 0;
    return lk_shard_read_rows(cache, "d", shard, codec, TEXT_BYTES, rows, 3, take, got, err);
}

START_TEST(rows_come_in_the_order_asked_for_from_every_codec)
{
    struct lk_shard_cache *cache = lk_shard_cache_new(mem_opener(&store), 4, 1 << 20);
    struct got got = {0};
    struct lk_err err = {0};
    for (int codec = 0; codec < LK_CODECS; codec++) {
        char name[16];
        (void)snprintf(name, sizeof name, "d/%d", codec);
        put_stored(name, (enum lk_codec)codec, text, TEXT_BYTES);
        for (int again = 0; again < 3; again++) {
            ck_assert_msg(read_text(cache, name + 2, (enum lk_codec)codec, &got, &err) == LK_OK,
                          "%s", err.text);
            ck_assert_str_eq(lk_buf_cstr(&got.bytes), "third|first|second|");
        }
    }
    ck_assert_int_eq(store.opens, 3); /* each once */
    ck_assert_int_eq(store.open_now, 1); /* what was decoded needs its file no more */
    lk_shard_cache_free(cache);
    ck_assert_int_eq(store.open_now, 0);
    lk_buf_done(&got.bytes);
}
END_TEST

/* Held against a list: what was used last stays open. */
START_TEST(of_many_shards_those_used_last_stay_open)
{
    enum { SHARDS = 60, OPEN = 16 };
    struct lk_shard_cache *cache = lk_shard_cache_new(mem_opener(&store), OPEN, 0);
    struct got got = {0};
    struct lk_err err = {0};
    int last_use[SHARDS] = {0}, opens = 0;
    char name[16];
    for (int i = 0; i < SHARDS; i++) {
        (void)snprintf(name, sizeof name, "d/%d", i);
        put_stored(name, LK_CODEC_PLAIN, text, TEXT_BYTES);
    }
    for (int use = 1; use <= 4000; use++) {
        int i = (int)lk_below(lk_key(5, (uint64_t)use), use % 3 == 0 ? SHARDS : OPEN), newer = 0;
        for (int k = 0; k < SHARDS; k++)
            newer += last_use[k] > last_use[i];
        opens += last_use[i] == 0 || newer >= OPEN;
        last_use[i] = use;
        (void)snprintf(name, sizeof name, "%d", i);
        ck_assert_msg(read_text(cache, name, LK_CODEC_PLAIN, &got, &err) == LK_OK, "%s", err.text);
        if (store.opens != opens || store.open_now > OPEN)
            ck_abort_msg("use %d: %d opened, %d open; expected %d", use, (int)store.opens, (int)store.open_now, opens);
    }
    ck_assert_int_gt(opens, 2 * SHARDS);
    lk_shard_cache_free(cache);
    ck_assert_int_eq(store.open_now, 0);
    lk_buf_done(&got.bytes);
}
END_TEST

START_TEST(far_rows_and_near_ones_and_none)
{
    enum { N = 40 << 20 };
    struct lk_shard_cache *cache = lk_shard_cache_new(mem_opener(&store), 4, 0);
    struct got got = {0};
    struct lk_err err = {0};
    char *data = lk_zalloc(N, 1);
    memcpy(data, "one\ntwo\n", 8);
    memcpy(data + N / 2, "three\nfour", 10);
    memcpy(data + N - 4, "last", 4);
    put_stored("d/x", LK_CODEC_PLAIN, data, N);
    struct lk_row_span rows[] = {span(0, 0, "one"),           span(1, 4, "two"),
                                 span(4, N - 4, "last"),      span(3, N / 2 + 6, "four"),
                                 span(2, N / 2, "three"),     span(0, 0, "one")};
    ck_assert_msg(lk_shard_read_rows(cache, "d", "x", LK_CODEC_PLAIN, N, rows, 6, take, &got,
                                     &err) == LK_OK, "%s", err.text);
    ck_assert_str_eq(lk_buf_cstr(&got.bytes), "one|two|last|four|three|one|");
    ck_assert_int_eq(lk_shard_read_rows(cache, "d", "x", LK_CODEC_PLAIN, N, NULL, 0, take, &got,
                                        &err), LK_OK);
    got = (struct got){.bytes = got.bytes};
    struct lk_row_span all = {.bytes = N, .hash = lk_hash32(data, N)}; /* longer than any run */
    ck_assert_int_eq(lk_shard_read_rows(cache, "d", "x", LK_CODEC_PLAIN, N, &all, 1, take, &got,
                                        &err), LK_OK);
    lk_shard_cache_free(cache);
    lk_buf_done(&got.bytes);
    free(data);
}
END_TEST

START_TEST(a_changed_row_is_named_and_those_before_it_came)
{
    struct lk_shard_cache *cache = lk_shard_cache_new(mem_opener(&store), 4, 1 << 20);
    struct got got = {0};
    struct lk_err err;
    put_stored("d/x", LK_CODEC_GZIP, "first\nsecond\r\n\nthird", TEXT_BYTES);
    ck_assert_int_eq(read_text(cache, "x", LK_CODEC_GZIP, &got, &err), LK_OK);
    put_stored("d/y", LK_CODEC_PLAIN, "first\nsEcond\r\n\nthird", TEXT_BYTES);
    ck_assert_int_eq(read_text(cache, "y", LK_CODEC_PLAIN, &got, &err), LK_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(err.text, "d/y: row 1 (byte 6, 6 bytes) changed"));
    ck_assert_str_eq(lk_buf_cstr(&got.bytes), "third|first|");
    lk_shard_cache_free(cache);
    lk_buf_done(&got.bytes);
}
END_TEST

START_TEST(a_shard_of_another_size_is_named)
{
    struct lk_shard_cache *cache = lk_shard_cache_new(mem_opener(&store), 4, 1 << 20);
    struct got got = {0};
    struct lk_err err;
    for (int codec = 0; codec < LK_CODECS; codec++)
        for (int more = -1; more <= 1; more += 2) {
            char data[TEXT_BYTES + 1] = {0};
            memcpy(data, text, TEXT_BYTES);
            put_stored("d/x", (enum lk_codec)codec, data, (size_t)(TEXT_BYTES + more));
            ck_assert_int_eq(read_text(cache, "x", (enum lk_codec)codec, &got, &err),
                             LK_DATA_LOSS);
            ck_assert_ptr_nonnull(strstr(err.text, "d/x changed since it was indexed"));
        }
    ck_assert_int_eq(store.open_now, 0);
    lk_shard_cache_free(cache);
    lk_buf_done(&got.bytes);
}
END_TEST

/* RC-132: nothing is allocated for a length that cannot be. */
START_TEST(spans_that_cannot_be_are_refused)
{
    static const struct lk_row_span bad[] = {
        {.offset = 0, .bytes = TEXT_BYTES + 1},      {.offset = TEXT_BYTES, .bytes = 1},
        {.offset = UINT64_MAX, .bytes = 1},          {.offset = UINT64_MAX - 2, .bytes = 100},
        {.offset = 0, .bytes = UINT32_MAX},          {.offset = 1ull << 40, .bytes = 0}};
    struct lk_shard_cache *cache = lk_shard_cache_new(mem_opener(&store), 4, 1 << 20);
    struct got got = {0};
    struct lk_err err;
    put_stored("d/x", LK_CODEC_PLAIN, text, TEXT_BYTES);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(lk_shard_read_rows(cache, "d", "x", LK_CODEC_PLAIN, TEXT_BYTES, &bad[i],
                                            1, take, &got, &err), LK_INVALID_ARGUMENT);
    struct lk_row_span huge = {.offset = 0, .bytes = LK_ROW_BYTES_MAX + 1};
    ck_assert_int_eq(lk_shard_read_rows(cache, "d", "x", LK_CODEC_PLAIN, UINT64_MAX, &huge, 1,
                                        take, &got, &err), LK_INVALID_ARGUMENT);
    ck_assert_int_eq(store.opens, 0);
    lk_shard_cache_free(cache);
}
END_TEST

/* RC-095 */
START_TEST(no_more_shards_are_open_than_allowed)
{
    struct lk_shard_cache *cache = lk_shard_cache_new(mem_opener(&store), 5, 1 << 20);
    struct got got = {0};
    struct lk_err err;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 50; i++) {
            char name[16];
            (void)snprintf(name, sizeof name, "d/%d", i);
            if (round == 0)
                put_stored(name, LK_CODEC_PLAIN, text, TEXT_BYTES);
            ck_assert_int_eq(read_text(cache, name + 2, LK_CODEC_PLAIN, &got, &err), LK_OK);
        }
    ck_assert_int_eq(store.open_most, 5);
    ck_assert_int_eq(store.opens, 150);
    for (int i = 45; i < 50; i++) { /* the last five are still there */
        char name[16];
        (void)snprintf(name, sizeof name, "%d", i);
        ck_assert_int_eq(read_text(cache, name, LK_CODEC_PLAIN, &got, &err), LK_OK);
    }
    ck_assert_int_eq(store.opens, 150);
    lk_shard_cache_free(cache);
    lk_buf_done(&got.bytes);
}
END_TEST

/* RC-117, of shards that are decompressed. */
START_TEST(decoded_bytes_stay_within_the_budget_and_both_sizes_are_named_when_they_cannot)
{
    struct lk_shard_cache *cache = lk_shard_cache_new(mem_opener(&store), 10, 2 * TEXT_BYTES);
    struct got got = {0};
    struct lk_err err;
    static const char *const names[] = {"d/a", "d/b", "d/c"};
    for (int i = 0; i < 3; i++)
        put_stored(names[i], LK_CODEC_ZSTD, text, TEXT_BYTES);
    static const int order[] = {0, 1, 0, 1, 2, 1, 0};
    static const int opens[] = {1, 2, 2, 2, 3, 3, 4}; /* c drives out a, then a drives out c */
    for (int i = 0; i < 7; i++) {
        ck_assert_int_eq(read_text(cache, names[order[i]] + 2, LK_CODEC_ZSTD, &got, &err), LK_OK);
        ck_assert_int_eq(store.opens, opens[i]);
    }
    struct lk_row_span row = span(0, 0, "first");
    ck_assert_int_eq(lk_shard_read_rows(cache, "d", "a", LK_CODEC_ZSTD, 2 * TEXT_BYTES + 1, &row,
                                        1, take, &got, &err), LK_RESOURCE_EXHAUSTED);
    ck_assert_ptr_nonnull(strstr(err.text, "has 41 bytes when decoded, more than the cache's 40"));
    lk_shard_cache_free(cache);
    lk_buf_done(&got.bytes);
}
END_TEST

START_TEST(large_shards_are_decoded_into_a_file_that_nobody_sees)
{
    enum { N = LK_SHARD_MEMORY_MAX + 12345 };
    struct temp_dir dir;
    struct got got = {0};
    struct lk_err err = {0};
    temp_dir_init(&dir);
    ck_assert_int_eq(setenv("TMPDIR", dir.path, 1), 0);
    struct lk_shard_cache *cache = lk_shard_cache_new(mem_opener(&store), 4, 2 * (uint64_t)N);
    char *data = lk_zalloc(N, 1);
    memcpy(data, "one\n", 4);
    memcpy(data + N - 4, "last", 4);
    put_stored("d/x", LK_CODEC_GZIP, data, N);
    struct lk_row_span rows[] = {span(0, 0, "one"), span(1, N - 4, "last")};
    ck_assert_msg(lk_shard_read_rows(cache, "d", "x", LK_CODEC_GZIP, N, rows, 2, take, &got,
                                     &err) == LK_OK, "%s", err.text);
    ck_assert_str_eq(lk_buf_cstr(&got.bytes), "one|last|");
    temp_dir_done(&dir); /* nothing is in it */
    got.n = 0;
    ck_assert_int_eq(lk_shard_read_rows(cache, "d", "x", LK_CODEC_GZIP, N, rows, 2, take, &got,
                                        &err), LK_OK);
    lk_shard_cache_free(cache);
    cache = lk_shard_cache_new(mem_opener(&store), 4, 2 * (uint64_t)N); /* and now it is gone */
    ck_assert_int_eq(lk_shard_read_rows(cache, "d", "x", LK_CODEC_GZIP, N, rows, 2, take, &got,
                                        &err), LK_RESOURCE_EXHAUSTED);
    ck_assert_ptr_nonnull(strstr(err.text, dir.path));
    lk_shard_cache_free(cache);
    lk_buf_done(&got.bytes);
    free(data);
}
END_TEST

START_TEST(after_a_failed_read_the_file_is_opened_again)
{
    struct lk_shard_cache *cache = lk_shard_cache_new(mem_opener(&store), 4, 0);
    struct got got = {0};
    struct lk_err err;
    put_stored("d/x", LK_CODEC_PLAIN, text, TEXT_BYTES);
    ck_assert_int_eq(read_text(cache, "x", LK_CODEC_PLAIN, &got, &err), LK_OK);
    store.fail_reads = 1;
    ck_assert_int_eq(read_text(cache, "x", LK_CODEC_PLAIN, &got, &err), LK_UNAVAILABLE);
    ck_assert_int_eq(store.open_now, 0);
    ck_assert_int_eq(read_text(cache, "x", LK_CODEC_PLAIN, &got, &err), LK_OK);
    ck_assert_int_eq(read_text(cache, "none", LK_CODEC_PLAIN, &got, &err), LK_NOT_FOUND);
    got.stop_at = 2;
    ck_assert_int_eq(read_text(cache, "x", LK_CODEC_PLAIN, &got, &err), LK_ABORTED);
    ck_assert_str_eq(err.text, "enough");
    lk_shard_cache_free(cache);
    lk_buf_done(&got.bytes);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("format/shard_cache");
    TCase *t = tcase_create("shard_cache");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, NULL, teardown);
    tcase_add_test(t, rows_come_in_the_order_asked_for_from_every_codec);
    tcase_add_test(t, of_many_shards_those_used_last_stay_open);
    tcase_add_test(t, far_rows_and_near_ones_and_none);
    tcase_add_test(t, a_changed_row_is_named_and_those_before_it_came);
    tcase_add_test(t, a_shard_of_another_size_is_named);
    tcase_add_test(t, spans_that_cannot_be_are_refused);
    tcase_add_test(t, no_more_shards_are_open_than_allowed);
    tcase_add_test(t, decoded_bytes_stay_within_the_budget_and_both_sizes_are_named_when_they_cannot);
    tcase_add_test(t, large_shards_are_decoded_into_a_file_that_nobody_sees);
    tcase_add_test(t, after_a_failed_read_the_file_is_opened_again);
    suite_add_tcase(s, t);
    return s;
}
