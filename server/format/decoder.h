/*
 * The data bytes of a shard as one stream, decompressed where need be. Memory is bounded whatever
 * the input: 256 KiB and the codec's window (32 KiB for gzip, at most 128 MiB for zstd).
 */
#ifndef LK_FORMAT_DECODER_H
#define LK_FORMAT_DECODER_H

#include "base/dataset_files.h"
#include "base/source.h"

#define LK_ZSTD_WINDOW_LOG_MAX 27 /* a frame that needs a larger window is refused */

struct lk_decoder;

/* Borrows @source. Cannot fail. */
struct lk_decoder *lk_decoder_new(struct lk_source *source, enum lk_codec codec);
void lk_decoder_free(struct lk_decoder *decoder); /* NULL is fine */

/*
 * Fills @to with the next @n bytes; fewer, then 0, at the end of the data. All gzip members and all
 * zstd frames are one stream. What is cut off, broken or followed by anything else (NUL bytes, too)
 * is DATA_LOSS naming the source and the byte in it.
 */
enum lk_code lk_decoder_read(struct lk_decoder *decoder, void *to, size_t n, size_t *ret_got,
                             struct lk_err *err);

/* How many stored bytes have been read so far. */
uint64_t lk_decoder_at(const struct lk_decoder *decoder);

#endif
