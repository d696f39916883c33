/*
 * The tables behind unicode.c and forms.c, as tests/oracle/unicode_tables.py writes them.
 */
#ifndef LK_OP_TEXT_UNICODE_DATA_H
#define LK_OP_TEXT_UNICODE_DATA_H

#include <stddef.h>
#include <stdint.h>

enum lk_category { /* the generator writes these numbers */
    LK_CATEGORY_CN,
    LK_CATEGORY_LU,
    LK_CATEGORY_LL,
    LK_CATEGORY_LT,
    LK_CATEGORY_LM,
    LK_CATEGORY_LO,
    LK_CATEGORY_MN,
    LK_CATEGORY_MC,
    LK_CATEGORY_ME,
    LK_CATEGORY_ND,
    LK_CATEGORY_NL,
    LK_CATEGORY_NO,
    LK_CATEGORY_PC,
    LK_CATEGORY_PD,
    LK_CATEGORY_PS,
    LK_CATEGORY_PE,
    LK_CATEGORY_PI,
    LK_CATEGORY_PF,
    LK_CATEGORY_PO,
    LK_CATEGORY_SM,
    LK_CATEGORY_SC,
    LK_CATEGORY_SK,
    LK_CATEGORY_SO,
    LK_CATEGORY_ZS,
    LK_CATEGORY_ZL,
    LK_CATEGORY_ZP,
    LK_CATEGORY_CC,
    LK_CATEGORY_CF,
    LK_CATEGORY_CO,
    LK_CATEGORY_MASK = 31,
    LK_CATEGORY_WORD = 32, /* flags: see enum lk_class */
    LK_CATEGORY_NUMERIC = 64,
    LK_CATEGORY_PUNCTUATION = 128,
};

struct lk_range {
    uint32_t first, last;
};

struct lk_class_range {
    uint32_t first, last;
    uint8_t value;
};

struct lk_case_range {
    uint32_t first, last;
    uint8_t step; /* every one, or every other one */
    int32_t distance;
};

/* Code points of a script; "word": what \w is besides L, M, Nd, Nl and Pc, in a class. */
struct lk_property {
    const char *name;
    const struct lk_range *ranges;
    size_t n;
};

struct lk_decomposition {
    uint32_t point;
    uint16_t start; /* index in the pool */
    uint8_t n;
};

struct lk_decompositions { /* sorted by code point */
    const struct lk_decomposition *items;
    size_t n;
    const uint32_t *pool;
};

struct lk_composition {
    uint32_t left, right, composed;
};

extern const struct lk_class_range lk_category_ranges[];
extern const size_t lk_category_ranges_n;
extern const struct lk_property lk_properties[];
extern const size_t lk_properties_n;
extern const struct lk_class_range lk_ccc_ranges[];
extern const size_t lk_ccc_ranges_n;
extern const struct lk_decompositions lk_canonical;  /* of NFD; not of Hangul, which is computed */
extern const struct lk_decompositions lk_compatible; /* of NFKD, where they differ */
extern const struct lk_composition lk_compositions[];
extern const size_t lk_compositions_n;
extern const struct lk_case_range lk_case_ranges[]; /* to lower case */
extern const size_t lk_case_ranges_n;
extern const struct lk_range lk_accent_ranges[]; /* what StripAccents removes */
extern const size_t lk_accent_ranges_n;

#endif
