#include "tests/lib/corpus.h"

#include "base/mem.h"
#include "op/tokenise/tokenizer.h"
#include "store/file.h"
#include "store/list.h"
#include "tests/lib/compress.h"

#include <check.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* nng 1.5.2 loses a message, which it owns by then, when the connection closes in the moment of
 * sending; these tests close many. The two functions make all messages, and do nothing else. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:answer\nleak:message_of\n";
}

char *corpus_text(uint32_t i, uint32_t bytes)
{
    uint32_t n = 8 + (i * 7919u + 13) % (bytes + 1);
    char *text = lk_zalloc(n + 1, 1);
    for (uint32_t k = 0; k < n; k++)
        text[k] = (char)('a' + (i * 31 + k * k) % 26);
    return text;
}

static void write_rows(const struct corpus *corpus, uint32_t bytes, const char *special,
                       uint32_t special_at)
{
    FILE *file = fopen(corpus->path, "we");
    ck_assert_ptr_nonnull(file);
    for (uint32_t i = 0; i < corpus->rows; i++) {
        char *text = corpus_text(i, bytes);
        if (special != NULL && i == special_at)
            (void)fprintf(file, "%s\n", special);
        else
            (void)fprintf(file, "{\"id\": %u, \"text\": \"%s\"}\n", i, text);
        free(text);
    }
    ck_assert_int_eq(fclose(file), 0);
}

static struct lk_digest bytes_digest(void)
{
    struct lk_tokenizer_files files = {.kind = LK_TOKENIZER_BYTES};
    struct lk_tokenizer *tokenizer;
    struct lk_err err;
    ck_assert_int_eq(lk_tokenizer_new(&files, &tokenizer, &err), LK_OK);
    struct lk_digest digest = lk_tokenizer_digest(tokenizer);
    lk_tokenizer_free(tokenizer);
    return digest;
}

static void make_index(struct corpus *corpus)
{
    struct lk_dataset_files files;
    struct lk_buf bytes = {0};
    struct lk_err err = {.text = ""};
    ck_assert_msg(lk_dataset_list(corpus->root, &files, &err) == LK_OK, "%s", err.text);
    struct lk_index_build build = {.files = &files, .opener = lk_file_opener(), .threads = 1};
    ck_assert_msg(lk_index_build(&build, &bytes, &err) == LK_OK, "%s", err.text);
    ck_assert_msg(lk_index_of_bytes("docs", &bytes, &corpus->index, &err) == LK_OK, "%s", err.text);
    lk_dataset_files_done(&files);
    ck_assert_uint_eq(corpus->index.rows, corpus->rows);
}

void corpus_make(struct corpus *corpus, uint32_t rows, uint32_t bytes, const char *special,
                 uint32_t special_at)
{
    *corpus = (struct corpus){.dir = "/tmp/lk-test-XXXXXX", .rows = rows};
    ck_assert_ptr_nonnull(mkdtemp(corpus->dir));
    corpus->root = lk_format("%s/data", corpus->dir);
    corpus->path = lk_format("%s/docs.jsonl", corpus->root);
    ck_assert_int_eq(mkdir(corpus->root, 0700), 0);
    write_rows(corpus, bytes, special, special_at);
    make_index(corpus);
    corpus->dataset = (struct lk_dataset_recipe){
        .name = (char *)"docs", .path = corpus->root, .text = (char *)"text", .weight = 1};
    corpus->recipe = (struct lk_recipe){.name = (char *)"s",
                                        .n_datasets = 1,
                                        .dataset = &corpus->dataset,
                                        .tokenizer = {.source = LK_TOKENISE_BYTES}};
    corpus->roots[0] = corpus->root;
    corpus->stream = (struct pool_stream){.recipe = &corpus->recipe,
                                          .index = &corpus->index,
                                          .root = corpus->roots,
                                          .tokenizer_digest = bytes_digest(),
                                          .has_append = true,
                                          .append = 256,
                                          .vocab = 257};
}

static void write_shard(const struct corpus *corpus, uint32_t shard, const struct lk_buf *rows)
{
    bool compressed = shard % 2 == 1;
    struct lk_buf packed = {0};
    struct lk_err err = {.text = ""};
    char *path = lk_format("%s/docs-%03u.jsonl%s", corpus->root, shard, compressed ? ".zst" : "");
    if (compressed)
        put_zstd(&packed, rows->data, rows->len);
    const struct lk_buf *stored = compressed ? &packed : rows;
    ck_assert_msg(lk_file_write_atomic(path, stored->data, stored->len, &err) == LK_OK, "%s", err.text);
    lk_buf_done(&packed);
    free(path);
}

void corpus_split(struct corpus *corpus, uint32_t shards)
{
    struct lk_buf all = {0}, rows = {0};
    struct lk_err err = {.text = ""};
    ck_assert_msg(lk_file_read_all(corpus->path, (size_t)1 << 30, &all, &err) == LK_OK, "%s", err.text);
    const uint8_t *at = all.data;
    uint32_t row = 0;
    for (uint32_t shard = 0; shard < shards; shard++) {
        rows.len = 0;
        for (; row < (uint64_t)corpus->rows * (shard + 1) / shards; row++) {
            const uint8_t *end = (const uint8_t *)memchr(at, '\n', (size_t)(all.data + all.len - at)) + 1;
            lk_buf_put(&rows, at, (size_t)(end - at));
            at = end;
        }
        write_shard(corpus, shard, &rows);
    }
    lk_buf_done(&all);
    lk_buf_done(&rows);
    ck_assert_int_eq(unlink(corpus->path), 0);
    lk_index_close(&corpus->index);
    make_index(corpus);
}

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *walk)
{
    (void)status, (void)flag, (void)walk;
    return remove(path);
}

void corpus_done(struct corpus *corpus)
{
    lk_index_close(&corpus->index);
    ck_assert_int_eq(nftw(corpus->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    free(corpus->path);
    free(corpus->root);
}

char *beside_test(const char *relative)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    ck_assert_int_gt(n, 0);
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    return lk_format("%s/%s", exe, relative);
}
