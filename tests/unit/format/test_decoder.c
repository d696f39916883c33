#include "format/decoder.h"

#include "tests/lib/check_main.h"
#include "tests/lib/compress.h"
#include "tests/lib/mem_store.h"

static struct mem_store store;

/* Decodes @data, reading @piece bytes at a time. */
static enum lk_code decode(const void *data, size_t n, enum lk_codec codec, size_t piece,
                           struct lk_buf *out, struct lk_err *err)
{
    struct lk_source *source = NULL;
    mem_put(&store, "d/x", data, n);
    ck_assert_int_eq(mem_open(&store, "d/x", &source, err), LK_OK);
    struct lk_decoder *decoder = lk_decoder_new(source, codec);
    enum lk_code code;
    size_t got = 0;
    out->len = 0;
    do {
        code = lk_decoder_read(decoder, lk_buf_room(out, piece), piece, &got, err);
        out->len += code == LK_OK ? got : 0;
        ck_assert(code != LK_OK || got == piece || lk_decoder_at(decoder) == n);
    } while (code == LK_OK && got > 0);
    lk_decoder_free(decoder);
    lk_source_close(source);
    ck_assert_int_eq(store.open_now, 0);
    return code;
}

static void check_text(const struct lk_buf *in, enum lk_codec codec, const char *want)
{
    struct lk_buf out = {0};
    struct lk_err err = {0};
    for (size_t piece = 1; piece < 70; piece += 3) {
        ck_assert_msg(decode(in->data, in->len, codec, piece, &out, &err) == LK_OK, "%s",
                      err.text);
        ck_assert_uint_eq(out.len, strlen(want));
        ck_assert_mem_eq(out.data, want, out.len);
    }
    lk_buf_done(&out);
}

static void check_bad(const struct lk_buf *in, enum lk_codec codec, const char *why)
{
    struct lk_buf out = {0};
    struct lk_err err = {0};
    ck_assert_int_eq(decode(in->data, in->len, codec, 16, &out, &err), LK_DATA_LOSS);
    ck_assert_msg(strstr(err.text, "d/x: byte ") != NULL && strstr(err.text, why) != NULL, "%s",
                  err.text);
    lk_buf_done(&out);
}

static void teardown(void)
{
    mem_store_done(&store);
}

/* RC-033 */
START_TEST(all_members_are_one_stream_and_a_line_may_cross_them)
{
    struct lk_buf in = {0};
    put_gzip(&in, "{\"text\":\"a\"}\n{\"te", 17);
    put_gzip(&in, "", 0);
    put_gzip(&in, "xt\":\"b\"}\n", 9);
    check_text(&in, LK_CODEC_GZIP, "{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
    lk_buf_done(&in);
}
END_TEST

/* RC-033 */
START_TEST(all_frames_are_one_stream_and_skippable_ones_are_skipped)
{
    struct lk_buf in = {0};
    put_zstd(&in, "{\"text\":\"a\"}\n{\"te", 17);
    lk_buf_put(&in, "\x50\x2a\x4d\x18\x03\0\0\0abc", 11);
    put_zstd(&in, "", 0);
    put_zstd(&in, "xt\":\"b\"}\n", 9);
    lk_buf_put(&in, "\x5f\x2a\x4d\x18\0\0\0\0", 8);
    check_text(&in, LK_CODEC_ZSTD, "{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
    lk_buf_done(&in);
}
END_TEST

/* RC-033, and RC-047 for what holds rows here. */
START_TEST(every_cut_is_an_error_and_none_is_silent)
{
    for (int codec = LK_CODEC_GZIP; codec <= LK_CODEC_ZSTD; codec++) {
        struct lk_buf in = {0}, out = {0};
        struct lk_err err;
        void (*put)(struct lk_buf *, const void *, size_t) =
            codec == LK_CODEC_GZIP ? put_gzip : put_zstd;
        put(&in, "{\"text\":\"a\"}\n", 13);
        size_t first = in.len;
        put(&in, "{\"text\":\"b\"}\n", 13);
        for (size_t cut = 0; cut < in.len; cut++) {
            enum lk_code code = decode(in.data, cut, (enum lk_codec)codec, 5, &out, &err);
            ck_assert_msg(code == (cut == first ? LK_OK : LK_DATA_LOSS), "cut at %zu", cut);
            if (cut == 0 || cut == first + 1)
                ck_assert_ptr_nonnull(strstr(err.text, "the file ends inside"));
        }
        lk_buf_done(&in);
        lk_buf_done(&out);
    }
}
END_TEST

/* RC-033 */
START_TEST(whatever_follows_the_data_is_named)
{
    static const char zeros[10];
    struct lk_buf in = {0};
    put_gzip(&in, "1\n", 2);
    size_t n = in.len;
    lk_buf_put(&in, zeros, 10);
    check_bad(&in, LK_CODEC_GZIP, "garbage after the last gzip member");
    in.len = n;
    lk_buf_puts(&in, "garbage");
    check_bad(&in, LK_CODEC_GZIP, "garbage after the last gzip member");
    in.len = 0;
    put_zstd(&in, "1\n", 2);
    n = in.len;
    lk_buf_put(&in, zeros, 10);
    check_bad(&in, LK_CODEC_ZSTD, "garbage after the last zstd frame");
    in.len = n;
    lk_buf_puts(&in, "garbage");
    check_bad(&in, LK_CODEC_ZSTD, "garbage after the last zstd frame");
    lk_buf_done(&in);
}
END_TEST

START_TEST(flipped_bits_and_other_formats_are_refused)
{
    struct lk_buf in = {0};
    put_gzip(&in, "{\"text\":\"some text\"}\n", 21);
    check_bad(&in, LK_CODEC_ZSTD, "broken zstd data");
    in.data[in.len - 6] ^= 1; /* the checksum */
    check_bad(&in, LK_CODEC_GZIP, "broken gzip data");
    in.len = 0;
    lk_buf_puts(&in, "{\"text\":\"plain\"}\n");
    check_bad(&in, LK_CODEC_GZIP, "broken gzip data");
    check_bad(&in, LK_CODEC_ZSTD, "broken zstd data");
    lk_buf_done(&in);
}
END_TEST

/* RC-132 */
START_TEST(a_window_that_would_take_the_memory_is_refused)
{
    ZSTD_CCtx *ctx = ZSTD_createCCtx();
    struct lk_buf in = {0};
    char out[256];
    ZSTD_outBuffer to = {.dst = out, .size = sizeof out};
    ZSTD_inBuffer from = {.src = "1\n", .size = 2};
    ck_assert(!ZSTD_isError(ZSTD_CCtx_setParameter(ctx, ZSTD_c_windowLog, 28)));
    ck_assert(!ZSTD_isError(ZSTD_compressStream2(ctx, &to, &from, ZSTD_e_flush)));
    ck_assert_uint_eq(ZSTD_compressStream2(ctx, &to, &from, ZSTD_e_end), 0);
    lk_buf_put(&in, out, to.pos);
    check_bad(&in, LK_CODEC_ZSTD, "a window above 128 MiB");
    ZSTD_freeCCtx(ctx);
    lk_buf_done(&in);
}
END_TEST

START_TEST(large_data_come_through_whole)
{
    enum { N = 3000000 };
    uint8_t *data = lk_alloc(N);
    uint32_t x = 1;
    for (size_t i = 0; i < N; i++) {
        x = x * 1664525 + 1013904223;
        data[i] = i % 1000 < 500 ? (uint8_t)(x >> 24) : (uint8_t)i;
    }
    for (int codec = LK_CODEC_PLAIN; codec <= LK_CODEC_ZSTD; codec++) {
        struct lk_buf in = {0}, out = {0};
        struct lk_err err;
        for (size_t at = 0; at < N; at += N / 3) {
            if (codec == LK_CODEC_PLAIN)
                lk_buf_put(&in, data + at, N / 3);
            else if (codec == LK_CODEC_GZIP)
                put_gzip(&in, data + at, N / 3);
            else
                put_zstd(&in, data + at, N / 3);
        }
        ck_assert_int_eq(decode(in.data, in.len, (enum lk_codec)codec, 100003, &out, &err),
                         LK_OK);
        ck_assert_uint_eq(out.len, N);
        ck_assert_int_eq(memcmp(out.data, data, N), 0);
        lk_buf_done(&in);
        lk_buf_done(&out);
    }
    free(data);
}
END_TEST

START_TEST(failed_reads_are_passed_on)
{
    struct lk_buf in = {0}, out = {0};
    struct lk_err err;
    put_gzip(&in, "1\n", 2);
    store.fail_reads = 1;
    ck_assert_int_eq(decode(in.data, in.len, LK_CODEC_GZIP, 5, &out, &err), LK_UNAVAILABLE);
    store.fail_reads = 1;
    ck_assert_int_eq(decode(in.data, in.len, LK_CODEC_PLAIN, 5, &out, &err), LK_UNAVAILABLE);
    lk_buf_done(&in);
    lk_buf_done(&out);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("format/decoder");
    TCase *t = tcase_create("decoder");
    tcase_add_checked_fixture(t, NULL, teardown);
    tcase_add_test(t, all_members_are_one_stream_and_a_line_may_cross_them);
    tcase_add_test(t, all_frames_are_one_stream_and_skippable_ones_are_skipped);
    tcase_add_test(t, every_cut_is_an_error_and_none_is_silent);
    tcase_add_test(t, whatever_follows_the_data_is_named);
    tcase_add_test(t, flipped_bits_and_other_formats_are_refused);
    tcase_add_test(t, a_window_that_would_take_the_memory_is_refused);
    tcase_add_test(t, large_data_come_through_whole);
    tcase_add_test(t, failed_reads_are_passed_on);
    suite_add_tcase(s, t);
    return s;
}
