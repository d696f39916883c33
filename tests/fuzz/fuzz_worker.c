/*
 * The workers' protocol on both sides, with its pipe and its board: a worker whose daemon may say anything,
 * and a pool whose worker may. What is said wrongly is refused or costs the connection; what is taken is
 * what the other side can have meant.
 *
 * Input: a byte for the side; then what is said, message by message, see `say_some`.
 */
#include "base/bytes.h"
#include "host/pool_private.h"
#include "op/measure.h"
#include "op/tokenise/tokenizer.h"
#include "proto/work.h"
#include "store/file.h"
#include "store/list.h"
#include "tests/fuzz/fuzz.h"
#include "worker/worker.h"

#include <ftw.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROWS 5u
#define PART_BYTES 65536u

static struct {
    char dir[64], *root, *path;
    struct lk_digest bytes_digest;
    struct lk_index index;
    struct lk_dataset_recipe dataset;
    struct lk_recipe recipe;
    const char *roots[1];
    struct pool_stream stream;
    struct loop *loop;
} f;

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *walk)
{
    (void)status, (void)flag, (void)walk;
    return remove(path);
}

static void clean_up(void)
{
    lk_index_close(&f.index);
    loop_free(f.loop);
    free(f.root);
    free(f.path);
    (void)nftw(f.dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void make_data(void)
{
    static const char rows[] = "{\"text\": \"a\"}\n{\"text\": \"bcd\"}\n{\"text\": \"\"}\n{\"no\": 1}\n{\"text\": \"efgh\"}\n";
    struct lk_dataset_files files;
    struct lk_buf index = {0};
    struct lk_err err;

    LK_CHECK(mkdir(f.root, 0700) == 0);
    LK_CHECK(lk_file_write_atomic(f.path, rows, sizeof rows - 1, &err) == LK_OK);
    LK_CHECK(lk_dataset_list(f.root, &files, &err) == LK_OK);
    struct lk_index_build build = {.files = &files, .opener = lk_file_opener(), .threads = 1};
    LK_CHECK(lk_index_build(&build, &index, &err) == LK_OK);
    LK_CHECK(lk_index_of_bytes("docs", &index, &f.index, &err) == LK_OK && f.index.rows == ROWS);
    lk_dataset_files_done(&files);
}

static void begin(void)
{
    struct lk_tokenizer_files files = {.kind = LK_TOKENIZER_BYTES};
    struct lk_tokenizer *tokenizer;
    struct lk_err err;

    if (f.root != NULL)
        return;
    struct rlimit files_open; /* a worker opens as many shards as it may: each input makes room for them */
    LK_CHECK(getrlimit(RLIMIT_NOFILE, &files_open) == 0);
    files_open.rlim_cur = files_open.rlim_cur < 256 ? files_open.rlim_cur : 256;
    LK_CHECK(setrlimit(RLIMIT_NOFILE, &files_open) == 0);
    (void)snprintf(f.dir, sizeof f.dir, "/tmp/lk-fuzz-XXXXXX");
    LK_CHECK(mkdtemp(f.dir) != NULL);
    f.root = lk_format("%s/data", f.dir);
    f.path = lk_format("%s/docs.jsonl", f.root);
    make_data();
    LK_CHECK(lk_tokenizer_new(&files, &tokenizer, &err) == LK_OK);
    f.bytes_digest = lk_tokenizer_digest(tokenizer);
    lk_tokenizer_free(tokenizer);
    f.dataset = (struct lk_dataset_recipe){.name = (char *)"docs", .path = f.root, .text = (char *)"text", .weight = 1};
    f.recipe = (struct lk_recipe){.name = (char *)"s", .n_datasets = 1, .dataset = &f.dataset,
                                  .tokenizer = {.source = LK_TOKENISE_BYTES}};
    f.roots[0] = f.root;
    f.stream = (struct pool_stream){.recipe = &f.recipe, .index = &f.index, .root = f.roots,
                                    .tokenizer_digest = f.bytes_digest, .vocab = 257};
    f.loop = loop_new(&err);
    LK_CHECK(f.loop != NULL && atexit(clean_up) == 0);
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

/* ---- what is said ---- */

static uint64_t number(struct lk_fuzz_input *input)
{
    static const uint64_t odd[] = {UINT32_MAX, (uint64_t)UINT32_MAX + 1, INT64_MAX, UINT64_MAX, 1u << 20, 1u << 30};
    uint8_t how = lk_fuzz_byte(input);
    return how < 200 ? how % 8 : how < 230 ? odd[how % 6] : (uint64_t)lk_fuzz_byte(input) << how % 57;
}

static void put_raw(struct lk_fuzz_input *input, struct lk_buf *out)
{
    size_t n = lk_fuzz_byte(input);
    n = n < input->left ? n : input->left;
    lk_buf_put(out, input->at, n);
    input->at += n;
    input->left -= n;
}

static void put_message(struct lk_buf *out, struct lk_envelope e, const ProtobufCMessage *message,
                        const struct lk_buf *payload)
{
    uint8_t *header = lk_alloc(protobuf_c_message_get_packed_size(message) + 1);
    e.header_bytes = (uint32_t)protobuf_c_message_pack(message, header);
    e.payload_bytes = payload->len;
    lk_envelope_put(&e, lk_buf_room(out, LK_ENVELOPE_BYTES));
    out->len += LK_ENVELOPE_BYTES;
    lk_buf_put(out, header, e.header_bytes);
    lk_buf_put(out, payload->data, payload->len);
    free(header);
}

/* A frame around any bytes, some of its own changed. */
static void put_odd(struct lk_fuzz_input *input, struct lk_buf *out, uint16_t method)
{
    struct lk_buf header = {0}, payload = {0};
    size_t from = out->len;

    put_raw(input, &header);
    put_raw(input, &payload);
    struct lk_envelope e = {.method = method, .status = lk_fuzz_byte(input) % 20, .call = number(input),
                            .header_bytes = (uint32_t)header.len, .payload_bytes = payload.len};
    lk_envelope_put(&e, lk_buf_room(out, LK_ENVELOPE_BYTES));
    out->len += LK_ENVELOPE_BYTES;
    lk_buf_put(out, header.data, header.len);
    lk_buf_put(out, payload.data, payload.len);
    for (uint8_t changes = lk_fuzz_byte(input) % 3; changes > 0; changes--)
        out->data[from + lk_fuzz_byte(input) % LK_ENVELOPE_BYTES] = lk_fuzz_byte(input);
    lk_buf_done(&header);
    lk_buf_done(&payload);
}

/* ---- a worker ---- */

static void put_hello_reply(struct lk_fuzz_input *input, struct lk_buf *out, uint64_t call)
{
    Lk__WorkerHelloReply reply = LK__WORKER_HELLO_REPLY__INIT;
    Lk__WorkerStream stream = LK__WORKER_STREAM__INIT, *streams[] = {&stream, &stream};
    Lk__WorkerDataset dataset = LK__WORKER_DATASET__INIT, *datasets[] = {&dataset};
    Lk__WorkerFilter filter = LK__WORKER_FILTER__INIT, *filters[] = {&filter};
    struct lk_buf none = {0};
    uint8_t digest[16], how = lk_fuzz_byte(input);

    lk_digest_put(f.bytes_digest, digest);
    reply.worker = 1;
    reply.cache_bytes = how & 1 ? number(input) : 1 << 20;
    reply.open_files = how & 2 ? (uint32_t)number(input) : 4;
    reply.result_max = how & 4 ? number(input) : 1 << 16;
    reply.n_streams = how & 8 ? 2 : 1;
    reply.streams = streams;
    stream.name = (char *)"s";
    stream.tokenizer_kind = how & 16 ? (uint32_t)number(input) : LK_TOKENIZER_BYTES;
    stream.tokenizer_path = f.path;
    stream.special_in_text = how & 16 ? (uint32_t)number(input) : 0;
    stream.tokenizer_digest = (ProtobufCBinaryData){.data = digest, .len = how & 32 ? number(input) % 17 : 16};
    stream.has_append = how & 64;
    stream.append = how & 64 ? (uint32_t)number(input) : 0;
    stream.has_prepend = stream.has_append;
    stream.drop_bad = how & 128;
    stream.n_datasets = 1;
    stream.datasets = datasets;
    stream.n_filters = how & 128 ? 1 : 0;
    stream.filters = filters;
    filter.max_bytes = filter.max_tokens = UINT64_MAX;
    filter.min_tokens = how & 128 ? number(input) : 0;
    filter.field = (char *)(how & 64 ? "no" : "");
    filter.equals = (char *)"1";
    filter.has_equals = how & 64;
    dataset.name = (char *)"docs";
    dataset.root = f.root;
    dataset.text = (char *)"text";
    put_message(out, (struct lk_envelope){.method = LK_METHOD_WORKER_HELLO, .call = call}, &reply.base, &none);
}

static void put_task(struct lk_fuzz_input *input, struct lk_buf *out, uint64_t call)
{
    Lk__WorkerTaskReply task = LK__WORKER_TASK_REPLY__INIT;
    struct lk_buf rows = {0};
    uint8_t how = lk_fuzz_byte(input);

    task.task = how & 1 ? number(input) : 1;
    task.stream = how & 2 ? (uint32_t)number(input) : 0;
    task.dataset = how & 2 ? (uint32_t)number(input) : 0;
    task.shard = (char *)(how & 4 ? "nope.jsonl" : "docs.jsonl");
    task.codec = how & 8 ? (uint32_t)number(input) : 0;
    task.data_bytes = how & 16 ? number(input) : f.index.shard[0].data_bytes;
    for (uint32_t i = 0; i <= how / 32u; i++) {
        struct lk_row_place place = lk_index_place(&f.index, i % ROWS);
        struct lk_work_row row = {place.row_in_shard, place.offset, place.bytes, place.hash};
        uint8_t change = lk_fuzz_byte(input);
        row.offset = change & 128 ? number(input) : row.offset;
        row.bytes = change & 64 ? (uint32_t)number(input) : row.bytes;
        row.row = change & 32 ? number(input) : row.row;
        lk_work_row_put(&row, lk_buf_room(&rows, LK_WORK_ROW_BYTES));
        rows.len += LK_WORK_ROW_BYTES;
    }
    rows.len -= how == 255 ? 1 : 0;
    put_message(out, (struct lk_envelope){.method = LK_METHOD_WORKER_TASK, .call = call}, &task.base, &rows);
    lk_buf_done(&rows);
}

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
    LK_CHECK(result->code == LK_OK || result->detail[0] != '\0');
    for (uint64_t i = 0; result->code == LK_OK && i < tag; i++) {
        const struct pool_row *row = &result->rows[i];
        LK_CHECK(row->drop < LK_DROP_KINDS && (row->drop == 0) == (row->tokens > 0));
        for (uint32_t k = 0; k < row->tokens; k++)
            LK_CHECK(row->ids[k] < 257);
        tokens += row->tokens + strlen(row->detail);
    }
    LK_CHECK(tokens < PART_BYTES);
}

/* Lays a result on the board, right or wrong, and says so. */
static void put_result(struct lk_fuzz_input *input, struct lk_buf *out, struct lk_board *board, uint64_t assignment)
{
    Lk__WorkerTaskRequest request = LK__WORKER_TASK_REQUEST__INIT;
    Lk__RowNote note = LK__ROW_NOTE__INIT, *notes[] = {&note, &note};
    struct lk_buf none = {0};
    uint8_t how = lk_fuzz_byte(input), *at = lk_board_part(board, how & 1);
    uint32_t tokens = 0;

    request.n_rows = how & 2 ? (uint32_t)number(input) : ROWS;
    request.worker = how == 255 ? number(input) : 1;
    request.task = how & 4 ? number(input) : assignment;
    request.status = how & 8 ? (uint32_t)number(input) * 3 : 0;
    request.detail = (char *)"why";
    request.part = how == 253 ? (uint32_t)number(input) : how & 1;
    for (uint32_t i = 0; i < ROWS; i++, at += 16) {
        uint8_t change = lk_fuzz_byte(input);
        struct lk_work_result row = {.tokens = 1 + i, .text_bytes = i};
        row.tokens = change & 128 ? (uint32_t)number(input) : row.tokens;
        row.drop = change & 64 ? (uint32_t)number(input) : 0;
        row.text_bytes = change & 32 ? (uint32_t)number(input) : i;
        tokens += row.tokens;
        memcpy(at, &row, sizeof row);
    }
    tokens = tokens < 1000 ? tokens : 15;
    for (uint32_t i = 0; i < tokens; i++, at += 4)
        lk_put_u32(at, how & 16 && i == 3 ? (uint32_t)number(input) : i % 257);
    request.part_bytes = how & 32 ? number(input) : ROWS * 16 + 4 * (uint64_t)tokens;
    note.row = how & 64 ? (uint32_t)number(input) : 2;
    note.text = (char *)"note";
    request.notes = notes;
    request.n_notes = how & 128 ? 2 : 0;
    put_message(out, (struct lk_envelope){.method = LK_METHOD_WORKER_TASK, .call = number(input)}, &request.base, &none);
}

static void put_hello(struct lk_fuzz_input *input, struct lk_buf *out)
{
    Lk__WorkerHelloRequest hello = LK__WORKER_HELLO_REQUEST__INIT;
    struct lk_buf none = {0};
    uint8_t how = lk_fuzz_byte(input);

    hello.protocol = how == 255 ? (uint32_t)number(input) : LK_WORK_PROTOCOL;
    hello.host = (char *)(how & 1 ? "\n\"\x01" : "h");
    put_message(out, (struct lk_envelope){.method = LK_METHOD_WORKER_HELLO, .call = 1}, &hello.base, &none);
}

static void put_ask(struct lk_buf *out, uint64_t worker)
{
    Lk__WorkerTaskRequest request = LK__WORKER_TASK_REQUEST__INIT;
    struct lk_buf none = {0};
    request.worker = worker;
    put_message(out, (struct lk_envelope){.method = LK_METHOD_WORKER_TASK, .call = 2}, &request.base, &none);
}

static void stop_loop(void *owner)
{
    (void)owner;
    loop_stop(f.loop);
}

static void turn(void)
{
    struct loop_timer now = {0};
    loop_set(f.loop, &now, 0, stop_loop, NULL);
    loop_run(f.loop);
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
    struct pool_config config = {.loop = f.loop, .stream = &f.stream, .n_streams = 1, .worker_path = "/bin/true",
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
