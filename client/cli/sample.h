/*
 * What a daemon said of itself at one moment; two of them give its speed.
 */
#ifndef LK_CLIENT_CLI_SAMPLE_H
#define LK_CLIENT_CLI_SAMPLE_H

#include "base/status.h"
#include "client/c/lanekeeper.h"
#include "client/cli/value.h"

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: there is none. */
struct sample {
    struct value status;
    int64_t at_ms; /* of sample_now_ms */
};

int64_t sample_now_ms(void);      /* monotonic */
void sample_pause_ms(uint32_t ms);

/* INVALID_ARGUMENT when @json is no document. */
enum lk_code sample_parse(const char *json, int64_t at_ms, struct sample *ret_sample, struct lk_err *err);
void sample_done(struct sample *sample); /* safe on a zeroed one, and twice */

/* The stream of that name; an empty value when the sample has none. */
const struct value *sample_stream(const struct sample *sample, const char *name);

/*
 * What cursor @i of that stream in @new was in @old; an empty value when it was not there. Cursors have no
 * names and their windows move, forward only: the one of @old that is nearest behind it is meant, unless it
 * is nearer to another one of @new.
 */
const struct value *sample_cursor(const struct sample *old, const struct sample *new, const char *stream,
                                  size_t i);

#endif
