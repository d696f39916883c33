/*
 * The canonical form of a recipe, and the digests that identify what it produces.
 *
 * The canonical form is a text of lines, each ended by '\n', with one space between words, always
 * complete (a default is written like any other value) and in this order:
 *
 *   lanekeeper-order 1                         the order_version: core/plan.h
 *   seed <n>
 *   lanes <n>
 *   sequence <tokens>
 *   tokenizer bytes|hf|pair|tiktoken
 *   scheme <text>                              with tiktoken only
 *   append <text>|none                         as in the recipe; the tokenizer's digest fixes its id
 *   prepend <text>|none
 *   special_in_text split|text|error
 *   mixture tokens|bytes|samples
 *   block_rows <n>|shard
 *   blocks permuted|sequential
 *   rows permuted|sequential
 *   on_bad_row error|drop
 *   on_crash error|drop
 *   dataset <text> text <text> weight <n> epochs <n> then repeat|stop|release group <n>
 *                                              one a dataset, sorted by the bytes of their names;
 *                                              the weights have no common divisor; epochs is 0 with
 *                                              repeat; groups are numbered by their first dataset
 *   filter min_bytes <n> max_bytes <n>|none min_tokens <n> max_tokens <n>|none field <text>|none equals <text>|none
 *                                              one a filter, in the recipe's order
 *   split max_tokens <n>                       the stages, in the recipe's order
 *   shuffle buffer <n>
 *   pack concat|first_fit|best_fit|exact_fit pool <n> groups <n>
 *                                              pool is 0 with concat
 *   tail drop|pad
 *   pad_id <n>
 *
 * <n> is a decimal integer. <text> stands in double quotes; in it, a double quote and a backslash
 * follow a backslash, and a byte below 0x20 or equal to 0x7f is \x and two hexadecimal digits.
 *
 * The batch text has one line an entry, without those that repeat the size before them:
 *
 *   batch from <step> size <sequences>
 *
 *   order digest  = XXH3-128 of: the canonical form,
 *                   then "data <hex>\n" for each dataset in the same order (its index's digest),
 *                   then "tokenizer-data <hex>\n" (the tokenizer's digest)
 *   stream digest = XXH3-128 of: "order <hex of the order digest>\n", then the batch text
 *
 * What can change what measuring a row yields has a digest of its own, for each dataset: the ops digest. It
 * is XXH3-128 of: "lanekeeper-counts <n>\n" (LK_COUNTS_VERSION), the lines from tokenizer to
 * special_in_text, on_bad_row and on_crash, "text <text>\n", the filters, and "tokenizer-data <hex>\n".
 *
 * <hex> is 32 lower-case digits, high half first. The stream's name, paths and the runtime settings
 * are in neither: data and tokenizer enter by what they are, not by where they lie.
 */
#ifndef LK_CONFIG_CANONICAL_H
#define LK_CONFIG_CANONICAL_H

#include "base/digest.h"
#include "base/mem.h"
#include "core/recipe.h"

#define LK_COUNTS_VERSION 1 /* names how rows are measured: a change of it makes kept counts worthless */

/* Appends both texts. */
void lk_recipe_canonical(const struct lk_recipe *recipe, struct lk_buf *order_text,
                         struct lk_buf *batch_text);

/* @dataset_digest: [recipe->n_datasets], of their indexes, in the recipe's order. */
void lk_recipe_digests(const struct lk_recipe *recipe, const struct lk_digest *dataset_digest,
                       struct lk_digest tokenizer, struct lk_digest *ret_order,
                       struct lk_digest *ret_stream);

/* How rows of dataset @dataset are measured. */
struct lk_digest lk_recipe_ops_digest(const struct lk_recipe *recipe, uint32_t dataset,
                                      struct lk_digest tokenizer);

#endif
