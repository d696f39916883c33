/*
 * A remote worker whose daemon may say anything, over connections that come and go: answers to its hello, tasks,
 * refusals, frames and bytes that are none, in any order; silence, and connections that end in the midst of it.
 * Whatever comes, the worker says nothing but whole requests, and ends with a code and a text when nobody is
 * there any more. (The same protocol over a local worker's pipe: fuzz_worker.)
 *
 * What is nng's of the link is replaced here: its requests are answered, and fail, when the worker waits for
 * them, and waiting takes no time (the Makefile wraps it). Messages have exactly their size, so that a sanitizer sees a byte too many.
 *
 * Input: events, see `happen`.
 */
#include "base/bytes.h"
#include "proto/lanekeeper.pb-c.h"
#include "proto/socket.h"
#include "tests/fuzz/work.h"
#include "worker/link.h"
#include "worker/worker.h"

#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#define PATIENCE_MS 5000
#define EVENTS_MAX 200 /* of one input */

struct nng_aio {
    void (*done)(void *owner);
    void *owner;
    int result;
    nng_msg *message;
    bool sends, receives;
    uint64_t call, order; /* of its request */
    uint16_t method;
};

struct nng_msg {
    uint8_t *body;
    size_t n;
};

static struct {
    struct lk_fuzz_input *input;
    bool up;
    nng_pipe_cb told[2]; /* of a connection that is there, and of one that is gone */
    void *owner;
    nng_aio *aio[LINK_SLOTS];
    uint32_t n_aios;
    uint64_t orders;
    uint32_t events;
} d;

/* ---- time ---- */

static _Atomic int64_t added_ns;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    int status = (int)syscall(SYS_clock_gettime, clock, t);
    if (clock == CLOCK_MONOTONIC) {
        int64_t ns = atomic_load(&added_ns) + t->tv_nsec;
        t->tv_sec += ns / 1000000000;
        t->tv_nsec = ns % 1000000000;
    }
    return status;
}

static void pass_ms(int64_t ms)
{
    atomic_fetch_add(&added_ns, ms * 1000000);
}

int nanosleep(const struct timespec *time, struct timespec *ret_left)
{
    (void)ret_left;
    pass_ms(time->tv_sec * 1000 + time->tv_nsec / 1000000 + 1);
    return 0;
}

int usleep(useconds_t us)
{
    pass_ms(us / 1000 + 1);
    return 0;
}

/* A worker's encoder asks for huge pages, which to clear for each input takes nearly all of the time. */
int madvise(void *at, size_t bytes, int advice)
{
    (void)at, (void)bytes, (void)advice;
    return 0;
}

/* ---- nng's messages ---- */

int nng_msg_alloc(nng_msg **ret, size_t n)
{
    *ret = lk_alloc(sizeof **ret);
    **ret = (nng_msg){.body = lk_alloc(n), .n = n};
    return 0;
}

void nng_msg_free(nng_msg *message)
{
    free(message->body);
    free(message);
}

void *nng_msg_body(nng_msg *message)
{
    return message->body;
}

size_t nng_msg_len(const nng_msg *message)
{
    return message->n;
}

int nng_msg_realloc(nng_msg *message, size_t n)
{
    message->body = lk_resize(message->body, n, 1);
    message->n = n;
    return 0;
}

int nng_msg_reserve(nng_msg *message, size_t n)
{
    (void)message, (void)n;
    return 0;
}

int nng_msg_append(nng_msg *message, const void *bytes, size_t n)
{
    size_t before = message->n;
    (void)nng_msg_realloc(message, before + n);
    memcpy(message->body + before, bytes, n);
    return 0;
}

/* ---- nng's sockets: one, with a context for each slot ---- */

int nng_req0_open(nng_socket *ret)
{
    *ret = (nng_socket){.id = 1};
    d.up = false;
    d.n_aios = 0;
    memset(d.told, 0, sizeof d.told);
    return 0;
}

/* Without the thread that it gives nng two seconds by. */
bool __wrap_lk_socket_close(nng_socket socket);

bool __wrap_lk_socket_close(nng_socket socket)
{
    (void)socket;
    return true;
}

int nng_socket_set_ms(nng_socket socket, const char *name, nng_duration ms)
{
    (void)socket, (void)name, (void)ms;
    return 0;
}

int nng_socket_set_size(nng_socket socket, const char *name, size_t n)
{
    (void)socket, (void)name, (void)n;
    return 0;
}

int nng_pipe_notify(nng_socket socket, nng_pipe_ev event, nng_pipe_cb told, void *owner)
{
    (void)socket;
    d.told[event == NNG_PIPE_EV_REM_POST] = told;
    d.owner = owner;
    return 0;
}

int nng_ctx_open(nng_ctx *ret, nng_socket socket)
{
    (void)socket;
    *ret = (nng_ctx){.id = d.n_aios};
    return 0;
}

int nng_ctx_close(nng_ctx context)
{
    (void)context;
    return 0;
}

int nng_aio_alloc(nng_aio **ret, void (*done)(void *), void *owner)
{
    LK_CHECK(d.n_aios < LINK_SLOTS);
    *ret = lk_alloc(sizeof **ret);
    **ret = (nng_aio){.done = done, .owner = owner};
    d.aio[d.n_aios++] = *ret;
    return 0;
}

void nng_aio_free(nng_aio *aio)
{
    LK_CHECK(!aio->sends && !aio->receives);
    free(aio);
}

void nng_aio_set_timeout(nng_aio *aio, nng_duration ms)
{
    (void)aio, (void)ms;
}

int nng_aio_result(nng_aio *aio)
{
    return aio->result;
}

nng_msg *nng_aio_get_msg(nng_aio *aio)
{
    return aio->message;
}

void nng_aio_set_msg(nng_aio *aio, nng_msg *message)
{
    aio->message = message;
}

static void finish(nng_aio *aio, int result)
{
    aio->sends = aio->receives = false;
    aio->result = result;
    aio->done(aio->owner);
}

void nng_aio_stop(nng_aio *aio)
{
    if (aio->sends || aio->receives)
        finish(aio, NNG_ECANCELED);
}

int nng_dial(nng_socket socket, const char *address, nng_dialer *ret, int flags)
{
    (void)socket, (void)address, (void)ret, (void)flags;
    return 0;
}

/* What a worker says is whole, and means something. */
static void send_now(nng_aio *aio)
{
    struct lk_envelope e;
    LK_CHECK(lk_envelope_get(aio->message->body, aio->message->n, &e) && e.status == 0);
    aio->call = e.call;
    aio->method = e.method;
    if (e.method == LK_METHOD_WORKER_HELLO) {
        Lk__WorkerHelloRequest *hello = lk__worker_hello_request__unpack(NULL, e.header_bytes, e.header);
        LK_CHECK(hello != NULL && hello->protocol == LK_WORK_PROTOCOL && strcmp(hello->token, "token") == 0);
        lk__worker_hello_request__free_unpacked(hello, NULL);
    } else {
        Lk__WorkerTaskRequest *task = lk__worker_task_request__unpack(NULL, e.header_bytes, e.header);
        LK_CHECK(e.method == LK_METHOD_WORKER_TASK && task != NULL);
        LK_CHECK(e.payload_bytes >= 16 * (uint64_t)task->n_rows && (task->status == 0 || task->detail[0] != '\0'));
        LK_CHECK(task->n_rows == 0 || !(lk_work_may_pass(task->status) || task->status == LK_OUT_OF_RANGE));
        LK_CHECK(task->n_rows > 0 || e.payload_bytes == 0);
        lk__worker_task_request__free_unpacked(task, NULL);
    }
    nng_msg_free(aio->message);
    aio->message = NULL;
    finish(aio, 0);
}

void nng_ctx_send(nng_ctx context, nng_aio *aio)
{
    (void)context;
    aio->sends = true;
    if (d.up)
        send_now(aio);
}

void nng_ctx_recv(nng_ctx context, nng_aio *aio)
{
    (void)context;
    aio->receives = true;
    aio->order = ++d.orders;
}

/* ---- what happens while the worker waits ---- */

static void connect_now(void)
{
    d.up = true;
    d.told[0]((nng_pipe){.id = 1}, NNG_PIPE_EV_ADD_POST, d.owner);
    for (uint32_t i = 0; i < d.n_aios; i++)
        if (d.aio[i]->sends)
            send_now(d.aio[i]);
}

static void lose_now(void)
{
    d.up = false;
    for (uint32_t i = 0; i < d.n_aios; i++)
        if (d.aio[i]->receives)
            finish(d.aio[i], NNG_ECONNRESET);
    d.told[1]((nng_pipe){.id = 1}, NNG_PIPE_EV_REM_POST, d.owner);
}

/* The request that waits for an answer, the first or the last; NULL: none. */
static nng_aio *waiting(bool last)
{
    nng_aio *found = NULL;
    for (uint32_t i = 0; i < d.n_aios; i++)
        if (d.aio[i]->receives && (found == NULL || (d.aio[i]->order > found->order) == last))
            found = d.aio[i];
    return found;
}

static void put_refusal(struct lk_fuzz_input *input, struct lk_buf *out, const nng_aio *aio)
{
    Lk__Error error = LK__ERROR__INIT;
    uint8_t how = lk_fuzz_byte(input);
    error.detail = (char *)(how & 64 ? "" : how & 128 ? "\xff\n" : "no");
    put_message(out, (struct lk_envelope){.method = aio->method, .status = how % 20, .call = aio->call}, &error.base, NULL);
}

/* What fits the request in kind, unless the input has it otherwise. */
static void put_answer(struct lk_fuzz_input *input, struct lk_buf *out, const nng_aio *aio, uint8_t what)
{
    bool hello = (aio->method == LK_METHOD_WORKER_HELLO) != (what % 8 == 4);
    if (what % 8 == 5)
        put_refusal(input, out, aio);
    else if (what % 8 == 6)
        put_odd(input, out, what & 8 ? LK_METHOD_WORKER_TASK : LK_METHOD_WORKER_HELLO);
    else if (what % 8 == 7)
        put_raw(input, out);
    else if (hello)
        put_hello_reply(input, out, aio->call);
    else
        put_task(input, out, aio->call);
}

/* One event; false: nothing but that time went by. */
static bool happen(void)
{
    uint8_t what = lk_fuzz_byte(d.input);
    bool over = d.input->left == 0 || ++d.events > EVENTS_MAX;
    if (!d.up && !over && what < 224) {
        connect_now();
        return true;
    }
    nng_aio *aio = waiting((what & 16) != 0);
    if (d.up && (over || what >= 240)) {
        lose_now();
        return true;
    }
    if (aio == NULL || over || what >= 224) {
        pass_ms(over ? PATIENCE_MS : (int64_t)lk_fuzz_byte(d.input) * 500);
        return false;
    }
    struct lk_buf out = {0};
    put_answer(d.input, &out, aio, what);
    LK_CHECK(nng_msg_alloc(&aio->message, out.len) == 0);
    if (out.len > 0)
        memcpy(aio->message->body, out.data, out.len);
    lk_buf_done(&out);
    finish(aio, 0);
    return true;
}

int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
    if (d.input == NULL) /* the data are being indexed */
        return __real_pthread_cond_timedwait(cond, mutex, until);
    (void)pthread_mutex_unlock(mutex);
    bool happened = happen();
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t left = (until->tv_sec - now.tv_sec) * 1000 + (until->tv_nsec - now.tv_nsec) / 1000000;
    if (!happened && left >= 0)
        pass_ms(left + 1);
    (void)pthread_mutex_lock(mutex);
    return happened ? 0 : ETIMEDOUT;
}

/* ---- an input ---- */

static void begin(void)
{
    if (f.root != NULL)
        return;
    struct rlimit files_open; /* a worker opens as many shards as it may: each input makes room for them */
    LK_CHECK(getrlimit(RLIMIT_NOFILE, &files_open) == 0);
    files_open.rlim_cur = files_open.rlim_cur < 256 ? files_open.rlim_cur : 256;
    LK_CHECK(setrlimit(RLIMIT_NOFILE, &files_open) == 0);
    make_data();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct lk_fuzz_input input = {data, n};
    struct worker_options options = {.address = "tcp://127.0.0.1:1", .token = "token", .patience_ms = PATIENCE_MS};
    struct lk_err err = {.code = LK_OK, .text = ""};

    begin();
    d.input = &input;
    d.events = 0;
    enum lk_code code = worker_run(&options, &err);
    d.input = NULL;
    LK_CHECK(code != LK_OK && err.code == code && err.text[0] != '\0');
    return 0;
}
