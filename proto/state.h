/*
 * What a trainer stores in its checkpoint: 40 bytes, the same on every rank.
 *
 *   offset size
 *        0    4  magic "LKC1"
 *        4    4  0
 *        8    8  step: the next step that the trainer needs; all before it are consumed
 *       16   16  stream digest: another stream must refuse the state
 *       32    8  XXH3-64 of the 32 bytes before
 *
 * little-endian.
 */
#ifndef LK_PROTO_STATE_H
#define LK_PROTO_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_STATE_BYTES 40

void lk_state_put(uint64_t step, const uint8_t stream_digest[16], uint8_t ret_bytes[LK_STATE_BYTES]);

/* False when @bytes is no whole, undamaged state. */
bool lk_state_get(const void *bytes, size_t n, uint64_t *ret_step, uint8_t ret_stream_digest[16]);

#endif
