/*
 * Opens the tokenizer in a directory: tokenizer.json, or encoder.json/vocab.json with
 * vocab.bpe/merges.txt; and tokenizer_config.json where there is one. For tests and benchmarks.
 */
#ifndef LK_TESTS_TOKENIZER_FILES_H
#define LK_TESTS_TOKENIZER_FILES_H

#include "op/tokenise/tokenizer.h"

#include <stdio.h>

/* The whole file, or NULL when it cannot be read. The caller frees. */
uint8_t *lk_test_read(const char *directory, const char *name, size_t *ret_n);
/* Likewise; reads all of an open file. */
uint8_t *lk_test_read_all(FILE *file, size_t *ret_n);

/* @directory "bytes" is the bytes tokenizer. NOT_FOUND when there are no such files. */
enum lk_code lk_test_tokenizer(const char *directory, enum lk_special_in_text special,
                               struct lk_tokenizer **ret_tokenizer, struct lk_err *err);

#endif
