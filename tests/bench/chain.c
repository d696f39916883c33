#include "tests/bench/chain.h"

#include "op/measure.h"
#include "store/file.h"

#include <stdlib.h>

struct chain {
    struct lk_measure *measure;
    struct lk_shard_cache *cache;
    const char *root, *shard;
    uint64_t data_bytes;
    struct lk_tokens tokens;
    uint32_t *counts;
    uint32_t cap;
};

struct chain *chain_new(const struct lk_tokenizer *tokenizer, const char *root, const char *shard,
                        uint64_t data_bytes)
{
    struct chain *chain = lk_zalloc(1, sizeof *chain);
    struct lk_measure_spec spec = {.tokenizer = tokenizer, .text = "text"};
    *chain = (struct chain){.measure = lk_measure_new(&spec),
                            .cache = lk_shard_cache_new(lk_file_opener(), 4, 1 << 20),
                            .root = root,
                            .shard = shard,
                            .data_bytes = data_bytes};
    return chain;
}

void chain_free(struct chain *chain)
{
    lk_measure_free(chain->measure);
    lk_shard_cache_free(chain->cache);
    lk_tokens_done(&chain->tokens);
    free(chain->counts);
    free(chain);
}

static enum lk_code each(void *owner, uint32_t i, const uint8_t *bytes, uint32_t n_bytes,
                         struct lk_err *err)
{
    struct chain *chain = owner;
    struct lk_measured measured;
    LK_TRY(lk_measure_row(chain->measure, bytes, n_bytes, &chain->tokens, &measured, err));
    chain->counts[i] = measured.tokens;
    return LK_OK;
}

enum lk_code chain_run(struct chain *chain, const struct lk_row_span *rows, uint32_t n,
                       const uint32_t **ret_counts, const struct lk_tokens **ret_tokens,
                       struct lk_err *err)
{
    if (n > chain->cap)
        chain->counts = lk_resize(chain->counts, chain->cap = n, sizeof *chain->counts);
    chain->tokens.n = 0;
    LK_TRY(lk_shard_read_rows(chain->cache, chain->root, chain->shard, LK_CODEC_PLAIN,
                              chain->data_bytes, rows, n, each, chain, err));
    *ret_counts = chain->counts;
    *ret_tokens = &chain->tokens;
    return LK_OK;
}
