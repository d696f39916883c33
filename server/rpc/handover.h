/*
 * Handing batch memory to trainers on this host: a Unix socket that passes the descriptor of a
 * sealed memfd, after which a batch is handed over as an offset in a GetBatch reply.
 *
 * A lease is a right to read one batch slot. It belongs to the connection of the client that asked
 * (client id, chosen at random by the client and named in its GetBatch calls): the client gives it
 * back with a 16-byte message on this connection, and the kernel gives back all of them when the
 * connection dies. Nothing has a name in the file system but the socket.
 *
 * For the owner: this connection and the one of the calls are two, so their events may overtake each
 * other. Give a lease only to a client that has joined and is not gone (else answer inline: nobody
 * would ever end the lease), and ignore the release of a lease that is not that client's.
 *
 * proto/handover.h has the wire. A client id of 0, or one that is connected already, and anything else
 * that is not this protocol, closes the connection.
 */
#ifndef LK_RPC_HANDOVER_H
#define LK_RPC_HANDOVER_H

#include "base/status.h"

#include <stdint.h>

struct handover;

struct handover_ops {
    void (*joined)(void *owner, uint64_t client);
    void (*released)(void *owner, uint64_t client, uint64_t lease);
    void (*gone)(void *owner, uint64_t client); /* every lease of it is free */
};

struct handover_config {
    const char *path;         /* of the socket */
    uint32_t socket_mode;
    const int *regions;       /* memfds, already sealed against growing, shrinking and new writable mappings */
    const uint64_t *region_bytes;
    uint32_t n_regions;
    uint32_t clients_max;
    const struct handover_ops *ops;
    void *owner;
};

enum lk_code handover_open(const struct handover_config *config, struct handover **ret_handover,
                           struct lk_err *err);
void handover_close(struct handover *handover); /* calls no ops; NULL is fine */
int handover_fd(const struct handover *handover); /* an epoll descriptor: readable = call handover_poll */
void handover_poll(struct handover *handover);    /* never blocks; calls the ops */

#endif
