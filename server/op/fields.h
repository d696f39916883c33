/*
 * Decoding a JSON row: the values of a few fields out of one record, everything validated.
 */
#ifndef LK_OP_FIELDS_H
#define LK_OP_FIELDS_H

#include "base/mem.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The value of a dotted field path ("body.content") in one JSON row, and of further fields asked for
 * by filters. Duplicate keys: the last one wins, as in Python's json. The whole row is validated.
 * INVALID_ARGUMENT: the row is malformed, the field is missing, or it is no string; the text says
 * which, with the byte offset in the row.
 */
struct lk_json_field {
    const char *path;         /* dotted; "\\." is a dot inside a key */
    /* results: */
    bool found;
    enum lk_field_type { LK_FIELD_NONE, LK_FIELD_STRING, LK_FIELD_NUMBER, LK_FIELD_OTHER } type;
    struct lk_buf value;      /* decoded string, or the number's text, or "true"/"false"/"null" */
};

struct lk_row_reader; /* scratch for one thread */
struct lk_row_reader *lk_row_reader_new(void);
void lk_row_reader_free(struct lk_row_reader *reader);

enum lk_code lk_row_fields(struct lk_row_reader *reader, const uint8_t *row, size_t bytes,
                           struct lk_json_field *fields, size_t n, struct lk_err *err);

#endif
