#include "base/json_scan.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

const uint8_t lk_json_escapes[256] = {['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
                                      ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t'};

static bool stands_for_itself(uint8_t c)
{
    return c >= ' ' && c != '"' && c != '\\';
}

/* ---- byte by byte ---- */

static const uint8_t *scan_bytes(const uint8_t *p, const uint8_t *end)
{
    while (p < end && stands_for_itself(*p))
        p++;
    return p;
}

static const uint8_t *copy_bytes(const uint8_t *p, const uint8_t *end, uint8_t **to)
{
    uint8_t *out = *to;
    while (p < end) {
        if (stands_for_itself(*p)) {
            *out++ = *p++;
        } else if (*p == '\\' && end - p >= 2 && lk_json_escapes[p[1]] != 0) {
            *out++ = lk_json_escapes[p[1]];
            p += 2;
        } else {
            break;
        }
    }
    *to = out;
    return p;
}

#if defined(__x86_64__)
/* NOLINTBEGIN(bugprone-macro-parentheses): types and attributes cannot stand in parentheses. */
/*
 * The same 16 or 32 bytes at a time. A vector is written whole, and the next begins where the first odd
 * byte of this one stands: so nothing is ever moved. What is left at the end is done byte by byte.
 */
#define VECTOR_LOOPS(NAME, TARGET, WIDTH, VECTOR, LOAD, STORE, MASK, FIRST)                        \
    TARGET static const uint8_t *scan_##NAME(const uint8_t *p, const uint8_t *end)                 \
    {                                                                                              \
        for (; end - p >= (WIDTH); p += (WIDTH)) {                                                 \
            MASK odd = odd_##NAME(LOAD(p));                                                        \
            if (odd != 0)                                                                          \
                return p + FIRST(odd);                                                             \
        }                                                                                          \
        return scan_bytes(p, end);                                                                 \
    }                                                                                              \
    TARGET static const uint8_t *copy_##NAME(const uint8_t *p, const uint8_t *end, uint8_t **to)   \
    {                                                                                              \
        uint8_t *out = *to;                                                                        \
        while (end - p >= (WIDTH)) {                                                               \
            VECTOR v = LOAD(p);                                                                    \
            MASK odd = odd_##NAME(v);                                                              \
            STORE(out, v);                                                                         \
            unsigned n = odd != 0 ? (unsigned)FIRST(odd) : (WIDTH);                                \
            p += n;                                                                                \
            out += n;                                                                              \
            if (n == (WIDTH))                                                                      \
                continue;                                                                          \
            uint8_t meaning = *p == '\\' && end - p >= 2 ? lk_json_escapes[p[1]] : 0;              \
            if (meaning == 0) {                                                                    \
                *to = out;                                                                         \
                return p;                                                                          \
            }                                                                                      \
            *out++ = meaning;                                                                      \
            p += 2;                                                                                \
        }                                                                                          \
        *to = out;                                                                                 \
        return copy_bytes(p, end, to);                                                             \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

#define NO_TARGET
static inline unsigned odd_sse2(__m128i v)
{
    __m128i odd = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')),
                               _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
    __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1f)), v);
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(odd, low));
}
#define LOAD_128(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define STORE_128(p, v) _mm_storeu_si128((__m128i *)(void *)(p), v)
VECTOR_LOOPS(sse2, NO_TARGET, 16, __m128i, LOAD_128, STORE_128, unsigned, __builtin_ctz)

#define AVX2 __attribute__((target("avx2,bmi")))
AVX2 static inline unsigned odd_avx2(__m256i v)
{
    __m256i odd = _mm256_or_si256(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('"')),
                                  _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\\')));
    __m256i low = _mm256_cmpeq_epi8(_mm256_min_epu8(v, _mm256_set1_epi8(0x1f)), v);
    return (unsigned)_mm256_movemask_epi8(_mm256_or_si256(odd, low));
}
#define LOAD_256(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE_256(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
VECTOR_LOOPS(avx2, AVX2, 32, __m256i, LOAD_256, STORE_256, unsigned, __builtin_ctz)

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vbmi,avx512vbmi2,bmi,popcnt")))

AVX512 static const uint8_t *scan_avx512(const uint8_t *p, const uint8_t *end)
{
    for (; end - p >= 64; p += 64) {
        __m512i v = _mm512_loadu_si512((const void *)p);
        uint64_t odd = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('"')) |
                       _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\\')) |
                       _mm512_cmplt_epu8_mask(v, _mm512_set1_epi8(' '));
        if (odd != 0)
            return p + __builtin_ctzll(odd);
    }
    return scan_bytes(p, end);
}

/* Of the backslashes of a block, those that begin an escape: of each run, every other one, from the first.
 * (Subtracting borrows through runs: Geoff Langdale and Daniel Lemire, "Parsing gigabytes of JSON per
 * second", VLDB Journal 28 (2019), has the idea.) */
static inline uint64_t escaping(uint64_t backslash)
{
    const uint64_t odd_bits = 0xaaaaaaaaaaaaaaaau;
    return ((((backslash << 1) | odd_bits) - backslash) ^ odd_bits) & backslash;
}

/* 64 bytes at a time without a branch on what they are: escapes are as common as lines are short, and each
 * that ends a run is a branch that nothing predicts. The letters of all escapes in a block are replaced,
 * and then their backslashes squeezed out. */
AVX512 static const uint8_t *copy_avx512(const uint8_t *p, const uint8_t *end, uint8_t **to)
{
    const __m512i low = _mm512_loadu_si512(lk_json_escapes);
    const __m512i high = _mm512_loadu_si512(lk_json_escapes + 64);
    uint8_t *out = *to;
    for (uint64_t stop = 0, n = 1; p < end && stop == 0 && n > 0; p += n) {
        size_t left = (size_t)(end - p);
        uint64_t there = left >= 64 ? UINT64_MAX : (1ull << left) - 1;
        __m512i v = _mm512_maskz_loadu_epi8(there, p);
        __m512i meaning = _mm512_permutex2var_epi8(low, v, high); /* by the lower seven bits */
        uint64_t escape = escaping(_mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\\')));
        uint64_t letter = escape << 1;
        uint64_t known = _mm512_test_epi8_mask(meaning, meaning) & ~_mm512_movepi8_mask(v);
        stop = _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('"')) |
               _mm512_cmplt_epu8_mask(v, _mm512_set1_epi8(' '));
        stop = ((stop & ~letter) | (letter & ~known) >> 1) & there;
        uint64_t beyond = stop | ~there;
        n = beyond != 0 ? (uint64_t)__builtin_ctzll(beyond) : 64;
        n -= n > 0 && (escape >> (n - 1) & 1); /* whose letter is not in the block */
        uint64_t keep = (n == 64 ? UINT64_MAX : (1ull << n) - 1) & ~escape;
        v = _mm512_mask_mov_epi8(v, letter, meaning);
        _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(keep, v));
        out += __builtin_popcountll(keep);
    }
    *to = out;
    return p;
}
#endif

static const struct lk_json_loops loops[] = {
#if defined(__x86_64__)
    {"avx512", scan_avx512, copy_avx512},
    {"avx2", scan_avx2, copy_avx2},
    {"sse2", scan_sse2, copy_sse2},
#endif
    {"bytes", scan_bytes, copy_bytes},
};
#define WAYS (sizeof loops / sizeof *loops)

/* The best that this machine has. */
static unsigned best(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("avx2"))
        return 2;
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi") &&
                   __builtin_cpu_supports("avx512vbmi2")
               ? 0
               : 1;
#else
    return 0;
#endif
}

const struct lk_json_loops *lk_json_loops(unsigned i)
{
    return best() + i < WAYS ? &loops[best() + i] : NULL;
}

const uint8_t *lk_json_scan(const uint8_t *p, const uint8_t *end)
{
    return loops[best()].scan(p, end);
}

const uint8_t *lk_json_copy(const uint8_t *p, const uint8_t *end, uint8_t **to)
{
    return loops[best()].copy(p, end, to);
}
