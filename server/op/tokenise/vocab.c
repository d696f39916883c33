#include "op/tokenise/vocab.h"

#include "base/digest.h"
#include "base/status.h"
#include "op/text/unicode.h"

#include <stdlib.h>
#include <string.h>

void lk_names_done(struct lk_names *names)
{
    lk_buf_done(&names->pool);
    free(names->items);
    free(names->slots);
    *names = (struct lk_names){0};
}

/* The slot of the string, or the free slot where it belongs. */
static uint32_t *slot_of(const struct lk_names *names, const void *bytes, size_t n, uint32_t hash)
{
    size_t at = hash & (names->slots_n - 1);

    for (; names->slots[at] != 0; at = (at + 1) & (names->slots_n - 1)) {
        const struct lk_name *name = &names->items[names->slots[at] - 1];
        if (name->hash == hash && name->n == n &&
            (n == 0 || memcmp(names->pool.data + name->start, bytes, n) == 0))
            break;
    }
    return &names->slots[at];
}

static void grow(struct lk_names *names)
{
    names->cap = names->cap == 0 ? 256 : names->cap * 2;
    names->items = lk_resize(names->items, names->cap, sizeof *names->items);
    free(names->slots);
    names->slots_n = names->cap * 2;
    names->slots = lk_zalloc(names->slots_n, sizeof *names->slots);
    for (size_t i = 0; i < names->n; i++) {
        const struct lk_name *name = &names->items[i];
        *slot_of(names, names->pool.data + name->start, name->n, name->hash) = (uint32_t)i + 1;
    }
}

bool lk_names_add(struct lk_names *names, const void *bytes, size_t n, uint32_t id)
{
    uint32_t hash = lk_hash32(bytes, n);

    if (names->n == names->cap)
        grow(names);
    uint32_t *slot = slot_of(names, bytes, n, hash);
    if (*slot != 0)
        return false;
    LK_CHECK(names->pool.len + n < UINT32_MAX); /* files are bounded far below */
    names->items[names->n] = (struct lk_name){
        .start = (uint32_t)names->pool.len, .n = (uint32_t)n, .id = id, .hash = hash};
    lk_buf_put(&names->pool, bytes, n);
    *slot = (uint32_t)++names->n;
    return true;
}

uint32_t lk_names_find(const struct lk_names *names, const void *bytes, size_t n)
{
    if (names->n == 0)
        return LK_NO_ID;
    uint32_t slot = *slot_of(names, bytes, n, lk_hash32(bytes, n));
    return slot == 0 ? LK_NO_ID : names->items[slot - 1].id;
}

void lk_vocab_done(struct lk_vocab *vocab)
{
    lk_buf_done(&vocab->pool);
    free(vocab->spans);
    *vocab = (struct lk_vocab){0};
}

void lk_vocab_set(struct lk_vocab *vocab, uint32_t id, const void *bytes, size_t n)
{
    LK_CHECK(id < LK_VOCAB_MAX && vocab->pool.len + n < UINT32_MAX);
    if (id >= vocab->n) {
        if (id >= vocab->cap) {
            vocab->cap = id + 1 + id / 2;
            vocab->spans = lk_resize(vocab->spans, vocab->cap, sizeof *vocab->spans);
        }
        for (uint32_t hole = vocab->n; hole <= id; hole++)
            vocab->spans[hole] = (struct lk_span){.start = LK_NO_ID, .n = 0};
        vocab->n = id + 1;
    }
    vocab->spans[id] = (struct lk_span){.start = (uint32_t)vocab->pool.len, .n = (uint32_t)n};
    lk_buf_put(&vocab->pool, bytes, n);
}

static bool spells_itself(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

uint32_t lk_byte_point(uint8_t byte)
{
    uint32_t point = 0x100;

    if (spells_itself(byte))
        return byte;
    for (unsigned b = 0; b < byte; b++) /* the others count on from U+0100 */
        point += !spells_itself(b);
    return point;
}

/* The inverse: bytes 0…32 are U+0100…, 127…160 U+0121…, 173 U+0143. -1: stands for no byte. */
static int byte_of_point(uint32_t point)
{
    if (point < 0x100)
        return spells_itself(point) ? (int)point : -1;
    if (point <= 0x120)
        return (int)(point - 0x100);
    if (point <= 0x142)
        return (int)(point - 0x121 + 0x7f);
    return point == 0x143 ? 0xad : -1;
}

bool lk_byte_unspell(const uint8_t *text, size_t n, struct lk_buf *out)
{
    const uint8_t *end = text + n;
    size_t before = out->len, length;

    for (; text < end; text += length) {
        int byte = byte_of_point(lk_decode(text, end, &length));
        if (byte < 0) {
            out->len = before;
            return false;
        }
        *lk_buf_room(out, 1) = (uint8_t)byte;
        out->len++;
    }
    return true;
}
