/*
 * Scalars of the configuration as exact numbers. Strict, ASCII only, independent of the locale,
 * without floating point: a text is either the documented value or refused with a reason.
 *
 *   integer    digits, without sign, point, exponent, underscore, leading zero or base prefix
 *   size       an integer and one of B kB MB GB TB (powers of 1000) KiB MiB GiB TiB (powers of
 *              1024), without a space; bare = bytes
 *   duration   an integer and one of ms s min h
 *   weight     1 to 9 digits, and up to 9 more after a point: exact, in units of 1e-9
 *
 * Each returns NULL and sets @ret, or returns what is wrong as a clause for a message (static).
 */
#ifndef LK_CONFIG_SCALAR_H
#define LK_CONFIG_SCALAR_H

#include "base/mem.h"

#include <stdint.h>

#define LK_WEIGHT_ONE 1000000000ull

const char *lk_scalar_integer(const char *text, uint64_t *ret_value);
const char *lk_scalar_size(const char *text, uint64_t *ret_bytes);
const char *lk_scalar_duration(const char *text, uint64_t *ret_ms);
const char *lk_scalar_weight(const char *text, uint64_t *ret_nano);

/* The shortest exact form in the notation above: "512MiB", "30s". */
void lk_put_size(struct lk_buf *out, uint64_t bytes);
void lk_put_duration(struct lk_buf *out, uint64_t ms);

/* For people, cut to tenths of the unit: "512 B", "1.4 MiB". */
void lk_put_about(struct lk_buf *out, uint64_t bytes);

#endif
