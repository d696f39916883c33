/*
 * UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF.
 */
#ifndef LK_BASE_UTF8_H
#define LK_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the valid sequence that begins at @p (@n >= 1 bytes are readable), or 0. */
static inline size_t lk_utf8_length(const uint8_t *p, size_t n)
{
    uint8_t lead = p[0];

    if (lead < 0x80)
        return 1;
    if (lead < 0xe0) /* C0 and C1 could only begin an overlong form */
        return lead >= 0xc2 && n >= 2 && (p[1] & 0xc0) == 0x80 ? 2 : 0;
    if (lead < 0xf0) {
        if (n < 3 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80)
            return 0;
        unsigned unit = (unsigned)(lead & 15) << 6 | (p[1] & 0x3fu); /* without its last six bits */
        return unit >= 0x800 >> 6 && (unit < 0xd800 >> 6 || unit > 0xdfff >> 6) ? 3 : 0;
    }
    if (n < 4 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80 || (p[3] & 0xc0) != 0x80)
        return 0;
    unsigned high = (unsigned)(lead & 15) << 6 | (p[1] & 0x3fu); /* without its last twelve bits */
    return high >= 0x10000 >> 12 && high <= 0x10ffff >> 12 ? 4 : 0;
}

/*
 * The sequence that begins at @p (@n >= 1 bytes are readable). Valid: its length, 1 to 4.
 * Invalid: the length of the part that one U+FFFD replaces (WHATWG's "maximal subpart"), 1 to 3.
 */
size_t lk_utf8_step(const uint8_t *p, size_t n, bool *ret_valid);

/* Length of the longest valid prefix: @n when all of it is valid. */
size_t lk_utf8_valid_prefix(const uint8_t *p, size_t n);

/* Writes a code point (no surrogate, at most 0x10FFFF) as 1 to 4 bytes; returns how many. */
size_t lk_utf8_put(uint32_t code_point, uint8_t ret_bytes[4]);

#endif
