/*
 * A JSON document as a tree: for what is read here and there, such as a daemon's status.
 */
#ifndef LK_CLIENT_CLI_VALUE_H
#define LK_CLIENT_CLI_VALUE_H

#include "base/json.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct value {
    char *key;           /* of a member of an object, else NULL */
    enum lk_json_type type;
    char *text;          /* of a string or number */
    struct value *child; /* [n] members or elements */
    size_t n;
};

#define VALUE_BYTES_MAX (64u << 20)
#define VALUE_DEPTH_MAX 32

/* INVALID_ARGUMENT when @text is no JSON document, larger or nested deeper than the above. */
enum lk_code value_parse(const char *text, struct value *ret_value, struct lk_err *err);
void value_done(struct value *value); /* safe on a zeroed one */

/* The member of that key; an empty value (of type null) when there is none. Never NULL. */
const struct value *value_get(const struct value *value, const char *key);
uint64_t value_u64(const struct value *value, const char *key);     /* 0 when it is no integer */
bool value_true(const struct value *value, const char *key);
const char *value_text(const struct value *value, const char *key); /* "" when it is no string */

#endif
