#include "op/pretok/regex_tree.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void lk_set_done(struct lk_set *set)
{
    free(set->ranges);
    *set = (struct lk_set){0};
}

void lk_set_add(struct lk_set *set, uint32_t first, uint32_t last)
{
    if (set->n == set->cap) {
        set->cap = set->cap == 0 ? 16 : set->cap * 2;
        set->ranges = lk_resize(set->ranges, set->cap, sizeof *set->ranges);
    }
    set->ranges[set->n++] = (struct lk_range){.first = first, .last = last};
}

void lk_set_add_set(struct lk_set *set, const struct lk_set *other)
{
    for (size_t i = 0; i < other->n; i++)
        lk_set_add(set, other->ranges[i].first, other->ranges[i].last);
}

static int compare(const void *a, const void *b)
{
    const struct lk_range *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

void lk_set_settle(struct lk_set *set)
{
    size_t n = 0;

    if (set->n == 0)
        return;
    qsort(set->ranges, set->n, sizeof *set->ranges, compare);
    for (size_t i = 1; i < set->n; i++) {
        struct lk_range range = set->ranges[i];
        if (range.first > set->ranges[n].last + 1)
            set->ranges[++n] = range;
        else if (range.last > set->ranges[n].last)
            set->ranges[n].last = range.last;
    }
    set->n = n + 1;
}

void lk_set_invert(struct lk_set *set)
{
    struct lk_set other = {0};
    uint32_t at = 0;

    lk_set_settle(set);
    for (size_t i = 0; i < set->n; i++) {
        if (set->ranges[i].first > at)
            lk_set_add(&other, at, set->ranges[i].first - 1);
        at = set->ranges[i].last + 1;
    }
    if (at < 0x110000)
        lk_set_add(&other, at, 0x10ffff);
    lk_set_done(set);
    *set = other;
}

void lk_set_intersect(struct lk_set *set, const struct lk_set *other)
{
    struct lk_set rest = {0};

    lk_set_add_set(&rest, other);
    lk_set_invert(&rest);
    lk_set_invert(set);
    lk_set_add_set(set, &rest);
    lk_set_invert(set);
    lk_set_done(&rest);
}

bool lk_set_equal(const struct lk_set *a, const struct lk_set *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->ranges, b->ranges, a->n * sizeof *a->ranges) == 0);
}

/* ---- properties ---- */

#define C(name) (1u << LK_CATEGORY_##name)
#define LETTERS (C(LU) | C(LL) | C(LT) | C(LM) | C(LO))
#define MARKS (C(MN) | C(MC) | C(ME))
#define NUMBERS (C(ND) | C(NL) | C(NO))
#define PUNCTUATION (C(PC) | C(PD) | C(PS) | C(PE) | C(PI) | C(PF) | C(PO))
#define SYMBOLS (C(SM) | C(SC) | C(SK) | C(SO))
#define SEPARATORS (C(ZS) | C(ZL) | C(ZP))

static const struct {
    const char *names[2]; /* in lower case */
    uint32_t categories;
} known[] = {
    {{"l", "letter"}, LETTERS},
    {{"lu", "uppercaseletter"}, C(LU)},
    {{"ll", "lowercaseletter"}, C(LL)},
    {{"lt", "titlecaseletter"}, C(LT)},
    {{"lm", "modifierletter"}, C(LM)},
    {{"lo", "otherletter"}, C(LO)},
    {{"m", "mark"}, MARKS},
    {{"mn", "nonspacingmark"}, C(MN)},
    {{"mc", "spacingmark"}, C(MC)},
    {{"me", "enclosingmark"}, C(ME)},
    {{"n", "number"}, NUMBERS},
    {{"nd", "decimalnumber"}, C(ND)},
    {{"nl", "letternumber"}, C(NL)},
    {{"no", "othernumber"}, C(NO)},
    {{"p", "punctuation"}, PUNCTUATION},
    {{"pc", "connectorpunctuation"}, C(PC)},
    {{"pd", "dashpunctuation"}, C(PD)},
    {{"ps", "openpunctuation"}, C(PS)},
    {{"pe", "closepunctuation"}, C(PE)},
    {{"pi", "initialpunctuation"}, C(PI)},
    {{"pf", "finalpunctuation"}, C(PF)},
    {{"po", "otherpunctuation"}, C(PO)},
    {{"s", "symbol"}, SYMBOLS},
    {{"sm", "mathsymbol"}, C(SM)},
    {{"sc", "currencysymbol"}, C(SC)},
    {{"sk", "modifiersymbol"}, C(SK)},
    {{"so", "othersymbol"}, C(SO)},
    {{"z", "separator"}, SEPARATORS},
    {{"zs", "spaceseparator"}, C(ZS)},
    {{"zl", "lineseparator"}, C(ZL)},
    {{"zp", "paragraphseparator"}, C(ZP)},
};

static void add_categories(struct lk_set *set, uint32_t categories)
{
    for (size_t i = 0; i < lk_category_ranges_n; i++)
        if (categories >> (lk_category_ranges[i].value & LK_CATEGORY_MASK) & 1)
            lk_set_add(set, lk_category_ranges[i].first, lk_category_ranges[i].last);
}

static bool same_name(const char *name, const uint8_t *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '_' || text[i] == '-' || text[i] == ' ')
            continue;
        uint8_t lower = text[i] >= 'A' && text[i] <= 'Z' ? text[i] | 0x20 : text[i];
        uint8_t want = *name >= 'A' && *name <= 'Z' ? (uint8_t)(*name | 0x20) : (uint8_t)*name;
        if (want == '\0' || lower != want) /* the expression may contain NUL, too */
            return false;
        name++;
    }
    return *name == '\0';
}

static bool add_script(struct lk_set *set, const uint8_t *name, size_t n)
{
    for (size_t i = 1; i < lk_properties_n; i++) /* [0] is "word" */
        if (same_name(lk_properties[i].name, name, n)) {
            for (size_t k = 0; k < lk_properties[i].n; k++)
                lk_set_add(set, lk_properties[i].ranges[k].first, lk_properties[i].ranges[k].last);
            return true;
        }
    return false;
}

bool lk_set_add_property(struct lk_set *set, const uint8_t *name, size_t n)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (same_name(known[i].names[0], name, n) || same_name(known[i].names[1], name, n)) {
            add_categories(set, known[i].categories);
            return true;
        }
    return add_script(set, name, n);
}

void lk_set_add_word(struct lk_set *set)
{
    add_categories(set, LETTERS | MARKS | C(ND) | C(NL) | C(PC));
    for (size_t i = 0; i < lk_properties[0].n; i++)
        lk_set_add(set, lk_properties[0].ranges[i].first, lk_properties[0].ranges[i].last);
}
