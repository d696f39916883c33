/*
 * A small corpus for tests: JSONL rows whose texts are a function of their numbers, indexed, with
 * the recipe of a stream that reads it as bytes. What each row must give is known without the code
 * under test: with the `bytes` tokenizer a token is a byte.
 */
#ifndef LK_TESTS_LIB_CORPUS_H
#define LK_TESTS_LIB_CORPUS_H

#include "core/recipe.h"
#include "format/index.h"
#include "host/pool.h"

#include <stdbool.h>
#include <stdint.h>

struct corpus {
    char dir[64];
    char *path;        /* of the data: <dir>/data/docs.jsonl, while it is in one shard */
    char *root;
    uint32_t rows;
    struct lk_index index;
    struct lk_dataset_recipe dataset;
    struct lk_recipe recipe;
    const char *roots[1];
    struct pool_stream stream;
};

/* The text of row @i, freshly allocated; @bytes around its length. */
char *corpus_text(uint32_t i, uint32_t bytes);

/* @special: row @special_at has this line instead (NULL: none). */
void corpus_make(struct corpus *corpus, uint32_t rows, uint32_t bytes, const char *special,
                 uint32_t special_at);
/* Puts its rows, in their order, into @shards shards, docs-000.jsonl and so on; every other one is compressed. */
void corpus_split(struct corpus *corpus, uint32_t shards);
void corpus_done(struct corpus *corpus); /* removes the directory */

/* <directory of the running test>/<relative> */
char *beside_test(const char *relative);

#endif
