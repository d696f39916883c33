/*
 * The table of known expressions, and what belongs to no family.
 */
#include "op/pretok/families.h"

#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#define A_CLASS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define B_CLASS "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define PREFIX "[^\\r\\n\\p{L}\\p{N}]?"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

static const struct {
    const char *pattern;
    lk_cut_fn *(*family)(enum lk_simd simd);
} known[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     lk_cut_gpt2},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     lk_cut_gpt2},
    /* cl100k, Llama 3 */
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     lk_cut_cl100k},
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}|"
     " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     lk_cut_cl100k},
    /* Qwen 2, Qwen 3 */
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     lk_cut_qwen},
    /* o200k: GPT-4o, gpt-oss, Llama 4 */
    {PREFIX A_CLASS "*" B_CLASS "+" CONTRACTION "|" PREFIX A_CLASS "+" B_CLASS "*" CONTRACTION
     "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     lk_cut_o200k},
    /* Mistral's Tekken */
    {PREFIX A_CLASS "*" B_CLASS "+|" PREFIX A_CLASS "+" B_CLASS "*"
     "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     lk_cut_tekken},
};

/* DeepSeek-V3: known as the three together. The lines' ends are characters in its file. */
static const char *const deepseek[] = {
    "\\p{N}{1,3}",
    "[\344\270\200-\351\276\245\343\201\200-\343\202\237\343\202\240-\343\203\277]+",
    ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
     " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"),
};

static bool is_pattern(const struct lk_pattern *pattern, const char *text)
{
    return pattern->n == strlen(text) && memcmp(pattern->text, text, pattern->n) == 0;
}

static bool is_deepseek(const struct lk_pattern *patterns, size_t n)
{
    size_t same = 0;

    while (same < n && n == sizeof deepseek / sizeof *deepseek &&
           is_pattern(&patterns[same], deepseek[same]))
        same++;
    return n > 0 && same == n;
}

enum lk_code lk_cutter_of_patterns(const struct lk_pattern *patterns, size_t n,
                                   const struct lk_unicode *unicode, enum lk_simd simd,
                                   struct lk_cutter *ret_cutter)
{
    if (simd > lk_simd_here())
        simd = lk_simd_here();
    for (size_t i = 0; n == 1 && i < sizeof known / sizeof *known; i++) {
        if (!is_pattern(patterns, known[i].pattern))
            continue;
        *ret_cutter = (struct lk_cutter){.cut = known[i].family(simd), .unicode = unicode};
        return LK_OK;
    }
    if (is_deepseek(patterns, n)) {
        *ret_cutter = (struct lk_cutter){.cut = lk_cut_deepseek(simd), .unicode = unicode};
        return LK_OK;
    }
    return LK_NOT_FOUND;
}

static size_t cut_whole(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                        const uint8_t *ret_stops[LK_PIECES_MAX])
{
    (void)cutter;
    (void)p;
    ret_stops[0] = end;
    return 1;
}

void lk_cutter_whole(struct lk_cutter *ret_cutter)
{
    *ret_cutter = (struct lk_cutter){.cut = cut_whole};
}

void lk_cutter_done(struct lk_cutter *cutter)
{
    if (cutter->data_done != NULL)
        cutter->data_done(cutter->data);
    *cutter = (struct lk_cutter){0};
}

void lk_pretok_done(struct lk_pretok *pretok)
{
    for (uint32_t i = 0; i < pretok->n; i++)
        lk_cutter_done(&pretok->stages[i]);
    *pretok = (struct lk_pretok){0};
}

#ifdef __x86_64__
static bool has_lzcnt(void) /* not every compiler's __builtin_cpu_supports() knows it */
{
    unsigned a, b, c, d;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
}
#endif

enum lk_simd lk_simd_here(void)
{
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi") ||
        !__builtin_cpu_supports("bmi2") || !__builtin_cpu_supports("popcnt") || !has_lzcnt())
        return LK_SIMD_SCALAR;
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2"))
        return LK_SIMD_AVX512;
    return LK_SIMD_AVX2;
#else
    return LK_SIMD_SCALAR;
#endif
}
