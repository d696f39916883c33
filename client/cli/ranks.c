#include "client/cli/ranks.h"

#include "core/value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>

/* A connection takes some descriptors, and 1,024 are soon used up. */
static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int ranks_open(struct ranks *ranks, struct cli *cli, uint32_t world, enum lanekeeper_sharing sharing)
{
    *ranks = (struct ranks){.world = world, .sharing = sharing};
    ranks->handle = lk_zalloc(world, sizeof(struct lanekeeper *));
    allow_descriptors();
    for (uint32_t rank = 0; rank < world; rank++) {
        struct lanekeeper_options options;
        lanekeeper_options_init(&options);
        options.rank = rank;
        options.world = world;
        options.lookahead = 0;
        options.sharing = sharing;
        int status = cli_connect(cli, &options, &ranks->handle[rank]);
        if (status >= 0)
            return status;
    }
    return -1;
}

void ranks_close(struct ranks *ranks)
{
    for (uint32_t rank = 0; ranks->handle != NULL && rank < ranks->world; rank++)
        lanekeeper_close(ranks->handle[rank]);
    free(ranks->handle);
    *ranks = (struct ranks){0};
}

static struct lk_digest digest_row(const struct lanekeeper_batch *batch, uint32_t r)
{
    const struct lanekeeper_row *row = &batch->row[r];
    struct lk_span *span = lk_zalloc(row->n_parts > 0 ? row->n_parts : 1, sizeof *span);
    for (uint32_t i = 0; i < row->n_parts; i++)
        span[i].tokens = batch->part[row->first_part + i].tokens;
    struct lk_digest digest = value_sequence(batch->tokens + (size_t)r * batch->sequence,
                                             batch->sequence, span, row->n_parts);
    free(span);
    return value_placed(digest, batch->step, batch->first_row + r);
}

int ranks_digest(struct ranks *ranks, struct cli *cli, uint64_t step, struct lk_digest *ret_digest)
{
    struct lk_digest sum = {0};
    for (uint32_t rank = 0; rank < ranks->world; rank++) {
        struct lanekeeper_batch batch;
        struct lk_digest cut = {0};
        enum lanekeeper_code code = lanekeeper_get(ranks->handle[rank], step, &batch);
        if (code != LANEKEEPER_OK)
            return cli_fail_call(cli, ranks->handle[rank], (int)code);
        for (uint32_t r = 0; r < batch.rows; r++)
            cut = lk_digest_add(cut, digest_row(&batch, r));
        bool same = lk_digest_equal(cut, lk_digest_get(batch.digest));
        ranks->batches++;
        ranks->batches_shared += batch.shared != 0;
        lanekeeper_release(&batch);
        if (!same)
            return cli_fail(cli, LANEKEEPER_DATA_LOSS,
                            "step %" PRIu64 ", rank %u of %u: the tokens received do not have the "
                            "digest that came with them",
                            step, rank, ranks->world);
        sum = lk_digest_add(sum, cut);
    }
    *ret_digest = sum;
    return -1;
}
