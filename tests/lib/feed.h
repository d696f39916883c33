/*
 * A made-up input for tests of one sequencer: records of given lengths, in order, with a SEQ_WANT
 * before each when asked; and the few lines that make, run and compare a stage.
 */
#ifndef LK_TESTS_LIB_FEED_H
#define LK_TESTS_LIB_FEED_H

#include "base/mem.h"
#include "seq/seq.h"

#include <stdlib.h>
#include <string.h>

struct feed {
    const uint32_t *tokens;  /* [n] */
    const uint32_t *dataset; /* [n]; NULL: all of dataset 0 */
    uint32_t n, at;
    bool wants, said_want;   /* says SEQ_WANT once before every record and before the end */
    uint64_t fed;            /* tokens */
    struct lk_span span;
};

static inline enum seq_pull feed_next(void *self, struct lk_item *ret_item)
{
    struct feed *feed = self;
    if (feed->wants && !feed->said_want) {
        feed->said_want = true;
        return SEQ_WANT;
    }
    feed->said_want = false;
    if (feed->at == feed->n)
        return SEQ_END;
    feed->span = (struct lk_span){.row = feed->at,
                                  .dataset = feed->dataset != NULL ? feed->dataset[feed->at] : 0,
                                  .tokens = feed->tokens[feed->at]};
    feed->fed += feed->span.tokens;
    feed->at++;
    *ret_item = (struct lk_item){.span = &feed->span, .n = 1, .tokens = feed->span.tokens};
    return SEQ_OK;
}

/* A stage under test, its input and its counts. */
struct trial {
    const struct seq_ops *ops;
    struct seq_params params;
    void *stage;
    struct feed feed;
    struct seq_counts counts;
    struct lk_err err;
    uint64_t out; /* tokens */
};

static inline void trial_init(struct trial *t, enum seq_kind kind, const struct seq_params *params,
                              const struct feed *feed)
{
    *t = (struct trial){.ops = seq_table[kind], .params = *params, .feed = *feed};
    t->stage = lk_zalloc(1, t->ops->size);
    t->ops->init(t->stage, params);
}

static inline void trial_done(struct trial *t)
{
    t->ops->done(t->stage);
    t->ops->done(t->stage); /* twice is safe */
    free(t->stage);
}

/* The next item, whatever the input wants before; every invariant and the account of tokens checked. */
static inline enum seq_pull trial_next(struct trial *t, struct lk_item *ret_item)
{
    struct seq_input in = {
        .next = feed_next, .self = &t->feed, .counts = &t->counts, .err = &t->err};
    enum seq_pull got;
    do {
        got = t->ops->next(t->stage, &in, ret_item);
        t->ops->check(t->stage);
        t->out += got == SEQ_OK ? ret_item->tokens : 0;
        LK_CHECK(t->feed.fed == t->out + t->counts.lost + t->ops->waiting(t->stage));
    } while (got == SEQ_WANT);
    return got;
}

/* "row:first+tokens row:first+tokens / …", items parted by slashes, of up to @max items: for
 * comparison with a literal. Valid until trial_text of the same buffer again. */
static inline const char *trial_text(struct trial *t, uint32_t max, struct lk_buf *text)
{
    struct lk_item item;
    text->len = 0;
    for (uint32_t i = 0; i < max && trial_next(t, &item) == SEQ_OK; i++) {
        lk_buf_puts(text, i > 0 ? " /" : "");
        for (uint32_t k = 0; k < item.n; k++)
            lk_buf_putf(text, "%s%llu:%u+%u", i + k > 0 ? " " : "",
                        (unsigned long long)item.span[k].row, item.span[k].first,
                        item.span[k].tokens);
    }
    return lk_buf_cstr(text);
}

#endif
