/*
 * Blocks with more than ASCII, and the kinds of ASCII characters.
 */
#include "op/pretok/masks.h"

#ifdef __x86_64__

const uint8_t lk_ascii_kinds[128] __attribute__((aligned(64))) = {
    ['\t'] = LK_KIND_SPACE,
    ['\n'] = LK_KIND_SPACE | LK_KIND_NEWLINE,
    ['\v'] = LK_KIND_SPACE,
    ['\f'] = LK_KIND_SPACE,
    ['\r'] = LK_KIND_SPACE | LK_KIND_NEWLINE,
    [' '] = LK_KIND_SPACE,
    ['!' ... '/'] = LK_KIND_PUNCT,
    ['0' ... '9'] = LK_KIND_DIGIT,
    [':' ... '@'] = LK_KIND_PUNCT,
    ['A' ... 'C'] = LK_KIND_UPPER,
    ['D'] = LK_KIND_UPPER | LK_KIND_HOOK,
    ['E' ... 'K'] = LK_KIND_UPPER,
    ['L' ... 'M'] = LK_KIND_UPPER | LK_KIND_HOOK,
    ['N' ... 'Q'] = LK_KIND_UPPER,
    ['R' ... 'T'] = LK_KIND_UPPER | LK_KIND_HOOK,
    ['U'] = LK_KIND_UPPER,
    ['V'] = LK_KIND_UPPER | LK_KIND_HOOK,
    ['W' ... 'Z'] = LK_KIND_UPPER,
    ['[' ... '`'] = LK_KIND_PUNCT,
    ['a' ... 'c'] = LK_KIND_LOWER,
    ['d'] = LK_KIND_LOWER | LK_KIND_HOOK,
    ['e' ... 'k'] = LK_KIND_LOWER,
    ['l' ... 'm'] = LK_KIND_LOWER | LK_KIND_HOOK,
    ['n' ... 'q'] = LK_KIND_LOWER,
    ['r' ... 't'] = LK_KIND_LOWER | LK_KIND_HOOK,
    ['u'] = LK_KIND_LOWER,
    ['v'] = LK_KIND_LOWER | LK_KIND_HOOK,
    ['w' ... 'z'] = LK_KIND_LOWER,
    ['{' ... '~'] = LK_KIND_PUNCT,
};

/* What is known of the characters above ASCII in a block. */
struct wide {
    uint8_t bytes[64 + 4]; /* of the block; and zeros, to read four at once from each */
    uint8_t flags[64];     /* at the first byte of each, from the table */
    uint64_t high, continued; /* bytes from 0x80; of these to 0xbf */
    uint64_t three, four;     /* bytes from 0xe0; from 0xf0 */
    uint64_t beyond;          /* bytes from 0xf4: beyond Unicode, or private */
};

/* Whether these are characters as UTF-8 has them; then sets where each begins. One that the
 * block does not hold as a whole is left out. What is not as it should be, the scalar code must
 * make something of. */
LK_TARGET_BITS
static inline bool find_characters(struct lk_block *block, const struct wide *wide)
{
    uint64_t leads = wide->high & ~wide->continued, known = block->known;
    uint64_t expected = leads << 1 | wide->three << 2 | wide->four << 3;

    if (!block->whole && (expected & ~known) != 0) {
        known = ~UINT64_C(0) >> 1 >> _lzcnt_u64(leads);
        expected &= known;
    }
    if (expected != (wide->continued & known) || wide->beyond != 0)
        return false;
    block->is_start = known & ~wide->continued; /* not empty: the first is none that is expected */
    block->known = ~UINT64_C(0) >> (64 - _mm_popcnt_u64(block->is_start));
    return true;
}

/* Sets the flags of each. A character's bits are in the low bits of its bytes, the first highest. */
LK_TARGET_BITS
static inline void look_up(const struct lk_block *block, const struct lk_unicode *unicode,
                           struct wide *wide)
{
    static const uint32_t payload[] = {0x1f3f0000, 0x1f3f0000, 0x0f3f3f00, 0x073f3f3f};

    for (uint64_t leads = wide->high & block->is_start; leads != 0; leads &= leads - 1) {
        size_t i = _tzcnt_u64(leads);
        uint32_t bytes;
        memcpy(&bytes, wide->bytes + i, sizeof bytes);
        bytes = __builtin_bswap32(bytes);
        wide->flags[i] = lk_unicode_flags(unicode, _pext_u32(bytes, payload[bytes >> 28 & 3]));
    }
}

/* Masks of ASCII, anything in them for @high, become masks of characters. */
LK_TARGET_BITS
static inline void gather(struct lk_block *block, uint64_t high)
{
    uint64_t *masks[] = {&block->upper,   &block->lower,        &block->number,      &block->space,
                         &block->punct,   &block->newline,      &block->blank,       &block->apostrophe,
                         &block->slash,   &block->ascii_letter, &block->ascii_punct};

    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        *masks[i] = _pext_u64(*masks[i] & ~high, block->is_start);
    block->hook = _pext_u64(block->hook | high, block->is_start); /* U+017F may be an s */
}

LK_TARGET_AVX512
bool lk_block_widen_avx512(struct lk_block *block, const struct lk_unicode *unicode)
{
    __m512i v = _mm512_maskz_loadu_epi8(block->known, block->p);
    struct wide wide;

#define FROM(byte) _mm512_cmpge_epu8_mask(v, _mm512_set1_epi8((char)(byte)))
    wide.high = FROM(0x80);
    wide.continued = wide.high & ~FROM(0xc0);
    wide.three = FROM(0xe0);
    wide.four = FROM(0xf0);
    wide.beyond = FROM(0xf4);
    if (!find_characters(block, &wide))
        return false;
    _mm512_storeu_si512(wide.bytes, v);
    memset(wide.bytes + 64, 0, sizeof wide.bytes - 64);
    _mm512_storeu_si512(wide.flags, _mm512_setzero_si512());
    look_up(block, unicode, &wide);
    gather(block, wide.high);
    v = _mm512_loadu_si512(wide.flags);
    __m512i classes = _mm512_and_si512(v, _mm512_set1_epi8(LK_CLASS_MASK));
#define OF(class) \
    _pext_u64(_mm512_cmpeq_epi8_mask(classes, _mm512_set1_epi8(class)), block->is_start)
    block->upper |= OF(LK_CLASS_UPPER);
    block->lower |= OF(LK_CLASS_LOWER);
    block->uncased = OF(LK_CLASS_LETTER);
    block->mark = OF(LK_CLASS_MARK);
    block->number |= OF(LK_CLASS_NUMBER);
    block->space |= OF(LK_CLASS_SPACE);
    block->punct |= OF(LK_CLASS_PUNCT);
    block->cjk = _pext_u64(_mm512_test_epi8_mask(v, _mm512_set1_epi8(LK_CLASS_CJK)), block->is_start);
    return true;
#undef FROM
#undef OF
}

LK_TARGET_AVX2
bool lk_block_widen_avx2(struct lk_block *block, const struct lk_unicode *unicode)
{
    struct lk_halves v = lk_halves_at(block->p, block->end);
    struct wide wide;

#define FROM(byte) (lk_bytes_between(v, byte, 0xff) & block->known)
    wide.high = FROM(0x80);
    wide.continued = wide.high & ~FROM(0xc0);
    wide.three = FROM(0xe0);
    wide.four = FROM(0xf0);
    wide.beyond = FROM(0xf4);
    if (!find_characters(block, &wide))
        return false;
    lk_halves_put(wide.bytes, v);
    memset(wide.bytes + 64, 0, sizeof wide.bytes - 64);
    lk_halves_put(wide.flags, (struct lk_halves){_mm256_setzero_si256(), _mm256_setzero_si256()});
    look_up(block, unicode, &wide);
    gather(block, wide.high);
    v = lk_halves_at(wide.flags, wide.flags + sizeof wide.flags);
    /* a shift brings the flag into the sign, which is what is asked for */
    uint64_t cjk = lk_bits(_mm256_slli_epi16(v.low, 1), _mm256_slli_epi16(v.high, 1));
    v.low = _mm256_and_si256(v.low, _mm256_set1_epi8(LK_CLASS_MASK));
    v.high = _mm256_and_si256(v.high, _mm256_set1_epi8(LK_CLASS_MASK));
#define OF(class) _pext_u64(lk_bytes_equal(v, class), block->is_start)
    block->upper |= OF(LK_CLASS_UPPER);
    block->lower |= OF(LK_CLASS_LOWER);
    block->uncased = OF(LK_CLASS_LETTER);
    block->mark = OF(LK_CLASS_MARK);
    block->number |= OF(LK_CLASS_NUMBER);
    block->space |= OF(LK_CLASS_SPACE);
    block->punct |= OF(LK_CLASS_PUNCT);
    block->cjk = _pext_u64(cjk, block->is_start);
    return true;
#undef FROM
#undef OF
}

#endif
