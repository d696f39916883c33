/*
 * Documents out of what a person names on a command line: text files, each one document, or shards, of
 * which each row is one. "-" is standard input; so is no name at all.
 */
#ifndef LK_CLIENT_CLI_DOCUMENTS_H
#define LK_CLIENT_CLI_DOCUMENTS_H

#include "base/status.h"
#include "client/cli/progress.h"

#include <stddef.h>
#include <stdint.h>

struct document {
    const uint8_t *text; /* valid UTF-8; during the call only */
    size_t n;
};

/* What it returns other than OK ends the reading; its error gets the place put before it. */
typedef enum lk_code document_each(void *owner, const struct document *document, struct lk_err *err);

struct documents {
    const char *field; /* rows: the dotted path of their text; NULL: text files */
    document_each *each;
    void *owner;
};

/*
 * Reads @n @paths in order. Rows: a path may also be a folder or a pattern of shards, and shards may be
 * compressed. Errors name file, row (from 0, without blank lines) and byte; a text that is no UTF-8 is
 * one. A text file of 4 GiB or more is OUT_OF_RANGE. What is no regular file is read as it comes.
 */
enum lk_code documents_read(const struct documents *documents, const char *const *paths, uint32_t n,
                            struct progress *progress, struct lk_err *err);

#endif
