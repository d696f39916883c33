#include "op/tokenise/detokenise.h"

#include "op/tokenise/internal.h"

#include <stdlib.h>

struct lk_detokeniser {
    const struct lk_tokenizer *tokenizer;
    bool *skipped; /* [below] ids that give nothing; NULL: none */
    uint32_t below;
    uint32_t strip; /* leading spaces that are still to be dropped */
};

struct lk_detokeniser *lk_detokeniser_new(const struct lk_tokenizer *tokenizer, bool skip_special)
{
    struct lk_detokeniser *d = lk_zalloc(1, sizeof *d);

    d->tokenizer = tokenizer;
    lk_detokeniser_begin(d);
    if (!skip_special)
        return d;
    d->below = tokenizer->added.end_id;
    d->skipped = lk_zalloc((size_t)d->below + 1, sizeof *d->skipped);
    for (size_t i = 0; i < tokenizer->added.n; i++)
        d->skipped[tokenizer->added.tokens[i].id] = tokenizer->added.tokens[i].special;
    return d;
}

void lk_detokeniser_free(struct lk_detokeniser *d)
{
    if (d == NULL)
        return;
    free(d->skipped);
    free(d);
}

void lk_detokeniser_begin(struct lk_detokeniser *d)
{
    d->strip = lk_tokenizer_strip(d->tokenizer);
}

static enum lk_code no_token(const struct lk_tokenizer *tokenizer, uint32_t id, struct lk_err *err)
{
    uint32_t vocab = lk_tokenizer_vocab(tokenizer);
    if (id >= vocab)
        return lk_fail(err, LK_OUT_OF_RANGE, "id %u: expected one below %u, the size of the vocabulary",
                       id, vocab);
    return lk_fail(err, LK_NOT_FOUND, "id %u: no token has it: it is a hole in the vocabulary", id);
}

/* The beginning of a text: of its spaces, those that encoding has put there are not its own. */
static void put_stripped(struct lk_detokeniser *d, const uint8_t *text, size_t n, struct lk_buf *out)
{
    while (n > 0 && d->strip > 0 && *text == ' ') {
        text++;
        n--;
        d->strip--;
    }
    if (n > 0)
        d->strip = 0;
    lk_buf_put(out, text, n);
}

enum lk_code lk_detokenise(struct lk_detokeniser *d, const uint32_t *ids, size_t n,
                           struct lk_buf *out, size_t *ret_bad, struct lk_err *err)
{
    for (size_t i = 0; i < n; i++) {
        size_t bytes;
        const uint8_t *text = lk_tokenizer_bytes(d->tokenizer, ids[i], &bytes);
        if (text == NULL) {
            *ret_bad = i;
            return no_token(d->tokenizer, ids[i], err);
        }
        if (ids[i] < d->below && d->skipped[ids[i]])
            continue;
        if (d->strip > 0)
            put_stripped(d, text, bytes, out);
        else
            lk_buf_put(out, text, bytes);
    }
    return LK_OK;
}
