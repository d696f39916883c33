/*
 * Shards: any bytes, plain or as gzip or zstd, are rows or are refused. Rows lie where a plain reading of the
 * definition (format/jsonl.h) finds them, however the bytes are cut; decoding gives the same however much is
 * asked for at once, takes no more than it was given, and stops at what an index expects, so that a bomb
 * neither fills memory nor is decoded to its end.
 *
 * Input: codec, size of the pieces, then the shard.
 */
#include "base/digest.h"
#include "format/decoded.h"
#include "format/decoder.h"
#include "format/jsonl.h"
#include "tests/fuzz/fuzz.h"

#define DATA_MAX (8u << 20) /* decoded, of one input */

struct memory {
    struct lk_source source;
    const uint8_t *bytes;
    uint64_t read; /* by its readers */
};

static enum lk_code read_at(struct lk_source *source, uint64_t offset, void *to, size_t n, struct lk_err *err)
{
    struct memory *m = (struct memory *)source;
    (void)err;
    LK_CHECK(n > 0 && offset <= source->bytes && n <= source->bytes - offset);
    memcpy(to, m->bytes + offset, n);
    m->read += n;
    return LK_OK;
}

static const struct lk_source_ops ops = {.read_at = read_at, .close = NULL};

static struct memory memory_of(const uint8_t *bytes, size_t n)
{
    return (struct memory){.source = {.ops = &ops, .name = "m", .bytes = n}, .bytes = bytes};
}

/* Decodes all, @piece bytes at once, or DATA_MAX of it. */
static enum lk_code decode(const uint8_t *bytes, size_t n, enum lk_codec codec, size_t piece, struct lk_buf *out,
                           struct lk_err *err)
{
    struct memory m = memory_of(bytes, n);
    struct lk_decoder *decoder = lk_decoder_new(&m.source, codec);
    enum lk_code code = LK_OK;
    size_t got = 1;

    while (code == LK_OK && got > 0 && out->len < DATA_MAX) {
        code = lk_decoder_read(decoder, lk_buf_room(out, piece), piece, &got, err);
        LK_CHECK(code != LK_OK || got <= piece);
        LK_CHECK(lk_decoder_at(decoder) <= n);
        out->len += code == LK_OK ? got : 0;
    }
    LK_CHECK(code == LK_OK || (code == LK_DATA_LOSS && strncmp(err->text, "m: ", 3) == 0));
    lk_decoder_free(decoder);
    return code;
}

/* What an index that expects @expected bytes gets of it. */
static enum lk_code decoded_as(const uint8_t *bytes, size_t n, enum lk_codec codec, uint64_t expected,
                               const struct lk_buf *data)
{
    struct memory m = memory_of(bytes, n);
    struct lk_source *decoded = NULL;
    struct lk_err err;
    enum lk_code code = lk_decoded_make(&m.source, codec, expected, &decoded, &err);

    LK_CHECK(code == LK_OK || code == LK_DATA_LOSS);
    if (code != LK_OK)
        return code;
    uint8_t *all = lk_alloc(expected);
    LK_CHECK(decoded->bytes == expected && lk_source_read(decoded, 0, all, expected, &err) == LK_OK);
    LK_CHECK(data->len == expected && (expected == 0 || memcmp(all, data->data, expected) == 0));
    LK_CHECK(lk_source_read(decoded, expected, all, 1, &err) != LK_OK);
    free(all);
    lk_source_close(decoded);
    return code;
}

/* ---- rows ---- */

struct rows {
    struct lk_jsonl_row *row;
    size_t n, cap;
};

static void rows_add(struct rows *rows, const struct lk_jsonl_row *row)
{
    if (rows->n == rows->cap) {
        rows->cap = rows->cap == 0 ? 64 : 2 * rows->cap;
        rows->row = lk_resize(rows->row, rows->cap, sizeof *rows->row);
    }
    rows->row[rows->n++] = *row;
}

static enum lk_code each(void *owner, const struct lk_jsonl_row *row, struct lk_err *err)
{
    (void)err;
    rows_add(owner, row);
    return LK_OK;
}

static enum lk_code scan(const uint8_t *data, size_t n, size_t piece, struct rows *rows, struct lk_err *err)
{
    struct lk_jsonl *jsonl = lk_jsonl_new(each, rows);
    enum lk_code code = LK_OK;

    for (size_t at = 0; code == LK_OK && at < n; at += piece)
        code = lk_jsonl_put(jsonl, data + at, piece < n - at ? piece : n - at, err);
    if (code == LK_OK)
        code = lk_jsonl_end(jsonl, err);
    lk_jsonl_free(jsonl);
    LK_CHECK(code == LK_OK || code == LK_INVALID_ARGUMENT);
    return code;
}

/* The definition, read plainly; false: refused. */
static bool rows_of(const uint8_t *data, size_t n, struct rows *rows)
{
    bool wide = n >= 2 && ((data[0] == 0xff && data[1] == 0xfe) || (data[0] == 0xfe && data[1] == 0xff));
    size_t at = n >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;

    for (size_t i = 0; i < 4 && i < n; i++)
        wide = wide || data[i] == 0;
    if (wide)
        return false;
    while (at < n) {
        size_t end = at, blank = 0;
        while (end < n && data[end] != '\n')
            end++;
        size_t row_end = end > at && data[end - 1] == '\r' ? end - 1 : end;
        for (size_t i = at; i < row_end; i++)
            blank += data[i] == ' ' || data[i] == '\t' || data[i] == '\r';
        if (blank < row_end - at) {
            struct lk_jsonl_row row = {.offset = at,
                                       .bytes = (uint32_t)(row_end - at),
                                       .hash = lk_hash32(data + at, row_end - at)};
            rows_add(rows, &row);
        }
        at = end + 1;
    }
    return true;
}

static void check_rows(const uint8_t *data, size_t n, size_t piece)
{
    struct rows plain = {0}, found = {0};
    struct lk_err err;
    bool good = rows_of(data, n, &plain);

    LK_CHECK((scan(data, n, piece, &found, &err) == LK_OK) == good);
    LK_CHECK(!good || found.n == plain.n);
    for (size_t i = 0; good && i < plain.n; i++)
        LK_CHECK(found.row[i].offset == plain.row[i].offset && found.row[i].bytes == plain.row[i].bytes &&
                 found.row[i].hash == plain.row[i].hash);
    free(plain.row);
    free(found.row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct lk_fuzz_input input = {data, n};
    struct lk_buf whole = {0}, pieces = {0};
    struct lk_err err;
    enum lk_codec codec = (enum lk_codec)(lk_fuzz_byte(&input) % LK_CODECS);
    size_t piece = 1 + lk_fuzz_byte(&input), bytes = input.left;
    uint8_t *shard = lk_fuzz_copy(input.at, bytes);

    piece = piece == 256 ? 100000 : piece;
    enum lk_code code = decode(shard, bytes, codec, 1 << 16, &whole, &err);
    if (whole.len <= 64 * piece || piece == 100000) {
        LK_CHECK(decode(shard, bytes, codec, piece, &pieces, &err) == code);
        LK_CHECK(code != LK_OK || whole.len >= DATA_MAX ||
                 (pieces.len == whole.len && (whole.len == 0 || memcmp(pieces.data, whole.data, whole.len) == 0)));
    }
    if (code == LK_OK && whole.len < DATA_MAX) {
        LK_CHECK(decoded_as(shard, bytes, codec, whole.len, &whole) == LK_OK);
        LK_CHECK(decoded_as(shard, bytes, codec, whole.len + 1, &whole) == LK_DATA_LOSS);
        check_rows(whole.data, whole.len, piece);
    }
    LK_CHECK((whole.len == 0 && code == LK_OK) ||
             decoded_as(shard, bytes, codec, whole.len / 2, &whole) == LK_DATA_LOSS);
    free(shard);
    lk_buf_done(&whole);
    lk_buf_done(&pieces);
    return 0;
}
