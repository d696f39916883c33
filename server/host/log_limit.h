/*
 * What may happen any number of times must not fill the log: its first times are written, each, and from
 * then on a line in a while says how many more there were. One of these a kind of thing; zeroed is new.
 */
#ifndef LK_HOST_LOG_LIMIT_H
#define LK_HOST_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct log_limit {
    uint64_t seen;   /* how often it has happened */
    uint64_t told;   /* … as of the last line */
    int64_t told_ms; /* when log_limit_more last said how many */
};

/* It has happened once more. True: it is one of the first @n, and to be written. */
bool log_limit_first(struct log_limit *limit, uint64_t n);

/* How often it has happened since the last line, if there is to be one that says so now: it is the first,
 * or the one before was @every_ms ago. Else 0. */
uint64_t log_limit_more(struct log_limit *limit, int64_t every_ms, int64_t now_ms);

#endif
