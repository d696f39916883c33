#include "base/digest.h"
#include "proto/work.h"
#include "store/file.h"
#include "tests/lib/check_main.h"
#include "worker/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Three rows in one shard: good, malformed, good with a special token in its text. */
static const char *const rows[] = {"{\"text\": \"hello\"}", "{\"text\": \"hel",
                                   "{\"text\": \"y<|endoftext|>s\"}"};

struct fix {
    char dir[64];
    char *path;
    struct streams *streams;
    struct lk_shard_cache *cache;
    struct task_result result;
    uint8_t payload[3 * LK_WORK_ROW_BYTES];
    uint64_t data_bytes;
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

static void fix_init(struct fix *f, bool drop_bad, uint64_t result_max)
{
    struct lk_err err = {.text = ""};
    *f = (struct fix){.dir = "/tmp/lk-test-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(f->dir));
    f->path = lk_format("%s/a.jsonl", f->dir);
    FILE *file = fopen(f->path, "we");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 3; i++) {
        uint32_t n = (uint32_t)strlen(rows[i]);
        struct lk_work_row row = {(uint64_t)i, f->data_bytes, n, lk_hash32(rows[i], n)};
        lk_work_row_put(&row, f->payload + i * LK_WORK_ROW_BYTES);
        (void)fprintf(file, "%s\n", rows[i]);
        f->data_bytes += n + 1;
    }
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_msg(streams_open(hello_make(f->dir, drop_bad, result_max), &f->streams, &err) == LK_OK,
                  "%s", err.text);
    f->cache = lk_shard_cache_new(lk_file_opener(), 4, 1 << 20);
}

static void fix_done(struct fix *f)
{
    task_result_done(&f->result);
    lk_shard_cache_free(f->cache);
    streams_close(f->streams);
    (void)unlink(f->path);
    ck_assert_int_eq(rmdir(f->dir), 0);
    free(f->path);
}

/* Rows [first, first + n) of the shard. */
static void run(struct fix *f, uint32_t first, uint32_t n)
{
    Lk__WorkerTaskReply task = LK__WORKER_TASK_REPLY__INIT;
    task.task = 77;
    task.shard = (char *)"a.jsonl";
    task.data_bytes = f->data_bytes;
    task_run(f->streams, f->cache, &task, f->payload + first * LK_WORK_ROW_BYTES,
             (size_t)n * LK_WORK_ROW_BYTES, &f->result);
    ck_assert_uint_eq(f->result.task, 77);
}

/* With room for them they lie behind the rows; with too little elsewhere, and nothing is written beyond. */
START_TEST(tokens_are_made_where_they_are_wanted)
{
    struct fix f;
    static _Alignas(8) uint8_t place[4096];
    const size_t head = 2 * sizeof(struct lk_work_result);
    const uint32_t expected[] = {'h', 'e', 'l', 'l', 'o', 256, 'y', 256, 's', 256};
    fix_init(&f, true, 1 << 20);
    memcpy(f.payload + LK_WORK_ROW_BYTES, f.payload + 2 * LK_WORK_ROW_BYTES, LK_WORK_ROW_BYTES);
    const size_t room[] = {sizeof place, head + 8, sizeof place, head, 0, sizeof place};
    for (size_t i = 0; i < sizeof room / sizeof *room; i++) {
        memset(place, 0xee, sizeof place);
        f.result.place = room[i] > 0 ? place : NULL;
        f.result.place_bytes = room[i];
        run(&f, 0, 2);
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
        run(&f, 2, 1);
        ck_assert_msg(f.result.err.code == LK_OK, "%s", f.result.err.text);
        ck_assert_uint_eq(f.result.n_rows, 1);
        ck_assert_uint_eq(f.result.row[0].tokens, 4);
        ck_assert_uint_eq(f.result.row[0].text_bytes, 15);
        ck_assert_uint_eq(f.result.row[0].specials, 1);
        ck_assert_uint_eq(f.result.specials, 1); /* of this task alone */
        ck_assert_uint_eq(f.result.tokens.n, 4);
        const uint32_t ids[] = {'y', 256, 's', 256};
        ck_assert_int_eq(memcmp(f.result.tokens.ids, ids, sizeof ids), 0);
        ck_assert_uint_eq(f.result.data_bytes, strlen(rows[2]));
    }
    fix_done(&f);
}
END_TEST

START_TEST(a_bad_row_fails_the_task_named_by_dataset_shard_row_and_byte)
{
    struct fix f;
    fix_init(&f, false, 1 << 20);
    run(&f, 0, 3);
    ck_assert_int_eq(f.result.err.code, LK_INVALID_ARGUMENT);
    const char *text = f.result.err.text;
    char byte[32];
    (void)snprintf(byte, sizeof byte, "byte %zu", strlen(rows[0]) + 1);
    ck_assert_msg(strstr(text, "docs") && strstr(text, "a.jsonl") && strstr(text, "row 1") &&
                      strstr(text, byte), "%s", text);
    ck_assert_uint_eq(f.result.bad_row, 1);
    ck_assert_uint_eq(f.result.n_rows, 0);
    ck_assert_uint_eq(f.result.tokens.n, 0);
    run(&f, 0, 1); /* nothing of the failure is left */
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
    run(&f, 0, 3);
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
    run(&f, 0, 3);
    ck_assert_int_eq(f.result.err.code, LK_OUT_OF_RANGE);
    ck_assert_ptr_nonnull(strstr(f.result.err.text, "row 2"));
    run(&f, 0, 1);
    ck_assert_int_eq(f.result.err.code, LK_OK);
    fix_done(&f);
}
END_TEST

START_TEST(changed_data_is_data_loss_and_a_missing_shard_not_found)
{
    struct fix f;
    fix_init(&f, true, 1 << 20);
    f.payload[20] ^= 1; /* the hash that the index has */
    run(&f, 0, 1);
    ck_assert_int_eq(f.result.err.code, LK_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(f.result.err.text, "a.jsonl"));
    lk_shard_cache_free(f.cache);
    f.cache = lk_shard_cache_new(lk_file_opener(), 4, 1 << 20);
    ck_assert_int_eq(unlink(f.path), 0);
    run(&f, 2, 1);
    ck_assert_int_eq(f.result.err.code, LK_NOT_FOUND);
    fix_done(&f);
}
END_TEST

/* A store that fails a few times before it works. */
struct failing {
    int failures;
    enum lk_code code;
};

static enum lk_code open_at_last(void *owner, const char *path, struct lk_source **ret_source,
                                 struct lk_err *err)
{
    struct failing *failing = owner;
    if (failing->failures > 0) {
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
    lk_shard_cache_free(f.cache);
    f.cache = lk_shard_cache_new((struct lk_opener){open_at_last, &failing}, 4, 1 << 20);
    run(&f, 0, 3);
    ck_assert_msg(f.result.err.code == LK_OK, "%s", f.result.err.text);
    ck_assert_uint_eq(f.result.n_rows, 3);
    ck_assert_int_eq(failing.failures, 0);
    lk_shard_cache_free(f.cache);
    failing.failures = 1000;
    f.cache = lk_shard_cache_new((struct lk_opener){open_at_last, &failing}, 4, 1 << 20);
    run(&f, 0, 3);
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

START_TEST(a_malformed_task_is_refused)
{
    struct fix f;
    fix_init(&f, true, 1 << 20);
    Lk__WorkerTaskReply task = LK__WORKER_TASK_REPLY__INIT;
    task.shard = (char *)"a.jsonl";
    task.data_bytes = f.data_bytes;
    task_run(f.streams, f.cache, &task, f.payload, LK_WORK_ROW_BYTES - 1, &f.result);
    ck_assert_int_eq(f.result.err.code, LK_INVALID_ARGUMENT);
    task_run(f.streams, f.cache, &task, f.payload, 0, &f.result);
    ck_assert_int_eq(f.result.err.code, LK_INVALID_ARGUMENT);
    task.codec = 99;
    task_run(f.streams, f.cache, &task, f.payload, LK_WORK_ROW_BYTES, &f.result);
    ck_assert_int_eq(f.result.err.code, LK_INVALID_ARGUMENT);
    task.codec = 0;
    task.dataset = 1;
    task_run(f.streams, f.cache, &task, f.payload, LK_WORK_ROW_BYTES, &f.result);
    ck_assert_int_eq(f.result.err.code, LK_INVALID_ARGUMENT);
    task.dataset = 0;
    task.stream = UINT32_MAX;
    task_run(f.streams, f.cache, &task, f.payload, LK_WORK_ROW_BYTES, &f.result);
    ck_assert_int_eq(f.result.err.code, LK_INVALID_ARGUMENT);
    fix_done(&f);
}
END_TEST

START_TEST(another_tokenizer_than_the_daemons_is_refused_with_both_digests)
{
    struct fix f;
    fix_init(&f, true, 1 << 20);
    struct streams *streams;
    struct lk_err err = {.text = ""};
    Lk__WorkerHelloReply *hello = hello_make(f.dir, true, 1 << 20);
    char want[LK_DIGEST_HEX];
    hello->streams[0]->tokenizer_digest.data[3] ^= 1;
    lk_digest_hex(lk_digest_get(hello->streams[0]->tokenizer_digest.data), want);
    ck_assert_int_eq(streams_open(hello, &streams, &err), LK_FAILED_PRECONDITION);
    ck_assert_msg(strstr(err.text, want) != NULL && strstr(err.text, "stream s"), "%s", err.text);
    hello = hello_make(f.dir, true, 1 << 20);
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
    tcase_add_test(t, another_tokenizer_than_the_daemons_is_refused_with_both_digests);
    suite_add_tcase(s, t);
    return s;
}
