/*
 * The names of a vocabulary: two-way between a token's text as the file spells it and its id, while
 * loading; and from id to bytes, for good.
 */
#ifndef LK_OP_TOKENISE_VOCAB_H
#define LK_OP_TOKENISE_VOCAB_H

#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

#define LK_VOCAB_MAX (1u << 24) /* ids are below it */
#define LK_NO_ID UINT32_MAX

/* Byte strings with an id each, found by their bytes. Zeroed = empty. */
struct lk_names {
    struct lk_buf pool;
    struct lk_name {
        uint32_t start, n; /* in the pool */
        uint32_t id;
    } *items;
    size_t n, cap;
    struct lk_name_slot {
        uint32_t hash, item; /* 1 + index in items, 0 = free */
    } *slots;                /* open addressing */
    size_t slots_n;          /* a power of two */
};

void lk_names_done(struct lk_names *names);
/* Makes room for about @n in all, to spare growing. */
void lk_names_reserve(struct lk_names *names, size_t n);
/* False when the string is there already, with whatever id. */
bool lk_names_add(struct lk_names *names, const void *bytes, size_t n, uint32_t id);
uint32_t lk_names_find(const struct lk_names *names, const void *bytes, size_t n); /* or LK_NO_ID */
/* The same, as its place in items; LK_NO_ID: it is not there. */
uint32_t lk_names_place(const struct lk_names *names, const void *bytes, size_t n);

static inline const uint8_t *lk_name_text(const struct lk_names *names, const struct lk_name *name)
{
    return names->pool.data + name->start;
}

/* Id → bytes. Zeroed = empty; a hole has start == LK_NO_ID. */
struct lk_vocab {
    struct lk_buf pool;
    struct lk_span {
        uint32_t start, n;
    } *spans;
    uint32_t n, cap; /* ids are below n */
};

void lk_vocab_done(struct lk_vocab *vocab);
void lk_vocab_reserve(struct lk_vocab *vocab, uint32_t n, size_t bytes);
void lk_vocab_set(struct lk_vocab *vocab, uint32_t id, const void *bytes, size_t n);

static inline bool lk_vocab_has(const struct lk_vocab *vocab, uint32_t id)
{
    return id < vocab->n && vocab->spans[id].start != LK_NO_ID;
}

/* GPT-2's spelling of bytes: each byte is one printable code point ("Ġ" is the space). */
uint32_t lk_byte_point(uint8_t byte);

/* Appends the bytes that a token so spelled stands for; false, and nothing appended, when it has a
 * character that stands for no byte: such a token is its own text and BPE never makes it. */
bool lk_byte_unspell(const uint8_t *text, size_t n, struct lk_buf *out);

#endif
