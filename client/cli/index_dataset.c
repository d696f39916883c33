#include "client/cli/index_dataset.h"

#include "client/cli/progress.h"
#include "format/index.h"
#include "store/file.h"
#include "store/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { IGNORED_SHOWN = 20 };

static void tell_ignored(const struct lk_dataset_files *files)
{
    for (uint32_t i = 0; i < files->n_ignored && i < IGNORED_SHOWN; i++)
        (void)fprintf(stderr, "lanekeeper: ignored %s/%s: no *.jsonl, *.jsonl.gz or *.jsonl.zst\n",
                      files->root, files->ignored[i]);
    if (files->n_ignored > IGNORED_SHOWN)
        (void)fprintf(stderr, "lanekeeper: ignored %u more files\n",
                      files->n_ignored - IGNORED_SHOWN);
}

/* The directories above @path, those that are missing. */
static enum lk_code make_dirs(const char *path, struct lk_err *err)
{
    char *dir = lk_strdup(path);
    enum lk_code code = LK_OK;

    for (char *slash = strchr(dir + (*dir != '\0'), '/'); slash != NULL && code == LK_OK;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(dir, 0777) != 0 && errno != EEXIST)
            code = lk_file_fail(err, errno, "cannot make directory", dir);
        *slash = '/';
    }
    free(dir);
    return code;
}

static enum lk_code make(const struct lk_index_build *build, const char *out, struct lk_err *err)
{
    struct lk_buf bytes = {0};
    enum lk_code code = make_dirs(out, err);
    if (code == LK_OK)
        code = lk_index_build(build, &bytes, err);
    if (code == LK_OK)
        code = lk_file_write_atomic(out, bytes.data, bytes.len, err);
    lk_buf_done(&bytes);
    return code;
}

static void sum_up(const struct lk_index *index, struct lk_index_result *result)
{
    *result = (struct lk_index_result){
        .shards = index->shards, .rows = index->rows, .digest = index->digest};
    for (uint32_t i = 0; i < index->shards; i++) {
        result->file_bytes += index->shard[i].file_bytes;
        result->data_bytes += index->shard[i].data_bytes;
    }
}

/* What is on the disk is opened again: the result is of that, not of what should be there. */
static enum lk_code run(const struct lk_index_build *build, const char *out, bool verify,
                        struct lk_index_result *ret_result, struct lk_err *err)
{
    struct lk_index index = {0};

    if (!verify)
        LK_TRY(make(build, out, err));
    LK_TRY(lk_index_open(out, &index, err));
    enum lk_code code = verify ? lk_index_verify(&index, build, err) : LK_OK;
    if (code == LK_OK)
        sum_up(&index, ret_result);
    lk_index_close(&index);
    return code;
}

enum lk_code lk_index_dataset(const char *const *paths, uint32_t n, const char *out,
                              const struct lk_index_options *options,
                              struct lk_index_result *ret_result, struct lk_err *err)
{
    struct lk_dataset_files files = {0};
    struct progress progress;

    LK_TRY(lk_dataset_list_all(paths, n, &files, err));
    tell_ignored(&files);
    progress_init(&progress, paths[0]);
    struct lk_index_build build = {.files = &files,
                                   .opener = lk_file_opener(),
                                   .threads = options->threads,
                                   .progress = progress_hook(&progress)};
    enum lk_code code = run(&build, out, options->verify, ret_result, err);
    if (code == LK_OK)
        ret_result->nanoseconds = progress_now_ns() - progress.began_ns;
    progress_done(&progress);
    lk_dataset_files_done(&files);
    return code;
}
