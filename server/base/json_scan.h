/*
 * The inner loops of reading JSON strings: vectors, chosen at run time. What they look for are the bytes
 * that do not stand for themselves: the quote, the backslash, and control characters. Whether the rest is
 * UTF-8 is none of their business.
 */
#ifndef LK_BASE_JSON_SCAN_H
#define LK_BASE_JSON_SCAN_H

#include <stddef.h>
#include <stdint.h>

#define LK_JSON_SLACK 64 /* bytes that lk_json_copy may write beyond what it copies */

/* What the letter after a backslash stands for; 0 for u, and for those that mean nothing. */
extern const uint8_t lk_json_escapes[256];

/* The first such byte in [p, end), or @end. */
const uint8_t *lk_json_scan(const uint8_t *p, const uint8_t *end);

/*
 * Copies from @p to *@to, decoding the escapes of one letter, up to a quote, a control character, another
 * escape (its backslash), or @end, which it returns; *@to is then behind the copy. A backslash that is the
 * last byte is left, too. There must be room for end - p + LK_JSON_SLACK bytes.
 */
const uint8_t *lk_json_copy(const uint8_t *p, const uint8_t *end, uint8_t **to);

/* For tests: the same as each way of doing it that this machine has, the best first; NULL after the last. */
struct lk_json_loops {
    const char *name;
    const uint8_t *(*scan)(const uint8_t *p, const uint8_t *end);
    const uint8_t *(*copy)(const uint8_t *p, const uint8_t *end, uint8_t **to);
};
const struct lk_json_loops *lk_json_loops(unsigned i);

#endif
