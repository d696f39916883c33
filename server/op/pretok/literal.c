/*
 * Split at a text. It is looked for as bytes: in UTF-8 it can only be found where a character begins.
 */
#include "op/pretok/split.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct literal {
    enum lk_split how;
    size_t n;
    uint8_t text[];
};

static bool find_literal(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                         struct lk_match *ret_match)
{
    const struct literal *literal = cutter->data;
    const uint8_t *hit = memmem(p, (size_t)(end - p), literal->text, literal->n);

    if (hit != NULL)
        *ret_match = (struct lk_match){.start = hit, .stop = hit + literal->n};
    return hit != NULL;
}

static size_t cut_literal(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                          const uint8_t *ret_stops[LK_PIECES_MAX])
{
    const struct literal *literal = cutter->data;
    return lk_split_cut(cutter, find_literal, literal->how, p, end, ret_stops);
}

void lk_cutter_literal(const uint8_t *text, size_t n, enum lk_split how,
                       struct lk_cutter *ret_cutter)
{
    struct literal *literal = lk_alloc(sizeof *literal + n);

    literal->how = how;
    literal->n = n;
    memcpy(literal->text, text, n);
    *ret_cutter = (struct lk_cutter){.cut = cut_literal, .data = literal, .data_done = free};
}
