/*
 * The link of a worker to the daemon that started it: one thread, one socket, a message a system call.
 * Payloads go over the board: a slot's part holds the result that its request carries, and is free again
 * when that request has been answered.
 */
#include "worker/link_private.h"

#include "proto/board.h"
#include "proto/pipe.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define PART_KEEP ((size_t)4 << 20) /* memory that a part keeps after a large result */

_Static_assert(LINK_SLOTS == LK_BOARD_PARTS, "a part for each slot");

struct slot {
    uint64_t call; /* in flight; 0: free */
    size_t bytes;  /* of the part that has memory, at most */
};

struct link_local {
    struct link base;
    struct lk_pipe pipe;
    struct lk_board board;
    struct slot slot[LINK_SLOTS];
    uint64_t calls;
    int64_t lost_at_ms;
};

static struct link_local *local_of(struct link *link)
{
    return (struct link_local *)(void *)link;
}

static void local_close(struct link *link)
{
    struct link_local *l = local_of(link);
    lk_pipe_close(&l->pipe);
    lk_board_close(&l->board);
    free(l);
}

static int64_t local_lost_ms(const struct link *link)
{
    const struct link_local *l = (const struct link_local *)(const void *)link;
    return l->pipe.ended ? link_clock_ms() - l->lost_at_ms + 1 : 0;
}

/* Waits for @events of the socket; false: nothing for @timeout_ms. */
static bool wait_for(const struct link_local *l, short events, int64_t timeout_ms)
{
    struct pollfd socket = {.fd = l->pipe.fd, .events = events};
    return poll(&socket, 1, (int)timeout_ms) > 0;
}

static enum lk_code local_send(struct link *link, unsigned slot, enum lk_method method,
                               const ProtobufCMessage *message, const struct link_payload *payload,
                               struct lk_err *err)
{
    struct link_local *l = local_of(link);
    struct lk_envelope envelope = {.method = (uint16_t)method, .call = ++l->calls};
    (void)err;
    LK_CHECK(l->slot[slot].call == 0 && link_payload_bytes(payload) == 0);
    l->slot[slot].call = envelope.call;
    lk_pipe_send(&l->pipe, &envelope, message, NULL, 0);
    /* The daemon never waits for us to read, so it reads what we send. */
    while (!lk_pipe_flush(&l->pipe))
        (void)wait_for(l, POLLOUT, -1);
    return LK_OK;
}

/* What a part keeps after large results anyhow: who writes there need not say how far. */
static uint8_t *local_place(struct link *link, unsigned slot, size_t *ret_bytes)
{
    struct link_local *l = local_of(link);
    LK_CHECK(l->slot[slot].call == 0);
    *ret_bytes = l->board.part_bytes < PART_KEEP ? l->board.part_bytes : PART_KEEP;
    return lk_board_part(&l->board, slot);
}

/* The memory that a part takes is that of its largest result of late. */
static void lay_down(struct link_local *l, unsigned slot, const struct link_payload *payload)
{
    uint8_t *to = lk_board_part(&l->board, slot);
    size_t bytes = link_payload_bytes(payload);
    if (l->slot[slot].bytes > PART_KEEP && bytes <= PART_KEEP) {
        lk_board_trim(&l->board, slot, PART_KEEP);
        l->slot[slot].bytes = PART_KEEP;
    }
    if (bytes > l->slot[slot].bytes)
        l->slot[slot].bytes = bytes;
    for (int i = 0; payload != NULL && i < 2; i++) {
        if (payload->bytes[i] > 0 && payload->data[i] != to) /* it may have been made there, or near */
            memmove(to, payload->data[i], payload->bytes[i]);
        to += payload->bytes[i];
    }
}

static enum lk_code local_send_result(struct link *link, unsigned slot,
                                      Lk__WorkerTaskRequest *request,
                                      const struct link_payload *payload, struct lk_err *err)
{
    request->part = slot;
    request->part_bytes = link_payload_bytes(payload);
    if (request->part_bytes > local_of(link)->board.part_bytes)
        return lk_fail(err, LK_DATA_LOSS, "a result of %llu bytes, as the daemon allows, and a board for %zu",
                       (unsigned long long)request->part_bytes, local_of(link)->board.part_bytes);
    lay_down(local_of(link), slot, payload);
    return local_send(link, slot, LK_METHOD_WORKER_TASK, &request->base, NULL, err);
}

/* The slot whose request is answered; LINK_SLOTS: none of ours. */
static unsigned answered(struct link_local *l, uint64_t call)
{
    unsigned slot = call == 0 ? LINK_SLOTS : 0; /* 0 is no call, but a slot's that is free */
    while (slot < LINK_SLOTS && l->slot[slot].call != call)
        slot++;
    if (slot < LINK_SLOTS)
        l->slot[slot].call = 0;
    return slot;
}

static enum lk_code local_wait(struct link *link, int64_t timeout_ms, struct link_reply *ret_reply,
                               struct lk_err *err)
{
    struct link_local *l = local_of(link);
    enum lk_code code = lk_pipe_next(&l->pipe, &ret_reply->envelope, err);
    for (bool waited = false; code == LK_NOT_FOUND; waited = true) {
        bool was_there = !l->pipe.ended;
        (void)lk_pipe_receive(&l->pipe);
        if (was_there && l->pipe.ended)
            l->lost_at_ms = link_clock_ms();
        code = lk_pipe_next(&l->pipe, &ret_reply->envelope, err);
        if (code != LK_NOT_FOUND)
            break;
        if (l->pipe.ended)
            return lk_fail(err, LK_UNAVAILABLE, "the daemon has gone");
        if (waited || !wait_for(l, POLLIN, timeout_ms))
            return lk_fail(err, LK_DEADLINE_EXCEEDED, "no answer for %lld ms",
                           (long long)timeout_ms);
    }
    if (code != LK_OK)
        return code;
    ret_reply->slot = answered(l, ret_reply->envelope.call);
    if (ret_reply->slot == LINK_SLOTS)
        return lk_fail(err, LK_DATA_LOSS, "an answer to no request");
    return LK_OK;
}

enum lk_code link_open_local(int socket, int board, size_t reply_max, struct link **ret_link,
                             struct lk_err *err)
{
    static const struct link_ops ops = {.close = local_close,
                                        .lost_ms = local_lost_ms,
                                        .send = local_send,
                                        .place = local_place,
                                        .send_result = local_send_result,
                                        .wait = local_wait};
    struct link_local *l = lk_zalloc(1, sizeof *l);
    l->base.ops = &ops;
    lk_pipe_open(&l->pipe, socket, reply_max);
    enum lk_code code = lk_board_open(board, &l->board, err);
    if (code == LK_OK)
        *ret_link = &l->base;
    else
        local_close(&l->base);
    return code;
}
