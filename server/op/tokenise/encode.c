/*
 * The path of a document through a tokenizer:
 *
 *   text → added tokens cut out (added.c) → normalised, if the file asks for it (text/) → added
 *   tokens of normalised text cut out → pieces and their ids (pieces.c)
 *
 * The algorithm is byte pair encoding (Sennrich et al. 2016) over bytes (GPT-2, Radford et al. 2019) or
 * over characters (SentencePiece, Kudo and Richardson 2018). The reference for every detail is Hugging
 * Face's `tokenizers`; see tests/oracle.
 */
#include "op/tokenise/internal.h"
#include "op/tokenise/pieces.h"

#include <stdlib.h>
#include <string.h>

struct lk_encoder {
    const struct lk_tokenizer *tokenizer;
    struct lk_pieces pieces;
    struct lk_normal_scratch normal;  /* of a part, */
    struct lk_normal_scratch section; /* and of what lies between its added tokens */
    struct lk_buf prefixed; /* a part with a space before it */
    uint64_t specials;      /* special tokens seen in text */
    bool refuses;           /* under ERROR: the last document had one, */
    uint32_t refused_id;    /*   the first of them, */
    size_t refused_at;      /*   and where it stands */
};

#define KEPT_BYTES (1u << 20) /* of a buffer between documents */
#define SMALL_ENTRIES 256u    /* of the cache of a small encoder, */
#define SMALL_RING 4096u      /* and words */

static struct lk_encoder *new_encoder(const struct lk_tokenizer *tokenizer, size_t entries_n, size_t ring_n)
{
    struct lk_encoder *encoder = lk_zalloc(1, sizeof *encoder);

    encoder->tokenizer = tokenizer;
    lk_pieces_init(&encoder->pieces, &tokenizer->pretok, &tokenizer->bpe, entries_n, ring_n);
    return encoder;
}

struct lk_encoder *lk_encoder_new(const struct lk_tokenizer *tokenizer)
{
    return new_encoder(tokenizer, LK_CACHE_ENTRIES, LK_CACHE_RING);
}

struct lk_encoder *lk_encoder_new_small(const struct lk_tokenizer *tokenizer)
{
    return new_encoder(tokenizer, SMALL_ENTRIES, SMALL_RING);
}

void lk_encoder_free(struct lk_encoder *encoder)
{
    if (encoder == NULL)
        return;
    lk_pieces_done(&encoder->pieces);
    lk_normal_scratch_done(&encoder->normal);
    lk_normal_scratch_done(&encoder->section);
    lk_buf_done(&encoder->prefixed);
    free(encoder);
}

static void encode_bytes(const uint8_t *p, const uint8_t *end, struct lk_tokens *out)
{
    size_t n = (size_t)(end - p);
    uint32_t *ids = lk_tokens_room(out, n);

    for (size_t i = 0; i < n; i++)
        ids[i] = p[i];
    out->n += n;
}

/* Is a space put before the text? @first: the document begins with it. */
static bool has_prefix(const struct lk_encoder *encoder, bool first, const uint8_t *p,
                       const uint8_t *end)
{
    bool mark = end - p >= 3 && memcmp(p, "\xe2\x96\x81", 3) == 0;

    switch (encoder->tokenizer->prefix) {
    case LK_PREFIX_NONE:
        return false;
    case LK_PREFIX_UNLESS_SPACE:
        return *p != ' ';
    case LK_PREFIX_UNLESS_MARK:
        return *p != ' ' && !mark;
    case LK_PREFIX_FIRST:
        return *p != ' ' && !mark && first;
    case LK_PREFIX_ALWAYS:
        return true;
    }
    return false;
}

/* Text without added tokens, normalised, in memory that is readable up to @limit; @first: the document
 * begins with it. */
static void encode_text(struct lk_encoder *encoder, bool first, const uint8_t *p,
                        const uint8_t *end, const uint8_t *limit, struct lk_tokens *out)
{
    if (encoder->tokenizer->kind == LK_TOKENIZER_BYTES) {
        encode_bytes(p, end, out);
        return;
    }
    if (has_prefix(encoder, first, p, end)) {
        struct lk_buf *buf = &encoder->prefixed;
        buf->len = 0;
        lk_buf_puts(buf, " ");
        lk_buf_put(buf, p, (size_t)(end - p));
        p = buf->data;
        limit = end = p + buf->len;
    }
    if (encoder->tokenizer->section.n > 0) {
        size_t n = 0;
        lk_normal_apply(&encoder->tokenizer->section, &encoder->section, p, (size_t)(end - p), &p, &n);
        limit = end = p + n;
    }
    lk_pieces_encode(&encoder->pieces, p, end, limit, out);
}

/* @at: where the part begins in the document. A part may have spaces around its token. */
static void note_special(struct lk_encoder *encoder, const struct lk_part *part, size_t at)
{
    const struct lk_added_token *token = part->token;

    encoder->specials++;
    if (encoder->tokenizer->special_in_text != LK_SPECIAL_ERROR || encoder->refuses)
        return;
    const uint8_t *p = memmem(part->p, (size_t)(part->end - part->p), token->pattern,
                              token->pattern_n);
    encoder->refuses = true;
    encoder->refused_id = token->id;
    encoder->refused_at = at + (p != NULL ? (size_t)(p - part->p) : 0);
}

static inline void put_added(struct lk_encoder *encoder, const struct lk_part *part, size_t at,
                             struct lk_tokens *out)
{
    if (part->token->special)
        note_special(encoder, part, at);
    lk_tokens_push(out, part->token->id);
}

/* Text without the added tokens of raw text; @at: where it begins in the document. */
static void encode_raw(struct lk_encoder *encoder, const uint8_t *p, const uint8_t *end, size_t at,
                       struct lk_tokens *out)
{
    const struct lk_tokenizer *tokenizer = encoder->tokenizer;
    struct lk_added_scan scan;
    struct lk_part part;
    bool as_it_is = true;

    if (tokenizer->normal.n > 0) {
        const uint8_t *text = p;
        size_t n = 0;
        lk_normal_apply(&tokenizer->normal, &encoder->normal, p, (size_t)(end - p), &p, &n);
        end = p + n;
        as_it_is = p == text;
    }
    lk_added_scan_init(&scan, &tokenizer->added.normal, &tokenizer->unicode, p, (size_t)(end - p),
                       tokenizer->special_in_text == LK_SPECIAL_TEXT);
    while (lk_added_scan_next(&scan, &part)) {
        if (part.token != NULL)
            put_added(encoder, &part, at + (as_it_is ? (size_t)(part.p - p) : 0), out);
        else
            encode_text(encoder, at == 0 && part.p == p, part.p, part.end, scan.end, out);
    }
    encoder->specials += scan.kept;
}

static void trim(struct lk_encoder *encoder)
{
    lk_normal_scratch_trim(&encoder->normal, KEPT_BYTES);
    lk_normal_scratch_trim(&encoder->section, KEPT_BYTES);
    if (encoder->prefixed.cap > KEPT_BYTES)
        lk_buf_done(&encoder->prefixed);
    lk_pieces_trim(&encoder->pieces);
}

void lk_encode(struct lk_encoder *encoder, const uint8_t *text, size_t bytes,
               struct lk_tokens *out)
{
    const struct lk_tokenizer *tokenizer = encoder->tokenizer;
    struct lk_added_scan scan;
    struct lk_part part;

    LK_CHECK(bytes < UINT32_MAX);
    encoder->refuses = false;
    if (bytes == 0)
        return;
    lk_added_scan_init(&scan, &tokenizer->added.raw, &tokenizer->unicode, text, bytes,
                       tokenizer->special_in_text == LK_SPECIAL_TEXT);
    while (lk_added_scan_next(&scan, &part)) {
        size_t at = (size_t)(part.p - text);
        if (part.token != NULL)
            put_added(encoder, &part, at, out);
        else
            encode_raw(encoder, part.p, part.end, at, out);
    }
    encoder->specials += scan.kept;
    trim(encoder);
}

uint64_t lk_encoder_specials(const struct lk_encoder *encoder)
{
    return encoder->specials;
}

bool lk_encoder_refuses(const struct lk_encoder *encoder, uint32_t *ret_id, size_t *ret_at)
{
    *ret_id = encoder->refused_id;
    *ret_at = encoder->refused_at;
    return encoder->refuses;
}
