#include "host/stream.h"

#include "config/canonical.h"
#include "host/pool.h"
#include "op/tokenise/open.h"
#include "store/file.h"
#include "store/list.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum lk_tokenizer_kind stream_tokenizer_kind(enum lk_tokenizer_source source)
{
    static const enum lk_tokenizer_kind kind[] = {
        [LK_TOKENISE_BYTES] = LK_TOKENIZER_BYTES,
        [LK_TOKENISE_HF] = LK_TOKENIZER_HF,
        [LK_TOKENISE_PAIR] = LK_TOKENIZER_PAIR,
        [LK_TOKENISE_TIKTOKEN] = LK_TOKENIZER_TIKTOKEN,
    };
    return kind[source];
}

enum lk_special_in_text stream_special_in_text(enum lk_specials specials)
{
    static const enum lk_special_in_text special[] = {
        [LK_SPECIALS_SPLIT] = LK_SPECIAL_SPLIT,
        [LK_SPECIALS_TEXT] = LK_SPECIAL_TEXT,
        [LK_SPECIALS_ERROR] = LK_SPECIAL_ERROR,
    };
    return special[specials];
}

struct lk_tokenizer_paths stream_tokenizer_paths(const struct lk_tokenizer_recipe *recipe)
{
    return (struct lk_tokenizer_paths){
        .kind = stream_tokenizer_kind(recipe->source),
        .special_in_text = stream_special_in_text(recipe->special_in_text),
        .main = recipe->path,
        .merges = recipe->merges,
        .scheme = recipe->scheme,
    };
}

enum lk_code stream_tokenizer(const struct lk_recipe *recipe, struct lk_tokenizer **ret_tokenizer,
                              struct lk_err *err)
{
    struct lk_tokenizer_paths paths = stream_tokenizer_paths(&recipe->tokenizer);
    struct stat st;
    enum lk_code code = lk_tokenizer_open(&paths, lk_file_read_all, ret_tokenizer, err);
    if (code == LK_OK || paths.kind != LK_TOKENIZER_HF || (stat(paths.main, &st) == 0 && S_ISREG(st.st_mode)))
        return code;
    char *told = lk_strdup(err->text); /* a model's folder, or the name of one in a hub, is what others take here */
    (void)lk_fail(err, code, "%s (hf: is the path of a tokenizer.json; nothing is downloaded)", told);
    free(told);
    return code;
}

static enum lk_code find_token(const struct stream *stream, const char *key, const char *text,
                               bool *ret_has, uint32_t *ret_id, struct lk_err *err)
{
    if (text == NULL)
        return LK_OK;
    if (lk_tokenizer_find(stream->tokenizer, text, ret_id, err) != LK_OK)
        return lk_fail_in(err, "stream %s: tokenizer.%s", stream->recipe->name, key);
    *ret_has = true;
    return LK_OK;
}

/* What mends an index is one command, however it came to be missing, damaged, or of other data. */
static enum lk_code say_command(const struct lk_config *config, const char *what, struct lk_err *err)
{
    char *told = lk_strdup(err->text);
    (void)lk_fail(err, err->code, "%s; %s: `lanekeeper index %s`", told, what, config->path);
    free(told);
    return err->code;
}

enum lk_code stream_index(const struct lk_config *config, const struct lk_dataset_recipe *dataset,
                          struct lk_index *ret_index, struct lk_err *err)
{
    char *path = lk_config_index_path(config, dataset);
    enum lk_code code = lk_index_open(path, ret_index, err);
    free(path);
    if (code == LK_NOT_FOUND)
        return say_command(config, "make it", err);
    return code == LK_DATA_LOSS ? say_command(config, "make it anew", err) : code;
}

/* Other data are another stream: whoever indexes anew ought to know it before. */
static enum lk_code check_listing(const struct lk_config *config, const struct lk_index *index,
                                  const struct lk_dataset_files *files, struct lk_err *err)
{
    if (lk_index_check_listing(index, files, err) == LK_OK)
        return LK_OK;
    return say_command(config, "bring them back, or index them anew, which makes them another stream than the one "
                               "that checkpoints are of", err);
}

static enum lk_code open_dataset(struct stream *stream, const struct lk_config *config, uint32_t d,
                                 struct lk_err *err)
{
    const struct lk_dataset_recipe *dataset = &stream->recipe->dataset[d];
    struct lk_dataset_files files = {0};
    char real[PATH_MAX];
    enum lk_code code = stream_index(config, dataset, &stream->index[d], err);

    if (code == LK_OK)
        code = lk_dataset_list(dataset->path, &files, err);
    if (code == LK_OK) {
        stream->root[d] = lk_strdup(realpath(files.root, real) != NULL ? real : files.root);
        code = check_listing(config, &stream->index[d], &files, err);
    }
    lk_dataset_files_done(&files);
    if (code != LK_OK)
        return lk_fail_in(err, "stream %s, dataset %s", stream->recipe->name, dataset->name);
    stream_shape(stream, d);
    return LK_OK;
}

static void make_digests(struct stream *stream)
{
    uint32_t n = stream->recipe->n_datasets;
    struct lk_digest *datasets = lk_zalloc(n, sizeof *datasets);
    for (uint32_t d = 0; d < n; d++)
        datasets[d] = stream->index[d].digest;
    lk_recipe_digests(stream->recipe, datasets, lk_tokenizer_digest(stream->tokenizer),
                      &stream->order, &stream->digest);
    free(datasets);
    stream->ops = lk_zalloc(n, sizeof *stream->ops);
    for (uint32_t d = 0; d < n; d++)
        stream->ops[d] = lk_recipe_ops_digest(stream->recipe, d, lk_tokenizer_digest(stream->tokenizer));
}

static void make_summary(struct stream *stream)
{
    const struct lk_recipe *recipe = stream->recipe;
    bool all_release = true, any_stop = false;
    for (uint32_t d = 0; d < recipe->n_datasets; d++) {
        all_release = all_release && recipe->dataset[d].then == LK_THEN_RELEASE;
        any_stop = any_stop || recipe->dataset[d].then == LK_THEN_STOP;
    }
    stream->finite = all_release || any_stop;
    for (uint32_t i = 0; i < recipe->n_batches; i++)
        if (recipe->batch[i].size > stream->batch_max)
            stream->batch_max = recipe->batch[i].size;
}

enum lk_code stream_open(const struct lk_config *config, uint32_t number, struct stream *ret_stream,
                         struct lk_err *err)
{
    const struct lk_recipe *recipe = &config->stream[number];
    uint32_t n = recipe->n_datasets;
    struct stream stream = {.recipe = recipe, .number = number};
    enum lk_code code = LK_OK;

    stream.index = lk_zalloc(n, sizeof *stream.index);
    stream.root = lk_zalloc(n, sizeof *stream.root);
    stream.shape = lk_zalloc(n, sizeof *stream.shape);
    stream.shard_first = lk_zalloc(n, sizeof *stream.shard_first);
    for (uint32_t d = 0; d < n && code == LK_OK; d++)
        code = open_dataset(&stream, config, d, err);
    if (code == LK_OK && (code = stream_tokenizer(recipe, &stream.tokenizer, err)) != LK_OK)
        (void)lk_fail_in(err, "stream %s, tokenizer", recipe->name);
    if (code == LK_OK)
        code = find_token(&stream, "append", recipe->tokenizer.append, &stream.has_append,
                          &stream.append, err);
    if (code == LK_OK)
        code = find_token(&stream, "prepend", recipe->tokenizer.prepend, &stream.has_prepend,
                          &stream.prepend, err);
    if (code == LK_OK && recipe->pad_id >= lk_tokenizer_vocab(stream.tokenizer))
        code = lk_fail(err, LK_INVALID_ARGUMENT,
                       "stream %s: pad_id: expected an id of the tokenizer, below %u, found %u",
                       recipe->name, lk_tokenizer_vocab(stream.tokenizer), recipe->pad_id);
    if (code == LK_OK)
        code = plan_init(&stream.plan, recipe, stream.shape, err);
    if (code != LK_OK) {
        stream_done(&stream);
        return code;
    }
    make_digests(&stream);
    make_summary(&stream);
    *ret_stream = stream;
    return LK_OK;
}

void stream_done(struct stream *stream)
{
    uint32_t n = stream->recipe != NULL ? stream->recipe->n_datasets : 0;
    for (uint32_t d = 0; d < n; d++) {
        lk_index_close(&stream->index[d]);
        free(stream->root[d]);
        free(stream->shard_first[d]);
    }
    free(stream->index);
    free(stream->root);
    free(stream->shape);
    free(stream->shard_first);
    free(stream->ops);
    plan_done(&stream->plan);
    lk_tokenizer_free(stream->tokenizer);
    *stream = (struct stream){0};
}

void stream_for_pool(const struct stream *stream, struct pool_stream *ret_stream)
{
    *ret_stream = (struct pool_stream){
        .recipe = stream->recipe,
        .index = stream->index,
        .root = (const char *const *)stream->root,
        .tokenizer_digest = lk_tokenizer_digest(stream->tokenizer),
        .has_append = stream->has_append,
        .has_prepend = stream->has_prepend,
        .append = stream->append,
        .prepend = stream->prepend,
        .vocab = lk_tokenizer_vocab(stream->tokenizer),
    };
}

uint64_t stream_worker_cache(const struct lk_runtime *runtime)
{
    return runtime->cache_bytes / (runtime->workers > 0 ? runtime->workers : 1);
}

enum lk_code stream_check_cache(const struct stream *stream, const struct lk_runtime *runtime,
                                struct lk_err *err)
{
    uint64_t budget = stream_worker_cache(runtime), mib = 1u << 20;
    uint32_t workers = runtime->workers > 0 ? runtime->workers : 1, of = 0;
    const struct lk_index_shard *largest = NULL; /* so that mending it mends all */
    for (uint32_t d = 0; d < stream->recipe->n_datasets; d++)
        for (uint32_t i = 0; i < stream->index[d].shards; i++) {
            const struct lk_index_shard *shard = &stream->index[d].shard[i];
            bool decoded = shard->codec != LK_CODEC_PLAIN && shard->data_bytes > budget;
            if (decoded && (largest == NULL || shard->data_bytes > largest->data_bytes)) {
                largest = shard;
                of = d;
            }
        }
    if (largest == NULL)
        return LK_OK;
    return lk_fail(err, LK_FAILED_PRECONDITION,
                   "dataset %s, shard %s: has %llu bytes when decoded, and each of %u workers may hold %llu: set "
                   "runtime.cache to at least %lluMiB, or have fewer workers, or smaller shards",
                   stream->recipe->dataset[of].name, largest->name, (unsigned long long)largest->data_bytes, workers,
                   (unsigned long long)budget,
                   (unsigned long long)((largest->data_bytes * workers + mib - 1) / mib));
}
