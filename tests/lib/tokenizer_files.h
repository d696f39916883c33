/*
 * Opens the tokenizer in a directory: tokenizer.json, or encoder.json/vocab.json with
 * vocab.bpe/merges.txt; and tokenizer_config.json where there is one. For tests and benchmarks.
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

/* @directory "bytes" is the bytes tokenizer. NOT_FOUND when there are no such files. */
static inline enum lk_code lk_test_tokenizer(const char *directory, enum lk_special_in_text special,
                               struct lk_tokenizer **ret_tokenizer, struct lk_err *err)
{
    struct lk_tokenizer_files files = {.kind = LK_TOKENIZER_HF,
                                       .special_in_text = special,
                                       .main_name = "tokenizer.json",
                                       .merges_name = "merges",
                                       .config_name = "tokenizer_config.json"};
    uint8_t *merges = NULL;
    uint8_t *main_file = lk_test_read(directory, "tokenizer.json", &files.main_bytes);
    uint8_t *config =
        lk_test_read(directory, "tokenizer_config.json", &files.config_bytes);

    if (strcmp(directory, "bytes") == 0) {
        files.kind = LK_TOKENIZER_BYTES;
    } else if (main_file == NULL) {
        files.kind = LK_TOKENIZER_PAIR;
        files.main_name = "vocab";
        main_file = lk_test_either(directory, "encoder.json", "vocab.json", &files.main_bytes);
        merges = lk_test_either(directory, "vocab.bpe", "merges.txt", &files.merges_bytes);
    }
    files.main = main_file;
    files.merges = merges;
    files.config = config;
    enum lk_code code =
        files.kind != LK_TOKENIZER_BYTES && main_file == NULL
            ? lk_fail(err, LK_NOT_FOUND, "no tokenizer in %s", directory)
            : lk_tokenizer_new(&files, ret_tokenizer, err);
    free(main_file);
    free(merges);
    free(config);
    return code;
}

#endif
