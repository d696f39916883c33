/*
 * How a format gets at files without knowing a store: whoever wires the program up passes this in.
 */
#ifndef LK_BASE_OPENER_H
#define LK_BASE_OPENER_H

#include "base/source.h"

struct lk_opener {
    /* Opens what @path names for reading; the caller closes it. May be called by several threads
     * at once. NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE, … with @path in the text. */
    enum lk_code (*open)(void *owner, const char *path, struct lk_source **ret_source,
                         struct lk_err *err);
    void *owner;
};

static inline enum lk_code lk_open(struct lk_opener opener, const char *path,
                                   struct lk_source **ret_source, struct lk_err *err)
{
    return opener.open(opener.owner, path, ret_source, err);
}

#endif
