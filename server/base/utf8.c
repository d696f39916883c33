#include "base/utf8.h"

#include <string.h>

/* How many bytes follow a lead byte; 0 for one that cannot begin a sequence of several. */
static unsigned followers(uint8_t lead)
{
    if (lead < 0xc2)
        return 0; /* continuation bytes, and C0 C1, which could only be overlong */
    if (lead < 0xe0)
        return 1;
    if (lead < 0xf0)
        return 2;
    return lead < 0xf5 ? 3 : 0;
}

/* The second byte is where overlong forms, surrogates and too large values show. */
static bool second_ok(uint8_t lead, uint8_t second)
{
    switch (lead) {
    case 0xe0:
        return second >= 0xa0 && second <= 0xbf;
    case 0xed:
        return second >= 0x80 && second <= 0x9f;
    case 0xf0:
        return second >= 0x90 && second <= 0xbf;
    case 0xf4:
        return second >= 0x80 && second <= 0x8f;
    default:
        return (second & 0xc0) == 0x80;
    }
}

size_t lk_utf8_step(const uint8_t *p, size_t n, bool *ret_valid)
{
    size_t length = lk_utf8_length(p, n);

    *ret_valid = length > 0;
    if (length > 0)
        return length;
    unsigned more = followers(p[0]);
    if (more == 0 || n < 2 || !second_ok(p[0], p[1]))
        return 1;
    for (length = 2; length < n && length <= more; length++)
        if ((p[length] & 0xc0) != 0x80)
            break;
    return length;
}

size_t lk_utf8_valid_prefix(const uint8_t *p, size_t n)
{
    size_t at = 0;
    while (at < n) {
        uint64_t word;
        if (n - at >= sizeof word) {
            memcpy(&word, p + at, sizeof word);
            if ((word & 0x8080808080808080u) == 0) {
                at += sizeof word;
                continue;
            }
        }
        size_t step = lk_utf8_length(p + at, n - at);
        if (step == 0)
            return at;
        at += step;
    }
    return n;
}

size_t lk_utf8_put(uint32_t c, uint8_t b[4])
{
    if (c < 0x80) {
        b[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        b[0] = (uint8_t)(0xc0 | c >> 6);
        b[1] = (uint8_t)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        b[0] = (uint8_t)(0xe0 | c >> 12);
        b[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        b[2] = (uint8_t)(0x80 | (c & 0x3f));
        return 3;
    }
    b[0] = (uint8_t)(0xf0 | c >> 18);
    b[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
    b[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    b[3] = (uint8_t)(0x80 | (c & 0x3f));
    return 4;
}
