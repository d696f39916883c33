/*
 * Assembling: the sequences of lanes → rows of batches. Tokens come from the arena; what is not there
 * is fetched and copied in when it comes. A row is ready when nothing of it is missing.
 */
#include "host/cursor_private.h"

#include <stdlib.h>
#include <string.h>

#define ASKED_AT_ONCE 8 /* pieces; the processor waits for no more at a time */

static void row_complete(struct cursor *c, struct held *held, uint32_t row)
{
    const struct lk_recipe *recipe = c->recipe;
    const struct slots *slots = c->context->slots;
    struct lk_batch_row *out = slots_row(slots, held->slot, row);
    const struct lk_batch_part *part = slots_parts(slots, held->slot) + out->first_part;
    struct lk_span small[64], *span = small;

    if (out->n_parts > 64)
        span = lk_alloc(out->n_parts * sizeof *span);
    for (uint32_t i = 0; i < out->n_parts; i++)
        span[i].tokens = part[i].tokens;
    struct lk_digest digest = value_placed(
        value_sequence(slots_tokens(slots, held->slot, row), recipe->sequence, span, out->n_parts),
        held->step, row);
    if (span != small)
        free(span);
    out->digest_lo = digest.lo;
    out->digest_hi = digest.hi;
    held->row[row] = 0;
    held->ready++;
    c->rows_made++;
}

static void add_missing(struct cursor *c, struct piece piece)
{
    if (c->n_missing == c->cap_missing) {
        c->cap_missing = c->cap_missing == 0 ? 64 : 2 * c->cap_missing;
        c->missing = lk_resize(c->missing, c->cap_missing, sizeof *c->missing);
    }
    c->missing[c->n_missing++] = piece;
}

static void pad(const struct cursor *c, uint32_t *tokens, uint32_t used)
{
    for (uint32_t i = used; i < c->recipe->sequence; i++)
        tokens[i] = c->recipe->pad_id;
}

/* The pieces of documents, as the trainer sees them. */
static void put_parts(struct cursor *c, struct held *held, uint32_t row, const struct lk_item *item)
{
    const struct slots *slots = c->context->slots;
    struct lk_batch_head *head = slots_head(slots, held->slot);
    struct lk_batch_row *out = slots_row(slots, held->slot, row);
    struct lk_batch_part *part = slots_parts(slots, held->slot) + head->n_parts;
    for (uint32_t i = 0; i < item->n; i++)
        part[i] = (struct lk_batch_part){.row = item->span[i].row,
                                         .dataset = item->span[i].dataset,
                                         .epoch = item->span[i].epoch,
                                         .first = item->span[i].first,
                                         .tokens = item->span[i].tokens};
    out->first_part = (uint32_t)head->n_parts;
    out->n_parts = item->n;
    out->used = item->tokens;
    head->n_parts += item->n;
}

static struct arena_key key_of(const struct cursor *c, const struct lk_span *span)
{
    return (struct arena_key){
        .stream = c->context->stream->number, .dataset = span->dataset, .row = span->row};
}

/* A row that has another number of tokens than was counted is fetched, to be sure, and named then. */
static bool take(struct cursor *c, const struct lk_span *span, uint32_t of, uint32_t *to)
{
    struct arena_key key = key_of(c, span);
    return (of == 0 || arena_has(c->context->arena, key) == of) &&
           arena_take(c->context->arena, key, span->first, span->tokens, to);
}

/* A lane that did not begin at the beginning holds rows that somebody may only have counted, as it was
 * then: they must have as many tokens, too. */
static uint32_t kept_count(struct cursor *c, const struct lk_span *span, const struct cursor_lane *lane)
{
    struct lk_count count;
    if (lane->began == 0 || c->context->counts == NULL ||
        !counts_get(c->context->counts[span->dataset], &span->row, 1, &count))
        return 0;
    return count.tokens;
}

void assemble_row(struct cursor *c, struct held *held, uint32_t row, const struct lk_item *item,
                  struct cursor_lane *lane)
{
    uint32_t *tokens = slots_tokens(c->context->slots, held->slot, row);
    uint32_t at = 0, missing = 0;

    LK_CHECK(held->row[row] == ROW_OPEN && item->tokens <= c->recipe->sequence);
    for (uint32_t i = 0; i < item->n && i < ASKED_AT_ONCE; i++)
        arena_ask(c->context->arena, key_of(c, &item->span[i]), item->span[i].first);
    put_parts(c, held, row, item);
    for (uint32_t i = 0; i < item->n; i++) {
        const struct lk_span *span = &item->span[i];
        uint32_t of = counted_use(&lane->counted, span);
        if (!take(c, span, of, tokens + at)) {
            add_missing(c, (struct piece){.dataset = span->dataset,
                                          .row = span->row,
                                          .first = span->first,
                                          .tokens = span->tokens,
                                          .of = of != 0 ? of : kept_count(c, span, lane),
                                          .step = held->step,
                                          .batch_row = row,
                                          .at = at});
            missing++;
        }
        at += span->tokens;
    }
    pad(c, tokens, at);
    held->row[row] = missing;
    held->open--;
    if (missing == 0)
        row_complete(c, held, row);
}

void assemble_padding(struct cursor *c, struct held *held, uint32_t row)
{
    struct lk_item nothing = {0};
    LK_CHECK(held->row[row] == ROW_OPEN);
    put_parts(c, held, row, &nothing);
    pad(c, slots_tokens(c->context->slots, held->slot, row), 0);
    held->open--;
    row_complete(c, held, row);
}

void assemble_piece(struct cursor *c, const struct piece *piece, const uint32_t *ids)
{
    struct held *held = cursor_held(c, piece->step);
    if (held == NULL)
        return; /* the step has left the window */
    LK_CHECK(held->row[piece->batch_row] != ROW_OPEN && held->row[piece->batch_row] > 0);
    memcpy(slots_tokens(c->context->slots, held->slot, piece->batch_row) + piece->at,
           ids + piece->first, 4 * (size_t)piece->tokens);
    if (--held->row[piece->batch_row] == 0)
        row_complete(c, held, piece->batch_row);
}
