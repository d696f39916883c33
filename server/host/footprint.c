#include "host/footprint.h"

#include "config/keys.h"
#include "config/scalar.h"
#include "host/slots.h"

#include <string.h>

#define DAEMON_BYTES (64ull << 20)

static void add(uint64_t *sum, uint64_t bytes)
{
    if (__builtin_add_overflow(*sum, bytes, sum))
        *sum = UINT64_MAX;
}

static uint64_t times(uint64_t bytes, uint64_t n)
{
    return __builtin_mul_overflow(bytes, n, &bytes) ? UINT64_MAX : bytes;
}

void footprint_of(const struct lk_config *config, struct footprint *ret_footprint)
{
    const struct lk_runtime *runtime = &config->runtime;
    struct footprint f = {.arena = runtime->arena_bytes,
                          .cache = runtime->workers > 0 ? runtime->cache_bytes : 0,
                          .counts = runtime->counts_bytes > 0 ? runtime->counts_memory : 0,
                          .processes = DAEMON_BYTES + runtime->workers * FOOTPRINT_WORKER_BYTES};
    for (uint32_t s = 0; s < config->n_streams; s++) {
        const struct lk_recipe *recipe = &config->stream[s];
        struct slots_grant grant = slots_granted(runtime, config->n_streams, recipe);
        struct lk_state_bytes state = lk_recipe_state_bytes(recipe);
        add(&f.training, times(lk_training_bytes_max(grant.rows, recipe->sequence), grant.leased_max));
        add(&f.state.usual, times(state.usual, runtime->cursors_max));
        add(&f.state.most, times(state.most, runtime->cursors_max));
    }
    const uint64_t part[] = {f.arena, f.training, f.state.usual, f.cache, f.counts, f.processes};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        add(&f.total, part[i]);
    *ret_footprint = f;
}

/* Most likely nobody wrote it. */
static bool arena_is_default(const struct lk_config *config)
{
    struct lk_buf arena = {0};
    size_t n;
    const struct lk_key *key = &lk_keys(&n)[lk_key_find("runtime", "arena")];
    lk_put_size(&arena, config->runtime.arena_bytes);
    bool same = strcmp(lk_buf_cstr(&arena), key->def) == 0;
    lk_buf_done(&arena);
    return same;
}

static void put_excess(struct lk_buf *out, const struct lk_config *config, const struct machine_memory *there)
{
    lk_buf_putf(out, "%s: runtime.arena: ", config->path);
    lk_put_size(out, config->runtime.arena_bytes);
    lk_buf_puts(out, arena_is_default(config) ? " (the default)" : "");
    lk_buf_puts(out, " is more than the memory there is: ");
    lk_put_about(out, there->bytes);
    lk_buf_putf(out, " (%s); ", there->from);
}

static enum lk_code fail_arena(const struct lk_config *config, const struct machine_memory *there, struct lk_err *err)
{
    struct lk_buf excess = {0};
    put_excess(&excess, config, there);
    enum lk_code code = lk_fail(err, LK_RESOURCE_EXHAUSTED, "%sset it to what can be spared for tokens and ready batches",
                                lk_buf_cstr(&excess));
    lk_buf_done(&excess);
    return code;
}

void footprint_lower_arena(struct lk_config *config, const struct machine_memory *there, bool always, struct lk_buf *notes)
{
    if (config->runtime.arena_bytes <= there->bytes || !(always || arena_is_default(config)))
        return;
    put_excess(notes, config, there);
    lk_buf_puts(notes, "half of that is used\n");
    config->runtime.arena_bytes = there->bytes / 2;
}

static void put_part(struct lk_buf *out, const char *before, uint64_t bytes)
{
    if (bytes == 0)
        return;
    lk_buf_puts(out, before);
    lk_put_about(out, bytes);
}

static void note_total(const struct lk_config *config, const struct footprint *f, const struct machine_memory *there,
                       struct lk_buf *notes)
{
    lk_buf_putf(notes, "%s: runtime: up to about ", config->path);
    lk_put_about(notes, f->total);
    put_part(notes, " may be taken (arena ", f->arena);
    put_part(notes, ", training arrays up to ", f->training);
    put_part(notes, ", lanes' buffers about ", f->state.usual);
    put_part(notes, ", cache ", f->cache);
    put_part(notes, ", counts.memory ", f->counts);
    put_part(notes, ", daemon and workers about ", f->processes);
    lk_buf_puts(notes, "), and there are ");
    lk_put_about(notes, there->bytes);
    lk_buf_putf(notes, " (%s), for trainers and all else, too; when memory is used up the kernel ends processes\n", there->from);
}

enum lk_code footprint_check(const struct lk_config *config, const struct machine_memory *there, struct lk_buf *notes,
                             struct lk_err *err)
{
    struct footprint f;
    footprint_of(config, &f);
    if (f.arena > there->bytes && !arena_is_default(config))
        return fail_arena(config, there, err);
    if (f.total > there->bytes / 10 * 9 && there->from != NULL)
        note_total(config, &f, there, notes);
    return LK_OK;
}
