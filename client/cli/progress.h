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
    bool terminal;
    bool drawn;         /* a bar is on the line */
    uint64_t began_ns;
    uint64_t last_ns;   /* when something was last written */
};

uint64_t progress_now_ns(void);

void progress_init(struct progress *progress, const char *what);
struct lk_progress progress_hook(struct progress *progress); /* for a job to report to */
void progress_done(struct progress *progress);               /* wipes the bar */

#endif
