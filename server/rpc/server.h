/*
 * One listening service: REP of nng's protocol on the outside (rpc/sockets.h, where it says how
 * connections and what they send are bounded), a queue of calls on the inside.
 *
 * What receives runs on another thread, which checks the frame, queues the call and wakes the owner through
 * an eventfd. Everything declared here is called by the owner's thread alone. A call may be answered
 * at once or later. The owner watches its deadline (rpc_fail with DEADLINE_EXCEEDED then); when the
 * peer is gone, or has said goodbye, an event says so after its last call, and the owner drops its
 * calls; of peers that never called it hears nothing.
 * A request that is sent again while the first one still waits (same connection, same request number)
 * is the same call, and is not shown twice. Malformed and oversized messages are counted and refused
 * without disturbing anybody else.
 */
#ifndef LK_RPC_SERVER_H
#define LK_RPC_SERVER_H

#include "base/status.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_server;

struct rpc_config {
    const char *const *listen; /* "ipc:///run/x.sock", "tcp://127.0.0.1:7070", port 0 picks one */
    uint32_t n_listen;
    size_t message_max;        /* bytes of one request, frame included */
    size_t stranger_max;       /* … of a peer that is not trusted; 0: the same */
    uint32_t calls_max;        /* calls waiting at once; more are answered RESOURCE_EXHAUSTED. With a
                                  stranger_max, a sixteenth of these is for all that are not trusted */
    size_t waiting_bytes_max;  /* … and the bytes of their requests together; 0: any */
    uint32_t socket_mode;      /* file mode of ipc sockets, for instance 0600 */
    uint32_t deadline_max_ms;  /* no call waits longer; 0 = ten minutes */
};

/* A request. Owned by the server until rpc_reply/rpc_fail/rpc_drop; then gone. */
struct rpc_call {
    uint16_t method;
    uint32_t peer;           /* connection number: the same for all calls of one connection */
    uint64_t number;         /* the caller's, of this call */
    int64_t deadline_ms;     /* on CLOCK_MONOTONIC; always set, at most deadline_max_ms from receipt */
    int64_t received_ms;
    const uint8_t *header;   /* protobuf bytes of the request */
    size_t header_bytes;
    const uint8_t *payload;
    size_t payload_bytes;
    void *owner;             /* free for the host */
};

enum rpc_event_kind { RPC_EVENT_CALL, RPC_EVENT_PEER_GONE };
struct rpc_event {
    enum rpc_event_kind kind;
    struct rpc_call *call; /* CALL */
    uint32_t peer;
};

/* An address in use, an over-long socket path, a bad port: an error that names the address. A stale
 * socket file is replaced only when nobody listens on it. */
enum lk_code rpc_server_open(const struct rpc_config *config, struct rpc_server **ret_server,
                             struct lk_err *err);
/* Answers what waits UNAVAILABLE; returns within some seconds. NULL is fine. */
void rpc_server_close(struct rpc_server *server);

/* From now on that peer's requests may have message_max bytes, and any of the places: it has shown that it may. */
void rpc_server_trust(struct rpc_server *server, uint32_t peer);

/* Address number @i as clients can dial it, with the real port. */
const char *rpc_server_address(const struct rpc_server *server, uint32_t i);

/*
 * The descriptor is readable as long as something is queued, and only then: whoever polls it (level
 * triggered) may stop taking events at any point, and is woken for the rest. So take some events, do
 * what else there is to do, and come back: peers who flood the service cannot hold its owner.
 * False: nothing for now. If the descriptor is still readable then, refusals were answered meanwhile,
 * as many as one call answers, and there is more.
 */
int rpc_server_fd(const struct rpc_server *server);
bool rpc_server_next(struct rpc_server *server, struct rpc_event *ret_event);

struct rpc_slice {
    const void *data;
    size_t bytes;
};

/* Answers and frees @call. The slices are copied once, into the message, as its payload. */
void rpc_reply(struct rpc_call *call, const ProtobufCMessage *message, const struct rpc_slice *payload,
               uint32_t n_payload);
void rpc_fail(struct rpc_call *call, enum lk_code code, const char *detail, const char *waited_for);
void rpc_drop(struct rpc_call *call); /* the peer is gone: frees it without an answer */

struct rpc_stats {
    uint64_t calls, replies, repeats, refused_malformed, refused_busy, bytes_in, bytes_out;
    uint64_t displaced; /* connections that were ended for others, since there were too many */
    uint32_t peers;     /* connections that have made a call, and are up */
    uint32_t waiting;
};
void rpc_server_stats(const struct rpc_server *server, struct rpc_stats *ret_stats);

#endif
