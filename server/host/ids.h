/*
 * Copies of token ids, checked, or as u16, for vocabularies of which half of all are: in vectors of the base
 * instruction set, as memory is what limits these loops. Every token of the daemon passes here.
 */
#ifndef LK_HOST_IDS_H
#define LK_HOST_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#if defined(__SSE2__)
static inline uint32_t ids_or_lanes(__m128i v)
{
    uint32_t lane[4];
    _mm_storeu_si128((__m128i *)(void *)lane, v);
    return lane[0] | lane[1] | lane[2] | lane[3];
}
#endif

/* All bits that are set in any of @ids [n]. */
static inline uint32_t ids_or(const uint32_t *ids, uint32_t n)
{
    uint32_t i = 0, all = 0;
#if defined(__SSE2__)
    __m128i a = _mm_setzero_si128(), b = a;
    for (; n - i >= 8; i += 8) {
        a = _mm_or_si128(a, _mm_loadu_si128((const __m128i *)(const void *)(ids + i)));
        b = _mm_or_si128(b, _mm_loadu_si128((const __m128i *)(const void *)(ids + i + 4)));
    }
    all = ids_or_lanes(_mm_or_si128(a, b));
#endif
    for (; i < n; i++)
        all |= ids[i];
    return all;
}

/* Copies @ids [n], at any address, and says whether every one that was copied is below @limit, which is at
 * most 2^31. Each is read once: whoever may write there meanwhile, what is at @to has been checked. */
static inline bool ids_copy_below(uint32_t *to, const uint8_t *ids, size_t n, uint32_t limit)
{
    size_t i = 0;
    uint32_t bad = 0;
#if defined(__SSE2__)
    const __m128i last = _mm_set1_epi32((int)(limit - 1));
    __m128i any = _mm_setzero_si128();
    for (; n - i >= 4; i += 4) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(ids + 4 * i));
        _mm_storeu_si128((__m128i *)(void *)(to + i), v);
        /* The comparison is signed: ids from 2^31 on show by their own upper bit. */
        any = _mm_or_si128(any, _mm_or_si128(_mm_cmpgt_epi32(v, last), v));
    }
    bad = (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(any));
#endif
    for (; i < n; i++) {
        memcpy(&to[i], ids + 4 * i, 4);
        bad |= *(volatile uint32_t *)&to[i] >= limit; /* of the copy, not of the source again */
    }
    return bad == 0;
}

/* Copies the lower halves of @ids [n] to u16; all bits that are set in any of @ids. */
static inline uint32_t ids_narrow(uint16_t *to, const uint32_t *ids, uint32_t n)
{
    uint32_t i = 0, all = 0;
#if defined(__SSE2__)
    __m128i or = _mm_setzero_si128();
    for (; n - i >= 8; i += 8) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(ids + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(ids + i + 4));
        or = _mm_or_si128(or, _mm_or_si128(a, b));
        /* Packing is signed: so the sign is what bit 15 says, and comes out as bit 15 again. */
        a = _mm_srai_epi32(_mm_slli_epi32(a, 16), 16);
        b = _mm_srai_epi32(_mm_slli_epi32(b, 16), 16);
        _mm_storeu_si128((__m128i *)(void *)(to + i), _mm_packs_epi32(a, b));
    }
    all = ids_or_lanes(or);
#endif
    for (; i < n; i++) {
        all |= ids[i];
        to[i] = (uint16_t)ids[i];
    }
    return all;
}

static inline void ids_widen(uint32_t *to, const uint16_t *ids, uint32_t n)
{
    uint32_t i = 0;
#if defined(__SSE2__)
    const __m128i zero = _mm_setzero_si128();
    for (; n - i >= 8; i += 8) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(ids + i));
        _mm_storeu_si128((__m128i *)(void *)(to + i), _mm_unpacklo_epi16(v, zero));
        _mm_storeu_si128((__m128i *)(void *)(to + i + 4), _mm_unpackhi_epi16(v, zero));
    }
#endif
    for (; i < n; i++)
        to[i] = ids[i];
}

#endif
