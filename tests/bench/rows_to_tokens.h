/*
 * What is left of a tokenizer's speed once rows are read, checked, parsed and filtered, and the ids kept
 * in the arena: the worker's own code (worker/task.h) over whole datasets, against the tokenizer alone over
 * the same documents in memory. One thread, CPU time, the two in turns.
 */
#ifndef LK_TESTS_BENCH_ROWS_TO_TOKENS_H
#define LK_TESTS_BENCH_ROWS_TO_TOKENS_H

#include "base/status.h"

/* Datasets are folders of JSON Lines whose text is in @field; @tokenizer is a tokenizer.json. Prints a line
 * a pass and the medians at the end: cold (new caches of pieces), then warm (the same documents again). */
enum lk_code rows_to_tokens(const char *tokenizer, const char *field, const char *const *datasets,
                            unsigned n_datasets, struct lk_err *err);

#endif
