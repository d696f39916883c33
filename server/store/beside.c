#include "store/beside.h"

#include "store/file.h"

#include <string.h>

enum lk_code lk_file_read_beside(const char *path, const char *name, size_t max_bytes,
                                 char **ret_path, struct lk_buf *out, struct lk_err *err)
{
    const char *slash = strrchr(path, '/');
    int folder = slash != NULL ? (int)(slash - path) + 1 : 0;
    *ret_path = lk_format("%.*s%s", folder, path, name);
    enum lk_code code = lk_file_read_all(*ret_path, max_bytes, out, err);
    return code == LK_NOT_FOUND ? LK_OK : code;
}
