/*
 * The daemon's side of the service and of the hand-over: the real engine, over a small stream, with real
 * sockets and a real worker. Peers send what the input says: requests of every method, right and wrong,
 * frames and bytes that are none, claims and releases of leases. Whatever they do, another peer is served as
 * ever: after each input a batch is asked for, which must be the one that it was at first; and nothing may
 * remain of those that are gone.
 *
 * Input: operations, see `operate`.
 */
#include "base/bytes.h"
#include "config/config.h"
#include "core/steps.h"
#include "format/index.h"
#include "host/engine.h"
#include "host/engine_private.h"
#include "proto/handover.h"
#include "store/file.h"
#include "store/list.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PEERS 4
#define ROWS 60
#define PATIENCE_MS 60000 /* of the peer that must be served, also on a machine that has much else to do */

static const char configuration[] = "streams:\n"
                                    "  s:\n"
                                    "    lanes: 2\n"
                                    "    batch: [{from: 0, size: 4}, {from: 7, size: 2}]\n"
                                    "    sequence: 16\n"
                                    "    tokenizer: {bytes: true, append: eos}\n"
                                    "    datasets:\n"
                                    "      docs: {path: data}\n"
                                    "    pipeline:\n"
                                    "      - pack: {algorithm: concat}\n"
                                    "runtime:\n"
                                    "  workers: 1\n"
                                    "  arena: 16MiB\n"
                                    "  prefetch_steps: 2\n"
                                    "  max_cursors: 3\n"
                                    "  max_waiting: 24\n"
                                    "  max_message: 64KiB\n"
                                    "  snapshots: {every: 0}\n"
                                    "  counts: {size: 0}\n"
                                    "  log_level: error\n";

static struct {
    char dir[64];
    struct lk_config config;
    struct log log;
    struct loop *loop;
    struct engine *engine;
    struct loop_timer look;
    int64_t until_ms;
    bool (*enough)(void);
    int probe;          /* the peer that must be served */
    uint64_t calls;
    uint8_t digest[16]; /* of its batch */
    bool known;
    int peer[PEERS], hand[PEERS]; /* -1: none */
    uint64_t client[PEERS];
} d;

/* ---- setting up ---- */

static void must(enum lk_code code, const struct lk_err *err)
{
    if (code != LK_OK)
        fprintf(stderr, "fuzz_daemon: %s\n", err->text);
    LK_CHECK(code == LK_OK);
}

static void write_data(void)
{
    struct lk_buf rows = {0}, index = {0};
    struct lk_dataset_files files;
    struct lk_err err;
    char *folder = lk_format("%s/data", d.dir), *path = lk_format("%s/data/docs.jsonl", d.dir);
    char *index_folder = lk_format("%s/index", d.dir), *index_path = lk_format("%s/index/docs.lkindex", d.dir);

    LK_CHECK(mkdir(folder, 0700) == 0 && mkdir(index_folder, 0700) == 0);
    for (int i = 0; i < ROWS; i++)
        lk_buf_putf(&rows, "{\"text\": \"row %d %.*s\"}\n", i, i % 37, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");
    must(lk_file_write_atomic(path, rows.data, rows.len, &err), &err);
    must(lk_dataset_list(folder, &files, &err), &err);
    struct lk_index_build build = {.files = &files, .opener = lk_file_opener(), .threads = 1};
    must(lk_index_build(&build, &index, &err), &err);
    must(lk_file_write_atomic(index_path, index.data, index.len, &err), &err);
    lk_dataset_files_done(&files);
    lk_buf_done(&rows);
    lk_buf_done(&index);
    free(folder);
    free(path);
    free(index_folder);
    free(index_path);
}

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *walk)
{
    (void)status, (void)flag, (void)walk;
    return remove(path);
}

static void clean_up(void)
{
    engine_close(d.engine);
    loop_free(d.loop);
    lk_config_done(&d.config);
    (void)nftw(d.dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static char *worker_path(void)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    LK_CHECK(n > 0);
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    return lk_format("%s/../../lanekeeper-worker", exe);
}

static int dial(const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    LK_CHECK(fd >= 0);
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s/run/%s", d.dir, name);
    LK_CHECK(connect(fd, (const struct sockaddr *)&at, sizeof at) == 0);
    return fd;
}

static void greet(int fd)
{
    (void)send(fd, "\0SP\0\0\x30\0\0", 8, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void begin(void)
{
    static char *worker;
    struct lk_err err;

    if (d.dir[0] != '\0')
        return;
    (void)snprintf(d.dir, sizeof d.dir, "/tmp/lk-fuzz-XXXXXX");
    LK_CHECK(mkdtemp(d.dir) != NULL);
    char *run = lk_format("%s/run", d.dir);
    LK_CHECK(mkdir(run, 0700) == 0);
    write_data();
    must(lk_config_parse("fuzz", configuration, sizeof configuration - 1, d.dir, &d.config, &err), &err);
    d.log = (struct log){.level = LOG_LEVEL_ERROR};
    worker = worker_path();
    d.loop = loop_new(&err);
    LK_CHECK(d.loop != NULL);
    struct engine_config engine = {.config = &d.config, .loop = d.loop, .log = &d.log, .worker_path = worker};
    must(engine_open(&engine, &d.engine, &err), &err);
    LK_CHECK(atexit(clean_up) == 0);
    for (int i = 0; i < PEERS; i++)
        d.peer[i] = d.hand[i] = -1;
    d.probe = dial("lanekeeper.sock");
    greet(d.probe);
    free(run);
}

/* ---- running ---- */

static void look(void *owner)
{
    (void)owner;
    LK_CHECK(loop_now_ms(d.loop) < d.until_ms); /* else nobody is served any more */
    if (d.enough())
        loop_stop(d.loop);
    else
        loop_set(d.loop, &d.look, loop_now_ms(d.loop), look, NULL);
}

static void run_until(bool (*enough)(void))
{
    struct timespec t;
    LK_CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    d.enough = enough;
    d.until_ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000 + PATIENCE_MS;
    loop_set(d.loop, &d.look, d.until_ms - PATIENCE_MS, look, NULL);
    loop_run(d.loop);
}

/* Puts a request's wire form: SP's frame, a request number, the envelope. */
static void put_request(struct lk_buf *out, struct lk_envelope e, const uint8_t *header, const uint8_t *payload)
{
    uint64_t n = 4 + LK_ENVELOPE_BYTES + (uint64_t)e.header_bytes + e.payload_bytes;
    uint8_t head[13] = {1, 0, 0, 0, 0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n,
                        0x80, 0, 0, (uint8_t)e.call};
    lk_buf_put(out, head, sizeof head);
    lk_envelope_put(&e, lk_buf_room(out, LK_ENVELOPE_BYTES));
    out->len += LK_ENVELOPE_BYTES;
    lk_buf_put(out, header, e.header_bytes);
    lk_buf_put(out, payload, (size_t)e.payload_bytes);
}

static void put_message(struct lk_buf *out, uint16_t method, uint64_t call, const ProtobufCMessage *message)
{
    uint8_t header[512];
    struct lk_envelope e = {.method = method, .call = call, .deadline_ms = PATIENCE_MS};
    LK_CHECK(protobuf_c_message_get_packed_size(message) <= sizeof header);
    e.header_bytes = (uint32_t)protobuf_c_message_pack(message, header);
    put_request(out, e, header, NULL);
}

static struct lk_buf heard; /* by the probe */

/* The answer to the probe's last call: its batch. */
static bool probe_heard(void)
{
    struct lk_envelope e;
    ssize_t n = recv(d.probe, lk_buf_room(&heard, 65536), 65536, MSG_DONTWAIT);
    LK_CHECK(n > 0 || (n < 0 && errno == EAGAIN));
    heard.len += n > 0 ? (size_t)n : 0;
    for (;;) {
        size_t skip = heard.len > 0 && heard.data[0] == 0 ? 8 : 0; /* its greeting, once */
        if (heard.len < skip + 13)
            return false;
        const uint8_t *p = heard.data + skip;
        size_t bytes = (size_t)p[5] << 24 | (size_t)p[6] << 16 | (size_t)p[7] << 8 | p[8];
        if (heard.len - skip - 9 < bytes)
            return false;
        LK_CHECK(lk_envelope_get(p + 13, bytes - 4, &e));
        bool busy = e.status == LK_RESOURCE_EXHAUSTED && e.call == d.calls;
        LK_CHECK(e.status == LK_OK || busy);
        if (e.status == LK_OK && e.call == d.calls) {
            Lk__GetBatchReply *reply = lk__get_batch_reply__unpack(NULL, e.header_bytes, e.header);
            LK_CHECK(reply != NULL && reply->digest.len == 16 && reply->rows == 4 && !reply->shared);
            LK_CHECK(!d.known || memcmp(reply->digest.data, d.digest, 16) == 0);
            memcpy(d.digest, reply->digest.data, 16);
            d.known = true;
            lk__get_batch_reply__free_unpacked(reply, NULL);
            heard.len = 0;
            return true;
        }
        size_t all = skip + 9 + bytes;
        memmove(heard.data, heard.data + all, heard.len - all);
        heard.len -= all;
    }
}

static void check_served(void)
{
    struct lk_buf out = {0};
    Lk__GetBatchRequest get = LK__GET_BATCH_REQUEST__INIT;

    get.world = 1;
    get.step = 2;
    put_message(&out, LK_METHOD_GET_BATCH, ++d.calls, &get.base);
    LK_CHECK(send(d.probe, out.data, out.len, MSG_NOSIGNAL) == (ssize_t)out.len);
    lk_buf_done(&out);
    run_until(probe_heard);
}

/* ---- what peers do ---- */

static uint64_t number(struct lk_fuzz_input *input)
{
    static const uint64_t odd[] = {UINT32_MAX, (uint64_t)UINT32_MAX + 1, LK_STEP_MAX - 1, LK_STEP_MAX, INT64_MAX,
                                   UINT64_MAX, 10000, 10001};
    uint8_t how = lk_fuzz_byte(input);
    return how < 200 ? how % 16 : how < 240 ? odd[how % 8] : (uint64_t)lk_fuzz_byte(input) << how % 57;
}

/* A request of a method, with numbers of the input. */
static void put_any(struct lk_fuzz_input *input, struct lk_buf *out, uint16_t method, uint64_t call, uint64_t client)
{
    Lk__GetBatchRequest get = LK__GET_BATCH_REQUEST__INIT;
    Lk__TraceRequest trace = LK__TRACE_REQUEST__INIT;
    Lk__DigestRequest digest = LK__DIGEST_REQUEST__INIT;
    Lk__CheckpointRequest checkpoint = LK__CHECKPOINT_REQUEST__INIT;
    Lk__HelloRequest hello = LK__HELLO_REQUEST__INIT;
    uint8_t how = lk_fuzz_byte(input), some[20] = {0};
    char *stream = (char *)(how % 8 == 0 ? "\xff\"nope" : how % 8 == 1 ? "s" : "");

    switch (method) {
    case LK_METHOD_GET_BATCH:
        get.stream = stream;
        get.step = number(input);
        get.world = how & 16 ? (uint32_t)number(input) : 1;
        get.rank = how & 16 ? (uint32_t)number(input) : 0;
        get.client_id = how & 32 ? client : number(input);
        get.stream_digest = (ProtobufCBinaryData){.data = some, .len = how & 64 ? number(input) % 20 : 0};
        get.training = how & 128 ? (uint32_t)(number(input) | number(input) << 4) : 0;
        get.ignore_index = how & 128 ? (int64_t)number(input) : 0;
        put_message(out, method, call, &get.base);
        break;
    case LK_METHOD_TRACE:
        trace.stream = stream;
        trace.step = number(input);
        trace.first_row = (uint32_t)number(input);
        trace.rows = (uint32_t)number(input);
        put_message(out, method, call, &trace.base);
        break;
    case LK_METHOD_DIGEST:
        digest.stream = stream;
        digest.from = number(input);
        digest.to = number(input);
        put_message(out, method, call, &digest.base);
        break;
    case LK_METHOD_CHECKPOINT:
        checkpoint.stream = stream;
        checkpoint.step = number(input);
        put_message(out, method, call, &checkpoint.base);
        break;
    default:
        put_message(out, method, call, &hello.base);
    }
}

static void put_raw(struct lk_fuzz_input *input, struct lk_buf *out)
{
    size_t n = lk_fuzz_byte(input);
    n = n < input->left ? n : input->left;
    lk_buf_put(out, input->at, n);
    input->at += n;
    input->left -= n;
}

/* A right frame around any header and payload, or with numbers that are wrong. */
static void put_odd(struct lk_fuzz_input *input, struct lk_buf *out, uint64_t call)
{
    struct lk_buf header = {0}, payload = {0};
    struct lk_envelope e = {.method = lk_fuzz_byte(input) % 10, .call = call};
    size_t from = out->len;

    put_raw(input, &header);
    put_raw(input, &payload);
    e.header_bytes = (uint32_t)header.len;
    e.payload_bytes = payload.len;
    e.deadline_ms = (uint32_t)number(input);
    put_request(out, e, header.data, payload.data);
    for (uint8_t changes = lk_fuzz_byte(input) % 3; changes > 0; changes--) {
        size_t at = from + lk_fuzz_byte(input) % 45;
        out->data[at] = lk_fuzz_byte(input);
    }
    lk_buf_done(&header);
    lk_buf_done(&payload);
}

static void say(int fd, struct lk_buf *out)
{
    if (fd >= 0 && out->len > 0)
        (void)send(fd, out->data, out->len, MSG_NOSIGNAL | MSG_DONTWAIT);
    lk_buf_done(out);
}

static void hang_up(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void hand_message(struct lk_fuzz_input *input, int p, uint8_t what)
{
    uint8_t message[LK_HANDOVER_MESSAGE_BYTES] = {0};
    struct lk_buf out = {0};

    if (d.hand[p] < 0)
        d.hand[p] = dial("memory.sock");
    if (what % 4 == 0) {
        memcpy(message, LK_HANDOVER_MAGIC, 4);
        d.client[p] = 1 + number(input);
        lk_put_u64(message + 8, d.client[p]);
        lk_buf_put(&out, message, sizeof message);
    } else if (what % 4 < 3) {
        lk_put_u32(message, LK_HANDOVER_RELEASE);
        lk_put_u64(message + 8, number(input) | number(input) << 32 | number(input) << 48);
        lk_buf_put(&out, message, sizeof message);
    } else {
        put_raw(input, &out);
    }
    say(d.hand[p], &out);
}

static bool one_turn(void)
{
    return true;
}

static void operate(struct lk_fuzz_input *input)
{
    uint8_t what = lk_fuzz_byte(input);
    int p = what / 16 % PEERS;
    struct lk_buf out = {0};

    if (d.peer[p] < 0 && what % 16 < 11) {
        d.peer[p] = dial("lanekeeper.sock");
        if (what < 250)
            greet(d.peer[p]);
    }
    switch (what % 16) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
        put_any(input, &out, what % 16 + 1 == LK_METHOD_RELEASE ? LK_METHOD_DIGEST : what % 16 + 1, input->left,
                d.client[p]);
        break;
    case 6:
        put_any(input, &out, LK_METHOD_GET_BATCH, input->left, d.client[p]);
        break;
    case 7:
    case 8:
        put_odd(input, &out, input->left);
        break;
    case 9:
        put_raw(input, &out);
        break;
    case 10:
        put_any(input, &out, LK_METHOD_GOODBYE, 1, 0);
        break;
    case 11:
        hang_up(&d.peer[p]);
        break;
    case 12:
        hang_up(&d.hand[p]);
        break;
    case 13:
        run_until(one_turn);
        break;
    default:
        hand_message(input, p, lk_fuzz_byte(input));
    }
    say(d.peer[p], &out);
}

/* Nothing of those that are gone remains. */
static bool all_gone(void)
{
    return d.engine->waiting == NULL && d.engine->n_clients == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct lk_fuzz_input input = {data, n};

    begin();
    for (int i = 0; i < 40 && input.left > 0; i++)
        operate(&input);
    check_served();
    for (int i = 0; i < PEERS; i++) {
        hang_up(&d.peer[i]);
        hang_up(&d.hand[i]);
        d.client[i] = 0;
    }
    run_until(all_gone);
    struct lk_buf status = {0};
    engine_status(d.engine, &status);
    struct slots_stats slots;
    slots_stats(d.engine->stream[0].slots, &slots);
    LK_CHECK(slots.leased == 0);
    lk_buf_done(&status);
    return 0;
}
