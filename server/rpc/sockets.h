/*
 * The service's sockets, Unix and TCP, by one thread of our own. It speaks what nng's transports speak
 * (eight bytes of greeting from each side, "\0SP\0" and the protocol; then messages, each after its length
 * as a big-endian u64, before which a Unix socket has a byte 1), so any nng REQ socket may dial. nng itself
 * hands each message from thread to thread, some seven times a call; it makes room for a message of any
 * length that is announced, for whoever announces it; and 1.5.2 gives an ipc listener up when a client dies
 * at a bad moment, and hangs for good when a connection is closed in the midst of a message.
 *
 * The thread accepts, receives, and reports through the ops; the owner's thread sends, at once where the
 * socket takes it. Messages come with the header of a raw REP socket: the connection's number, then the
 * requester's words; an answer wants the same header.
 *
 * Whoever may connect may be hostile, so everything is bounded for all connections together. Where a bound
 * is reached a connection is ended, which costs a client a moment (it dials again, and asks again):
 *
 *   connections       a quarter of the process's descriptors, 16,384 at most: one that has not greeted, else
 *                     the one that was silent longest
 *   half a message    message_max in all, of peers that are not trusted: the one that has sent most
 *   unread answers    128 and 1 GiB of a peer, beyond which they are dropped. 512 MiB in all: the one that
 *                     has taken nothing for longest, if that is a second; 1 GiB in all: in any case
 *   silence           10 s for the greeting; a TCP peer whose host is gone, or that takes nothing of what is
 *                     sent, a minute
 */
#ifndef LK_RPC_SOCKETS_H
#define LK_RPC_SOCKETS_H

#include "base/status.h"

#include <nng/nng.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockets;

/* Called on the thread. A peer joins when it has greeted; nothing of it comes after it is gone. Its number
 * is not 0, and not used again soon. */
struct sockets_ops {
    void (*joined)(void *owner, uint32_t peer);
    void (*message)(void *owner, uint32_t peer, nng_msg *message); /* takes it */
    void (*gone)(void *owner, uint32_t peer);
};

/* Bytes of a message's body: at most @stranger_max, or @message_max of a peer that is trusted; a longer
 * one ends its connection. */
enum lk_code sockets_open(size_t message_max, size_t stranger_max, const struct sockets_ops *ops,
                          void *owner, struct sockets **ret_sockets, struct lk_err *err);
/* Listens at a path for which there is room (unix_path_claim), with that file mode. */
enum lk_code sockets_listen_unix(struct sockets *sockets, const char *path, uint32_t mode, struct lk_err *err);
/* Listens at every address of a host's name; *ret_port: the port, chosen by the system for 0. */
enum lk_code sockets_listen_tcp(struct sockets *sockets, const char *address, uint16_t *ret_port,
                                struct lk_err *err);
/* After all of these: begins to take connections. */
enum lk_code sockets_start(struct sockets *sockets, struct lk_err *err);
/* Ends receiving: no op is called afterwards. Answers still go out. NULL is fine. */
void sockets_stop(struct sockets *sockets);
/* Stops, and ends all connections: answers that were given get to who reads them, followed by the end; whoever
 * has not taken its answers after half a second loses them. NULL is fine. */
void sockets_close(struct sockets *sockets);

void sockets_send(struct sockets *sockets, nng_msg *message); /* takes it */
void sockets_trust(struct sockets *sockets, uint32_t peer);   /* who has shown that it may */
uint64_t sockets_displaced(const struct sockets *sockets); /* connections ended for others: there were too many */

#endif
