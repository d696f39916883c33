/*
 * Digits and Punctuation: characters of a kind are cut out.
 */
#include "op/pretok/split.h"

#include "base/mem.h"

#include <stdlib.h>

struct chars {
    uint8_t flag;
    enum lk_split how;
    bool spelled;
    bool bytes[256]; /* of spelled text: which ones stand for such a character */
};

static bool find_char(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                      struct lk_match *ret_match)
{
    const struct chars *chars = cutter->data;
    size_t n;

    for (; p < end; p += n)
        if (lk_flags_at(cutter->unicode, p, end, &n) & chars->flag) {
            *ret_match = (struct lk_match){.start = p, .stop = p + n};
            return true;
        }
    return false;
}

static bool find_byte(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                      struct lk_match *ret_match)
{
    const struct chars *chars = cutter->data;

    while (p < end && !chars->bytes[*p])
        p++;
    *ret_match = (struct lk_match){.start = p, .stop = p + 1};
    return p < end;
}

static size_t cut_chars(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                        const uint8_t *ret_stops[LK_PIECES_MAX])
{
    const struct chars *chars = cutter->data;

    return lk_split_cut(cutter, chars->spelled ? find_byte : find_char, chars->how, p, end,
                        ret_stops);
}

void lk_cutter_chars(const struct lk_unicode *unicode, uint8_t flag, enum lk_split how,
                     lk_spelled *spelled, struct lk_cutter *ret_cutter)
{
    struct chars *chars = lk_zalloc(1, sizeof *chars);

    *chars = (struct chars){.flag = flag, .how = how, .spelled = spelled != NULL};
    for (unsigned b = 0; b < 256 && spelled != NULL; b++)
        chars->bytes[b] = (lk_unicode_flags(unicode, (*spelled)[b]) & flag) != 0;
    *ret_cutter = (struct lk_cutter){
        .cut = cut_chars, .unicode = unicode, .data = chars, .data_done = free};
}
