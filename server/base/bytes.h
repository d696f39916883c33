/*
 * Numbers as bytes: fixed little-endian fields, LEB128 varints and zigzag for signed ones. Every
 * file format and message frame of the project is written with these, so it is the same on any host.
 */
#ifndef LK_BASE_BYTES_H
#define LK_BASE_BYTES_H

#include "base/mem.h"
#include "base/status.h"

#include <stdint.h>
#include <string.h>

static inline void lk_put_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline void lk_put_u32(uint8_t *p, uint32_t v)
{
    lk_put_u16(p, (uint16_t)v);
    lk_put_u16(p + 2, (uint16_t)(v >> 16));
}

static inline void lk_put_u64(uint8_t *p, uint64_t v)
{
    lk_put_u32(p, (uint32_t)v);
    lk_put_u32(p + 4, (uint32_t)(v >> 32));
}

static inline uint16_t lk_get_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t lk_get_u32(const uint8_t *p)
{
    return (uint32_t)lk_get_u16(p) | (uint32_t)lk_get_u16(p + 2) << 16;
}

static inline uint64_t lk_get_u64(const uint8_t *p)
{
    return (uint64_t)lk_get_u32(p) | (uint64_t)lk_get_u32(p + 4) << 32;
}

void lk_buf_put_u32(struct lk_buf *buf, uint32_t v);
void lk_buf_put_u64(struct lk_buf *buf, uint64_t v);
void lk_buf_put_varint(struct lk_buf *buf, uint64_t v); /* LEB128, 1 to 10 bytes */
void lk_buf_put_zigzag(struct lk_buf *buf, int64_t v);

/*
 * A bounded reader. A read past the end, or a varint of more than 64 bits, sets @bad and yields 0
 * from then on; so a parser may read a whole structure and test @bad once, before it trusts any of it.
 */
struct lk_reader {
    const uint8_t *at;
    const uint8_t *end;
    int bad;
};

static inline struct lk_reader lk_reader_of(const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    return (struct lk_reader){.at = p, .end = p + n, .bad = 0};
}

uint32_t lk_read_u32(struct lk_reader *r);
uint64_t lk_read_u64(struct lk_reader *r);
uint64_t lk_read_varint(struct lk_reader *r);
/* A varint that must be at most @max: anything above it is bad. */
uint64_t lk_read_bounded(struct lk_reader *r, uint64_t max);
int64_t lk_read_zigzag(struct lk_reader *r);
const uint8_t *lk_read_bytes(struct lk_reader *r, size_t n); /* NULL when fewer are left */

#endif
