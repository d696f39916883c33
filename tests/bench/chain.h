/* The measuring chain without a pool: reads rows of one shard and tokenises their field "text". */
#ifndef LK_TESTS_BENCH_CHAIN_H
#define LK_TESTS_BENCH_CHAIN_H

#include "format/format.h"
#include "op/tokenise/tokenizer.h"

struct chain;

struct chain *chain_new(const struct lk_tokenizer *tokenizer, const char *root, const char *shard,
                        uint64_t data_bytes);
void chain_free(struct chain *chain);

/* *ret_counts: [n] tokens of each row; both results are valid until the next call. */
enum lk_code chain_run(struct chain *chain, const struct lk_row_span *rows, uint32_t n,
                       const uint32_t **ret_counts, const struct lk_tokens **ret_tokens,
                       struct lk_err *err);

#endif
