/*
 * Finding many pieces at once: 63 bytes of text become bit masks, one for each class of characters,
 * and a family says by arithmetic on them where its pieces begin (the idea of Langdale and Lemire,
 * "Parsing Gigabytes of JSON per Second", 2019, section 3).
 *
 *   text      I t ' s   t w o   ·     bit 0 is the first character
 *   letters   1 1 0 1 0 1 1 1 0 0
 *   cuts      0 0 1 0 1 0 0 0 1 0     "It|'s| two| ·" for GPT-2
 *
 * A block begins where a piece begins, so there is nothing to carry from one to the next, and a
 * cutter may be stopped and called again between any two pieces. It gives all pieces that surely
 * end within it; a piece that does not (a long one, or one of spaces whose end decides) is left to
 * the next block, which begins there, or, where it is the only one, to the family's scalar code. So
 * is text that is no UTF-8.
 *
 * The bits are characters, not bytes: those of a block with more than ASCII are gathered from its
 * leading bytes by PEXT, and the cuts spread over them again by PDEP. Families need not know that
 * characters have several bytes.
 *
 * The 64th bit of every mask is free, so that the end of a run always has a bit to be carried into.
 */
#ifndef LK_OP_PRETOK_MASKS_H
#define LK_OP_PRETOK_MASKS_H

#include "op/pretok/pretok.h"
#include "op/pretok/runs.h"

#ifdef __x86_64__

#include <immintrin.h>

#define LK_BLOCK_BYTES 63

#define LK_BITS "bmi,bmi2,lzcnt,popcnt"
#define LK_TARGET_BITS __attribute__((target(LK_BITS)))
#define LK_TARGET_AVX2 __attribute__((target("avx2," LK_BITS)))
#define LK_TARGET_AVX512 \
    __attribute__((target("avx2,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2," LK_BITS)))
#define LK_ALWAYS_INLINE static inline __attribute__((always_inline))

/* Bit k of each: the k-th character of the block is one. Those not named as ASCII hold all of
 * Unicode. */
struct lk_block {
    const uint8_t *p; /* the block, and the end of the text */
    const uint8_t *end;
    uint64_t known;    /* all characters of the block */
    uint64_t is_start; /* of bytes, not characters: each character's first */
    bool whole;        /* nothing follows the block */

    uint64_t upper; /* Lu, Lt */
    uint64_t lower; /* Ll */
    uint64_t uncased; /* Lm, Lo */
    uint64_t mark;
    uint64_t number;
    uint64_t space; /* \s */
    uint64_t punct; /* P, S */
    uint64_t cjk;   /* U+3040 to U+30FF, U+4E00 to U+9FA5 */

    uint64_t newline; /* \n, \r */
    uint64_t blank;   /* the ASCII space */
    uint64_t apostrophe;
    uint64_t slash;
    uint64_t ascii_letter;
    uint64_t ascii_punct;
    uint64_t hook; /* what may follow the apostrophe of a contraction: all that does, and some more */
};

/* Bits of the kinds of ASCII characters. */
enum {
    LK_KIND_UPPER = 1,
    LK_KIND_LOWER = 2,
    LK_KIND_DIGIT = 4,
    LK_KIND_SPACE = 8,
    LK_KIND_NEWLINE = 16,
    LK_KIND_PUNCT = 32,
    LK_KIND_HOOK = 64,
};

extern const uint8_t lk_ascii_kinds[128];

/*
 * Complete a block that has bytes above ASCII: set the classes of these characters and turn masks
 * of bytes into masks of characters. False when it is no UTF-8 (or what a text's end left of it),
 * and the scalar code must say what to make of it.
 */
bool lk_block_widen_avx2(struct lk_block *block, const struct lk_unicode *unicode);
bool lk_block_widen_avx512(struct lk_block *block, const struct lk_unicode *unicode);

/* Arithmetic on masks ----------------------------------------------------------------------------- */

/* The first of each run. */
LK_ALWAYS_INLINE uint64_t lk_firsts(uint64_t runs)
{
    return runs & ~(runs << 1);
}

/* From each bit of @from, all of them in @runs, to the end of its run: a carry passes through
 * the ones. Bits met on the way stop it from clearing them, and are put back. */
LK_ALWAYS_INLINE uint64_t lk_flood(uint64_t from, uint64_t runs)
{
    return (((from + runs) ^ runs) | from) & runs;
}

/* What comes after the runs of which @from has one bit each. */
LK_ALWAYS_INLINE uint64_t lk_past(uint64_t from, uint64_t runs)
{
    return (from + runs) & ~runs;
}

/* Those of @from (one bit in each of some @runs) whose run is followed by one of @what. The ends
 * are as many as the beginnings and in the same order, so the k-th of one belongs to the k-th of
 * the other. */
LK_TARGET_BITS
LK_ALWAYS_INLINE uint64_t lk_followed(uint64_t from, uint64_t runs, uint64_t what)
{
    return _pdep_u64(_pext_u64(what, lk_past(from, runs)), from);
}

/* Where groups of up to three begin. */
LK_ALWAYS_INLINE uint64_t lk_threes(uint64_t runs)
{
    uint64_t next = lk_firsts(runs), all = next, full = runs & runs << 1 & runs << 2;

    while ((next = next << 3 & full) != 0)
        all |= next;
    return all;
}

/* Where pieces of @space begin under "\s*[\r\n]+|\s+(?!\S)|\s+": with each run; after its last
 * newline; and with its last character if that is no newline and one of the same text follows it
 * (@inner: one does). */
LK_TARGET_BITS
LK_ALWAYS_INLINE uint64_t lk_space_cuts(const struct lk_block *block, uint64_t space, uint64_t inner)
{
    uint64_t newline = block->newline & space, plain = space & ~newline;
    uint64_t after = plain & newline << 1;

    after &= ~lk_followed(after, plain, newline);
    return lk_firsts(space) | after | (plain & ~(space >> 1) & inner);
}

/* Where what was worked out stands whatever follows the block: not in a run of spaces at its
 * end, of which only the beginning is sure. */
LK_TARGET_BITS
LK_ALWAYS_INLINE uint64_t lk_settled(const struct lk_block *block)
{
    if (block->whole)
        return block->known;
    return ~UINT64_C(0) >> (_lzcnt_u64(block->known & ~block->space) - 1) & block->known;
}

LK_TARGET_BITS
LK_ALWAYS_INLINE const uint8_t *lk_block_at(const struct lk_block *block, uint64_t bit)
{
    return block->p + _tzcnt_u64(_pdep_u64(bit, block->is_start));
}

/* Characters of the contraction that begins with the apostrophe @bit, 0: it begins none. */
LK_TARGET_BITS
LK_ALWAYS_INLINE size_t lk_contraction_chars(const struct lk_block *block, uint64_t bit, bool any_case)
{
    const uint8_t *p = lk_block_at(block, bit);
    size_t n = any_case ? contraction_i(p, block->end) : contraction(p, block->end);

    return n == 3 && p[1] == 0xc5 ? 2 : n; /* the long s has two bytes */
}

/* @cuts after the contractions that begin at some of @from, where pieces begin: cut behind, not
 * within. */
LK_TARGET_BITS
LK_ALWAYS_INLINE uint64_t lk_cut_contractions(const struct lk_block *block, uint64_t from,
                                              bool any_case, uint64_t cuts)
{
    for (from &= block->apostrophe & block->hook >> 1; from != 0; from &= from - 1) {
        uint64_t bit = from & -from;
        size_t n = lk_contraction_chars(block, bit, any_case);
        if (n != 0)
            cuts = (cuts & ~(bit << 1)) | bit << n;
    }
    return cuts;
}

/* Reading ----------------------------------------------------------------------------------------- */

LK_ALWAYS_INLINE void lk_block_init(struct lk_block *block, const uint8_t *p, const uint8_t *end)
{
    size_t left = (size_t)(end - p);

    *block = (struct lk_block){.p = p, .end = end, .is_start = ~UINT64_C(0)};
    block->whole = left <= LK_BLOCK_BYTES;
    block->known = ~UINT64_C(0) >> (block->whole ? 64 - left : 64 - LK_BLOCK_BYTES);
}

LK_TARGET_AVX512
LK_ALWAYS_INLINE bool lk_block_read_avx512(struct lk_block *block, const struct lk_unicode *unicode,
                                           const uint8_t *p, const uint8_t *end)
{
    lk_block_init(block, p, end);
    __m512i v = _mm512_maskz_loadu_epi8(block->known, p); /* touches nothing that is masked out */
    __m512i kinds = _mm512_permutex2var_epi8(_mm512_load_si512(lk_ascii_kinds), v,
                                             _mm512_load_si512(lk_ascii_kinds + 64));
#define KIND(kind) _mm512_test_epi8_mask(kinds, _mm512_set1_epi8(kind))
#define IS(byte) _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8(byte))
    block->upper = KIND(LK_KIND_UPPER);
    block->lower = KIND(LK_KIND_LOWER);
    block->number = KIND(LK_KIND_DIGIT);
    block->space = KIND(LK_KIND_SPACE);
    block->newline = KIND(LK_KIND_NEWLINE);
    block->ascii_letter = KIND(LK_KIND_UPPER | LK_KIND_LOWER);
    block->ascii_punct = KIND(LK_KIND_PUNCT);
    block->punct = block->ascii_punct;
    block->hook = KIND(LK_KIND_HOOK);
    block->blank = IS(' ');
    block->apostrophe = IS('\'');
    block->slash = IS('/');
    if (__builtin_expect(_mm512_movepi8_mask(v) == 0, 1))
        return true;
    struct lk_block wide = *block; /* so that the block itself may stay in registers */
    bool ok = lk_block_widen_avx512(&wide, unicode);
    *block = wide;
    return ok;
#undef KIND
#undef IS
}

struct lk_halves { /* of 64 bytes */
    __m256i low, high;
};

LK_TARGET_AVX2
LK_ALWAYS_INLINE uint64_t lk_bits(__m256i low, __m256i high)
{
    return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
}

LK_TARGET_AVX2
LK_ALWAYS_INLINE uint64_t lk_bytes_equal(struct lk_halves v, char byte)
{
    __m256i all = _mm256_set1_epi8(byte);
    return lk_bits(_mm256_cmpeq_epi8(v.low, all), _mm256_cmpeq_epi8(v.high, all));
}

/* Bytes from @first to @last: moved so that @first is the smallest signed one. */
LK_TARGET_AVX2
LK_ALWAYS_INLINE uint64_t lk_bytes_between(struct lk_halves v, uint8_t first, uint8_t last)
{
    __m256i by = _mm256_set1_epi8((char)(0x80 - first));
    __m256i beyond = _mm256_set1_epi8((char)(0x80 + last - first + 1));
    return lk_bits(_mm256_cmpgt_epi8(beyond, _mm256_add_epi8(v.low, by)),
                   _mm256_cmpgt_epi8(beyond, _mm256_add_epi8(v.high, by)));
}

LK_TARGET_AVX2
LK_ALWAYS_INLINE struct lk_halves lk_halves_at(const uint8_t *p, const uint8_t *end)
{
    uint8_t copy[64];

    if (end - p < 64) {
        memset(copy, 0, sizeof copy);
        memcpy(copy, p, (size_t)(end - p));
        p = copy;
    }
    return (struct lk_halves){_mm256_loadu_si256((const __m256i *)(const void *)p),
                              _mm256_loadu_si256((const __m256i *)(const void *)(p + 32))};
}

LK_TARGET_AVX2
LK_ALWAYS_INLINE void lk_halves_put(uint8_t *p, struct lk_halves v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, v.low);
    _mm256_storeu_si256((__m256i *)(void *)(p + 32), v.high);
}

LK_TARGET_AVX2
LK_ALWAYS_INLINE bool lk_block_read_avx2(struct lk_block *block, const struct lk_unicode *unicode,
                                         const uint8_t *p, const uint8_t *end)
{
    struct lk_halves v = lk_halves_at(p, end);

    lk_block_init(block, p, end);
    uint64_t high = lk_bits(v.low, v.high) & block->known;
    block->upper = lk_bytes_between(v, 'A', 'Z') & block->known;
    block->lower = lk_bytes_between(v, 'a', 'z') & block->known;
    block->number = lk_bytes_between(v, '0', '9') & block->known;
    block->blank = lk_bytes_equal(v, ' ') & block->known;
    block->space = (lk_bytes_between(v, '\t', '\r') & block->known) | block->blank;
    block->newline = (lk_bytes_equal(v, '\n') | lk_bytes_equal(v, '\r')) & block->known;
    block->ascii_letter = block->upper | block->lower;
    block->ascii_punct = lk_bytes_between(v, '!', '~') & block->known;
    block->ascii_punct &= ~(block->ascii_letter | block->number);
    block->punct = block->ascii_punct;
    block->hook = block->ascii_letter | high;
    block->apostrophe = lk_bytes_equal(v, '\'') & block->known;
    block->slash = lk_bytes_equal(v, '/') & block->known;
    if (__builtin_expect(high == 0, 1))
        return true;
    struct lk_block wide = *block; /* so that the block itself may stay in registers */
    bool ok = lk_block_widen_avx2(&wide, unicode);
    *block = wide;
    return ok;
}

/* Writing ----------------------------------------------------------------------------------------- */

/* Both write up to 64 stops, of which those after the last cut are no use, and return how many are. */
LK_TARGET_AVX512
LK_ALWAYS_INLINE size_t lk_put_stops_avx512(const uint8_t *p, uint64_t cuts, const uint8_t **stops)
{
    static const uint8_t iota[64] __attribute__((aligned(64))) = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    size_t n = (size_t)_mm_popcnt_u64(cuts);
    __m512i from = _mm512_set1_epi64((long long)(uintptr_t)p);
    __m512i at = _mm512_maskz_compress_epi8(cuts, _mm512_load_si512(iota));

    for (size_t i = 0;;) {
        __m512i offsets = _mm512_cvtepu8_epi64(_mm512_castsi512_si128(at));
        _mm512_storeu_si512(stops + i, _mm512_add_epi64(from, offsets));
        i += 8;
        if (i >= n)
            return n;
        at = _mm512_permutexvar_epi64(_mm512_setr_epi64(1, 2, 3, 4, 5, 6, 7, 7), at);
    }
}

LK_TARGET_AVX2
LK_ALWAYS_INLINE size_t lk_put_stops_avx2(const uint8_t *p, uint64_t cuts, const uint8_t **stops)
{
    size_t n = (size_t)_mm_popcnt_u64(cuts);

    for (size_t i = 0; i < n; i += 8)
        for (size_t k = 0; k < 8; k++) { /* mostly eight are enough: no branch for each */
            stops[i + k] = p + _tzcnt_u64(cuts);
            cuts &= cuts - 1;
        }
    return n;
}

/*
 * A cutter for one processor. @find is the family's: bool (struct lk_block *, uint64_t *ret_cuts,
 * …) sets where pieces begin (of the first character it may say anything), or returns false to
 * leave the first piece to @one, the scalar code.
 */
#define LK_CUT_BLOCKS(name, target, level, find, one)                                           \
    target static size_t name(const struct lk_cutter *cutter, const uint8_t *p,                    \
                              const uint8_t *end, const uint8_t *ret_stops[LK_PIECES_MAX])         \
    {                                                                                              \
        const struct lk_unicode *unicode = cutter->unicode;                                        \
        struct lk_block block;                                                                     \
        size_t n = 0;                                                                              \
                                                                                                   \
        while (n <= LK_PIECES_MAX - 64 && p < end) {                                               \
            uint64_t cuts = 0;                                                                     \
            if (lk_block_read_##level(&block, unicode, p, end) && (find)) {                        \
                cuts &= lk_settled(&block) & ~UINT64_C(1);                                         \
                cuts = _pdep_u64(cuts, block.is_start);                                            \
                cuts |= (uint64_t)block.whole << ((end - p) & 63);                                 \
            }                                                                                      \
            if (cuts == 0) {                                                                       \
                ret_stops[n++] = p = (one);                                                        \
                continue;                                                                          \
            }                                                                                      \
            n += lk_put_stops_##level(p, cuts, ret_stops + n);                                     \
            p += 63 - _lzcnt_u64(cuts);                                                            \
        }                                                                                          \
        return n;                                                                                  \
    }

/* The three cutters of a family and the choice between them. */
#define LK_CUT_FAMILY(name, find, one)                                                             \
    LK_CUT_ONE_BY_ONE(cut_##name##_scalar, one)                                                    \
    LK_CUT_BLOCKS(cut_##name##_avx2, LK_TARGET_AVX2, avx2, find, one)                           \
    LK_CUT_BLOCKS(cut_##name##_avx512, LK_TARGET_AVX512, avx512, find, one)                     \
    lk_cut_fn *lk_cut_##name(enum lk_simd simd)                                                    \
    {                                                                                              \
        return simd == LK_SIMD_AVX512 ? cut_##name##_avx512                                        \
               : simd == LK_SIMD_AVX2 ? cut_##name##_avx2                                          \
                                      : cut_##name##_scalar;                                       \
    }

#else

#define LK_CUT_FAMILY(name, find, one)                                                             \
    LK_CUT_ONE_BY_ONE(cut_##name##_scalar, one)                                                    \
    lk_cut_fn *lk_cut_##name(enum lk_simd simd)                                                    \
    {                                                                                              \
        (void)simd;                                                                                \
        return cut_##name##_scalar;                                                                \
    }

#endif
#endif
