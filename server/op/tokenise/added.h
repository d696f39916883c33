/*
 * Added tokens: strings that are cut out of the text before anything else happens to it, by the
 * reference's rules.
 */
#ifndef LK_OP_TOKENISE_ADDED_H
#define LK_OP_TOKENISE_ADDED_H

#include "op/text/unicode.h"
#include "op/tokenise/vocab.h"

struct lk_added_token {
    uint8_t *text;    /* as the file has it; owned */
    size_t n;
    uint8_t *pattern; /* what is looked for: normalised if the token is; owned */
    size_t pattern_n;
    uint32_t id;
    bool special, single_word, lstrip, rstrip, normalized;
};

struct lk_added {
    struct lk_added_token *tokens;
    size_t n;
    uint32_t end_id;             /* above every id of them */
    struct lk_names texts;       /* text → number in tokens */
    struct lk_names patterns[2]; /* pattern → number, of raw and of normalised tokens */
    /* Tokens looked for in the text as it is, and those looked for in normalised text: each sorted
     * by pattern, with a table of how they begin. */
    struct lk_added_set {
        const struct lk_added_token **sorted;
        size_t n;
        uint32_t from[257]; /* those that begin with byte b: from[b] up to from[b + 1] in sorted */
        bool first[256];    /* there are such */
        uint64_t *pairs;    /* a bit for each two bytes that text with a token may begin with; 8 KiB */
        int only_first;     /* the one first byte of all patterns, or -1 */
    } raw, normal;
};

void lk_added_done(struct lk_added *added);
/* Takes over @token's strings, which no other may have. */
void lk_added_push(struct lk_added *added, struct lk_added_token token);
/* Once, when all are there. */
void lk_added_sort(struct lk_added *added);
const struct lk_added_token *lk_added_find(const struct lk_added *added, const void *text, size_t n);
/* Is there one with this pattern, looked for in the same text? */
bool lk_added_has_pattern(const struct lk_added *added, bool normalized, const void *pattern, size_t n);

/* A part of a text: plain text (token NULL), or a token. */
struct lk_part {
    const uint8_t *p, *end;
    const struct lk_added_token *token;
};

/* Cuts a text, part by part. */
struct lk_added_scan {
    const struct lk_added_set *set;
    const struct lk_unicode *unicode;
    const uint8_t *text, *end;
    const uint8_t *at;     /* where the search goes on */
    const uint8_t *done;   /* up to here all is handed out */
    const uint8_t *spaces; /* end of the run of spaces that rstrip saw last */
    struct lk_part token;  /* found, but the text before it was handed out first */
    bool keep_special;     /* special tokens are text */
    uint64_t kept;         /* how many were, so far */
};

void lk_added_scan_init(struct lk_added_scan *scan, const struct lk_added_set *set,
                        const struct lk_unicode *unicode, const uint8_t *text, size_t n,
                        bool keep_special);
bool lk_added_scan_next(struct lk_added_scan *scan, struct lk_part *ret_part);

#endif
