/*
 * The connections of local workers: each has a pipe for messages and a board for the payloads of its
 * results. Both are made anew with each process, and nobody else can have them: so a local worker
 * needs no token.
 */
#include "host/pool_private.h"

#include "proto/work.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOWEST_FD 5        /* above the numbers that a child gives a meaning */
#define SAYS_MAX (POOL_MESSAGE_MAX - POOL_RESULT_MAX) /* bytes of a message: payloads go over the board */
#define UNREAD_MAX ((size_t)128 << 20) /* answers; twice the longest: with more, it does not read */

/* Its end. The process tells the rest: it has died, or is of no use any more. If it had not, then the kill
 * is what is seen, and that convicts nobody. */
static void on_end(struct worker *worker)
{
    worker_drop_calls(worker, LK_OK);
    worker->ready = false;
    worker->pipe.ended = true; /* also when it is we who will not listen any more */
    loop_unwatch(worker->pool->loop, worker->pipe.fd);
    proc_kill(worker, false);
}

static void said_locally(struct worker *worker, const struct lk_envelope *e)
{
    struct said said = {.ask = {.id = e->call,
                                .method = e->method,
                                .received_ms = loop_now_ms(worker->pool->loop)},
                        .header = e->header,
                        .header_bytes = e->header_bytes};
    worker_said(worker->pool, worker, &said);
}

/* Handles what has been received; false: it is no message. */
static bool take_messages(struct worker *worker)
{
    struct lk_envelope e;
    struct lk_err err;
    enum lk_code code;
    while ((code = lk_pipe_next(&worker->pipe, &e, &err)) == LK_OK)
        said_locally(worker, &e);
    return code == LK_NOT_FOUND;
}

static void want_writable(struct worker *worker, bool wanted)
{
    if (worker->wants_writable != wanted)
        loop_want_writable(worker->pool->loop, worker->pipe.fd, wanted);
    worker->wants_writable = wanted;
}

static void local_ready(void *owner)
{
    struct worker *worker = owner;
    want_writable(worker, !lk_pipe_flush(&worker->pipe));
    (void)lk_pipe_receive(&worker->pipe);
    if (!take_messages(worker) || worker->pipe.ended)
        on_end(worker);
}

void local_drain(struct worker *worker)
{
    worker->ready = false; /* no more tasks */
    while (lk_pipe_receive(&worker->pipe) && take_messages(worker))
        continue;
}

void local_answer(struct worker *worker, const struct ask *ask, enum lk_code status,
                  const ProtobufCMessage *message, const void *payload, size_t payload_bytes)
{
    struct lk_envelope e = {.method = ask->method, .status = (uint16_t)status, .call = ask->id};
    if (worker->pipe.fd < 0 || worker->pipe.ended)
        return;
    if (lk_pipe_unsent(&worker->pipe) > UNREAD_MAX) {
        pool_log(worker->pool, POOL_ERROR, "worker_deaf", "process %d asks and does not read",
                 (int)worker->pid);
        worker->pipe.ended = true; /* on_end follows, when its descriptor or its end is looked at */
        proc_kill(worker, false);
        return;
    }
    lk_pipe_send(&worker->pipe, &e, message, payload, payload_bytes);
    want_writable(worker, !lk_pipe_flush(&worker->pipe));
}

/* A descriptor that the child's dup2 does not write over. */
static int above(int fd)
{
    if (fd < 0 || fd >= LOWEST_FD)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);
    int error = errno;
    (void)close(fd);
    errno = error;
    return moved;
}

static enum lk_code open_ends(struct worker *worker, int *ret_socket, struct lk_err *err)
{
    /* What a part must hold at most: the tokens of a result, and what is said of its rows. */
    size_t part = POOL_RESULT_MAX + (size_t)LK_WORK_ROWS_MAX * sizeof(struct lk_work_result);
    int ends[2] = {-1, -1};
    LK_TRY(lk_board_make(part, &worker->board, err));
    worker->board.fd = above(worker->board.fd);
    if (worker->board.fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "cannot make a connection: %s", strerror(errno));
    lk_pipe_open(&worker->pipe, ends[0], SAYS_MAX);
    *ret_socket = above(ends[1]);
    if (*ret_socket < 0)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "cannot make a connection: %s", strerror(errno));
    return LK_OK;
}

enum lk_code local_open(struct worker *worker, int *ret_socket, struct lk_err *err)
{
    enum lk_code code = open_ends(worker, ret_socket, err);
    if (code != LK_OK) {
        lk_pipe_close(&worker->pipe);
        lk_board_close(&worker->board);
        return code;
    }
    worker->wants_writable = false;
    loop_watch(worker->pool->loop, worker->pipe.fd, local_ready, worker);
    return LK_OK;
}

void local_close(struct worker *worker)
{
    if (worker->pipe.fd >= 0)
        loop_unwatch(worker->pool->loop, worker->pipe.fd);
    lk_pipe_close(&worker->pipe);
    lk_board_close(&worker->board);
}
