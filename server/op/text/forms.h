/*
 * Unicode's normalisation forms (Unicode Annex #15) in the Unicode version of the reference's normaliser.
 */
#ifndef LK_OP_TEXT_FORMS_H
#define LK_OP_TEXT_FORMS_H

#include "base/mem.h"
#include "op/text/unicode.h"

enum lk_form { /* bit 0: not composed; bit 1: compatible */
    LK_FORM_NFC = 0,
    LK_FORM_NFD = 1,
    LK_FORM_NFKC = 2,
    LK_FORM_NFKD = 3,
};

struct lk_forms {
    uint16_t *slots; /* open addressing: 1 + index in lk_compositions, 0 = free */
    uint8_t ccc[0x110000 >> 8]; /* 1: the page has a code point of non-zero class */
};

/* One run's scratch; zeroed = empty. */
struct lk_form_scratch {
    struct lk_point {
        uint32_t point;
        uint8_t ccc;
    } *points;
    size_t cap;
};

void lk_forms_init(struct lk_forms *forms);
void lk_forms_done(struct lk_forms *forms);
void lk_form_scratch_done(struct lk_form_scratch *scratch);

/* Sets @bit in the flags of every code point that text in this form may lack: text without any is in
 * it for certain. None is below U+00A0. */
void lk_form_flag(enum lk_form form, uint8_t bit, uint8_t flags[0x110000]);

/* Appends @text, valid UTF-8, in a form to @out; @flags has @bit as lk_form_flag sets it. O(n log n)
 * in the longest run of marks. */
void lk_form_append(const struct lk_forms *forms, enum lk_form form, const struct lk_unicode *flags,
                    uint8_t bit, struct lk_form_scratch *scratch, const uint8_t *text, size_t n,
                    struct lk_buf *out);

#endif
