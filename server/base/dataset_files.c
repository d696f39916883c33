#include "base/dataset_files.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    const char *suffix;
} codecs[LK_CODECS] = {
    [LK_CODEC_PLAIN] = {"plain", ""},
    [LK_CODEC_GZIP] = {"gzip", ".gz"},
    [LK_CODEC_ZSTD] = {"zstd", ".zst"},
};

const char *lk_codec_name(enum lk_codec codec)
{
    return codecs[codec].name;
}

static bool ends_with(const char *text, size_t n, const char *suffix)
{
    size_t m = strlen(suffix);
    return n >= m && memcmp(text + n - m, suffix, m) == 0;
}

bool lk_codec_of_name(const char *name, enum lk_codec *ret_codec, size_t *ret_stem)
{
    size_t n = strlen(name);
    for (int codec = 0; codec < LK_CODECS; codec++) {
        if (!ends_with(name, n, codecs[codec].suffix))
            continue;
        size_t stem = n - strlen(codecs[codec].suffix);
        if (!ends_with(name, stem, ".jsonl"))
            continue;
        *ret_codec = (enum lk_codec)codec;
        *ret_stem = stem;
        return true;
    }
    return false;
}

static void free_names(char **names, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

void lk_dataset_files_done(struct lk_dataset_files *files)
{
    free(files->root);
    free_names(files->names, files->n);
    free_names(files->ignored, files->n_ignored);
    free(files->codecs);
    free(files->bytes);
    *files = (struct lk_dataset_files){0};
}
