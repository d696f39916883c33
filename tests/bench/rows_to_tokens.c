#include "tests/bench/rows_to_tokens.h"

#include "base/mem.h"
#include "host/arena.h"
#include "op/fields.h"
#include "op/tokenise/open.h"
#include "proto/work.h"
#include "store/file.h"
#include "store/list.h"
#include "worker/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TASK_BYTES (64u << 10) /* of rows: what the engine sends once a stream runs */
#define TASK_ROWS 1024u
#define ARENA_BYTES ((uint64_t)256 << 20)
#define ROUNDS 5
#define DATASETS_MAX 16

struct dataset {
    char *root;
    struct lk_index index;
};

struct task {
    uint32_t dataset, shard, n;
    uint64_t first;   /* row of the dataset */
    uint8_t *payload; /* [n] struct lk_work_row */
};

struct setup {
    struct lk_tokenizer_paths paths;
    const char *field;
    struct lk_tokenizer *tokenizer; /* of the pass without rows */
    unsigned n;
    struct dataset *dataset; /* [n] */
    struct task *task;
    uint32_t tasks;
    struct lk_buf text; /* all documents */
    uint64_t *end;      /* [documents] in text */
    uint64_t documents;
    uint64_t *last;     /* [n] documents of the datasets up to this one, itself included */
};

struct pass {
    double seconds;
    uint64_t tokens;
    double tokens_per_s[DATASETS_MAX]; /* of the tokenizer alone, by dataset */
};

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- what both passes have before them ---- */

static enum lk_code index_dataset(const char *path, struct dataset *ret_dataset, struct lk_err *err)
{
    struct lk_dataset_files files;
    struct lk_buf bytes = {0};
    LK_TRY(lk_dataset_list(path, &files, err));
    struct lk_index_build build = {.files = &files, .opener = lk_file_opener(), .threads = 1};
    enum lk_code code = lk_index_build(&build, &bytes, err);
    ret_dataset->root = lk_strdup(files.root);
    lk_dataset_files_done(&files);
    if (code != LK_OK)
        return code;
    return lk_index_of_bytes(path, &bytes, &ret_dataset->index, err);
}

/* The next rows of one shard that make a task. */
static uint32_t task_rows(const struct lk_index *index, uint64_t first)
{
    const struct lk_index_shard *shard = &index->shard[lk_index_place(index, first).shard];
    uint64_t end = shard->first_row + shard->rows, bytes = 0;
    uint32_t n = 0;
    while (first + n < end && n < TASK_ROWS) {
        bytes += lk_index_place(index, first + n).bytes;
        if (n > 0 && bytes > TASK_BYTES)
            break;
        n++;
    }
    return n;
}

static void cut_tasks(struct setup *s, uint32_t dataset)
{
    const struct lk_index *index = &s->dataset[dataset].index;
    for (uint64_t row = 0; row < index->rows;) {
        struct task task = {.dataset = dataset,
                            .shard = lk_index_place(index, row).shard,
                            .n = task_rows(index, row),
                            .first = row};
        task.payload = lk_alloc((size_t)task.n * LK_WORK_ROW_BYTES);
        for (uint32_t i = 0; i < task.n; i++, row++) {
            struct lk_row_place at = lk_index_place(index, row);
            struct lk_work_row wire = {at.row_in_shard, at.offset, at.bytes, at.hash};
            lk_work_row_put(&wire, task.payload + (size_t)i * LK_WORK_ROW_BYTES);
        }
        s->task = lk_resize(s->task, s->tasks + 1, sizeof *s->task);
        s->task[s->tasks++] = task;
    }
}

struct keeping {
    struct setup *setup;
    struct lk_row_reader *reader;
};

static enum lk_code keep_text(void *owner, uint32_t i, const uint8_t *bytes, uint32_t n,
                              struct lk_err *err)
{
    struct keeping *k = owner;
    (void)i;
    LK_TRY(lk_row_read(k->reader, bytes, n, err));
    const struct lk_row_field *text = lk_row_field(k->reader, 0);
    lk_buf_put(&k->setup->text, text->bytes, text->n);
    k->setup->end[k->setup->documents++] = k->setup->text.len;
    return LK_OK;
}

static enum lk_code keep_texts(struct setup *s, struct lk_err *err)
{
    struct lk_shard_cache *cache = lk_shard_cache_new(lk_file_opener(), 16, UINT64_MAX / 2);
    struct keeping keeping = {.setup = s, .reader = lk_row_reader_new(&s->field, 1)};
    struct lk_row_span span[TASK_ROWS];
    enum lk_code code = LK_OK;
    for (uint32_t t = 0; t < s->tasks && code == LK_OK; t++) {
        const struct task *task = &s->task[t];
        const struct dataset *dataset = &s->dataset[task->dataset];
        const struct lk_index_shard *shard = &dataset->index.shard[task->shard];
        for (uint32_t i = 0; i < task->n; i++) {
            struct lk_work_row row = lk_work_row_get(task->payload + (size_t)i * LK_WORK_ROW_BYTES);
            span[i] = (struct lk_row_span){row.row, row.offset, row.bytes, row.hash};
        }
        s->end = lk_resize(s->end, s->documents + task->n, sizeof *s->end);
        code = lk_shard_read_rows(cache, dataset->root, shard->name, shard->codec,
                                  shard->data_bytes, span, task->n, keep_text, &keeping, err);
        s->last[task->dataset] = s->documents;
    }
    lk_row_reader_free(keeping.reader);
    lk_shard_cache_free(cache);
    return code;
}

static enum lk_code setup_fill(struct setup *s, const char *const *paths, struct lk_err *err)
{
    LK_TRY(lk_tokenizer_open(&s->paths, lk_file_read_all, &s->tokenizer, err));
    for (unsigned d = 0; d < s->n; d++) {
        LK_TRY(index_dataset(paths[d], &s->dataset[d], err));
        cut_tasks(s, d);
    }
    return keep_texts(s, err);
}

static void setup_done(struct setup *s)
{
    for (unsigned d = 0; d < s->n; d++) {
        lk_index_close(&s->dataset[d].index);
        free(s->dataset[d].root);
    }
    for (uint32_t t = 0; t < s->tasks; t++)
        free(s->task[t].payload);
    lk_tokenizer_free(s->tokenizer);
    lk_buf_done(&s->text);
    free(s->dataset);
    free(s->task);
    free(s->end);
    free(s->last);
}

/* ---- rows → tokens ---- */

/* What a daemon tells its workers, as it comes off the wire. */
static Lk__WorkerHelloReply *hello_of(const struct setup *s)
{
    Lk__WorkerHelloReply *hello = lk_zalloc(1, sizeof *hello);
    lk__worker_hello_reply__init(hello);
    hello->result_max = (uint64_t)256 << 20;
    hello->n_streams = 1;
    hello->streams = lk_zalloc(1, sizeof(Lk__WorkerStream *));
    Lk__WorkerStream *stream = hello->streams[0] = lk_zalloc(1, sizeof *stream);
    lk__worker_stream__init(stream);
    stream->name = lk_strdup("bench");
    stream->tokenizer_kind = (uint32_t)s->paths.kind;
    stream->tokenizer_path = lk_strdup(s->paths.main);
    stream->tokenizer_digest.len = 16;
    stream->tokenizer_digest.data = lk_alloc(16);
    lk_digest_put(lk_tokenizer_digest(s->tokenizer), stream->tokenizer_digest.data);
    stream->n_datasets = s->n;
    stream->datasets = lk_zalloc(s->n, sizeof(Lk__WorkerDataset *));
    for (unsigned d = 0; d < s->n; d++) {
        Lk__WorkerDataset *dataset = stream->datasets[d] = lk_zalloc(1, sizeof *dataset);
        lk__worker_dataset__init(dataset);
        dataset->name = lk_format("%u", d);
        dataset->root = lk_strdup(s->dataset[d].root);
        dataset->text = lk_strdup(s->field);
    }
    return hello;
}

static enum lk_code run_task(const struct setup *s, const struct task *task, struct streams *streams,
                             struct lk_shard_cache *cache, struct arena *arena,
                             struct task_result *result, struct lk_err *err)
{
    const struct lk_index_shard *shard = &s->dataset[task->dataset].index.shard[task->shard];
    Lk__WorkerTaskReply wire = LK__WORKER_TASK_REPLY__INIT;
    wire.dataset = task->dataset;
    Lk__WorkerShard run = LK__WORKER_SHARD__INIT, *runs[] = {&run};
    run.name = (char *)shard->name;
    run.codec = (uint32_t)shard->codec;
    run.data_bytes = shard->data_bytes;
    run.rows = task->n;
    wire.n_shards = 1;
    wire.shards = runs;
    task_run(streams, cache, &wire, task->payload, (size_t)task->n * LK_WORK_ROW_BYTES, result);
    if (result->err.code != LK_OK) {
        *err = result->err;
        return err->code;
    }
    const uint32_t *ids = result->tokens.ids;
    for (uint32_t i = 0; i < task->n; i++) {
        struct arena_key key = {.row = task->first + i, .dataset = task->dataset};
        uint32_t n = result->row[i].tokens;
        arena_put(arena, key, ids, n);
        ids += n;
    }
    return LK_OK;
}

static enum lk_code pass_rows(const struct setup *s, struct streams *streams,
                              struct lk_shard_cache *cache, struct arena *arena,
                              struct pass *ret_pass, struct lk_err *err)
{
    struct task_result result = {0};
    struct pass pass = {0};
    enum lk_code code = LK_OK;
    double start = now();
    for (uint32_t t = 0; t < s->tasks && code == LK_OK; t++) {
        code = run_task(s, &s->task[t], streams, cache, arena, &result, err);
        pass.tokens += result.tokens.n;
    }
    pass.seconds = now() - start;
    task_result_done(&result);
    *ret_pass = pass;
    return code;
}

/* ---- the tokenizer alone ---- */

static struct pass pass_alone(const struct setup *s, struct lk_encoder *encoder)
{
    struct lk_tokens ids = {0};
    struct pass pass = {0};
    uint64_t at = 0, document = 0;
    for (unsigned d = 0; d < s->n; d++) {
        uint64_t before = pass.tokens;
        double start = now();
        for (; document < s->last[d]; at = s->end[document++]) {
            ids.n = 0;
            if (s->end[document] > at) /* as the chain does */
                lk_encode(encoder, s->text.data + at, (size_t)(s->end[document] - at), &ids);
            pass.tokens += ids.n;
        }
        double seconds = now() - start;
        pass.seconds += seconds;
        pass.tokens_per_s[d] = (double)(pass.tokens - before) / seconds;
    }
    lk_tokens_done(&ids);
    return pass;
}

/* ---- both, in turns ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double value[ROUNDS])
{
    qsort(value, ROUNDS, sizeof *value, by_value);
    return value[ROUNDS / 2];
}

struct round {
    struct pass rows[2], alone[2]; /* cold, warm */
};

static enum lk_code run_round(const struct setup *s, struct round *ret_round, struct lk_err *err)
{
    struct streams *streams = NULL;
    LK_TRY(streams_open(hello_of(s), &streams, err));
    struct lk_shard_cache *cache = lk_shard_cache_new(lk_file_opener(), 64, UINT64_MAX / 2);
    struct arena *arena = arena_new(ARENA_BYTES);
    struct lk_encoder *encoder = lk_encoder_new(s->tokenizer);
    enum lk_code code = LK_OK;
    for (int warm = 0; warm < 2 && code == LK_OK; warm++) {
        code = pass_rows(s, streams, cache, arena, &ret_round->rows[warm], err);
        ret_round->alone[warm] = pass_alone(s, encoder);
        if (code == LK_OK && ret_round->rows[warm].tokens != ret_round->alone[warm].tokens)
            code = lk_fail(err, LK_INTERNAL, "%llu tokens from rows, %llu from their texts",
                           (unsigned long long)ret_round->rows[warm].tokens,
                           (unsigned long long)ret_round->alone[warm].tokens);
    }
    lk_encoder_free(encoder);
    arena_free(arena);
    lk_shard_cache_free(cache);
    streams_close(streams);
    return code;
}

static enum lk_code run_rounds(const struct setup *s, struct lk_err *err)
{
    double rows[2][ROUNDS], alone[2][ROUNDS], share[2][ROUNDS], rate[2][DATASETS_MAX][ROUNDS];
    double megabytes = (double)s->text.len * 1e-6;
    for (int r = 0; r < ROUNDS; r++) {
        struct round round;
        LK_TRY(run_round(s, &round, err));
        for (int warm = 0; warm < 2; warm++) {
            rows[warm][r] = megabytes / round.rows[warm].seconds;
            alone[warm][r] = megabytes / round.alone[warm].seconds;
            share[warm][r] = rows[warm][r] / alone[warm][r];
            for (unsigned d = 0; d < s->n; d++)
                rate[warm][d][r] = round.alone[warm].tokens_per_s[d];
        }
        if (r == 0)
            printf("%llu documents, %.1f MB of text, %llu tokens\n",
                   (unsigned long long)s->documents, megabytes,
                   (unsigned long long)round.rows[0].tokens);
    }
    for (int warm = 0; warm < 2; warm++) {
        printf("%s: rows to tokens %.1f MB of text per CPU-second, tokenizer alone %.1f, share %.3f\n",
               warm ? "warm" : "cold", median(rows[warm]), median(alone[warm]), median(share[warm]));
        for (unsigned d = 0; d < s->n; d++)
            printf("%s: tokenizer alone, dataset %u: %.2f M tokens per CPU-second\n",
                   warm ? "warm" : "cold", d, median(rate[warm][d]) * 1e-6);
    }
    return LK_OK;
}

enum lk_code rows_to_tokens(const char *tokenizer, const char *field, const char *const *datasets,
                            unsigned n_datasets, struct lk_err *err)
{
    struct setup s = {.paths = {.kind = LK_TOKENIZER_HF, .main = tokenizer},
                      .field = field,
                      .n = n_datasets};
    if (n_datasets > DATASETS_MAX)
        return lk_fail(err, LK_INVALID_ARGUMENT, "at most %d datasets", DATASETS_MAX);
    s.dataset = lk_zalloc(n_datasets, sizeof *s.dataset);
    s.last = lk_zalloc(n_datasets, sizeof *s.last);
    enum lk_code code = setup_fill(&s, datasets, err);
    if (code == LK_OK)
        code = run_rounds(&s, err);
    setup_done(&s);
    return code;
}
