#include "op/pretok/joins.h"

#include "base/bytes.h"

#include <stdlib.h>

#define BITS 20 /* of the set of pairs: 128 KiB */
#define STEP 8u

struct lk_joins {
    uint32_t space_is;
    bool keep_unknown;
    bool known[128];
    uint64_t ascii[128][2];            /* [left][right / 64]: a bit a pair; ' ' is what it stands for */
    uint64_t others[(1u << BITS) / 64]; /* of pairs that are not both ASCII, by hash: a false one only
                                           means a cut less */
};

struct lk_joins *lk_joins_new(uint32_t space_is)
{
    struct lk_joins *joins = lk_zalloc(1, sizeof *joins);
    joins->space_is = space_is;
    return joins;
}

void lk_joins_free(struct lk_joins *joins)
{
    free(joins);
}

static inline uint32_t slot_of(uint32_t left, uint32_t right)
{
    return (uint32_t)(((uint64_t)left << 21 | right) * 0x9e3779b97f4a7c15u >> (64 - BITS));
}

static inline bool ascii_joined(const struct lk_joins *joins, uint32_t left, uint32_t right)
{
    return joins->ascii[left][right >> 6] >> (right & 63) & 1;
}

static inline bool joined(const struct lk_joins *joins, uint32_t left, uint32_t right)
{
    if (left < 0x80 && right < 0x80)
        return ascii_joined(joins, left, right);
    if (joins->keep_unknown && !(left < 0x80 && joins->known[left]) &&
        !(right < 0x80 && joins->known[right]))
        return true;
    uint32_t slot = slot_of(left, right);
    return joins->others[slot >> 6] >> (slot & 63) & 1;
}

static void set(struct lk_joins *joins, uint32_t left, uint32_t right)
{
    if (left < 0x80 && right < 0x80) {
        joins->ascii[left][right >> 6] |= UINT64_C(1) << (right & 63);
        return;
    }
    uint32_t slot = slot_of(left, right);
    joins->others[slot >> 6] |= UINT64_C(1) << (slot & 63);
}

/* Where a space stands for another character, the text may have either. */
void lk_joins_add(struct lk_joins *joins, uint32_t left, uint32_t right)
{
    bool left_space = left == joins->space_is, right_space = right == joins->space_is;

    set(joins, left, right);
    if (left_space)
        set(joins, ' ', right);
    if (right_space)
        set(joins, left, ' ');
    if (left_space && right_space)
        set(joins, ' ', ' ');
}

void lk_joins_keep_unknown(struct lk_joins *joins, const bool known[128])
{
    joins->keep_unknown = true;
    memcpy(joins->known, known, sizeof joins->known);
    for (uint32_t left = 0; left < 128; left++)
        for (uint32_t right = 0; right < 128; right++)
            if (!known[left] && !known[right])
                set(joins, left, right);
}

/* The eight ASCII characters at @p, after @left; returns how many ends there are now. */
static inline size_t cut_ascii(const struct lk_joins *joins, uint32_t left, const uint8_t *p,
                               const uint8_t **ret_stops, size_t n)
{
    for (unsigned i = 0; i < STEP; i++) { /* no branches: where words end is hard to foretell */
        uint32_t right = p[i];
        ret_stops[n] = p + i;
        n += !ascii_joined(joins, left, right);
        left = right;
    }
    return n;
}

static size_t cut_joins(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                        const uint8_t *ret_stops[LK_PIECES_MAX])
{
    const struct lk_joins *joins = cutter->data;
    size_t n = 0, bytes;
    uint32_t left = lk_decode(p, end, &bytes);

    for (p += bytes; p < end && n + STEP < LK_PIECES_MAX;) {
        if (left < 0x80 && end - p >= STEP && (lk_get_u64(p) & 0x8080808080808080u) == 0) {
            n = cut_ascii(joins, left, p, ret_stops, n);
            left = p[STEP - 1];
            p += STEP;
            continue;
        }
        uint32_t right = lk_decode(p, end, &bytes);
        if (!joined(joins, left, right))
            ret_stops[n++] = p;
        left = right;
        p += bytes;
    }
    if (p >= end)
        ret_stops[n++] = end;
    return n;
}

static bool is_mark(const uint8_t *p, const uint8_t *end)
{
    return *p == ' ' || (*p == 0xe2 && end - p >= 3 && p[1] == 0x96 && p[2] == 0x81);
}

static size_t cut_marks(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                        const uint8_t *ret_stops[LK_PIECES_MAX])
{
    size_t n = 0;

    (void)cutter;
    while (p < end && n < LK_PIECES_MAX) {
        do
            p++;
        while (p < end && !is_mark(p, end));
        ret_stops[n++] = p;
    }
    return n;
}

void lk_cutter_marks(struct lk_cutter *ret_cutter)
{
    *ret_cutter = (struct lk_cutter){.cut = cut_marks};
}

static void done(void *data)
{
    lk_joins_free(data);
}

void lk_cutter_joins(struct lk_joins *joins, struct lk_cutter *ret_cutter)
{
    *ret_cutter = (struct lk_cutter){.cut = cut_joins, .data = joins, .data_done = done};
}
