/*
 * The workers' service over TCP, the daemon's side: a pool that listens, with real sockets. Peers say what the
 * input has: hellos with the right token and with others, requests for tasks, results right and wrong, frames
 * and bytes that are none; they hang up, fall silent, and time goes by. Whatever they do, strangers are
 * answered as ever, each task that was submitted is heard of exactly once, and when an honest worker comes it
 * is given what they hold, and nothing of them remains.
 *
 * Input: operations, see `operate`. Time is the real one and what the input adds to it. (The Makefile wraps what
 * makes the service's thread.)
 */
#include "host/pool_private.h"
#include "op/measure.h"
#include "tests/fuzz/work.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

#define TOKEN "a token of more than sixteen"
#define PEERS 4
#define JOBS_MAX 24
#define OPERATIONS_MAX 48
#define PATIENCE_S 20     /* real ones, for what must come */
#define STEP_MS 500       /* made up ones, while an honest worker waits for what others hold */
#define STEPS_MAX 4000    /* half an hour: longer than any patience of the pool */
#define METHOD_NONE 99

/* One end of a connection, and what came on it. */
struct line {
    int fd; /* -1: none */
    bool greeted;
    uint8_t calls;
    uint64_t worker; /* the number that it was given; 0: none */
    struct lk_buf in;
    size_t taken;
};

struct asked {
    uint64_t id;
    const uint64_t *rows; /* [n] */
    uint32_t n;
    bool over; /* heard of, or cancelled */
    bool sure; /* only the honest worker can have answered it */
};

static struct {
    struct loop *loop;
    struct pool *pool;
    uint16_t port;
    struct line bell, honest, peer[PEERS];
    struct asked job[JOBS_MAX];
    uint32_t jobs;
    uint64_t calls; /* of all but the bell */
    uint64_t rung;
} d;

static _Atomic int64_t added_ms;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    int status = (int)syscall(SYS_clock_gettime, clock, t);
    if (clock == CLOCK_MONOTONIC) {
        int64_t ms = atomic_load(&added_ms) + t->tv_nsec / 1000000;
        t->tv_sec += ms / 1000;
        t->tv_nsec = ms % 1000 * 1000000 + t->tv_nsec % 1000000;
    }
    return status;
}

static int64_t real_s(void)
{
    struct timespec t;
    LK_CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t) == 0);
    return t.tv_sec;
}

/* ---- the service's thread, as a coroutine: it has its turns between ours, and the same input always the same run ---- */

static struct {
    ucontext_t ours, its;
    uint8_t stack[256 << 10];
    void *(*run)(void *);
    void *arg;
    bool awaited, there, inside;
    uint64_t events; /* that it has been given */
    void *our_fake, *its_fake; /* what the address sanitizer keeps of a stack that is left */
    const void *our_stack;
    size_t our_bytes;
} thread;

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(SANITIZED)
void __sanitizer_start_switch_fiber(void **save, const void *bottom, size_t bytes);
void __sanitizer_finish_switch_fiber(void *save, const void **ret_bottom, size_t *ret_bytes);
#else
#define __sanitizer_start_switch_fiber(save, bottom, bytes) ((void)(save), (void)(bottom), (void)(bytes))
#define __sanitizer_finish_switch_fiber(save, ret_bottom, ret_bytes) ((void)(save), (void)(ret_bottom), (void)(ret_bytes))
#endif

static void thread_leave(bool for_good)
{
    thread.inside = false;
    __sanitizer_start_switch_fiber(for_good ? NULL : &thread.its_fake, thread.our_stack, thread.our_bytes);
    LK_CHECK(swapcontext(&thread.its, &thread.ours) == 0);
    __sanitizer_finish_switch_fiber(thread.its_fake, &thread.our_stack, &thread.our_bytes);
    thread.inside = true;
}

static void thread_main(void)
{
    __sanitizer_finish_switch_fiber(NULL, &thread.our_stack, &thread.our_bytes);
    thread.inside = true;
    (void)thread.run(thread.arg);
    thread.there = false;
    thread_leave(true);
}

/* As long as it has something to do. */
static void thread_turn(void)
{
    if (!thread.there)
        return;
    __sanitizer_start_switch_fiber(&thread.our_fake, thread.stack, sizeof thread.stack);
    LK_CHECK(swapcontext(&thread.ours, &thread.its) == 0);
    __sanitizer_finish_switch_fiber(thread.our_fake, NULL, NULL);
}

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);
int __real_pthread_join(pthread_t which, void **ret);
int __wrap_pthread_join(pthread_t which, void **ret);
int __real_epoll_wait(int fd, struct epoll_event *events, int n, int ms);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int n, int ms);

int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *), void *arg)
{
    if (!thread.awaited)
        return __real_pthread_create(ret, attributes, run, arg);
    thread.awaited = false;
    thread.there = true;
    thread.run = run;
    thread.arg = arg;
    *ret = 0;
    LK_CHECK(getcontext(&thread.its) == 0);
    thread.its.uc_stack.ss_sp = thread.stack;
    thread.its.uc_stack.ss_size = sizeof thread.stack;
    makecontext(&thread.its, thread_main, 0);
    return 0;
}

int __wrap_pthread_join(pthread_t which, void **ret)
{
    if (which != 0)
        return __real_pthread_join(which, ret);
    while (thread.there)
        thread_turn();
    return 0;
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int n, int ms)
{
    if (!thread.inside)
        return __real_epoll_wait(fd, events, n, ms);
    int got = __real_epoll_wait(fd, events, n, 0);
    if (got == 0)
        thread_leave(false);
    thread.events += got > 0;
    return got;
}

/* ---- connections ---- */

static void dial(struct line *line)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(d.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *line = (struct line){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    int now = 1;
    LK_CHECK(line->fd >= 0 && setsockopt(line->fd, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now) == 0);
    LK_CHECK(connect(line->fd, (const struct sockaddr *)&at, sizeof at) == 0);
}

static void hang_up(struct line *line)
{
    if (line->fd >= 0)
        (void)close(line->fd);
    lk_buf_done(&line->in);
    *line = (struct line){.fd = -1};
}

static void greet(const struct line *line)
{
    (void)send(line->fd, "\0SP\0\0\x30\0\0", 8, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* @body after its length and a request's number, as a REQ socket sends it by TCP. */
static void say(struct line *line, const struct lk_buf *body)
{
    struct lk_buf out = {0};
    uint64_t n = body->len + 4;
    for (int i = 0; i < 8; i++)
        lk_buf_put(&out, &(uint8_t){(uint8_t)(n >> (56 - 8 * i))}, 1);
    lk_buf_put(&out, (const uint8_t[]){0x80, 0, 0, ++line->calls}, 4);
    lk_buf_put(&out, body->data, body->len);
    (void)send(line->fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    lk_buf_done(&out);
}

static void say_message(struct line *line, uint16_t method, uint64_t call, const ProtobufCMessage *message,
                        const struct lk_buf *payload)
{
    struct lk_buf body = {0};
    put_message(&body, (struct lk_envelope){.method = method, .call = call}, message, payload);
    say(line, &body);
    lk_buf_done(&body);
}

/* The next answer, valid until the next call; false: none yet. */
static bool hear(struct line *line, struct lk_envelope *ret)
{
    if (line->taken > 0)
        memmove(line->in.data, line->in.data + line->taken, line->in.len - line->taken);
    line->in.len -= line->taken;
    line->taken = 0;
    ssize_t got = recv(line->fd, lk_buf_room(&line->in, 65536), 65536, MSG_DONTWAIT);
    LK_CHECK(got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)));
    line->in.len += got > 0 ? (size_t)got : 0;
    size_t skip = line->greeted ? 0 : 8;
    if (line->in.len < skip + 12)
        return false;
    const uint8_t *p = line->in.data + skip;
    size_t n = (size_t)p[4] << 24 | (size_t)p[5] << 16 | (size_t)p[6] << 8 | p[7];
    if (line->in.len - skip - 8 < n)
        return false;
    LK_CHECK(n >= 4 && lk_envelope_get(p + 12, n - 4, ret));
    line->greeted = true;
    line->taken = skip + 8 + n;
    return true;
}

/* ---- the honest worker ---- */

static void honest_ask(void)
{
    Lk__WorkerTaskRequest request = LK__WORKER_TASK_REQUEST__INIT;
    request.worker = d.honest.worker;
    say_message(&d.honest, LK_METHOD_WORKER_TASK, ++d.calls, &request.base, NULL);
}

static void honest_begin(void)
{
    Lk__WorkerHelloRequest hello = LK__WORKER_HELLO_REQUEST__INIT;
    hang_up(&d.honest);
    dial(&d.honest);
    greet(&d.honest);
    hello.protocol = LK_WORK_PROTOCOL;
    hello.token = (char *)TOKEN;
    hello.host = (char *)"honest";
    say_message(&d.honest, LK_METHOD_WORKER_HELLO, ++d.calls, &hello.base, NULL);
}

/* The dataset's number of row @row of shard @name. */
static uint32_t row_of(const char *name, uint64_t row)
{
    const struct lk_index_shard *shard = f.index.shard;
    while (strcmp(shard->name, name) != 0)
        LK_CHECK(++shard < f.index.shard + f.index.shards);
    LK_CHECK(row < shard->rows);
    return (uint32_t)(shard->first_row + row);
}

/* Row r has r + 1 tokens. */
static void honest_work(const Lk__WorkerTaskReply *task, const uint8_t *rows, uint32_t n)
{
    Lk__WorkerTaskRequest request = LK__WORKER_TASK_REQUEST__INIT;
    struct lk_buf payload = {0}, ids = {0};
    uint32_t runs = 0, end = 0; /* of the row at hand: its run's */
    LK_CHECK(n >= 1 && n <= ROWS);
    for (uint32_t i = 0; i < n; i++) {
        LK_CHECK(i < end || (runs < task->n_shards && task->shards[runs]->rows > 0));
        end += i < end ? 0 : task->shards[runs++]->rows;
        uint32_t r = row_of(task->shards[runs - 1]->name, lk_work_row_get(rows + i * LK_WORK_ROW_BYTES).row);
        struct lk_work_result row = {.tokens = r + 1, .text_bytes = r};
        lk_buf_put(&payload, &row, sizeof row);
        for (uint32_t k = 0; k <= r; k++)
            lk_buf_put(&ids, &(uint32_t){r * 31 + k}, 4);
    }
    LK_CHECK(runs == task->n_shards && end == n);
    lk_buf_put(&payload, ids.data, ids.len);
    request.worker = d.honest.worker;
    request.task = task->task;
    request.n_rows = n;
    say_message(&d.honest, LK_METHOD_WORKER_TASK, ++d.calls, &request.base, &payload);
    lk_buf_done(&payload);
    lk_buf_done(&ids);
}

/* False: there was nothing for it. */
static bool honest_turn(void)
{
    struct lk_envelope e;
    bool heard = false;
    while (d.honest.fd >= 0 && hear(&d.honest, &e)) {
        heard = true;
        if (e.status != LK_OK) { /* time made a leap, and it was taken for stuck: as a worker does then */
            LK_CHECK(e.status == LK_FAILED_PRECONDITION && d.honest.worker != 0);
            honest_begin();
        } else if (e.method == LK_METHOD_WORKER_HELLO) {
            Lk__WorkerHelloReply *hello = lk__worker_hello_reply__unpack(NULL, e.header_bytes, e.header);
            LK_CHECK(hello != NULL && hello->n_streams == 1);
            d.honest.worker = hello->worker;
            lk__worker_hello_reply__free_unpacked(hello, NULL);
            honest_ask();
            honest_ask();
        } else {
            Lk__WorkerTaskReply *task = lk__worker_task_reply__unpack(NULL, e.header_bytes, e.header);
            LK_CHECK(task != NULL);
            if (task->task != 0)
                honest_work(task, e.payload, (uint32_t)(e.payload_bytes / LK_WORK_ROW_BYTES));
            else
                honest_ask();
            lk__worker_task_reply__free_unpacked(task, NULL);
        }
    }
    return heard;
}

/* ---- running ---- */

static void stop_loop(void *owner)
{
    (void)owner;
    loop_stop(d.loop);
}

/* Until neither side of the service, nor the honest worker, has anything left to do. */
static void settle(void)
{
    for (bool busy = true; busy;) {
        struct loop_timer now = {0};
        struct pollfd queued = {.fd = rpc_server_fd(d.pool->server), .events = POLLIN};
        uint64_t before = thread.events;
        thread_turn();
        loop_set(d.loop, &now, loop_now_ms(d.loop), stop_loop, NULL); /* behind what is due */
        loop_run(d.loop);
        busy = honest_turn() || thread.events != before || poll(&queued, 1, 0) > 0;
    }
}

static void run_until(bool (*enough)(void))
{
    int64_t until_s = real_s() + PATIENCE_S;
    int64_t step_ms = 1;
    for (settle(); !enough(); settle()) {
        LK_CHECK(real_s() < until_s); /* else it never comes */
        atomic_fetch_add(&added_ms, step_ms);
        step_ms = step_ms < STEP_MS ? 2 * step_ms : STEP_MS;
    }
}

/* A stranger's request that nobody has a method for: it is told so. */
static bool bell_heard(void)
{
    struct lk_envelope e;
    if (!hear(&d.bell, &e))
        return false;
    LK_CHECK(e.status == LK_UNIMPLEMENTED && e.call == d.rung);
    return true;
}

static void ring(void)
{
    Lk__WorkerTaskRequest nothing = LK__WORKER_TASK_REQUEST__INIT;
    say_message(&d.bell, METHOD_NONE, ++d.rung, &nothing.base, NULL);
    run_until(bell_heard);
}

/* ---- tasks ---- */

static void on_done(void *owner, uint64_t tag, const struct pool_result *result)
{
    struct asked *asked = owner;
    LK_CHECK(!asked->over && asked->n == tag);
    asked->over = true;
    LK_CHECK(result->code <= LK_UNAUTHENTICATED && (result->code == LK_OK ? result->n == tag : result->n < tag));
    LK_CHECK(result->code == LK_OK || (result->detail[0] != '\0' && !asked->sure));
    for (uint32_t i = 0; i < result->n; i++) {
        const struct pool_row *row = &result->rows[i];
        LK_CHECK(row->drop < LK_DROP_KINDS && row->drop != LK_DROP_CRASH);
        LK_CHECK((row->drop == LK_DROP_NONE) == (row->tokens > 0) && strlen(row->detail) < LK_ERR_TEXT_MAX);
        for (uint32_t k = 0; k < row->tokens; k++)
            LK_CHECK(row->ids[k] < VOCAB);
        uint32_t r = (uint32_t)asked->rows[i];
        LK_CHECK(!asked->sure || (row->tokens == r + 1 && row->ids[r] == r * 31 + r));
    }
}

static void submit(uint32_t n, bool sure)
{
    static const uint64_t rows[][ROWS] = {{0, 1, 2, 3, 4}, {3, 0, 4, 2, 1}, {1, 0, 4, 3, 2}};
    if (d.jobs == JOBS_MAX)
        return;
    struct asked *asked = &d.job[d.jobs++];
    *asked = (struct asked){.rows = rows[d.jobs % 3], .n = n, .sure = sure};
    struct pool_task task = {.rows = asked->rows, .n = n, .urgency = d.jobs % 3, .done = on_done, .owner = asked, .tag = n};
    asked->id = pool_submit(d.pool, &task);
}

static void cancel_or_hurry(uint8_t what)
{
    struct asked *asked = d.jobs > 0 ? &d.job[what % d.jobs] : NULL;
    if (asked == NULL)
        return;
    if (what & 128) {
        pool_hurry(d.pool, asked->id, 0);
    } else if (pool_cancel(d.pool, asked->id)) {
        LK_CHECK(!asked->over);
        asked->over = true;
    }
}

static bool jobs_over(void)
{
    for (uint32_t i = 0; i < d.jobs; i++)
        if (!d.job[i].over)
            return false;
    return true;
}

/* ---- what peers do ---- */

/* What the pool holds of a peer, or NULL. */
static const struct worker *worker_of(const struct line *peer)
{
    for (uint32_t i = 0; i < d.pool->n_workers; i++)
        if (d.pool->worker[i]->number == peer->worker)
            return d.pool->worker[i];
    return NULL;
}

static void hello(struct lk_fuzz_input *input, struct line *peer)
{
    static const char *const tokens[] = {"", "a token of more than sixtee", TOKEN "x", "b token of more than sixteen"};
    Lk__WorkerHelloRequest request = LK__WORKER_HELLO_REQUEST__INIT;
    uint64_t before = d.pool->numbers;
    uint8_t how = lk_fuzz_byte(input);
    struct lk_buf payload = {0};

    request.protocol = how & 64 ? (uint32_t)number(input) : LK_WORK_PROTOCOL;
    request.token = (char *)(how & 128 ? tokens[how % 4] : TOKEN);
    request.pid = how & 32 ? number(input) : 1;
    request.host = (char *)(how & 16 ? "\xff\n\"\x01" : how & 8 ? "" : "h");
    if (how & 4)
        put_raw(input, &payload);
    say_message(peer, LK_METHOD_WORKER_HELLO, ++d.calls, &request.base, &payload);
    settle();
    if (d.pool->numbers > before)
        peer->worker = d.pool->numbers;
    lk_buf_done(&payload);
}

static void ask(struct lk_fuzz_input *input, struct line *peer, uint8_t what)
{
    Lk__WorkerTaskRequest request = LK__WORKER_TASK_REQUEST__INIT;
    char *why = what & 64 ? lk_zalloc(3001, 1) : NULL;
    request.worker = what & 128 ? number(input) : peer->worker;
    if (why != NULL) { /* it cannot serve, it says */
        memset(why, 'y', 3000);
        request.status = (uint32_t)number(input);
        request.detail = why;
    }
    say_message(peer, LK_METHOD_WORKER_TASK, what & 128 ? number(input) : ++d.calls, &request.base, NULL);
    free(why);
}

/* About a task that it was given, mostly. */
static void result(struct lk_fuzz_input *input, struct line *peer)
{
    const struct worker *worker = worker_of(peer);
    const struct run *run = worker != NULL && worker->n_running > 0 ? &worker->running[worker->n_running - 1] : NULL;
    uint8_t how = lk_fuzz_byte(input), at[RESULT_BYTES];
    uint32_t n = run != NULL && run->part != NULL ? run->part->n : ROWS;
    struct said_result said;

    make_result(input, how, peer->worker, run != NULL ? run->assignment : d.pool->assignments, n, at, &said);
    uint64_t bytes = said.request.part_bytes < sizeof at ? said.request.part_bytes : sizeof at;
    struct lk_buf payload = {.data = at, .len = (size_t)bytes};
    said.request.part_bytes = 0;
    say_message(peer, LK_METHOD_WORKER_TASK, ++d.calls, &said.request.base, &payload);
}

/* Many fields in few bytes: what is read of them must be bounded. */
static void fields(struct lk_fuzz_input *input, struct line *peer)
{
    static const uint8_t field[][2] = {{0x32, 0}, {0x78, 1}, {0x22, 0}, {0x0a, 0}};
    struct lk_buf body = {0};
    uint8_t how = lk_fuzz_byte(input), which = how % 4, method = LK_METHOD_WORKER_HELLO + (how >> 2) % 2;
    uint32_t n = 1u << (how >> 4);
    struct lk_envelope e = {.method = method, .call = ++d.calls, .header_bytes = 2 * n};
    lk_envelope_put(&e, lk_buf_room(&body, LK_ENVELOPE_BYTES));
    body.len += LK_ENVELOPE_BYTES;
    while (n-- > 0)
        lk_buf_put(&body, field[which], 2);
    say(peer, &body);
    lk_buf_done(&body);
}

static void odd(struct lk_fuzz_input *input, struct line *peer, uint8_t what)
{
    struct lk_buf out = {0};
    if (what & 8) {
        put_odd(input, &out, what & 64 ? LK_METHOD_WORKER_TASK : LK_METHOD_WORKER_HELLO);
        say(peer, &out);
    } else {
        put_raw(input, &out);
        (void)send(peer->fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    lk_buf_done(&out);
}

static void leave(struct line *peer, uint8_t what)
{
    Lk__WorkerTaskRequest nothing = LK__WORKER_TASK_REQUEST__INIT;
    if (what & 64)
        say_message(peer, LK_METHOD_GOODBYE, ++d.calls, &nothing.base, NULL);
    else if (what & 128)
        (void)shutdown(peer->fd, SHUT_WR);
    else
        hang_up(peer);
}

static void operate(struct lk_fuzz_input *input)
{
    uint8_t what = lk_fuzz_byte(input);
    struct line *peer = &d.peer[what / 16 % PEERS];

    if (peer->fd < 0 && what % 16 < 12) {
        dial(peer);
        settle();
        if (what < 250)
            greet(peer);
    }
    switch (what % 16) {
    case 0:
    case 1:
        hello(input, peer);
        break;
    case 2:
    case 3:
        ask(input, peer, lk_fuzz_byte(input));
        break;
    case 4:
    case 5:
    case 6:
    case 7:
        result(input, peer);
        break;
    case 8:
        fields(input, peer);
        break;
    case 9:
    case 10:
        odd(input, peer, lk_fuzz_byte(input));
        break;
    case 11:
        leave(peer, lk_fuzz_byte(input));
        break;
    case 12:
        submit(1 + lk_fuzz_byte(input) % ROWS, false);
        break;
    case 13:
        cancel_or_hurry(lk_fuzz_byte(input));
        break;
    case 14:
        atomic_fetch_add(&added_ms, (int64_t)lk_fuzz_byte(input) * STEP_MS);
        break;
    default:
        if (d.honest.fd < 0)
            honest_begin();
        else
            hang_up(&d.honest);
    }
    settle();
    size_t text = strlen(pool_waits_for(d.pool));
    LK_CHECK(text > 0 && text < 2 * LK_ERR_TEXT_MAX);
}

/* ---- an input ---- */

static void clean_up(void)
{
    pool_close(d.pool);
    hang_up(&d.bell);
    loop_free(d.loop);
}

static void begin(void)
{
    struct lk_err err;
    if (d.loop != NULL)
        return;
    make_data();
    d.loop = loop_new(&err);
    char *token = lk_format("%s/token", f.dir);
    LK_CHECK(d.loop != NULL && lk_file_write_atomic(token, TOKEN "\n", sizeof TOKEN, &err) == LK_OK);
    struct pool_config config = {.loop = d.loop, .stream = &f.stream, .n_streams = 1, .listen = "tcp://127.0.0.1:0",
                                 .token_file = token, .task_timeout_ms = 1000};
    f.recipe.drop_crashing = true;
    thread.awaited = true;
    LK_CHECK(pool_open(&config, &d.pool, &err) == LK_OK && atexit(clean_up) == 0 && thread.there);
    d.port = (uint16_t)atoi(strrchr(pool_address(d.pool), ':') + 1);
    free(token);
    for (int i = 0; i < PEERS; i++)
        d.peer[i].fd = -1;
    d.honest.fd = -1;
    dial(&d.bell);
    greet(&d.bell);
    ring();
}

/* With those who lie still there, if they are: an honest worker does what they do not. */
static void finish_jobs(void)
{
    if (d.honest.fd < 0)
        honest_begin();
    for (int i = 0; !jobs_over(); i++) {
        LK_CHECK(i < STEPS_MAX);
        settle();
        atomic_fetch_add(&added_ms, i > 2 ? STEP_MS : 1);
    }
}

static bool liars_gone(void)
{
    return d.pool->n_workers == 1 && d.pool->worker[0]->n_running == 0 && d.pool->worker[0]->n_waiting == POOL_SLOTS;
}

static bool all_gone(void)
{
    struct rpc_stats stats;
    rpc_server_stats(d.pool->server, &stats);
    return d.pool->n_workers == 0 && stats.waiting == 0 && stats.peers == 1; /* the bell */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct lk_fuzz_input input = {data, n};

    begin();
    d.jobs = 0;
    for (int i = 0; i < OPERATIONS_MAX && input.left > 0; i++)
        operate(&input);
    ring();
    finish_jobs();
    for (int i = 0; i < PEERS; i++)
        hang_up(&d.peer[i]);
    settle();
    atomic_fetch_add(&added_ms, 2000); /* those who may not go on are forgotten within a second */
    run_until(liars_gone);
    d.jobs = 0;
    submit(ROWS, true);
    run_until(jobs_over);
    LK_CHECK(d.pool->n_queue == 0 && d.pool->n_retrying == 0);
    hang_up(&d.honest);
    run_until(all_gone);
    return 0;
}
