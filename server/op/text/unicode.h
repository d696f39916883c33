/*
 * What the reference tokenizer library believes about code points: which are letters, numbers,
 * spaces, parts of words; and its canonical normalisation. Its parts use different Unicode
 * versions, so these tables are taken from its behaviour (tests/oracle/unicode_tables.py).
 */
#ifndef LK_OP_TEXT_UNICODE_H
#define LK_OP_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lk_class {
    LK_CLASS_OTHER = 0,  /* none of these: C but for the spaces among them */
    LK_CLASS_UPPER = 1,  /* Lu, Lt */
    LK_CLASS_LOWER = 2,  /* Ll */
    LK_CLASS_LETTER = 3, /* Lm, Lo */
    LK_CLASS_MARK = 4,   /* M */
    LK_CLASS_NUMBER = 5, /* N */
    LK_CLASS_SPACE = 6,  /* \s: also what char::is_whitespace, Strip and the added-token matcher mean */
    LK_CLASS_PUNCT = 7,  /* P, S */
    LK_CLASS_MASK = 7,
    LK_CLASS_WORD = 8,         /* flags: \w of the added-token matcher, */
    LK_CLASS_NUMERIC = 16,     /* what the pre-tokenizer Digits, */
    LK_CLASS_PUNCTUATION = 32, /* what Punctuation cuts out, */
    LK_CLASS_CJK = 64,         /* and what DeepSeek-V3 keeps apart: U+3040 to U+30FF, U+4E00 to U+9FA5 */
};

#define LK_UNICODE_PAGES (0x110000 / 256)

/* Two-stage table: a byte per code point, equal pages shared. Page 0 is the first. */
struct lk_unicode {
    uint8_t *pages;
    uint16_t page_of[LK_UNICODE_PAGES];
};

void lk_unicode_init(struct lk_unicode *unicode);
/* The same from other flags, of 0x110000 code points; takes over that array. */
void lk_unicode_pack(struct lk_unicode *unicode, uint8_t *flags);
void lk_unicode_done(struct lk_unicode *unicode);

static inline uint8_t lk_unicode_flags(const struct lk_unicode *unicode, uint32_t point)
{
    return unicode->pages[(size_t)unicode->page_of[point >> 8] << 8 | (point & 255)];
}

/*
 * The code point at @p, which must be below @end; sets how many bytes it has. Text is valid UTF-8 by
 * contract; should it not be, this stays inside the text and yields points below 0x110000 all the same.
 */
static inline uint32_t lk_decode(const uint8_t *p, const uint8_t *end, size_t *ret_n)
{
    uint32_t lead = p[0];
    size_t left = (size_t)(end - p);

    if (lead < 0x80 || left < 2 || lead < 0xc0) {
        *ret_n = 1;
        return lead;
    }
    if (lead < 0xe0) {
        *ret_n = 2;
        return (lead & 31) << 6 | (p[1] & 63u);
    }
    if (lead < 0xf0 && left >= 3) {
        *ret_n = 3;
        return (lead & 15) << 12 | (p[1] & 63u) << 6 | (p[2] & 63u);
    }
    if (lead < 0xf5 && left >= 4) {
        *ret_n = 4;
        uint32_t point = (lead & 7) << 18 | (p[1] & 63u) << 12 | (p[2] & 63u) << 6 | (p[3] & 63u);
        return point < 0x110000 ? point : 0xfffd;
    }
    *ret_n = 1;
    return lead;
}

/* Flags of the character at @p < @end, and its bytes. */
static inline uint8_t lk_flags_at(const struct lk_unicode *unicode, const uint8_t *p,
                                  const uint8_t *end, size_t *ret_n)
{
    if (*p < 0x80) {
        *ret_n = 1;
        return unicode->pages[*p];
    }
    return lk_unicode_flags(unicode, lk_decode(p, end, ret_n));
}

#endif
