/*
 * One input of a command, read from its beginning to its end: a file, a pipe, or standard input ("-").
 */
#ifndef LK_CLIENT_CLI_INPUT_H
#define LK_CLIENT_CLI_INPUT_H

#include "base/source.h"
#include "format/decoder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input {
    const char *path; /* borrowed */
    int fd;           /* what is read as it is, or -1 */
    uint64_t at;
    struct lk_source *source; /* of a compressed shard */
    struct lk_decoder *decoder;
};

/* @decode: a name that ends as a compressed shard's does is decompressed. Errors name the path. */
enum lk_code input_open(struct input *input, const char *path, bool decode, struct lk_err *err);
void input_close(struct input *input);

/* The next bytes, at most @n of them; 0 at the end. */
enum lk_code input_read(struct input *input, void *to, size_t n, size_t *ret_got, struct lk_err *err);
uint64_t input_at(const struct input *input); /* how many stored bytes have been read */

/* For messages: the path, or "standard input". */
const char *input_name(const struct input *input);

/* ---- of a path, before it is opened ---- */

bool input_is_many(const char *path);      /* a folder, or a pattern */
uint64_t input_bytes(const char *path);    /* of a regular file; else 0 */

#endif
