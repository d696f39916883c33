/* The files of the counts cache, and the thread that writes them. */
#include "host/counts_private.h"

#include "store/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FILE_MAX_BYTES ((size_t)2 << 30)
#define PRUNE_MS 30000
#define WRONG_SHOWN 10 /* of a shard, each time it is written */

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

uint64_t counts_lengths(const uint32_t *row_bytes, uint64_t rows)
{
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the lengths of rows are hashed as little-endian u32: convert them here"
#endif
    return lk_hash64(row_bytes, rows * sizeof *row_bytes, 0);
}

/* Reading ------------------------------------------------------------------------------------- */

char *counts_path(const char *dir, const struct lk_counts_id *id)
{
    char *name = lk_counts_name(id);
    char *path = lk_format("%s/%s", dir, name);
    free(name);
    return path;
}

void counts_remove(const char *dir, const struct lk_counts_id *id)
{
    char *path = counts_path(dir, id);
    (void)unlink(path); /* another daemon may have done it */
    free(path);
}

void counts_log_damage(const struct log *log, const struct lk_err *err)
{
    log_event(log, LOG_LEVEL_WARN, "counts", "unusable", "reason", err->text, "instead",
              "its rows are measured again", NULL);
}

static enum lk_code read_file(const char *path, size_t max_bytes, struct lk_counts_file *ret_file,
                              struct lk_err *err)
{
    struct lk_buf bytes = {0};
    LK_TRY(lk_file_read_all(path, max_bytes, &bytes, err));
    return lk_counts_parse(path, &bytes, ret_file, err);
}

enum lk_code counts_load(const struct counts_config *config, const struct lk_counts_id *id,
                         size_t max_bytes, struct lk_counts_file *ret_file, struct stat *ret_stat,
                         struct lk_err *err)
{
    char *path = counts_path(config->dir, id);
    struct stat st = {0};
    /* Before it is read: should it be replaced meanwhile, it will look changed, and be read again. */
    enum lk_code code = stat(path, &st) != 0 ? lk_fail(err, LK_NOT_FOUND, "%s", path)
                                             : read_file(path, max_bytes, ret_file, err);
    if (code == LK_OK && !lk_counts_id_equal(&ret_file->id, id)) {
        bool renamed = !lk_digest_equal(ret_file->id.ops, id->ops) ||
                       !lk_digest_equal(ret_file->id.shard, id->shard);
        lk_counts_file_done(ret_file);
        code = renamed ? lk_fail(err, LK_DATA_LOSS, "%s: the name is not that of its contents", path)
                       : lk_fail(err, LK_NOT_FOUND, "%s: of other rows", path);
    }
    if (code == LK_DATA_LOSS && config->write)
        (void)unlink(path);
    else if (code == LK_OK && ret_stat != NULL)
        *ret_stat = st;
    free(path);
    return code;
}

enum lk_code counts_check(const char *path, uint64_t *ret_rows, uint64_t *ret_known,
                          struct lk_err *err)
{
    struct lk_counts_file file;
    const char *slash = strrchr(path, '/');
    LK_TRY(read_file(path, FILE_MAX_BYTES, &file, err));
    char *name = lk_counts_name(&file.id);
    enum lk_code code = LK_OK;
    if (strcmp(name, slash != NULL ? slash + 1 : path) != 0)
        code = lk_fail(err, LK_DATA_LOSS, "%s: the name is not that of its contents, %s", path, name);
    else if (lk_counts_check(&file, err) != LK_OK)
        code = lk_fail_in(err, "%s", path);
    *ret_rows = file.id.rows;
    *ret_known = file.known;
    free(name);
    lk_counts_file_done(&file);
    return code;
}

/* Writing ------------------------------------------------------------------------------------- */

struct counts_writer {
    struct counts_config config;
    bool failing;          /* the last file could not be written; the thread's alone, like the next */
    int64_t pruned_ms;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wake, idle;
    struct counts_job *jobs;
    bool busy, stop;
    int64_t spent_ms;
    struct counts_stats stats;
};

static int by_row(const void *a, const void *b)
{
    const struct counts_news *x = a, *y = b;
    return (x->row > y->row) - (x->row < y->row);
}

bool counts_same(const struct lk_count *a, const struct lk_count *b)
{
    return a->tokens == b->tokens && a->drop == b->drop && a->text_bytes == b->text_bytes &&
           a->specials == b->specials;
}

/* What a round found out, to be added to the stats. */
struct found {
    uint64_t kept, wrong, untold;
};

/* Puts news [from, …) of block @b into @row; how many those were. */
static size_t add_news(struct counts_writer *w, const struct counts_job *job, size_t from, uint32_t b,
                       struct lk_count row[LK_COUNTS_BLOCK], struct found *found)
{
    size_t i = from;
    for (; i < job->n && job->news[i].row / LK_COUNTS_BLOCK == b; i++) {
        struct lk_count *old = &row[job->news[i].row % LK_COUNTS_BLOCK];
        const struct lk_count *new = &job->news[i].count;
        if (old->known && counts_same(old, new))
            continue;
        if (old->known && found->wrong < WRONG_SHOWN)
            log_text(w->config.log, LOG_LEVEL_ERROR, "counts", "wrong",
                     "dataset %s shard %s row %u: %u tokens were kept, measured again it has %u; "
                     "what was made of the former is wrong",
                     job->dataset, job->shard, job->news[i].row, old->tokens, new->tokens);
        found->wrong += old->known;
        found->untold += old->known && !job->news[i].told;
        found->kept += !old->known;
        *old = *new;
    }
    return i - from;
}

/* The shard's file with the news added; nothing when there are none. */
static enum lk_code merge(struct counts_writer *w, const struct counts_job *job,
                          const struct lk_counts_file *old, struct lk_buf *out, struct found *found,
                          struct lk_err *err)
{
    struct lk_counts_build build;
    struct lk_count row[LK_COUNTS_BLOCK];
    enum lk_code code = LK_OK;
    lk_counts_begin(&build, &job->id);
    size_t i = 0;
    for (uint32_t b = 0; b < lk_counts_blocks(job->id.rows) && code == LK_OK; b++) {
        uint64_t before = found->kept + found->wrong;
        size_t n = 0;
        if (i < job->n && job->news[i].row / LK_COUNTS_BLOCK == b) {
            memset(row, 0, sizeof row);
            if (old != NULL)
                code = lk_counts_read(old, b, job->row_bytes, row, err);
            n = code == LK_OK ? add_news(w, job, i, b, row, found) : 0;
        }
        i += n;
        if (found->kept + found->wrong > before)
            lk_counts_put(&build, job->row_bytes, row);
        else
            lk_counts_keep(&build, old);
    }
    if (code == LK_OK && found->kept + found->wrong > 0)
        lk_counts_end(&build, out);
    lk_buf_done(&build.out);
    return code;
}

/* With what is in the file already. A damaged one counts for nothing; one that cannot be read, or that a
 * later version wrote, is left alone. */
static enum lk_code merge_with_file(struct counts_writer *w, struct counts_job *job, struct lk_buf *out,
                            struct found *found, uint64_t *ret_damaged, struct lk_err *err)
{
    struct lk_counts_file old = {0};
    enum lk_code code = counts_load(&w->config, &job->id, FILE_MAX_BYTES, &old, NULL, err);
    if (code == LK_OK) {
        code = merge(w, job, &old, out, found, err);
        if (code == LK_DATA_LOSS) {
            char *path = counts_path(w->config.dir, &job->id);
            (void)lk_fail_in(err, "%s", path);
            free(path);
        }
    }
    lk_counts_file_done(&old);
    if (code == LK_DATA_LOSS) {
        (void)lk_fail_in(err, "the counts of dataset %s, shard %s", job->dataset, job->shard);
        counts_log_damage(w->config.log, err);
        ++*ret_damaged;
    }
    if (code == LK_DATA_LOSS || code == LK_NOT_FOUND) {
        *found = (struct found){0};
        code = merge(w, job, NULL, out, found, err);
    }
    return code;
}

static void write_job(struct counts_writer *w, struct counts_job *job)
{
    struct lk_buf out = {0};
    struct lk_err err;
    struct found found = {0};
    uint64_t damaged = 0;
    qsort(job->news, job->n, sizeof *job->news, by_row);
    job->id.lengths = counts_lengths(job->row_bytes, job->id.rows);
    enum lk_code code = merge_with_file(w, job, &out, &found, &damaged, &err);
    if (code == LK_OK && out.len > 0) {
        char *path = counts_path(w->config.dir, &job->id);
        code = lk_file_write_atomic(path, out.data, out.len, &err);
        free(path);
    }
    if (code != LK_OK && !w->failing)
        log_event(w->config.log, LOG_LEVEL_WARN, "counts", "not_written", "reason", err.text, NULL);
    w->failing = code != LK_OK;
    *job->doubts += found.untold;
    pthread_mutex_lock(&w->mutex);
    w->stats.kept += code == LK_OK ? found.kept : 0;
    w->stats.wrong += found.wrong;
    w->stats.damaged += damaged;
    w->stats.written += code == LK_OK && out.len > 0;
    w->stats.bytes += code == LK_OK ? out.len : 0;
    w->stats.failed += code != LK_OK;
    pthread_mutex_unlock(&w->mutex);
    lk_buf_done(&out);
}

/* Room ---------------------------------------------------------------------------------------- */

struct listed {
    char *name;
    struct timespec time;
    uint64_t bytes;
};

static int by_time(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    if (x->time.tv_sec != y->time.tv_sec)
        return x->time.tv_sec < y->time.tv_sec ? -1 : 1;
    if (x->time.tv_nsec != y->time.tv_nsec)
        return x->time.tv_nsec < y->time.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

static struct listed *list_files(const char *dir, size_t *ret_n, uint64_t *ret_bytes)
{
    struct listed *list = NULL;
    size_t n = 0, cap = 0;
    DIR *open = opendir(dir);
    *ret_bytes = 0;
    for (struct dirent *entry; open != NULL && (entry = readdir(open)) != NULL;) {
        struct stat st;
        if (!lk_counts_is_name(entry->d_name) ||
            fstatat(dirfd(open), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (n == cap) {
            cap = cap == 0 ? 64 : 2 * cap;
            list = lk_resize(list, cap, sizeof *list);
        }
        list[n++] = (struct listed){
            .name = lk_strdup(entry->d_name), .time = st.st_mtim, .bytes = (uint64_t)st.st_size};
        *ret_bytes += (uint64_t)st.st_size;
    }
    if (open != NULL)
        closedir(open);
    *ret_n = n;
    return list;
}

/* The files that were written longest ago go. */
static void prune(struct counts_writer *w)
{
    size_t n;
    uint64_t bytes, removed = 0;
    struct listed *list = list_files(w->config.dir, &n, &bytes);
    if (n > 0 && bytes > w->config.disk_bytes)
        qsort(list, n, sizeof *list, by_time);
    for (size_t i = 0; i < n; i++) {
        if (bytes > w->config.disk_bytes) {
            char *path = lk_format("%s/%s", w->config.dir, list[i].name);
            removed += unlink(path) == 0;
            bytes -= list[i].bytes;
            free(path);
        }
        free(list[i].name);
    }
    free(list);
    pthread_mutex_lock(&w->mutex);
    w->stats.removed += removed;
    pthread_mutex_unlock(&w->mutex);
}

/* The thread ---------------------------------------------------------------------------------- */

static void write_round(struct counts_writer *w, struct counts_job *jobs, bool last)
{
    for (struct counts_job *job = jobs, *next; job != NULL; job = next) {
        next = job->next;
        write_job(w, job);
        free(job->news);
        free(job);
    }
    int64_t now = now_ms();
    if (last || w->pruned_ms == 0 || now - w->pruned_ms >= PRUNE_MS) {
        prune(w);
        w->pruned_ms = now;
    }
}

static void *write_rounds(void *arg)
{
    struct counts_writer *w = arg;
    pthread_mutex_lock(&w->mutex);
    while (!w->stop || w->jobs != NULL) {
        struct counts_job *jobs = w->jobs;
        if (jobs == NULL) {
            w->busy = false;
            pthread_cond_broadcast(&w->idle);
            pthread_cond_wait(&w->wake, &w->mutex);
            continue;
        }
        w->jobs = NULL;
        bool last = w->stop;
        pthread_mutex_unlock(&w->mutex);
        int64_t began = now_ms();
        write_round(w, jobs, last);
        pthread_mutex_lock(&w->mutex);
        w->spent_ms = now_ms() - began;
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

static void writer_release(struct counts_writer *w)
{
    pthread_cond_destroy(&w->wake);
    pthread_cond_destroy(&w->idle);
    pthread_mutex_destroy(&w->mutex);
    free(w);
}

struct counts_writer *writer_new(const struct counts_config *config, struct lk_err *err)
{
    struct counts_writer *w = lk_zalloc(1, sizeof *w);
    w->config = *config;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->wake, NULL);
    pthread_cond_init(&w->idle, NULL);
    int error = pthread_create(&w->thread, NULL, write_rounds, w);
    if (error == 0)
        return w;
    writer_release(w);
    (void)lk_fail(err, LK_RESOURCE_EXHAUSTED, "cannot start the thread that writes counts: %s", strerror(error));
    return NULL;
}

void writer_free(struct counts_writer *w)
{
    if (w == NULL)
        return;
    pthread_mutex_lock(&w->mutex);
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mutex);
    (void)pthread_join(w->thread, NULL);
    writer_release(w);
}

void writer_give(struct counts_writer *w, struct counts_job *jobs)
{
    struct counts_job **last = &jobs;
    while (*last != NULL)
        last = &(*last)->next;
    pthread_mutex_lock(&w->mutex);
    *last = w->jobs;
    w->jobs = jobs;
    w->busy = w->busy || jobs != NULL;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mutex);
}

int64_t writer_spent_ms(struct counts_writer *w)
{
    pthread_mutex_lock(&w->mutex);
    int64_t spent = w->busy ? -1 : w->spent_ms;
    pthread_mutex_unlock(&w->mutex);
    return spent;
}

void writer_wait(struct counts_writer *w)
{
    pthread_mutex_lock(&w->mutex);
    while (w->busy)
        pthread_cond_wait(&w->idle, &w->mutex);
    pthread_mutex_unlock(&w->mutex);
}

void writer_stats(struct counts_writer *w, struct counts_stats *stats)
{
    pthread_mutex_lock(&w->mutex);
    stats->kept += w->stats.kept;
    stats->wrong += w->stats.wrong;
    stats->damaged += w->stats.damaged;
    stats->written += w->stats.written;
    stats->bytes += w->stats.bytes;
    stats->failed += w->stats.failed;
    stats->removed += w->stats.removed;
    pthread_mutex_unlock(&w->mutex);
}
