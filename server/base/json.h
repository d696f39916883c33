/*
 * A validating JSON reader (RFC 8259), used for rows and for tokenizer files.
 *
 * It is a pull parser over a buffer in memory: no recursion, no allocation but for decoded strings,
 * so hostile nesting costs neither stack nor heap. Everything is checked, also in values that the
 * caller skips: strict UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF), no raw
 * control characters in strings, paired surrogate escapes, RFC numbers, one value and then the end.
 *
 * Errors are INVALID_ARGUMENT; their text begins "byte N: ", the offset in @text where the input
 * stops being JSON, and @at is left there.
 */
#ifndef LK_BASE_JSON_H
#define LK_BASE_JSON_H

#include "base/mem.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define LK_JSON_DEPTH_MAX 512 /* objects and arrays open at once, in skipped values too */

enum lk_json_type {
    LK_JSON_NULL,
    LK_JSON_FALSE,
    LK_JSON_TRUE,
    LK_JSON_NUMBER,
    LK_JSON_STRING,
    LK_JSON_ARRAY,
    LK_JSON_OBJECT,
};

/* "null", "a boolean", "a number", "a string", …: for error texts. */
const char *lk_json_type_name(enum lk_json_type type);

struct lk_json {
    const uint8_t *text; /* borrowed; need not end in NUL */
    size_t bytes;
    size_t valid;                             /* so much of it is UTF-8 */
    size_t at;                                /* offset of the next byte to read */
    uint32_t depth;                           /* containers open now */
    uint8_t open[LK_JSON_DEPTH_MAX / 8];      /* bit set: the container at that depth is an object */
    bool fresh;                               /* the innermost one was just entered: no comma yet */
    struct lk_buf scratch;                    /* decoded form of the last string that had escapes */
};

/* Starts reading @text. A byte-order mark at its very beginning is skipped. Cannot fail. */
void lk_json_init(struct lk_json *json, const void *text, size_t bytes);
void lk_json_done(struct lk_json *json); /* frees the scratch; safe on a zeroed one */

/*
 * Cursor discipline: at a value, call lk_json_peek to learn its type and then exactly one of
 * lk_json_string / lk_json_number / lk_json_skip / lk_json_enter.
 * Inside a container, call lk_json_next before each member or element: it sets @ret_more to false
 * and leaves the container after the last one. In an object it also reads the key.
 */
enum lk_code lk_json_peek(struct lk_json *json, enum lk_json_type *ret_type, struct lk_err *err);

/* The decoded bytes of a string. They stay valid until the next call on @json; they point into the
 * text itself when it has no escapes. May contain NUL: use the length. */
enum lk_code lk_json_string(struct lk_json *json, const uint8_t **ret_bytes, size_t *ret_n,
                            struct lk_err *err);

/* The text of a number, as written; lk_json_u64 for one that must be an integer in 0…max. */
enum lk_code lk_json_number(struct lk_json *json, const uint8_t **ret_text, size_t *ret_n,
                            struct lk_err *err);
enum lk_code lk_json_u64(struct lk_json *json, uint64_t max, uint64_t *ret_value,
                         struct lk_err *err);
enum lk_code lk_json_bool(struct lk_json *json, bool *ret_value, struct lk_err *err);

/* Reads over one whole value of any type, validating it. */
enum lk_code lk_json_skip(struct lk_json *json, struct lk_err *err);

/* Enters an object or array (the value must be one). */
enum lk_code lk_json_enter(struct lk_json *json, struct lk_err *err);

/* Next member or element of the innermost container. For an object, the decoded key is set and
 * stays valid until the next call; for an array, or for a key that does not matter, pass NULL for
 * both: the key is validated all the same. */
enum lk_code lk_json_next(struct lk_json *json, bool *ret_more, const uint8_t **ret_key,
                          size_t *ret_key_n, struct lk_err *err);

/* Nothing but white space may follow. */
enum lk_code lk_json_end(struct lk_json *json, struct lk_err *err);

/* Writes @bytes as a JSON string with its quotes; invalid UTF-8 becomes U+FFFD. */
void lk_json_quote(struct lk_buf *out, const void *bytes, size_t n);

#endif
