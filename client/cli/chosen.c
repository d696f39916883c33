#include "client/cli/chosen.h"

#include "client/cli/progress.h"
#include "host/stream.h"
#include "store/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void chosen_options(struct chosen *c, bool encodes, struct option_row ret_rows[CHOSEN_OPTIONS_MAX])
{
    const struct option_row files[] = {
        {"--tokenizer", "PATH", OPTION_TEXT, &c->path, 0, 0,
         "a tokenizer.json, a vocab.json, a .tiktoken file, a folder of such,"
         "\n                         or the word bytes"},
        {"--merges", "FILE", OPTION_TEXT, &c->merges, 0, 0,
         "of a vocab.json: merges.txt, or vocab.bpe"},
        {"--scheme", "NAME", OPTION_TEXT, &c->scheme, 0, 0,
         "of a .tiktoken file: cl100k_base, o200k_base, …"},
        {"--config", "FILE", OPTION_TEXT, &c->cli.config_path, 0, 0,
         "instead: as this configuration's stream does"},
        {"--stream", "NAME", OPTION_TEXT, &c->cli.stream, 0, 0, "which one, if there are several"},
    };
    const struct option_row texts[] = {
        {"--special", "RULE", OPTION_TEXT, &c->special, 0, 0,
         "special tokens in text: split (become ids; the default), text, error"},
        {"--append", "TOKEN", OPTION_TEXT, &c->append, 0, 0, "after each document: eos, bos, or its text"},
        {"--prepend", "TOKEN", OPTION_TEXT, &c->prepend, 0, 0, "before each document, likewise"},
    };
    size_t n = sizeof files / sizeof *files;
    memcpy(ret_rows, files, sizeof files);
    if (encodes) {
        memcpy(ret_rows + n, texts, sizeof texts);
        n += sizeof texts / sizeof *texts;
    }
    ret_rows[n] = (struct option_row){.name = NULL};
}

/* ---- by files ---- */

static bool ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

static bool is_called(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash != NULL ? slash + 1 : path, name) == 0;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The first of two files that the folder has, or NULL; the caller frees. */
static char *file_in(const char *folder, const char *a, const char *b)
{
    size_t n = strlen(folder);
    char *path = lk_format("%s%s%s", folder, n > 0 && folder[n - 1] == '/' ? "" : "/", a);
    if (access(path, F_OK) == 0)
        return path;
    free(path);
    return b != NULL ? file_in(folder, b, NULL) : NULL;
}

/* Its ranks by the scheme's name, or the files that its name does not say. */
static int look_in_folder(struct chosen *c)
{
    const char *folder = c->path;
    if (c->scheme != NULL) {
        c->found[0] = lk_format("%s/%s.tiktoken", folder, c->scheme);
        c->paths.main = c->found[0];
        return -1;
    }
    c->found[0] = file_in(folder, "tokenizer.json", NULL);
    if (c->found[0] != NULL) {
        c->paths.main = c->found[0];
        return -1;
    }
    c->found[0] = file_in(folder, "vocab.json", "encoder.json");
    c->found[1] = file_in(folder, "merges.txt", "vocab.bpe");
    if (c->found[0] == NULL || c->found[1] == NULL)
        return cli_fail(&c->cli, LANEKEEPER_NOT_FOUND,
                        "%s: expected a tokenizer.json in the folder, or a vocab.json with its merges.txt",
                        folder);
    c->paths.kind = LK_TOKENIZER_PAIR;
    c->paths.main = c->found[0];
    c->paths.merges = c->found[1];
    return -1;
}

static int find_files(struct chosen *c)
{
    bool ranks = ends_in(c->path, ".tiktoken");
    if (c->merges != NULL && (c->scheme != NULL || ranks))
        return options_fail(c->cli.command, "--merges belongs to a vocab.json, not to a .tiktoken file");
    if (c->merges == NULL && (is_called(c->path, "vocab.json") || is_called(c->path, "encoder.json")))
        return options_fail(c->cli.command, "%s: a vocabulary of a pair of files needs --merges FILE", c->path);
    if (ranks && c->scheme == NULL)
        return options_fail(c->cli.command, "a .tiktoken file needs --scheme NAME: it has no pattern "
                                            "and no special tokens of its own");
    c->paths.main = c->path;
    c->paths.merges = c->merges;
    c->paths.scheme = c->scheme;
    c->paths.kind = c->scheme != NULL                  ? LK_TOKENIZER_TIKTOKEN
                    : c->merges != NULL                ? LK_TOKENIZER_PAIR
                    : strcmp(c->path, "bytes") == 0    ? LK_TOKENIZER_BYTES
                                                       : LK_TOKENIZER_HF;
    bool named = c->merges != NULL || c->paths.kind == LK_TOKENIZER_BYTES;
    return !named && is_folder(c->path) ? look_in_folder(c) : -1;
}

static int read_special(struct chosen *c)
{
    static const char *const words[] = {"split", "text", "error"}; /* by enum lk_special_in_text */
    if (c->special == NULL)
        return -1;
    for (int i = 0; i < 3; i++) {
        if (strcmp(c->special, words[i]) == 0) {
            c->paths.special_in_text = (enum lk_special_in_text)i;
            return -1;
        }
    }
    return options_fail(c->cli.command, "--special: expected split, text or error, found \"%s\"",
                        c->special);
}

/* ---- by a configuration ---- */

static int take_recipe(struct chosen *c)
{
    int status = cli_open(&c->cli);
    if (status >= 0)
        return status;
    const struct lk_tokenizer_recipe *recipe = &cli_recipe(&c->cli)->tokenizer;
    c->paths = stream_tokenizer_paths(recipe);
    c->append = recipe->append;
    c->prepend = recipe->prepend;
    return -1;
}

static int choose(struct chosen *c)
{
    bool named = c->path != NULL || c->merges != NULL || c->scheme != NULL || c->special != NULL ||
                 c->append != NULL || c->prepend != NULL;
    if (c->cli.config_path != NULL)
        return !named ? take_recipe(c)
                      : options_fail(c->cli.command, "--config says all of the tokenizer: only --stream "
                                                     "goes with it");
    if (c->path == NULL)
        return options_fail(c->cli.command, "expected --tokenizer PATH or --config FILE");
    if (c->cli.stream != NULL)
        return options_fail(c->cli.command, "--stream needs --config FILE");
    int status = read_special(c);
    return status >= 0 ? status : find_files(c);
}

static int find_token(struct chosen *c, const char *what, const char *text, bool *ret_has,
                      uint32_t *ret_id)
{
    struct lk_err err;
    if (text == NULL)
        return -1;
    if (lk_tokenizer_find(c->tokenizer, text, ret_id, &err) != LK_OK)
        return cli_fail(&c->cli, (int)err.code, "%s: %s", what, err.text);
    *ret_has = true;
    return -1;
}

int chosen_open(struct chosen *c)
{
    struct lk_err err;
    int status = choose(c);
    if (status >= 0)
        return status;
    uint64_t began = progress_now_ns();
    if (lk_tokenizer_open(&c->paths, lk_file_read_all, &c->tokenizer, &err) != LK_OK)
        return cli_fail_err(&c->cli, &err);
    c->load_ns = progress_now_ns() - began;
    status = find_token(c, "append", c->append, &c->has_append, &c->append_id);
    return status >= 0 ? status
                       : find_token(c, "prepend", c->prepend, &c->has_prepend, &c->prepend_id);
}

void chosen_done(struct chosen *c)
{
    lk_tokenizer_free(c->tokenizer);
    free(c->found[0]);
    free(c->found[1]);
    cli_done(&c->cli);
}
