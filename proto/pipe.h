/*
 * Envelopes (envelope.h) over a stream socket between two processes of one host, for one thread at
 * each end: no threads in between, one system call a message, no wake-up but the peer's. The frame
 * says how long it is, so nothing is put around it.
 */
#ifndef LK_PROTO_PIPE_H
#define LK_PROTO_PIPE_H

#include "base/mem.h"
#include "base/status.h"
#include "proto/envelope.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

/* Zeroed with @fd = -1: not connected. */
struct lk_pipe {
    int fd;               /* owned */
    size_t message_max;
    bool ended;           /* by the peer; what came before may still be taken */
    struct lk_buf in;     /* received; what lies before @taken has been taken */
    size_t taken;
    struct lk_buf out;    /* what the socket has not taken yet, from @sent on */
    size_t sent;
};

/* Takes @fd, a connected stream socket. Frames above @message_max bytes are refused. */
void lk_pipe_open(struct lk_pipe *pipe, int fd, size_t message_max);
void lk_pipe_close(struct lk_pipe *pipe); /* safe on one that is not connected */

/* Takes in what has arrived, without blocking, at most about a megabyte at once; false: nothing. Sets
 * @ended when the peer is gone. */
bool lk_pipe_receive(struct lk_pipe *pipe);

/* The next whole message; pointers into it are valid until the next lk_pipe_receive. NOT_FOUND: there
 * is none yet; DATA_LOSS: what came is no message, and the connection of no use any more. */
enum lk_code lk_pipe_next(struct lk_pipe *pipe, struct lk_envelope *ret_envelope, struct lk_err *err);

/* Sends a message whose lengths this sets in a copy of @envelope, without blocking: what the socket does not
 * take is kept, and lk_pipe_flush goes on with it. To a peer that is gone, nothing is sent. */
void lk_pipe_send(struct lk_pipe *pipe, const struct lk_envelope *envelope,
                  const ProtobufCMessage *message, const void *payload, size_t payload_bytes);
size_t lk_pipe_unsent(const struct lk_pipe *pipe); /* bytes that are kept */
bool lk_pipe_flush(struct lk_pipe *pipe); /* false: there is more, wait until the socket is writable */

#endif
