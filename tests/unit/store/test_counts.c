#include "store/counts.h"

#include "base/bytes.h"
#include "base/keys.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 4096

static uint32_t row_bytes[ROWS_MAX];
static struct lk_count given[ROWS_MAX];

static uint64_t draw_from(uint64_t seed, uint64_t i, uint64_t below)
{
    return lk_key(seed, i) % below;
}

/* Documents as they are: lengths over four powers of ten, text a little shorter than the row, about four
 * bytes a token. One in @unknown is not known, one in @dropped dropped, one in @special has specials. */
static void make_rows(uint32_t n, uint64_t seed, uint32_t unknown, uint32_t dropped, uint32_t special)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t size = (uint32_t)(1u << draw_from(seed, 6ull * i, 14));
        uint32_t text = size + (uint32_t)draw_from(seed, 6ull * i + 1, size);
        row_bytes[i] = text + 60 + (uint32_t)draw_from(seed, 6ull * i + 2, 20) + text / 40;
        given[i] = (struct lk_count){.known = true, .text_bytes = text, .tokens = 1 + text / 4};
        given[i].tokens += (uint32_t)draw_from(seed, 6ull * i + 3, 1 + text / 30);
        if (special > 0 && draw_from(seed, 6ull * i + 4, special) == 0)
            given[i].specials = 1 + (uint32_t)draw_from(seed, 6ull * i + 5, 9);
        if (dropped > 0 && draw_from(seed + 1, i, dropped) == 0)
            given[i] = (struct lk_count){.known = true, .drop = 1 + (uint8_t)(i % 7), .text_bytes = i % 3 ? text : 0};
        if (unknown > 0 && draw_from(seed + 2, i, unknown) == 0)
            given[i] = (struct lk_count){.known = false};
    }
}

static struct lk_counts_id id_of(uint64_t rows)
{
    return (struct lk_counts_id){
        .ops = {1, 2}, .shard = {3, 4}, .lengths = lk_hash64(row_bytes, 4 * rows, 0), .rows = rows};
}

static struct lk_buf pack(uint32_t rows)
{
    struct lk_counts_id id = id_of(rows);
    struct lk_counts_build build;
    struct lk_buf bytes = {0};
    lk_counts_begin(&build, &id);
    for (uint32_t b = 0; b < lk_counts_blocks(rows); b++)
        lk_counts_put(&build, row_bytes, given + (size_t)b * LK_COUNTS_BLOCK);
    lk_counts_end(&build, &bytes);
    return bytes;
}

static void parse(struct lk_buf *bytes, struct lk_counts_file *file)
{
    struct lk_err err;
    ck_assert_msg(lk_counts_parse("x", bytes, file, &err) == LK_OK, "%s", err.text);
    ck_assert_uint_eq(bytes->len, 0);
    ck_assert(lk_counts_check(file, &err) == LK_OK);
}

static void check_rows(const struct lk_counts_file *file, uint32_t rows)
{
    struct lk_count row[LK_COUNTS_BLOCK];
    struct lk_err err;
    uint64_t known = 0;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t k = i % LK_COUNTS_BLOCK;
        if (k == 0)
            ck_assert_msg(lk_counts_read(file, i / LK_COUNTS_BLOCK, row_bytes, row, &err) == LK_OK, "%s",
                          err.text);
        ck_assert_int_eq(row[k].known, given[i].known);
        ck_assert_uint_eq(row[k].drop, given[i].drop);
        ck_assert_uint_eq(row[k].tokens, given[i].tokens);
        ck_assert_uint_eq(row[k].text_bytes, given[i].text_bytes);
        ck_assert_uint_eq(row[k].specials, given[i].specials);
        known += given[i].known;
    }
    ck_assert_uint_eq(file->known, known);
}

static void round_trip(uint32_t rows)
{
    struct lk_counts_file file;
    struct lk_counts_id id = id_of(rows);
    struct lk_buf bytes = pack(rows);
    parse(&bytes, &file);
    ck_assert(lk_counts_id_equal(&file.id, &id));
    check_rows(&file, rows);
    lk_counts_file_done(&file);
}

START_TEST(what_is_packed_is_read)
{
    static const uint32_t sizes[] = {1, 2, 7, 8, 9, 255, 256, 257, 511, 512, 1000, ROWS_MAX};
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint32_t mix = 0; mix < 24; mix++) {
            make_rows(sizes[i], 100 * i + mix, mix & 1 ? 3 : mix == 8 ? 1 : 0, mix & 2 ? 5 : mix == 16 ? 1 : 0,
                      mix & 4 ? 4 : 0);
            round_trip(sizes[i]);
        }
}
END_TEST

/* Values that nothing foretells, at the ends of their ranges. */
START_TEST(extreme_values_are_kept)
{
    for (uint32_t kind = 0; kind < 8; kind++) {
        for (uint32_t i = 0; i < 300; i++) {
            bool big = kind == 0 || (kind < 5 && i % 60 == kind) || (kind == 5 && i % 2);
            row_bytes[i] = big ^ (kind == 6) ? 1u << 30 : 1;
            given[i] = (struct lk_count){.known = true,
                                         .text_bytes = big ? UINT32_MAX : kind == 7 ? i : 0,
                                         .tokens = big ? LK_COUNTS_TOKENS_MAX : 1,
                                         .specials = big ? UINT32_MAX : 0};
        }
        round_trip(300);
    }
}
END_TEST

START_TEST(a_block_is_kept_or_replaced)
{
    struct lk_counts_file file, next;
    struct lk_counts_build build;
    struct lk_counts_id id;
    make_rows(1000, 5, 2, 4, 0);
    id = id_of(1000);
    struct lk_buf bytes = pack(1000), again = {0};
    parse(&bytes, &file);
    for (uint32_t i = 512; i < 600; i++)
        given[i] = (struct lk_count){.known = true, .tokens = 9, .text_bytes = 30};
    lk_counts_begin(&build, &id);
    lk_counts_keep(&build, &file);
    lk_counts_keep(&build, &file);
    lk_counts_put(&build, row_bytes, given + 512);
    lk_counts_keep(&build, NULL);
    lk_counts_end(&build, &again);
    for (uint32_t i = 768; i < 1000; i++)
        given[i] = (struct lk_count){.known = false};
    parse(&again, &next);
    check_rows(&next, 1000);
    lk_counts_file_done(&file);
    lk_counts_file_done(&next);
}
END_TEST

/* A file that is not the very one that was packed is not read as one. */
static void refuse(const struct lk_buf *good, size_t n, size_t flip, uint8_t bits)
{
    struct lk_counts_file file = {0};
    struct lk_count row[LK_COUNTS_BLOCK];
    struct lk_buf bytes = {0};
    struct lk_err err;
    lk_buf_put(&bytes, good->data, n < good->len ? n : good->len);
    if (n > good->len)
        lk_buf_put(&bytes, "", 1);
    if (bits != 0)
        bytes.data[flip] ^= bits;
    enum lk_code code = lk_counts_parse("x", &bytes, &file, &err);
    for (uint32_t b = 0; code == LK_OK && b < file.blocks; b++)
        code = lk_counts_read(&file, b, row_bytes, row, &err);
    ck_assert_msg(code == LK_DATA_LOSS, "%zu bytes, byte %zu ^ %u: %s", n, flip, bits, lk_code_name(code));
    lk_counts_file_done(&file);
}

START_TEST(torn_and_flipped_files_are_refused)
{
    make_rows(600, 9, 7, 6, 5);
    struct lk_buf good = pack(600);
    for (size_t n = 0; n < good.len; n++)
        refuse(&good, n, 0, 0);
    refuse(&good, good.len + 1, 0, 0);
    for (size_t i = 0; i < good.len; i++)
        for (unsigned bit = 0; bit < 8; bit++)
            refuse(&good, good.len, i, (uint8_t)(1u << bit));
    lk_buf_done(&good);
}
END_TEST

START_TEST(another_version_is_no_damage)
{
    struct lk_counts_file file;
    struct lk_err err;
    make_rows(10, 1, 0, 0, 0);
    struct lk_buf bytes = pack(10);
    lk_put_u32(bytes.data + 4, 2);
    lk_put_u64(bytes.data + 88, lk_hash64(bytes.data, 88, 0));
    ck_assert_int_eq(lk_counts_parse("x", &bytes, &file, &err), LK_FAILED_PRECONDITION);
}
END_TEST

/* Blocks that a checksum does not protect, since whoever wrote them made it: no byte may lead astray. */
START_TEST(rubbish_in_a_block_is_refused_or_read_within_bounds)
{
    make_rows(256, 3, 3, 3, 3);
    struct lk_buf good = pack(256);
    for (uint64_t round = 0; round < 20000; round++) {
        struct lk_counts_file file;
        struct lk_count row[LK_COUNTS_BLOCK];
        struct lk_buf bytes = {0};
        struct lk_err err;
        lk_buf_put(&bytes, good.data, good.len);
        uint8_t *block = bytes.data + 98;
        size_t n = good.len - 98;
        for (uint64_t i = 0; i <= draw_from(77, 3 * round, 4); i++)
            block[8 + draw_from(78, 8 * round + i, n - 8)] ^= (uint8_t)(1 + draw_from(79, 8 * round + i, 255));
        lk_put_u64(block, lk_hash64(block + 8, n - 8, 0));
        ck_assert(lk_counts_parse("x", &bytes, &file, &err) == LK_OK);
        if (lk_counts_read(&file, 0, row_bytes, row, &err) == LK_OK)
            for (uint32_t i = 0; i < 256; i++) {
                ck_assert(row[i].drop < LK_COUNTS_DROPS && row[i].tokens <= LK_COUNTS_TOKENS_MAX);
                ck_assert(row[i].known ? (row[i].drop == 0) == (row[i].tokens > 0) : row[i].tokens == 0);
            }
        lk_counts_file_done(&file);
    }
    lk_buf_done(&good);
}
END_TEST

/* Lengths are spread as wildly here as anywhere; what is foretold well takes two bytes a row. */
START_TEST(a_row_takes_less_than_three_bytes)
{
    make_rows(ROWS_MAX, 11, 0, 50, 0);
    struct lk_buf bytes = pack(ROWS_MAX);
    ck_assert_msg(bytes.len < 3 * ROWS_MAX, "%zu bytes for %d rows", bytes.len, ROWS_MAX);
    lk_buf_done(&bytes);
}
END_TEST

START_TEST(names_are_told_from_others)
{
    struct lk_counts_id id = {.ops = {1, 2}, .shard = {3, 4}, .rows = 1};
    char *name = lk_counts_name(&id);
    ck_assert_str_eq(name, "00000000000000020000000000000001-00000000000000040000000000000003.lkc");
    ck_assert(lk_counts_is_name(name));
    ck_assert(!lk_counts_is_name(name + 1));
    name[3] = 'G';
    ck_assert(!lk_counts_is_name(name));
    ck_assert(!lk_counts_is_name(""));
    free(name);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("store/counts");
    TCase *t = tcase_create("counts");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, what_is_packed_is_read);
    tcase_add_test(t, extreme_values_are_kept);
    tcase_add_test(t, a_block_is_kept_or_replaced);
    tcase_add_test(t, torn_and_flipped_files_are_refused);
    tcase_add_test(t, another_version_is_no_damage);
    tcase_add_test(t, rubbish_in_a_block_is_refused_or_read_within_bounds);
    tcase_add_test(t, a_row_takes_less_than_three_bytes);
    tcase_add_test(t, names_are_told_from_others);
    suite_add_tcase(s, t);
    return s;
}
