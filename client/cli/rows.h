/*
 * Rows measured here rather than by a daemon's worker: whether they are kept, and how many tokens they
 * have. For estimates, and for why a row is never used.
 */
#ifndef LK_CLIENT_CLI_ROWS_H
#define LK_CLIENT_CLI_ROWS_H

#include "host/stream.h"
#include "op/measure.h"

#include <stdint.h>

#define ROWS_BYTES_MAX (256u << 20) /* of compressed shards that are decoded for this, at once */

/*
 * Measures rows @row [n], rising numbers in dataset @d, into @ret_measured [n]. Rows that would be an
 * error by the recipe's rule count as dropped (MALFORMED, FIELD). DATA_LOSS and the like as in
 * format/format.h; RESOURCE_EXHAUSTED for compressed shards larger than ROWS_BYTES_MAX.
 */
enum lk_code rows_measure(const struct stream *stream, uint32_t d, const uint64_t *row, uint32_t n,
                          struct lk_measured *ret_measured, struct lk_err *err);

#endif
