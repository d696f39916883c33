#include "op/tokenise/alphabet.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

void lk_alphabet_init(struct lk_alphabet *alphabet)
{
    *alphabet = (struct lk_alphabet){.unknown = LK_NO_ID};
    memset(alphabet->byte_id, 0xff, sizeof alphabet->byte_id);
    memset(alphabet->ascii_id, 0xff, sizeof alphabet->ascii_id);
}

void lk_alphabet_done(struct lk_alphabet *alphabet)
{
    free(alphabet->pages);
    *alphabet = (struct lk_alphabet){0};
}

static uint32_t new_page(struct lk_alphabet *alphabet)
{
    alphabet->pages =
        lk_resize(alphabet->pages, (size_t)alphabet->pages_n + 1, 256 * sizeof *alphabet->pages);
    memset(alphabet->pages + (size_t)alphabet->pages_n * 256, 0xff, 256 * sizeof *alphabet->pages);
    return alphabet->pages_n++;
}

void lk_alphabet_use_characters(struct lk_alphabet *alphabet)
{
    alphabet->characters = true;
    (void)new_page(alphabet);
}

void lk_alphabet_add(struct lk_alphabet *alphabet, uint32_t point, uint32_t id)
{
    LK_CHECK(alphabet->characters && point < 0x110000);
    if (point < 0x80) {
        alphabet->ascii_id[point] = id;
        return;
    }
    uint16_t *page = &alphabet->page_of[point >> 8];
    if (*page == 0)
        *page = (uint16_t)new_page(alphabet);
    alphabet->pages[(size_t)*page << 8 | (point & 255)] = id;
}

/* Ids on their way out, and the unknown token that may still grow. */
struct writer {
    uint32_t *ids;
    size_t n;
    bool pending;
};

static inline void put_known(struct writer *to, const struct lk_alphabet *alphabet, uint32_t id)
{
    if (to->pending)
        to->ids[to->n++] = alphabet->unknown;
    to->pending = false;
    to->ids[to->n++] = id;
}

static void put_unknown(struct writer *to, const struct lk_alphabet *alphabet)
{
    if (alphabet->unknown == LK_NO_ID)
        return;
    if (to->pending && !alphabet->fuse)
        to->ids[to->n++] = alphabet->unknown;
    to->pending = true;
}

/* All bytes of a character, or none of them. An unknown token that was pending goes on pending: the
 * reference writes it after these, and joins it with the next. */
static bool put_bytes(struct writer *to, const struct lk_alphabet *alphabet, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (alphabet->byte_id[p[i]] == LK_NO_ID)
            return false;
    for (size_t i = 0; i < n; i++)
        to->ids[to->n++] = alphabet->byte_id[p[i]];
    return true;
}

static size_t finish(struct writer *to, const struct lk_alphabet *alphabet)
{
    if (to->pending)
        to->ids[to->n++] = alphabet->unknown;
    return to->n;
}

static size_t character_ids(const struct lk_alphabet *alphabet, const uint8_t *p, const uint8_t *end,
                            uint32_t *ret_ids)
{
    struct writer to = {.ids = ret_ids};
    size_t n;

    for (; p < end; p += n) {
        uint32_t id = lk_alphabet_id(alphabet, lk_decode(p, end, &n));
        if (id != LK_NO_ID)
            put_known(&to, alphabet, id);
        else if (!put_bytes(&to, alphabet, p, n))
            put_unknown(&to, alphabet);
    }
    return finish(&to, alphabet);
}

size_t lk_alphabet_ids(const struct lk_alphabet *alphabet, const uint8_t *bytes, size_t n,
                       uint32_t *ret_ids)
{
    struct writer to = {.ids = ret_ids};

    if (alphabet->characters)
        return character_ids(alphabet, bytes, bytes + n, ret_ids);
    for (size_t i = 0; i < n; i++) {
        uint32_t id = alphabet->byte_id[bytes[i]];
        if (id != LK_NO_ID)
            put_known(&to, alphabet, id);
        else
            put_unknown(&to, alphabet);
    }
    return finish(&to, alphabet);
}

/* UTF-8 never has the bytes C0, C1 and F5 to FF. */
unsigned lk_alphabet_missing_bytes(const struct lk_alphabet *alphabet)
{
    unsigned missing = 0;

    for (unsigned b = 0; b < 256; b++)
        missing += alphabet->byte_id[b] == LK_NO_ID && b != 0xc0 && b != 0xc1 && b < 0xf5;
    return missing;
}
