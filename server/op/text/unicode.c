#include "op/text/unicode.h"

#include "base/mem.h"
#include "op/text/unicode_data.h"

#include <stdlib.h>
#include <string.h>

static uint8_t class_of(uint8_t value)
{
    static const uint8_t classes[LK_CATEGORY_MASK + 1] = {
        [LK_CATEGORY_LU] = LK_CLASS_UPPER,  [LK_CATEGORY_LT] = LK_CLASS_UPPER,
        [LK_CATEGORY_LL] = LK_CLASS_LOWER,  [LK_CATEGORY_LM] = LK_CLASS_LETTER,
        [LK_CATEGORY_LO] = LK_CLASS_LETTER, [LK_CATEGORY_MN] = LK_CLASS_MARK,
        [LK_CATEGORY_MC] = LK_CLASS_MARK,   [LK_CATEGORY_ME] = LK_CLASS_MARK,
        [LK_CATEGORY_ND] = LK_CLASS_NUMBER, [LK_CATEGORY_NL] = LK_CLASS_NUMBER,
        [LK_CATEGORY_NO] = LK_CLASS_NUMBER, [LK_CATEGORY_PC] = LK_CLASS_PUNCT,
        [LK_CATEGORY_PD] = LK_CLASS_PUNCT,  [LK_CATEGORY_PS] = LK_CLASS_PUNCT,
        [LK_CATEGORY_PE] = LK_CLASS_PUNCT,  [LK_CATEGORY_PI] = LK_CLASS_PUNCT,
        [LK_CATEGORY_PF] = LK_CLASS_PUNCT,  [LK_CATEGORY_PO] = LK_CLASS_PUNCT,
        [LK_CATEGORY_SM] = LK_CLASS_PUNCT,  [LK_CATEGORY_SC] = LK_CLASS_PUNCT,
        [LK_CATEGORY_SK] = LK_CLASS_PUNCT,  [LK_CATEGORY_SO] = LK_CLASS_PUNCT,
        [LK_CATEGORY_ZS] = LK_CLASS_SPACE,  [LK_CATEGORY_ZL] = LK_CLASS_SPACE,
        [LK_CATEGORY_ZP] = LK_CLASS_SPACE,
    };
    return (uint8_t)(classes[value & LK_CATEGORY_MASK] |
                     ((value & LK_CATEGORY_WORD) != 0 ? LK_CLASS_WORD : 0) |
                     ((value & LK_CATEGORY_NUMERIC) != 0 ? LK_CLASS_NUMERIC : 0) |
                     ((value & LK_CATEGORY_PUNCTUATION) != 0 ? LK_CLASS_PUNCTUATION : 0));
}

void lk_unicode_init(struct lk_unicode *unicode)
{
    uint8_t *flags = lk_zalloc(0x110000, 1);

    for (size_t i = 0; i < lk_category_ranges_n; i++)
        memset(flags + lk_category_ranges[i].first, class_of(lk_category_ranges[i].value),
               lk_category_ranges[i].last - lk_category_ranges[i].first + 1);
    memset(&flags['\t'], LK_CLASS_SPACE, '\r' - '\t' + 1); /* those that are no Z */
    flags[0x85] = LK_CLASS_SPACE;
    for (uint32_t c = 0x3040; c <= 0x9fa5; c = c == 0x30ff ? 0x4e00 : c + 1)
        flags[c] |= LK_CLASS_CJK;
    lk_unicode_pack(unicode, flags);
}

void lk_unicode_pack(struct lk_unicode *unicode, uint8_t *flags)
{
    size_t n = 0, same = 0;

    for (size_t page = 0; page < LK_UNICODE_PAGES; page++) { /* pages move down within the array */
        if (page == 0 || memcmp(flags + same * 256, flags + page * 256, 256) != 0) {
            same = 0; /* not like the page before: like any other? */
            while (same < n && memcmp(flags + same * 256, flags + page * 256, 256) != 0)
                same++;
        }
        if (same == n)
            memmove(flags + n++ * 256, flags + page * 256, 256);
        unicode->page_of[page] = (uint16_t)same;
    }
    unicode->pages = lk_resize(flags, n, 256);
}

void lk_unicode_done(struct lk_unicode *unicode)
{
    free(unicode->pages);
    unicode->pages = NULL;
}
