/*
 * What goes out on one connection: as much as its socket takes at once, and the rest kept until it takes
 * more. Not locked: sockets.c holds its mutex around everything here.
 */
#ifndef LK_RPC_OUTBOX_H
#define LK_RPC_OUTBOX_H

#include <nng/nng.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTBOX_KEPT_MAX 128 /* answers that a peer has not read: more than a client ever waits for */
#define OUTBOX_BYTES_MAX ((size_t)1 << 30) /* … together, but for a single one */

struct kept;

/* Zeroed but for its first two, it is empty. */
struct outbox {
    int fd;
    uint32_t head_bytes; /* before each message: 8, its length; 9: a byte 1, and that */
    struct kept *first, *last; /* oldest first */
    size_t sent;               /* bytes of the first one */
    uint32_t n;
    size_t bytes;              /* of all that are kept, sent or not */
    int64_t moved_ms;          /* when the socket last took something, or the first began to wait */
};

/* What @message (with a raw REP socket's header: the connection's number, which stays here) takes. */
size_t outbox_wire_bytes(const struct outbox *outbox, nng_msg *message);

/* Takes @message: sent, kept, or dropped where too much is kept. */
void outbox_send(struct outbox *outbox, nng_msg *message, int64_t now_ms);
/* Sends what the socket takes, a megabyte or so at a time: it says by itself that it takes more. */
void outbox_flush(struct outbox *outbox, int64_t now_ms);
/*
 * Towards a connection's end: sends on, says with a FIN that nothing follows, and takes what still comes, unread,
 * into @scratch, since TCP that is closed over unread bytes throws away what the peer has not got yet. At most
 * one read a call. True: nothing is on its way, and closing loses nothing. False: call again soon.
 */
bool outbox_end(struct outbox *outbox, uint8_t *scratch, size_t scratch_bytes, int64_t now_ms);
/* Throws away what is kept. If a message was under way, nothing may follow on that connection. */
void outbox_done(struct outbox *outbox);

#endif
