/* What counts.c (memory, the caller's thread) and counts_files.c (files, the writer's thread) share. */
#ifndef LK_HOST_COUNTS_PRIVATE_H
#define LK_HOST_COUNTS_PRIVATE_H

#include "host/counts.h"

#include <sys/stat.h>

/* A row to be written. */
struct counts_news {
    uint32_t row; /* in the shard */
    bool told;    /* that it contradicts what was kept: counts_doubts has it */
    struct lk_count count;
};

/* The news of one shard. */
struct counts_job {
    struct counts_job *next;
    struct lk_counts_id id;     /* without lengths */
    const uint32_t *row_bytes;  /* [rows] */
    const char *dataset, *shard;
    struct counts_news *news;   /* [n] owned */
    size_t n;
    _Atomic uint64_t *doubts;   /* of its set: contradictions that were not told */
};

char *counts_path(const char *dir, const struct lk_counts_id *id); /* caller frees */
bool counts_same(const struct lk_count *a, const struct lk_count *b);
uint64_t counts_lengths(const uint32_t *row_bytes, uint64_t rows);

/* The file of a shard. NOT_FOUND, also when it is of other rows; DATA_LOSS: it was damaged, and is removed
 * to make room for a whole one, where files are written; FAILED_PRECONDITION: of another version; and what store/file.h says.
 * *ret_stat, which may be NULL, is set when OK. */
enum lk_code counts_load(const struct counts_config *config, const struct lk_counts_id *id,
                         size_t max_bytes, struct lk_counts_file *ret_file, struct stat *ret_stat,
                         struct lk_err *err);
void counts_log_damage(const struct log *log, const struct lk_err *err);
/* It turned out damaged in use. */
void counts_remove(const char *dir, const struct lk_counts_id *id);

struct counts_writer;
/* NULL: its thread cannot be started. */
struct counts_writer *writer_new(const struct counts_config *config, struct lk_err *err);
void writer_free(struct counts_writer *writer); /* after it has written all; NULL is fine */
/* Takes the jobs, a list. */
void writer_give(struct counts_writer *writer, struct counts_job *jobs);
/* Milliseconds that the last round took; -1 while it has something to do. */
int64_t writer_spent_ms(struct counts_writer *writer);
void writer_wait(struct counts_writer *writer);
void writer_stats(struct counts_writer *writer, struct counts_stats *stats); /* adds to them */

#endif
