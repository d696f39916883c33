#include "op/tokenise/vocab.h"

#include "base/status.h"
#include "op/text/unicode.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL /* strings are short: a call would cost more than the hash */
#include <xxhash.h>

void lk_names_done(struct lk_names *names)
{
    lk_buf_done(&names->pool);
    free(names->items);
    free(names->slots);
    *names = (struct lk_names){0};
}

static inline uint32_t hash_of(const void *bytes, size_t n)
{
    return (uint32_t)XXH3_64bits(bytes, n);
}

/* The slot of the string, or the free slot where it belongs. */
static inline struct lk_name_slot *slot_of(const struct lk_names *names, const void *bytes, size_t n,
                                           uint32_t hash)
{
    size_t at = hash & (names->slots_n - 1);

    for (; names->slots[at].item != 0; at = (at + 1) & (names->slots_n - 1)) {
        if (names->slots[at].hash != hash)
            continue;
        const struct lk_name *name = &names->items[names->slots[at].item - 1];
        if (name->n == n && (n == 0 || memcmp(names->pool.data + name->start, bytes, n) == 0))
            break;
    }
    return &names->slots[at];
}

/* Slots move without a look at the strings. */
static void resize(struct lk_names *names, size_t cap)
{
    struct lk_name_slot *old = names->slots;
    size_t old_n = names->slots_n;

    names->cap = cap;
    names->items = lk_resize(names->items, cap, sizeof *names->items);
    names->slots_n = cap * 2;
    names->slots = lk_zalloc(names->slots_n, sizeof *names->slots);
    for (size_t i = 0; i < old_n; i++) {
        size_t at = old[i].hash & (names->slots_n - 1);
        if (old[i].item == 0)
            continue;
        while (names->slots[at].item != 0)
            at = (at + 1) & (names->slots_n - 1);
        names->slots[at] = old[i];
    }
    free(old);
}

void lk_names_reserve(struct lk_names *names, size_t n)
{
    size_t cap = 256;

    while (cap < n)
        cap *= 2;
    if (cap > names->cap)
        resize(names, cap);
}

bool lk_names_add(struct lk_names *names, const void *bytes, size_t n, uint32_t id)
{
    uint32_t hash = hash_of(bytes, n);

    if (names->n == names->cap)
        resize(names, names->cap == 0 ? 256 : names->cap * 2);
    struct lk_name_slot *slot = slot_of(names, bytes, n, hash);
    if (slot->item != 0)
        return false;
    LK_CHECK(names->pool.len + n < UINT32_MAX); /* files are bounded far below */
    names->items[names->n] =
        (struct lk_name){.start = (uint32_t)names->pool.len, .n = (uint32_t)n, .id = id};
    lk_buf_put(&names->pool, bytes, n);
    *slot = (struct lk_name_slot){.hash = hash, .item = (uint32_t)++names->n};
    return true;
}

uint32_t lk_names_place(const struct lk_names *names, const void *bytes, size_t n)
{
    if (names->n == 0)
        return LK_NO_ID;
    return slot_of(names, bytes, n, hash_of(bytes, n))->item - 1; /* 0 - 1 is LK_NO_ID */
}

uint32_t lk_names_find(const struct lk_names *names, const void *bytes, size_t n)
{
    uint32_t place = lk_names_place(names, bytes, n);
    return place == LK_NO_ID ? LK_NO_ID : names->items[place].id;
}

void lk_vocab_reserve(struct lk_vocab *vocab, uint32_t n, size_t bytes)
{
    if (n > vocab->cap) {
        vocab->cap = n;
        vocab->spans = lk_resize(vocab->spans, n, sizeof *vocab->spans);
    }
    (void)lk_buf_room(&vocab->pool, bytes);
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
    uint8_t *to = lk_buf_room(out, n), *begin = to; /* never more than a byte a character */
    size_t length;

    for (; text < end; text += length) {
        int byte = byte_of_point(lk_decode(text, end, &length));
        if (byte < 0)
            return false;
        *to++ = (uint8_t)byte;
    }
    out->len += (size_t)(to - begin);
    return true;
}
