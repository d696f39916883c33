/*
 * What goes to standard output, or a file: built in memory, written and checked, so that a full disk or a
 * closed pipe never looks like success.
 */
#ifndef LK_CLIENT_CLI_OUTPUT_H
#define LK_CLIENT_CLI_OUTPUT_H

#include "base/digest.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes and empties @out. False, with a word on standard error, when that failed. */
bool output_flush(struct lk_buf *out);

/* Where the output of a command goes that may be too large to hold. */
struct output {
    const char *path;           /* NULL: standard output; borrowed */
    struct lk_writing *writing; /* of a regular file, which appears as a whole or not at all */
    int fd;                     /* of anything else, or -1 */
};

enum lk_code output_open(struct output *output, const char *path, struct lk_err *err);
/* Writes and empties @out. */
enum lk_code output_put(struct output *output, struct lk_buf *out, struct lk_err *err);
/* After output_open, whatever came of it: writes the rest, and gives a file its name when that went well
 * and @code, which is how the work ended, is OK. Else nothing of a file stays. Returns the first failure. */
enum lk_code output_end(struct output *output, struct lk_buf *out, enum lk_code code, struct lk_err *err);

/* ---- for people ---- */

void put_count(struct lk_buf *out, uint64_t n);            /* 1,234,567 */
void put_bytes(struct lk_buf *out, uint64_t bytes);        /* 512 B, 1.4 MiB */
void put_percent(struct lk_buf *out, uint64_t part, uint64_t whole); /* 12.34 %; - of nothing */
void put_hex(struct lk_buf *out, struct lk_digest digest);

/* Text of unknown origin on a terminal: valid UTF-8 as it is, control characters but for line ends
 * and tabs, and bytes that are no UTF-8, as \xNN. */
void put_safe(struct lk_buf *out, const void *bytes, size_t n);

/* The bytes of a token in double quotes: as put_safe, with line ends and tabs as \n, \r and \t, and \
 * before quotes and itself. Nothing is lost: another token looks different. */
void put_quoted(struct lk_buf *out, const void *bytes, size_t n);

/* ---- JSON: a member with its key. @more: not the first, so a comma goes before it ---- */

void json_key(struct lk_buf *out, bool more, const char *key);
void json_text(struct lk_buf *out, bool more, const char *key, const char *text);
void json_u64(struct lk_buf *out, bool more, const char *key, uint64_t value);
void json_bool(struct lk_buf *out, bool more, const char *key, bool value);
void json_digest(struct lk_buf *out, bool more, const char *key, struct lk_digest digest);

#endif
