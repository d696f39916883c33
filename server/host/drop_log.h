/*
 * What the log says of the rows of a stream that are dropped. What is broken is worth a warning, but data
 * may have millions of such rows: the first of each dataset and rule are written in full, and then, once
 * a minute, how many more there were. What a filter drops is meant to be dropped. At the level of debug
 * all of them are listed, as `lanekeeper measure --dropped` does; how many they are says `lanekeeper status`.
 */
#ifndef LK_HOST_DROP_LOG_H
#define LK_HOST_DROP_LOG_H

#include "host/log.h"
#include "host/log_limit.h"
#include "host/stream.h"
#include "op/measure.h"

#include <stdint.h>

#define DROP_LOG_FIRST 20
#define DROP_LOG_EVERY_MS 60000

struct drop_log {
    const struct stream *stream;
    const struct log *log;
    struct log_limit (*row)[LK_DROP_KINDS]; /* [n_datasets] */
    struct log_limit (*why)[LK_DROP_KINDS]; /* [n_datasets] */
    uint64_t more;                          /* of @row, those that nothing was written of */
};

/* Both are borrowed. */
void drop_log_init(struct drop_log *drops, const struct stream *stream, const struct log *log);
void drop_log_done(struct drop_log *drops); /* of a zeroed one is fine */

/* @row of @dataset was drawn and dropped. */
void drop_log_row(struct drop_log *drops, uint32_t dataset, uint64_t row, enum lk_drop drop);

/* Why it will be: with the byte, which whoever draws it does not know. Nothing, if @why is "". */
void drop_log_why(struct drop_log *drops, uint32_t dataset, uint64_t row, enum lk_drop drop, const char *why);

/* Writes how many more there were, a line a dataset. To be called DROP_LOG_EVERY_MS after @more became
 * greater than 0, and at the end. */
void drop_log_sum(struct drop_log *drops);

#endif
