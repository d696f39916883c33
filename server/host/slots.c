#include "host/slots.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGN 4096u
#define SLOTS_MIN 4 /* two steps in the making, and two with trainers */

struct lease {
    uint64_t id;
    uint64_t client;
    uint32_t slot;
};

struct area { /* for training arrays; @slot's */
    uint32_t slot; /* SLOT_NONE: nobody's */
    struct lk_training_wish wish;
    uint64_t last_use;
    bool touched;
};

struct slots {
    int fd;
    uint8_t *map;
    uint64_t slot_bytes;
    uint32_t n, leased_max, tokens;
    bool *used;         /* [n] by a cursor */
    uint32_t *leases;   /* [n] how many */
    uint32_t leased;    /* slots with leases */
    uint64_t last_id;
    struct lease *lease;
    uint32_t n_lease, cap_lease;
    struct area *area;    /* [leased_max] */
    bool *area_made;      /* [leased_max][rows] */
    uint64_t area_bytes, area_uses, training_rows;
    uint32_t rows;
};

/* What batch memory a stream would like: a window for a training run, a smaller one for every other
 * cursor, and as much again as a window for trainers that hold on to their batches. */
static uint32_t slots_wanted(const struct lk_runtime *runtime)
{
    uint32_t window = 2 * runtime->prefetch_steps + 2;
    return 2 * window + runtime->cursors_max * (runtime->prefetch_steps + 2);
}

struct slots_grant slots_granted(const struct lk_runtime *runtime, uint32_t n_streams, const struct lk_recipe *recipe)
{
    struct slots_grant grant = {.rows = 0};
    for (uint32_t i = 0; i < recipe->n_batches; i++)
        if (recipe->batch[i].size > grant.rows)
            grant.rows = recipe->batch[i].size;
    grant.step_bytes = (uint64_t)grant.rows * recipe->sequence * 4;
    LK_CHECK(n_streams > 0 && grant.step_bytes > 0);
    uint64_t fit = runtime->arena_bytes / 2 / n_streams / grant.step_bytes;
    uint32_t wanted = slots_wanted(runtime);
    grant.slots = fit >= wanted ? wanted : fit < SLOTS_MIN ? SLOTS_MIN : (uint32_t)fit;
    grant.leased_max = grant.slots / 4 + 1;
    return grant;
}

static uint64_t align(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Parts are bounded by one a token. The pages of those that are not there are never touched. */
static uint64_t bytes_of_slot(uint32_t rows, uint32_t tokens)
{
    return align(sizeof(struct lk_batch_head) + (uint64_t)rows * sizeof(struct lk_batch_row)) +
           align((uint64_t)rows * tokens * 4) +
           align((uint64_t)rows * tokens * sizeof(struct lk_batch_part));
}

enum lk_code slots_open(uint16_t region, uint32_t n, uint32_t leased_max, uint32_t rows,
                        uint32_t tokens, struct slots **ret_slots, struct lk_err *err)
{
    struct slots *slots = lk_zalloc(1, sizeof *slots);
    slots->last_id = (uint64_t)region << 48;
    slots->n = n;
    slots->leased_max = leased_max;
    slots->tokens = tokens;
    slots->slot_bytes = bytes_of_slot(rows, tokens);
    slots->used = lk_zalloc(n, sizeof *slots->used);
    slots->leases = lk_zalloc(n, sizeof *slots->leases);
    slots->rows = rows;
    slots->area_bytes = align(lk_training_bytes_max(rows, tokens));
    slots->area = lk_zalloc(leased_max, sizeof *slots->area);
    slots->area_made = lk_zalloc((size_t)leased_max * rows, sizeof *slots->area_made);
    for (uint32_t i = 0; i < leased_max; i++)
        slots->area[i].slot = SLOT_NONE;
    slots->map = MAP_FAILED;
    slots->fd = memfd_create("lanekeeper-batches", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (slots->fd < 0 || ftruncate(slots->fd, (off_t)slots_bytes(slots)) != 0)
        goto failed;
    slots->map = mmap(NULL, slots_bytes(slots), PROT_READ | PROT_WRITE, MAP_SHARED, slots->fd, 0);
    if (slots->map == MAP_FAILED ||
        fcntl(slots->fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE) != 0)
        goto failed;
    *ret_slots = slots;
    return LK_OK;

failed:;
    enum lk_code code = lk_fail(err, LK_RESOURCE_EXHAUSTED,
                                "cannot make batch memory of %llu bytes (%u slots): %s",
                                (unsigned long long)slots_bytes(slots), n, strerror(errno));
    slots_close(slots);
    return code;
}

void slots_close(struct slots *slots)
{
    if (slots == NULL)
        return;
    if (slots->map != MAP_FAILED)
        munmap(slots->map, slots_bytes(slots));
    if (slots->fd >= 0)
        close(slots->fd);
    free(slots->used);
    free(slots->leases);
    free(slots->lease);
    free(slots->area);
    free(slots->area_made);
    free(slots);
}

int slots_fd(const struct slots *slots)
{
    return slots->fd;
}

uint64_t slots_bytes(const struct slots *slots)
{
    return slots->slot_bytes * slots->n + slots->area_bytes * slots->leased_max;
}

uint64_t slots_offset(const struct slots *slots, uint32_t slot)
{
    LK_CHECK(slot < slots->n);
    return slots->slot_bytes * slot;
}

struct lk_batch_head *slots_head(const struct slots *slots, uint32_t slot)
{
    return (struct lk_batch_head *)(slots->map + slots_offset(slots, slot));
}

struct lk_batch_row *slots_row(const struct slots *slots, uint32_t slot, uint32_t row)
{
    struct lk_batch_head *head = slots_head(slots, slot);
    LK_CHECK(row < head->rows);
    return (struct lk_batch_row *)(head + 1) + row;
}

uint32_t *slots_tokens(const struct slots *slots, uint32_t slot, uint32_t row)
{
    struct lk_batch_head *head = slots_head(slots, slot);
    LK_CHECK(row < head->rows);
    return (uint32_t *)((uint8_t *)head + head->tokens_at) + (size_t)row * slots->tokens;
}

struct lk_batch_part *slots_parts(const struct slots *slots, uint32_t slot)
{
    struct lk_batch_head *head = slots_head(slots, slot);
    return (struct lk_batch_part *)((uint8_t *)head + head->parts_at);
}

/* Training arrays ----------------------------------------------------------------------------- */

/* The area of @slot; leased_max: it has none. */
static uint32_t area_of(const struct slots *slots, uint32_t slot)
{
    uint32_t a = 0;
    while (a < slots->leased_max && slots->area[a].slot != slot)
        a++;
    return a;
}

/* Is @area of no use to anybody: its slot is to be filled anew? */
static bool area_idle(const struct slots *slots, const struct area *area)
{
    return area->slot == SLOT_NONE || (!slots->used[area->slot] && slots->leases[area->slot] == 0);
}

/* The first that is idle, so that few are ever touched; else that of a slot that nobody leases, the least
 * recently asked for. There is one: the slot that is asking has a lease, and no area. */
static uint32_t area_take(struct slots *slots)
{
    uint32_t oldest = slots->leased_max;
    for (uint32_t a = 0; a < slots->leased_max; a++) {
        const struct area *area = &slots->area[a];
        if (area_idle(slots, area))
            return a;
        if (slots->leases[area->slot] == 0 &&
            (oldest == slots->leased_max || area->last_use < slots->area[oldest].last_use))
            oldest = a;
    }
    LK_CHECK(oldest < slots->leased_max);
    return oldest;
}

static void area_begin(struct slots *slots, uint32_t a, uint32_t slot, const struct lk_training_wish *wish)
{
    slots->area[a] = (struct area){.slot = slot, .wish = *wish, .touched = true};
    memset(slots->area_made + (size_t)a * slots->rows, 0, slots->rows * sizeof *slots->area_made);
}

bool slots_training(struct slots *slots, uint32_t slot, const struct lk_training_wish *wish, uint32_t first,
                    uint32_t rows, uint64_t *ret_offset, uint64_t *ret_bytes)
{
    const struct lk_batch_head *head = slots_head(slots, slot);
    struct lk_training_layout layout;
    uint32_t a = area_of(slots, slot);

    LK_CHECK(slots->leases[slot] > 0 && first + rows <= head->rows);
    if (a == slots->leased_max)
        area_begin(slots, a = area_take(slots), slot, wish);
    else if (!lk_training_wish_equal(&slots->area[a].wish, wish)) {
        if (slots->leases[slot] > 1)
            return false;
        area_begin(slots, a, slot, wish);
    }
    slots->area[a].last_use = ++slots->area_uses;
    *ret_offset = slots->slot_bytes * slots->n + slots->area_bytes * a;
    lk_training_layout(wish, head->rows, head->tokens, &layout);
    *ret_bytes = layout.bytes;
    for (uint32_t row = first; row < first + rows; row++) {
        const struct lk_batch_row *from = slots_row(slots, slot, row);
        bool *made = &slots->area_made[(size_t)a * slots->rows + row];
        if (*made)
            continue;
        lk_training_row(wish, &layout, slots->map + *ret_offset, row, slots_tokens(slots, slot, row), from,
                        slots_parts(slots, slot) + from->first_part);
        *made = true;
        slots->training_rows++;
    }
    return true;
}

/* Slots --------------------------------------------------------------------------------------- */

uint32_t slots_take(struct slots *slots, uint64_t step, uint32_t rows)
{
    uint32_t slot = 0;
    while (slot < slots->n && (slots->used[slot] || slots->leases[slot] > 0))
        slot++;
    if (slot == slots->n)
        return SLOT_NONE;
    slots->used[slot] = true;
    uint32_t a = area_of(slots, slot);
    if (a < slots->leased_max)
        slots->area[a].slot = SLOT_NONE;
    struct lk_batch_head *head = slots_head(slots, slot);
    uint64_t rows_end = sizeof *head + (uint64_t)rows * sizeof(struct lk_batch_row);
    memset(head, 0, rows_end);
    *head = (struct lk_batch_head){.magic = LK_BATCH_MAGIC,
                                   .rows = rows,
                                   .tokens = slots->tokens,
                                   .step = step,
                                   .tokens_at = align(rows_end),
                                   .bytes = slots->slot_bytes};
    head->parts_at = head->tokens_at + align((uint64_t)rows * slots->tokens * 4);
    return slot;
}

void slots_put(struct slots *slots, uint32_t slot)
{
    LK_CHECK(slot < slots->n && slots->used[slot]);
    slots->used[slot] = false;
}

uint64_t slots_lease(struct slots *slots, uint32_t slot, uint64_t client)
{
    LK_CHECK(slot < slots->n && slots->used[slot]);
    if ((slots->leases[slot] == 0 && slots->leased == slots->leased_max) ||
        slots->n_lease == LEASES_MAX)
        return 0;
    if (slots->n_lease == slots->cap_lease) {
        slots->cap_lease = slots->cap_lease == 0 ? 64 : 2 * slots->cap_lease;
        slots->lease = lk_resize(slots->lease, slots->cap_lease, sizeof *slots->lease);
    }
    slots->leased += slots->leases[slot]++ == 0;
    slots->lease[slots->n_lease++] =
        (struct lease){.id = ++slots->last_id, .client = client, .slot = slot};
    return slots->last_id;
}

static void lease_end(struct slots *slots, uint32_t i)
{
    uint32_t slot = slots->lease[i].slot;
    LK_CHECK(slots->leases[slot] > 0);
    slots->leased -= --slots->leases[slot] == 0;
    slots->lease[i] = slots->lease[--slots->n_lease];
}

void slots_release(struct slots *slots, uint64_t client, uint64_t lease)
{
    for (uint32_t i = 0; i < slots->n_lease; i++) {
        if (slots->lease[i].id == lease && slots->lease[i].client == client) {
            lease_end(slots, i);
            return;
        }
    }
}

void slots_release_all(struct slots *slots, uint64_t client)
{
    for (uint32_t i = slots->n_lease; i-- > 0;)
        if (slots->lease[i].client == client)
            lease_end(slots, i);
}

void slots_stats(const struct slots *slots, struct slots_stats *ret_stats)
{
    *ret_stats = (struct slots_stats){.slots = slots->n,
                                      .leased = slots->leased,
                                      .leases = slots->n_lease,
                                      .bytes_each = slots->slot_bytes,
                                      .areas = slots->leased_max,
                                      .area_bytes_each = slots->area_bytes,
                                      .training_rows = slots->training_rows};
    for (uint32_t i = 0; i < slots->leased_max; i++)
        ret_stats->areas_used += slots->area[i].touched;
    for (uint32_t i = 0; i < slots->n; i++)
        ret_stats->used += slots->used[i];
}
