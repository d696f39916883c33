/* What must hold: of each answer, and of the engine after each event. */
#include "sim.h"

#include "host/cursor_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static struct oracle *oracle_for(const struct sim *sim, const struct sim_call *call)
{
    return sim->oracle[call->stream];
}

static bool has_fatal(const struct sim_recipe *recipe)
{
    for (uint32_t d = 0; d < recipe->n_datasets; d++)
        if (recipe->dataset[d].fatal != SIM_NO_ROW)
            return true;
    return false;
}

/* Steps ----------------------------------------------------------------------------------------- */

/* The rows may be given at all: the stream has the step, and no lane that they depend on fails before. */
static void check_exists(struct sim *sim, const struct sim_call *call, uint64_t step, uint32_t first,
                         uint32_t rows)
{
    struct oracle *oracle = oracle_for(sim, call);
    if (oracle_barren(oracle))
        sim_fail(sim, "call %" PRIu64 ": step %" PRIu64 " is given, but a dataset is dropped as a whole",
                 call->serial, step);
    if (!oracle_finite(oracle)) {
        for (uint32_t row = first; row < first + rows; row++)
            if (oracle_why(oracle, step, row) != ORACLE_GIVES)
                sim_fail(sim, "call %" PRIu64 ": step %" PRIu64 " row %u is given, but its lane fails",
                         call->serial, step, row);
        return;
    }
    if (step >= oracle_steps(oracle))
        sim_fail(sim, "call %" PRIu64 ": step %" PRIu64 " is given, but the stream has %" PRIu64 " steps",
                 call->serial, step, oracle_steps(oracle));
    if (step >= oracle_fails(oracle))
        sim_fail(sim, "call %" PRIu64 ": step %" PRIu64 " is given, but a lane fails at step %" PRIu64,
                 call->serial, step, oracle_fails(oracle));
}

/* A daemon that a wrong count has misled may give what the oracle does not; but what it gives hangs
 * together, and the row whose count was wrong is not in it. */
static bool may_differ(const struct sim *sim, const struct sim_call *call)
{
    return sim->misled && call->stream == sim->wrong_stream;
}

/* Batches --------------------------------------------------------------------------------------- */

struct view {
    const struct lk_batch_head *head;
    const struct lk_batch_row *row;   /* of the cut */
    const uint32_t *tokens;
    const struct lk_batch_part *part; /* of the block */
};

static struct view view_of(const uint8_t *block, uint32_t first)
{
    struct view view = {.head = (const struct lk_batch_head *)(const void *)block};
    view.row = (const struct lk_batch_row *)(view.head + 1) + first;
    view.tokens = (const uint32_t *)(const void *)(block + view.head->tokens_at) +
                  (size_t)first * view.head->tokens;
    view.part = (const struct lk_batch_part *)(const void *)(block + view.head->parts_at);
    return view;
}

static void check_head(struct sim *sim, const struct sim_call *call, const Lk__GetBatchReply *reply,
                       const struct lk_batch_head *head, uint64_t bytes)
{
    const struct sim_recipe *recipe = &sim->of.recipe[call->stream];
    uint32_t size = oracle_size(oracle_for(sim, call), call->step);
    bool same = reply->step == call->step && reply->first_row == call->first && reply->rows == call->rows &&
                reply->global_rows == size && reply->sequence == recipe->sequence &&
                reply->stream_digest.len == 16 && reply->digest.len == 16 &&
                lk_get_u64(reply->stream_digest.data) == call->stream;
    if (!same)
        sim_fail(sim, "call %" PRIu64 ": the answer is for step %" PRIu64 " rows %u+%u of %u", call->serial,
                 reply->step, reply->first_row, reply->rows, reply->global_rows);
    same = head->magic == LK_BATCH_MAGIC && head->step == call->step && head->tokens == recipe->sequence &&
           head->bytes == bytes && head->rows == (reply->shared ? size : call->rows) &&
           head->first_row == (reply->shared ? 0 : call->first) &&
           head->parts_at >= head->tokens_at + 4ull * head->rows * head->tokens &&
           head->parts_at + head->n_parts * sizeof(struct lk_batch_part) <= bytes &&
           head->tokens_at % 64 == 0 && head->parts_at % 8 == 0;
    if (!same)
        sim_fail(sim, "call %" PRIu64 ": the head of the block is wrong", call->serial);
}

static bool same_part(const struct lk_batch_part *part, const struct oracle_span *span)
{
    return part->row == span->row && part->dataset == span->dataset && part->epoch == span->epoch &&
           part->first == span->first && part->tokens == span->tokens;
}

static void check_parts(struct sim *sim, const struct sim_call *call, const struct view *view, uint32_t i)
{
    const struct lk_batch_row *row = &view->row[i];
    const struct oracle_sequence *right = oracle_row(oracle_for(sim, call), call->step, call->first + i);
    if (row->n_parts != right->n || row->used != right->tokens ||
        row->first_part + (uint64_t)row->n_parts > view->head->n_parts)
        sim_fail(sim, "call %" PRIu64 ": step %" PRIu64 " row %u has %u parts of %u tokens, expected %u of %u",
                 call->serial, call->step, call->first + i, row->n_parts, row->used, right->n, right->tokens);
    for (uint32_t p = 0; p < right->n; p++) {
        const struct lk_batch_part *part = &view->part[row->first_part + p];
        const struct oracle_span *span = &right->span[p];
        if (!same_part(part, span))
            sim_fail(sim, "call %" PRIu64 ": step %" PRIu64 " row %u part %u is dataset %u row %" PRIu64
                     " epoch %u %u+%u, expected dataset %u row %" PRIu64 " epoch %u %u+%u", call->serial,
                     call->step, call->first + i, p, part->dataset, part->row, part->epoch, part->first,
                     part->tokens, span->dataset, span->row, span->epoch, span->first, span->tokens);
    }
}

static void check_tokens(struct sim *sim, const struct sim_call *call, const struct view *view, uint32_t i)
{
    uint32_t t = view->head->tokens;
    const uint32_t *tokens = view->tokens + (size_t)i * t;
    uint32_t *right = lk_alloc(4 * (size_t)t);
    oracle_tokens(oracle_for(sim, call),
                  oracle_row(oracle_for(sim, call), call->step, call->first + i), right);
    for (uint32_t at = 0; at < t; at++)
        if (tokens[at] != right[at])
            sim_fail(sim, "call %" PRIu64 ": step %" PRIu64 " row %u token %u is %u, expected %u", call->serial,
                     call->step, call->first + i, at, tokens[at], right[at]);
    free(right);
}

static void check_digest(struct sim *sim, const struct sim_call *call, const struct lk_batch_row *row, uint32_t i)
{
    struct oracle_digest right = oracle_digest(oracle_for(sim, call), call->step, call->first + i);
    if (row->digest_lo != right.lo || row->digest_hi != right.hi)
        sim_fail(sim, "call %" PRIu64 ": step %" PRIu64 " row %u has another digest", call->serial, call->step,
                 call->first + i);
}

/* Without the oracle's sequences: tokens are those of the parts, and these of their rows. */
static void check_hangs_together(struct sim *sim, const struct sim_call *call, const struct view *view, uint32_t i)
{
    const struct sim_recipe *recipe = &sim->of.recipe[call->stream];
    const struct lk_batch_row *row = &view->row[i];
    const uint32_t *tokens = view->tokens + (size_t)i * view->head->tokens;
    uint32_t at = 0;
    for (uint32_t p = 0; p < row->n_parts; p++) {
        const struct lk_batch_part *part = &view->part[row->first_part + p];
        const struct sim_dataset *dataset = &recipe->dataset[part->dataset];
        if ((uint64_t)part->first + part->tokens > sim_row(dataset, part->row).tokens)
            sim_fail(sim, "call %" PRIu64 ": more tokens than row %" PRIu64 " has", call->serial, part->row);
        for (uint32_t t = 0; t < part->tokens; t++, at++)
            if (at >= recipe->sequence || tokens[at] != sim_token(dataset, part->row, part->first + t))
                sim_fail(sim, "call %" PRIu64 ": row %u token %u is not its part's", call->serial, i, at);
    }
    for (; at < recipe->sequence; at++)
        if (tokens[at] != recipe->pad_id)
            sim_fail(sim, "call %" PRIu64 ": row %u token %u is no padding", call->serial, i, at);
}

/* The row whose count was wrong is found when its tokens are made: so it is in no batch that differs. */
static void check_not_misled(struct sim *sim, uint64_t step, uint32_t i, const struct lk_batch_row *row,
                             const struct lk_batch_part *part)
{
    const struct oracle_sequence *right = oracle_row(sim->oracle[sim->wrong_stream], step, i);
    bool same = row->n_parts == right->n, has = false;
    for (uint32_t p = 0; p < row->n_parts; p++) {
        same = same && same_part(&part[p], &right->span[p]);
        has = has || (part[p].dataset == sim->wrong_dataset && part[p].row == sim->wrong_row &&
                      part[p].epoch == 0);
    }
    /* Put right, and then forgotten, it may be right for one pass over the row and wrong for the next one. */
    const struct sim_dataset *dataset = &sim->of.recipe[sim->wrong_stream].dataset[sim->wrong_dataset];
    bool at_first = sim->counts[sim->wrong_stream][sim->wrong_dataset].doubts == 0 ||
                    (dataset->epochs == 1 && dataset->then != SIM_REPEAT);
    /* A state that was there before is held against the counts that are kept: if they are, and it is measured. */
    if (has && !same && at_first && (!sim->misled_before || (fake_files_mislead(sim) && !sim->at_hand)))
        sim_fail(sim, "step %" PRIu64 " row %u holds the row whose count is wrong", step, i);
}

void check_batch(struct sim *sim, const struct sim_call *call, const Lk__GetBatchReply *reply,
                 const uint8_t *block, uint64_t bytes)
{
    struct oracle_digest sum = {0};
    if (reply->shared && sim->trainer[call->trainer].client != call->client)
        sim_fail(sim, "call %" PRIu64 ": a lease for a client that is gone", call->serial);
    check_told(sim, call);
    check_head(sim, call, reply, (const struct lk_batch_head *)(const void *)block, bytes);
    struct view view = view_of(block, reply->shared ? call->first : 0);
    if (!may_differ(sim, call))
        check_exists(sim, call, call->step, call->first, call->rows);
    for (uint32_t i = 0; i < call->rows; i++) {
        if (may_differ(sim, call)) {
            check_hangs_together(sim, call, &view, i);
            check_not_misled(sim, call->step, call->first + i, &view.row[i], view.part + view.row[i].first_part);
        } else {
            check_parts(sim, call, &view, i);
            check_tokens(sim, call, &view, i);
            check_digest(sim, call, &view.row[i], i);
        }
        sum = oracle_add(sum, (struct oracle_digest){.lo = view.row[i].digest_lo, .hi = view.row[i].digest_hi});
    }
    if (lk_get_u64(reply->digest.data) != sum.lo || lk_get_u64(reply->digest.data + 8) != sum.hi)
        sim_fail(sim, "call %" PRIu64 ": the digest of the cut is not that of its rows", call->serial);
    sim_note(sim, "call %" PRIu64 ": %u rows, digest %016" PRIx64, call->serial, call->rows, sum.lo);
    sim->batches++;
}

/* Traces, digests, refusals --------------------------------------------------------------------- */

void check_trace(struct sim *sim, const struct sim_call *call, const Lk__TraceReply *reply)
{
    size_t at = 0;
    if (may_differ(sim, call))
        return;
    check_exists(sim, call, call->step, call->first, call->rows);
    for (uint32_t row = call->first; row < call->first + call->rows; row++) {
        const struct oracle_sequence *right = oracle_row(oracle_for(sim, call), call->step, row);
        uint32_t token = 0;
        for (uint32_t p = 0; p < right->n; p++, at++) {
            const Lk__TracePart *part = at < reply->n_parts ? reply->parts[at] : NULL;
            const struct oracle_span *span = &right->span[p];
            if (part == NULL || part->sequence != row || part->at != token || part->tokens != span->tokens ||
                part->row != span->row || part->epoch != span->epoch || part->first != span->first ||
                strcmp(part->dataset, sim->of.recipe[call->stream].dataset[span->dataset].name) != 0)
                sim_fail(sim, "call %" PRIu64 ": trace of step %" PRIu64 " row %u part %u", call->serial,
                         call->step, row, p);
            token += span->tokens;
        }
    }
    if (at != reply->n_parts)
        sim_fail(sim, "call %" PRIu64 ": trace has %zu parts, expected %zu", call->serial, reply->n_parts, at);
}

void check_digests(struct sim *sim, const struct sim_call *call, const Lk__DigestReply *reply)
{
    struct oracle *oracle = oracle_for(sim, call);
    if (reply->n_steps != call->to - call->step)
        sim_fail(sim, "call %" PRIu64 ": digests of %zu steps", call->serial, reply->n_steps);
    for (uint64_t s = call->step; s < call->to && !may_differ(sim, call); s++) {
        struct oracle_digest sum = {0};
        uint32_t size = oracle_size(oracle, s);
        check_exists(sim, call, s, 0, size);
        for (uint32_t row = 0; row < size; row++)
            sum = oracle_add(sum, oracle_digest(oracle, s, row));
        const ProtobufCBinaryData *digest = &reply->steps[s - call->step];
        if (digest->len != 16 || lk_get_u64(digest->data) != sum.lo || lk_get_u64(digest->data + 8) != sum.hi)
            sim_fail(sim, "call %" PRIu64 ": the digest of step %" PRIu64, call->serial, s);
    }
}

/* May steps up to @step be refused for what the data is? */
static bool may_fail(struct sim *sim, const struct sim_call *call, uint64_t step, enum lk_code code,
                     const char *detail)
{
    const struct sim_recipe *recipe = &sim->of.recipe[call->stream];
    struct oracle *oracle = oracle_for(sim, call);
    if (code == LK_DATA_LOSS && check_tells(sim, call->stream, detail))
        return true;
    if (has_fatal(recipe) && oracle_fails(oracle) <= step)
        return true; /* with the row's own code */
    if (code != LK_FAILED_PRECONDITION)
        return false;
    if (oracle_fails(oracle) <= step)
        return true;
    if (oracle_barren(oracle))
        return strstr(detail, "yields no tokens") != NULL; /* not that it is small, or has ended */
    return oracle_steps(oracle) == 0 || may_differ(sim, call);
}

static void check_ended(struct sim *sim, const struct sim_call *call, uint64_t last, const char *detail)
{
    struct oracle *oracle = oracle_for(sim, call);
    uint64_t steps = oracle_steps(oracle);
    char says[64];
    snprintf(says, sizeof says, "ends after %" PRIu64 " steps", steps);
    if (oracle_barren(oracle))
        sim_fail(sim, "call %" PRIu64 ": \"%s\", but a dataset is dropped as a whole", call->serial, detail);
    if (may_differ(sim, call))
        return;
    if (last < steps || strstr(detail, says) == NULL)
        sim_fail(sim, "call %" PRIu64 ": \"%s\", but it has %" PRIu64 " steps", call->serial, detail, steps);
}

void check_refusal(struct sim *sim, const struct sim_call *call, enum lk_code code, const char *detail)
{
    uint64_t last = call->kind == CALL_DIGEST ? call->to - 1 : call->step;
    bool waits = call->kind == CALL_GET || call->kind == CALL_TRACE || call->kind == CALL_DIGEST;
    if (call->kind == CALL_BAD && code == (enum lk_code)call->bad)
        return;
    if (waits && code == LK_UNAVAILABLE && sim->closing)
        return;
    if (waits && code == LK_DEADLINE_EXCEEDED && sim->now_ms >= call->call.deadline_ms) {
        sim->late++;
        return;
    }
    if (waits && code == LK_OUT_OF_RANGE) {
        check_ended(sim, call, last, detail);
        return;
    }
    if (waits && (code == LK_FAILED_PRECONDITION || code == LK_DATA_LOSS) && may_fail(sim, call, last, code, detail))
        return;
    sim_fail(sim, "call %" PRIu64 ": %s: %s", call->serial, lk_code_name(code), detail);
}

/* Leases ---------------------------------------------------------------------------------------- */

uint64_t check_lease_hash(const struct sim *sim, const struct sim_lease *lease)
{
    struct view view = view_of(sim->region[lease->stream] + lease->offset, lease->first);
    uint64_t hash = view.head->step;
    for (uint32_t i = 0; i < lease->rows; i++) {
        const struct lk_batch_row *row = &view.row[i];
        hash = XXH3_64bits_withSeed(row, sizeof *row, hash);
        hash = XXH3_64bits_withSeed(view.tokens + (size_t)i * view.head->tokens, 4 * (size_t)view.head->tokens, hash);
        hash = XXH3_64bits_withSeed(view.part + row->first_part, row->n_parts * sizeof *view.part, hash);
    }
    return hash;
}

/* What a trainer holds does not change under it. */
void check_lease(struct sim *sim, const struct sim_lease *lease)
{
    if (check_lease_hash(sim, lease) != lease->hash)
        sim_fail(sim, "lease %" PRIx64 " of step %" PRIu64 ": its memory has changed", lease->lease, lease->step);
}

/* The engine ------------------------------------------------------------------------------------ */

static uint32_t length(const struct errand *list)
{
    uint32_t n = 0;
    for (; list != NULL; list = list->next)
        n++;
    return n;
}

static uint32_t errands_of(const struct cursor *cursor)
{
    uint32_t n = length(cursor->fetches);
    for (uint32_t l = 0; l < cursor->recipe->lanes; l++)
        for (uint32_t d = 0; cursor->lane[l].slices != NULL && d < cursor->recipe->n_datasets; d++)
            n += length(cursor->lane[l].slices[d]);
    return n;
}

/* Every row in the table is found in it. */
static void check_counted(struct sim *sim, const struct counted *counted)
{
    struct counted copy = {0};
    uint64_t n = 0;
    counted_copy(&copy, counted);
    for (uint64_t i = 0; counted->n > 0 && i < counted->places; i++) {
        const struct counted_row *row = &counted->place[i];
        struct lk_span record = {
            .row = row->row, .dataset = row->dataset, .epoch = row->epoch, .tokens = row->tokens};
        if (row->tokens == 0)
            continue;
        n++;
        if (row->left == 0 || row->left > row->tokens || counted_add(&copy, &record))
            sim_fail(sim, "counted: row %" PRIu64 " is lost, %u of %u tokens are left", row->row, row->left,
                     row->tokens);
    }
    if (n != counted->n)
        sim_fail(sim, "counted: %" PRIu64 " rows, says it has %" PRIu64, n, counted->n);
    counted_done(&copy);
}

static void check_lanes(struct sim *sim, const struct cursor *cursor)
{
    for (uint32_t l = 0; l < cursor->recipe->lanes; l++) {
        struct lane_totals totals;
        if (cursor->lane[l].lane == NULL)
            continue;
        lane_check(cursor->lane[l].lane);
        if (lane_position(cursor->lane[l].lane) >= cursor->lane[l].next_snapshot)
            sim_fail(sim, "lane %u: at position %" PRIu64 " it has passed over the snapshot that was due at %" PRIu64,
                     l, lane_position(cursor->lane[l].lane), cursor->lane[l].next_snapshot);
        check_counted(sim, &cursor->lane[l].counted);
        cursor_lane_totals(cursor, l, &totals);
        uint64_t dropped = 0;
        for (int i = 1; i < LK_DROP_REASONS; i++)
            dropped += totals.dropped[i];
        if (totals.tokens_in != totals.tokens_out + totals.pack.lost + totals.waiting ||
            totals.rows != totals.records + dropped)
            sim_fail(sim, "lane %u: %" PRIu64 " tokens in, %" PRIu64 " out, %" PRIu64 " lost, %" PRIu64 " waiting",
                     l, totals.tokens_in, totals.tokens_out, totals.pack.lost, totals.waiting);
    }
}

/* What the cursor counts as it goes, counted anew. */
static void check_counters(struct sim *sim, const struct cursor *cursor)
{
    uint32_t over = 0;
    for (uint32_t l = 0; l < cursor->recipe->lanes; l++)
        over += cursor->lane[l].over;
    if (over != cursor->over)
        sim_fail(sim, "%u lanes have ended, the cursor says %u", over, cursor->over);
    for (uint32_t i = 0; i < cursor->n; i++) {
        const struct held *held = &cursor->held[(cursor->head + i) % cursor->capacity];
        uint32_t open = 0, ready = 0;
        for (uint32_t row = 0; row < held->size; row++) {
            open += held->row[row] == ROW_OPEN;
            ready += held->row[row] == 0;
        }
        if (open != held->open || ready != held->ready)
            sim_fail(sim, "step %" PRIu64 ": %u rows open, %u ready; the cursor says %u and %u", held->step, open, ready,
                     held->open, held->ready);
    }
}

/* What is ready to be given is looked at before anybody asks for it. */
static void check_ready(struct sim *sim, const struct cursor *cursor)
{
    const struct slots *slots = cursor->context->slots;
    for (uint32_t i = 0; i < cursor->n; i++) {
        const struct held *held = &cursor->held[(cursor->head + i) % cursor->capacity];
        for (uint32_t row = 0; row < held->size; row++) {
            const struct lk_batch_row *out = slots_row(slots, held->slot, row);
            if (held->row[row] == 0)
                check_not_misled(sim, held->step, row, out, slots_parts(slots, held->slot) + out->first_part);
        }
    }
}

/* Of one stream: how many slots its cursors hold; adds up what they have at the pool. */
static uint32_t check_cursors(struct sim *sim, const struct served *served, bool all, uint32_t *errands)
{
    const struct lk_recipe *recipe = served->stream.recipe;
    uint32_t held = 0;
    for (uint32_t i = 0; i < sim->of.cursors_max; i++) {
        const struct cursor *cursor = served->cursor[i].cursor;
        if (cursor == NULL)
            continue;
        held += cursor->n;
        *errands += errands_of(cursor);
        if (cursor->n > cursor->capacity || cursor->measuring > recipe->lanes * recipe->n_datasets * LK_SLICES_MAX)
            sim_fail(sim, "cursor %u: %u steps of %u, %u slices", i, cursor->n, cursor->capacity,
                     cursor->measuring);
        if (all)
            check_lanes(sim, cursor);
        if (sim->misled && served == &sim->engine->stream[sim->wrong_stream] && !cursor->doubtful)
            check_ready(sim, cursor);
        check_counters(sim, cursor);
    }
    return held;
}

/* Snapshots are written where a step of the right number begins, or they would not serve the step. */
static void check_files(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->n_files; i++) {
        const struct sim_file *file = &sim->file[i];
        uint64_t step = 0, at = 0;
        if (!file->queued)
            continue;
        while (at < file->position)
            at += oracle_size(sim->oracle[file->stream], step++) / sim->of.recipe[file->stream].lanes;
        if (at != file->position || step % sim->of.snapshot_every != 0)
            sim_fail(sim, "snapshot: lane %u is saved at position %" PRIu64 ", where no snapshot is due", file->lane,
                     file->position);
    }
}

/* Some cursor stands there that nothing is known to be wrong with: what a failed one was made of may be. */
void check_saver(struct sim *sim, uint32_t stream, uint32_t lane, uint64_t position)
{
    for (uint32_t i = 0; i < sim->of.cursors_max; i++) {
        const struct cursor *cursor = sim->engine->stream[stream].cursor[i].cursor;
        if (cursor != NULL && cursor->fail_step == UINT64_MAX && cursor->lane[lane].lane != NULL &&
            lane_position(cursor->lane[lane].lane) == position)
            return;
    }
    sim_fail(sim, "snapshot: lane %u position %" PRIu64 " is saved by a cursor that has failed", lane, position);
}

static void check_calls(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->n_calls; i++) {
        const struct sim_call *call = sim->call[i];
        if (call->heard && call->call.deadline_ms <= sim->now_ms)
            sim_fail(sim, "call %" PRIu64 ": its deadline is past", call->serial);
        if (call->heard && sim->n_gone == 0 && sim->trainer[call->trainer].peer != call->call.peer)
            sim_fail(sim, "call %" PRIu64 ": its peer is gone, and it still waits", call->serial);
    }
}

void check_world(struct sim *sim, bool all)
{
    uint32_t errands = 0;
    struct arena_stats arena;
    if (sim->engine == NULL)
        return;
    arena_stats(sim->engine->arena, &arena);
    if (arena.bytes > arena.budget)
        sim_fail(sim, "arena: %" PRIu64 " bytes of %" PRIu64, arena.bytes, arena.budget);
    for (uint32_t s = 0; s < sim->of.n_streams; s++) {
        const struct served *served = &sim->engine->stream[s];
        struct slots_stats slots;
        slots_stats(served->slots, &slots);
        uint32_t held = check_cursors(sim, served, all, &errands);
        if (slots.used != held || slots.leased > slots.slots / 4 + 1)
            sim_fail(sim, "slots: %u used, %u held, %u leased of %u", slots.used, held, slots.leased, slots.slots);
        if (served->orphans != NULL)
            sim_fail(sim, "stream %u: a task nobody waits for was not taken back", s);
        if (served->drops.more > 0 && sim->engine->drops.heap == 0)
            sim_fail(sim, "stream %u: %" PRIu64 " dropped rows are not in the log, nor will it say so", s, served->drops.more);
    }
    if (errands != sim->n_tasks)
        sim_fail(sim, "pool: %u tasks, cursors know of %u", sim->n_tasks, errands);
    check_calls(sim);
    check_files(sim);
    check_pieces(sim);
    if (sim->must_forget)
        sim_fail(sim, "a wrong count was found, and the states made of it are kept");
    for (uint32_t i = 0; all && i < sim->n_leases; i++)
        check_lease(sim, &sim->lease[i]);
}
