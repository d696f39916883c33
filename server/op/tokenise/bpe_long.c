/*
 * Merging long pieces: rank by rank, each from left to right.
 *
 * The symbols are a doubly linked list. A list for each rank has the places where a pair of that rank
 * begins, or began: what is no longer true is seen when its turn comes. In a vocabulary that was trained,
 * a merge only gives rise to pairs of higher ranks; so a rank's list, sorted once, is merged from left
 * to right, in the order of memory, and the lowest list that is not empty is the next. Should a merge
 * give rise to a pair of the rank at work or of one below, it waits in a binary heap, which goes first.
 *
 * Each merge adds two entries at most, and each is sorted once: O(n log n), whatever text and vocabulary.
 */
#include "op/tokenise/bpe.h"

#include <stdlib.h>

#define NOWHERE UINT32_MAX
#define NO_RANK UINT32_MAX
#define SYMBOLS_MIN 1024u
#define SYMBOLS_KEPT 65536u
#define FEW 40u  /* places that are sorted by insertion */
#define AHEAD 8u /* places whose symbols are asked for before their turn */

/* ---- sorting places ---- */

static void sort_few(uint32_t *places, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        uint32_t place = places[i];
        size_t at = i;
        for (; at > 0 && places[at - 1] > place; at--)
            places[at] = places[at - 1];
        places[at] = place;
    }
}

static void sort_by_byte(const uint32_t *from, uint32_t *to, size_t n, unsigned shift)
{
    size_t starts[256] = {0}, sum = 0;

    for (size_t i = 0; i < n; i++)
        starts[from[i] >> shift & 255]++;
    for (unsigned b = 0; b < 256; b++) {
        size_t count = starts[b];
        starts[b] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        to[starts[from[i] >> shift & 255]++] = from[i];
}

static bool is_sorted(const uint32_t *places, size_t n)
{
    size_t i = 1;

    while (i < n && places[i - 1] <= places[i])
        i++;
    return i >= n;
}

/* Ascending; @below: all are. */
static void sort_places(struct lk_bpe_scratch *scratch, size_t below)
{
    struct lk_tokens *places = &scratch->places, *spare = &scratch->spare;

    if (places->n <= FEW) {
        sort_few(places->ids, places->n);
        return;
    }
    if (is_sorted(places->ids, places->n))
        return;
    spare->n = 0;
    (void)lk_tokens_room(spare, places->n);
    for (unsigned shift = 0; shift < 32 && (below - 1) >> shift != 0; shift += 8) {
        sort_by_byte(places->ids, spare->ids, places->n, shift);
        struct lk_tokens swap = *places;
        spare->n = places->n;
        *places = *spare;
        *spare = swap;
    }
}

/* ---- what came up since: a binary heap of rank << 32 | place ---- */

static void early_push(struct lk_bpe_scratch *scratch, uint64_t item)
{
    if (scratch->early_n == scratch->early_cap) {
        scratch->early_cap = scratch->early_cap == 0 ? 64 : scratch->early_cap * 2;
        scratch->early = lk_resize(scratch->early, scratch->early_cap, sizeof *scratch->early);
    }
    uint64_t *heap = scratch->early;
    size_t at = scratch->early_n++;
    for (size_t parent; at > 0 && heap[parent = (at - 1) / 2] > item; at = parent)
        heap[at] = heap[parent];
    heap[at] = item;
}

static uint64_t early_pop(struct lk_bpe_scratch *scratch)
{
    uint64_t *heap = scratch->early, top = heap[0], item = heap[--scratch->early_n];
    size_t at = 0, n = scratch->early_n;

    for (size_t child; (child = at * 2 + 1) < n; at = child) {
        child += child + 1 < n && heap[child + 1] < heap[child];
        if (heap[child] >= item)
            break;
        heap[at] = heap[child];
    }
    heap[at] = item;
    return top;
}

/* ---- lists by rank ---- */

/* Every list has at most one line that is not full, and at most two pairs a symbol wait. */
static size_t lines_for(const struct lk_bpe *bpe, size_t n)
{
    return 2 * n / LK_WAITING_PLACES + 1 + (bpe->ranks_n < 2 * n ? bpe->ranks_n : 2 * n);
}

static void reserve(struct lk_bpe_scratch *scratch, const struct lk_bpe *bpe, size_t n)
{
    if (scratch->ranks_n != bpe->ranks_n)
        lk_bpe_scratch_done(scratch); /* another vocabulary's */
    if (n > scratch->cap) {
        scratch->cap = n < SYMBOLS_MIN ? SYMBOLS_MIN : n;
        scratch->waiting_cap = lines_for(bpe, scratch->cap);
        lk_table_done(&scratch->symbols_table);
        lk_table_done(&scratch->waiting_table);
        scratch->symbols_table = lk_table_new(scratch->cap, sizeof *scratch->symbols);
        scratch->waiting_table = lk_table_new(scratch->waiting_cap, sizeof *scratch->waiting);
        scratch->symbols = scratch->symbols_table.data;
        scratch->waiting = scratch->waiting_table.data;
    }
    if (scratch->first == NULL) {
        scratch->ranks_n = bpe->ranks_n;
        scratch->first = lk_alloc((bpe->ranks_n + 1) * sizeof *scratch->first);
        memset(scratch->first, 0xff, (bpe->ranks_n + 1) * sizeof *scratch->first);
        scratch->ranks = lk_zalloc(bpe->ranks_n / 64 + 1, sizeof *scratch->ranks);
        scratch->ranks_far = lk_zalloc(bpe->ranks_n / 4096 + 1, sizeof *scratch->ranks_far);
    }
    scratch->waiting_free = NOWHERE;
    scratch->waiting_n = 0;
}

/* A new line, which becomes the first of @rank's list. */
static struct lk_waiting *new_line(struct lk_bpe_scratch *scratch, uint32_t rank)
{
    uint32_t line = scratch->waiting_free;

    if (line == NOWHERE) {
        line = scratch->waiting_n++;
        LK_CHECK(line < scratch->waiting_cap);
    } else {
        scratch->waiting_free = scratch->waiting[line].next;
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a line below @waiting_cap is in the table of that size */
    scratch->waiting[line].n = 0;
    scratch->waiting[line].next = scratch->first[rank];
    scratch->first[rank] = line;
    scratch->ranks[rank / 64] |= UINT64_C(1) << rank % 64;
    scratch->ranks_far[rank / 4096] |= UINT64_C(1) << rank / 64 % 64;
    return &scratch->waiting[line];
}

static inline void wait(struct lk_bpe_scratch *scratch, uint32_t rank, uint32_t at)
{
    uint32_t first = scratch->first[rank];
    struct lk_waiting *line = first == NOWHERE ? NULL : &scratch->waiting[first];

    if (line == NULL || line->n == LK_WAITING_PLACES)
        line = new_line(scratch, rank);
    line->at[LK_WAITING_PLACES - ++line->n] = at;
}

/* The lowest rank with a list, or NO_RANK; there is none below @from. */
static uint32_t next_rank(const struct lk_bpe_scratch *scratch, uint32_t from)
{
    for (uint32_t far = from / 4096; far <= scratch->ranks_n / 4096; far++)
        if (scratch->ranks_far[far] != 0) {
            uint32_t word = far * 64 + (uint32_t)__builtin_ctzll(scratch->ranks_far[far]);
            return word * 64 + (uint32_t)__builtin_ctzll(scratch->ranks[word]);
        }
    return NO_RANK;
}

/* Takes a rank's list to @places. */
static void take(struct lk_bpe_scratch *scratch, uint32_t rank)
{
    struct lk_tokens *places = &scratch->places;

    places->n = 0;
    for (uint32_t at = scratch->first[rank], next; at != NOWHERE; at = next) {
        struct lk_waiting *line = &scratch->waiting[at];
        memcpy(lk_tokens_room(places, line->n), line->at + LK_WAITING_PLACES - line->n,
               line->n * sizeof *line->at);
        places->n += line->n;
        next = line->next;
        line->next = scratch->waiting_free;
        scratch->waiting_free = at;
    }
    scratch->first[rank] = NOWHERE;
    scratch->ranks[rank / 64] &= ~(UINT64_C(1) << rank % 64);
    if (scratch->ranks[rank / 64] == 0)
        scratch->ranks_far[rank / 4096] &= ~(UINT64_C(1) << rank / 64 % 64);
}

/* ---- merging ---- */

static inline void set_pair(struct lk_symbol *symbol, uint64_t merge)
{
    symbol->rank = merge == LK_NO_MERGE ? NO_RANK : (uint32_t)(merge >> 32);
    symbol->made = (uint32_t)merge;
}

static void fill(const struct lk_bpe *bpe, struct lk_bpe_scratch *scratch, const uint32_t *ids,
                 size_t n)
{
    for (size_t i = n; i-- > 0;) { /* backwards: that leaves the lists in order */
        struct lk_symbol *symbol = &scratch->symbols[i];
        symbol->id = ids[i];
        symbol->prev = i == 0 ? NOWHERE : (uint32_t)i - 1;
        symbol->next = i + 1 == n ? NOWHERE : (uint32_t)i + 1;
        set_pair(symbol, i + 1 == n ? LK_NO_MERGE : lk_merge_of(bpe, ids[i], ids[i + 1]));
        if (symbol->rank != NO_RANK)
            wait(scratch, symbol->rank, (uint32_t)i);
    }
}

/* Sets the pair that begins at @at anew, while @rank is at work. */
static void renew(const struct lk_bpe *bpe, struct lk_bpe_scratch *scratch, uint32_t rank, uint32_t at)
{
    struct lk_symbol *symbol = &scratch->symbols[at];

    set_pair(symbol, symbol->next == NOWHERE
                         ? LK_NO_MERGE
                         : lk_merge_of(bpe, symbol->id, scratch->symbols[symbol->next].id));
    if (symbol->rank == NO_RANK)
        return;
    if (symbol->rank > rank)
        wait(scratch, symbol->rank, at);
    else
        early_push(scratch, (uint64_t)symbol->rank << 32 | at);
}

static void merge_at(const struct lk_bpe *bpe, struct lk_bpe_scratch *scratch, uint32_t rank,
                     uint32_t at)
{
    struct lk_symbol *symbol = &scratch->symbols[at], *gone = &scratch->symbols[symbol->next];

    symbol->id = symbol->made;
    gone->rank = NO_RANK;
    symbol->next = gone->next;
    if (symbol->next != NOWHERE)
        scratch->symbols[symbol->next].prev = at;
    renew(bpe, scratch, rank, at);
    if (symbol->prev != NOWHERE)
        renew(bpe, scratch, rank, symbol->prev);
}

/* All pairs of @rank, and what comes up meanwhile and may not wait. */
static void merge_rank(const struct lk_bpe *bpe, struct lk_bpe_scratch *scratch, uint32_t rank)
{
    const struct lk_tokens *places = &scratch->places;
    size_t i = 0;

    for (;;) {
        uint64_t item = i < places->n ? (uint64_t)rank << 32 | places->ids[i] : UINT64_MAX;
        if (scratch->early_n > 0 && scratch->early[0] < item)
            item = early_pop(scratch);
        else if (item == UINT64_MAX)
            return;
        else if (++i + AHEAD < places->n)
            __builtin_prefetch(&scratch->symbols[places->ids[i + AHEAD]]);
        if (scratch->symbols[(uint32_t)item].rank == item >> 32)
            merge_at(bpe, scratch, rank, (uint32_t)item);
    }
}

size_t lk_bpe_merge_long(const struct lk_bpe *bpe, struct lk_bpe_scratch *scratch, uint32_t *ids,
                         size_t n)
{
    size_t count = 0;

    reserve(scratch, bpe, n);
    fill(bpe, scratch, ids, n);
    for (uint32_t rank = 0; (rank = next_rank(scratch, rank)) != NO_RANK;) {
        take(scratch, rank);
        sort_places(scratch, n);
        merge_rank(bpe, scratch, rank);
    }
    for (uint32_t at = 0; at != NOWHERE; at = scratch->symbols[at].next)
        ids[count++] = scratch->symbols[at].id;
    return count;
}

void lk_bpe_scratch_done(struct lk_bpe_scratch *scratch)
{
    lk_table_done(&scratch->symbols_table);
    lk_table_done(&scratch->waiting_table);
    free(scratch->first);
    free(scratch->ranks);
    free(scratch->ranks_far);
    free(scratch->early);
    lk_tokens_done(&scratch->places);
    lk_tokens_done(&scratch->spare);
    *scratch = (struct lk_bpe_scratch){0};
}

void lk_bpe_scratch_trim(struct lk_bpe_scratch *scratch)
{
    if (scratch->cap > SYMBOLS_KEPT)
        lk_bpe_scratch_done(scratch);
}
