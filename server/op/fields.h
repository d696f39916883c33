/*
 * Decoding a JSON row: the values of a few fields out of one record, in one pass, everything
 * validated.
 *
 * A field is named by a dotted path of object keys ("body.content"); "\." is a dot inside a key and
 * "\\" a backslash. Of duplicate keys the last one wins, at each level, as in Python's json: after
 * {"a":{"b":1},"a":2} there is no a.b. Elements of arrays have no path.
 */
#ifndef LK_OP_FIELDS_H
#define LK_OP_FIELDS_H

#include "base/json.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_ROW_FIELDS_MAX 64

struct lk_row_field {
    bool found;
    enum lk_json_type type; /* when found */
    /* Strings: the decoded bytes. Numbers, true, false, null: as written. Arrays and objects: none.
     * Valid until the next row is read, and as long as the row's bytes are. */
    const uint8_t *bytes;
    size_t n;
    size_t at; /* offset of the value in the row, for messages */
};

struct lk_row_reader; /* for one thread: which fields, and scratch memory */

/* @paths: 1…LK_ROW_FIELDS_MAX of them; not kept. Every path names a field, the empty one the key "". */
struct lk_row_reader *lk_row_reader_new(const char *const *paths, size_t n);
void lk_row_reader_free(struct lk_row_reader *reader); /* NULL is fine */

/*
 * Reads a row. INVALID_ARGUMENT, "byte N: …", when it is anything but one JSON value; a byte-order
 * mark is an error here (the one that may begin a file belongs to no row). A field that is not there
 * is no error, nor is a row that is no object: nothing is found in it.
 */
enum lk_code lk_row_read(struct lk_row_reader *reader, const uint8_t *row, size_t bytes,
                         struct lk_err *err);

/* What the last row that was read without an error has for path @i. */
const struct lk_row_field *lk_row_field(const struct lk_row_reader *reader, size_t i);

#endif
