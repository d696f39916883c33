#include "op/text/unicode.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* The "quick check" of Unicode Annex #15: marks, code points that NFC replaces, and those that may
 * join the one before them (vowels and trailing consonants of Hangul among them). */
static void flag_nfc(uint8_t *flags)
{
    for (size_t i = 0; i < lk_decompositions_n; i++)
        flags[lk_decompositions[i].point] |= LK_CLASS_NFC;
    for (size_t i = 0; i < lk_compositions_n; i++) /* these are composed again */
        flags[lk_compositions[i].composed] &= (uint8_t)~LK_CLASS_NFC;
    for (size_t i = 0; i < lk_ccc_ranges_n; i++)
        for (uint32_t c = lk_ccc_ranges[i].first; c <= lk_ccc_ranges[i].last; c++)
            flags[c] |= LK_CLASS_NFC;
    for (size_t i = 0; i < lk_compositions_n; i++)
        flags[lk_compositions[i].right] |= LK_CLASS_NFC;
    for (uint32_t c = 0x1161; c <= 0x1175; c++)
        flags[c] |= LK_CLASS_NFC;
    for (uint32_t c = 0x11a8; c <= 0x11c2; c++)
        flags[c] |= LK_CLASS_NFC;
}

void lk_unicode_init(struct lk_unicode *unicode)
{
    uint8_t *flags = lk_zalloc(0x110000, 1);
    size_t n = 0, same = 0;

    for (size_t i = 0; i < lk_class_ranges_n; i++)
        memset(flags + lk_class_ranges[i].first, lk_class_ranges[i].value,
               lk_class_ranges[i].last - lk_class_ranges[i].first + 1);
    flag_nfc(flags);
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
