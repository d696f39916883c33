#include "worker/worker.h"

#include "proto/lanekeeper.pb-c.h"
#include "proto/unpack.h"
#include "proto/work.h"
#include "store/file.h"
#include "worker/link.h"
#include "worker/memory.h"
#include "worker/streams.h"
#include "worker/task.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define REPLY_MAX ((size_t)64 << 20)
#define LOOK_MS 250      /* how often the state of the connection is looked at */
#define SILENCE_MS 60000 /* the daemon answers every few seconds even when it has nothing to do */

#define FILES_OWN 24     /* open files beside shards: the connection, its threads', the log's */

struct worker {
    const struct worker_options *options;
    struct link *link;
    struct streams *streams;
    struct lk_shard_cache *cache;
    struct task_result result;
    uint64_t number; /* that the daemon gave */
    int64_t heard_ms;
};

static void say(const struct worker *w, const char *text)
{
    if (w->options->log != NULL)
        w->options->log(w->options->log_owner, text);
}

/* Fails when the daemon has been gone, or silent, for too long. */
static enum lk_code check_daemon(const struct worker *w, struct lk_err *err)
{
    int64_t lost = link_lost_ms(w->link);
    if (lost > (int64_t)w->options->patience_ms)
        return lk_fail(err, LK_UNAVAILABLE, "no connection to %s for %lld ms", w->options->address,
                       (long long)lost);
    /* A daemon on this machine may be stopped and continued; its end, we would notice. */
    int64_t silent = w->options->local ? 0 : link_clock_ms() - w->heard_ms;
    if (lost == 0 && silent > SILENCE_MS)
        return lk_fail(err, LK_ABORTED, "%s has said nothing for %lld ms", w->options->address,
                       (long long)silent);
    return LK_OK;
}

/* What the daemon says instead of an answer: its code, with its text. */
static enum lk_code fail_as_told(const struct link_reply *reply, struct lk_err *err)
{
    const struct lk_envelope *e = &reply->envelope;
    Lk__Error *told = lk_unpack(&lk__error__descriptor, e->header, e->header_bytes);
    const char *text = told != NULL && told->detail[0] != '\0' ? told->detail : "no reason given";
    (void)lk_fail(err, (enum lk_code)e->status, "%s", text);
    if (told != NULL)
        lk__error__free_unpacked(told, NULL);
    return err->code;
}

/* The next answer, or why there will be none. */
static enum lk_code await(struct worker *w, struct link_reply *ret_reply, struct lk_err *err)
{
    for (;;) {
        enum lk_code code = link_wait(w->link, LOOK_MS, ret_reply, err);
        if (code == LK_DEADLINE_EXCEEDED) {
            LK_TRY(check_daemon(w, err));
            continue;
        }
        LK_TRY(code);
        w->heard_ms = link_clock_ms();
        return ret_reply->envelope.status == 0 ? LK_OK : fail_as_told(ret_reply, err);
    }
}

/* --- hello --- */

static void forget_daemon(struct worker *w)
{
    link_close(w->link);
    streams_close(w->streams);
    lk_shard_cache_free(w->cache);
    w->link = NULL;
    w->streams = NULL;
    w->cache = NULL;
}

/* Tells the daemon why this worker is of no use, so that those who wait learn it there. */
static void say_unfit(struct worker *w, const struct lk_err *why)
{
    Lk__WorkerTaskRequest request = LK__WORKER_TASK_REQUEST__INIT;
    struct link_reply reply;
    struct lk_err ignored;
    request.worker = w->number;
    request.status = (uint32_t)why->code;
    request.detail = (char *)why->text;
    if (link_send(w->link, 0, LK_METHOD_WORKER_TASK, &request.base, NULL, &ignored) == LK_OK)
        (void)await(w, &reply, &ignored);
}

/* A shard that cannot be opened for want of a descriptor would be tried again for ever, so with all else no more than
 * half of those that may be open are. */
static unsigned shards_open(uint32_t asked)
{
    struct rlimit limit;
    rlim_t most = asked > 0 ? asked : 1;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 2 < most + FILES_OWN)
        most = limit.rlim_cur / 2 > FILES_OWN ? limit.rlim_cur / 2 - FILES_OWN : 1;
    return (unsigned)most;
}

static enum lk_code hello(struct worker *w, struct lk_err *err)
{
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    Lk__WorkerHelloRequest request = LK__WORKER_HELLO_REQUEST__INIT;
    request.protocol = LK_WORK_PROTOCOL;
    request.token = (char *)w->options->token;
    request.pid = (uint64_t)getpid();
    request.host = host;
    if (w->options->local)
        LK_TRY(link_open_local(w->options->socket, w->options->board, REPLY_MAX, &w->link, err));
    else
        LK_TRY(link_open(w->options->address, REPLY_MAX, &w->link, err));
    w->heard_ms = link_clock_ms();
    LK_TRY(link_send(w->link, 0, LK_METHOD_WORKER_HELLO, &request.base, NULL, err));
    struct link_reply reply;
    LK_TRY(await(w, &reply, err));
    Lk__WorkerHelloReply *answer = lk_unpack(&lk__worker_hello_reply__descriptor, reply.envelope.header,
                                              reply.envelope.header_bytes);
    if (answer == NULL)
        return lk_fail(err, LK_DATA_LOSS, "the answer to hello is malformed");
    w->number = answer->worker;
    unsigned open_files = shards_open(answer->open_files);
    uint64_t cache_bytes = answer->cache_bytes;
    enum lk_code code = streams_open(answer, &w->streams, err);
    if (code != LK_OK) {
        say_unfit(w, err);
        return code;
    }
    w->cache = lk_shard_cache_new(lk_file_opener(), open_files, cache_bytes);
    if (cache_bytes <= UINT64_MAX - MEMORY_OWN_BYTES)
        memory_limit(cache_bytes + MEMORY_OWN_BYTES);
    return LK_OK;
}

/* --- tasks --- */

static enum lk_code ask(struct worker *w, unsigned slot, const struct task_result *result,
                        struct lk_err *err)
{
    Lk__WorkerTaskRequest request = LK__WORKER_TASK_REQUEST__INIT;
    request.worker = w->number;
    struct link_payload payload = {.bytes = {0, 0}};
    if (result != NULL) {
        request.task = result->task;
        request.status = (uint32_t)result->err.code;
        request.detail = (char *)result->err.text;
        request.cpu_ns = result->cpu_ns;
        request.data_bytes = result->data_bytes;
        request.specials = result->specials;
        request.n_rows = result->n_rows;
        request.notes = result->note;
        request.n_notes = result->n_notes;
        payload = (struct link_payload){
            .data = {result->row, result->tokens.ids},
            .bytes = {result->n_rows * sizeof *result->row, result->tokens.n * sizeof(uint32_t)}};
    }
    return link_send_result(w->link, slot, &request, &payload, err);
}

static enum lk_code do_task(struct worker *w, const struct link_reply *reply, struct lk_err *err)
{
    const struct lk_envelope *e = &reply->envelope;
    Lk__WorkerTaskReply *task = lk_unpack(&lk__worker_task_reply__descriptor, e->header, e->header_bytes);
    if (task == NULL)
        return lk_fail(err, LK_DATA_LOSS, "a task is malformed");
    bool work = task->task != 0;
    if (work) {
        w->result.place = link_place(w->link, reply->slot, &w->result.place_bytes);
        task_run(w->streams, w->cache, task, e->payload, e->payload_bytes, &w->result);
    }
    lk__worker_task_reply__free_unpacked(task, NULL);
    w->heard_ms = link_clock_ms(); /* a long task is not the daemon's silence */
    return ask(w, reply->slot, work ? &w->result : NULL, err);
}

static enum lk_code serve(struct worker *w, struct lk_err *err)
{
    LK_TRY(hello(w, err));
    for (unsigned slot = 0; slot < LINK_SLOTS; slot++)
        LK_TRY(ask(w, slot, NULL, err));
    for (;;) {
        struct link_reply reply;
        LK_TRY(await(w, &reply, err));
        LK_TRY(do_task(w, &reply, err));
    }
}

/* FAILED_PRECONDITION before we served is a refusal; after, the daemon forgot us: say hello again. */
static bool worth_another(const struct worker *w, enum lk_code code)
{
    if (code == LK_FAILED_PRECONDITION)
        return w->streams != NULL;
    return code == LK_UNAVAILABLE || code == LK_ABORTED || code == LK_DATA_LOSS ||
           code == LK_RESOURCE_EXHAUSTED;
}

enum lk_code worker_run(const struct worker_options *options, struct lk_err *err)
{
    struct worker w = {.options = options};
    enum lk_code code;
    int64_t good_ms = link_clock_ms(); /* when we last had a daemon */
    for (int64_t pause = 100;; pause = pause < 5000 ? pause * 2 : 5000) {
        code = serve(&w, err);
        bool served = w.streams != NULL;
        bool again = !options->local && worth_another(&w, code);
        if (served) {
            good_ms = w.heard_ms;
            pause = 100;
        }
        forget_daemon(&w);
        if (!again || link_clock_ms() - good_ms > (int64_t)options->patience_ms)
            break;
        say(&w, err->text);
        (void)usleep((useconds_t)pause * 1000);
    }
    task_result_done(&w.result);
    return options->local && code == LK_UNAVAILABLE ? LK_OK : code;
}
