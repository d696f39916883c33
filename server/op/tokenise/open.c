#include "op/tokenise/open.h"

#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)256 << 20)

struct opened {
    struct lk_buf main, merges, config;
    char *config_name;
};

static enum lk_code read_config(const char *main, lk_read_file *read, struct opened *to,
                                struct lk_err *err)
{
    const char *slash = strrchr(main, '/');
    int folder = slash != NULL ? (int)(slash - main) + 1 : 0;
    to->config_name = lk_format("%.*stokenizer_config.json", folder, main);
    enum lk_code code = read(to->config_name, FILE_MAX, &to->config, err);
    return code == LK_NOT_FOUND ? LK_OK : code;
}

static enum lk_code read_all(const struct lk_tokenizer_paths *paths, lk_read_file *read,
                             struct opened *to, struct lk_err *err)
{
    if (paths->kind == LK_TOKENIZER_BYTES)
        return LK_OK;
    LK_TRY(read(paths->main, FILE_MAX, &to->main, err));
    if (paths->kind == LK_TOKENIZER_PAIR)
        return read(paths->merges, FILE_MAX, &to->merges, err);
    return read_config(paths->main, read, to, err);
}

enum lk_code lk_tokenizer_open(const struct lk_tokenizer_paths *paths, lk_read_file *read,
                               struct lk_tokenizer **ret_tokenizer, struct lk_err *err)
{
    struct opened opened = {0};
    enum lk_code code = read_all(paths, read, &opened, err);
    if (code == LK_OK) {
        struct lk_tokenizer_files files = {
            .kind = paths->kind,
            .special_in_text = paths->special_in_text,
            .main = opened.main.data,
            .main_bytes = opened.main.len,
            .main_name = paths->main,
            .merges = opened.merges.data,
            .merges_bytes = opened.merges.len,
            .merges_name = paths->merges,
            .config = opened.config.data,
            .config_bytes = opened.config.len,
            .config_name = opened.config_name,
            .scheme = paths->scheme,
        };
        code = lk_tokenizer_new(&files, ret_tokenizer, err);
    }
    lk_buf_done(&opened.main);
    lk_buf_done(&opened.merges);
    lk_buf_done(&opened.config);
    free(opened.config_name);
    return code;
}
