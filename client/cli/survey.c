#include "client/cli/survey.h"

#include "store/file.h"
#include "store/list.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GROUPS_MAX = 16, FOLDERS_MAX = 1000, DESCENTS_MAX = 16, NAME_BYTES = 64 };

/* One level of the folder, sorted. */
struct level {
    char **folder, **shard;
    uint32_t n_folders, n_shards, n_others;
    char *other; /* one that is neither … */
    char *data;  /* … and one whose name says that it is data; or NULL */
};

static void push(char ***list, uint32_t *n, char *name)
{
    *list = lk_resize(*list, *n + 1u, sizeof **list);
    (*list)[(*n)++] = name;
}

static void level_done(struct level *level)
{
    for (uint32_t i = 0; i < level->n_folders; i++)
        free(level->folder[i]);
    for (uint32_t i = 0; i < level->n_shards; i++)
        free(level->shard[i]);
    free(level->folder);
    free(level->shard);
    free(level->other);
    free(level->data);
    *level = (struct level){.folder = NULL};
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Formats that a person may take for ours. Not .txt: that is as often a word about the data. */
static bool is_other_data(const char *name)
{
    static const char *const suffixes[] = {".json", ".json.gz", ".json.zst", ".ndjson", ".ndjson.gz", ".parquet",
                                           ".arrow", ".csv", ".tsv", ".bz2", ".xz", ".lz4"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t m = strlen(suffixes[i]);
        if (n > m && strcmp(name + n - m, suffixes[i]) == 0)
            return strstr(name, "token") == NULL && strcmp(name, "vocab.json") != 0 && strcmp(name, "encoder.json") != 0;
    }
    return false;
}

const char *survey_hint(const char *name)
{
    bool lines = name != NULL && (strstr(name, ".json") != NULL || strstr(name, ".ndjson") != NULL);
    return lines ? "; if that is JSON Lines, link it to such a name" : "";
}

static void push_other(struct level *level, const char *name)
{
    char **one = is_other_data(name) ? &level->data : &level->other;
    level->n_others++;
    if (*one == NULL || strcmp(name, *one) < 0) { /* the same whatever the folder's order is */
        free(*one);
        *one = lk_strdup(name);
    }
}

static enum lk_code read_level(const char *dir, struct level *ret_level, struct lk_err *err)
{
    struct level level = {.folder = NULL};
    DIR *stream = opendir(dir);
    if (stream == NULL)
        return lk_file_fail(err, errno, "cannot read folder", dir);
    for (const struct dirent *entry; (entry = readdir(stream)) != NULL;) {
        enum lk_codec codec;
        struct stat st;
        size_t stem;
        if (entry->d_name[0] == '.')
            continue;
        char *path = lk_format("%s/%s", dir, entry->d_name);
        bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
        free(path);
        if (folder)
            push(&level.folder, &level.n_folders, lk_strdup(entry->d_name));
        else if (lk_codec_of_name(entry->d_name, &codec, &stem))
            push(&level.shard, &level.n_shards, lk_strdup(entry->d_name));
        else
            push_other(&level, entry->d_name);
    }
    (void)closedir(stream);
    if (level.n_folders > 0)
        qsort(level.folder, level.n_folders, sizeof *level.folder, by_bytes);
    if (level.n_shards > 0)
        qsort(level.shard, level.n_shards, sizeof *level.shard, by_bytes);
    *ret_level = level;
    return LK_OK;
}

/* ---- names ---- */

/* As a configuration may have it: letters, digits, "_", "-", ".", not starting with a point. */
static char *good_name(const char *text, size_t n)
{
    struct lk_buf name = {0};
    for (size_t i = 0; i < n && name.len < NAME_BYTES - 5; i++) {
        unsigned char c = (unsigned char)text[i];
        bool good = c < 0x80 && (isalnum(c) || c == '_' || c == '-' || (c == '.' && name.len > 0));
        if (good)
            lk_buf_put(&name, &c, 1);
        else if (name.len > 0 && name.data[name.len - 1] != '-')
            lk_buf_puts(&name, "-");
    }
    while (name.len > 0 && strchr("-_.", name.data[name.len - 1]) != NULL)
        name.len--;
    char *good = lk_strdup(name.len > 0 ? lk_buf_cstr(&name) : "data");
    lk_buf_done(&name);
    return good;
}

static bool has_name(const struct survey *survey, const char *name)
{
    for (uint32_t i = 0; i < survey->n; i++) {
        if (strcmp(survey->dataset[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Takes @path over. */
static void add(struct survey *survey, const char *name, size_t n, char *path)
{
    char *good = good_name(name, n);
    for (unsigned k = 2; has_name(survey, good); k++) {
        free(good);
        char *base = good_name(name, n);
        good = lk_format("%s-%u", base, k);
        free(base);
    }
    survey->dataset = lk_resize(survey->dataset, survey->n + 1u, sizeof *survey->dataset);
    survey->dataset[survey->n++] = (struct survey_dataset){.name = good, .path = path};
}

static void add_folder(struct survey *survey, const char *dir)
{
    char *real = realpath(dir, NULL);
    const char *slash = real != NULL ? strrchr(real, '/') : NULL;
    const char *base = slash != NULL ? slash + 1 : dir;
    add(survey, base, strlen(base), lk_strdup(dir));
    free(real);
}

/* ---- shards that lie side by side ---- */

/* Bytes of a shard's name before its number: docs-00001-of-00010.jsonl.gz → docs. */
static size_t prefix_of(const char *name)
{
    enum lk_codec codec;
    size_t n = 0, before;
    (void)lk_codec_of_name(name, &codec, &n);
    const char *dot = memrchr(name, '.', n);
    n = dot != NULL ? (size_t)(dot - name) : n;
    do {
        before = n;
        while (n > 0 && isdigit((unsigned char)name[n - 1]))
            n--;
        while (n > 0 && n < before && strchr("-_.", name[n - 1]) != NULL)
            n--;
        if (n < before && n >= 3 && strncmp(name + n - 3, "-of", 3) == 0)
            n -= 3;
    } while (n < before);
    return n;
}

struct group {
    const char *prefix; /* [n] of the first file */
    size_t n;
    uint32_t first, files;
};

/* Groups by prefix, or 0 where they would be one, too many, or no pattern tells them apart. */
static uint32_t group(const struct level *level, struct group groups[GROUPS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < level->n_shards; i++) {
        const char *name = level->shard[i];
        size_t n = prefix_of(name);
        uint32_t g = 0;
        while (g < count && (groups[g].n != n || strncmp(groups[g].prefix, name, n) != 0))
            g++;
        if (g == GROUPS_MAX || n == 0 || memchr(name, '*', n) != NULL || memchr(name, '?', n) != NULL ||
            memchr(name, '[', n) != NULL)
            return 0;
        if (g == count)
            groups[count++] = (struct group){name, n, i, 0};
        groups[g].files++;
    }
    for (uint32_t g = 0; g < count; g++) {
        uint32_t matched = 0;
        for (uint32_t i = 0; i < level->n_shards; i++)
            matched += strncmp(level->shard[i], groups[g].prefix, groups[g].n) == 0;
        if (groups[g].files > 1 && matched != groups[g].files)
            return 0;
    }
    return count > 1 ? count : 0;
}

static void add_shards(struct survey *survey, const char *dir, const struct level *level, bool alone)
{
    struct group groups[GROUPS_MAX];
    uint32_t n = group(level, groups);
    if (n == 0 && alone)
        add_folder(survey, dir);
    else if (n == 0 && level->n_shards > 0)
        add(survey, "data", 4, lk_format("%s/*.jsonl*", dir));
    for (uint32_t g = 0; g < n; g++) {
        const struct group *it = &groups[g];
        char *path = it->files == 1 ? lk_format("%s/%s", dir, level->shard[it->first])
                                    : lk_format("%s/%.*s*.jsonl*", dir, (int)it->n, it->prefix);
        add(survey, it->prefix, it->n, path);
    }
}

/* ---- the whole ---- */

static enum lk_code fail_empty(const char *dir, const struct level *level, struct lk_err *err)
{
    if (level->n_others == 0)
        return lk_fail(err, LK_NOT_FOUND,
                       "%s: expected *.jsonl, *.jsonl.gz or *.jsonl.zst files, found none", dir);
    return lk_fail(err, LK_NOT_FOUND,
                   "%s: expected *.jsonl, *.jsonl.gz or *.jsonl.zst files, found %u other%s, such as %s%s", dir,
                   level->n_others, level->n_others == 1 ? "" : "s", level->data != NULL ? level->data : level->other,
                   survey_hint(level->data));
}

/* That a folder of tokenizers is no data surprises nobody. */
static void add_bare(struct survey *survey, const char *path, const char *why)
{
    char *tokenizer = lk_format("%s/tokenizer.json", path), *vocab = lk_format("%s/vocab.json", path);
    if (access(tokenizer, F_OK) != 0 && access(vocab, F_OK) != 0)
        push(&survey->bare, &survey->n_bare, lk_strdup(why));
    free(tokenizer);
    free(vocab);
}

/* A subfolder is a dataset, if there is a shard in it. */
static void add_subfolders(struct survey *survey, const char *dir, const struct level *level)
{
    for (uint32_t i = 0; i < level->n_folders; i++) {
        char *path = lk_format("%s/%s", dir, level->folder[i]);
        struct lk_dataset_files files = {0};
        struct lk_err why;
        if (lk_dataset_list(path, &files, &why) == LK_OK || why.code != LK_NOT_FOUND)
            add(survey, level->folder[i], strlen(level->folder[i]), lk_strdup(path));
        else
            add_bare(survey, path, why.text);
        lk_dataset_files_done(&files);
        free(path);
    }
}

static enum lk_code divide(const char *dir, unsigned descents, struct survey *survey, struct lk_err *err)
{
    struct level level = {.folder = NULL};
    LK_TRY(read_level(dir, &level, err));
    enum lk_code code = LK_OK;
    if (level.n_shards == 0 && level.n_folders == 1 && descents < DESCENTS_MAX) {
        char *only = lk_format("%s/%s", dir, level.folder[0]);
        code = divide(only, descents + 1, survey, err);
        free(only);
    } else if (level.n_folders > FOLDERS_MAX) {
        add_folder(survey, dir);
    } else {
        add_subfolders(survey, dir, &level);
        if (level.n_shards > 0)
            add_shards(survey, dir, &level, survey->n == 0);
        bool whole = survey->n == 1 && strcmp(survey->dataset[0].path, dir) == 0; /* then it tells of it itself */
        if (level.data != NULL && !whole)
            survey->beside = lk_format("%s/%s", dir, level.data);
        if (survey->n == 0)
            code = fail_empty(dir, &level, err);
    }
    level_done(&level);
    return code;
}

static int by_name(const void *a, const void *b)
{
    const struct survey_dataset *x = a, *y = b;
    return strcmp(x->name, y->name);
}

enum lk_code survey_folder(const char *dir, const char *text, struct survey *ret_survey, struct lk_err *err)
{
    struct stat st;
    *ret_survey = (struct survey){.dataset = NULL};
    if (stat(dir, &st) != 0)
        return lk_file_fail(err, errno, "cannot read folder", dir);
    if (!S_ISDIR(st.st_mode))
        return lk_fail(err, LK_INVALID_ARGUMENT, "%s: expected a folder of data", dir);
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    char *plain = lk_strndup(dir, n);
    enum lk_code code = divide(plain, 0, ret_survey, err);
    free(plain);
    if (code != LK_OK)
        return code;
    uint32_t named = 0;
    for (uint32_t i = 0; i < ret_survey->n; i++) {
        survey_sample(&ret_survey->dataset[i], text);
        ret_survey->usable += ret_survey->dataset[i].trouble == NULL;
        named += ret_survey->dataset[i].named;
    }
    qsort(ret_survey->dataset, ret_survey->n, sizeof *ret_survey->dataset, by_name);
    if (text != NULL && named == 0 && ret_survey->usable > 0)
        return lk_fail(err, LK_NOT_FOUND, "--text: no dataset has a text \"%s\" in at least half of its sampled rows", text);
    return LK_OK;
}

void survey_done(struct survey *survey)
{
    for (uint32_t i = 0; i < survey->n; i++) {
        struct survey_dataset *d = &survey->dataset[i];
        for (uint32_t f = 0; f < d->n_fields; f++) {
            free(d->field[f].path);
            free(d->field[f].missing);
        }
        lk_dataset_files_done(&d->files);
        free(d->name);
        free(d->path);
        free(d->trouble);
        free(d->bad);
    }
    for (uint32_t i = 0; i < survey->n_bare; i++)
        free(survey->bare[i]);
    free(survey->bare);
    free(survey->beside);
    free(survey->dataset);
    *survey = (struct survey){.dataset = NULL};
}
