#include "format/decoder.h"

#include "base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { IN_BYTES = 256 << 10 };

struct codec_ops {
    void (*init)(struct lk_decoder *d);
    /* Takes from d->in and writes to @to, at least one of them if any progress is possible. */
    enum lk_code (*step)(struct lk_decoder *d, uint8_t *to, size_t n, size_t *ret_made,
                         struct lk_err *err);
    void (*done)(struct lk_decoder *d);
    const char *unit;
};

struct lk_decoder {
    struct lk_source *source;
    const struct codec_ops *ops; /* NULL: plain */
    uint64_t next;               /* stored byte to be read next */
    uint8_t *in;
    size_t in_at, in_n; /* what of @in is still to be decoded */
    bool inside;        /* a member or frame has begun and not ended */
    bool any;           /* one has begun */
    z_stream gzip;
    ZSTD_DStream *zstd;
};

uint64_t lk_decoder_at(const struct lk_decoder *d)
{
    return d->next - (d->in_n - d->in_at);
}

static enum lk_code bad_data(const struct lk_decoder *d, const char *why, struct lk_err *err)
{
    return lk_fail(err, LK_DATA_LOSS, "%s: byte %llu: %s", d->source->name,
                   (unsigned long long)lk_decoder_at(d), why);
}

/* ---- gzip ---- */

static void gzip_init(struct lk_decoder *d)
{
    LK_CHECK(inflateInit2(&d->gzip, 15 + 16) == Z_OK); /* the largest window; gzip's header only */
}

static void gzip_done(struct lk_decoder *d)
{
    (void)inflateEnd(&d->gzip);
}

static enum lk_code gzip_step(struct lk_decoder *d, uint8_t *to, size_t n, size_t *ret_made,
                              struct lk_err *err)
{
    bool first = !d->any;
    uInt room = n < 1u << 30 ? (uInt)n : 1u << 30;

    if (!d->inside)
        LK_CHECK(inflateReset(&d->gzip) == Z_OK);
    d->gzip.next_in = d->in + d->in_at;
    d->gzip.avail_in = (uInt)(d->in_n - d->in_at);
    d->gzip.next_out = to;
    d->gzip.avail_out = room;
    int rc = inflate(&d->gzip, Z_NO_FLUSH);
    d->in_at = d->in_n - d->gzip.avail_in;
    *ret_made = room - d->gzip.avail_out;
    if (rc == Z_MEM_ERROR)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "%s: no memory to decompress",
                       d->source->name);
    if (rc != Z_OK && rc != Z_BUF_ERROR && rc != Z_STREAM_END) {
        if (!d->inside && !first)
            return bad_data(d, "garbage after the last gzip member", err);
        char why[128];
        (void)snprintf(why, sizeof why, "broken gzip data: %s",
                       d->gzip.msg != NULL ? d->gzip.msg : "unknown form");
        return bad_data(d, why, err);
    }
    d->inside = rc != Z_STREAM_END;
    d->any = true;
    return LK_OK;
}

/* ---- zstd ---- */

static void zstd_init(struct lk_decoder *d)
{
    d->zstd = ZSTD_createDStream();
    LK_CHECK(d->zstd != NULL);
    LK_CHECK(!ZSTD_isError(
        ZSTD_DCtx_setParameter(d->zstd, ZSTD_d_windowLogMax, LK_ZSTD_WINDOW_LOG_MAX)));
}

static void zstd_done(struct lk_decoder *d)
{
    (void)ZSTD_freeDStream(d->zstd);
}

static enum lk_code zstd_step(struct lk_decoder *d, uint8_t *to, size_t n, size_t *ret_made,
                              struct lk_err *err)
{
    bool first = !d->any;
    ZSTD_inBuffer in = {.src = d->in, .size = d->in_n, .pos = d->in_at};
    ZSTD_outBuffer out = {.dst = to, .size = n, .pos = 0};
    size_t rc = ZSTD_decompressStream(d->zstd, &out, &in);

    if (ZSTD_isError(rc)) {
        ZSTD_ErrorCode code = ZSTD_getErrorCode(rc);
        char why[128];
        if (code == ZSTD_error_frameParameter_windowTooLarge)
            (void)snprintf(why, sizeof why, "the zstd frame needs a window above %u MiB, refused",
                           1u << (LK_ZSTD_WINDOW_LOG_MAX - 20));
        else if (code == ZSTD_error_prefix_unknown && !d->inside && !first)
            (void)snprintf(why, sizeof why, "garbage after the last zstd frame");
        else
            (void)snprintf(why, sizeof why, "broken zstd data: %s", ZSTD_getErrorName(rc));
        return bad_data(d, why, err);
    }
    d->in_at = in.pos;
    *ret_made = out.pos;
    d->inside = rc != 0;
    d->any = true;
    return LK_OK;
}

/* ---- all ---- */

static const struct codec_ops gzip_ops = {gzip_init, gzip_step, gzip_done, "gzip member"};
static const struct codec_ops zstd_ops = {zstd_init, zstd_step, zstd_done, "zstd frame"};
static const struct codec_ops *const ops_of[LK_CODECS] = {
    [LK_CODEC_PLAIN] = NULL, [LK_CODEC_GZIP] = &gzip_ops, [LK_CODEC_ZSTD] = &zstd_ops};

struct lk_decoder *lk_decoder_new(struct lk_source *source, enum lk_codec codec)
{
    struct lk_decoder *d = lk_zalloc(1, sizeof *d);
    d->source = source;
    d->ops = ops_of[codec];
    if (d->ops != NULL) {
        d->in = lk_alloc(IN_BYTES);
        d->ops->init(d);
    }
    return d;
}

void lk_decoder_free(struct lk_decoder *d)
{
    if (d == NULL)
        return;
    if (d->ops != NULL)
        d->ops->done(d);
    free(d->in);
    free(d);
}

static enum lk_code read_plain(struct lk_decoder *d, void *to, size_t n, size_t *ret_got,
                               struct lk_err *err)
{
    uint64_t left = d->source->bytes - d->next;
    if (n > left)
        n = (size_t)left;
    if (n > 0)
        LK_TRY(lk_source_read(d->source, d->next, to, n, err));
    d->next += n;
    *ret_got = n;
    return LK_OK;
}

/* Reads on when all has been decoded; nothing comes at the end of the source. */
static enum lk_code refill(struct lk_decoder *d, struct lk_err *err)
{
    if (d->in_at < d->in_n)
        return LK_OK;
    d->in_at = d->in_n = 0;
    size_t n = 0;
    LK_TRY(read_plain(d, d->in, IN_BYTES, &n, err));
    d->in_n = n;
    return LK_OK;
}

enum lk_code lk_decoder_read(struct lk_decoder *d, void *to, size_t n, size_t *ret_got,
                             struct lk_err *err)
{
    size_t got = 0;

    if (d->ops == NULL)
        return read_plain(d, to, n, ret_got, err);
    while (got < n) {
        LK_TRY(refill(d, err));
        bool drained = d->in_at == d->in_n;
        if (drained && !d->inside && d->any)
            break;
        size_t made = 0;
        if (!drained || d->inside) /* a codec may still hold output when its input is used up */
            LK_TRY(d->ops->step(d, (uint8_t *)to + got, n - got, &made, err));
        got += made;
        if (drained && made == 0 && (d->inside || !d->any)) {
            char why[64];
            (void)snprintf(why, sizeof why, "the file ends inside a %s", d->ops->unit);
            return bad_data(d, why, err);
        }
    }
    *ret_got = got;
    return LK_OK;
}
