/* Messages of peers are read with memory in proportion to their bytes. */
#include "proto/unpack.h"

#include "base/mem.h"
#include "proto/worker.pb-c.h"
#include "tests/lib/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 100000u

static Lk__WorkerTaskRequest *unpack(const uint8_t *bytes, size_t n)
{
    return lk_unpack(&lk__worker_task_request__descriptor, bytes, n);
}

START_TEST(what_we_send_is_read_whole_however_much_it_is)
{
    Lk__WorkerTaskRequest request = LK__WORKER_TASK_REQUEST__INIT;
    uint32_t n = _i == 0 ? 0 : _i == 1 ? 1 : MANY;
    Lk__RowNote *note = lk_zalloc(n + 1, sizeof *note), **notes = lk_zalloc(n + 1, sizeof(Lk__RowNote *));
    for (uint32_t i = 0; i < n; i++) {
        lk__row_note__init(&note[i]);
        note[i].row = i;
        note[i].text = (char *)"byte 1: no row"; /* as short as a reason gets */
        notes[i] = &note[i];
    }
    request.worker = 7;
    request.notes = notes;
    request.n_notes = n;
    request.detail = (char *)"why";
    uint8_t *bytes = lk_alloc(lk__worker_task_request__get_packed_size(&request));
    size_t all = lk__worker_task_request__pack(&request, bytes);
    Lk__WorkerTaskRequest *read = unpack(bytes, all);
    ck_assert_ptr_nonnull(read);
    ck_assert_uint_eq(read->worker, 7);
    ck_assert_str_eq(read->detail, "why");
    ck_assert_uint_eq(read->n_notes, n);
    ck_assert(n == 0 || (read->notes[n - 1]->row == n - 1 && strcmp(read->notes[n - 1]->text, note->text) == 0));
    lk__worker_task_request__free_unpacked(read, NULL);
    free(bytes);
    free(note);
    free(notes);
}
END_TEST

/* With the shortest names a task's shards take the most memory for their bytes. */
START_TEST(a_task_of_many_shards_is_read_whole)
{
    Lk__WorkerTaskReply task = LK__WORKER_TASK_REPLY__INIT;
    Lk__WorkerShard shard = LK__WORKER_SHARD__INIT;
    uint32_t n = 1;
    for (int i = 0; i < _i; i++)
        n *= 10;
    Lk__WorkerShard **shards = lk_alloc(n * sizeof(Lk__WorkerShard *));
    shard.name = (char *)"a.jsonl";
    shard.data_bytes = 1;
    shard.rows = 1;
    for (uint32_t i = 0; i < n; i++)
        shards[i] = &shard;
    task.task = 7;
    task.shards = shards;
    task.n_shards = n;
    uint8_t *bytes = lk_alloc(lk__worker_task_reply__get_packed_size(&task));
    size_t all = lk__worker_task_reply__pack(&task, bytes);
    Lk__WorkerTaskReply *read = lk_unpack(&lk__worker_task_reply__descriptor, bytes, all);
    ck_assert_ptr_nonnull(read);
    ck_assert_uint_eq(read->n_shards, n);
    ck_assert_str_eq(read->shards[n - 1]->name, "a.jsonl");
    lk__worker_task_reply__free_unpacked(read, NULL);
    free(bytes);
    free(shards);
}
END_TEST

/* Of two bytes each: an empty note, a field that nobody knows, one that is said again. */
static const uint8_t field[][2] = {{0x32, 0x00}, {0x78, 0x01}, {0x22, 0x00}};

START_TEST(much_in_few_bytes_is_refused)
{
    uint8_t *bytes = lk_alloc(2 * MANY);
    for (size_t i = 0; i < MANY; i++)
        memcpy(bytes + 2 * i, field[_i], 2);
    Lk__WorkerTaskRequest *few = unpack(bytes, 2 * 20), *much = unpack(bytes, 2 * MANY);
    ck_assert_ptr_nonnull(few);
    ck_assert_ptr_null(much);
    lk__worker_task_request__free_unpacked(few, NULL);
    free(bytes);
}
END_TEST

START_TEST(what_is_no_message_is_refused)
{
    static const uint8_t bytes[][4] = {{0x22, 0x7f, 'a', 'b'}, {0x32, 0x02, 0x12, 0x7f}, {0x08, 0xff, 0xff, 0xff}, {0x0b, 0, 0, 0}};
    ck_assert_ptr_null(unpack(bytes[_i], 4));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("proto/unpack");
    TCase *t = tcase_create("unpack");
    tcase_add_loop_test(t, what_we_send_is_read_whole_however_much_it_is, 0, 3);
    tcase_add_loop_test(t, a_task_of_many_shards_is_read_whole, 0, 6);
    tcase_add_loop_test(t, much_in_few_bytes_is_refused, 0, 3);
    tcase_add_loop_test(t, what_is_no_message_is_refused, 0, 4);
    suite_add_tcase(s, t);
    return s;
}
