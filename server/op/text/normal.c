/*
 * Most text needs nothing done to it, and most of it is ASCII: a table says of every code point which
 * steps may change it, so that one look at the text tells.
 */
#include "op/text/normal.h"

#include "base/bytes.h"
#include "base/utf8.h"
#include "op/text/unicode_data.h"

#include <stdlib.h>
#include <string.h>

static uint8_t bit_of(enum lk_normal_kind kind)
{
    return kind < LK_NORMAL_STRIP_LEFT ? (uint8_t)(1u << kind) : 0;
}

void lk_normal_done(struct lk_normal *normal)
{
    for (uint32_t i = 0; i < normal->n; i++) {
        free(normal->steps[i].from);
        free(normal->steps[i].to);
    }
    lk_forms_done(&normal->forms);
    lk_unicode_done(&normal->flags);
    *normal = (struct lk_normal){0};
}

bool lk_normal_add(struct lk_normal *normal, struct lk_normal_step step)
{
    if (normal->n == LK_NORMAL_STEPS) {
        free(step.from);
        free(step.to);
        return false;
    }
    normal->steps[normal->n++] = step;
    return true;
}

static void flag_lower(uint8_t bit, uint8_t *flags)
{
    flags[0x130] |= bit;
    for (size_t i = 0; i < lk_case_ranges_n; i++) {
        const struct lk_case_range *range = &lk_case_ranges[i];
        for (uint32_t c = range->first; c <= range->last; c += range->step)
            flags[c] |= bit;
    }
}

static void flag_accents(uint8_t bit, uint8_t *flags)
{
    for (size_t i = 0; i < lk_accent_ranges_n; i++)
        for (uint32_t c = lk_accent_ranges[i].first; c <= lk_accent_ranges[i].last; c++)
            flags[c] |= bit;
}

void lk_normal_build(struct lk_normal *normal, const struct lk_unicode *unicode)
{
    uint8_t used = 0, *flags;

    normal->unicode = unicode;
    for (uint32_t i = 0; i < normal->n; i++)
        used |= bit_of(normal->steps[i].kind);
    if (used == 0)
        return;
    flags = lk_zalloc(0x110000, 1);
    for (enum lk_normal_kind kind = 0; kind < LK_NORMAL_STRIP_LEFT; kind++) {
        uint8_t bit = bit_of(kind);
        if ((used & bit) == 0)
            continue;
        if (kind == LK_NORMAL_LOWERCASE)
            flag_lower(bit, flags);
        else if (kind == LK_NORMAL_STRIP_ACCENTS)
            flag_accents(bit, flags);
        else
            lk_form_flag((enum lk_form)kind, bit, flags);
    }
    for (unsigned c = 0; c < 128; c++)
        normal->ascii |= flags[c] != 0;
    lk_forms_init(&normal->forms);
    lk_unicode_pack(&normal->flags, flags);
}

static bool is_one_character(const uint8_t *text, size_t n)
{
    size_t length;

    (void)lk_decode(text, text + n, &length);
    return length == n;
}

bool lk_normal_moves_start(const struct lk_normal *normal)
{
    for (uint32_t i = 0; i < normal->n; i++) {
        const struct lk_normal_step *step = &normal->steps[i];
        if (step->kind == LK_NORMAL_STRIP_LEFT || step->kind == LK_NORMAL_STRIP_ACCENTS ||
            (step->kind == LK_NORMAL_REPLACE &&
             (step->to_n == 0 || !is_one_character(step->from, step->from_n))))
            return true;
    }
    return false;
}

void lk_normal_scratch_done(struct lk_normal_scratch *scratch)
{
    lk_buf_done(&scratch->bufs[0]);
    lk_buf_done(&scratch->bufs[1]);
    lk_form_scratch_done(&scratch->points);
}

void lk_normal_scratch_trim(struct lk_normal_scratch *scratch, size_t kept)
{
    for (unsigned i = 0; i < 2; i++)
        if (scratch->bufs[i].cap > kept)
            lk_buf_done(&scratch->bufs[i]);
    if (scratch->points.cap > kept / sizeof(struct lk_point))
        lk_form_scratch_done(&scratch->points);
}

/* ---- does a step change anything? ---- */

/* Where the first byte above ASCII is, in steps of 32 bytes: not beyond it, perhaps before it. */
static const uint8_t *skip_ascii(const uint8_t *p, const uint8_t *end)
{
    const uint64_t high = UINT64_C(0x8080808080808080);

    while (end - p >= 32 && ((lk_get_u64(p) | lk_get_u64(p + 8) | lk_get_u64(p + 16) |
                              lk_get_u64(p + 24)) & high) == 0)
        p += 32;
    return p;
}

/* The first character with one of @bits; @end: there is none. */
static const uint8_t *find_flag(const struct lk_normal *normal, uint8_t bits, const uint8_t *p,
                                const uint8_t *end)
{
    size_t n;

    while (p < end) {
        if (*p < 0x80 && !normal->ascii) {
            p = skip_ascii(p, end);
            while (p < end && *p < 0x80)
                p++;
            continue;
        }
        if (lk_flags_at(&normal->flags, p, end, &n) & bits)
            return p;
        p += n;
    }
    return end;
}

static bool space_at(const struct lk_normal *normal, const uint8_t *p, const uint8_t *end,
                     size_t *ret_n)
{
    return (lk_flags_at(normal->unicode, p, end, ret_n) & LK_CLASS_MASK) == LK_CLASS_SPACE;
}

/* Start of the character that ends at @end > @p. */
static const uint8_t *last_of(const uint8_t *p, const uint8_t *end)
{
    do
        end--;
    while (end > p && (*end & 0xc0) == 0x80);
    return end;
}

bool lk_normal_quick(const struct lk_normal *normal, const uint8_t *text, size_t n)
{
    const uint8_t *end = text + n;
    size_t length;

    if (n == 0)
        return true;
    for (uint32_t i = 0; i < normal->n; i++) {
        const struct lk_normal_step *step = &normal->steps[i];
        if (step->kind == LK_NORMAL_PREPEND ||
            (step->kind == LK_NORMAL_STRIP_LEFT && space_at(normal, text, end, &length)) ||
            (step->kind == LK_NORMAL_STRIP_RIGHT &&
             space_at(normal, last_of(text, end), end, &length)) ||
            (step->kind == LK_NORMAL_REPLACE && memmem(text, n, step->from, step->from_n) != NULL))
            return false;
    }
    return normal->flags.pages == NULL || find_flag(normal, 0xff, text, end) == end;
}

/* ---- the steps ---- */

static void lower(const struct lk_normal *normal, const uint8_t *p, const uint8_t *end,
                  struct lk_buf *out)
{
    while (p < end) {
        const uint8_t *next = find_flag(normal, bit_of(LK_NORMAL_LOWERCASE), p, end);
        size_t length, low = 0, high = lk_case_ranges_n;
        lk_buf_put(out, p, (size_t)(next - p));
        if (next == end)
            return;
        uint32_t point = lk_decode(next, end, &length);
        p = next + length;
        if (point == 0x130) { /* the only one that becomes two */
            lk_buf_puts(out, "i\xcc\x87");
            continue;
        }
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (lk_case_ranges[middle].last < point)
                low = middle + 1;
            else
                high = middle;
        }
        point += (uint32_t)lk_case_ranges[low].distance;
        out->len += lk_utf8_put(point, lk_buf_room(out, 4));
    }
}

static void strip_accents(const struct lk_normal *normal, const uint8_t *p, const uint8_t *end,
                          struct lk_buf *out)
{
    while (p < end) {
        const uint8_t *next = find_flag(normal, bit_of(LK_NORMAL_STRIP_ACCENTS), p, end);
        size_t length = 0;
        lk_buf_put(out, p, (size_t)(next - p));
        if (next < end)
            (void)lk_decode(next, end, &length);
        p = next + length;
    }
}

static void replace(const struct lk_normal_step *step, const uint8_t *p, const uint8_t *end,
                    struct lk_buf *out)
{
    while (p < end) {
        const uint8_t *hit = memmem(p, (size_t)(end - p), step->from, step->from_n);
        lk_buf_put(out, p, (size_t)((hit == NULL ? end : hit) - p));
        if (hit == NULL)
            return;
        lk_buf_put(out, step->to, step->to_n);
        p = hit + step->from_n;
    }
}

static void apply_step(const struct lk_normal *normal, const struct lk_normal_step *step,
                       struct lk_form_scratch *points, const uint8_t *p, const uint8_t *end,
                       struct lk_buf *out)
{
    size_t n;

    out->len = 0;
    switch (step->kind) {
    case LK_NORMAL_LOWERCASE:
        lower(normal, p, end, out);
        return;
    case LK_NORMAL_STRIP_ACCENTS:
        strip_accents(normal, p, end, out);
        return;
    case LK_NORMAL_STRIP_LEFT:
        while (p < end && space_at(normal, p, end, &n))
            p += n;
        lk_buf_put(out, p, (size_t)(end - p));
        return;
    case LK_NORMAL_STRIP_RIGHT:
        while (p < end && space_at(normal, last_of(p, end), end, &n))
            end = last_of(p, end);
        lk_buf_put(out, p, (size_t)(end - p));
        return;
    case LK_NORMAL_PREPEND:
        if (p < end)
            lk_buf_put(out, step->to, step->to_n);
        lk_buf_put(out, p, (size_t)(end - p));
        return;
    case LK_NORMAL_REPLACE:
        replace(step, p, end, out);
        return;
    default:
        lk_form_append(&normal->forms, (enum lk_form)step->kind, &normal->flags, bit_of(step->kind),
                       points, p, (size_t)(end - p), out);
    }
}

void lk_normal_apply(const struct lk_normal *normal, struct lk_normal_scratch *scratch,
                     const uint8_t *text, size_t n, const uint8_t **ret_text, size_t *ret_n)
{
    static const uint8_t empty[1];

    *ret_text = text;
    *ret_n = n;
    if (lk_normal_quick(normal, text, n))
        return;
    for (uint32_t i = 0; i < normal->n; i++) {
        const struct lk_normal_step *step = &normal->steps[i];
        struct lk_buf *out = &scratch->bufs[i % 2];
        uint8_t bit = bit_of(step->kind);
        if (bit != 0 && find_flag(normal, bit, *ret_text, *ret_text + *ret_n) == *ret_text + *ret_n)
            continue;
        if (*ret_text == out->data)
            out = &scratch->bufs[(i + 1) % 2];
        apply_step(normal, step, &scratch->points, *ret_text, *ret_text + *ret_n, out);
        *ret_text = out->len == 0 ? empty : out->data;
        *ret_n = out->len;
    }
}
