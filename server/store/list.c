#include "store/list.h"

#include "base/mem.h"
#include "store/file.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A directory still to be read. Its parent tells a loop of links from a second way to a place. */
struct dir {
    char *name; /* relative to the root; "" for the root */
    dev_t dev;
    ino_t ino;
    size_t parent;
};

struct shard {
    char *name;
    uint64_t bytes;
    enum lk_codec codec;
    size_t stem;
};

struct listing {
    const char *root;
    struct dir *dirs;
    size_t n_dirs;
    struct shard *shards;
    size_t n_shards;
    char **ignored;
    size_t n_ignored;
};

static void listing_done(struct listing *l)
{
    for (size_t i = 0; i < l->n_dirs; i++)
        free(l->dirs[i].name);
    for (size_t i = 0; i < l->n_shards; i++)
        free(l->shards[i].name);
    for (size_t i = 0; i < l->n_ignored; i++)
        free(l->ignored[i]);
    free(l->dirs);
    free(l->shards);
    free(l->ignored);
}

/* Room for one more; capacities are the powers of two. */
static void *grow(void *array, size_t n, size_t size)
{
    return (n & (n - 1)) == 0 ? lk_resize(array, n == 0 ? 1 : 2 * n, size) : array;
}

/* ---- collecting ---- */

static enum lk_code add_dir(struct listing *l, char *name, const struct stat *st, size_t parent,
                            struct lk_err *err)
{
    l->dirs = grow(l->dirs, l->n_dirs, sizeof *l->dirs);
    l->dirs[l->n_dirs] =
        (struct dir){.name = name, .dev = st->st_dev, .ino = st->st_ino, .parent = parent};
    for (size_t i = l->n_dirs++; i != 0;) {
        i = l->dirs[i].parent;
        if (l->dirs[i].dev == st->st_dev && l->dirs[i].ino == st->st_ino)
            return lk_fail(err, LK_INVALID_ARGUMENT, "%s/%s is a link to a directory above it",
                           l->root, name);
    }
    return LK_OK;
}

static void ignore(struct listing *l, char *name)
{
    l->ignored = grow(l->ignored, l->n_ignored, sizeof *l->ignored);
    l->ignored[l->n_ignored++] = name;
}

/* A file by its name relative to the root; takes @name. */
static enum lk_code add_file(struct listing *l, char *name, const struct stat *st,
                             struct lk_err *err)
{
    struct shard shard = {.name = name, .bytes = (uint64_t)st->st_size};

    if (!lk_codec_of_name(name, &shard.codec, &shard.stem)) {
        ignore(l, name);
        return LK_OK;
    }
    l->shards = grow(l->shards, l->n_shards, sizeof *l->shards);
    l->shards[l->n_shards++] = shard;
    if (!S_ISREG(st->st_mode))
        return lk_fail(err, LK_INVALID_ARGUMENT, "%s/%s is no regular file", l->root, name);
    if (l->n_shards > LK_SHARDS_MAX)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "%s has more than %u shards", l->root,
                       LK_SHARDS_MAX);
    return LK_OK;
}

static enum lk_code look_at(const struct listing *l, const char *name, struct stat *ret_st,
                            struct lk_err *err)
{
    char *path = lk_format("%s/%s", l->root, name);
    enum lk_code code = LK_OK;
    if (stat(path, ret_st) != 0)
        code = lk_file_fail(err, errno, "cannot look at", path);
    free(path);
    return code;
}

/* What a directory has under @name, which is taken. */
static enum lk_code add_entry(struct listing *l, char *name, size_t dir, struct lk_err *err)
{
    struct stat st;
    enum lk_code code = look_at(l, name, &st, err);

    if (code == LK_OK && S_ISDIR(st.st_mode))
        return add_dir(l, name, &st, dir, err);
    if (code == LK_OK)
        return add_file(l, name, &st, err);
    enum lk_codec codec;
    size_t stem;
    if (code == LK_NOT_FOUND && !lk_codec_of_name(name, &codec, &stem)) {
        ignore(l, name); /* somebody's temporary file has gone, or a link leads nowhere */
        return LK_OK;
    }
    free(name);
    return code;
}

static enum lk_code read_dir(struct listing *l, size_t at, struct lk_err *err)
{
    char *path = lk_format("%s/%s", l->root, l->dirs[at].name);
    DIR *dir = opendir(path);
    enum lk_code code = LK_OK;
    const struct dirent *entry;

    if (dir == NULL) {
        code = lk_file_fail(err, errno, "cannot read directory", path);
        goto out;
    }
    while (code == LK_OK && (errno = 0, entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        const char *under = l->dirs[at].name;
        char *name = lk_format("%s%s%s", under, *under != '\0' ? "/" : "", entry->d_name);
        if (entry->d_name[0] == '.')
            ignore(l, name);
        else
            code = add_entry(l, name, at, err);
    }
    if (code == LK_OK && errno != 0)
        code = lk_file_fail(err, errno, "cannot read directory", path);
    (void)closedir(dir);
out:
    free(path);
    return code;
}

static enum lk_code walk(struct listing *l, const struct stat *root, struct lk_err *err)
{
    LK_TRY(add_dir(l, lk_strdup(""), root, 0, err));
    for (size_t i = 0; i < l->n_dirs; i++)
        LK_TRY(read_dir(l, i, err));
    return LK_OK;
}

/* @skip: length of the pattern's part above the root, slash included. */
static enum lk_code expand(struct listing *l, const char *pattern, size_t skip,
                           struct lk_err *err)
{
    glob_t found = {0};
    enum lk_code code = LK_OK;

    errno = 0;
    int rc = glob(pattern, GLOB_NOSORT | GLOB_NOESCAPE | GLOB_ERR, NULL, &found);
    if (rc != 0 && rc != GLOB_NOMATCH)
        code = lk_file_fail(err, errno, "cannot expand", pattern);
    for (size_t i = 0; rc == 0 && code == LK_OK && i < found.gl_pathc; i++) {
        char *name = lk_strdup(found.gl_pathv[i] + skip);
        struct stat st;
        code = look_at(l, name, &st, err);
        if (code != LK_OK)
            free(name);
        else if (S_ISDIR(st.st_mode))
            ignore(l, name);
        else
            code = add_file(l, name, &st, err);
    }
    globfree(&found);
    return code;
}

/* ---- order ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct shard *)a)->name, ((const struct shard *)b)->name);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int compare_stems(const struct shard *a, const struct shard *b)
{
    size_t n = a->stem < b->stem ? a->stem : b->stem;
    int order = memcmp(a->name, b->name, n);
    return order != 0 ? order : (a->stem > b->stem) - (a->stem < b->stem);
}

static int by_stem(const void *a, const void *b)
{
    int order = compare_stems(a, b);
    return order != 0 ? order : by_name(a, b);
}

static enum lk_code sort_shards(struct listing *l, struct lk_err *err)
{
    if (l->n_shards > 0)
        qsort(l->shards, l->n_shards, sizeof *l->shards, by_stem);
    for (size_t i = 1; i < l->n_shards; i++)
        if (compare_stems(&l->shards[i - 1], &l->shards[i]) == 0)
            return lk_fail(err, LK_INVALID_ARGUMENT,
                           "%s: %s and %s are the same shard twice: remove one", l->root,
                           l->shards[i - 1].name, l->shards[i].name);
    if (l->n_shards > 0)
        qsort(l->shards, l->n_shards, sizeof *l->shards, by_name);
    if (l->n_ignored > 0)
        qsort(l->ignored, l->n_ignored, sizeof *l->ignored, by_text);
    return LK_OK;
}

/* Moves everything found to @files. */
static void hand_over(struct listing *l, char *root, struct lk_dataset_files *files)
{
    uint32_t n = (uint32_t)l->n_shards;
    *files = (struct lk_dataset_files){
        .root = root,
        .names = lk_zalloc(n, sizeof *files->names),
        .codecs = lk_zalloc(n, sizeof *files->codecs),
        .bytes = lk_zalloc(n, sizeof *files->bytes),
        .n = n,
        .ignored = l->ignored,
        .n_ignored = (uint32_t)l->n_ignored,
    };
    for (uint32_t i = 0; i < n; i++) {
        files->names[i] = l->shards[i].name;
        files->codecs[i] = l->shards[i].codec;
        files->bytes[i] = l->shards[i].bytes;
    }
    l->n_shards = 0;
    l->ignored = NULL;
    l->n_ignored = 0;
}

/* ---- the three kinds of path ---- */

/* The directory part of the first @n bytes of @path. */
static char *dir_of(const char *path, size_t n)
{
    while (n > 0 && path[n - 1] != '/')
        n--;
    if (n == 0)
        return lk_strdup(".");
    return lk_strndup(path, n > 1 ? n - 1 : 1);
}

static enum lk_code find(struct listing *l, const char *path, char **ret_root, struct lk_err *err)
{
    struct stat st;
    size_t n = strlen(path);

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        while (n > 1 && path[n - 1] == '/')
            n--;
        l->root = *ret_root = lk_strndup(path, n);
        return walk(l, &st, err);
    }
    if (stat(path, &st) == 0) {
        l->root = *ret_root = dir_of(path, n);
        const char *slash = strrchr(path, '/');
        LK_TRY(add_file(l, lk_strdup(slash != NULL ? slash + 1 : path), &st, err));
        return LK_OK;
    }
    int error = errno;
    size_t literal = strcspn(path, "*?[");
    if (error != ENOENT || literal == n)
        return lk_file_fail(err, error, "cannot look at", path);
    if (strstr(path, "**") != NULL)
        return lk_fail(err, LK_INVALID_ARGUMENT,
                       "%s: \"**\" is not supported: name the directory, it is read recursively",
                       path);
    while (literal > 0 && path[literal - 1] != '/')
        literal--;
    l->root = *ret_root = dir_of(path, literal);
    return expand(l, path, literal, err);
}

/* One more file beside those found already. */
static enum lk_code find_beside(struct listing *l, const char *path, struct lk_err *err)
{
    struct stat st;
    char *dir = dir_of(path, strlen(path));
    enum lk_code code = LK_OK;

    if (stat(path, &st) != 0)
        code = lk_file_fail(err, errno, "cannot look at", path);
    else if (S_ISDIR(st.st_mode) || strcmp(dir, l->root) != 0)
        code = lk_fail(err, LK_INVALID_ARGUMENT,
                       "%s: several paths must be files of one directory, here %s", path, l->root);
    free(dir);
    if (code != LK_OK)
        return code;
    const char *slash = strrchr(path, '/');
    return add_file(l, lk_strdup(slash != NULL ? slash + 1 : path), &st, err);
}

enum lk_code lk_dataset_list_all(const char *const *paths, uint32_t n,
                                 struct lk_dataset_files *ret_files, struct lk_err *err)
{
    struct listing l = {0};
    char *root = NULL;
    enum lk_code code;

    if (n == 1) {
        code = find(&l, paths[0], &root, err);
    } else {
        l.root = root = dir_of(paths[0], strlen(paths[0]));
        code = LK_OK;
        for (uint32_t i = 0; i < n && code == LK_OK; i++)
            code = find_beside(&l, paths[i], err);
    }
    if (code == LK_OK)
        code = sort_shards(&l, err);
    if (code == LK_OK && l.n_shards == 0)
        code = lk_fail(err, LK_NOT_FOUND,
                       "%s: no shard found (*.jsonl, *.jsonl.gz, *.jsonl.zst), %zu other file%s%s%s",
                       paths[0], l.n_ignored, l.n_ignored == 1 ? "" : "s", l.n_ignored > 0 ? ", one is " : "",
                       l.n_ignored > 0 ? l.ignored[0] : "");
    if (code == LK_OK) {
        hand_over(&l, root, ret_files);
        root = NULL;
    }
    free(root);
    listing_done(&l);
    return code;
}

enum lk_code lk_dataset_list(const char *path, struct lk_dataset_files *ret_files,
                             struct lk_err *err)
{
    return lk_dataset_list_all(&path, 1, ret_files, err);
}
