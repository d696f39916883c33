#include "client/cli/seek_tokenizer.h"

#include "store/file.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES_MAX = 1000 }; /* of a folder that are looked at */

static bool is_new(const struct found_tokenizers *found, const char *path)
{
    struct stat a, b;
    for (uint32_t i = 0; i < found->n; i++) {
        if (stat(found->one[i].main, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
            a.st_ino == b.st_ino)
            return false;
    }
    return found->n < FOUND_MAX;
}

static void try_one(struct found_tokenizer *t)
{
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_err err;
    uint32_t id;
    t->paths.main = t->main;
    t->paths.merges = t->merges;
    t->paths.scheme = t->scheme;
    if (lk_tokenizer_open(&t->paths, lk_file_read_all, &tokenizer, &err) != LK_OK) {
        t->trouble = lk_strdup(err.text);
        return;
    }
    t->vocab = lk_tokenizer_vocab(tokenizer);
    t->has_end = lk_tokenizer_find(tokenizer, "eos", &id, &err) == LK_OK;
    lk_tokenizer_free(tokenizer);
}

/* Takes the strings over. */
static void add(struct found_tokenizers *found, enum lk_tokenizer_kind kind, char *main, char *merges, char *scheme)
{
    struct found_tokenizer *t = &found->one[found->n++];
    *t = (struct found_tokenizer){.paths = {.kind = kind}, .main = main, .merges = merges, .scheme = scheme};
    try_one(t);
}

static char *file_in(const char *dir, const char *name)
{
    char *path = lk_format("%s/%s", dir, name);
    if (access(path, R_OK) == 0)
        return path;
    free(path);
    return NULL;
}

/* vocab.json with merges.txt, or encoder.json with vocab.bpe. */
static void seek_pair(const char *dir, struct found_tokenizers *found)
{
    static const char *const names[][2] = {{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}};
    for (int i = 0; i < 2; i++) {
        char *vocab = file_in(dir, names[i][0]), *merges = file_in(dir, names[i][1]);
        if (vocab != NULL && merges != NULL && is_new(found, vocab)) {
            add(found, LK_TOKENIZER_PAIR, vocab, merges, NULL);
        } else {
            free(vocab);
            free(merges);
        }
    }
}

static void seek_in(const char *dir, bool deeper, struct found_tokenizers *found)
{
    char *hf = file_in(dir, "tokenizer.json");
    if (hf != NULL && is_new(found, hf))
        add(found, LK_TOKENIZER_HF, hf, NULL, NULL);
    else
        free(hf);
    if (hf == NULL)
        seek_pair(dir, found);
    struct dirent **entry = NULL;
    int n = scandir(dir, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = entry[i]->d_name, *dot = strrchr(name, '.');
        struct stat st;
        char *path = lk_format("%s/%s", dir, name);
        if (name[0] != '.' && i < ENTRIES_MAX && stat(path, &st) == 0) {
            if (S_ISDIR(st.st_mode) && deeper)
                seek_in(path, false, found);
            else if (S_ISREG(st.st_mode) && dot != NULL && strcmp(dot, ".tiktoken") == 0 && is_new(found, path))
                add(found, LK_TOKENIZER_TIKTOKEN, lk_strdup(path), NULL, lk_strndup(name, (size_t)(dot - name)));
        }
        free(path);
        free(entry[i]);
    }
    free(entry);
}

void seek_tokenizers(const char *const *dirs, uint32_t n, struct found_tokenizers *ret_found)
{
    *ret_found = (struct found_tokenizers){.n = 0};
    for (uint32_t i = 0; i < n; i++)
        seek_in(dirs[i], true, ret_found);
}

void found_tokenizers_done(struct found_tokenizers *found)
{
    for (uint32_t i = 0; i < found->n; i++) {
        free(found->one[i].main);
        free(found->one[i].merges);
        free(found->one[i].scheme);
        free(found->one[i].trouble);
    }
    found->n = 0;
}
