/* The pool against workers that this test plays itself, over a worker's own connection: they can
 * lie, vanish, and be late. */
#include "base/bytes.h"
#include "base/mem.h"
#include "host/pool_private.h"
#include "tests/lib/check_main.h"
#include "tests/lib/corpus.h"
#include "worker/link.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOKEN "a-token-of-more-than-16"
#define ROWS 8

struct fake;
/* What a fake does with a task of @n rows; it may call fake_answer. */
typedef void (*fake_plan)(struct fake *fake, uint32_t n);

struct fix {
    struct corpus corpus;
    struct loop *loop;
    struct pool *pool;
    char *token_file;
    struct loop_timer poll, guard;
    struct fake *fakes[4];
    uint32_t n_fakes, done, rows_seen;
    enum lk_code code;
    char detail[1024];
    bool named; /* pool_waits_for gave the reason */
    int lie;    /* what plan_bad says */
    int64_t late_ms;
    uint32_t lost_alone;
    bool (*enough)(struct fix *);
};

struct fake {
    struct fix *fix;
    struct link *link;
    fake_plan plan;
    uint64_t number;
    uint32_t tasks;
    uint64_t task, first_row; /* the one being looked at */
    unsigned slot;
    enum lk_code refused;
};

static void ask(struct fake *fake, unsigned slot, Lk__WorkerTaskRequest *request,
                const struct lk_work_result *rows, size_t n_rows, const uint32_t *ids, size_t n_ids)
{
    struct lk_err err = {.text = ""};
    struct link_payload payload = {.data = {rows, ids}, .bytes = {n_rows * sizeof *rows, 4 * n_ids}};
    request->worker = fake->number;
    ck_assert_msg(link_send_result(fake->link, slot, request, &payload, &err) == LK_OK, "%s", err.text);
}

/* Answers the task in hand: @rows rows of @tokens tokens each, of which @more are not announced. */
static void answer(struct fake *fake, enum lk_code status, uint32_t rows, uint32_t tokens,
                   uint32_t id, int more)
{
    Lk__WorkerTaskRequest request = LK__WORKER_TASK_REQUEST__INIT;
    struct lk_work_result row[ROWS + 1];
    uint32_t ids[1024];
    for (uint32_t i = 0; i < rows; i++)
        row[i] = (struct lk_work_result){.tokens = tokens, .text_bytes = tokens};
    for (size_t i = 0; i < 1024; i++)
        ids[i] = id;
    request.task = fake->task;
    request.status = (uint32_t)status;
    request.detail = (char *)(status == LK_OK ? "" : "the disk sleeps");
    request.n_rows = status == LK_OK ? rows : 0;
    ask(fake, fake->slot, &request, row, request.n_rows, ids,
        status == LK_OK ? (size_t)((int)(rows * tokens) + more) : 0);
}

static void plan_good(struct fake *fake, uint32_t n)
{
    answer(fake, LK_OK, n, 3, 'x', 0);
}

static void fake_hello(struct fake *fake, const char *token)
{
    struct lk_err err = {.text = ""};
    Lk__WorkerHelloRequest hello = LK__WORKER_HELLO_REQUEST__INIT;
    hello.protocol = LK_WORK_PROTOCOL;
    hello.token = (char *)token;
    hello.host = (char *)"fake";
    ck_assert_int_eq(link_open(pool_address(fake->fix->pool), 1 << 20, &fake->link, &err), LK_OK);
    ck_assert_int_eq(link_send(fake->link, 0, LK_METHOD_WORKER_HELLO, &hello.base, NULL, &err),
                     LK_OK);
}

static void on_reply(struct fake *fake, const struct link_reply *reply)
{
    const struct lk_envelope *e = &reply->envelope;
    if (e->status != 0) {
        fake->refused = (enum lk_code)e->status;
    } else if (e->method == LK_METHOD_WORKER_HELLO) {
        Lk__WorkerHelloReply *hello =
            lk__worker_hello_reply__unpack(NULL, e->header_bytes, e->header);
        ck_assert_ptr_nonnull(hello);
        ck_assert_uint_eq(hello->n_streams, 1);
        ck_assert_str_eq(hello->streams[0]->datasets[0]->root, fake->fix->corpus.root);
        fake->number = hello->worker;
        lk__worker_hello_reply__free_unpacked(hello, NULL);
        for (unsigned slot = 0; slot < LINK_SLOTS; slot++) {
            Lk__WorkerTaskRequest request = LK__WORKER_TASK_REQUEST__INIT;
            ask(fake, slot, &request, NULL, 0, NULL, 0);
        }
    } else {
        Lk__WorkerTaskReply *task = lk__worker_task_reply__unpack(NULL, e->header_bytes, e->header);
        ck_assert_ptr_nonnull(task);
        ck_assert_uint_ne(task->task, 0);
        ck_assert_uint_eq(task->n_shards, 1);
        ck_assert_str_eq(task->shards[0]->name, "docs.jsonl");
        ck_assert_uint_eq(task->shards[0]->rows, e->payload_bytes / LK_WORK_ROW_BYTES);
        fake->task = task->task;
        fake->slot = reply->slot;
        fake->first_row = lk_get_u64(e->payload);
        fake->tasks++;
        lk__worker_task_reply__free_unpacked(task, NULL);
        fake->plan(fake, (uint32_t)(e->payload_bytes / LK_WORK_ROW_BYTES));
    }
}

/* Everything runs on one thread: the loop looks after the fakes every millisecond. */
static void look(void *owner)
{
    struct fix *f = owner;
    struct lk_err err;
    struct link_reply reply;
    for (uint32_t i = 0; i < f->n_fakes; i++)
        while (f->fakes[i]->link != NULL && link_wait(f->fakes[i]->link, 0, &reply, &err) == LK_OK)
            on_reply(f->fakes[i], &reply);
    if (f->enough(f))
        loop_stop(f->loop);
    loop_set(f->loop, &f->poll, loop_now_ms(f->loop) + 1, look, f);
}

static void too_late(void *owner)
{
    struct fix *f = owner;
    ck_abort_msg("not done in time: %s", pool_waits_for(f->pool));
}

static void fix_init(struct fix *f, uint32_t timeout_ms)
{
    *f = (struct fix){.code = LK_UNKNOWN};
    corpus_make(&f->corpus, 64, 20, NULL, 0);
    f->corpus.recipe.drop_crashing = true;
    f->loop = loop_new(NULL);
    f->token_file = lk_format("%s/token", f->corpus.dir);
    FILE *file = fopen(f->token_file, "we");
    ck_assert_ptr_nonnull(file);
    (void)fputs(TOKEN "\n", file);
    ck_assert_int_eq(fclose(file), 0);
    struct pool_config config = {.loop = f->loop,
                                 .stream = &f->corpus.stream,
                                 .n_streams = 1,
                                 .listen = "tcp://127.0.0.1:0",
                                 .token_file = f->token_file,
                                 .task_timeout_ms = timeout_ms};
    struct lk_err err = {.text = ""};
    ck_assert_msg(pool_open(&config, &f->pool, &err) == LK_OK, "%s", err.text);
    loop_set(f->loop, &f->guard, loop_now_ms(f->loop) + 20000, too_late, f);
}

static void fix_done(struct fix *f)
{
    for (uint32_t i = 0; i < f->n_fakes; i++) {
        link_close(f->fakes[i]->link);
        free(f->fakes[i]);
    }
    loop_clear(f->loop, &f->guard);
    loop_clear(f->loop, &f->poll);
    pool_close(f->pool);
    loop_free(f->loop);
    free(f->token_file);
    corpus_done(&f->corpus);
}

static struct fake *fake_add(struct fix *f, fake_plan plan)
{
    struct fake *fake = lk_zalloc(1, sizeof *fake);
    fake->fix = f;
    fake->plan = plan;
    f->fakes[f->n_fakes++] = fake;
    fake_hello(fake, TOKEN);
    return fake;
}

static void run_until(struct fix *f, bool (*enough)(struct fix *))
{
    f->enough = enough;
    look(f);
    loop_run(f->loop);
}

static void on_done(void *owner, uint64_t tag, const struct pool_result *result)
{
    struct fix *f = owner;
    f->done++;
    f->code = result->code;
    (void)snprintf(f->detail, sizeof f->detail, "%s", result->detail);
    for (uint32_t i = 0; result->code == LK_OK && i < tag; i++) {
        ck_assert_uint_eq(result->rows[i].drop, 0);
        ck_assert_uint_eq(result->rows[i].tokens, 3);
        f->rows_seen++;
    }
}

static void submit(struct fix *f, uint32_t n)
{
    uint64_t rows[ROWS];
    for (uint32_t i = 0; i < n; i++)
        rows[i] = i;
    struct pool_task task = {.rows = rows, .n = n, .done = on_done, .owner = f, .tag = n};
    (void)pool_submit(f->pool, &task);
}

static bool one_done(struct fix *f)
{
    return f->done == 1;
}

static bool refused(struct fix *f)
{
    return f->fakes[0]->refused != LK_OK;
}

START_TEST(a_wrong_token_is_refused)
{
    struct fix f;
    fix_init(&f, 10000);
    struct fake *fake = lk_zalloc(1, sizeof *fake);
    fake->fix = &f;
    f.fakes[f.n_fakes++] = fake;
    fake_hello(fake, _i == 0 ? "a-token-of-more-than-17" : _i == 1 ? "" : TOKEN "x");
    run_until(&f, refused);
    ck_assert_int_eq(fake->refused, LK_UNAUTHENTICATED);
    struct pool_stats stats;
    pool_stats(f.pool, &stats);
    ck_assert_uint_eq(stats.remote, 0);
    fix_done(&f);
}
END_TEST

START_TEST(a_remote_worker_does_tasks)
{
    struct fix f;
    fix_init(&f, 10000);
    struct fake *fake = fake_add(&f, plan_good);
    submit(&f, ROWS);
    run_until(&f, one_done);
    ck_assert_int_eq(f.code, LK_OK);
    ck_assert_uint_eq(f.rows_seen, ROWS);
    ck_assert_uint_eq(fake->tasks, 1);
    fix_done(&f);
}
END_TEST

static void plan_unavailable_twice(struct fake *fake, uint32_t n)
{
    if (fake->tasks <= 2)
        answer(fake, LK_UNAVAILABLE, n, 0, 0, 0);
    else
        plan_good(fake, n);
}

static bool one_done_and_named(struct fix *f)
{
    f->named = f->named || strstr(pool_waits_for(f->pool), "the disk sleeps") != NULL;
    return f->done == 1;
}

START_TEST(a_transient_failure_is_retried_named_and_changes_nothing)
{
    struct fix f;
    fix_init(&f, 10000);
    struct fake *fake = fake_add(&f, plan_unavailable_twice);
    submit(&f, ROWS);
    run_until(&f, one_done_and_named);
    ck_assert(f.named);
    ck_assert_int_eq(f.code, LK_OK);
    ck_assert_uint_eq(f.rows_seen, ROWS);
    ck_assert_uint_eq(fake->tasks, 3);
    struct pool_stats stats;
    pool_stats(f.pool, &stats);
    ck_assert_uint_eq(stats.retried, 2);
    fix_done(&f);
}
END_TEST

/* Ways to contradict oneself: a row too few, a token too many, too few, an id beyond the vocabulary,
 * a kept row without tokens. */
static void plan_bad(struct fake *fake, uint32_t n)
{
    static const struct {
        int rows, more;
        uint32_t tokens, id;
    } bad[] = {{-1, 0, 3, 'x'}, {0, 1, 3, 'x'}, {0, -1, 3, 'x'}, {0, 0, 3, 257}, {0, 0, 0, 'x'},
               {1, 0, 3, 'x'}, {0, 0, 3, 1u << 31}, {0, 0, 3, UINT32_MAX}};
    int i = fake->fix->lie;
    answer(fake, LK_OK, (uint32_t)((int)n + bad[i].rows), bad[i].tokens, bad[i].id, bad[i].more);
}

START_TEST(a_result_that_contradicts_itself_is_refused_and_the_task_given_to_another)
{
    struct fix f;
    fix_init(&f, 10000);
    f.lie = _i;
    struct fake *liar = fake_add(&f, plan_bad);
    submit(&f, ROWS);
    run_until(&f, refused); /* it is told to say hello again */
    ck_assert_int_eq(liar->refused, LK_FAILED_PRECONDITION);
    ck_assert_uint_eq(f.done, 0);
    (void)fake_add(&f, plan_good);
    run_until(&f, one_done);
    ck_assert_int_eq(f.code, LK_OK);
    ck_assert_uint_eq(f.rows_seen, ROWS);
    fix_done(&f);
}
END_TEST

static void plan_vanish(struct fake *fake, uint32_t n)
{
    (void)n;
    link_close(fake->link);
    fake->link = NULL;
}

START_TEST(the_task_of_a_lost_worker_is_given_to_another)
{
    struct fix f;
    fix_init(&f, 60000);
    (void)fake_add(&f, plan_vanish);
    (void)fake_add(&f, plan_good);
    submit(&f, ROWS);
    run_until(&f, one_done);
    ck_assert_int_eq(f.code, LK_OK);
    ck_assert_uint_eq(f.rows_seen, ROWS);
    fix_done(&f);
}
END_TEST

/* A worker that vanishes whenever it gets row 5, and comes back: for all we know, the network. After
 * @LOSSES times with that row alone, whatever it was is over. */
#define LOSSES 6

static void plan_vanish_at_row_5(struct fake *fake, uint32_t n)
{
    struct fix *f = fake->fix;
    bool has_it = fake->first_row <= 5 && fake->first_row + n > 5;
    if (has_it && (n > 1 || f->lost_alone < LOSSES)) {
        f->lost_alone += n == 1;
        link_close(fake->link);
        fake->link = NULL;
        fake_hello(fake, TOKEN);
        return;
    }
    plan_good(fake, n);
}

static bool one_done_or_row_5_named(struct fix *f)
{
    const char *text = pool_waits_for(f->pool);
    f->named = f->named || (strstr(text, "docs.jsonl: row 5 at byte") && strstr(text, "were lost"));
    return f->done == 1;
}

START_TEST(a_row_whose_remote_workers_vanish_is_tried_until_one_stays_and_is_never_convicted)
{
    struct fix f;
    fix_init(&f, 60000);
    int64_t start = link_clock_ms();
    struct fake *fake = fake_add(&f, plan_vanish_at_row_5);
    submit(&f, ROWS);
    run_until(&f, one_done_or_row_5_named);
    ck_assert_int_eq(f.code, LK_OK);
    ck_assert_uint_eq(f.rows_seen, ROWS);
    ck_assert_uint_eq(f.lost_alone, LOSSES);
    ck_assert(f.named);
    /* 3 for the whole, 1 for the half, 1 for the quarter, 6 and a good one for the row; and the good parts */
    ck_assert_uint_ge(fake->tasks, 12);
    ck_assert_uint_le(fake->tasks, 15);
    ck_assert_int_ge(link_clock_ms() - start, 100 + 200 + 400 + 800); /* from the third loss on */
    fix_done(&f);
}
END_TEST

static void plan_silent(struct fake *fake, uint32_t n)
{
    (void)fake, (void)n;
}

static bool first_has_it(struct fix *f)
{
    return f->fakes[0]->tasks == 1;
}

static bool two_done(struct fix *f)
{
    return f->done == 2;
}

START_TEST(a_late_result_is_ignored_and_its_worker_goes_on)
{
    struct fix f;
    fix_init(&f, 200);
    struct fake *slow = fake_add(&f, plan_silent);
    submit(&f, ROWS);
    run_until(&f, first_has_it);
    uint64_t task = slow->task;
    unsigned slot = slow->slot;
    struct fake *quick = fake_add(&f, plan_good);
    run_until(&f, one_done);
    ck_assert_uint_eq(quick->tasks, 1);
    slow->task = task;
    slow->slot = slot;
    slow->plan = plan_good;
    link_close(quick->link);
    quick->link = NULL;
    answer(slow, LK_OK, ROWS, 3, 'x', 0);
    submit(&f, 1);
    run_until(&f, two_done);
    ck_assert_uint_eq(slow->tasks, 2);
    ck_assert_uint_eq(f.rows_seen, ROWS + 1);
    fix_done(&f);
}
END_TEST

static bool late(struct fix *f)
{
    return f->done > 0 || link_clock_ms() > f->late_ms;
}

/* One that decompresses its shards, which are large, is not slow. */
START_TEST(a_task_of_large_compressed_shards_has_the_time_that_they_take)
{
    struct fix f;
    struct pool_stats stats;
    fix_init(&f, 50);
    f.corpus.index.shard[0].codec = LK_CODEC_ZSTD;
    f.corpus.index.shard[0].data_bytes = (uint64_t)(_i == 0 ? 10 : 1024) << 20;
    struct fake *slow = fake_add(&f, plan_silent);
    submit(&f, ROWS);
    run_until(&f, first_has_it);
    struct fake *quick = fake_add(&f, plan_good);
    f.late_ms = link_clock_ms() + 2000;
    run_until(&f, late);
    pool_stats(f.pool, &stats);
    ck_assert_uint_eq(quick->tasks, _i == 0);
    ck_assert_uint_eq(stats.retried > 0, _i == 0);
    ck_assert_uint_eq(f.done, _i == 0);
    if (_i == 1) {
        slow->plan = plan_good;
        answer(slow, LK_OK, ROWS, 3, 'x', 0);
        run_until(&f, one_done);
    }
    ck_assert_uint_eq(f.rows_seen, ROWS);
    fix_done(&f);
}
END_TEST

static void plan_too_large(struct fake *fake, uint32_t n)
{
    if (n > 2)
        answer(fake, LK_OUT_OF_RANGE, 0, 0, 0, 0);
    else
        plan_good(fake, n);
}

START_TEST(a_task_whose_result_would_be_too_large_is_cut)
{
    struct fix f;
    fix_init(&f, 60000);
    struct fake *fake = fake_add(&f, plan_too_large);
    submit(&f, ROWS);
    run_until(&f, one_done);
    ck_assert_int_eq(f.code, LK_OK);
    ck_assert_uint_eq(f.rows_seen, ROWS);
    ck_assert_uint_eq(fake->tasks, 1 + 2 + 4);
    fix_done(&f);
}
END_TEST

START_TEST(strangers_are_refused_and_workers_go_on)
{
    struct fix f;
    fix_init(&f, 10000);
    struct fake *stranger = lk_zalloc(1, sizeof *stranger);
    struct lk_err err = {.text = ""};
    Lk__WorkerTaskRequest task = LK__WORKER_TASK_REQUEST__INIT;
    Lk__WorkerHelloRequest hello = LK__WORKER_HELLO_REQUEST__INIT;
    char *long_token = lk_zalloc(20001, 1);
    memset(long_token, 'x', 20000);
    hello.token = long_token;
    task.worker = 1;
    task.detail = (char *)"x";
    stranger->fix = &f;
    f.fakes[f.n_fakes++] = stranger;
    ck_assert_int_eq(link_open(pool_address(f.pool), 1 << 20, &stranger->link, &err), LK_OK);
    static const struct {
        enum lk_method method;
        enum lk_code code;
    } cases[] = {{LK_METHOD_WORKER_TASK, LK_FAILED_PRECONDITION},
                 {LK_METHOD_WORKER_HELLO, LK_INVALID_ARGUMENT},
                 {LK_METHOD_GET_BATCH, LK_UNIMPLEMENTED}};
    for (int i = 0; i < 3; i++) {
        const ProtobufCMessage *message = i == 1 ? &hello.base : &task.base;
        stranger->refused = LK_OK;
        ck_assert_int_eq(link_send(stranger->link, 0, cases[i].method, message, NULL, &err),
                         LK_OK);
        run_until(&f, refused);
        ck_assert_int_eq(stranger->refused, cases[i].code);
    }
    (void)fake_add(&f, plan_good);
    submit(&f, ROWS);
    run_until(&f, one_done);
    ck_assert_int_eq(f.code, LK_OK);
    free(long_token);
    fix_done(&f);
}
END_TEST

static void count_refused(void *owner, int level, const char *event, const char *text)
{
    (void)level;
    *(uint32_t *)owner += strcmp(event, "worker_refused") == 0 && strstr(text, "no") != NULL;
}

/* The log is for people: a stranger cannot fill it. */
START_TEST(strangers_that_say_hello_again_and_again_are_logged_once_a_second)
{
    struct fix f;
    struct fake *stranger = lk_zalloc(1, sizeof *stranger);
    struct lk_err err = {.text = ""};
    uint32_t lines = 0;
    fix_init(&f, 10000);
    f.pool->config.log = count_refused;
    f.pool->config.log_owner = &lines;
    stranger->fix = &f;
    f.fakes[f.n_fakes++] = stranger;
    int64_t begin = link_clock_ms();
    fake_hello(stranger, "no");
    for (int i = 0; i < 100; i++) {
        Lk__WorkerHelloRequest hello = LK__WORKER_HELLO_REQUEST__INIT;
        hello.protocol = LK_WORK_PROTOCOL;
        run_until(&f, refused);
        stranger->refused = LK_OK;
        ck_assert_int_eq(link_send(stranger->link, 0, LK_METHOD_WORKER_HELLO, &hello.base, NULL, &err), LK_OK);
    }
    run_until(&f, refused);
    ck_assert_uint_ge(lines, 1);
    ck_assert_uint_le(lines, 2 + (link_clock_ms() - begin) / 1000);
    fix_done(&f);
}
END_TEST

/* Once with a text that no worker of ours makes, and once with none. */
static void plan_long_then_mute(struct fake *fake, uint32_t n)
{
    Lk__WorkerTaskRequest request = LK__WORKER_TASK_REQUEST__INIT;
    char *text = lk_zalloc(100001, 1);
    (void)n;
    memset(text, 'y', 100000);
    request.task = fake->task;
    request.status = fake->tasks == 1 ? LK_UNAVAILABLE : LK_FAILED_PRECONDITION;
    request.detail = (char *)(fake->tasks == 1 ? text : "");
    ask(fake, fake->slot, &request, NULL, 0, NULL, 0);
    free(text);
}

static bool one_done_and_all_short(struct fix *f)
{
    const char *text = pool_waits_for(f->pool);
    f->named = f->named || strstr(text, "yyyy") != NULL;
    ck_assert_uint_lt(strlen(text), 2000);
    return f->done == 1;
}

START_TEST(what_a_worker_says_is_cut_and_never_nothing)
{
    struct fix f;
    fix_init(&f, 10000);
    (void)fake_add(&f, plan_long_then_mute);
    submit(&f, ROWS);
    run_until(&f, one_done_and_all_short);
    ck_assert(f.named);
    ck_assert_int_eq(f.code, LK_FAILED_PRECONDITION);
    ck_assert_uint_gt(strlen(f.detail), 5);
    fix_done(&f);
}
END_TEST

static void wait_queued(struct fix *f, uint32_t n)
{
    struct rpc_stats stats = {0};
    for (int i = 0; i < 5000 && stats.waiting < n; i++) {
        (void)usleep(1000); /* the service's own threads queue them */
        rpc_server_stats(f->pool->server, &stats);
    }
    ck_assert_uint_eq(stats.waiting, n);
}

/* One connection sends more than anybody could want: the loop's other work is not kept waiting. */
START_TEST(a_flood_of_requests_is_answered_bit_by_bit)
{
    enum { FLOOD = 200, BIT = 64 };
    struct fix f;
    fix_init(&f, 10000);
    nng_socket s;
    nng_msg *message;
    ck_assert_int_eq(nng_req0_open_raw(&s), 0);
    ck_assert_int_eq(nng_dial(s, pool_address(f.pool), NULL, 0), 0);
    struct lk_envelope e = {.method = LK_METHOD_GET_BATCH, .call = 1};
    uint8_t frame[LK_ENVELOPE_BYTES];
    lk_envelope_put(&e, frame);
    for (uint32_t i = 0; i < FLOOD; i++) {
        ck_assert_int_eq(nng_msg_alloc(&message, 0), 0);
        ck_assert_int_eq(nng_msg_header_append_u32(message, 0x80000001u + i), 0);
        ck_assert_int_eq(nng_msg_append(message, frame, sizeof frame), 0);
        ck_assert_int_eq(nng_sendmsg(s, message, 0), 0);
    }
    wait_queued(&f, FLOOD);
    for (uint32_t turn = 1; turn <= 4; turn++) {
        struct rpc_stats stats;
        workers_ready(f.pool);
        rpc_server_stats(f.pool->server, &stats);
        ck_assert_uint_eq(stats.waiting, turn < 4 ? FLOOD - turn * BIT : 0);
    }
    (void)fake_add(&f, plan_good);
    submit(&f, ROWS);
    run_until(&f, one_done);
    ck_assert_int_eq(f.code, LK_OK);
    ck_assert_int_eq(nng_close(s), 0);
    fix_done(&f);
}
END_TEST

START_TEST(listening_for_remote_workers_needs_a_token)
{
    struct fix f;
    fix_init(&f, 1000);
    struct pool_config config = {.loop = f.loop,
                                 .stream = &f.corpus.stream,
                                 .n_streams = 1,
                                 .listen = "tcp://127.0.0.1:0"};
    struct pool *pool;
    struct lk_err err = {.text = ""};
    ck_assert_int_eq(pool_open(&config, &pool, &err), LK_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "token"));
    f.enough = one_done;
    fix_done(&f);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("host/pool_remote");
    TCase *t = tcase_create("remote");
    tcase_set_timeout(t, 30);
    tcase_add_loop_test(t, a_wrong_token_is_refused, 0, 3);
    tcase_add_test(t, a_remote_worker_does_tasks);
    tcase_add_test(t, a_transient_failure_is_retried_named_and_changes_nothing);
    tcase_add_loop_test(t, a_result_that_contradicts_itself_is_refused_and_the_task_given_to_another,
                        0, 8);
    tcase_add_test(t, the_task_of_a_lost_worker_is_given_to_another);
    tcase_add_test(
        t, a_row_whose_remote_workers_vanish_is_tried_until_one_stays_and_is_never_convicted);
    tcase_add_test(t, a_late_result_is_ignored_and_its_worker_goes_on);
    tcase_add_loop_test(t, a_task_of_large_compressed_shards_has_the_time_that_they_take, 0, 2);
    tcase_add_test(t, a_task_whose_result_would_be_too_large_is_cut);
    tcase_add_test(t, strangers_are_refused_and_workers_go_on);
    tcase_add_test(t, strangers_that_say_hello_again_and_again_are_logged_once_a_second);
    tcase_add_test(t, what_a_worker_says_is_cut_and_never_nothing);
    tcase_add_test(t, a_flood_of_requests_is_answered_bit_by_bit);
    tcase_add_test(t, listening_for_remote_workers_needs_a_token);
    suite_add_tcase(s, t);
    return s;
}
