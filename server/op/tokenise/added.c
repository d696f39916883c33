#include "op/tokenise/added.h"

#include <stdlib.h>
#include <string.h>

void lk_added_done(struct lk_added *added)
{
    for (size_t i = 0; i < added->n; i++) {
        free(added->tokens[i].text);
        free(added->tokens[i].pattern);
    }
    free(added->tokens);
    free(added->raw.sorted);
    free(added->normal.sorted);
    free(added->raw.pairs);
    free(added->normal.pairs);
    lk_names_done(&added->texts);
    lk_names_done(&added->patterns[0]);
    lk_names_done(&added->patterns[1]);
    *added = (struct lk_added){0};
}

void lk_added_push(struct lk_added *added, struct lk_added_token token)
{
    (void)lk_names_add(&added->texts, token.text, token.n, (uint32_t)added->n);
    (void)lk_names_add(&added->patterns[token.normalized], token.pattern, token.pattern_n,
                       (uint32_t)added->n);
    if (token.id >= added->end_id)
        added->end_id = token.id + 1;
    if ((added->n & (added->n - 1)) == 0) /* a power of two: full */
        added->tokens = lk_resize(added->tokens, added->n == 0 ? 1 : added->n * 2,
                                  sizeof *added->tokens);
    added->tokens[added->n++] = token;
}

static int compare(const void *a, const void *b)
{
    const struct lk_added_token *x = *(const struct lk_added_token *const *)a;
    const struct lk_added_token *y = *(const struct lk_added_token *const *)b;
    size_t n = x->pattern_n < y->pattern_n ? x->pattern_n : y->pattern_n;
    int order = memcmp(x->pattern, y->pattern, n);

    if (order != 0)
        return order;
    return (x->pattern_n > y->pattern_n) - (x->pattern_n < y->pattern_n);
}

/* Where each first byte begins among the sorted, and which bytes follow it. */
static void index_beginnings(struct lk_added_set *set)
{
    size_t at = 0;

    set->pairs = lk_zalloc(65536 / 64, sizeof *set->pairs);
    for (unsigned byte = 0; byte < 256; byte++) {
        set->from[byte] = (uint32_t)at;
        for (; at < set->n && set->sorted[at]->pattern[0] == byte; at++) {
            const struct lk_added_token *token = set->sorted[at];
            uint64_t *row = set->pairs + (size_t)byte * 4;
            if (token->pattern_n == 1)
                memset(row, 0xff, 4 * sizeof *row);
            else
                row[token->pattern[1] >> 6] |= UINT64_C(1) << (token->pattern[1] & 63);
        }
        set->first[byte] = at > set->from[byte];
        if (at - set->from[byte] == set->n)
            set->only_first = (int)byte;
    }
    set->from[256] = (uint32_t)at;
}

static void collect(struct lk_added *added, struct lk_added_set *set, bool normalized)
{
    set->only_first = -1;
    set->sorted = lk_zalloc(added->n + 1, sizeof *set->sorted); /* NOLINT(bugprone-sizeof-expression): pointers */
    for (size_t i = 0; i < added->n; i++) {
        const struct lk_added_token *token = &added->tokens[i];
        if (token->normalized == normalized && token->pattern_n > 0)
            set->sorted[set->n++] = token;
    }
    qsort(set->sorted, set->n, sizeof *set->sorted, compare); /* NOLINT(bugprone-sizeof-expression): pointers */
    if (set->n > 0)
        index_beginnings(set);
}

void lk_added_sort(struct lk_added *added)
{
    collect(added, &added->raw, false);
    collect(added, &added->normal, true);
}

const struct lk_added_token *lk_added_find(const struct lk_added *added, const void *text, size_t n)
{
    uint32_t number = lk_names_find(&added->texts, text, n);
    return number != LK_NO_ID ? &added->tokens[number] : NULL;
}

bool lk_added_has_pattern(const struct lk_added *added, bool normalized, const void *pattern, size_t n)
{
    return lk_names_find(&added->patterns[normalized], pattern, n) != LK_NO_ID;
}

/* The first index in [low, high) whose pattern has a byte >= @byte at @at; patterns there agree in
 * what comes before, and one that ends at @at (there is at most one, the first) counts as smaller. */
static size_t lower(const struct lk_added_set *set, size_t low, size_t high, size_t at,
                    unsigned byte)
{
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct lk_added_token *token = set->sorted[middle];
        if (token->pattern_n <= at || token->pattern[at] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest pattern that the text at @p begins with, or NULL; some pattern begins with its first byte. */
static const struct lk_added_token *longest(const struct lk_added_set *set, const uint8_t *p,
                                            const uint8_t *end)
{
    size_t low = set->from[*p], high = set->from[*p + 1];
    const struct lk_added_token *found = set->sorted[low]->pattern_n == 1 ? set->sorted[low] : NULL;

    for (size_t at = 1; p + at < end; at++) {
        if (high - low == 1) { /* one is left, and a comparison is far quicker than a search for each byte */
            const struct lk_added_token *last = set->sorted[low];
            bool same = last->pattern_n <= (size_t)(end - p) && last->pattern_n > at &&
                        memcmp(last->pattern + at, p + at, last->pattern_n - at) == 0;
            return same ? last : found;
        }
        low = lower(set, low, high, at, p[at]);
        high = lower(set, low, high, at, p[at] + 1u);
        if (low == high)
            break;
        if (set->sorted[low]->pattern_n == at + 1)
            found = set->sorted[low];
    }
    return found;
}

/* May a token begin with these two bytes? */
static inline bool may_begin(const struct lk_added_set *set, uint8_t first, uint8_t second)
{
    return set->pairs[first * 4u + (second >> 6)] >> (second & 63) & 1;
}

static const uint8_t *next_first(const struct lk_added_set *set, const uint8_t *p, const uint8_t *end)
{
    const bool *first = set->first;

    if (set->only_first >= 0) {
        const uint8_t *hit = memchr(p, set->only_first, (size_t)(end - p));
        return hit == NULL ? end : hit;
    }
    while (end - p >= 8 && !(first[p[0]] | first[p[1]] | first[p[2]] | first[p[3]] | first[p[4]] |
                             first[p[5]] | first[p[6]] | first[p[7]]))
        p += 8;
    while (p < end && !first[*p])
        p++;
    return p;
}

/* The next place at or after @p where a token may begin. */
static const uint8_t *candidate(const struct lk_added_set *set, const uint8_t *p,
                                const uint8_t *end)
{
    if (set->n == 0)
        return end;
    for (;; p++) {
        p = next_first(set, p, end);
        if (end - p < 2 || may_begin(set, p[0], p[1]))
            return p;
    }
}

/* Start of the character that ends at @p > @start. */
static const uint8_t *back(const uint8_t *start, const uint8_t *p)
{
    do
        p--;
    while (p > start && (*p & 0xc0) == 0x80);
    return p;
}

static bool word_at(const struct lk_added_scan *scan, const uint8_t *p)
{
    size_t n;
    return (lk_flags_at(scan->unicode, p, scan->end, &n) & LK_CLASS_WORD) != 0;
}

static bool space_at(const struct lk_added_scan *scan, const uint8_t *p, size_t *ret_n)
{
    return (lk_flags_at(scan->unicode, p, scan->end, ret_n) & LK_CLASS_MASK) == LK_CLASS_SPACE;
}

static bool inside_word(const struct lk_added_scan *scan, const uint8_t *p, const uint8_t *end)
{
    return (p > scan->text && word_at(scan, back(scan->text, p))) ||
           (end < scan->end && word_at(scan, end));
}

/* The spaces before a token belong to it, as far as they are not handed out yet. */
static const uint8_t *strip_left(const struct lk_added_scan *scan, const uint8_t *p)
{
    size_t n;
    while (p > scan->done) {
        const uint8_t *before = back(scan->text, p);
        if (!space_at(scan, before, &n))
            break;
        p = before;
    }
    return p > scan->done ? p : scan->done;
}

static const uint8_t *strip_right(struct lk_added_scan *scan, const uint8_t *p)
{
    size_t n;
    if (p < scan->spaces) /* in the run seen before: many tokens in one run stay linear */
        return scan->spaces;
    while (p < scan->end && space_at(scan, p, &n))
        p += n;
    scan->spaces = p;
    return p;
}

void lk_added_scan_init(struct lk_added_scan *scan, const struct lk_added_set *set,
                        const struct lk_unicode *unicode, const uint8_t *text, size_t n,
                        bool keep_special)
{
    *scan = (struct lk_added_scan){.set = set,
                                   .unicode = unicode,
                                   .text = text,
                                   .end = text + n,
                                   .at = text,
                                   .done = text,
                                   .spaces = text,
                                   .keep_special = keep_special};
}

/*
 * The next match that counts. A match that does not (kept as text, or not a word of its own) still
 * uses up its text: nothing is looked for inside it. rstrip does not move the search: a token that
 * begins with the spaces swallowed is found all the same. Both are the reference's ways.
 */
static bool next_token(struct lk_added_scan *scan, struct lk_part *ret_part)
{
    while ((scan->at = candidate(scan->set, scan->at, scan->end)) < scan->end) {
        const struct lk_added_token *token = longest(scan->set, scan->at, scan->end);
        if (token == NULL) {
            scan->at++;
            continue;
        }
        const uint8_t *p = scan->at, *end = p + token->pattern_n;
        scan->at = end;
        if (token->single_word && inside_word(scan, p, end))
            continue;
        if (token->special && scan->keep_special) {
            scan->kept++;
            continue;
        }
        *ret_part = (struct lk_part){.p = token->lstrip ? strip_left(scan, p) : p,
                                     .end = token->rstrip ? strip_right(scan, end) : end,
                                     .token = token};
        return true;
    }
    return false;
}

bool lk_added_scan_next(struct lk_added_scan *scan, struct lk_part *ret_part)
{
    for (;;) {
        struct lk_part token = scan->token;
        if (token.token == NULL && !next_token(scan, &token)) {
            *ret_part = (struct lk_part){.p = scan->done, .end = scan->end, .token = NULL};
            scan->done = scan->end;
            return ret_part->p < ret_part->end;
        }
        if (scan->done < token.p) {
            *ret_part = (struct lk_part){.p = scan->done, .end = token.p, .token = NULL};
            scan->token = token;
            scan->done = token.p;
            return true;
        }
        scan->token.token = NULL;
        scan->done = token.end;
        *ret_part = token;
        if (token.p < token.end)
            return true;
        /* else all of it was swallowed by the token before: as if it were not there */
    }
}
