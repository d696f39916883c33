/* False local workers: whatever one says or lays on its board, the pool goes on, and it alone ends. The
 * false worker is this very program, started as a worker. */
#include "base/mem.h"
#include "host/pool.h"
#include "proto/board.h"
#include "proto/envelope.h"
#include "proto/pipe.h"
#include "proto/work.h"
#include "proto/worker.pb-c.h"
#include "tests/lib/check_main.h"
#include "tests/lib/corpus.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIE "LK_TEST_LIE" /* in the environment: what the false worker does */
#define ROWS 16
#define HEAD (ROWS * sizeof(struct lk_work_result))

enum lie {
    FLOODS,        /* asks without end, and reads nothing */
    GARBAGE,       /* no message */
    ENDLESS,       /* a message of 2^63 bytes */
    HALF,          /* half a frame, and the end */
    NO_PART,       /* a result on a part of the board that there is not */
    BEYOND,        /* … larger than its part */
    ROW_TOO_MANY,  /* … of a row more than the task's */
    NOTE_NOWHERE,  /* … with a note on a row that there is not */
    TOO_LITTLE,    /* … with less than its rows take */
    MANY_TOKENS,   /* … of rows with more tokens than the part holds */
    UNKNOWN_DROP,  /* … dropped for no reason that there is */
    UNKNOWN_ID,    /* … of a token that is not in the vocabulary */
    LIES,
    TRIMS = LIES,  /* a good result, and it takes the board's memory away as it says so */
};

/* --- the false worker --- */

static void say(struct lk_pipe *pipe, enum lk_method method, const ProtobufCMessage *message)
{
    struct lk_envelope e = {.method = (uint16_t)method, .call = 1};
    lk_pipe_send(pipe, &e, message, NULL, 0);
    (void)lk_pipe_flush(pipe);
}

static struct lk_envelope hear(struct lk_pipe *pipe)
{
    struct lk_envelope e;
    struct lk_err err;
    enum lk_code code;
    while ((code = lk_pipe_next(pipe, &e, &err)) == LK_NOT_FOUND) {
        struct pollfd p = {.fd = pipe->fd, .events = POLLIN};
        (void)poll(&p, 1, -1);
        (void)lk_pipe_receive(pipe);
        if (pipe->ended)
            _exit(0);
    }
    if (code != LK_OK)
        _exit(9);
    return e;
}

static void bytes_only(struct lk_pipe *pipe, enum lie lie)
{
    uint8_t frame[LK_ENVELOPE_BYTES];
    struct lk_envelope e = {.method = LK_METHOD_WORKER_TASK, .payload_bytes = (uint64_t)1 << 63};
    lk_envelope_put(&e, frame);
    if (lie == GARBAGE)
        memset(frame, 'x', sizeof frame);
    (void)!send(pipe->fd, frame, lie == HALF ? sizeof frame / 2 : sizeof frame, MSG_NOSIGNAL);
    if (lie == HALF)
        (void)shutdown(pipe->fd, SHUT_RDWR);
    for (;;)
        pause();
}

static void flood(struct lk_pipe *pipe, Lk__WorkerTaskRequest *request)
{
    for (;;) {
        say(pipe, LK_METHOD_WORKER_TASK, &request->base);
        while (!lk_pipe_flush(pipe))
            (void)poll(&(struct pollfd){.fd = pipe->fd, .events = POLLOUT}, 1, -1);
    }
}

static void lay_and_say(struct lk_pipe *pipe, const struct lk_board *board, enum lie lie,
                        Lk__WorkerTaskRequest *request)
{
    Lk__RowNote note = LK__ROW_NOTE__INIT, *notes[1] = {&note};
    struct lk_work_result *row = (struct lk_work_result *)(void *)lk_board_part(board, 0);
    uint32_t id = lie == UNKNOWN_ID ? 257 : 'a';
    for (uint32_t i = 0; i < ROWS; i++)
        row[i] = (struct lk_work_result){.tokens = lie == MANY_TOKENS ? UINT32_MAX : 1,
                                         .drop = lie == UNKNOWN_DROP ? UINT32_MAX : 0};
    for (uint32_t i = 0; i < ROWS; i++)
        memcpy((uint8_t *)(row + ROWS) + 4 * i, &id, 4);
    request->n_rows = lie == ROW_TOO_MANY ? ROWS + 1 : ROWS;
    request->part = lie == NO_PART ? LK_BOARD_PARTS : 0;
    request->part_bytes = lie == BEYOND       ? board->part_bytes + 1
                          : lie == TOO_LITTLE ? HEAD - 1
                                              : HEAD + 4 * ROWS;
    note.row = ROWS;
    note.text = (char *)"why";
    request->notes = notes;
    request->n_notes = lie == NOTE_NOWHERE ? 1 : 0;
    if (lie == TRIMS)
        lk_board_trim(board, 0, 0);
    say(pipe, LK_METHOD_WORKER_TASK, &request->base);
}

static void false_worker(enum lie lie)
{
    struct lk_pipe pipe;
    struct lk_board board;
    struct lk_err err;
    Lk__WorkerHelloRequest hello = LK__WORKER_HELLO_REQUEST__INIT;
    Lk__WorkerTaskRequest request = LK__WORKER_TASK_REQUEST__INIT;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    lk_pipe_open(&pipe, 3, (size_t)1 << 26);
    if (lk_board_open(4, &board, &err) != LK_OK)
        _exit(9);
    if (lie == GARBAGE || lie == ENDLESS || lie == HALF)
        bytes_only(&pipe, lie);
    hello.protocol = LK_WORK_PROTOCOL;
    hello.host = (char *)"false";
    say(&pipe, LK_METHOD_WORKER_HELLO, &hello.base);
    struct lk_envelope e = hear(&pipe);
    Lk__WorkerHelloReply *known = lk__worker_hello_reply__unpack(NULL, e.header_bytes, e.header);
    if (known == NULL)
        _exit(9);
    request.worker = known->worker;
    if (lie == FLOODS)
        flood(&pipe, &request);
    say(&pipe, LK_METHOD_WORKER_TASK, &request.base);
    for (;;) {
        e = hear(&pipe);
        Lk__WorkerTaskReply *task = lk__worker_task_reply__unpack(NULL, e.header_bytes, e.header);
        if (task == NULL)
            _exit(9);
        request.task = task->task;
        lay_and_say(&pipe, &board, lie, &request);
    }
}

/* Before anything of the test: as a worker this program is started with two arguments. */
__attribute__((constructor)) static void be_a_worker(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--local") == 0)
        false_worker((enum lie)atoi(getenv(LIE)));
}

/* --- the pool --- */

struct fix {
    struct corpus corpus;
    struct loop *loop;
    struct pool *pool;
    struct loop_timer guard, look;
    enum lk_code code; /* of the task */
    bool done;
    uint64_t ends;     /* of false workers, to be seen */
    char said[256];    /* the last of the worst that was logged */
    uint32_t drops, kept;
};

static void on_log(void *owner, int level, const char *event, const char *text)
{
    struct fix *f = owner;
    if (level <= 3)
        (void)snprintf(f->said, sizeof f->said, "%s %s", event, text);
}

static void on_done(void *owner, uint64_t tag, const struct pool_result *result)
{
    struct fix *f = owner;
    (void)tag;
    f->done = true;
    f->code = result->code;
    for (uint32_t i = 0; result->code == LK_OK && i < ROWS; i++) {
        f->drops += result->rows[i].drop != 0;
        f->kept += result->rows[i].drop == 0;
    }
    loop_stop(f->loop);
}

static void too_late(void *owner)
{
    struct fix *f = owner;
    ck_abort_msg("not in time: %s; %s", f->said, pool_waits_for(f->pool));
}

/* Ends when as many false workers have. */
static void look(void *owner)
{
    struct fix *f = owner;
    struct pool_stats stats;
    pool_stats(f->pool, &stats);
    if (stats.deaths >= f->ends)
        loop_stop(f->loop);
    loop_set(f->loop, &f->look, loop_now_ms(f->loop) + 10, look, f);
}

static void fix_start(struct fix *f, enum lie lie)
{
    char text[16];
    struct lk_err err = {.text = ""};
    *f = (struct fix){.code = LK_OK, .ends = lie == FLOODS ? 1 : 3};
    corpus_make(&f->corpus, ROWS, 50, NULL, 0);
    f->corpus.stream.vocab = 257;
    (void)snprintf(text, sizeof text, "%d", (int)lie);
    ck_assert_int_eq(setenv(LIE, text, 1), 0);
    f->loop = loop_new(NULL);
    struct pool_config config = {.loop = f->loop, .stream = &f->corpus.stream, .n_streams = 1,
                                 .workers = 1, .worker_path = "/proc/self/exe",
                                 .cache_bytes = 1 << 20, .log = on_log, .log_owner = f};
    ck_assert_msg(pool_open(&config, &f->pool, &err) == LK_OK, "%s", err.text);
    loop_set(f->loop, &f->guard, loop_now_ms(f->loop) + 50000, too_late, f);
    uint64_t rows[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        rows[i] = i;
    struct pool_task task = {.rows = rows, .n = ROWS, .done = on_done, .owner = f};
    (void)pool_submit(f->pool, &task);
}

static void fix_done(struct fix *f)
{
    pool_close(f->pool);
    loop_clear(f->loop, &f->guard);
    loop_clear(f->loop, &f->look);
    loop_free(f->loop);
    corpus_done(&f->corpus);
}

START_TEST(a_false_worker_ends_alone_and_nothing_of_it_is_taken)
{
    struct fix f;
    struct rusage usage;
    fix_start(&f, (enum lie)_i);
    look(&f);
    loop_run(f.loop);
    if (_i >= NO_PART)
        ck_assert_msg(strstr(f.said, "bad_result") != NULL, "%s", f.said);
    if (_i == FLOODS)
        ck_assert_msg(strstr(f.said, "worker_deaf") != NULL, "%s", f.said);
    ck_assert(!f.done);
    ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
    ck_assert_int_lt(usage.ru_maxrss, 1 << 20); /* kB: the unread answers, as their buffer doubles */
    fix_done(&f);
}
END_TEST

START_TEST(a_board_whose_memory_is_taken_away_is_read_without_a_fault)
{
    struct fix f;
    fix_start(&f, TRIMS);
    look(&f);
    loop_run(f.loop); /* all zeros: rows that are kept, and have no tokens */
    ck_assert_msg(strstr(f.said, "bad_result") != NULL, "%s", f.said);
    ck_assert(!f.done);
    fix_done(&f);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("host/pool_local");
    TCase *t = tcase_create("false workers");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_false_worker_ends_alone_and_nothing_of_it_is_taken, 0, LIES);
    tcase_add_test(t, a_board_whose_memory_is_taken_away_is_read_without_a_fault);
    suite_add_tcase(s, t);
    return s;
}
