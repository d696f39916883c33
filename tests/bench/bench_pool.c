/*
 * What the pool costs: rows → tokens through worker processes, against the same chain in this
 * process; and then of short rows that lie anywhere in many shards, as a true shuffle wants them.
 * Usage: bench_pool WORKER MEGABYTES [VOCAB MERGES]; prints one line a run.
 */
#include "base/mem.h"
#include "format/format.h"
#include "host/pool.h"
#include "op/tokenise/tokenizer.h"
#include "store/file.h"
#include "store/list.h"
#include "tests/bench/chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define AHEAD 16  /* tasks submitted at once, as the engine would */
#define SHARDS 48 /* of the shuffled rows: a worker keeps them all open */

struct bench {
    char dir[64], root[80];
    uint32_t shards, words_max; /* of a row */
    uint64_t *order;            /* [index.rows] of rows; NULL: as they lie */
    uint64_t data_bytes;
    struct lk_index index;
    struct lk_tokenizer *tokenizer;
    struct lk_dataset_recipe dataset;
    struct lk_recipe recipe;
    const char *roots[1];
    struct pool_stream stream;
    struct loop *loop;
    struct pool *pool;
    uint32_t task_rows;
    uint64_t next_row, rows_done, tokens, sum, worker_ns;
};

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu(int who)
{
    struct rusage u;
    (void)getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void die(const char *what, const struct lk_err *err)
{
    (void)fprintf(stderr, "bench_pool: %s: %s\n", what, err->text);
    exit(1);
}

static void shard_path(const struct bench *b, uint32_t shard, char path[128])
{
    (void)snprintf(path, 128, "%s/docs-%02u.jsonl", b->root, shard);
}

/* Words of a small vocabulary with a skewed distribution: English-like lengths. */
static void write_shard(const struct bench *b, uint32_t shard, uint64_t most)
{
    char path[128];
    shard_path(b, shard, path);
    FILE *file = fopen(path, "we");
    uint64_t x = 88172645463325252u + shard, bytes = 0;
    static const char *const words[] = {
        "the", "of", "and", "to", "in", "training", "model", "a", "data", "is", "that", "with",
        "sequence", "for", "batch", "as", "rank", "on", "token", "by", "corpus", "it", "gradient",
        "language", "system", "was", "file", "which", "number", "between", "document", "world"};
    while (bytes < most) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        int n = fprintf(file, "{\"id\": %llu, \"text\": \"", (unsigned long long)x);
        for (uint64_t i = 0, count = b->words_max / 19 + x % b->words_max; i < count; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            n += fprintf(file, i % 17 == 16 ? "%s.\\n" : "%s ", words[(x & x >> 32) % 32]);
        }
        n += fprintf(file, "\"}\n");
        bytes += (uint64_t)n;
    }
    (void)fclose(file);
}

static void index_corpus(struct bench *b)
{
    struct lk_dataset_files files;
    struct lk_buf bytes = {0};
    struct lk_err err = {.text = ""};
    if (lk_dataset_list(b->root, &files, &err) != LK_OK)
        die("list", &err);
    struct lk_index_build build = {.files = &files, .opener = lk_file_opener(), .threads = 1};
    if (lk_index_build(&build, &bytes, &err) != LK_OK ||
        lk_index_of_bytes("docs", &bytes, &b->index, &err) != LK_OK)
        die("index", &err);
    lk_dataset_files_done(&files);
    b->data_bytes = 0;
    for (uint32_t i = 0; i < b->index.shards; i++)
        b->data_bytes += b->index.shard[i].data_bytes;
    b->stream.index = &b->index;
}

static void make_corpus(struct bench *b, uint32_t shards, uint32_t words_max, uint64_t bytes)
{
    b->shards = shards;
    b->words_max = words_max;
    for (uint32_t i = 0; i < shards; i++)
        write_shard(b, i, bytes / shards);
    index_corpus(b);
}

static void remove_corpus(struct bench *b)
{
    char path[128];
    for (uint32_t i = 0; i < b->shards; i++) {
        shard_path(b, i, path);
        (void)unlink(path);
    }
    lk_index_close(&b->index);
}

/* Any order, always the same. */
static void shuffle(struct bench *b)
{
    uint64_t x = 88172645463325252u;
    b->order = lk_alloc(b->index.rows * sizeof *b->order);
    for (uint64_t i = 0; i < b->index.rows; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        uint64_t k = x % (i + 1);
        b->order[i] = b->order[k];
        b->order[k] = i;
    }
}

static void load_tokenizer(struct bench *b, const char *vocab, const char *merges)
{
    struct lk_buf main = {0}, more = {0};
    struct lk_err err = {.text = ""};
    if (vocab != NULL && (lk_file_read_all(vocab, 64 << 20, &main, &err) != LK_OK ||
                          lk_file_read_all(merges, 64 << 20, &more, &err) != LK_OK))
        die("tokenizer", &err);
    struct lk_tokenizer_files files = {.kind = vocab == NULL ? LK_TOKENIZER_BYTES
                                                             : LK_TOKENIZER_PAIR,
                                       .main = main.data,
                                       .main_bytes = main.len,
                                       .main_name = vocab,
                                       .merges = more.data,
                                       .merges_bytes = more.len,
                                       .merges_name = merges};
    if (lk_tokenizer_new(&files, &b->tokenizer, &err) != LK_OK)
        die("tokenizer", &err);
    b->recipe.tokenizer = (struct lk_tokenizer_recipe){
        .source = vocab == NULL ? LK_TOKENISE_BYTES : LK_TOKENISE_PAIR,
        .path = (char *)vocab,
        .merges = (char *)merges};
    lk_buf_done(&main);
    lk_buf_done(&more);
}

static void report(const struct bench *b, const char *what, double wall, double here, double workers)
{
    double rows = (double)b->index.rows / 1e6;
    (void)printf("%-10s %3u rows/task %6.2f s wall  %7.2f Mtok/s  %6.1f MB/s of rows  CPU: %.2f s here, "
                 "%.2f s workers (%.2f s in tasks), %.2f + %.2f us a row  sum %016llx\n",
                 what, b->task_rows, wall, (double)b->tokens / wall / 1e6,
                 (double)b->data_bytes / wall / 1e6, here, workers, (double)b->worker_ns * 1e-9,
                 here / rows, workers / rows, (unsigned long long)b->sum);
    (void)fflush(stdout);
}

static void add_row(struct bench *b, const uint32_t *ids, uint32_t n)
{
    b->tokens += n;
    b->sum += lk_hash64(ids, n * sizeof *ids, 0);
}

static void in_process(struct bench *b)
{
    double wall = seconds(), here = cpu(RUSAGE_SELF);
    b->tokens = b->sum = b->worker_ns = 0;
    struct chain *chain = chain_new(b->tokenizer, b->root, b->index.shard[0].name, b->data_bytes);
    struct lk_row_span *span = lk_zalloc(b->task_rows, sizeof *span);
    for (uint64_t row = 0; row < b->index.rows;) {
        uint32_t n = 0;
        for (; n < b->task_rows && row < b->index.rows; n++, row++) {
            struct lk_row_place p = lk_index_place(&b->index, row);
            span[n] = (struct lk_row_span){p.row_in_shard, p.offset, p.bytes, p.hash};
        }
        struct lk_err err = {.text = ""};
        const uint32_t *counts;
        const struct lk_tokens *tokens;
        if (chain_run(chain, span, n, &counts, &tokens, &err) != LK_OK)
            die("chain", &err);
        const uint32_t *ids = tokens->ids;
        for (uint32_t i = 0; i < n; ids += counts[i++])
            add_row(b, ids, counts[i]);
    }
    report(b, "in process", seconds() - wall, cpu(RUSAGE_SELF) - here, 0);
    chain_free(chain);
    free(span);
}

static void submit(struct bench *b);

static void on_done(void *owner, uint64_t n, const struct pool_result *result)
{
    struct bench *b = owner;
    if (result->code != LK_OK) {
        (void)fprintf(stderr, "bench_pool: %s\n", result->detail);
        exit(1);
    }
    for (uint64_t i = 0; i < n; i++)
        add_row(b, result->rows[i].ids, result->rows[i].tokens);
    b->worker_ns += result->cpu_ns;
    b->rows_done += n;
    submit(b);
    if (b->rows_done == b->index.rows)
        loop_stop(b->loop);
}

static void submit(struct bench *b)
{
    if (b->next_row == b->index.rows)
        return;
    uint64_t rows[4096];
    uint32_t n = 0;
    while (n < b->task_rows && b->next_row < b->index.rows)
        rows[n++] = b->order != NULL ? b->order[b->next_row++] : b->next_row++;
    struct pool_task task = {.rows = rows, .n = n, .done = on_done, .owner = b, .tag = n};
    (void)pool_submit(b->pool, &task);
}

static void through_pool(struct bench *b, const char *worker, uint32_t workers)
{
    struct lk_err err = {.text = ""};
    char what[32];
    b->loop = loop_new(NULL);
    struct pool_config config = {.loop = b->loop,
                                 .stream = &b->stream,
                                 .n_streams = 1,
                                 .workers = workers,
                                 .worker_path = worker,
                                 .cache_bytes = 1 << 20,
                                 .task_timeout_ms = 60000};
    double wall = seconds(), here = cpu(RUSAGE_SELF), children = cpu(RUSAGE_CHILDREN);
    b->tokens = b->sum = b->worker_ns = b->next_row = b->rows_done = 0;
    if (pool_open(&config, &b->pool, &err) != LK_OK)
        die("pool", &err);
    for (int i = 0; i < AHEAD; i++)
        submit(b);
    loop_run(b->loop);
    wall = seconds() - wall;
    pool_close(b->pool);
    loop_free(b->loop);
    (void)snprintf(what, sizeof what, "%u worker%s", workers, workers == 1 ? "" : "s");
    report(b, what, wall, cpu(RUSAGE_SELF) - here, cpu(RUSAGE_CHILDREN) - children);
}

int main(int argc, char **argv)
{
    struct bench b = {.dir = "/tmp/lk-bench-XXXXXX"};
    if ((argc != 3 && argc != 5) || mkdtemp(b.dir) == NULL)
        return 2;
    (void)snprintf(b.root, sizeof b.root, "%s/data", b.dir);
    (void)mkdir(b.root, 0700);
    load_tokenizer(&b, argc == 5 ? argv[3] : NULL, argc == 5 ? argv[4] : NULL);
    b.dataset = (struct lk_dataset_recipe){.name = (char *)"docs", .text = (char *)"text"};
    b.recipe.name = (char *)"bench";
    b.recipe.n_datasets = 1;
    b.recipe.dataset = &b.dataset;
    b.roots[0] = b.root;
    b.stream = (struct pool_stream){.recipe = &b.recipe,
                                    .root = b.roots,
                                    .tokenizer_digest = lk_tokenizer_digest(b.tokenizer),
                                    .vocab = lk_tokenizer_vocab(b.tokenizer)};
    uint64_t bytes = strtoull(argv[2], NULL, 10) << 20;
    make_corpus(&b, 1, 900, bytes);
    for (b.task_rows = 16; b.task_rows <= 256; b.task_rows *= 4) {
        in_process(&b);
        through_pool(&b, argv[1], 1);
        through_pool(&b, argv[1], 2);
    }
    remove_corpus(&b);
    make_corpus(&b, SHARDS, 40, bytes / 8);
    shuffle(&b);
    (void)printf("%llu rows of %llu bytes, shuffled, of %u shards:\n", (unsigned long long)b.index.rows,
                 (unsigned long long)(b.data_bytes / b.index.rows), SHARDS);
    for (b.task_rows = 1; b.task_rows <= 256; b.task_rows *= 4)
        through_pool(&b, argv[1], 1);
    remove_corpus(&b);
    free(b.order);
    lk_tokenizer_free(b.tokenizer);
    (void)rmdir(b.root);
    return rmdir(b.dir) != 0;
}
