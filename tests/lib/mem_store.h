/* A store in memory: names and bytes, an opener for them, and faults on demand. */
#ifndef LK_TESTS_LIB_MEM_STORE_H
#define LK_TESTS_LIB_MEM_STORE_H

#include "base/dataset_files.h"
#include "base/mem.h"
#include "base/opener.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct mem_file {
    char *path;
    struct lk_buf bytes;
};

struct mem_store {
    struct mem_file file[64];
    int n;
    int opens;      /* so far */
    int open_now;   /* not yet closed, */
    int open_most;  /* and the most of them at once */
    int fail_reads; /* so many reads from now on are UNAVAILABLE */
    pthread_mutex_t lock;
};

struct mem_source {
    struct lk_source source;
    struct mem_store *store;
    struct mem_file *file;
};

static inline void mem_store_done(struct mem_store *store)
{
    for (int i = 0; i < store->n; i++) {
        free(store->file[i].path);
        lk_buf_done(&store->file[i].bytes);
    }
    memset(store, 0, sizeof *store);
}

static inline struct mem_file *mem_find(struct mem_store *store, const char *path)
{
    for (int i = 0; i < store->n; i++)
        if (strcmp(store->file[i].path, path) == 0)
            return &store->file[i];
    return NULL;
}

static inline void mem_put(struct mem_store *store, const char *path, const void *bytes, size_t n)
{
    struct mem_file *file = mem_find(store, path);
    if (file == NULL) {
        ck_assert_int_lt(store->n, 64);
        file = &store->file[store->n++];
        file->path = lk_strdup(path);
    }
    file->bytes.len = 0;
    lk_buf_put(&file->bytes, bytes, n);
}

static inline enum lk_code mem_read_at(struct lk_source *source, uint64_t offset, void *to,
                                       size_t n, struct lk_err *err)
{
    struct mem_source *s = (struct mem_source *)source;
    if (s->store->fail_reads > 0) {
        s->store->fail_reads--;
        return lk_fail(err, LK_UNAVAILABLE, "%s: byte %llu: no answer", source->name,
                       (unsigned long long)offset);
    }
    if (offset > s->file->bytes.len || n > s->file->bytes.len - offset)
        return lk_fail(err, LK_DATA_LOSS, "%s: cut off", source->name);
    if (n > 0)
        memcpy(to, s->file->bytes.data + offset, n);
    return LK_OK;
}

static inline void mem_close(struct lk_source *source)
{
    struct mem_source *s = (struct mem_source *)source;
    pthread_mutex_lock(&s->store->lock);
    s->store->open_now--;
    pthread_mutex_unlock(&s->store->lock);
    free(s);
}

static inline enum lk_code mem_open(void *owner, const char *path, struct lk_source **ret_source,
                                    struct lk_err *err)
{
    static const struct lk_source_ops ops = {.read_at = mem_read_at, .close = mem_close};
    struct mem_store *store = owner;
    struct mem_file *file = mem_find(store, path);
    if (file == NULL)
        return lk_fail(err, LK_NOT_FOUND, "%s: no such file", path);
    struct mem_source *s = lk_zalloc(1, sizeof *s);
    s->source = (struct lk_source){.ops = &ops, .name = file->path, .bytes = file->bytes.len};
    s->store = store;
    s->file = file;
    pthread_mutex_lock(&store->lock);
    store->opens++;
    store->open_now++;
    if (store->open_now > store->open_most)
        store->open_most = store->open_now;
    pthread_mutex_unlock(&store->lock);
    *ret_source = &s->source;
    return LK_OK;
}

static inline struct lk_opener mem_opener(struct mem_store *store)
{
    return (struct lk_opener){.open = mem_open, .owner = store};
}

static inline int mem_by_path(const void *a, const void *b)
{
    return strcmp(((const struct mem_file *)a)->path, ((const struct mem_file *)b)->path);
}

/* The listing of everything in the store; all paths must begin with @root and a slash. */
static inline struct lk_dataset_files mem_list(struct mem_store *store, const char *root)
{
    struct lk_dataset_files files = {.root = lk_strdup(root), .n = (uint32_t)store->n};
    qsort(store->file, (size_t)store->n, sizeof *store->file, mem_by_path);
    files.names = lk_zalloc(files.n, sizeof *files.names);
    files.codecs = lk_zalloc(files.n, sizeof *files.codecs);
    files.bytes = lk_zalloc(files.n, sizeof *files.bytes);
    for (uint32_t i = 0; i < files.n; i++) {
        size_t stem;
        files.names[i] = lk_strdup(store->file[i].path + strlen(root) + 1);
        files.bytes[i] = store->file[i].bytes.len;
        ck_assert(lk_codec_of_name(files.names[i], &files.codecs[i], &stem));
    }
    return files;
}

#endif
