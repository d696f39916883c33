/*
 * The seam between a store (names → bytes) and a format (bytes → rows): something of known size
 * that can be read at any offset. Stores make them, formats know nothing else, tests use memory.
 */
#ifndef LK_BASE_SOURCE_H
#define LK_BASE_SOURCE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct lk_source;

struct lk_source_ops {
    /* Reads exactly @n bytes at @offset into @to, or fails: a short read is an error that names the
     * source and the offset. Transient failures have been retried before this returns UNAVAILABLE. */
    enum lk_code (*read_at)(struct lk_source *source, uint64_t offset, void *to, size_t n,
                            struct lk_err *err);
    void (*close)(struct lk_source *source); /* frees it */
};

/* Embedded first in a store's own struct. One thread at a time. */
struct lk_source {
    const struct lk_source_ops *ops;
    const char *name; /* for messages; owned by the store */
    uint64_t bytes;   /* size when it was opened */
};

static inline enum lk_code lk_source_read(struct lk_source *source, uint64_t offset, void *to,
                                          size_t n, struct lk_err *err)
{
    return source->ops->read_at(source, offset, to, n, err);
}

static inline void lk_source_close(struct lk_source *source)
{
    if (source != NULL)
        source->ops->close(source);
}

#endif
