/*
 * The two forms of `lanekeeper explain`.
 */
#ifndef LK_CLIENT_CLI_EXPLAIN_H
#define LK_CLIENT_CLI_EXPLAIN_H

#include "client/cli/cli.h"
#include "client/cli/exact.h"
#include "client/cli/facts.h"

struct explain {
    struct cli cli;
    uint32_t sample; /* rows of each dataset */
    uint32_t steps;  /* to run over known counts; 0: to the end */
    bool estimate;   /* do not run */
    struct stream stream;
    struct facts facts;
    struct exact exact;
    struct lk_buf out;
};

void explain_text(struct explain *e);
void explain_json(struct explain *e);

const char *explain_then(enum lk_then then);
extern const char *const explain_units[];    /* by enum lk_mixture_unit */
extern const char *const explain_packs[];    /* by enum lk_pack */
extern const char *const explain_specials[]; /* by enum lk_specials */

#endif
