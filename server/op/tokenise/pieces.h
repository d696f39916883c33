/*
 * Text without added tokens → ids: it is cut into pieces (pretok/), and a piece is found in the cache
 * (cache.h) or else is one token by the file's own word, or is merged (bpe.h).
 */
#ifndef LK_OP_TOKENISE_PIECES_H
#define LK_OP_TOKENISE_PIECES_H

#include "op/pretok/pretok.h"
#include "op/tokenise/cache.h"

/* One thread's; not to be copied. */
struct lk_pieces {
    const struct lk_pretok *pretok; /* borrowed */
    const struct lk_bpe *bpe;       /* borrowed */
    struct lk_cache cache;
    struct lk_bpe_scratch scratch;
};

/* @entries_n, @ring_n: of the cache. */
void lk_pieces_init(struct lk_pieces *pieces, const struct lk_pretok *pretok,
                    const struct lk_bpe *bpe, size_t entries_n, size_t ring_n);
void lk_pieces_done(struct lk_pieces *pieces);
/* Gives back what only an extraordinary piece needed. */
void lk_pieces_trim(struct lk_pieces *pieces);

/* Appends the ids of the text from @p to @end to @out. Memory is readable up to @limit >= @end: what
 * follows the text has no influence, but 16 bytes of it make short texts faster. */
void lk_pieces_encode(struct lk_pieces *pieces, const uint8_t *p, const uint8_t *end,
                      const uint8_t *limit, struct lk_tokens *out);

#endif
