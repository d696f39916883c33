#include "base/digest.h"
#include "base/mem.h"
#include "tests/lib/check_main.h"
#include "worker/streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STREAMS = 4, DATASETS = 3 }; /* streams 0, 1 and 3 tokenise alike, 2 does not; two fields have text */

static const enum lk_special_in_text special[STREAMS] = {LK_SPECIAL_SPLIT, LK_SPECIAL_SPLIT,
                                                         LK_SPECIAL_TEXT, LK_SPECIAL_SPLIT};
static const char *const field[DATASETS] = {"text", "body.text", "text"};

static void digest_with(enum lk_special_in_text special_in_text, uint8_t ret_digest[16])
{
    struct lk_tokenizer_files files = {.kind = LK_TOKENIZER_BYTES,
                                       .special_in_text = special_in_text};
    struct lk_tokenizer *tokenizer;
    struct lk_err err;
    ck_assert_int_eq(lk_tokenizer_new(&files, &tokenizer, &err), LK_OK);
    lk_digest_put(lk_tokenizer_digest(tokenizer), ret_digest);
    lk_tokenizer_free(tokenizer);
}

static struct streams *open_streams(void)
{
    Lk__WorkerHelloReply hello = LK__WORKER_HELLO_REPLY__INIT;
    Lk__WorkerStream stream[STREAMS], *streams[STREAMS];
    Lk__WorkerDataset dataset[DATASETS], *datasets[DATASETS];
    uint8_t digest[STREAMS][16], packed[2048];
    struct streams *opened = NULL;
    struct lk_err err = {.text = ""};
    for (int d = 0; d < DATASETS; d++) {
        lk__worker_dataset__init(datasets[d] = &dataset[d]);
        dataset[d].name = dataset[d].root = (char *)"d";
        dataset[d].text = (char *)field[d];
    }
    for (int s = 0; s < STREAMS; s++) {
        lk__worker_stream__init(streams[s] = &stream[s]);
        digest_with(special[s], digest[s]);
        stream[s].name = (char *)"s";
        stream[s].tokenizer_kind = LK_TOKENIZER_BYTES;
        stream[s].special_in_text = special[s];
        stream[s].tokenizer_digest = (ProtobufCBinaryData){.len = 16, .data = digest[s]};
        stream[s].has_append = true;
        stream[s].append = 256;
        stream[s].n_datasets = DATASETS;
        stream[s].datasets = datasets;
    }
    hello.n_streams = STREAMS;
    hello.streams = streams;
    ck_assert_uint_le(lk__worker_hello_reply__get_packed_size(&hello), sizeof packed);
    size_t n = lk__worker_hello_reply__pack(&hello, packed);
    ck_assert_msg(streams_open(lk__worker_hello_reply__unpack(NULL, n, packed), &opened, &err) == LK_OK,
                  "%s", err.text);
    return opened;
}

static struct lk_measure *chain_of(struct streams *streams, uint32_t stream, uint32_t dataset)
{
    const Lk__WorkerDataset *found;
    struct lk_measure *measure = NULL;
    struct lk_err err;
    ck_assert_int_eq(streams_find(streams, stream, dataset, &found, &measure, &err), LK_OK);
    return measure;
}

/* Private writable memory that is there to be used, in bytes. */
static uint64_t own_bytes(void)
{
    unsigned long long pages;
    FILE *file = fopen("/proc/self/statm", "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%*u %*u %*u %*u %*u %llu", &pages), 1);
    ck_assert_int_eq(fclose(file), 0);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

START_TEST(chains_that_tokenise_alike_share_the_encoders_memory)
{
    struct streams *streams = open_streams();
    uint64_t none = own_bytes();
    (void)chain_of(streams, 0, 0);
    uint64_t one = own_bytes() - none;
    ck_assert_uint_gt(one, 16u << 20); /* or there would be nothing to share */
    for (uint32_t s = 0; s < STREAMS; s++)
        for (uint32_t d = 0; d < DATASETS; d++)
            if (special[s] == special[0])
                (void)chain_of(streams, s, d);
    ck_assert_uint_lt(own_bytes() - none, one + (4u << 20));
    (void)chain_of(streams, 2, 1); /* another meaning of special tokens is another tokenizer */
    ck_assert_uint_gt(own_bytes() - none, 2 * one - (4u << 20));
    ck_assert_uint_lt(own_bytes() - none, 2 * one + (4u << 20));
    streams_close(streams);
    ck_assert_uint_lt(own_bytes(), none + (4u << 20));
}
END_TEST

/* Row by row from one chain to the next: none sees what another has done. */
START_TEST(chains_that_share_an_encoder_are_apart)
{
    static const char row[] = "{\"text\": \"a<|endoftext|>\", \"body\": {\"text\": \"bcd\"}}";
    static const uint32_t first[] = {'a', 256, 256}, second[] = {'b', 'c', 'd', 256};
    struct streams *streams = open_streams();
    for (int turn = 0; turn < 3; turn++) {
        for (uint32_t s = 0; s < STREAMS; s++) {
            for (uint32_t d = 0; d < DATASETS; d++) {
                struct lk_tokens out = {0};
                struct lk_measured measured;
                struct lk_err err = {.text = ""};
                struct lk_measure *measure = chain_of(streams, s, d);
                ck_assert_ptr_eq(measure, chain_of(streams, s, d % 2)); /* a field's, whatever dataset */
                ck_assert_int_eq(lk_measure_row(measure, (const uint8_t *)row, sizeof row - 1, &out,
                                                &measured, &err),
                                 LK_OK);
                if (d == 1) {
                    ck_assert_uint_eq(out.n, 4);
                    ck_assert_mem_eq(out.ids, second, sizeof second);
                } else if (special[s] == LK_SPECIAL_TEXT) {
                    ck_assert_uint_eq(out.n, strlen("a<|endoftext|>") + 1);
                } else {
                    ck_assert_uint_eq(out.n, 3);
                    ck_assert_mem_eq(out.ids, first, sizeof first);
                }
                ck_assert_uint_eq(measured.specials, d != 1);
                lk_tokens_done(&out);
            }
        }
    }
    streams_close(streams);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("worker/streams");
    TCase *t = tcase_create("streams");
    tcase_add_test(t, chains_that_tokenise_alike_share_the_encoders_memory);
    tcase_add_test(t, chains_that_share_an_encoder_are_apart);
    suite_add_tcase(s, t);
    return s;
}
