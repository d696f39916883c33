#include "host/counted.h"

#include "base/keys.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define PLACES_MIN 256

void counted_done(struct counted *counted)
{
    free(counted->place);
    *counted = (struct counted){0};
}

static uint64_t home_of(const struct counted *counted, uint32_t dataset, uint64_t row,
                        uint32_t epoch)
{
    return lk_mix64(row ^ lk_mix64((uint64_t)epoch << 32 | dataset)) & (counted->places - 1);
}

/* Where it is, or the free place where it would be. */
static struct counted_row *find(const struct counted *counted, uint32_t dataset, uint64_t row,
                                uint32_t epoch)
{
    uint64_t i = home_of(counted, dataset, row, epoch);
    for (;; i = (i + 1) & (counted->places - 1)) {
        struct counted_row *at = &counted->place[i];
        if (at->tokens == 0 || (at->row == row && at->dataset == dataset && at->epoch == epoch))
            return at;
    }
}

static void grow(struct counted *counted)
{
    struct counted old = *counted;
    if (counted->n < counted->places / 2)
        return;
    counted->places = old.places == 0 ? PLACES_MIN : 2 * old.places;
    counted->place = lk_zalloc(counted->places, sizeof *counted->place);
    for (uint64_t i = 0; i < old.places; i++) {
        const struct counted_row *row = &old.place[i];
        if (row->tokens != 0)
            *find(counted, row->dataset, row->row, row->epoch) = *row;
    }
    free(old.place);
}

bool counted_add(struct counted *counted, const struct lk_span *record)
{
    grow(counted);
    struct counted_row *at = find(counted, record->dataset, record->row, record->epoch);
    if (at->tokens != 0)
        return false;
    *at = (struct counted_row){.row = record->row,
                               .dataset = record->dataset,
                               .epoch = record->epoch,
                               .tokens = record->tokens,
                               .left = record->tokens};
    counted->n++;
    return true;
}

/* Frees a place, and moves up what would not be found any more behind it. */
static void remove_at(struct counted *counted, uint64_t hole)
{
    uint64_t mask = counted->places - 1;
    for (uint64_t i = (hole + 1) & mask; counted->place[i].tokens != 0; i = (i + 1) & mask) {
        const struct counted_row *row = &counted->place[i];
        uint64_t home = home_of(counted, row->dataset, row->row, row->epoch);
        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        counted->place[hole] = *row;
        hole = i;
    }
    counted->place[hole] = (struct counted_row){0};
    counted->n--;
}

uint32_t counted_use(struct counted *counted, const struct lk_span *span)
{
    if (counted->n == 0)
        return 0;
    struct counted_row *at = find(counted, span->dataset, span->row, span->epoch);
    uint32_t tokens = at->tokens;
    if (tokens == 0)
        return 0;
    at->left -= span->tokens < at->left ? span->tokens : at->left;
    if (at->left == 0)
        remove_at(counted, (uint64_t)(at - counted->place));
    return tokens;
}

void counted_copy(struct counted *to, const struct counted *from)
{
    if (from->n == 0)
        return;
    *to = *from;
    to->place = lk_alloc(from->places * sizeof *to->place);
    memcpy(to->place, from->place, from->places * sizeof *to->place);
}
