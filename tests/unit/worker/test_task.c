#include "base/digest.h"
#include "proto/work.h"
#include "store/file.h"
#include "tests/lib/check_main.h"
#include "tests/lib/compress.h"
#include "tests/lib/temp_dir.h"
#include "worker/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS 3
#define SHARD_ROWS 3
#define TASK_ROWS_MAX 16

/* Of each shard the second row is malformed; a special token is in the text of the first one's last row. */
static const struct {
    const char *name;
    enum lk_codec codec;
    const char *row[SHARD_ROWS];
} shards[SHARDS] = {
    {"a.jsonl", LK_CODEC_PLAIN, {"{\"text\": \"hello\"}", "{\"text\": \"hel", "{\"text\": \"y<|endoftext|>s\"}"}},
    {"b.jsonl.zst", LK_CODEC_ZSTD, {"{\"text\": \"one\"}", "{\"text\": 1", "{\"text\": \"three\"}"}},
    {"c/c.jsonl.gz", LK_CODEC_GZIP, {"{\"text\": \"A\"}", "{", "{\"text\": \"CC\"}"}},
};

struct fix {
    struct temp_dir dir;
    struct streams *streams;
    struct lk_shard_cache *cache;
    struct task_result result;
    struct lk_work_row row[SHARDS][SHARD_ROWS]; /* as the index has them */
    uint64_t data_bytes[SHARDS];
};

/* A task, to be changed before it is run. */
struct made {
    Lk__WorkerTaskReply task;
    Lk__WorkerShard shard[TASK_ROWS_MAX], *shards[TASK_ROWS_MAX];
    uint8_t payload[TASK_ROWS_MAX * LK_WORK_ROW_BYTES];
    size_t payload_bytes;
};

static Lk__WorkerHelloReply *hello_make(const char *root, bool drop_bad, uint64_t result_max)
{
    Lk__WorkerHelloReply hello = LK__WORKER_HELLO_REPLY__INIT;
    Lk__WorkerStream stream = LK__WORKER_STREAM__INIT, *streams[] = {&stream};
    Lk__WorkerDataset dataset = LK__WORKER_DATASET__INIT, *datasets[] = {&dataset};
    struct lk_tokenizer_files files = {.kind = LK_TOKENIZER_BYTES};
    struct lk_tokenizer *tokenizer;
    struct lk_err err;
    uint8_t digest[16];
    ck_assert_int_eq(lk_tokenizer_new(&files, &tokenizer, &err), LK_OK);
    lk_digest_put(lk_tokenizer_digest(tokenizer), digest);
    lk_tokenizer_free(tokenizer);
    dataset.name = (char *)"docs";
    dataset.root = (char *)root;
    dataset.text = (char *)"text";
    stream.name = (char *)"s";
    stream.tokenizer_kind = LK_TOKENIZER_BYTES;
    stream.tokenizer_digest = (ProtobufCBinaryData){.len = 16, .data = digest};
    stream.has_append = true;
    stream.append = 256;
    stream.drop_bad = drop_bad;
    stream.n_datasets = 1;
    stream.datasets = datasets;
    hello.n_streams = 1;
    hello.streams = streams;
    hello.result_max = result_max;
    uint8_t packed[1024];
    ck_assert_uint_le(lk__worker_hello_reply__get_packed_size(&hello), sizeof packed);
    size_t n = lk__worker_hello_reply__pack(&hello, packed);
    return lk__worker_hello_reply__unpack(NULL, n, packed);
}

static void write_shard(struct fix *f, int shard)
{
    struct lk_buf data = {0}, stored = {0};
    for (int i = 0; i < SHARD_ROWS; i++) {
        const char *row = shards[shard].row[i];
        uint32_t n = (uint32_t)strlen(row);
        f->row[shard][i] = (struct lk_work_row){(uint64_t)i, data.len, n, lk_hash32(row, n)};
        lk_buf_putf(&data, "%s\n", row);
    }
    f->data_bytes[shard] = data.len;
    if (shards[shard].codec == LK_CODEC_ZSTD)
        put_zstd(&stored, data.data, data.len);
    else if (shards[shard].codec == LK_CODEC_GZIP)
        put_gzip(&stored, data.data, data.len);
    else
        lk_buf_put(&stored, data.data, data.len);
    (void)temp_file(&f->dir, shards[shard].name, stored.data, stored.len);
    lk_buf_done(&data);
    lk_buf_done(&stored);
}

static void use_opener(struct fix *f, struct lk_opener opener)
{
    lk_shard_cache_free(f->cache);
    f->cache = lk_shard_cache_new(opener, 4, 1 << 20);
}

static void fix_init(struct fix *f, bool drop_bad, uint64_t result_max)
{
    struct lk_err err = {.text = ""};
    *f = (struct fix){.streams = NULL};
    temp_dir_init(&f->dir);
    for (int shard = 0; shard < SHARDS; shard++)
        write_shard(f, shard);
    ck_assert_msg(streams_open(hello_make(f->dir.path, drop_bad, result_max), &f->streams, &err) == LK_OK,
                  "%s", err.text);
    use_opener(f, lk_file_opener());
}

static void fix_done(struct fix *f)
{
    task_result_done(&f->result);
    lk_shard_cache_free(f->cache);
    streams_close(f->streams);
    temp_dir_done(&f->dir);
}

/* @rows: "a0b2c0": of shard a the first row, of b the third, … */
static void make_task(const struct fix *f, const char *rows, struct made *m)
{
    *m = (struct made){.task = LK__WORKER_TASK_REPLY__INIT};
    m->task.task = 77;
    m->task.shards = m->shards;
    for (; *rows != '\0'; rows += 2) {
        int shard = rows[0] - 'a';
        Lk__WorkerShard *run = m->task.n_shards > 0 ? &m->shard[m->task.n_shards - 1] : NULL;
        if (run == NULL || strcmp(run->name, shards[shard].name) != 0) {
            run = m->shards[m->task.n_shards] = &m->shard[m->task.n_shards];
            lk__worker_shard__init(run);
            run->name = (char *)shards[shard].name;
            run->codec = (uint32_t)shards[shard].codec;
            run->data_bytes = f->data_bytes[shard];
            m->task.n_shards++;
        }
        run->rows++;
        lk_work_row_put(&f->row[shard][rows[1] - '0'], m->payload + m->payload_bytes);
        m->payload_bytes += LK_WORK_ROW_BYTES;
    }
}

static void run_made(struct fix *f, const struct made *m)
{
    task_run(f->streams, f->cache, &m->task, m->payload, m->payload_bytes, &f->result);
    ck_assert_uint_eq(f->result.task, 77);
}

static void run(struct fix *f, const char *rows)
{
    struct made made;
    make_task(f, rows, &made);
    run_made(f, &made);
}

/* The result is of good rows with these texts, each with its end. */
static void check_texts(const struct fix *f, const char *const *text, uint32_t n)
{
    const uint32_t *id = f->result.tokens.ids;
    ck_assert_msg(f->result.err.code == LK_OK, "%s", f->result.err.text);
    ck_assert_uint_eq(f->result.n_rows, n);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_uint_eq(f->result.row[i].tokens, strlen(text[i]) + 1);
        for (const char *c = text[i]; *c != '\0'; c++)
            ck_assert_uint_eq(*id++, (uint8_t)*c);
        ck_assert_uint_eq(*id++, 256);
    }
    ck_assert_uint_eq(f->result.tokens.n, id - f->result.tokens.ids);
}

/* With room for them they lie behind the rows; with too little elsewhere, and nothing is written beyond. */
START_TEST(tokens_are_made_where_they_are_wanted)
{
    struct fix f;
    static _Alignas(8) uint8_t place[4096];
    const size_t head = 2 * sizeof(struct lk_work_result);
    const uint32_t expected[] = {'h', 'e', 'l', 'l', 'o', 256, 'y', 256, 's', 256};
    fix_init(&f, true, 1 << 20);
    const size_t room[] = {sizeof place, head + 8, sizeof place, head, 0, sizeof place};
    for (size_t i = 0; i < sizeof room / sizeof *room; i++) {
        memset(place, 0xee, sizeof place);
        f.result.place = room[i] > 0 ? place : NULL;
        f.result.place_bytes = room[i];
        run(&f, "a0a2");
        ck_assert_msg(f.result.err.code == LK_OK, "%s", f.result.err.text);
        bool there = (uint8_t *)f.result.tokens.ids == place + head;
        ck_assert_int_eq(there, room[i] == sizeof place);
        ck_assert_uint_eq(f.result.tokens.n, 10);
        ck_assert_mem_eq(f.result.tokens.ids, expected, sizeof expected);
        for (size_t k = room[i]; k < sizeof place; k++)
            ck_assert_uint_eq(place[k], 0xee);
    }
    fix_done(&f);
}
END_TEST

START_TEST(a_row_becomes_its_tokens)
{
    struct fix f;
    fix_init(&f, false, 1 << 20);
    for (int again = 0; again < 3; again++) {
        run(&f, "a2");
        ck_assert_msg(f.result.err.code == LK_OK, "%s", f.result.err.text);
        ck_assert_uint_eq(f.result.n_rows, 1);
        ck_assert_uint_eq(f.result.row[0].tokens, 4);
        ck_assert_uint_eq(f.result.row[0].text_bytes, 15);
        ck_assert_uint_eq(f.result.row[0].specials, 1);
        ck_assert_uint_eq(f.result.specials, 1); /* of this task alone */
        ck_assert_uint_eq(f.result.tokens.n, 4);
        const uint32_t ids[] = {'y', 256, 's', 256};
        ck_assert_int_eq(memcmp(f.result.tokens.ids, ids, sizeof ids), 0);
        ck_assert_uint_eq(f.result.data_bytes, strlen(shards[0].row[2]));
    }
    fix_done(&f);
}
END_TEST

START_TEST(a_bad_row_fails_the_task_named_by_dataset_shard_row_and_byte)
{
    struct fix f;
    fix_init(&f, false, 1 << 20);
    run(&f, "a0a1a2");
    ck_assert_int_eq(f.result.err.code, LK_INVALID_ARGUMENT);
    const char *text = f.result.err.text;
    char byte[32];
    (void)snprintf(byte, sizeof byte, "byte %zu", strlen(shards[0].row[0]) + 1);
    ck_assert_msg(strstr(text, "docs") && strstr(text, "a.jsonl") && strstr(text, "row 1") &&
                      strstr(text, byte), "%s", text);
    ck_assert_uint_eq(f.result.n_rows, 1); /* what is before it, and nothing of it */
    ck_assert_uint_eq(f.result.row[0].tokens, 6);
    ck_assert_uint_eq(f.result.tokens.n, 6);
    run(&f, "a0"); /* nothing of the failure is left */
    ck_assert_int_eq(f.result.err.code, LK_OK);
    ck_assert_uint_eq(f.result.tokens.n, 6);
    ck_assert_uint_eq(f.result.specials, 0);
    fix_done(&f);
}
END_TEST

START_TEST(a_bad_row_is_dropped_with_its_reason_when_told_so)
{
    struct fix f;
    fix_init(&f, true, 1 << 20);
    run(&f, "a0a1a2");
    ck_assert_msg(f.result.err.code == LK_OK, "%s", f.result.err.text);
    ck_assert_uint_eq(f.result.n_rows, 3);
    ck_assert_uint_eq(f.result.row[1].drop, LK_DROP_MALFORMED);
    ck_assert_uint_eq(f.result.row[1].tokens, 0);
    ck_assert_uint_eq(f.result.n_notes, 1);
    ck_assert_uint_eq(f.result.note[0]->row, 1);
    ck_assert_ptr_nonnull(strstr(f.result.note[0]->text, "byte "));
    ck_assert_uint_eq(f.result.tokens.n, 6 + 4);
    ck_assert_uint_eq(f.result.specials, 1);
    fix_done(&f);
}
END_TEST

START_TEST(a_result_that_would_be_too_large_is_refused)
{
    struct fix f;
    fix_init(&f, true, 4 * 8);
    run(&f, "a0a1a2");
    ck_assert_int_eq(f.result.err.code, LK_OUT_OF_RANGE);
    ck_assert_ptr_nonnull(strstr(f.result.err.text, "row 2"));
    run(&f, "a0");
    ck_assert_int_eq(f.result.err.code, LK_OK);
    fix_done(&f);
}
END_TEST

START_TEST(changed_data_is_data_loss_and_a_missing_shard_not_found)
{
    struct fix f;
    fix_init(&f, true, 1 << 20);
    f.row[0][0].hash ^= 1; /* as the index has it */
    run(&f, "a0");
    ck_assert_int_eq(f.result.err.code, LK_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(f.result.err.text, "a.jsonl"));
    use_opener(&f, lk_file_opener());
    ck_assert_int_eq(unlink(temp_path(&f.dir, "a.jsonl")), 0);
    run(&f, "a2");
    ck_assert_int_eq(f.result.err.code, LK_NOT_FOUND);
    fix_done(&f);
}
END_TEST

/* A store that fails a few times before it works, for some shards. */
struct failing {
    int failures;
    enum lk_code code;
    const char *only; /* in their paths; NULL: for all */
    int opened;       /* how often others were */
};

static enum lk_code open_at_last(void *owner, const char *path, struct lk_source **ret_source,
                                 struct lk_err *err)
{
    struct failing *failing = owner;
    if (failing->only != NULL && strstr(path, failing->only) == NULL) {
        failing->opened++;
    } else if (failing->failures > 0) {
        failing->failures--;
        return lk_fail(err, failing->code, "%s: not now", path);
    }
    return lk_file_open(path, ret_source, err);
}

START_TEST(a_transient_failure_is_tried_again_a_bounded_number_of_times)
{
    static const enum lk_code codes[] = {LK_UNAVAILABLE, LK_RESOURCE_EXHAUSTED,
                                         LK_DEADLINE_EXCEEDED, LK_ABORTED, LK_CANCELLED};
    struct fix f;
    struct failing failing = {.failures = 3, .code = codes[_i]};
    fix_init(&f, true, 1 << 20);
    use_opener(&f, (struct lk_opener){open_at_last, &failing});
    run(&f, "a0a1a2");
    ck_assert_msg(f.result.err.code == LK_OK, "%s", f.result.err.text);
    ck_assert_uint_eq(f.result.n_rows, 3);
    ck_assert_int_eq(failing.failures, 0);
    failing.failures = 1000;
    use_opener(&f, (struct lk_opener){open_at_last, &failing});
    run(&f, "a0a1a2");
    ck_assert_int_eq(f.result.err.code, LK_UNAVAILABLE);
    ck_assert_msg(strstr(f.result.err.text, "not now") && strstr(f.result.err.text, "docs"), "%s",
                  f.result.err.text);
    ck_assert_int_gt(failing.failures, 900);
    fix_done(&f);
}
END_TEST

/* What the daemon writes is what it wrote yesterday: workers of another build read it. */
START_TEST(a_row_of_a_task_has_its_bytes_and_comes_back)
{
    static const uint8_t wire[] = {8, 7, 6, 5, 4, 3, 2, 1, 0x18, 0x17, 0x16, 0x15,
                                   0x14, 0x13, 0x12, 0x11, 4, 3, 2, 1, 0xd, 0xc, 0xb, 0xa};
    struct lk_work_row row = {0x0102030405060708, 0x1112131415161718, 0x01020304, 0x0a0b0c0d};
    uint8_t bytes[LK_WORK_ROW_BYTES];
    lk_work_row_put(&row, bytes);
    ck_assert_mem_eq(bytes, wire, sizeof wire);
    struct lk_work_row back = lk_work_row_get(bytes);
    ck_assert_uint_eq(back.row, row.row);
    ck_assert_uint_eq(back.offset, row.offset);
    ck_assert_uint_eq(back.bytes, row.bytes);
    ck_assert_uint_eq(back.hash, row.hash);
}
END_TEST

static void check_refused(struct fix *f, const struct made *m, const char *why)
{
    run_made(f, m);
    ck_assert_int_eq(f->result.err.code, LK_INVALID_ARGUMENT);
    ck_assert_msg(strstr(f->result.err.text, why) != NULL, "%s, expected %s", f->result.err.text, why);
    ck_assert_uint_eq(f->result.n_rows + f->result.tokens.n, 0);
}

START_TEST(a_malformed_task_is_refused)
{
    struct fix f;
    struct made m;
    fix_init(&f, true, 1 << 20);
    make_task(&f, "a0", &m);
    m.payload_bytes = LK_WORK_ROW_BYTES - 1;
    check_refused(&f, &m, "23 bytes");
    m.payload_bytes = 0;
    check_refused(&f, &m, "0 bytes");
    m.payload_bytes = LK_WORK_ROW_BYTES;
    m.task.dataset = 1;
    check_refused(&f, &m, "no dataset 1");
    m.task.dataset = 0;
    m.task.stream = UINT32_MAX;
    check_refused(&f, &m, "no dataset 0");
    m.task.stream = 0;
    run_made(&f, &m);
    ck_assert_msg(f.result.err.code == LK_OK, "%s", f.result.err.text);
    fix_done(&f);
}
END_TEST

/* Whatever it says of its shards, each row is of one of them. */
START_TEST(a_task_whose_shards_do_not_make_its_rows_is_refused)
{
    struct fix f;
    struct made m;
    fix_init(&f, true, 1 << 20);
    make_task(&f, "a0b0b2", &m);
    m.task.n_shards = 0;
    check_refused(&f, &m, "3 rows in 0 shards, expected 1 to 3");
    m.task.n_shards = 1;
    check_refused(&f, &m, "3 rows whose shards have 1 of them");
    m.task.n_shards = 2;
    m.shard[1].rows = 3;
    check_refused(&f, &m, "3 rows whose shards have 4 of them");
    m.shard[0].rows = UINT32_MAX; /* together three, for who counts in 32 bits */
    m.shard[1].rows = 4;
    check_refused(&f, &m, "3 rows whose shards have 4294967299 of them");
    m.shard[0].rows = 0;
    m.shard[1].rows = 3;
    check_refused(&f, &m, "a.jsonl: no rows");
    m.shard[0].rows = 1;
    m.shard[1].rows = 2;
    m.shard[1].codec = LK_CODECS;
    check_refused(&f, &m, "b.jsonl.zst: codec 3 is none");
    m.shard[1].codec = LK_CODEC_ZSTD;
    m.shards[2] = m.shards[3] = m.shards[1];
    m.task.n_shards = 4;
    check_refused(&f, &m, "3 rows in 4 shards");
    m.task.n_shards = 2;
    m.payload_bytes -= LK_WORK_ROW_BYTES;
    check_refused(&f, &m, "2 rows whose shards have 3 of them");
    m.payload_bytes += LK_WORK_ROW_BYTES;
    run_made(&f, &m);
    check_texts(&f, (const char *const[]){"hello", "one", "three"}, 3);
    fix_done(&f);
}
END_TEST

START_TEST(a_task_may_have_as_many_shards_as_a_message_holds)
{
    struct fix f;
    struct made one;
    fix_init(&f, true, 1 << 20);
    make_task(&f, "a2", &one);
    const uint32_t most = LK_WORK_SHARDS_MAX;
    Lk__WorkerShard **runs = lk_alloc((most + 1) * sizeof(Lk__WorkerShard *));
    uint8_t *payload = lk_alloc((size_t)(most + 1) * LK_WORK_ROW_BYTES);
    for (uint32_t i = 0; i <= most; i++) {
        runs[i] = &one.shard[0];
        memcpy(payload + (size_t)i * LK_WORK_ROW_BYTES, one.payload, LK_WORK_ROW_BYTES);
    }
    one.task.shards = runs;
    one.task.n_shards = most;
    task_run(f.streams, f.cache, &one.task, payload, (size_t)most * LK_WORK_ROW_BYTES, &f.result);
    ck_assert_msg(f.result.err.code == LK_OK, "%s", f.result.err.text);
    ck_assert_uint_eq(f.result.tokens.n, 4 * most);
    one.task.n_shards++;
    task_run(f.streams, f.cache, &one.task, payload, (size_t)(most + 1) * LK_WORK_ROW_BYTES, &f.result);
    ck_assert_int_eq(f.result.err.code, LK_INVALID_ARGUMENT);
    free(runs);
    free(payload);
    fix_done(&f);
}
END_TEST

/* --- several shards --- */

START_TEST(rows_of_several_shards_come_in_the_order_of_the_task)
{
    struct fix f;
    fix_init(&f, false, 1 << 20);
    run(&f, "b2a0b0c2c0a0b2"); /* stored plainly, by zstd, by gzip */
    check_texts(&f, (const char *const[]){"three", "hello", "one", "CC", "A", "hello", "three"}, 7);
    ck_assert_uint_eq(f.result.data_bytes,
                      strlen("{\"text\": \"\"}") * 7 + strlen("threehellooneCCAhellothree"));
    run(&f, "c0a2b0");
    ck_assert_msg(f.result.err.code == LK_OK, "%s", f.result.err.text);
    ck_assert_uint_eq(f.result.row[1].specials, 1);
    ck_assert_uint_eq(f.result.specials, 1);
    ck_assert_uint_eq(f.result.tokens.n, 2 + 4 + 4);
    run(&f, "c2b0");
    check_texts(&f, (const char *const[]){"CC", "one"}, 2);
    fix_done(&f);
}
END_TEST

START_TEST(a_bad_row_is_named_by_its_own_shard_and_counted_in_the_task)
{
    struct fix f;
    fix_init(&f, false, 1 << 20);
    run(&f, "a0c2c0b0b1a2");
    ck_assert_int_eq(f.result.err.code, LK_INVALID_ARGUMENT);
    char place[64];
    (void)snprintf(place, sizeof place, "dataset docs: b.jsonl.zst: row 1 at byte %zu: ",
                   strlen(shards[1].row[0]) + 1);
    ck_assert_msg(strstr(f.result.err.text, place) == f.result.err.text, "%s", f.result.err.text);
    ck_assert_uint_eq(f.result.n_rows, 4);
    fix_done(&f);
    fix_init(&f, true, 1 << 20);
    run(&f, "a0c1c0b0b1a2");
    ck_assert_msg(f.result.err.code == LK_OK, "%s", f.result.err.text);
    ck_assert_uint_eq(f.result.n_notes, 2);
    ck_assert_uint_eq(f.result.note[0]->row, 1);
    ck_assert_uint_eq(f.result.note[1]->row, 4);
    for (uint32_t i = 0; i < 6; i++)
        ck_assert_uint_eq(f.result.row[i].drop, i == 1 || i == 4 ? LK_DROP_MALFORMED : LK_DROP_NONE);
    f.row[2][0].hash ^= 1; /* as the index has it */
    run(&f, "a0b0c0");
    ck_assert_int_eq(f.result.err.code, LK_DATA_LOSS);
    ck_assert_msg(strstr(f.result.err.text, "c/c.jsonl.gz: row 0") != NULL, "%s", f.result.err.text);
    ck_assert_uint_eq(f.result.n_rows, 2);
    fix_done(&f);
    fix_init(&f, true, 4 * 8);
    run(&f, "a0b0c0");
    ck_assert_int_eq(f.result.err.code, LK_OUT_OF_RANGE);
    ck_assert_msg(strstr(f.result.err.text, "b.jsonl.zst: row 0") != NULL, "%s", f.result.err.text);
    ck_assert_uint_eq(f.result.n_rows + f.result.tokens.n, 0); /* it is run again in halves */
    fix_done(&f);
}
END_TEST

/* What was measured before the failure is not there twice. */
START_TEST(a_transient_failure_of_one_shard_begins_the_whole_task_anew)
{
    struct fix f;
    struct failing failing = {.failures = 2, .code = LK_UNAVAILABLE, .only = "b.jsonl"};
    fix_init(&f, true, 1 << 20);
    use_opener(&f, (struct lk_opener){open_at_last, &failing});
    run(&f, "a0c1b0c0");
    ck_assert_int_eq(failing.failures, 0);
    ck_assert_int_eq(failing.opened, 2); /* each of the others once */
    ck_assert_msg(f.result.err.code == LK_OK, "%s", f.result.err.text);
    ck_assert_uint_eq(f.result.n_notes, 1);
    ck_assert_uint_eq(f.result.note[0]->row, 1);
    ck_assert_uint_eq(f.result.n_rows, 4);
    ck_assert_uint_eq(f.result.tokens.n, 6 + 4 + 2);
    ck_assert_uint_eq(f.result.data_bytes, strlen(shards[0].row[0]) + strlen(shards[2].row[1]) +
                                               strlen(shards[1].row[0]) + strlen(shards[2].row[0]));
    failing.failures = 1000;
    use_opener(&f, (struct lk_opener){open_at_last, &failing});
    run(&f, "a0c1b0c0");
    ck_assert_int_eq(f.result.err.code, LK_UNAVAILABLE);
    ck_assert_msg(strstr(f.result.err.text, "b.jsonl.zst: not now") != NULL, "%s", f.result.err.text);
    ck_assert_uint_eq(f.result.n_rows + f.result.tokens.n, 0);
    fix_done(&f);
}
END_TEST

START_TEST(another_tokenizer_than_the_daemons_is_refused_with_both_digests)
{
    struct fix f;
    fix_init(&f, true, 1 << 20);
    struct streams *streams;
    struct lk_err err = {.text = ""};
    Lk__WorkerHelloReply *hello = hello_make(f.dir.path, true, 1 << 20);
    char want[LK_DIGEST_HEX];
    hello->streams[0]->tokenizer_digest.data[3] ^= 1;
    lk_digest_hex(lk_digest_get(hello->streams[0]->tokenizer_digest.data), want);
    ck_assert_int_eq(streams_open(hello, &streams, &err), LK_FAILED_PRECONDITION);
    ck_assert_msg(strstr(err.text, want) != NULL && strstr(err.text, "stream s"), "%s", err.text);
    hello = hello_make(f.dir.path, true, 1 << 20);
    hello->streams[0]->tokenizer_kind = LK_TOKENIZER_HF;
    /* protobuf-c: an empty string is static, so there is nothing to free */
    hello->streams[0]->tokenizer_path = lk_strdup("/nowhere/tokenizer.json");
    ck_assert_int_eq(streams_open(hello, &streams, &err), LK_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "/nowhere/tokenizer.json"));
    fix_done(&f);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("worker/task");
    TCase *t = tcase_create("task");
    tcase_add_test(t, a_row_becomes_its_tokens);
    tcase_add_test(t, a_bad_row_fails_the_task_named_by_dataset_shard_row_and_byte);
    tcase_add_test(t, a_bad_row_is_dropped_with_its_reason_when_told_so);
    tcase_add_test(t, a_result_that_would_be_too_large_is_refused);
    tcase_add_test(t, changed_data_is_data_loss_and_a_missing_shard_not_found);
    tcase_add_loop_test(t, a_transient_failure_is_tried_again_a_bounded_number_of_times, 0, 5);
    tcase_add_test(t, tokens_are_made_where_they_are_wanted);
    tcase_add_test(t, a_row_of_a_task_has_its_bytes_and_comes_back);
    tcase_add_test(t, a_malformed_task_is_refused);
    tcase_add_test(t, a_task_whose_shards_do_not_make_its_rows_is_refused);
    tcase_add_test(t, a_task_may_have_as_many_shards_as_a_message_holds);
    tcase_add_test(t, rows_of_several_shards_come_in_the_order_of_the_task);
    tcase_add_test(t, a_bad_row_is_named_by_its_own_shard_and_counted_in_the_task);
    tcase_add_test(t, a_transient_failure_of_one_shard_begins_the_whole_task_anew);
    tcase_add_test(t, another_tokenizer_than_the_daemons_is_refused_with_both_digests);
    suite_add_tcase(s, t);
    return s;
}
