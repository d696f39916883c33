/* Appends one gzip member or zstd frame to a buffer, by the libraries themselves. */
#ifndef LK_TESTS_LIB_COMPRESS_H
#define LK_TESTS_LIB_COMPRESS_H

#include "base/mem.h"

#include <check.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

static inline void put_gzip(struct lk_buf *out, const void *data, size_t n)
{
    z_stream z;
    memset(&z, 0, sizeof z);
    ck_assert_int_eq(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t bound = deflateBound(&z, n) + 64;
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)n;
    z.next_out = lk_buf_room(out, bound);
    z.avail_out = (uInt)bound;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    out->len += bound - z.avail_out;
    (void)deflateEnd(&z);
}

static inline void put_zstd(struct lk_buf *out, const void *data, size_t n)
{
    size_t bound = ZSTD_compressBound(n);
    size_t did = ZSTD_compress(lk_buf_room(out, bound), bound, data, n, 3);
    ck_assert(!ZSTD_isError(did));
    out->len += did;
}

#endif
