/*
 * What a tokenizer file has done to text before it is cut: up to 16 steps, one after the other.
 */
#ifndef LK_OP_TEXT_NORMAL_H
#define LK_OP_TEXT_NORMAL_H

#include "op/text/forms.h"

enum lk_normal_kind {
    LK_NORMAL_NFC = LK_FORM_NFC, /* the forms keep their numbers */
    LK_NORMAL_NFD = LK_FORM_NFD,
    LK_NORMAL_NFKC = LK_FORM_NFKC,
    LK_NORMAL_NFKD = LK_FORM_NFKD,
    LK_NORMAL_LOWERCASE,     /* each character by itself: no final sigma */
    LK_NORMAL_STRIP_ACCENTS, /* combining marks vanish; nothing is decomposed first */
    LK_NORMAL_STRIP_LEFT,    /* white space at the beginning */
    LK_NORMAL_STRIP_RIGHT,   /* and at the end vanishes */
    LK_NORMAL_PREPEND,       /* @to is put before text that is not empty */
    LK_NORMAL_REPLACE,       /* every @from becomes @to, from the left, without overlap */
};

struct lk_normal_step {
    enum lk_normal_kind kind;
    uint8_t *from, *to; /* owned; NULL where the kind has none; @from is not empty */
    size_t from_n, to_n;
};

#define LK_NORMAL_STEPS 16
#define LK_NORMAL_TEXT_MAX 256 /* bytes of @to; and how many times as long replacing may make a text */

/* Zeroed = no steps. Immutable once built; may be shared by threads. */
struct lk_normal {
    struct lk_normal_step steps[LK_NORMAL_STEPS];
    uint32_t n;
    /* Made by lk_normal_build: */
    const struct lk_unicode *unicode; /* borrowed */
    struct lk_forms forms;
    struct lk_unicode flags; /* a bit for each kind below LK_NORMAL_STRIP_LEFT that is used: what it may
                                change; pages are NULL when none is */
    bool ascii;              /* some ASCII character has a flag */
};

struct lk_normal_scratch { /* of one thread; zeroed = empty */
    struct lk_buf bufs[2];
    struct lk_form_scratch points;
};

void lk_normal_done(struct lk_normal *normal); /* zeroed is fine */
/* Takes over the step's strings; false, and they are freed, when there are LK_NORMAL_STEPS already. */
bool lk_normal_add(struct lk_normal *normal, struct lk_normal_step step);
/* Once, after the last step was added. */
void lk_normal_build(struct lk_normal *normal, const struct lk_unicode *unicode);
/* May the reference say of the result that it begins later than the text did? Where a step takes away what
 * text begins with, and where several characters are replaced: it then counts from the last of them. */
bool lk_normal_moves_start(const struct lk_normal *normal);

void lk_normal_scratch_done(struct lk_normal_scratch *scratch);
/* Gives back what goes beyond @kept bytes a buffer. */
void lk_normal_scratch_trim(struct lk_normal_scratch *scratch, size_t kept);

/* True when no step changes @text for certain: then it needs no copy. */
bool lk_normal_quick(const struct lk_normal *normal, const uint8_t *text, size_t n);

/* Carries out the steps on @text, valid UTF-8. The result lies in @scratch, or is @text itself, and is
 * valid until the next call. O(n log n) in the longest run of marks, else linear. */
void lk_normal_apply(const struct lk_normal *normal, struct lk_normal_scratch *scratch,
                     const uint8_t *text, size_t n, const uint8_t **ret_text, size_t *ret_n);

#endif
