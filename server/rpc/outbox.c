#include "rpc/outbox.h"

#include "base/mem.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define HEAD_MAX 9
#define HEAD_TCP 8
#define NUMBER_BYTES 4 /* of the connection, first in a message's header */
#define AT_ONCE ((size_t)1 << 20) /* bytes sent before others have a turn, however fast a peer reads */

/* An answer that waits for its socket. */
struct kept {
    struct kept *next;
    nng_msg *message;
};

size_t outbox_wire_bytes(const struct outbox *outbox, nng_msg *message)
{
    return outbox->head_bytes + nng_msg_header_len(message) - NUMBER_BYTES + nng_msg_len(message);
}

static void drop_first(struct outbox *o)
{
    struct kept *kept = o->first;
    o->first = kept->next;
    o->sent = 0;
    o->n--;
    o->bytes -= outbox_wire_bytes(o, kept->message);
    nng_msg_free(kept->message);
    free(kept);
}

void outbox_done(struct outbox *outbox)
{
    while (outbox->first != NULL)
        drop_first(outbox);
}

/* What of @message goes over the wire next, beyond its first @sent bytes. */
static void pieces(const struct outbox *o, nng_msg *message, size_t sent, uint8_t head[HEAD_MAX],
                   struct iovec iov[3])
{
    size_t all = outbox_wire_bytes(o, message) - o->head_bytes;
    head[0] = 1;
    for (int i = 0; i < 8; i++)
        head[1 + i] = (uint8_t)((uint64_t)all >> (56 - 8 * i));
    iov[0] = (struct iovec){.iov_base = head + HEAD_MAX - o->head_bytes, .iov_len = o->head_bytes};
    iov[1] = (struct iovec){.iov_base = (uint8_t *)nng_msg_header(message) + NUMBER_BYTES,
                            .iov_len = nng_msg_header_len(message) - NUMBER_BYTES};
    iov[2] = (struct iovec){.iov_base = nng_msg_body(message), .iov_len = nng_msg_len(message)};
    size_t room = AT_ONCE;
    for (int i = 0; i < 3; i++) {
        size_t cut = sent < iov[i].iov_len ? sent : iov[i].iov_len;
        sent -= cut;
        iov[i].iov_base = (uint8_t *)iov[i].iov_base + cut;
        iov[i].iov_len -= cut;
        if (iov[i].iov_len > room)
            iov[i].iov_len = room;
        room -= iov[i].iov_len;
    }
}

/*
 * Sends what the socket takes of @message beyond its first @sent bytes; how many are sent then. Whatever
 * else fails, be it the kernel's memory, ends the connection, of which its reader then hears: nothing may
 * follow half a message. So everything is as good as sent.
 */
static size_t push(const struct outbox *o, nng_msg *message, size_t sent)
{
    uint8_t head[HEAD_MAX];
    struct iovec iov[3];
    struct msghdr header = {.msg_iov = iov, .msg_iovlen = 3};
    ssize_t n;
    pieces(o, message, sent, head, iov);
    do {
        n = sendmsg(o->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n >= 0)
        return sent + (size_t)n;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return sent;
    (void)shutdown(o->fd, SHUT_RDWR);
    return outbox_wire_bytes(o, message);
}

void outbox_flush(struct outbox *outbox, int64_t now_ms)
{
    size_t went = 0;
    while (outbox->first != NULL && went < AT_ONCE) {
        nng_msg *message = outbox->first->message;
        size_t sent = push(outbox, message, outbox->sent);
        if (sent > outbox->sent)
            outbox->moved_ms = now_ms;
        went += sent - outbox->sent;
        outbox->sent = sent;
        if (sent < outbox_wire_bytes(outbox, message))
            return;
        drop_first(outbox);
    }
}

/* Whether there is something that the peer's host has not confirmed, and still may. By a Unix socket, what was
 * sent has arrived. */
static bool is_under_way(const struct outbox *o)
{
    struct tcp_info info;
    socklen_t n = sizeof info;
    int bytes = 0;
    if (o->head_bytes != HEAD_TCP || getsockopt(o->fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0 ||
        info.tcpi_state == TCP_CLOSE)
        return false;
    return ioctl(o->fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

bool outbox_end(struct outbox *outbox, uint8_t *scratch, size_t scratch_bytes, int64_t now_ms)
{
    outbox_flush(outbox, now_ms);
    ssize_t n = recv(outbox->fd, scratch, scratch_bytes, MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return true; /* nobody is there any more */
    if (outbox->first != NULL)
        return false;
    if (n < (ssize_t)scratch_bytes && !is_under_way(outbox))
        return true;
    (void)shutdown(outbox->fd, SHUT_WR); /* again, if need be: it says it once */
    return false;
}

/* Takes @message, of which @sent bytes are on their way. */
static void keep(struct outbox *o, nng_msg *message, size_t sent, int64_t now_ms)
{
    struct kept *kept = lk_zalloc(1, sizeof *kept);
    kept->message = message;
    if (o->first == NULL) {
        o->first = kept;
        o->sent = sent;
        o->moved_ms = now_ms;
    } else {
        o->last->next = kept;
    }
    o->last = kept;
    o->n++;
    o->bytes += outbox_wire_bytes(o, message);
}

void outbox_send(struct outbox *outbox, nng_msg *message, int64_t now_ms)
{
    size_t all = outbox_wire_bytes(outbox, message), sent = 0;
    bool full = outbox->first != NULL &&
                (outbox->n >= OUTBOX_KEPT_MAX || outbox->bytes + all > OUTBOX_BYTES_MAX);
    if (outbox->first == NULL)
        sent = push(outbox, message, 0);
    if (!full && sent < all)
        keep(outbox, message, sent, now_ms);
    else
        nng_msg_free(message);
}
