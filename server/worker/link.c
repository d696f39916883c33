#include "worker/link_private.h"

#include <time.h>

int64_t link_clock_ms(void)
{
    struct timespec t;
    LK_CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void link_close(struct link *link)
{
    if (link != NULL)
        link->ops->close(link);
}

int64_t link_lost_ms(const struct link *link)
{
    return link->ops->lost_ms(link);
}

enum lk_code link_send(struct link *link, unsigned slot, enum lk_method method,
                       const ProtobufCMessage *message, const struct link_payload *payload,
                       struct lk_err *err)
{
    LK_CHECK(slot < LINK_SLOTS);
    return link->ops->send(link, slot, method, message, payload, err);
}

uint8_t *link_place(struct link *link, unsigned slot, size_t *ret_bytes)
{
    LK_CHECK(slot < LINK_SLOTS);
    return link->ops->place != NULL ? link->ops->place(link, slot, ret_bytes) : NULL;
}

enum lk_code link_send_result(struct link *link, unsigned slot, Lk__WorkerTaskRequest *request,
                              const struct link_payload *payload, struct lk_err *err)
{
    LK_CHECK(slot < LINK_SLOTS);
    return link->ops->send_result(link, slot, request, payload, err);
}

enum lk_code link_wait(struct link *link, int64_t timeout_ms, struct link_reply *ret_reply,
                       struct lk_err *err)
{
    return link->ops->wait(link, timeout_ms, ret_reply, err);
}
