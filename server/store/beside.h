/* A file that may lie beside another one. */
#ifndef LK_STORE_BESIDE_H
#define LK_STORE_BESIDE_H

#include "base/mem.h"
#include "base/status.h"

/*
 * Reads the file called @name in the folder of @path into @out, like lk_file_read_all; that there is
 * none is no error, and leaves @out empty. *ret_path is its path, for messages: for the caller to
 * free, set in any case.
 */
enum lk_code lk_file_read_beside(const char *path, const char *name, size_t max_bytes,
                                 char **ret_path, struct lk_buf *out, struct lk_err *err);

#endif
