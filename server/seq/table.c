#include "seq/seq.h"

const struct seq_ops *const seq_table[SEQ_KINDS] = {
    [SEQ_SPLIT] = &seq_split, [SEQ_SHUFFLE] = &seq_shuffle, [SEQ_CONCAT] = &seq_concat,
    [SEQ_FIT] = &seq_fit,     [SEQ_EXACT] = &seq_exact,
};

void seq_put_span(struct lk_buf *out, const struct lk_span *span)
{
    lk_buf_put_varint(out, span->dataset);
    lk_buf_put_varint(out, span->epoch);
    lk_buf_put_varint(out, span->row);
    lk_buf_put_varint(out, span->first);
    lk_buf_put_varint(out, span->tokens);
}

bool seq_get_span(struct lk_reader *in, const struct seq_bounds *bounds, struct lk_span *ret_span)
{
    struct lk_span span;
    span.dataset = (uint32_t)lk_read_bounded(in, bounds->datasets - 1);
    span.epoch = (uint32_t)lk_read_bounded(in, UINT32_MAX);
    span.row = lk_read_varint(in);
    span.first = (uint32_t)lk_read_bounded(in, UINT32_MAX);
    span.tokens = (uint32_t)lk_read_bounded(in, UINT32_MAX);
    if (span.tokens == 0 || (uint64_t)span.first + span.tokens > UINT32_MAX)
        in->bad = 1;
    if (!in->bad && bounds->rows != NULL && span.row >= bounds->rows[span.dataset])
        in->bad = 1;
    if (in->bad)
        return false;
    *ret_span = span;
    return true;
}

struct lk_span seq_take(struct lk_span *span, uint32_t tokens)
{
    LK_CHECK(tokens > 0 && tokens < span->tokens);
    struct lk_span head = *span;
    head.tokens = tokens;
    span->first += tokens;
    span->tokens -= tokens;
    return head;
}
