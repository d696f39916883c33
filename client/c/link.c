#include "link.h"

#include "proto/socket.h"

#include <errno.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REPLY_MAX ((size_t)1 << 30)
#define INBOX_MAX 1024 /* more than could ever be answers to what was asked */
#define SEND_QUEUE 128
#define RECONNECT_MIN_MS 20
/* nng doubles its pause with each try and waits for a random part of it, but for nothing at all every other
 * time (1.5.2: half of its random numbers are negative): a few tries within a millisecond, before the
 * daemon listens, are enough to reach this. */
#define RECONNECT_MAX_MS 250
#define REDIAL_MS 3000 /* down for so long although nng tries far more often */
#define NEVER_MS (24 * 3600 * 1000)
#define REQUEST_BIT 0x80000000u /* marks the last number of an SP header */

struct link {
    char *address;
    nng_socket socket;
    nng_dialer dialer;
    bool last;               /* no connection after this one */
    nng_aio *receiver;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    nng_pipe pipe;           /* of the connection that is up */
    uint64_t connection;     /* 0: down */
    uint64_t connections;
    int64_t down_ms;         /* since when there is none, or since it was last dialled anew */
    nng_msg *inbox[INBOX_MAX]; /* a ring */
    uint32_t first, count;
};

int64_t lkc_link_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- nng's threads ---- */

static void recv_done(void *arg)
{
    struct link *link = arg;
    int rv = nng_aio_result(link->receiver);

    if (rv == NNG_ECLOSED || rv == NNG_ECANCELED)
        return;
    if (rv == 0) {
        nng_msg *message = nng_aio_get_msg(link->receiver);
        (void)pthread_mutex_lock(&link->mutex);
        bool room = link->count < INBOX_MAX;
        if (room) {
            link->inbox[(link->first + link->count) % INBOX_MAX] = message;
            link->count++;
            (void)pthread_cond_signal(&link->changed);
        }
        (void)pthread_mutex_unlock(&link->mutex);
        if (!room)
            nng_msg_free(message);
    }
    nng_recv_aio(link->socket, link->receiver);
}

static void pipe_changed(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct link *link = arg;

    (void)pthread_mutex_lock(&link->mutex);
    if (event == NNG_PIPE_EV_ADD_POST) {
        link->pipe = pipe;
        link->connection = ++link->connections;
    } else if (nng_pipe_id(pipe) == nng_pipe_id(link->pipe)) {
        link->connection = 0;
        link->down_ms = lkc_link_now_ms();
    }
    (void)pthread_cond_signal(&link->changed);
    (void)pthread_mutex_unlock(&link->mutex);
}

/* ---- the handle's thread ---- */

static int socket_prepare(struct link *link)
{
    int rv = nng_socket_set_size(link->socket, NNG_OPT_RECVMAXSZ, REPLY_MAX);

    if (rv == 0)
        rv = nng_socket_set_int(link->socket, NNG_OPT_SENDBUF, SEND_QUEUE);
    if (rv == 0)
        rv = nng_socket_set_ms(link->socket, NNG_OPT_RECONNMINT, RECONNECT_MIN_MS);
    if (rv == 0)
        rv = nng_socket_set_ms(link->socket, NNG_OPT_RECONNMAXT, RECONNECT_MAX_MS);
    if (rv == 0)
        rv = nng_pipe_notify(link->socket, NNG_PIPE_EV_ADD_POST, pipe_changed, link);
    if (rv == 0)
        rv = nng_pipe_notify(link->socket, NNG_PIPE_EV_REM_POST, pipe_changed, link);
    return rv;
}

static void condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;

    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(condition, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

int lkc_link_open(const char *address, struct link **ret_link)
{
    struct link *link = calloc(1, sizeof *link);

    if (link == NULL)
        return NNG_ENOMEM;
    (void)pthread_mutex_init(&link->mutex, NULL);
    condition_init(&link->changed);
    link->address = strdup(address);
    link->down_ms = lkc_link_now_ms();
    int rv = link->address == NULL ? NNG_ENOMEM : nng_req0_open_raw(&link->socket);
    if (rv == 0)
        rv = socket_prepare(link);
    if (rv == 0)
        rv = nng_aio_alloc(&link->receiver, recv_done, link);
    if (rv == 0) {
        nng_recv_aio(link->socket, link->receiver);
        rv = nng_dial(link->socket, address, &link->dialer, NNG_FLAG_NONBLOCK);
    }
    if (rv != 0) {
        lkc_link_close(link);
        return rv;
    }
    *ret_link = link;
    return 0;
}

void lkc_link_last(struct link *link)
{
    link->last = true;
    (void)nng_dialer_set_ms(link->dialer, NNG_OPT_RECONNMAXT, NEVER_MS);
    (void)nng_dialer_set_ms(link->dialer, NNG_OPT_RECONNMINT, NEVER_MS);
}

void lkc_link_close(struct link *link)
{
    if (link == NULL)
        return;
    if (link->receiver != NULL)
        nng_aio_stop(link->receiver);
    if (nng_socket_id(link->socket) > 0 && !lk_socket_close(link->socket))
        return; /* nng's threads may still use it: leaked, rather than waited for */
    if (link->receiver != NULL)
        nng_aio_free(link->receiver);
    nng_msg *message;
    while ((message = lkc_link_take(link)) != NULL)
        nng_msg_free(message);
    (void)pthread_cond_destroy(&link->changed);
    (void)pthread_mutex_destroy(&link->mutex);
    free(link->address);
    free(link);
}

uint64_t lkc_link_connection(struct link *link)
{
    (void)pthread_mutex_lock(&link->mutex);
    uint64_t connection = link->connection;
    (void)pthread_mutex_unlock(&link->mutex);
    return connection;
}

nng_msg *lkc_link_take(struct link *link)
{
    nng_msg *message = NULL;

    (void)pthread_mutex_lock(&link->mutex);
    if (link->count > 0) {
        message = link->inbox[link->first];
        link->first = (link->first + 1) % INBOX_MAX;
        link->count--;
    }
    (void)pthread_mutex_unlock(&link->mutex);
    return message;
}

/* A dialer over ipc whose peer dies while they greet each other may be told that it was closed; nng
 * 1.5.2 then takes it for closed by us, and never dials again. Another one does. */
static void redial(struct link *link)
{
    (void)nng_dialer_close(link->dialer);
    (void)nng_dial(link->socket, link->address, &link->dialer, NNG_FLAG_NONBLOCK);
}

void lkc_link_wait(struct link *link, uint64_t connection, int64_t until_ms)
{
    int rv = 0;

    (void)pthread_mutex_lock(&link->mutex);
    bool down = link->connection == 0 && !link->last;
    if (down && link->down_ms + REDIAL_MS < until_ms)
        until_ms = link->down_ms + REDIAL_MS;
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
    while (rv == 0 && link->count == 0 && link->connection == connection)
        rv = pthread_cond_timedwait(&link->changed, &link->mutex, &until);
    int64_t now = lkc_link_now_ms();
    bool overdue = down && link->connection == 0 && now >= link->down_ms + REDIAL_MS;
    if (overdue)
        link->down_ms = now;
    (void)pthread_mutex_unlock(&link->mutex);
    if (overdue)
        redial(link);
}

bool lkc_link_send(struct link *link, const struct lk_envelope *envelope, const ProtobufCMessage *header)
{
    struct lk_envelope e = *envelope;
    nng_msg *message;

    e.header_bytes = (uint32_t)protobuf_c_message_get_packed_size(header);
    if (nng_msg_alloc(&message, LK_ENVELOPE_BYTES + e.header_bytes) != 0)
        return false;
    uint8_t *body = nng_msg_body(message);
    lk_envelope_put(&e, body);
    (void)protobuf_c_message_pack(header, body + LK_ENVELOPE_BYTES);
    if (nng_msg_header_append_u32(message, REQUEST_BIT | (uint32_t)e.call) == 0 &&
        nng_sendmsg(link->socket, message, NNG_FLAG_NONBLOCK) == 0)
        return true;
    nng_msg_free(message);
    return false;
}

void lkc_link_break(struct link *link)
{
    (void)pthread_mutex_lock(&link->mutex);
    nng_pipe pipe = link->pipe;
    bool up = link->connection != 0;
    (void)pthread_mutex_unlock(&link->mutex);
    if (up)
        (void)nng_pipe_close(pipe);
}
