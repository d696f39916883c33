/* The two kinds of links. link.c calls the one that a link is of. */
#ifndef LK_WORKER_LINK_PRIVATE_H
#define LK_WORKER_LINK_PRIVATE_H

#include "worker/link.h"

struct link_ops {
    void (*close)(struct link *link);
    int64_t (*lost_ms)(const struct link *link);
    enum lk_code (*send)(struct link *link, unsigned slot, enum lk_method method,
                         const ProtobufCMessage *message, const struct link_payload *payload,
                         struct lk_err *err);
    uint8_t *(*place)(struct link *link, unsigned slot, size_t *ret_bytes); /* NULL: there is none */
    enum lk_code (*send_result)(struct link *link, unsigned slot, Lk__WorkerTaskRequest *request,
                                const struct link_payload *payload, struct lk_err *err);
    enum lk_code (*wait)(struct link *link, int64_t timeout_ms, struct link_reply *ret_reply,
                         struct lk_err *err);
};

struct link {
    const struct link_ops *ops;
};

static inline size_t link_payload_bytes(const struct link_payload *payload)
{
    return payload == NULL ? 0 : payload->bytes[0] + payload->bytes[1];
}

#endif
