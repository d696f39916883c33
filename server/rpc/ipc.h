/*
 * The service's Unix sockets, by one thread of our own. It speaks what nng's ipc transport speaks (eight
 * bytes of greeting from each side, "\0SP\0" and the protocol; then messages, each after a byte 1 and its
 * length as a big-endian u64), so any nng REQ socket may dial. nng itself hands each message from thread to
 * thread, some seven times a call, and 1.5.2 gives an ipc listener up when a client dies at a bad moment.
 *
 * The thread accepts, receives, and reports through the ops; the owner's thread sends, at once where the
 * socket takes it. Messages come with the header of a raw REP socket: the connection's number, then the
 * requester's words; an answer wants the same header.
 */
#ifndef LK_RPC_IPC_H
#define LK_RPC_IPC_H

#include "base/status.h"

#include <nng/nng.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IPC_PEER_BIT 0x80000000u /* set in our connections' numbers, and never in nng's */

struct ipc;

/* Called on the thread. A peer joins when it has greeted; nothing of it comes after it is gone. */
struct ipc_ops {
    void (*joined)(void *owner, uint32_t peer);
    void (*message)(void *owner, uint32_t peer, nng_msg *message); /* takes it */
    void (*gone)(void *owner, uint32_t peer);
};

/* @message_max: bytes of a message's body; a longer one ends its connection. */
enum lk_code ipc_open(size_t message_max, const struct ipc_ops *ops, void *owner, struct ipc **ret_ipc,
                      struct lk_err *err);
/* Listens at a path for which there is room (unix_path_claim), with that file mode. */
enum lk_code ipc_listen(struct ipc *ipc, const char *path, uint32_t mode, struct lk_err *err);
/* After all of these: begins to take connections. */
enum lk_code ipc_start(struct ipc *ipc, struct lk_err *err);
/* Ends receiving: no op is called afterwards. Answers still go out, as far as their sockets take them at
 * once. NULL is fine. */
void ipc_stop(struct ipc *ipc);
void ipc_close(struct ipc *ipc); /* stops, and ends all connections; NULL is fine */

/* Takes @message. A peer that does not read has at most 128 answers kept for it, of a gigabyte together,
 * and the rest dropped. */
void ipc_send(struct ipc *ipc, nng_msg *message);

#endif
