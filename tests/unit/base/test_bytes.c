#include "base/bytes.h"

#include "tests/lib/check_main.h"

static const uint64_t edges[] = {0,         1,          127,        128,           300, 16383, 16384,
                                 1u << 31,  UINT32_MAX, 1ull << 32, (1ull << 53) + 1,
                                 INT64_MAX, 1ull << 63, UINT64_MAX};
enum { EDGES = sizeof edges / sizeof *edges };

START_TEST(fixed_numbers_are_little_endian)
{
    uint8_t p[8];
    lk_put_u64(p, 0x0102030405060708u);
    ck_assert_int_eq(p[0], 8);
    ck_assert_int_eq(p[7], 1);
    ck_assert_uint_eq(lk_get_u64(p), 0x0102030405060708u);
    ck_assert_uint_eq(lk_get_u32(p), 0x05060708u);
    ck_assert_uint_eq(lk_get_u16(p), 0x0708u);
    lk_put_u32(p, UINT32_MAX);
    ck_assert_uint_eq(lk_get_u64(p), 0x01020304ffffffffu);
}
END_TEST

START_TEST(varints_have_the_bytes_of_leb128)
{
    struct lk_buf buf = {0};
    lk_buf_put_varint(&buf, 300);
    ck_assert_uint_eq(buf.len, 2);
    ck_assert_mem_eq(buf.data, "\xac\x02", 2);
    buf.len = 0;
    lk_buf_put_varint(&buf, UINT64_MAX);
    ck_assert_uint_eq(buf.len, 10);
    ck_assert_mem_eq(buf.data, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10);
    buf.len = 0;
    lk_buf_put_zigzag(&buf, -2);
    ck_assert_uint_eq(buf.len, 1);
    ck_assert_int_eq(buf.data[0], 3);
    lk_buf_done(&buf);
}
END_TEST

START_TEST(everything_written_is_read_again)
{
    struct lk_buf buf = {0};
    for (int i = 0; i < EDGES; i++) {
        lk_buf_put_varint(&buf, edges[i]);
        lk_buf_put_zigzag(&buf, (int64_t)edges[i]);
        lk_buf_put_zigzag(&buf, (int64_t)~edges[i]);
        lk_buf_put_u32(&buf, (uint32_t)edges[i]);
        lk_buf_put_u64(&buf, edges[i]);
    }
    struct lk_reader in = lk_reader_of(buf.data, buf.len);
    for (int i = 0; i < EDGES; i++) {
        ck_assert_uint_eq(lk_read_varint(&in), edges[i]);
        ck_assert_int_eq(lk_read_zigzag(&in), (int64_t)edges[i]);
        ck_assert_int_eq(lk_read_zigzag(&in), (int64_t)~edges[i]);
        ck_assert_uint_eq(lk_read_u32(&in), (uint32_t)edges[i]);
        ck_assert_uint_eq(lk_read_u64(&in), edges[i]);
    }
    ck_assert(!in.bad && in.at == in.end);
    lk_buf_done(&buf);
}
END_TEST

START_TEST(every_truncation_of_a_varint_is_bad)
{
    for (int i = 0; i < EDGES; i++) {
        struct lk_buf buf = {0};
        lk_buf_put_varint(&buf, edges[i]);
        for (size_t n = 0; n < buf.len; n++) {
            struct lk_reader in = lk_reader_of(buf.data, n);
            ck_assert_uint_eq(lk_read_varint(&in), 0);
            ck_assert(in.bad);
        }
        lk_buf_done(&buf);
    }
}
END_TEST

START_TEST(a_varint_of_more_than_64_bits_is_bad)
{
    static const uint8_t too_large[] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 2};
    static const uint8_t too_long[] = {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0};
    struct lk_reader in = lk_reader_of(too_large, sizeof too_large);
    ck_assert_uint_eq(lk_read_varint(&in), 0);
    ck_assert(in.bad);
    in = lk_reader_of(too_long, sizeof too_long);
    ck_assert_uint_eq(lk_read_varint(&in), 0);
    ck_assert(in.bad);
}
END_TEST

START_TEST(a_bounded_number_above_its_bound_is_bad)
{
    static const uint8_t bytes[] = {5, 5};
    struct lk_reader in = lk_reader_of(bytes, sizeof bytes);
    ck_assert_uint_eq(lk_read_bounded(&in, 5), 5);
    ck_assert(!in.bad);
    ck_assert_uint_eq(lk_read_bounded(&in, 4), 0);
    ck_assert(in.bad);
}
END_TEST

START_TEST(a_bad_reader_yields_zero_from_then_on)
{
    static const uint8_t bytes[16] = {1, 2, 3};
    struct lk_reader in = lk_reader_of(bytes, sizeof bytes);
    ck_assert_ptr_null(lk_read_bytes(&in, 17));
    ck_assert(in.bad);
    ck_assert_uint_eq(lk_read_u32(&in), 0);
    ck_assert_uint_eq(lk_read_u64(&in), 0);
    ck_assert_uint_eq(lk_read_varint(&in), 0);
    ck_assert_int_eq(lk_read_zigzag(&in), 0);
    ck_assert_ptr_null(lk_read_bytes(&in, 1));
}
END_TEST

START_TEST(bytes_are_handed_out_to_the_last_and_no_further)
{
    static const uint8_t bytes[] = {1, 2, 3, 4};
    struct lk_reader in = lk_reader_of(bytes, sizeof bytes);
    ck_assert_ptr_eq(lk_read_bytes(&in, 3), bytes);
    ck_assert_ptr_eq(lk_read_bytes(&in, 1), bytes + 3);
    ck_assert_ptr_nonnull(lk_read_bytes(&in, 0));
    ck_assert(!in.bad);
    ck_assert_ptr_null(lk_read_bytes(&in, 1));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("base/bytes");
    TCase *t = tcase_create("bytes");
    tcase_add_test(t, fixed_numbers_are_little_endian);
    tcase_add_test(t, varints_have_the_bytes_of_leb128);
    tcase_add_test(t, everything_written_is_read_again);
    tcase_add_test(t, every_truncation_of_a_varint_is_bad);
    tcase_add_test(t, a_varint_of_more_than_64_bits_is_bad);
    tcase_add_test(t, a_bounded_number_above_its_bound_is_bad);
    tcase_add_test(t, a_bad_reader_yields_zero_from_then_on);
    tcase_add_test(t, bytes_are_handed_out_to_the_last_and_no_further);
    suite_add_tcase(s, t);
    return s;
}
