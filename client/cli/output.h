/*
 * What goes to standard output: built whole in memory, then written once and checked, so that a full
 * disk or a closed pipe never looks like success.
 */
#ifndef LK_CLIENT_CLI_OUTPUT_H
#define LK_CLIENT_CLI_OUTPUT_H

#include "base/digest.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes and empties @out. False, with a word on standard error, when that failed. */
bool output_flush(struct lk_buf *out);

/* ---- for people ---- */

void put_count(struct lk_buf *out, uint64_t n);            /* 1,234,567 */
void put_bytes(struct lk_buf *out, uint64_t bytes);        /* 512 B, 1.4 MiB */
void put_percent(struct lk_buf *out, uint64_t part, uint64_t whole); /* 12.34 %; - of nothing */
void put_hex(struct lk_buf *out, struct lk_digest digest);

/* Text of unknown origin on a terminal: valid UTF-8 as it is, control characters but for line ends
 * and tabs, and bytes that are no UTF-8, as \xNN. */
void put_safe(struct lk_buf *out, const void *bytes, size_t n);

/* ---- JSON: a member with its key. @more: not the first, so a comma goes before it ---- */

void json_key(struct lk_buf *out, bool more, const char *key);
void json_text(struct lk_buf *out, bool more, const char *key, const char *text);
void json_u64(struct lk_buf *out, bool more, const char *key, uint64_t value);
void json_bool(struct lk_buf *out, bool more, const char *key, bool value);
void json_digest(struct lk_buf *out, bool more, const char *key, struct lk_digest digest);

#endif
