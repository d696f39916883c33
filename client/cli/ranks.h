/*
 * Steps fetched as ranks fetch them: every rank's cut of a step, by the wire and by shared memory, and
 * what was received digested again here.
 */
#ifndef LK_CLIENT_CLI_RANKS_H
#define LK_CLIENT_CLI_RANKS_H

#include "base/digest.h"
#include "client/cli/cli.h"

#define RANKS_MAX 256

struct ranks {
    uint32_t world;
    enum lanekeeper_sharing sharing;
    struct lanekeeper **handle; /* [world] */
    uint64_t batches, batches_shared;
};

/* Connects all ranks; as cli_connect. ranks_close in any case. */
int ranks_open(struct ranks *ranks, struct cli *cli, uint32_t world, enum lanekeeper_sharing sharing);
void ranks_close(struct ranks *ranks); /* safe on a zeroed one */

/* The sum of the digests of all cuts of @step. -1, or the exit status after saying that a call failed,
 * or that a cut's tokens do not have the digest that came with them. */
int ranks_digest(struct ranks *ranks, struct cli *cli, uint64_t step, struct lk_digest *ret_digest);

#endif
