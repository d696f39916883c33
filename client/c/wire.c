#include "wire.h"

#include <stdlib.h>
#include <string.h>

#define GREETING_BYTES 8
#define LENGTH_BYTES 8
#define NUMBER_BYTES 4
#define REQUEST_BIT 0x80000000u
#define ROOM_MIN ((size_t)16 << 10) /* many replies that lie in shared memory */
#define ROOM_MAX ((size_t)1 << 20)
#define KEEP_BYTES ((size_t)64 << 10) /* a larger buffer stays as long as messages need it */

static const uint8_t our_greeting[GREETING_BYTES] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
static const uint8_t their_greeting[GREETING_BYTES] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};

/* ---- bytes ---- */

static size_t bytes_left(const struct lkc_bytes *b)
{
    return b->len - b->at;
}

static void bytes_free(struct lkc_bytes *b)
{
    free(b->data);
    *b = (struct lkc_bytes){0};
}

static void bytes_skip(struct lkc_bytes *b, size_t n)
{
    b->at += n;
    if (b->at == b->len)
        b->at = b->len = 0;
}

/* Room for @n more bytes, behind those that are of use. */
static uint8_t *bytes_room(struct lkc_bytes *b, size_t n)
{
    if (b->cap - b->len < n && b->at > 0) {
        memmove(b->data, b->data + b->at, bytes_left(b));
        b->len -= b->at;
        b->at = 0;
    }
    if (b->cap - b->len < n) {
        size_t cap = b->cap * 2 > b->len + n ? b->cap * 2 : b->len + n;
        uint8_t *data = realloc(b->data, cap);
        if (data == NULL)
            return NULL;
        b->data = data;
        b->cap = cap;
    }
    return b->data + b->len;
}

static uint64_t get_be(const uint8_t *from, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++)
        value = value << 8 | from[i];
    return value;
}

static uint8_t *put_be(uint8_t *to, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (uint8_t)(value >> (8 * (n - 1 - i)));
    return to + n;
}

/* ---- in ---- */

static size_t head_bytes(const struct lkc_wire *wire)
{
    return (wire->tagged ? 1 : 0) + LENGTH_BYTES;
}

/* READY: the message that has begun to come is *ret_bytes long. */
static enum lkc_wire_step head_get(const struct lkc_wire *wire, size_t *ret_bytes)
{
    const uint8_t *p = wire->in.data + wire->in.at;

    if (bytes_left(&wire->in) > 0 && wire->tagged && *p++ != 1)
        return LKC_WIRE_GARBAGE;
    if (bytes_left(&wire->in) < head_bytes(wire))
        return LKC_WIRE_MORE;
    uint64_t n = get_be(p, LENGTH_BYTES);
    *ret_bytes = (size_t)n;
    return n < NUMBER_BYTES || n > LKC_REPLY_MAX ? LKC_WIRE_GARBAGE : LKC_WIRE_READY;
}

uint8_t *lkc_wire_room(struct lkc_wire *wire, size_t *ret_bytes)
{
    size_t room = ROOM_MIN, whole;

    if (bytes_left(&wire->in) == 0) {
        if (wire->in.cap > KEEP_BYTES && wire->last < wire->in.cap / 8)
            bytes_free(&wire->in);
    } else if (head_get(wire, &whole) == LKC_WIRE_READY) {
        size_t missing = head_bytes(wire) + whole - bytes_left(&wire->in);
        room = missing < ROOM_MIN ? ROOM_MIN : missing < ROOM_MAX ? missing : ROOM_MAX;
    }
    *ret_bytes = room;
    return bytes_room(&wire->in, room);
}

void lkc_wire_came(struct lkc_wire *wire, size_t bytes)
{
    wire->in.len += bytes;
}

enum lkc_wire_step lkc_wire_greeted(struct lkc_wire *wire)
{
    size_t have = bytes_left(&wire->in);

    if (have == 0)
        return LKC_WIRE_MORE;
    /* Whatever else it is, it may never send eight bytes. */
    if (memcmp(wire->in.data + wire->in.at, their_greeting, have < GREETING_BYTES ? have : GREETING_BYTES) != 0)
        return LKC_WIRE_GARBAGE;
    if (have < GREETING_BYTES)
        return LKC_WIRE_MORE;
    bytes_skip(&wire->in, GREETING_BYTES);
    return LKC_WIRE_READY;
}

enum lkc_wire_step lkc_wire_take(struct lkc_wire *wire, const uint8_t **ret_body, size_t *ret_bytes)
{
    size_t head = head_bytes(wire), whole;

    if (bytes_left(&wire->in) == 0)
        return LKC_WIRE_MORE;
    enum lkc_wire_step step = head_get(wire, &whole);
    if (step != LKC_WIRE_READY)
        return step;
    if (bytes_left(&wire->in) - head < whole)
        return LKC_WIRE_MORE;
    *ret_body = wire->in.data + wire->in.at + head + NUMBER_BYTES;
    *ret_bytes = whole - NUMBER_BYTES;
    wire->last = whole;
    bytes_skip(&wire->in, head + whole);
    return LKC_WIRE_READY;
}

/* ---- out ---- */

bool lkc_wire_put(struct lkc_wire *wire, const struct lk_envelope *envelope, const ProtobufCMessage *header)
{
    struct lk_envelope e = *envelope;

    e.header_bytes = (uint32_t)protobuf_c_message_get_packed_size(header);
    size_t whole = NUMBER_BYTES + LK_ENVELOPE_BYTES + (size_t)e.header_bytes, all = head_bytes(wire) + whole;
    size_t waits = bytes_left(&wire->out);
    if (waits > 0 && waits + all > LKC_OUT_MAX)
        return false;
    uint8_t *to = bytes_room(&wire->out, all);
    if (to == NULL)
        return false;
    if (wire->tagged)
        *to++ = 1;
    to = put_be(to, whole, LENGTH_BYTES);
    to = put_be(to, REQUEST_BIT | (uint32_t)e.call, NUMBER_BYTES);
    lk_envelope_put(&e, to);
    (void)protobuf_c_message_pack(header, to + LK_ENVELOPE_BYTES);
    wire->out.len += all;
    return true;
}

const uint8_t *lkc_wire_waits(const struct lkc_wire *wire, size_t *ret_bytes)
{
    *ret_bytes = bytes_left(&wire->out);
    return *ret_bytes == 0 ? NULL : wire->out.data + wire->out.at;
}

void lkc_wire_went(struct lkc_wire *wire, size_t bytes)
{
    bytes_skip(&wire->out, bytes);
    if (wire->out.len == 0 && wire->out.cap > KEEP_BYTES)
        bytes_free(&wire->out);
}

/* ---- beginning and end ---- */

bool lkc_wire_start(struct lkc_wire *wire)
{
    wire->in.at = wire->in.len = wire->out.at = wire->out.len = 0;
    uint8_t *to = bytes_room(&wire->out, GREETING_BYTES);
    if (to == NULL)
        return false;
    memcpy(to, our_greeting, GREETING_BYTES);
    wire->out.len += GREETING_BYTES;
    return true;
}

void lkc_wire_done(struct lkc_wire *wire)
{
    bytes_free(&wire->in);
    bytes_free(&wire->out);
}
