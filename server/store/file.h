/*
 * Local files: opened for reading at any offset, read whole, replaced whole.
 *
 * Codes: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (disk full, descriptor limit),
 * INVALID_ARGUMENT (not a regular file), UNAVAILABLE (I/O errors that retries did not cure),
 * DATA_LOSS (the file changed its size while it was open). Every text names the path.
 */
#ifndef LK_STORE_FILE_H
#define LK_STORE_FILE_H

#include "base/mem.h"
#include "base/opener.h"

/* Reads are retried LK_FILE_TRIES times in all, with pauses of 1, 10, 100 ms between them. */
#define LK_FILE_TRIES 4

/* A regular file (or a link to one). Its size is taken now, and a change of it is noticed by every
 * later read. The descriptor is not inherited. */
enum lk_code lk_file_open(const char *path, struct lk_source **ret_source, struct lk_err *err);

/* lk_file_open in the form that formats take. */
struct lk_opener lk_file_opener(void);

/* Replaces the contents of @out by the whole file; refused above @max_bytes, naming both sizes. On
 * failure @out is empty. */
enum lk_code lk_file_read_all(const char *path, size_t max_bytes, struct lk_buf *out,
                              struct lk_err *err);

/* Writes @path as a whole or not at all: an unnamed (or temporary) file in the same directory,
 * fsync, rename, fsync of the directory. Readers of the old file keep it. After kill -9 no part of
 * it is left where the file system has unnamed files (O_TMPFILE); elsewhere a name that begins with
 * ".lanekeeper-" may be. */
enum lk_code lk_file_write_atomic(const char *path, const void *data, size_t n,
                                  struct lk_err *err);

/* The same in pieces, for what is too large to hold: begin, put …, then either of end (which names the
 * file) and abandon (which leaves nothing); both free it. @writing is good for end only after OK. */
struct lk_writing;
enum lk_code lk_file_begin(const char *path, struct lk_writing **ret_writing, struct lk_err *err);
enum lk_code lk_file_put(struct lk_writing *writing, const void *data, size_t n, struct lk_err *err);
enum lk_code lk_file_end(struct lk_writing *writing, struct lk_err *err);
void lk_file_abandon(struct lk_writing *writing); /* NULL is fine */

/* @code for an errno value, and a text "<what> <path>: <reason>" in @err. */
enum lk_code lk_file_fail(struct lk_err *err, int error, const char *what, const char *path);

#endif
