/*
 * JSON Lines: where the rows of a stream of bytes lie. Nothing of a row but its ends is looked at.
 *
 * A line ends with 0A, or with the data; only 0A does (U+2028, U+0085, VT, FF are text). A CR right
 * before the end of a line is no part of the row. A row is a line that has a byte other than space,
 * tab and CR; other lines are counted, and skipped. A UTF-8 byte-order mark at the very beginning
 * belongs to no row; data that begin as UTF-16 or UTF-32 do are refused.
 *
 * How the bytes are cut into pieces changes nothing, and memory does not grow with a row's length.
 */
#ifndef LK_FORMAT_JSONL_H
#define LK_FORMAT_JSONL_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct lk_jsonl;

struct lk_jsonl_row {
    uint64_t offset; /* in the data */
    uint32_t bytes;  /* 1…LK_ROW_BYTES_MAX */
    uint32_t hash;   /* lk_hash32 of them */
};

/* Called for each row in order; a code other than OK ends the call it came in. */
typedef enum lk_code lk_jsonl_each(void *owner, const struct lk_jsonl_row *row,
                                   struct lk_err *err);

struct lk_jsonl *lk_jsonl_new(lk_jsonl_each *each, void *owner);
void lk_jsonl_free(struct lk_jsonl *jsonl);

/* Errors are INVALID_ARGUMENT, name line and byte, and end it: nothing may be put after one. */
enum lk_code lk_jsonl_put(struct lk_jsonl *jsonl, const uint8_t *bytes, size_t n,
                          struct lk_err *err);
enum lk_code lk_jsonl_end(struct lk_jsonl *jsonl, struct lk_err *err);

#endif
