#include "format/index.h"

#include "base/bytes.h"
#include "format/index_layout.h"
#include "tests/lib/check_main.h"
#include "tests/lib/compress.h"
#include "tests/lib/mem_store.h"
#include "tests/lib/temp_dir.h"

static struct mem_store store;

static void teardown(void)
{
    mem_store_done(&store);
}

static enum lk_code build_from(const char *root, unsigned threads, struct lk_buf *bytes,
                               struct lk_err *err)
{
    struct lk_dataset_files files = mem_list(&store, root);
    struct lk_index_build build = {
        .files = &files, .opener = mem_opener(&store), .threads = threads};
    enum lk_code code = lk_index_build(&build, bytes, err);
    lk_dataset_files_done(&files);
    ck_assert_int_eq(store.open_now, 0);
    return code;
}

static enum lk_code verify(const struct lk_index *index, struct lk_err *err)
{
    struct lk_dataset_files files = mem_list(&store, "d");
    struct lk_index_build build = {.files = &files, .opener = mem_opener(&store), .threads = 2};
    enum lk_code code = lk_index_verify(index, &build, err);
    lk_dataset_files_done(&files);
    return code;
}

static void put_text(const char *path, const char *text)
{
    mem_put(&store, path, text, strlen(text));
}

static struct lk_index open_index(void)
{
    struct lk_buf bytes = {0};
    struct lk_index index = {0};
    struct lk_err err = {0};
    ck_assert_msg(build_from("d", 2, &bytes, &err) == LK_OK, "%s", err.text);
    ck_assert_msg(lk_index_of_bytes("x.index", &bytes, &index, &err) == LK_OK, "%s", err.text);
    return index;
}

/* The bytes of a row, looked up by its place; only for plain shards. */
static void check_row(const struct lk_index *index, uint64_t row, const char *shard,
                      uint64_t in_shard, const char *want)
{
    struct lk_row_place place = lk_index_place(index, row);
    ck_assert_str_eq(index->shard[place.shard].name, shard);
    ck_assert_uint_eq(place.row_in_shard, in_shard);
    ck_assert_uint_eq(place.bytes, strlen(want));
    ck_assert_uint_eq(place.hash, lk_hash32(want, strlen(want)));
    char path[64];
    (void)snprintf(path, sizeof path, "d/%s", shard);
    const struct mem_file *file = mem_find(&store, path);
    ck_assert_uint_le(place.offset + place.bytes, file->bytes.len);
    ck_assert_mem_eq(file->bytes.data + place.offset, want, strlen(want));
}

/* RC-048, of shards. */
START_TEST(rows_are_found_in_shard_order_across_empty_shards)
{
    put_text("d/b.jsonl", "3\n44\n\n555");
    put_text("d/a.jsonl", "1\r\n22\r\n");
    put_text("d/A.jsonl", "");
    put_text("d/aa.jsonl", "\n \n");
    put_text("d/c.jsonl", "\n");
    struct lk_index index = open_index();
    ck_assert_uint_eq(index.shards, 5);
    ck_assert_uint_eq(index.rows, 5);
    ck_assert_str_eq(index.shard[0].name, "A.jsonl");
    check_row(&index, 0, "a.jsonl", 0, "1");
    check_row(&index, 1, "a.jsonl", 1, "22");
    check_row(&index, 2, "b.jsonl", 0, "3");
    check_row(&index, 3, "b.jsonl", 1, "44");
    check_row(&index, 4, "b.jsonl", 2, "555");
    lk_index_close(&index);
    lk_index_close(&index);
}
END_TEST

/* Each kind of spacing, with the odd line at each place around a granule's edge. */
START_TEST(every_row_is_found_however_the_lines_end)
{
    static const char *const ends[] = {"\n", "\r\n", "\n\n \n"};
    for (int odd = -1; odd < 140; odd += odd < 1 || odd > 60 ? 1 : 20)
        for (int e = 0; e < 3; e++) {
            struct lk_buf data = {0};
            for (int i = 0; i < 140; i++)
                lk_buf_putf(&data, "%d%s%s", i * i * i, ends[e], i == odd ? "\n" : "");
            mem_put(&store, "d/x.jsonl", data.data, data.len);
            struct lk_index index = open_index();
            ck_assert_uint_eq(index.rows, 140);
            bool even = odd < 0 || odd == 139; /* what follows the last row is no gap */
            ck_assert_uint_eq(index.shard[0].stride, even ? LK_INDEX_GRANULE : 1);
            for (int i = 0; i < 140; i++) {
                char want[16];
                (void)snprintf(want, sizeof want, "%d", i * i * i);
                check_row(&index, (uint64_t)i, "x.jsonl", (uint64_t)i, want);
            }
            lk_index_close(&index);
            lk_buf_done(&data);
        }
}
END_TEST

/* Twenty shards of all codecs and sizes. */
static void put_many(const char *root)
{
    for (int s = 0; s < 20; s++) {
        struct lk_buf data = {0}, stored = {0};
        for (int i = 0; i < (s * 37) % 300; i++)
            lk_buf_putf(&data, "{\"text\":\"%d of %d\"}%s", i, s, i % 50 == s ? "\r\n" : "\n");
        char path[64];
        (void)snprintf(path, sizeof path, "%s/s%d.jsonl%s", root, s,
                       s % 3 == 0 ? "" : s % 3 == 1 ? ".gz" : ".zst");
        if (s % 3 == 0)
            lk_buf_put(&stored, data.data, data.len);
        else if (s % 3 == 1)
            put_gzip(&stored, data.data, data.len);
        else
            put_zstd(&stored, data.data, data.len);
        mem_put(&store, path, stored.data, stored.len);
        lk_buf_done(&data);
        lk_buf_done(&stored);
    }
}

START_TEST(the_bytes_do_not_depend_on_threads_or_on_the_root)
{
    struct lk_buf first = {0}, again = {0};
    struct lk_err err;
    put_many("d");
    ck_assert_int_eq(build_from("d", 1, &first, &err), LK_OK);
    for (unsigned threads = 2; threads < 40; threads += 5) {
        ck_assert_int_eq(build_from("d", threads, &again, &err), LK_OK);
        ck_assert_uint_eq(again.len, first.len);
        ck_assert_int_eq(memcmp(again.data, first.data, first.len), 0);
    }
    mem_store_done(&store);
    put_many("/else/where");
    ck_assert_int_eq(build_from("/else/where", 3, &again, &err), LK_OK);
    ck_assert_uint_eq(again.len, first.len);
    ck_assert_int_eq(memcmp(again.data, first.data, first.len), 0);
    lk_buf_done(&first);
    lk_buf_done(&again);
}
END_TEST

/* What a golden file would hold: the layout written out by hand for one small dataset. */
START_TEST(the_file_is_what_the_layout_says)
{
    struct lk_buf bytes = {0};
    struct lk_err err;
    put_text("d/x.jsonl", "1\n22\n");
    ck_assert_int_eq(build_from("d", 1, &bytes, &err), LK_OK);
    const uint8_t *p = bytes.data;
    ck_assert_uint_eq(bytes.len, 72 + 80 + 2 * 4 + 2 * 4 + 8 + 8 + 16);
    ck_assert_mem_eq(p, "LKINDEX\n", 8);
    ck_assert_uint_eq(lk_get_u32(p + 8), 1);
    ck_assert_uint_eq(lk_get_u32(p + 12), 64);
    ck_assert_uint_eq(lk_get_u64(p + 16), bytes.len);
    ck_assert_uint_eq(lk_get_u32(p + 24), 1);
    ck_assert_uint_eq(lk_get_u64(p + 32), 2);
    ck_assert_uint_eq(lk_get_u64(p + 40), 1);
    ck_assert_uint_eq(lk_get_u64(p + 48), 8);
    ck_assert_uint_eq(lk_get_u32(p + 72), 7);          /* "x.jsonl" */
    ck_assert_uint_eq(lk_get_u32(p + 72 + 8), 64);     /* stride */
    ck_assert_uint_eq(lk_get_u32(p + 72 + 12), 1);     /* gap */
    ck_assert_uint_eq(lk_get_u64(p + 72 + 24), 5);     /* data */
    ck_assert_uint_eq(lk_get_u64(p + 72 + 40), 2);     /* rows */
    ck_assert(lk_digest_equal(lk_digest_get(p + 72 + 56), lk_digest_of("1\n22\n", 5)));
    ck_assert_uint_eq(lk_get_u32(p + 152), 1);
    ck_assert_uint_eq(lk_get_u32(p + 156), 2);
    ck_assert_uint_eq(lk_get_u32(p + 164), lk_hash32("22", 2));
    ck_assert_uint_eq(lk_get_u64(p + 168), 0);
    ck_assert_mem_eq(p + 176, "x.jsonl", 8);
    ck_assert(lk_digest_equal(lk_digest_get(p + 184), lk_digest_of(p, 184)));
    lk_buf_done(&bytes);
}
END_TEST

START_TEST(the_digest_is_that_of_names_and_data_and_not_of_the_compression)
{
    struct lk_buf one = {0}, two = {0};
    put_gzip(&one, "1\n22\n", 5);
    put_gzip(&two, "1\n", 2);
    put_gzip(&two, "22\n", 3);
    mem_put(&store, "d/x.jsonl.gz", one.data, one.len);
    struct lk_index a = open_index();
    mem_put(&store, "d/x.jsonl.gz", two.data, two.len);
    struct lk_index b = open_index();
    ck_assert(lk_digest_equal(a.digest, b.digest));
    two.len = 0;
    put_gzip(&two, "1\n23\n", 5);
    mem_put(&store, "d/x.jsonl.gz", two.data, two.len);
    struct lk_index c = open_index();
    ck_assert(!lk_digest_equal(a.digest, c.digest));
    mem_store_done(&store);
    mem_put(&store, "d/y.jsonl.gz", one.data, one.len);
    struct lk_index e = open_index();
    ck_assert(!lk_digest_equal(a.digest, e.digest));
    lk_index_close(&a);
    lk_index_close(&b);
    lk_index_close(&c);
    lk_index_close(&e);
    lk_buf_done(&one);
    lk_buf_done(&two);
}
END_TEST

/* Puts a valid trailer under what a test has changed. */
static void sign(struct lk_buf *bytes)
{
    size_t n = bytes->len - LK_INDEX_TRAILER_BYTES;
    lk_digest_put(lk_digest_of(bytes->data, n), bytes->data + n);
}

static enum lk_code reopen(const struct lk_buf *bytes, struct lk_err *err)
{
    struct lk_buf copy = {0};
    struct lk_index index;
    lk_buf_put(&copy, bytes->data, bytes->len);
    enum lk_code code = lk_index_of_bytes("x.index", &copy, &index, err);
    if (code == LK_OK)
        lk_index_close(&index);
    ck_assert_ptr_null(copy.data);
    return code;
}

static void two_shards(struct lk_buf *bytes)
{
    struct lk_err err;
    put_text("d/x.jsonl", "1\n22\n333\n");
    put_text("d/y.jsonl", "4\n\n5\n6\n"); /* unevenly */
    ck_assert_int_eq(build_from("d", 1, bytes, &err), LK_OK);
    ck_assert_int_eq(reopen(bytes, &err), LK_OK);
}

/* RC-042, RC-043, RC-088, RC-132: each field changed on its own, under a checksum that is right. Offsets as in the
 * layout: shards 72 and 152, lengths 232, hashes 256, offsets 280, names 312, trailer 328. */
START_TEST(an_index_that_contradicts_itself_is_refused_with_the_field_named)
{
    static const struct {
        size_t at;
        unsigned size;
        uint64_t value;
        const char *why;
    } changes[] = {
        {0, 1, 'X', "magic"},
        {8, 4, 2, "version: expected 1, found 2"},
        {12, 4, 32, "granule: expected 64, found 32"},
        {16, 8, 343, "length of the file: expected 343, found 344"},
        {24, 4, 0, "shards"},
        {24, 4, 3, "length of all sections"},
        {24, 4, 0xffffffff, "shards"},
        {28, 4, 1, "reserved"},
        {32, 8, 0, "rows, 1 to"},
        {32, 8, 5, "length of all sections"},
        {32, 8, 7, "length of all sections"},
        {32, 8, 1ull << 62, "rows, 1 to"},
        {32, 8, UINT64_MAX, "rows, 1 to"},
        {40, 8, 1ull << 62, "stored offsets, 1 to"},
        {40, 8, 2, "length of all sections"},
        {48, 8, UINT64_MAX, "bytes of names"},
        {48, 8, 15, "shard 1: length of the name, below: expected 7, found 7"},
        {56, 1, 0, "digest of the dataset"},
        {72, 4, 6, "shard 0: expected a name"},
        {72, 4, 0xffffffff, "shard 0: length of the name"},
        {76, 4, 3, "shard 0: codec"},
        {76, 4, 0xffffffff, "shard 0: codec"},
        {80, 4, 0, "shard 0: stride"},
        {80, 4, 63, "shard 0: stride"},
        {80, 4, 1, "shard 0: gap"},
        {84, 4, 0, "shard 0: gap"},
        {84, 4, 1000, "shard 0: length of row 1"},
        {88, 8, 8, "shard 0: bytes of the data: expected 8, found 9"},
        {96, 8, 10, "shard 0: bytes of the data: expected 9, found 10"},
        {104, 8, 1, "shard 0: first row: expected 0, found 1"},
        {112, 8, 2, "shard 1: first row: expected 2, found 3"},
        {112, 8, 7, "shard 0: rows, at most: expected 6, found 7"},
        {112, 8, UINT64_MAX, "shard 0: rows, at most"},
        {120, 8, 1, "shard 0: first stored offset"},
        {128, 1, 0, "digest of the dataset"},
        {144, 8, 1, "shard 0: reserved"},
        {160, 4, 64, "shard 1: gap"},
        {164, 4, 1, "shard 1: gap"},
        {192, 8, 2, "rows of all shards: expected 6, found 5"},
        {192, 8, 4, "shard 1: rows, at most: expected 3, found 4"},
        {200, 8, 2, "shard 1: first stored offset: expected 1, found 2"},
        {232, 4, 0, "shard 0: length of row 0"},
        {232, 4, 0xffffffff, "shard 0: length of row 0"},
        {240, 4, 0x80000000, "shard 0: length of row 2"},
        {240, 4, 5, "shard 0: length of row 2"},
        {244, 4, 4, "shard 1: offset of row 1"},
        {280, 8, UINT64_MAX, "shard 0: length of row 0"},
        {280, 8, 2, "shard 0: length of row 2"},
        {288, 8, 1ull << 63, "shard 1: length of row 0"},
        {296, 8, 1, "shard 1: offset of row 1: expected at least 2, found 1"},
        {304, 8, 8, "shard 1: length of row 2"},
        {312, 1, '/', "shard 0: expected a name below the root"},
        {312, 1, 'y', "shard 1: expected a name after"},
        {313, 1, '/', "digest of the dataset"},
        {319, 1, 'l', "shard 0: expected a name"},
    };
    struct lk_buf bytes = {0}, bad = {0};
    two_shards(&bytes);
    ck_assert_uint_eq(bytes.len, 344);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct lk_err err = {0};
        bad.len = 0;
        lk_buf_put(&bad, bytes.data, bytes.len);
        if (changes[i].size == 1)
            bad.data[changes[i].at] = (uint8_t)changes[i].value;
        else if (changes[i].size == 4)
            lk_put_u32(bad.data + changes[i].at, (uint32_t)changes[i].value);
        else
            lk_put_u64(bad.data + changes[i].at, changes[i].value);
        ck_assert_int_eq(memcmp(bad.data, bytes.data, bytes.len) == 0, 0);
        sign(&bad);
        enum lk_code code = reopen(&bad, &err);
        ck_assert_msg(code == (changes[i].at == 8 ? LK_FAILED_PRECONDITION : LK_DATA_LOSS) &&
                          strstr(err.text, changes[i].why) != NULL &&
                          strncmp(err.text, "x.index: ", 9) == 0,
                      "change %zu at %zu: %s, not %s", i, changes[i].at, err.text,
                      changes[i].why);
    }
    lk_buf_done(&bytes);
    lk_buf_done(&bad);
}
END_TEST

START_TEST(names_that_leave_the_root_are_refused)
{
    static const char *const names[] = {"../y.jl", "a/../bc", "/a.json", "a//json", "./a.jso",
                                        "a/./bcd", "abcdef/"};
    struct lk_buf bytes = {0};
    struct lk_err err;
    put_text("d/x.jsonl", "1\n");
    ck_assert_int_eq(build_from("d", 1, &bytes, &err), LK_OK);
    size_t at = 72 + 80 + 8 + 8;
    ck_assert_mem_eq(bytes.data + at, "x.jsonl", 8);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        memcpy(bytes.data + at, names[i], 8);
        sign(&bytes);
        ck_assert_int_eq(reopen(&bytes, &err), LK_DATA_LOSS);
        ck_assert_ptr_nonnull(strstr(err.text, "expected a name below the root"));
    }
    lk_buf_done(&bytes);
}
END_TEST

START_TEST(every_flipped_bit_and_every_cut_is_noticed)
{
    struct lk_buf bytes = {0};
    struct lk_err err;
    two_shards(&bytes);
    for (size_t bit = 0; bit < 8 * bytes.len; bit++) {
        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert_int_ne(reopen(&bytes, &err), LK_OK);
        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    size_t n = bytes.len;
    for (bytes.len = 0; bytes.len < n; bytes.len++)
        ck_assert_int_eq(reopen(&bytes, &err), LK_DATA_LOSS);
    lk_buf_put(&bytes, "\0\0\0\0\0\0\0\0", 8);
    ck_assert_int_eq(reopen(&bytes, &err), LK_DATA_LOSS);
    lk_buf_done(&bytes);
}
END_TEST

START_TEST(a_bad_shard_is_named_the_first_in_order_whatever_the_threads)
{
    struct lk_err err;
    struct lk_buf bytes = {0}, cut = {0};
    put_many("d");
    put_gzip(&cut, "1\n2\n", 4);
    mem_put(&store, "d/s13.jsonl.gz", cut.data, cut.len - 1);
    mem_put(&store, "d/s3.jsonl", "\xff\xfe{\0", 4);
    mem_put(&store, "d/s8.jsonl.zst", "junk", 4);
    for (unsigned threads = 1; threads < 20; threads++) {
        ck_assert_int_eq(build_from("d", threads, &bytes, &err), LK_DATA_LOSS);
        ck_assert_ptr_nonnull(strstr(err.text, "d/s13.jsonl.gz: byte "));
    }
    mem_put(&store, "d/s13.jsonl.gz", cut.data, cut.len);
    ck_assert_int_eq(build_from("d", 3, &bytes, &err), LK_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "d/s3.jsonl: line 1"));
    ck_assert_ptr_null(bytes.data);
    lk_buf_done(&cut);
}
END_TEST

START_TEST(a_dataset_without_rows_is_refused)
{
    struct lk_err err;
    struct lk_buf bytes = {0};
    put_text("d/x.jsonl", "");
    put_text("d/y.jsonl", "\n\n");
    ck_assert_int_eq(build_from("d", 1, &bytes, &err), LK_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(err.text, "no rows in 2 shards"));
}
END_TEST

START_TEST(verify_names_what_changed)
{
    struct lk_err err;
    put_text("d/x.jsonl", "1\n22\n333\n");
    put_text("d/y.jsonl", "4\r\n5\n");
    struct lk_index index = open_index();
    ck_assert_int_eq(verify(&index, &err), LK_OK);

    put_text("d/x.jsonl", "1\n22\n334\n");
    ck_assert_int_eq(verify(&index, &err), LK_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(err.text, "d/x.jsonl"));
    ck_assert_ptr_nonnull(strstr(err.text, "row 2 is the first"));
    put_text("d/x.jsonl", "1\n\n\n\n333\n");
    ck_assert_int_eq(verify(&index, &err), LK_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(err.text, "row 1 is the first"));
    put_text("d/x.jsonl", "1\n22\n333 ");
    ck_assert_int_eq(verify(&index, &err), LK_DATA_LOSS);
    put_text("d/x.jsonl", "1\n22\n333\n");
    put_text("d/y.jsonl", "4\n\n5\n");
    ck_assert_int_eq(verify(&index, &err), LK_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(err.text, "d/y.jsonl changed since it was indexed: its bytes"));
    put_text("d/y.jsonl", "4\r\n5\n");
    ck_assert_int_eq(verify(&index, &err), LK_OK);

    put_text("d/x.jsonl", "1\n");
    put_text("d/z.jsonl", "1\n");
    ck_assert_int_eq(verify(&index, &err), LK_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(err.text, "added z.jsonl"));
    ck_assert_ptr_nonnull(strstr(err.text, "changed in size x.jsonl"));
    lk_index_close(&index);
}
END_TEST

START_TEST(shards_that_are_gone_or_of_another_size_are_found_at_start)
{
    struct lk_err err;
    put_text("d/x.jsonl", "1\n");
    put_text("d/y.jsonl", "2\n");
    struct lk_index index = open_index();
    ck_assert_int_eq(lk_index_check_files(&index, "d", mem_opener(&store), &err), LK_OK);
    put_text("d/y.jsonl", "2\n3\n");
    ck_assert_int_eq(lk_index_check_files(&index, "d", mem_opener(&store), &err), LK_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(err.text, "d/y.jsonl"));
    ck_assert_ptr_nonnull(strstr(err.text, "expected 2 bytes, found 4"));
    ck_assert_int_eq(lk_index_check_files(&index, "e", mem_opener(&store), &err), LK_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "e/x.jsonl"));
    ck_assert_int_eq(store.open_now, 0);
    lk_index_close(&index);
}
END_TEST

START_TEST(a_listing_is_held_against_the_index_by_name_and_size)
{
    static const struct {
        const char *add, *text, *why; /* @add is written with @text; NULL: nothing changes */
    } changes[] = {
        {NULL, NULL, NULL},
        {"d/b.jsonl", "3\n", NULL}, /* the same size: only verifying would notice */
        {"d/b.jsonl", "22\n", "changed in size b.jsonl"},
        {"d/0.jsonl", "1\n", "added 0.jsonl; changed in size b.jsonl"},
        {"d/z.jsonl", "1\n", "added 0.jsonl, z.jsonl"},
        {"d/y.jsonl", "1\n", "added 0.jsonl, y.jsonl, z.jsonl"},
        {"d/x.jsonl", "1\n", "added 0.jsonl, x.jsonl, y.jsonl and 1 more; changed in size b.jsonl"},
    };
    put_text("d/a.jsonl", "1\n");
    put_text("d/b.jsonl", "2\n");
    struct lk_index index = open_index();
    struct lk_err err;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        if (changes[i].add != NULL)
            put_text(changes[i].add, changes[i].text);
        struct lk_dataset_files files = mem_list(&store, "d");
        enum lk_code code = lk_index_check_listing(&index, &files, &err);
        ck_assert_int_eq(code, changes[i].why == NULL ? LK_OK : LK_DATA_LOSS);
        if (code != LK_OK)
            ck_assert_msg(strstr(err.text, changes[i].why) != NULL, "%s", err.text);
        lk_dataset_files_done(&files);
    }
    mem_store_done(&store);
    put_text("d/b.jsonl", "2\n");
    struct lk_dataset_files files = mem_list(&store, "d");
    ck_assert_int_eq(lk_index_check_listing(&index, &files, &err), LK_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(err.text, "removed a.jsonl"));
    lk_dataset_files_done(&files);
    lk_index_close(&index);
}
END_TEST

START_TEST(an_index_file_is_opened_read_or_mapped)
{
    struct temp_dir dir;
    struct lk_buf bytes = {0};
    struct lk_index index;
    struct lk_err err;
    temp_dir_init(&dir);
    two_shards(&bytes);
    ck_assert_int_eq(lk_index_open(temp_path(&dir, "none"), &index, &err), LK_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, temp_path(&dir, "none: no such index")));
    ck_assert_int_eq(lk_index_open(dir.path, &index, &err), LK_INVALID_ARGUMENT);
    const char *path = temp_file(&dir, "x", bytes.data, bytes.len);
    ck_assert_int_eq(lk_index_open(path, &index, &err), LK_OK);
    ck_assert(!index.mapped);
    ck_assert_int_eq(truncate(path, 0), 0); /* what is open does not care */
    check_row(&index, 4, "y.jsonl", 1, "5");
    ck_assert_str_eq(index.path, path);
    lk_index_close(&index);
    ck_assert_int_eq(lk_index_open(path, &index, &err), LK_DATA_LOSS);

    lk_buf_done(&bytes); /* nine million rows make a file that is mapped */
    uint64_t rows = LK_INDEX_MAP_MIN / 8 + 1000;
    struct lk_buf data = {0};
    uint8_t *to = lk_buf_room(&data, 2 * rows);
    for (uint64_t i = 0; i < rows; i++) {
        to[2 * i] = (uint8_t)('0' + i % 10);
        to[2 * i + 1] = '\n';
    }
    mem_put(&store, "d/y.jsonl", to, 2 * rows);
    ck_assert_int_eq(build_from("d", 2, &bytes, &err), LK_OK);
    path = temp_file(&dir, "big", bytes.data, bytes.len);
    ck_assert_int_eq(lk_index_open(path, &index, &err), LK_OK);
    ck_assert(index.mapped);
    ck_assert_uint_eq(index.rows, rows + 3);
    check_row(&index, rows + 2, "y.jsonl", rows - 1, rows % 10 == 1 ? "0" : "7");
    lk_index_close(&index);
    lk_buf_done(&bytes);
    lk_buf_done(&data);
    temp_dir_done(&dir);
}
END_TEST

struct seen {
    int calls;
    uint64_t done, all, rows;
};

static void see(void *owner, uint64_t done, uint64_t all, uint64_t rows)
{
    struct seen *seen = owner;
    ck_assert_uint_ge(done, seen->done);
    *seen = (struct seen){.calls = seen->calls + 1, .done = done, .all = all, .rows = rows};
}

START_TEST(progress_ends_at_all_bytes_and_rows)
{
    struct seen seen = {0};
    struct lk_buf bytes = {0};
    struct lk_err err;
    put_many("d");
    struct lk_dataset_files files = mem_list(&store, "d");
    struct lk_index_build build = {.files = &files,
                                   .opener = mem_opener(&store),
                                   .threads = 2,
                                   .progress = {.report = see, .owner = &seen}};
    ck_assert_int_eq(lk_index_build(&build, &bytes, &err), LK_OK);
    ck_assert_int_ge(seen.calls, 1);
    ck_assert_uint_eq(seen.done, seen.all);
    ck_assert_uint_eq(seen.rows, lk_get_u64(bytes.data + 32));
    lk_dataset_files_done(&files);
    lk_buf_done(&bytes);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("format/index");
    TCase *t = tcase_create("index");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, NULL, teardown);
    tcase_add_test(t, rows_are_found_in_shard_order_across_empty_shards);
    tcase_add_test(t, every_row_is_found_however_the_lines_end);
    tcase_add_test(t, the_bytes_do_not_depend_on_threads_or_on_the_root);
    tcase_add_test(t, the_file_is_what_the_layout_says);
    tcase_add_test(t, the_digest_is_that_of_names_and_data_and_not_of_the_compression);
    tcase_add_test(t, an_index_that_contradicts_itself_is_refused_with_the_field_named);
    tcase_add_test(t, names_that_leave_the_root_are_refused);
    tcase_add_test(t, every_flipped_bit_and_every_cut_is_noticed);
    tcase_add_test(t, a_bad_shard_is_named_the_first_in_order_whatever_the_threads);
    tcase_add_test(t, a_dataset_without_rows_is_refused);
    tcase_add_test(t, verify_names_what_changed);
    tcase_add_test(t, shards_that_are_gone_or_of_another_size_are_found_at_start);
    tcase_add_test(t, a_listing_is_held_against_the_index_by_name_and_size);
    tcase_add_test(t, an_index_file_is_opened_read_or_mapped);
    tcase_add_test(t, progress_ends_at_all_bytes_and_rows);
    suite_add_tcase(s, t);
    return s;
}
