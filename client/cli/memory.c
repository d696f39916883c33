#include "client/cli/memory.h"

#include "client/cli/output.h"
#include "host/footprint.h"
#include "host/slots.h"

#include <string.h>

static void line(struct lk_buf *out, const char *before, uint64_t bytes, const char *after)
{
    lk_buf_puts(out, before);
    put_bytes(out, bytes);
    lk_buf_puts(out, after);
}

void put_stream_memory(struct lk_buf *out, const struct lk_config *config, const struct lk_recipe *recipe)
{
    const struct lk_runtime *runtime = &config->runtime;
    struct slots_grant grant = slots_granted(runtime, config->n_streams, recipe);
    struct lk_state_bytes state = lk_recipe_state_bytes(recipe);
    line(out, "  a step      ", grant.step_bytes, " of tokens at most; ");
    lk_buf_putf(out, "%u steps are made ahead, batch memory has room for %u\n", runtime->prefetch_steps, grant.slots);
    line(out, "  buffers     about ", state.usual, " in all ");
    lk_buf_putf(out, "%u lanes, when full; ", recipe->lanes);
    line(out, "", state.most, " if every document were one token long\n");
}

static void put_together(struct lk_buf *out, uint64_t total)
{
    struct machine_memory there;
    machine_memory_read("", &there);
    line(out, "  together    up to about ", total, "");
    if (there.from == NULL) {
        lk_buf_puts(out, "; what there is could not be found out\n");
        return;
    }
    lk_buf_puts(out, ", ");
    put_percent(out, total, there.bytes);
    line(out, " of ", there.bytes, " (");
    put_safe(out, there.from, strlen(there.from));
    lk_buf_puts(out, total > there.bytes ? "): more than there is\n" : ")\n");
    machine_memory_done(&there);
}

void put_memory(struct lk_buf *out, const struct lk_config *config)
{
    const struct lk_runtime *runtime = &config->runtime;
    struct footprint f;
    footprint_of(config, &f);
    lk_buf_puts(out, "memory that the daemon and its workers may take, for all streams\n");
    line(out, "  arena       ", f.arena, ": tokens, and ready batches in at most half of it\n");
    line(out, "  training    up to ", f.training, " beside it: arrays that trainers ask for (labels, positions, …)\n");
    line(out, "  state       about ", f.state.usual, ", at most ");
    line(out, "", f.state.most, "");
    lk_buf_putf(out, ": the lanes' buffers, at up to %u places of a stream at once (max_cursors)\n", runtime->cursors_max);
    if (f.cache > 0)
        line(out, "  cache       ", f.cache, ": decompressed shards, in all workers together\n");
    if (f.counts > 0)
        line(out, "  counts      ", f.counts, ": counts of rows that were measured before\n");
    line(out, "  processes   about ", f.processes, "");
    lk_buf_putf(out, ": the daemon and %u worker%s, with their tokenizers\n", runtime->workers,
                runtime->workers == 1 ? "" : "s");
    put_together(out, f.total);
}

void json_stream_memory(struct lk_buf *out, const struct lk_config *config, const struct lk_recipe *recipe)
{
    const struct lk_runtime *runtime = &config->runtime;
    struct slots_grant grant = slots_granted(runtime, config->n_streams, recipe);
    struct lk_state_bytes state = lk_recipe_state_bytes(recipe);
    lk_buf_puts(out, "{");
    json_u64(out, false, "step_token_bytes", grant.step_bytes);
    json_u64(out, true, "prefetch_steps", runtime->prefetch_steps);
    json_u64(out, true, "room_steps", grant.slots);
    json_u64(out, true, "cursor_state_bytes", state.usual);
    json_u64(out, true, "cursor_state_bytes_most", state.most);
    json_u64(out, true, "cursors_max", runtime->cursors_max);
    json_u64(out, true, "snapshot_files",
             runtime->snapshot_every == 0 ? 0 : (uint64_t)runtime->snapshot_keep * recipe->lanes);
    lk_buf_puts(out, "}");
}

void json_memory(struct lk_buf *out, const struct lk_config *config)
{
    struct footprint f;
    struct machine_memory there;
    footprint_of(config, &f);
    machine_memory_read("", &there);
    lk_buf_puts(out, "{");
    json_u64(out, false, "arena_bytes", f.arena);
    json_u64(out, true, "training_bytes_most", f.training);
    json_u64(out, true, "state_bytes", f.state.usual);
    json_u64(out, true, "state_bytes_most", f.state.most);
    json_u64(out, true, "cache_bytes", f.cache);
    json_u64(out, true, "counts_bytes", f.counts);
    json_u64(out, true, "process_bytes", f.processes);
    json_u64(out, true, "total_bytes", f.total);
    json_key(out, true, "there_bytes"); /* null: not known */
    if (there.from == NULL) {
        lk_buf_puts(out, "null}");
        return;
    }
    lk_buf_putf(out, "%llu", (unsigned long long)there.bytes);
    json_text(out, true, "there_from", there.from);
    lk_buf_puts(out, "}");
    machine_memory_done(&there);
}
