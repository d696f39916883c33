/*
 * Measuring: one row's bytes → its tokens, or a reason why there are none. The stateless chain of a
 * recipe: JSON field → filters on bytes and fields → tokenise → filters on tokens. A pure function
 * of (chain, row): where, when and how often it runs changes nothing.
 */
#ifndef LK_OP_MEASURE_H
#define LK_OP_MEASURE_H

#include "base/mem.h"
#include "base/status.h"
#include "op/fields.h"
#include "op/tokenise/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

/* Why a row yields no record; counted by rule and listed. X(NAME, text): the order is wire format. */
#define LK_DROPS(X)                                                                                \
    X(NONE, "kept")                                                                                \
    X(EMPTY, "no_tokens")                                                                          \
    X(MALFORMED, "malformed_row")                                                                  \
    X(FIELD, "missing_text")                                                                       \
    X(FILTER_BYTES, "filter_bytes")                                                                \
    X(FILTER_TOKENS, "filter_tokens")                                                              \
    X(FILTER_EQUALS, "filter_equals")                                                              \
    X(CRASH, "crashes_worker")                                                                     \
    X(SPECIAL, "special_token")

enum lk_drop {
#define LK_DROP_ENUM(name, text) LK_DROP_##name,
    LK_DROPS(LK_DROP_ENUM)
#undef LK_DROP_ENUM
    LK_DROP_KINDS
};

const char *lk_drop_name(enum lk_drop drop);

struct lk_measure_filter {           /* the fields of core's lk_filter_recipe, see there */
    uint64_t min_bytes, max_bytes;
    uint64_t min_tokens, max_tokens;
    const char *field;
    const char *equals;
};

/* What a chain is made of. Everything is borrowed and must outlive the chain. */
struct lk_measure_spec {
    const struct lk_tokenizer *tokenizer;
    struct lk_encoder *encoder;      /* of @tokenizer, shared with other chains of this thread; NULL:
                                      * the chain has one of its own */
    const char *text;                /* dotted path of the text */
    bool has_append, has_prepend;
    uint32_t append, prepend;        /* token ids */
    bool drop_bad;                   /* malformed rows, special tokens that may not be in the text,
                                      * missing text: drop, or an error */
    const struct lk_measure_filter *filter;
    uint32_t n_filters;
};

struct lk_measure; /* for one thread; holds an encoder, if it was lent none, and scratch memory */

struct lk_measure *lk_measure_new(const struct lk_measure_spec *spec);
void lk_measure_free(struct lk_measure *measure);

struct lk_measured {
    enum lk_drop drop;   /* NONE: @tokens ids were appended */
    uint32_t tokens;
    uint64_t text_bytes; /* of the decoded text; 0 when dropped before it was known */
    uint64_t specials;   /* special tokens in the text of a kept row, see lk_encoder_specials */
};

/*
 * Measures one row and appends its tokens to @out (nothing when dropped). A kept row has at least
 * one token. When drop_bad is unset, malformed rows, missing or non-string text, and special tokens in
 * the text of a tokenizer with LK_SPECIAL_ERROR fail with INVALID_ARGUMENT and a text that gives the
 * byte offset in the row; with it, they are dropped and the same text is left in @err while LK_OK is
 * returned, for the list of dropped rows. Whether a filter on tokens would drop the row is not asked then.
 */
enum lk_code lk_measure_row(struct lk_measure *measure, const uint8_t *row, size_t bytes,
                            struct lk_tokens *out, struct lk_measured *ret_measured,
                            struct lk_err *err);

/* Under LK_SPECIAL_ERROR: INVALID_ARGUMENT, naming the place in the text and the token, when the document
 * that @encoder had last has a special token in it. */
enum lk_code lk_check_specials(const struct lk_encoder *encoder,
                               const struct lk_tokenizer *tokenizer, struct lk_err *err);

#endif
