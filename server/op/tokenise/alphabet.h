/*
 * The symbols that merging starts from: the ids of a piece's bytes (byte-level models), or of its
 * characters (SentencePiece-style models). What has no token of its own becomes the tokens of its
 * bytes (byte fallback), else the unknown token, else nothing: the reference's order.
 */
#ifndef LK_OP_TOKENISE_ALPHABET_H
#define LK_OP_TOKENISE_ALPHABET_H

#include "op/text/unicode.h"
#include "op/tokenise/vocab.h"

#define LK_MARK 0x2581u /* "▁", which stands for a space in SentencePiece's vocabularies */

struct lk_alphabet {
    /* Byte-level: the byte's token. Characters: the token of the byte <0xNN>, for what has no other; all
     * unset without byte fallback. LK_NO_ID: that byte has none. */
    uint32_t byte_id[256];
    uint32_t unknown; /* of what has no token at all; LK_NO_ID: it vanishes */
    bool fuse;        /* neighbours that are unknown become one */
    bool characters;
    uint32_t ascii_id[128]; /* of characters; where a space means U+2581, that one's is at ' ' */
    uint32_t *pages;        /* other characters: 256 ids a page, page 0 all LK_NO_ID */
    uint32_t pages_n;
    uint16_t page_of[LK_UNICODE_PAGES];
};

void lk_alphabet_init(struct lk_alphabet *alphabet); /* byte-level, and nothing has a token */
void lk_alphabet_done(struct lk_alphabet *alphabet);

/* From now on characters, not bytes. */
void lk_alphabet_use_characters(struct lk_alphabet *alphabet);
void lk_alphabet_add(struct lk_alphabet *alphabet, uint32_t point, uint32_t id);

/* The character's own token, or LK_NO_ID. */
static inline uint32_t lk_alphabet_id(const struct lk_alphabet *alphabet, uint32_t point)
{
    if (point < 0x80)
        return alphabet->ascii_id[point];
    return alphabet->pages[(size_t)alphabet->page_of[point >> 8] << 8 | (point & 255)];
}

/* Writes the initial ids of @n bytes to @ret_ids, which has room for @n of them; returns how many. */
size_t lk_alphabet_ids(const struct lk_alphabet *alphabet, const uint8_t *bytes, size_t n,
                       uint32_t *ret_ids);

/* Byte values that UTF-8 uses and that have no token. */
unsigned lk_alphabet_missing_bytes(const struct lk_alphabet *alphabet);

#endif
