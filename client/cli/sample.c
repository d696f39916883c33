#include "client/cli/sample.h"

#include <string.h>
#include <time.h>

int64_t sample_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void sample_pause_ms(uint32_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL);
}

enum lk_code sample_parse(const char *json, int64_t at_ms, struct sample *ret_sample, struct lk_err *err)
{
    struct sample sample = {.at_ms = at_ms};
    LK_TRY(value_parse(json, &sample.status, err));
    *ret_sample = sample;
    return LK_OK;
}

void sample_done(struct sample *sample)
{
    value_done(&sample->status);
    sample->at_ms = 0;
}

const struct value *sample_stream(const struct sample *sample, const char *name)
{
    const struct value *streams = value_get(&sample->status, "streams");
    for (size_t s = 0; s < streams->n; s++) {
        if (strcmp(value_text(&streams->child[s], "name"), name) == 0)
            return &streams->child[s];
    }
    return value_get(streams, "none");
}

static bool is_behind(const struct value *old, const struct value *new)
{
    static const char *const rising[] = {"first_step", "next_step", "tokens_out", "sequences_made"};
    for (size_t k = 0; k < sizeof rising / sizeof *rising; k++) {
        if (value_u64(old, rising[k]) > value_u64(new, rising[k]))
            return false;
    }
    return true;
}

const struct value *sample_cursor(const struct sample *old, const struct sample *new, const char *stream,
                                  size_t i)
{
    const struct value *were = value_get(sample_stream(old, stream), "cursors");
    const struct value *are = value_get(sample_stream(new, stream), "cursors");
    const struct value *none = value_get(are, "none"), *best = none;
    for (size_t k = 0; i < are->n && k < were->n; k++) {
        const struct value *was = &were->child[k];
        bool nearer = best == none || value_u64(was, "next_step") > value_u64(best, "next_step");
        if (nearer && is_behind(was, &are->child[i]))
            best = was;
    }
    for (size_t k = 0; best != none && k < are->n; k++) {
        if (k != i && is_behind(best, &are->child[k]) &&
            value_u64(&are->child[k], "next_step") < value_u64(&are->child[i], "next_step"))
            best = none;
    }
    return best;
}
