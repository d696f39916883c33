/*
 * The inverse of a trace: in which steps a row is used. The plan tells at once which lane draws it and
 * where in its order; only running the lane tells in which step what was drawn comes out, so steps are
 * traced, as many as are asked for, and no answer goes beyond them.
 */
#ifndef LK_CLIENT_CLI_FIND_H
#define LK_CLIENT_CLI_FIND_H

#include "client/cli/cli.h"

struct find_row {
    const char *dataset, *shard;
    uint64_t row_in_shard;
    struct steps within;
};

/* Prints what was found. EXIT_WELL: it is used in those steps; EXIT_PROBLEM: it is not, or a failure. */
int find_run(struct cli *cli, const struct find_row *find);

#endif
