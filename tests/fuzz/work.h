/*
 * What the targets of the workers' protocol share (fuzz_worker: by pipe and board; fuzz_remote and fuzz_link:
 * over TCP): a data set of a few rows in three shards, indexed, with its stream, and what each side may say of it, right or
 * wrong as the input has it.
 */
#ifndef LK_TESTS_FUZZ_WORK_H
#define LK_TESTS_FUZZ_WORK_H

#include "base/bytes.h"
#include "host/pool.h"
#include "op/tokenise/tokenizer.h"
#include "proto/envelope.h"
#include "proto/work.h"
#include "proto/worker.pb-c.h"
#include "store/file.h"
#include "store/list.h"
#include "tests/fuzz/fuzz.h"

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define ROWS 5u
#define VOCAB 257u
#define TASK_ROWS_MAX 8u /* of what a daemon says */
#define RESULT_BYTES (ROWS * 16 + 4000)

static struct {
    char dir[64], *root, *path; /* path: of a file that is there */
    struct lk_digest bytes_digest;
    struct lk_index index;
    struct lk_dataset_recipe dataset;
    struct lk_recipe recipe;
    const char *roots[1];
    struct pool_stream stream;
} f;

/* ---- the data ---- */

static inline int remove_one(const char *path, const struct stat *status, int flag, struct FTW *walk)
{
    (void)status, (void)flag, (void)walk;
    return remove(path);
}

static inline void remove_data(void)
{
    lk_index_close(&f.index);
    free(f.root);
    free(f.path);
    (void)nftw(f.dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline void write_shard(const char *name, const char *rows, bool compressed)
{
    char *path = lk_format("%s/%s", f.root, name), packed[256];
    size_t n = strlen(rows);
    struct lk_err err;

    if (compressed) {
        n = ZSTD_compress(packed, sizeof packed, rows, n, 1);
        LK_CHECK(!ZSTD_isError(n));
    }
    LK_CHECK(lk_file_write_atomic(path, compressed ? packed : rows, n, &err) == LK_OK);
    free(path);
}

static inline void index_data(void)
{
    struct lk_dataset_files files;
    struct lk_buf index = {0};
    struct lk_err err;

    LK_CHECK(mkdir(f.root, 0700) == 0);
    write_shard("docs.jsonl", "{\"text\": \"a\"}\n{\"text\": \"bcd\"}\n", false);
    write_shard("more.jsonl", "{\"text\": \"\"}\n", false);
    write_shard("then.jsonl.zst", "{\"no\": 1}\n{\"text\": \"efgh\"}\n", true);
    LK_CHECK(lk_dataset_list(f.root, &files, &err) == LK_OK);
    struct lk_index_build build = {.files = &files, .opener = lk_file_opener(), .threads = 1};
    LK_CHECK(lk_index_build(&build, &index, &err) == LK_OK);
    LK_CHECK(lk_index_of_bytes("docs", &index, &f.index, &err) == LK_OK && f.index.rows == ROWS);
    lk_dataset_files_done(&files);
}

/* Once; removed at the end of the process. */
static inline void make_data(void)
{
    struct lk_tokenizer_files files = {.kind = LK_TOKENIZER_BYTES};
    struct lk_tokenizer *tokenizer;
    struct lk_err err;

    (void)snprintf(f.dir, sizeof f.dir, "/tmp/lk-fuzz-XXXXXX");
    LK_CHECK(mkdtemp(f.dir) != NULL);
    f.root = lk_format("%s/data", f.dir);
    f.path = lk_format("%s/docs.jsonl", f.root);
    index_data();
    LK_CHECK(lk_tokenizer_new(&files, &tokenizer, &err) == LK_OK);
    f.bytes_digest = lk_tokenizer_digest(tokenizer);
    lk_tokenizer_free(tokenizer);
    f.dataset = (struct lk_dataset_recipe){.name = (char *)"docs", .path = f.root, .text = (char *)"text", .weight = 1};
    f.recipe = (struct lk_recipe){.name = (char *)"s", .n_datasets = 1, .dataset = &f.dataset,
                                  .tokenizer = {.source = LK_TOKENISE_BYTES}};
    f.roots[0] = f.root;
    f.stream = (struct pool_stream){.recipe = &f.recipe, .index = &f.index, .root = f.roots,
                                    .tokenizer_digest = f.bytes_digest, .vocab = VOCAB};
    LK_CHECK(atexit(remove_data) == 0);
}

/* ---- what both may say ---- */

static inline uint64_t number(struct lk_fuzz_input *input)
{
    static const uint64_t odd[] = {UINT32_MAX, (uint64_t)UINT32_MAX + 1, INT64_MAX, UINT64_MAX, 1u << 20, 1u << 30};
    uint8_t how = lk_fuzz_byte(input);
    return how < 200 ? how % 8 : how < 230 ? odd[how % 6] : (uint64_t)lk_fuzz_byte(input) << how % 57;
}

static inline void put_raw(struct lk_fuzz_input *input, struct lk_buf *out)
{
    size_t n = lk_fuzz_byte(input);
    n = n < input->left ? n : input->left;
    lk_buf_put(out, input->at, n);
    input->at += n;
    input->left -= n;
}

static inline void put_message(struct lk_buf *out, struct lk_envelope e, const ProtobufCMessage *message,
                               const struct lk_buf *payload)
{
    uint8_t *header = lk_alloc(protobuf_c_message_get_packed_size(message) + 1);
    e.header_bytes = (uint32_t)protobuf_c_message_pack(message, header);
    e.payload_bytes = payload != NULL ? payload->len : 0;
    lk_envelope_put(&e, lk_buf_room(out, LK_ENVELOPE_BYTES));
    out->len += LK_ENVELOPE_BYTES;
    lk_buf_put(out, header, e.header_bytes);
    if (payload != NULL)
        lk_buf_put(out, payload->data, payload->len);
    free(header);
}

/* A frame around any bytes, some of its own changed. */
static inline void put_odd(struct lk_fuzz_input *input, struct lk_buf *out, uint16_t method)
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

/* ---- what a daemon says ---- */

static inline void put_hello_reply(struct lk_fuzz_input *input, struct lk_buf *out, uint64_t call)
{
    Lk__WorkerHelloReply reply = LK__WORKER_HELLO_REPLY__INIT;
    Lk__WorkerStream stream = LK__WORKER_STREAM__INIT, *streams[] = {&stream, &stream};
    Lk__WorkerDataset dataset = LK__WORKER_DATASET__INIT, *datasets[] = {&dataset};
    Lk__WorkerFilter filter = LK__WORKER_FILTER__INIT, *filters[] = {&filter};
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
    put_message(out, (struct lk_envelope){.method = LK_METHOD_WORKER_HELLO, .call = call}, &reply.base, NULL);
}

static inline void put_shard(struct lk_fuzz_input *input, uint8_t how, uint32_t which, Lk__WorkerShard *ret)
{
    const struct lk_index_shard *shard = &f.index.shard[which];
    lk__worker_shard__init(ret);
    ret->name = (char *)(how & 4 ? "nope.jsonl" : shard->name);
    ret->codec = how & 8 ? (uint32_t)number(input) : (uint32_t)shard->codec;
    ret->data_bytes = how & 16 ? number(input) : shard->data_bytes;
}

static inline void put_task(struct lk_fuzz_input *input, struct lk_buf *out, uint64_t call)
{
    Lk__WorkerTaskReply task = LK__WORKER_TASK_REPLY__INIT;
    Lk__WorkerShard shard[TASK_ROWS_MAX + 1], *shards[TASK_ROWS_MAX + 1];
    struct lk_buf rows = {0};
    uint8_t how = lk_fuzz_byte(input);
    uint32_t last = UINT32_MAX;

    task.task = how & 1 ? number(input) : 1;
    task.stream = how & 2 ? (uint32_t)number(input) : 0;
    task.dataset = how & 2 ? (uint32_t)number(input) : 0;
    task.shards = shards;
    for (uint32_t i = 0; i <= how / 32u; i++) {
        uint8_t change = lk_fuzz_byte(input);
        struct lk_row_place place = lk_index_place(&f.index, (change & 1 ? number(input) : i) % ROWS);
        struct lk_work_row row = {place.row_in_shard, place.offset, place.bytes, place.hash};
        bool same = change & 2 ? lk_fuzz_byte(input) & 1 : place.shard == last; /* run as the row before */
        if (!same || task.n_shards == 0) {
            shards[task.n_shards] = &shard[task.n_shards];
            put_shard(input, how, place.shard, shards[task.n_shards++]);
        }
        last = place.shard;
        shard[task.n_shards - 1].rows += change & 16 ? (uint32_t)number(input) : 1;
        row.offset = change & 128 ? number(input) : row.offset;
        row.bytes = change & 64 ? (uint32_t)number(input) : row.bytes;
        row.row = change & 32 ? number(input) : row.row;
        lk_work_row_put(&row, lk_buf_room(&rows, LK_WORK_ROW_BYTES));
        rows.len += LK_WORK_ROW_BYTES;
    }
    if (how == 254) { /* one without rows */
        shards[task.n_shards] = &shard[task.n_shards];
        put_shard(input, how, 0, shards[task.n_shards++]);
    }
    rows.len -= how == 255 ? 1 : 0;
    put_message(out, (struct lk_envelope){.method = LK_METHOD_WORKER_TASK, .call = call}, &task.base, &rows);
    lk_buf_done(&rows);
}

/* ---- what a worker says ---- */

struct said_result {
    Lk__WorkerTaskRequest request;
    Lk__RowNote note, *notes[2];
};

/* A result, as @how and the input have it, of task @assignment and its @n rows, or of some of them when it failed;
 * the payload goes to @at, which has RESULT_BYTES. */
static inline void make_result(struct lk_fuzz_input *input, uint8_t how, uint64_t worker, uint64_t assignment,
                               uint32_t n, uint8_t *at, struct said_result *ret)
{
    uint32_t tokens = 0;

    *ret = (struct said_result){.request = LK__WORKER_TASK_REQUEST__INIT, .note = LK__ROW_NOTE__INIT};
    Lk__WorkerTaskRequest *request = &ret->request;
    ret->notes[0] = ret->notes[1] = &ret->note;
    request->status = how & 8 ? (uint32_t)number(input) * 3 : 0;
    n = request->status != 0 ? lk_fuzz_byte(input) % n : n;
    request->n_rows = how & 2 ? (uint32_t)number(input) : n;
    request->worker = how == 255 ? number(input) : worker;
    request->task = how & 4 ? number(input) : assignment;
    request->detail = (char *)(how == 254 ? "" : "why");
    request->part = how == 253 ? (uint32_t)number(input) : how & 1;
    for (uint32_t i = 0; i < n; i++, at += 16) {
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
        lk_put_u32(at, how & 16 && i == 3 ? (uint32_t)number(input) : i % VOCAB);
    request->part_bytes = how & 32 ? number(input) : n * 16 + 4 * (uint64_t)tokens;
    ret->note.row = how & 64 ? (uint32_t)number(input) : n / 2;
    ret->note.text = (char *)"note";
    request->notes = ret->notes;
    request->n_notes = how & 128 ? 2 : 0;
}

#endif
