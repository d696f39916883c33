/*
 * The families: each gives the function that cuts by its expression, as fast as @simd allows.
 */
#ifndef LK_OP_PRETOK_FAMILIES_H
#define LK_OP_PRETOK_FAMILIES_H

#include "op/pretok/pretok.h"

lk_cut_fn *lk_cut_gpt2(enum lk_simd simd);
lk_cut_fn *lk_cut_cl100k(enum lk_simd simd);
lk_cut_fn *lk_cut_qwen(enum lk_simd simd);
lk_cut_fn *lk_cut_o200k(enum lk_simd simd);
lk_cut_fn *lk_cut_tekken(enum lk_simd simd);
lk_cut_fn *lk_cut_deepseek(enum lk_simd simd);

#endif
