#include "config/config.h"

#include "config/draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void lk_config_done(struct lk_config *config)
{
    for (uint32_t i = 0; i < config->n_streams; i++)
        lk_recipe_done(&config->stream[i]);
    free(config->stream);
    lk_runtime_done(&config->runtime);
    free(config->path);
    free(config->dir);
    free(config->notes);
    *config = (struct lk_config){0};
}

const struct lk_recipe *lk_config_stream(const struct lk_config *config, const char *name)
{
    for (uint32_t i = 0; i < config->n_streams; i++) {
        if (strcmp(config->stream[i].name, name) == 0)
            return &config->stream[i];
    }
    return NULL;
}

char *lk_config_index_path(const struct lk_config *config, const struct lk_dataset_recipe *dataset)
{
    return lk_format("%s/%s.lkindex", config->runtime.index_dir, dataset->name);
}

/* ---- parsing ---- */

static const struct lk_dataset_recipe *find_dataset(const struct lk_recipe *recipe,
                                                    const char *name)
{
    uint32_t low = 0, high = recipe->n_datasets; /* sorted by name */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(recipe->dataset[middle].name, name);
        if (order == 0)
            return &recipe->dataset[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Datasets of one name share an index, so they have to be the same data. */
static enum lk_code check_shared(struct lk_reading *r, const struct lk_yaml *root,
                                 const struct lk_recipe *a, const struct lk_recipe *b)
{
    for (uint32_t i = 0; i < b->n_datasets; i++) {
        const struct lk_dataset_recipe *mine = &b->dataset[i];
        const struct lk_dataset_recipe *other = find_dataset(a, mine->name);
        if (other == NULL || strcmp(other->path, mine->path) == 0)
            continue;
        const struct lk_yaml *stream = lk_yaml_get(lk_yaml_get(root, "streams"), b->name);
        const struct lk_yaml *at = lk_yaml_get(lk_yaml_get(stream, "datasets"), mine->name);
        return lk_read_fail_key(r, at,
                                "streams.%s.datasets.%s: expected the path that the dataset of this "
                                "name has in stream \"%s\" (they share an index), found another",
                                b->name, mine->name, a->name);
    }
    return LK_OK;
}

static enum lk_code read_root(struct lk_reading *r, const struct lk_yaml *root,
                              struct lk_root_draft *draft)
{
    struct lk_config *config = &draft->config;
    bool nothing = root->kind == LK_YAML_SCALAR && root->text[0] == '\0';
    if (root->kind != LK_YAML_MAP)
        return lk_read_fail(r, root,
                            "expected a mapping with the keys \"streams\" and \"runtime\", found %s",
                            nothing                       ? "nothing"
                            : root->kind == LK_YAML_LIST ? "a list"
                                                          : "a text");
    LK_TRY(lk_read_section(r, "", root, root, draft));
    for (uint32_t a = 0; a < config->n_streams; a++)
        for (uint32_t b = a + 1; b < config->n_streams; b++)
            LK_TRY(check_shared(r, root, &config->stream[a], &config->stream[b]));
    return lk_finish_runtime(r, root, config);
}

enum lk_code lk_config_parse(const char *name, const void *bytes, size_t n, const char *dir,
                             struct lk_config *ret_config, struct lk_err *err)
{
    struct lk_reading r = {.name = name, .dir = dir, .err = err};
    struct lk_root_draft draft = {0};
    struct lk_yaml root = {0};
    enum lk_code code = lk_yaml_parse(name, bytes, n, &root, err);
    if (code != LK_OK)
        goto out;
    code = read_root(&r, &root, &draft);
    if (code != LK_OK)
        goto out;
    draft.config.path = lk_strdup(name);
    draft.config.dir = lk_strdup(dir);
    draft.config.notes = lk_strdup(lk_buf_cstr(&r.notes));
    *ret_config = draft.config;
    draft.config = (struct lk_config){0};
out:
    lk_config_done(&draft.config);
    lk_reading_done(&r);
    lk_yaml_done(&root);
    return code;
}

/* ---- the file ---- */

static enum lk_code fail_errno(struct lk_err *err, const char *path, const char *what)
{
    enum lk_code code = errno == ENOENT || errno == ENOTDIR ? LK_NOT_FOUND
                        : errno == EACCES                   ? LK_PERMISSION_DENIED
                                                            : LK_UNAVAILABLE;
    return lk_fail(err, code, "%s: cannot %s: %s", path, what, strerror(errno));
}

/* Reads at most one byte more than a configuration may have: the parser then refuses it. */
static enum lk_code read_all(int fd, const char *path, struct lk_buf *out, struct lk_err *err)
{
    while (out->len <= LK_YAML_BYTES_MAX) {
        size_t room = LK_YAML_BYTES_MAX + 1 - out->len;
        ssize_t got = read(fd, lk_buf_room(out, room), room);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(err, path, "read it");
        if (got == 0)
            break;
        out->len += (size_t)got;
    }
    return LK_OK;
}

static enum lk_code read_file(const char *path, struct lk_buf *out, struct lk_err *err)
{
    struct stat st;
    int fd = TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return fail_errno(err, path, "open it");
    enum lk_code code = LK_OK;
    if (fstat(fd, &st) != 0)
        code = fail_errno(err, path, "examine it");
    else if (S_ISDIR(st.st_mode))
        code = lk_fail(err, LK_INVALID_ARGUMENT, "%s: expected a configuration file, found a folder",
                       path);
    else
        code = read_all(fd, path, out, err);
    (void)close(fd);
    return code;
}

/* The folder of @path, absolute, so that the process may change its own. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash == NULL  ? lk_strdup(".")
                : slash == path ? lk_strdup("/")
                                : lk_strndup(path, (size_t)(slash - path));
    char *real = realpath(dir, NULL);
    if (real == NULL)
        return dir;
    free(dir);
    return real;
}

enum lk_code lk_config_load(const char *path, struct lk_config *ret_config, struct lk_err *err)
{
    struct lk_buf bytes = {0};
    char *dir = folder_of(path);
    enum lk_code code = read_file(path, &bytes, err);
    if (code == LK_OK)
        code = lk_config_parse(path, bytes.data, bytes.len, dir, ret_config, err);
    lk_buf_done(&bytes);
    free(dir);
    return code;
}
