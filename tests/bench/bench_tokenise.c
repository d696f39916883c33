/*
 * bench_tokenise [--json] [--passes N] [--ids FILE] DIRECTORY FILE...: speed of tokenising, one thread.
 *
 * Over the documents of the FILEs (documents.h). Cold: a new encoder, every document once. Warm: the same
 * encoder again, the median of N passes (9). MB are 10^6 bytes of UTF-8; time is the thread's own.
 *
 * The digest is lk_digest (XXH3-128) of all ids as little-endian u32, document after document; FILE
 * of --ids gets those very bytes, for whoever would rather compare than trust a digest.
 */
#include "tests/bench/documents.h"
#include "tests/lib/tokenizer_files.h"

#include "base/bytes.h"
#include "base/hasher.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PASSES_MAX 99

struct settings {
    bool json;
    long passes;
    const char *ids;
};

struct result {
    double load, cold, warm; /* seconds */
    size_t tokens;
    char digest[LK_DIGEST_HEX];
};

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- measuring ---- */

/* One pass; returns the seconds. @ids is memory to work with. */
static double pass(struct lk_encoder *encoder, const struct lk_test_documents *docs, struct lk_tokens *ids,
                   size_t *ret_tokens)
{
    double start = now();

    *ret_tokens = 0;
    for (size_t i = 0, at = 0; i < docs->n; at = docs->ends[i++]) {
        ids->n = 0;
        lk_encode(encoder, docs->text.data + at, docs->ends[i] - at, ids);
        *ret_tokens += ids->n;
    }
    return now() - start;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* All ids by an encoder that knows them: their digest and, if asked for, a file of them. */
static bool write_ids(struct lk_encoder *encoder, const struct lk_test_documents *docs, const char *path,
                      struct result *result)
{
    FILE *file = path == NULL ? NULL : fopen(path, "wb");
    struct lk_hasher *hasher = lk_hasher_new();
    struct lk_tokens ids = {0};
    struct lk_buf bytes = {0};
    bool ok = path == NULL || file != NULL;

    for (size_t i = 0, at = 0; i < docs->n; at = docs->ends[i++]) {
        ids.n = bytes.len = 0;
        lk_encode(encoder, docs->text.data + at, docs->ends[i] - at, &ids);
        for (size_t k = 0; k < ids.n; k++)
            lk_buf_put_u32(&bytes, ids.ids[k]);
        lk_hasher_put(hasher, bytes.data, bytes.len);
        if (file != NULL)
            ok = fwrite(bytes.data, 1, bytes.len, file) == bytes.len && ok;
    }
    lk_digest_hex(lk_hasher_digest(hasher), result->digest);
    if (file != NULL)
        ok = fclose(file) == 0 && ok;
    if (!ok)
        fprintf(stderr, "bench_tokenise: %s: cannot be written\n", path);
    lk_hasher_free(hasher);
    lk_tokens_done(&ids);
    lk_buf_done(&bytes);
    return ok;
}

static bool measure(const struct lk_tokenizer *tokenizer, const struct lk_test_documents *docs,
                    const struct settings *settings, struct result *result)
{
    struct lk_encoder *encoder = lk_encoder_new(tokenizer);
    struct lk_tokens ids = {0};
    double seconds[PASSES_MAX];

    result->cold = pass(encoder, docs, &ids, &result->tokens);
    for (long i = 0; i < settings->passes; i++)
        seconds[i] = pass(encoder, docs, &ids, &result->tokens);
    qsort(seconds, (size_t)settings->passes, sizeof *seconds, by_size);
    result->warm = seconds[settings->passes / 2];
    bool ok = write_ids(encoder, docs, settings->ids, result);
    lk_tokens_done(&ids);
    lk_encoder_free(encoder);
    return ok;
}

static void report(const char *name, const struct lk_test_documents *docs, const struct settings *settings,
                   const struct result *result)
{
    double mb = (double)docs->text.len / 1e6, mega = (double)result->tokens / 1e6;
    struct lk_buf quoted = {0};

    if (settings->json) {
        lk_json_quote(&quoted, name, strlen(name));
        printf("{\"tokenizer\":%s,\"documents\":%zu,\"bytes\":%zu,\"tokens\":%zu,\"load_ms\":%.1f,"
               "\"cold_mb_s\":%.1f,\"warm_mb_s\":%.1f,\"warm_mtokens_s\":%.1f,\"digest\":\"%s\"}\n",
               lk_buf_cstr(&quoted), docs->n, docs->text.len, result->tokens, result->load * 1e3,
               mb / result->cold, mb / result->warm, mega / result->warm, result->digest);
    } else {
        printf("%-24s %7.1f MB %9zu tokens  load %4.0f ms  cold %6.1f MB/s  warm %6.1f MB/s  "
               "%5.1f Mtokens/s  %s\n",
               name, mb, result->tokens, result->load * 1e3, mb / result->cold, mb / result->warm,
               mega / result->warm, result->digest);
    }
    lk_buf_done(&quoted);
}

static int run(const char *directory, const struct lk_test_documents *docs, const struct settings *settings)
{
    struct lk_tokenizer *tokenizer = NULL;
    struct result result = {0};
    struct lk_err err;
    double start = now();

    if (lk_test_tokenizer(directory, LK_SPECIAL_SPLIT, &tokenizer, &err) != LK_OK) {
        fprintf(stderr, "bench_tokenise: %s\n", err.text);
        return 1;
    }
    result.load = now() - start;
    bool ok = measure(tokenizer, docs, settings, &result);
    if (ok)
        report(directory, docs, settings, &result);
    lk_tokenizer_free(tokenizer);
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct settings settings = {.passes = 9};
    struct lk_test_documents docs = {0};
    int i = 1;

    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--json") == 0)
            settings.json = true;
        else if (strcmp(argv[i], "--passes") == 0 && i + 1 < argc)
            settings.passes = strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--ids") == 0 && i + 1 < argc)
            settings.ids = argv[++i];
        else
            break;
    }
    if (argc - i < 2 || settings.passes < 1 || settings.passes > PASSES_MAX) {
        fprintf(stderr, "usage: bench_tokenise [--json] [--passes 1..%d] [--ids FILE] DIRECTORY FILE...\n",
                PASSES_MAX);
        return 2;
    }
    const char *directory = argv[i++];
    bool ok = true;
    for (; ok && i < argc; i++)
        ok = lk_test_documents_read(&docs, "bench_tokenise", argv[i]);
    int status = ok ? run(directory, &docs, &settings) : 1;
    lk_test_documents_done(&docs);
    return status;
}
