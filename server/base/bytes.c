#include "base/bytes.h"

void lk_buf_put_u32(struct lk_buf *buf, uint32_t v)
{
    lk_put_u32(lk_buf_room(buf, 4), v);
    buf->len += 4;
}

void lk_buf_put_u64(struct lk_buf *buf, uint64_t v)
{
    lk_put_u64(lk_buf_room(buf, 8), v);
    buf->len += 8;
}

void lk_buf_put_varint(struct lk_buf *buf, uint64_t v)
{
    uint8_t *p = lk_buf_room(buf, 10);
    size_t n = 0;
    while (v >= 0x80) {
        p[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    p[n++] = (uint8_t)v;
    buf->len += n;
}

void lk_buf_put_zigzag(struct lk_buf *buf, int64_t v)
{
    uint64_t u = (uint64_t)v << 1;
    lk_buf_put_varint(buf, v < 0 ? ~u : u);
}

const uint8_t *lk_read_bytes(struct lk_reader *r, size_t n)
{
    if (r->bad || (size_t)(r->end - r->at) < n) {
        r->bad = 1;
        return NULL;
    }
    const uint8_t *p = r->at;
    r->at += n;
    return p;
}

uint32_t lk_read_u32(struct lk_reader *r)
{
    const uint8_t *p = lk_read_bytes(r, 4);
    return p != NULL ? lk_get_u32(p) : 0;
}

uint64_t lk_read_u64(struct lk_reader *r)
{
    const uint8_t *p = lk_read_bytes(r, 8);
    return p != NULL ? lk_get_u64(p) : 0;
}

uint64_t lk_read_varint(struct lk_reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint8_t *p = lk_read_bytes(r, 1);
        if (p == NULL)
            return 0;
        if (shift == 63 && *p > 1)
            break;
        v |= (uint64_t)(*p & 0x7f) << shift;
        if (*p < 0x80)
            return v;
    }
    r->bad = 1;
    return 0;
}

uint64_t lk_read_bounded(struct lk_reader *r, uint64_t max)
{
    uint64_t v = lk_read_varint(r);
    if (v > max) {
        r->bad = 1;
        return 0;
    }
    return v;
}

int64_t lk_read_zigzag(struct lk_reader *r)
{
    uint64_t u = lk_read_varint(r);
    return (int64_t)(u >> 1 ^ (~(u & 1) + 1));
}
