#include "proto/pipe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define RECEIVE_BYTES (64u << 10) /* asked for at once, unless a longer message is on its way */
#define RECEIVE_MAX (1u << 20)
#define KEEP_BYTES (1u << 20)     /* a buffer that grew beyond this is given back */

void lk_pipe_open(struct lk_pipe *pipe, int fd, size_t message_max)
{
    *pipe = (struct lk_pipe){.fd = fd, .message_max = message_max};
}

void lk_pipe_close(struct lk_pipe *pipe)
{
    if (pipe->fd >= 0)
        (void)close(pipe->fd);
    lk_buf_done(&pipe->in);
    lk_buf_done(&pipe->out);
    *pipe = (struct lk_pipe){.fd = -1};
}

/* ---- in ---- */

/* Bytes of the message that begins at the cursor: 0 while its frame is not there. */
static uint64_t message_bytes(const struct lk_pipe *pipe)
{
    struct lk_envelope e;
    if (pipe->in.len - pipe->taken < LK_ENVELOPE_BYTES ||
        !lk_envelope_peek(pipe->in.data + pipe->taken, LK_ENVELOPE_BYTES, &e) ||
        e.payload_bytes > pipe->message_max)
        return 0;
    return LK_ENVELOPE_BYTES + (uint64_t)e.header_bytes + e.payload_bytes;
}

/* Moves what is left to the front. */
static void tidy(struct lk_pipe *pipe)
{
    size_t left = pipe->in.len - pipe->taken;
    if (left == 0 && pipe->in.cap > KEEP_BYTES)
        lk_buf_done(&pipe->in);
    else if (left > 0 && pipe->taken > 0)
        memmove(pipe->in.data, pipe->in.data + pipe->taken, left);
    pipe->in.len = left;
    pipe->taken = 0;
}

/* What to ask for: all of a long message whose frame is there. */
static size_t receive_room(const struct lk_pipe *pipe)
{
    uint64_t whole = message_bytes(pipe);
    return whole <= pipe->message_max && whole > pipe->in.len + RECEIVE_BYTES
               ? (size_t)whole - pipe->in.len
               : RECEIVE_BYTES;
}

bool lk_pipe_receive(struct lk_pipe *pipe)
{
    size_t all = 0;
    tidy(pipe);
    while (all < RECEIVE_MAX && !pipe->ended) {
        size_t room = receive_room(pipe);
        ssize_t n = recv(pipe->fd, lk_buf_room(&pipe->in, room), room, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        pipe->ended = n <= 0; /* a reset is an end like any other */
        if (n <= 0)
            break;
        pipe->in.len += (size_t)n;
        all += (size_t)n;
        if ((size_t)n < room)
            break; /* that was all, most likely; a readable socket is looked at again */
    }
    return all > 0;
}

enum lk_code lk_pipe_next(struct lk_pipe *pipe, struct lk_envelope *ret_envelope, struct lk_err *err)
{
    size_t left = pipe->in.len - pipe->taken;
    struct lk_envelope e;

    if (left < LK_ENVELOPE_BYTES)
        return lk_fail(err, LK_NOT_FOUND, "no message");
    const uint8_t *at = pipe->in.data + pipe->taken;
    if (!lk_envelope_peek(at, left, &e))
        return lk_fail(err, LK_DATA_LOSS, "what came is no message");
    uint64_t whole = message_bytes(pipe);
    if (whole == 0 || whole > pipe->message_max)
        return lk_fail(err, LK_DATA_LOSS, "a message of %u and %llu bytes, expected at most %zu",
                       e.header_bytes, (unsigned long long)e.payload_bytes, pipe->message_max);
    if (whole > left)
        return lk_fail(err, LK_NOT_FOUND, "no whole message");
    LK_CHECK(lk_envelope_get(at, (size_t)whole, ret_envelope));
    pipe->taken += (size_t)whole;
    return LK_OK;
}

/* ---- out ---- */

/* Sends what it can of @iov; the bytes that it could. A peer that is gone takes everything. Whatever else
 * fails, be it the kernel's memory, ends the connection for both: nothing may follow half a message. */
static size_t push(struct lk_pipe *pipe, struct iovec *iov, size_t n, size_t bytes)
{
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = n};
    ssize_t sent;
    do {
        sent = sendmsg(pipe->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return (size_t)sent;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return 0;
    (void)shutdown(pipe->fd, SHUT_RDWR);
    return bytes;
}

bool lk_pipe_flush(struct lk_pipe *pipe)
{
    while (pipe->sent < pipe->out.len) {
        size_t left = pipe->out.len - pipe->sent;
        struct iovec iov = {.iov_base = pipe->out.data + pipe->sent, .iov_len = left};
        size_t sent = push(pipe, &iov, 1, left);
        if (sent == 0)
            return false;
        pipe->sent += sent;
    }
    pipe->sent = pipe->out.len = 0;
    if (pipe->out.cap > KEEP_BYTES)
        lk_buf_done(&pipe->out);
    return true;
}

/* What has been sent goes when it is at least as much as what has not: so each byte is moved once at most,
 * and a pipe that is never empty does not grow. */
static void forget_sent(struct lk_pipe *pipe)
{
    size_t left = pipe->out.len - pipe->sent;
    if (pipe->sent == 0 || pipe->sent < left)
        return;
    memmove(pipe->out.data, pipe->out.data + pipe->sent, left);
    pipe->out.len = left;
    pipe->sent = 0;
}

static void keep(struct lk_pipe *pipe, const struct iovec *iov, size_t n, size_t skip)
{
    forget_sent(pipe);
    for (size_t i = 0; i < n; i++) {
        size_t cut = skip < iov[i].iov_len ? skip : iov[i].iov_len;
        skip -= cut;
        if (iov[i].iov_len > cut)
            lk_buf_put(&pipe->out, (const uint8_t *)iov[i].iov_base + cut, iov[i].iov_len - cut);
    }
}

size_t lk_pipe_unsent(const struct lk_pipe *pipe)
{
    return pipe->out.len - pipe->sent;
}

void lk_pipe_send(struct lk_pipe *pipe, const struct lk_envelope *envelope,
                  const ProtobufCMessage *message, const void *payload, size_t payload_bytes)
{
    uint8_t small[1024];
    size_t header = protobuf_c_message_get_packed_size(message), head = LK_ENVELOPE_BYTES + header;
    LK_CHECK(header <= UINT32_MAX);
    if (pipe->fd < 0 || pipe->ended)
        return;
    uint8_t *bytes = head <= sizeof small ? small : lk_alloc(head);
    struct lk_envelope e = *envelope;
    e.header_bytes = (uint32_t)header;
    e.payload_bytes = payload_bytes;
    lk_envelope_put(&e, bytes);
    (void)protobuf_c_message_pack(message, bytes + LK_ENVELOPE_BYTES);
    struct iovec iov[2] = {{.iov_base = bytes, .iov_len = head},
                           {.iov_base = (void *)(uintptr_t)payload, .iov_len = payload_bytes}};
    size_t sent = 0;
    if (lk_pipe_flush(pipe))
        sent = push(pipe, iov, payload_bytes > 0 ? 2 : 1, head + payload_bytes);
    keep(pipe, iov, 2, sent);
    if (bytes != small)
        free(bytes);
}
