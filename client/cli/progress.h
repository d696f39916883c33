/*
 * How far a long job has come, on standard error: a bar with rate and remaining time on a terminal,
 * a plain line now and then elsewhere.
 */
#ifndef LK_CLIENT_CLI_PROGRESS_H
#define LK_CLIENT_CLI_PROGRESS_H

#include "format/index.h"

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* borrowed */
    const char *unit; /* of what is counted: "rows"; borrowed */
    const char *of;   /* of what is done and to be done; NULL: bytes */
    bool terminal;
    bool drawn;         /* a bar is on the line */
    uint64_t began_ns;
    uint64_t last_ns;   /* when something was last written */
};

uint64_t progress_now_ns(void);

void progress_init(struct progress *progress, const char *what);
struct lk_progress progress_hook(struct progress *progress); /* for a job to report to */

/* For a loop that reports each turn: draws now and then, once the job has taken a second, and where there
 * is a terminal only. @all: 0 where it is not known. */
void progress_tick(struct progress *progress, uint64_t done, uint64_t all, uint64_t rows);

void progress_done(struct progress *progress);               /* wipes the bar */

#endif
