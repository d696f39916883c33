/*
 * Opens the tokenizer in a directory: tokenizer.json, or encoder.json/vocab.json with
 * vocab.bpe/merges.txt; and tokenizer_config.json where there is one; or <scheme>.tiktoken in a directory
 * of that name. For tests and benchmarks.
 */
#ifndef LK_TESTS_TOKENIZER_FILES_H
#define LK_TESTS_TOKENIZER_FILES_H

#include "op/tokenise/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads all of an open file; the caller frees. */
static inline uint8_t *lk_test_read_all(FILE *file, size_t *ret_n)
{
    struct lk_buf buf = {0};
    size_t n;

    do {
        n = fread(lk_buf_room(&buf, 65536), 1, 65536, file);
        buf.len += n;
    } while (n > 0);
    (void)lk_buf_room(&buf, 1); /* not NULL even when empty */
    *ret_n = buf.len;
    return buf.data;
}

/* The whole file, or NULL when it cannot be read; the caller frees. */
static inline uint8_t *lk_test_read(const char *directory, const char *name, size_t *ret_n)
{
    char *path = *directory == '\0' ? lk_strdup(name) : lk_format("%s/%s", directory, name);
    FILE *file = fopen(path, "rb");

    free(path);
    if (file == NULL)
        return NULL;
    uint8_t *data = lk_test_read_all(file, ret_n);
    (void)fclose(file);
    return data;
}

/* The first of two names that exists. */
static inline uint8_t *lk_test_either(const char *directory, const char *a, const char *b, size_t *ret_n)
{
    uint8_t *data = lk_test_read(directory, a, ret_n);
    return data != NULL ? data : lk_test_read(directory, b, ret_n);
}

/* The last part of a path, which may end in slashes; the caller frees. */
static inline char *lk_test_base_name(const char *path)
{
    size_t end = strlen(path), start;

    while (end > 0 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/';)
        start--;
    return lk_format("%.*s", (int)(end - start), path + start);
}

/* Looks for what may stand in @directory, in the order that the top of this file gives. */
static inline void lk_test_find_files(const char *directory, const char *scheme,
                                      struct lk_tokenizer_files *files)
{
    files->kind = LK_TOKENIZER_HF;
    files->main_name = "tokenizer.json";
    files->main = lk_test_read(directory, "tokenizer.json", &files->main_bytes);
    files->config = lk_test_read(directory, "tokenizer_config.json", &files->config_bytes);
    if (files->main != NULL)
        return;
    files->kind = LK_TOKENIZER_PAIR;
    files->main_name = "vocab";
    files->main = lk_test_either(directory, "encoder.json", "vocab.json", &files->main_bytes);
    files->merges = lk_test_either(directory, "vocab.bpe", "merges.txt", &files->merges_bytes);
    if (files->main != NULL)
        return;
    char *ranks = lk_format("%s.tiktoken", scheme);
    files->kind = LK_TOKENIZER_TIKTOKEN;
    files->main_name = "ranks";
    files->scheme = scheme;
    files->main = lk_test_read(directory, ranks, &files->main_bytes);
    free(ranks);
}

/* @directory "bytes" is the bytes tokenizer. NOT_FOUND when there are no such files. */
static inline enum lk_code lk_test_tokenizer(const char *directory, enum lk_special_in_text special,
                               struct lk_tokenizer **ret_tokenizer, struct lk_err *err)
{
    struct lk_tokenizer_files files = {.kind = LK_TOKENIZER_BYTES,
                                       .special_in_text = special,
                                       .merges_name = "merges",
                                       .config_name = "tokenizer_config.json"};
    char *scheme = lk_test_base_name(directory);

    if (strcmp(directory, "bytes") != 0)
        lk_test_find_files(directory, scheme, &files);
    enum lk_code code =
        files.kind != LK_TOKENIZER_BYTES && files.main == NULL
            ? lk_fail(err, LK_NOT_FOUND, "no tokenizer in %s", directory)
            : lk_tokenizer_new(&files, ret_tokenizer, err);
    free((void *)files.main);
    free((void *)files.merges);
    free((void *)files.config);
    free(scheme);
    return code;
}

#endif
