/*
 * A code point that is a starter and passes the quick check is a boundary: nothing before it can
 * change with it or after it. So text is copied as it is, except for the pieces that begin at the
 * last boundary before a suspicious code point and end at the next boundary.
 */
#include "op/text/forms.h"

#include "base/utf8.h"
#include "op/text/unicode_data.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS 4096u /* 940 compositions */

enum { S_BASE = 0xac00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11a7 };
enum { L_N = 19, V_N = 21, T_N = 28, S_N = L_N * V_N * T_N };

static uint32_t slot_of(uint32_t left, uint32_t right)
{
    return (left * 0x9e3779b1u ^ right * 0x85ebca6bu) >> 20;
}

void lk_forms_init(struct lk_forms *forms)
{
    forms->slots = lk_zalloc(SLOTS, sizeof *forms->slots);
    for (size_t i = 0; i < lk_compositions_n; i++) {
        uint32_t slot = slot_of(lk_compositions[i].left, lk_compositions[i].right);
        while (forms->slots[slot] != 0)
            slot = (slot + 1) % SLOTS;
        forms->slots[slot] = (uint16_t)(i + 1);
    }
    for (size_t i = 0; i < lk_ccc_ranges_n; i++)
        for (uint32_t c = lk_ccc_ranges[i].first; c <= lk_ccc_ranges[i].last; c++)
            forms->ccc[c >> 8] = 1;
}

void lk_forms_done(struct lk_forms *forms)
{
    free(forms->slots);
    forms->slots = NULL;
}

void lk_form_scratch_done(struct lk_form_scratch *scratch)
{
    free(scratch->points);
    *scratch = (struct lk_form_scratch){0};
}

static uint8_t ccc_of(const struct lk_forms *forms, uint32_t point)
{
    size_t low = 0, high = lk_ccc_ranges_n;

    if (forms->ccc[point >> 8] == 0)
        return 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (lk_ccc_ranges[middle].last < point)
            low = middle + 1;
        else
            high = middle;
    }
    return low < lk_ccc_ranges_n && lk_ccc_ranges[low].first <= point ? lk_ccc_ranges[low].value : 0;
}

/* The composition of two code points, or 0. */
static uint32_t compose(const struct lk_forms *forms, uint32_t left, uint32_t right)
{
    if (left - L_BASE < L_N && right - V_BASE < V_N)
        return S_BASE + ((left - L_BASE) * V_N + (right - V_BASE)) * T_N;
    if (left - S_BASE < S_N && (left - S_BASE) % T_N == 0 && right - T_BASE - 1 < T_N - 1)
        return left + (right - T_BASE);
    for (uint32_t slot = slot_of(left, right); forms->slots[slot] != 0; slot = (slot + 1) % SLOTS) {
        const struct lk_composition *c = &lk_compositions[forms->slots[slot] - 1];
        if (c->left == left && c->right == right)
            return c->composed;
    }
    return 0;
}

static size_t push(struct lk_form_scratch *scratch, size_t n, uint32_t point, uint8_t ccc)
{
    if (n == scratch->cap) {
        scratch->cap = scratch->cap == 0 ? 64 : scratch->cap * 2;
        scratch->points = lk_resize(scratch->points, scratch->cap, sizeof *scratch->points);
    }
    scratch->points[n] = (struct lk_point){.point = point, .ccc = ccc};
    return n + 1;
}

static const struct lk_decomposition *find(const struct lk_decompositions *table, uint32_t point)
{
    size_t low = 0, high = table->n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table->items[middle].point < point)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->n && table->items[low].point == point ? &table->items[low] : NULL;
}

/* Appends the full decomposition of @point to the @n points there; returns their number. */
static size_t decompose(const struct lk_forms *forms, bool compatible,
                        struct lk_form_scratch *scratch, size_t n, uint32_t point)
{
    const struct lk_decompositions *table = &lk_compatible;
    const struct lk_decomposition *parts = compatible ? find(table, point) : NULL;

    if (point - S_BASE < S_N) {
        uint32_t s = point - S_BASE, t = s % T_N;
        n = push(scratch, n, L_BASE + s / (V_N * T_N), 0);
        n = push(scratch, n, V_BASE + s / T_N % V_N, 0);
        return t == 0 ? n : push(scratch, n, T_BASE + t, 0);
    }
    if (parts == NULL) {
        table = &lk_canonical;
        parts = find(table, point);
    }
    if (parts == NULL)
        return push(scratch, n, point, ccc_of(forms, point));
    for (size_t i = 0; i < parts->n; i++) {
        uint32_t part = table->pool[parts->start + i];
        n = push(scratch, n, part, ccc_of(forms, part));
    }
    return n;
}

/* Stable sort of a run of marks by class: counting, as there are 256 classes and no limit on n. */
static void sort_marks(struct lk_point *points, size_t n)
{
    size_t counts[257] = {0};
    bool sorted = true;

    for (size_t i = 1; i < n; i++)
        sorted &= points[i - 1].ccc <= points[i].ccc;
    if (sorted)
        return;
    struct lk_point *copy = lk_zalloc(n, sizeof *copy);
    memcpy(copy, points, n * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        counts[copy[i].ccc + 1]++;
    for (size_t i = 1; i < 257; i++)
        counts[i] += counts[i - 1];
    for (size_t i = 0; i < n; i++)
        points[counts[copy[i].ccc]++] = copy[i];
    free(copy);
}

static void reorder(struct lk_point *points, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        if (points[i].ccc != 0) {
            while (end < n && points[end].ccc != 0)
                end++;
            sort_marks(points + i, end - i);
        }
        i = end;
    }
}

/* Composes in place; returns how many remain. */
static size_t recompose(const struct lk_forms *forms, struct lk_point *points, size_t n)
{
    size_t kept = 0, starter = SIZE_MAX;
    unsigned last = 0; /* class of the last kept point after the starter */

    for (size_t i = 0; i < n; i++) {
        struct lk_point p = points[i];
        bool adjacent = starter != SIZE_MAX && kept == starter + 1;
        if (starter != SIZE_MAX && (adjacent || last < p.ccc)) {
            uint32_t joined = compose(forms, points[starter].point, p.point);
            if (joined != 0) {
                points[starter].point = joined;
                continue;
            }
        }
        if (p.ccc == 0)
            starter = kept;
        last = p.ccc;
        points[kept++] = p;
    }
    return kept;
}

static void flag_ranges(uint8_t bit, uint8_t *flags, uint32_t first, uint32_t last)
{
    for (uint32_t c = first; c <= last; c++)
        flags[c] |= bit;
}

/* The "quick check" of Unicode Annex #15: marks, code points that the form replaces, and those that may
 * join the one before them (vowels and trailing consonants of Hangul among them). */
void lk_form_flag(enum lk_form form, uint8_t bit, uint8_t flags[0x110000])
{
    bool composes = (form & 1) == 0;

    for (size_t i = 0; i < lk_canonical.n; i++)
        flags[lk_canonical.items[i].point] |= bit;
    for (size_t i = 0; composes && i < lk_compositions_n; i++) /* these are composed again */
        flags[lk_compositions[i].composed] &= (uint8_t)~bit;
    for (size_t i = 0; (form & 2) != 0 && i < lk_compatible.n; i++)
        flags[lk_compatible.items[i].point] |= bit;
    for (size_t i = 0; i < lk_ccc_ranges_n; i++)
        flag_ranges(bit, flags, lk_ccc_ranges[i].first, lk_ccc_ranges[i].last);
    if (!composes) {
        flag_ranges(bit, flags, S_BASE, S_BASE + S_N - 1);
        return;
    }
    for (size_t i = 0; i < lk_compositions_n; i++)
        flags[lk_compositions[i].right] |= bit;
    flag_ranges(bit, flags, V_BASE, V_BASE + V_N - 1);
    flag_ranges(bit, flags, T_BASE + 1, T_BASE + T_N - 1);
}

static void append_piece(const struct lk_forms *forms, enum lk_form form,
                         struct lk_form_scratch *scratch, const uint8_t *text, const uint8_t *end,
                         struct lk_buf *out)
{
    size_t n = 0, length;

    for (; text < end; text += length)
        n = decompose(forms, (form & 2) != 0, scratch, n, lk_decode(text, end, &length));
    reorder(scratch->points, n);
    if ((form & 1) == 0)
        n = recompose(forms, scratch->points, n);
    for (size_t i = 0; i < n; i++)
        out->len += lk_utf8_put(scratch->points[i].point, lk_buf_room(out, 4));
}

void lk_form_append(const struct lk_forms *forms, enum lk_form form, const struct lk_unicode *flags,
                    uint8_t bit, struct lk_form_scratch *scratch, const uint8_t *text, size_t n,
                    struct lk_buf *out)
{
    const uint8_t *end = text + n, *copied = text, *boundary = text, *p = text;
    size_t length;

    while (p < end) {
        if ((lk_flags_at(flags, p, end, &length) & bit) == 0) {
            boundary = p;
            p += length;
            continue;
        }
        lk_buf_put(out, copied, (size_t)(boundary - copied));
        while (p < end && (lk_flags_at(flags, p, end, &length) & bit) != 0)
            p += length;
        append_piece(forms, form, scratch, boundary, p, out);
        copied = boundary = p;
    }
    lk_buf_put(out, copied, (size_t)(end - copied));
}
