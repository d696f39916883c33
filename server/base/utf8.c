#include "base/utf8.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

/* From @at on, where a character begins. */
static size_t valid_from(const uint8_t *p, size_t n, size_t at)
{
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

#if defined(__x86_64__)
/*
 * 32 bytes at a time: Keiser, Lemire, "Validating UTF-8 in less than one instruction per byte",
 * Software: Practice and Experience 51 (2021), https://arxiv.org/abs/2010.03090. Every error of two
 * neighbouring bytes is a bit; three tables say, by the halves of the first byte and the upper half of the
 * second, which errors are still possible; what all three leave is wrong. What remains are third and
 * fourth bytes that must follow: TWO_CONTS is right for these, and only for these.
 */
enum {
    TOO_SHORT = 1 << 0,      /* a lead without its follower */
    TOO_LONG = 1 << 1,       /* a follower after ASCII */
    OVERLONG_3 = 1 << 2,     /* E0 80…9F */
    TOO_LARGE = 1 << 3,      /* F4 90…BF, F5… */
    SURROGATE = 1 << 4,      /* ED A0…BF */
    OVERLONG_2 = 1 << 5,     /* C0, C1 */
    TOO_LARGE_1000 = 1 << 6, /* F5… 80…8F */
    OVERLONG_4 = 1 << 6,     /* F0 80…8F */
    TWO_CONTS = 1 << 7,
    CARRY = TOO_SHORT | TOO_LONG | TWO_CONTS, /* whatever the lower half of the first byte is */
    LARGE = CARRY | TOO_LARGE | TOO_LARGE_1000,
};

#define TABLE(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                                      \
    _mm256_setr_epi8((char)(a), (char)(b), (char)(c), (char)(d), (char)(e), (char)(f), (char)(g),  \
                     (char)(h), (char)(i), (char)(j), (char)(k), (char)(l), (char)(m), (char)(n),  \
                     (char)(o), (char)(p), (char)(a), (char)(b), (char)(c), (char)(d), (char)(e),  \
                     (char)(f), (char)(g), (char)(h), (char)(i), (char)(j), (char)(k), (char)(l),  \
                     (char)(m), (char)(n), (char)(o), (char)(p))
#define AVX2 __attribute__((target("avx2")))

/* The bytes of @v, each replaced by the one @n before it; @lag is the 16 bytes before each half. */
#define BEFORE(v, lag, n) _mm256_alignr_epi8(v, lag, 16 - (n))

AVX2 static inline __m256i pairs_wrong(__m256i v, __m256i first)
{
    const __m256i low4 = _mm256_set1_epi8(15);
    const __m256i first_high =
        TABLE(TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG,
              TWO_CONTS, TWO_CONTS, TWO_CONTS, TWO_CONTS, TOO_SHORT | OVERLONG_2, TOO_SHORT,
              TOO_SHORT | OVERLONG_3 | SURROGATE,
              TOO_SHORT | TOO_LARGE | TOO_LARGE_1000 | OVERLONG_4);
    const __m256i first_low =
        TABLE(CARRY | OVERLONG_3 | OVERLONG_2 | OVERLONG_4, CARRY | OVERLONG_2, CARRY, CARRY,
              CARRY | TOO_LARGE, LARGE, LARGE, LARGE, LARGE, LARGE, LARGE, LARGE, LARGE,
              LARGE | SURROGATE, LARGE, LARGE);
    const int follower = TOO_LONG | OVERLONG_2 | TWO_CONTS;
    const __m256i second_high =
        TABLE(TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,
              follower | OVERLONG_3 | TOO_LARGE_1000 | OVERLONG_4, follower | OVERLONG_3 | TOO_LARGE,
              follower | SURROGATE | TOO_LARGE, follower | SURROGATE | TOO_LARGE, TOO_SHORT,
              TOO_SHORT, TOO_SHORT, TOO_SHORT);
    __m256i a = _mm256_shuffle_epi8(first_high, _mm256_and_si256(_mm256_srli_epi16(first, 4), low4));
    __m256i b = _mm256_shuffle_epi8(first_low, _mm256_and_si256(first, low4));
    __m256i c = _mm256_shuffle_epi8(second_high, _mm256_and_si256(_mm256_srli_epi16(v, 4), low4));
    return _mm256_and_si256(_mm256_and_si256(a, b), c);
}

/* Is anything wrong with @v, after @before? A character that it only begins is not. */
AVX2 static inline bool block_wrong(__m256i v, __m256i before)
{
    __m256i lag = _mm256_permute2x128_si256(before, v, 0x21);
    __m256i pairs = pairs_wrong(v, BEFORE(v, lag, 1));
    __m256i third = _mm256_subs_epu8(BEFORE(v, lag, 2), _mm256_set1_epi8((char)(0xe0 - 0x80)));
    __m256i fourth = _mm256_subs_epu8(BEFORE(v, lag, 3), _mm256_set1_epi8((char)(0xf0 - 0x80)));
    __m256i must = _mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8((char)0x80));
    __m256i wrong = _mm256_xor_si256(must, pairs);
    return !_mm256_testz_si256(wrong, wrong);
}

/* How much of the front is valid but for a character that may not be whole; whole blocks of it. */
AVX2 static size_t valid_blocks(const uint8_t *p, size_t n)
{
    __m256i before = _mm256_setzero_si256();
    bool open = false; /* a character may reach beyond @before */
    size_t at = 0;
    for (; n - at >= 32; at += 32) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(p + at));
        unsigned odd = (unsigned)_mm256_movemask_epi8(v);
        if ((odd != 0 || open) && block_wrong(v, before))
            break;
        open = odd >> 29 != 0;
        before = v;
    }
    return at;
}

/* Where the character begins that the bytes before @at end with. */
static size_t character_before(const uint8_t *p, size_t at)
{
    size_t from = at;
    while (from > 0 && at - from < 3 && (p[from - 1] & 0xc0) == 0x80)
        from--;
    return from > 0 && p[from - 1] >= 0xc0 ? from - 1 : at;
}

size_t lk_utf8_valid_prefix(const uint8_t *p, size_t n)
{
    size_t at = 0;
    if (n >= 32 && __builtin_cpu_supports("avx2"))
        at = character_before(p, valid_blocks(p, n));
    return valid_from(p, n, at);
}
#else
size_t lk_utf8_valid_prefix(const uint8_t *p, size_t n)
{
    return valid_from(p, n, 0);
}
#endif

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
