/*
 * The table of configuration keys: one row says all there is to know about a key, and everything
 * else (parsing, defaults, ranges, messages, suggestions, the reference) is driven by it.
 */
#ifndef LK_CONFIG_KEYS_H
#define LK_CONFIG_KEYS_H

#include "base/mem.h"
#include "base/status.h"
#include "config/yaml.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_reading;
struct lk_key;

/* Stores the value of a key whose form is its own into @object (the draft of its section). */
typedef enum lk_code lk_key_read(struct lk_reading *r, const struct lk_key *key,
                                 const struct lk_yaml *node, void *object);

enum lk_key_type {      /* stored at the row's offset as … */
    LK_KEY_BOOL,        /* bool; only `true` and `false` */
    LK_KEY_U32,         /* uint32_t */
    LK_KEY_U64,         /* uint64_t */
    LK_KEY_SIZE,        /* uint64_t, bytes */
    LK_KEY_DURATION,    /* uint32_t, milliseconds */
    LK_KEY_WEIGHT,      /* uint64_t, units of 1e-9 */
    LK_KEY_TEXT,        /* char * */
    LK_KEY_FIELD,       /* char *: dotted path of a field */
    LK_KEY_PATH,        /* char *, resolved against the file's folder */
    LK_KEY_CHOICE,      /* unsigned (an enum): index of the word */
    LK_KEY_SWITCH,      /* bool: false is the first word, true the second */
    LK_KEY_SECTION,     /* a mapping: the rows below it, stored in the same object */
    LK_KEY_OWN,         /* whatever @read does with it */
};

/*
 * Paths: "streams.*.lanes"; "*" stands for a name, "[]" for an element of a list. A row belongs to
 * the section that its path starts with, and its offset counts in that section's object.
 */
struct lk_key {
    const char *path;
    enum lk_key_type type;
    bool required;
    const char *def;            /* as it would be written; NULL = none */
    uint64_t min, max;          /* inclusive: of a number; of the length of a text or path */
    const char *word;           /* a word that is also accepted, and the number that it stands for */
    uint64_t word_value;
    const char *const *choices; /* ends with NULL */
    size_t offset;
    lk_key_read *read;
    const char *form;           /* of LK_KEY_OWN: what is expected, as a noun phrase */
    const char *help;
};

const struct lk_key *lk_keys(size_t *ret_n);

/* The key's own name if its row lies directly in @section ("" is the root), else NULL. */
const char *lk_key_name_in(const struct lk_key *key, const char *section);
/* Index of a key of that section in the table, or the table's length. */
size_t lk_key_find(const char *section, const char *name);

/* What a value of this key has to be: "an integer from 1 to 4096". */
void lk_key_put_expected(struct lk_buf *out, const struct lk_key *key);

/* What to say after an unknown key: '; did you mean "…"?' or where else that key belongs; or nothing. */
void lk_key_put_suggestion(struct lk_buf *out, const char *section, const char *unknown);

/* The same for any list of words that ends with NULL. */
void lk_word_put_suggestion(struct lk_buf *out, const char *const *words, const char *unknown);

#endif
