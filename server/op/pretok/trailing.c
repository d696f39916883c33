#include "op/pretok/trailing.h"

#include "base/mem.h"

#include <stdlib.h>

struct trailing {
    lk_cut_fn *inner;
};

static bool all_spaces(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end)
{
    size_t n;

    for (; p < end; p += n)
        if ((lk_flags_at(cutter->unicode, p, end, &n) & LK_CLASS_MASK) != LK_CLASS_SPACE)
            return false;
    return true;
}

static bool is_line_end(uint8_t c)
{
    return c == '\n' || c == '\r';
}

/* White space that ends the text is one piece already, or two of which the first ends with a line end:
 * then they are joined, although the second may not have been asked for yet. */
static size_t cut_trailing(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                           const uint8_t *ret_stops[LK_PIECES_MAX])
{
    const struct trailing *trailing = cutter->data;
    size_t n = trailing->inner(cutter, p, end, ret_stops), first = n - 1;

    if (ret_stops[n - 1] == end) {
        if (n == 1)
            return n;
        first = n - 2;
    }
    const uint8_t *start = first == 0 ? p : ret_stops[first - 1], *middle = ret_stops[first];
    if (is_line_end(middle[-1]) && all_spaces(cutter, start, middle) &&
        all_spaces(cutter, middle, end)) {
        ret_stops[first] = end;
        n = first + 1;
    }
    return n;
}

void lk_cutter_trailing(lk_cut_fn *inner, const struct lk_unicode *unicode, struct lk_cutter *ret_cutter)
{
    struct trailing *trailing = lk_alloc(sizeof *trailing);

    trailing->inner = inner;
    *ret_cutter = (struct lk_cutter){
        .cut = cut_trailing, .unicode = unicode, .data = trailing, .data_done = free};
}
