/*
 * Measuring datasets ahead of time: every row whose counts are not known is measured by worker processes of
 * the command's own, and kept in the counts cache: all that was measured when it ends in order, also by
 * SIGINT, SIGTERM or SIGHUP, and but for some seconds of work when it is killed. The next one goes on from there.
 */
#ifndef LK_CLIENT_CLI_MEASURE_H
#define LK_CLIENT_CLI_MEASURE_H

#include "client/cli/tally.h"
#include "config/config.h"
#include "host/stream.h"

#include <stdbool.h>
#include <stdint.h>

struct measure_options {
    const char *stream;  /* NULL: all of the configuration */
    const char *dataset; /* NULL: all of them */
    uint32_t jobs;       /* worker processes */
    bool again;          /* measure known rows too, and compare */
    bool dropped;        /* list dropped rows on standard output, as client/cli/drops.h says, */
    bool json;           /* each an object */
};

/* A dataset, measured in one way. Streams that measure it alike share it. */
struct measure_dataset {
    uint32_t stream, dataset; /* in measure_result.stream, the first such; in its recipe */
    uint64_t known;           /* rows that were known before */
    struct tally tally;
};

struct measure_result {
    struct stream *stream;    /* [n_streams] those asked for */
    uint32_t n_streams;
    struct measure_dataset *dataset;
    uint32_t n;
    uint64_t measured;        /* rows */
    uint64_t wrong;           /* of them, contradicted what was kept: named on standard error */
    int stopped;              /* the signal that ended it, or 0 */
};

/*
 * NOT_FOUND: no such dataset. CANCELLED: stopped by a signal. A row that cannot be measured, by the recipe's rules, or
 * that crashes three workers, ends it, and is named; so does a list that cannot be written. Progress is written to
 * standard error. measure_done in any case.
 */
enum lk_code measure_run(const struct lk_config *config, const struct measure_options *options,
                         struct measure_result *ret_result, struct lk_err *err);
void measure_done(struct measure_result *result);

#endif
