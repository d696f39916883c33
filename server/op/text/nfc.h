/*
 * Normalisation form C (Unicode Annex #15) in the Unicode version of the reference's normaliser.
 */
#ifndef LK_OP_TOKENISE_NFC_H
#define LK_OP_TOKENISE_NFC_H

#include "base/mem.h"
#include "op/text/unicode.h"

struct lk_nfc {
    uint16_t *slots; /* open addressing: 1 + index in lk_compositions, 0 = free */
    uint8_t ccc[0x110000 >> 8]; /* 1: the page has a code point of non-zero class */
};

/* One run's scratch; zeroed = empty. */
struct lk_nfc_scratch {
    struct lk_point {
        uint32_t point;
        uint8_t ccc;
    } *points;
    size_t cap;
};

void lk_nfc_init(struct lk_nfc *nfc);
void lk_nfc_done(struct lk_nfc *nfc);
void lk_nfc_scratch_done(struct lk_nfc_scratch *scratch);

/* True when @text is in NFC for certain: the caller then needs no copy. */
bool lk_nfc_quick(const struct lk_unicode *unicode, const uint8_t *text, size_t n);

/* Appends the NFC of @text, valid UTF-8, to @out. O(n log n) in the longest run of marks. */
void lk_nfc_append(const struct lk_nfc *nfc, const struct lk_unicode *unicode,
                   struct lk_nfc_scratch *scratch, const uint8_t *text, size_t n,
                   struct lk_buf *out);

#endif
