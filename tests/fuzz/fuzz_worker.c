/*
 * The workers' protocol on both sides, with its pipe and its board: a worker whose daemon may say anything,
 * and a pool whose worker may. What is said wrongly is refused or costs the connection; what is taken is
 * what the other side can have meant.
 *
 * Input: a byte for the side; then what is said, message by message, see `say_some`.
 */
#include "host/pool_private.h"
#include "op/measure.h"
#include "tests/fuzz/work.h"
#include "worker/worker.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#define PART_BYTES 65536u

static struct loop *loop;

static void clean_up(void)
{
    loop_free(loop);
}

static void begin(void)
{
    struct lk_err err;

    if (loop != NULL)
        return;
    struct rlimit files_open; /* a worker opens as many shards as it may: each input makes room for them */
    LK_CHECK(getrlimit(RLIMIT_NOFILE, &files_open) == 0);
    files_open.rlim_cur = files_open.rlim_cur < 256 ? files_open.rlim_cur : 256;
    LK_CHECK(setrlimit(RLIMIT_NOFILE, &files_open) == 0);
    make_data();
    loop = loop_new(&err);
    LK_CHECK(loop != NULL && atexit(clean_up) == 0);
}

/* A worker pauses before it reads again what could not be read: not here. */
int nanosleep(const struct timespec *time, struct timespec *ret_left)
{
    (void)time, (void)ret_left;
    return 0;
}

/* A worker's encoder asks for huge pages, which to clear for each input takes nearly all of the time. */
int madvise(void *at, size_t bytes, int advice)
{
    (void)at, (void)bytes, (void)advice;
    return 0;
}

/* ---- a worker ---- */

/* All that the daemon ever says is in the socket when the worker begins; then the daemon is gone. */
static void work(struct lk_fuzz_input *input)
{
    struct lk_buf out = {0};
    struct lk_err err = {0};
    int ends[2], board = memfd_create("board", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    LK_CHECK(board >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    LK_CHECK(ftruncate(board, lk_fuzz_byte(input) < 250 ? 2 * PART_BYTES : (off_t)number(input)) == 0);
    uint64_t call = 1;
    for (int i = 0; i < 12 && input->left > 0; i++) {
        uint8_t what = lk_fuzz_byte(input);
        if (what % 8 == 7)
            put_odd(input, &out, what & 8 ? LK_METHOD_WORKER_TASK : LK_METHOD_WORKER_HELLO);
        else if (what % 8 == 6)
            put_raw(input, &out);
        else if (i == 0 || what % 8 == 5)
            put_hello_reply(input, &out, call++);
        else
            put_task(input, &out, call++);
    }
    (void)send(ends[0], out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(ends[0], SHUT_WR);
    struct worker_options options = {.local = true, .socket = ends[1], .board = board, .address = "", .token = ""};
    enum lk_code code = worker_run(&options, &err);
    LK_CHECK(code == LK_OK || err.text[0] != '\0');
    (void)close(ends[0]);
    lk_buf_done(&out);
}

/* ---- a pool ---- */

struct asked {
    uint32_t done;
};

static void on_done(void *owner, uint64_t tag, const struct pool_result *result)
{
    struct asked *asked = owner;
    uint64_t tokens = 0;

    asked->done++;
    LK_CHECK(result->code == LK_OK ? result->n == tag : result->n < tag && result->detail[0] != '\0');
    for (uint64_t i = 0; i < result->n; i++) {
        const struct pool_row *row = &result->rows[i];
        LK_CHECK(row->drop < LK_DROP_KINDS && (row->drop == 0) == (row->tokens > 0));
        for (uint32_t k = 0; k < row->tokens; k++)
            LK_CHECK(row->ids[k] < VOCAB);
        tokens += row->tokens + strlen(row->detail);
    }
    LK_CHECK(tokens < PART_BYTES);
}

/* Lays a result on the board, right or wrong, and says so. */
static void put_result(struct lk_fuzz_input *input, struct lk_buf *out, struct lk_board *board, uint64_t assignment)
{
    uint8_t how = lk_fuzz_byte(input);
    struct said_result said;

    make_result(input, how, 1, assignment, ROWS, lk_board_part(board, how & 1), &said);
    struct lk_envelope e = {.method = LK_METHOD_WORKER_TASK, .call = number(input)};
    put_message(out, e, &said.request.base, NULL);
}

static void put_hello(struct lk_fuzz_input *input, struct lk_buf *out)
{
    Lk__WorkerHelloRequest hello = LK__WORKER_HELLO_REQUEST__INIT;
    uint8_t how = lk_fuzz_byte(input);

    hello.protocol = how == 255 ? (uint32_t)number(input) : LK_WORK_PROTOCOL;
    hello.host = (char *)(how & 1 ? "\n\"\x01" : "h");
    put_message(out, (struct lk_envelope){.method = LK_METHOD_WORKER_HELLO, .call = 1}, &hello.base, NULL);
}

static void put_ask(struct lk_buf *out, uint64_t worker)
{
    Lk__WorkerTaskRequest request = LK__WORKER_TASK_REQUEST__INIT;
    request.worker = worker;
    put_message(out, (struct lk_envelope){.method = LK_METHOD_WORKER_TASK, .call = 2}, &request.base, NULL);
}

static void stop_loop(void *owner)
{
    (void)owner;
    loop_stop(loop);
}

static void turn(void)
{
    struct loop_timer now = {0};
    loop_set(loop, &now, loop_now_ms(loop), stop_loop, NULL); /* behind what is due */
    loop_run(loop);
}

static void submit(struct pool *pool, struct asked *asked)
{
    uint64_t rows[ROWS] = {0, 1, 2, 3, 4};
    struct pool_task task = {.rows = rows, .n = ROWS, .done = on_done, .owner = asked, .tag = ROWS};
    (void)pool_submit(pool, &task);
}

static void say_some(struct lk_fuzz_input *input, struct pool *pool, int fd, struct lk_board *board,
                     struct asked *asked)
{
    for (int i = 0; i < 16 && input->left > 0; i++) {
        struct lk_buf out = {0};
        uint8_t what = lk_fuzz_byte(input);
        switch (what % 8) {
        case 0:
            put_hello(input, &out);
            break;
        case 1:
            put_ask(&out, what & 128 ? number(input) : 1);
            break;
        case 2:
        case 3:
        case 4:
            put_result(input, &out, board, pool->assignments);
            break;
        case 5:
            submit(pool, asked);
            break;
        case 6:
            put_raw(input, &out);
            break;
        default:
            put_odd(input, &out, what & 8 ? LK_METHOD_WORKER_TASK : LK_METHOD_WORKER_HELLO);
        }
        (void)send(fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        lk_buf_done(&out);
        turn();
    }
}

/* A pool without processes, and a local worker whose other end is ours. */
static void serve(struct lk_fuzz_input *input)
{
    struct pool_config config = {.loop = loop, .stream = &f.stream, .n_streams = 1, .worker_path = "/bin/true",
                                 .task_timeout_ms = 1000};
    struct pool *pool = NULL;
    struct asked asked = {0};
    struct lk_board board;
    struct lk_err err;
    int fd = -1;

    f.recipe.drop_crashing = lk_fuzz_byte(input) & 1;
    LK_CHECK(pool_open(&config, &pool, &err) == LK_OK);
    struct worker *worker = worker_new(pool, true);
    LK_CHECK(local_open(worker, &fd, &err) == LK_OK);
    LK_CHECK(lk_board_open(dup(worker->board.fd), &board, &err) == LK_OK);
    submit(pool, &asked);
    say_some(input, pool, fd, &board, &asked);
    (void)close(fd);
    turn();
    worker_drop_calls(worker, LK_OK);
    for (uint32_t i = 0; i < worker->n_running; i++)
        worker->running[i].part = NULL;
    worker->n_running = 0;
    worker_free(worker);
    lk_board_close(&board);
    pool_close(pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct lk_fuzz_input input = {data, n};

    begin();
    if (lk_fuzz_byte(&input) % 2 == 0)
        work(&input);
    else
        serve(&input);
    return 0;
}
