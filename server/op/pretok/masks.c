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

/* Masks of bytes (anything goes for those of @high) become masks of characters. */
__attribute__((target(LK_TARGET_BITS)))
static void gather(struct lk_block *block, uint64_t high)
{
    uint64_t *masks[] = {&block->upper,   &block->lower,        &block->number,      &block->space,
                         &block->punct,   &block->newline,      &block->blank,       &block->apostrophe,
                         &block->slash,   &block->ascii_letter, &block->ascii_punct};

    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        *masks[i] = _pext_u64(*masks[i] & ~high, block->is_start);
    block->hook = _pext_u64(block->hook | high, block->is_start); /* U+017F may be an s */
}

__attribute__((target(LK_TARGET_BITS)))
bool lk_block_widen(struct lk_block *block, const struct lk_unicode *unicode, uint64_t high,
                    uint64_t continued)
{
    uint64_t classes[LK_CLASS_MASK + 1] = {0}, cjk = 0, expected = 0;

    for (uint64_t leads = high & ~continued; leads != 0; leads &= leads - 1) {
        size_t i = _tzcnt_u64(leads), n;
        uint32_t point = lk_decode(block->p + i, block->end, &n);
        classes[lk_unicode_flags(unicode, point) & LK_CLASS_MASK] |= leads & -leads;
        cjk |= (uint64_t)(point - 0x3040 < 0xc0 || point - 0x4e00 < 0x51a6) << i;
        expected |= ((UINT64_C(1) << n) - 2) << i;
    }
    if ((expected & block->known) != continued)
        return false;
    block->is_start = block->known & ~continued;
    block->known = ~UINT64_C(0) >> (64 - _mm_popcnt_u64(block->is_start));
    gather(block, high);
    block->upper |= _pext_u64(classes[LK_CLASS_UPPER], block->is_start);
    block->lower |= _pext_u64(classes[LK_CLASS_LOWER], block->is_start);
    block->uncased = _pext_u64(classes[LK_CLASS_LETTER], block->is_start);
    block->mark = _pext_u64(classes[LK_CLASS_MARK], block->is_start);
    block->number |= _pext_u64(classes[LK_CLASS_NUMBER], block->is_start);
    block->space |= _pext_u64(classes[LK_CLASS_SPACE], block->is_start);
    block->punct |= _pext_u64(classes[LK_CLASS_PUNCT], block->is_start);
    block->cjk = _pext_u64(cjk, block->is_start);
    return true;
}

#endif
