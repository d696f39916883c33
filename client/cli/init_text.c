#include "client/cli/init_text.h"

#include "base/digest.h"
#include "base/json.h"
#include "client/cli/output.h"
#include "config/address.h"
#include "config/scalar.h"
#include "host/footprint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES = 8,
    SEQUENCE = 2048,
    BATCH_LANES = 4,      /* sequences of a step in each lane */
    COMMENTED_MAX = 4,    /* other tokenizers that are offered */
    UNSERVED_MAX = 4,     /* fields that are named */
    ARENA_MIB = 512,      /* the defaults of `arena`, */
    CACHE_MIB = 256,      /* `cache` */
    COUNTS_MIB = 256,     /* and `counts.memory` */
};
#define MIB (1ull << 20)

/* ---- what to suggest ---- */

static uint64_t up_to_mib(uint64_t bytes)
{
    return (bytes + MIB - 1) / MIB * MIB;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/*
 * Every worker may have the largest compressed shard in memory, and what a sample tells of it is rough. Workers with
 * their caches get three eighths of memory, arena and counts an eighth each; the rest is for lanes and for trainers.
 */
static void suggest_memory(const struct survey *survey, const struct machine *machine, struct suggestion *s)
{
    uint64_t largest = 0, eighth = (machine->memory_bytes > 0 ? machine->memory_bytes : 8192 * MIB) / 8;
    uint64_t usual = up_to_mib(eighth > 64 * MIB ? eighth : 64 * MIB); /* where it is less than the defaults */
    for (uint32_t i = 0; i < survey->n; i++)
        if (survey->dataset[i].trouble == NULL && survey->dataset[i].decoded_max > largest)
            largest = survey->dataset[i].decoded_max;
    uint64_t each = largest > 0 ? up_to_mib(2 * largest) : MIB;
    s->workers = machine->processors;
    while (s->workers > 1 && (each + FOOTPRINT_WORKER_BYTES) * s->workers > 3 * eighth)
        s->workers--;
    s->some_workers = s->workers < machine->processors;
    s->arena = lesser(usual, ARENA_MIB * MIB); /* at least 256 steps */
    s->counts = lesser(usual, COUNTS_MIB * MIB);
    s->cache = lesser(usual, CACHE_MIB * MIB);
    if (s->cache < each * s->workers)
        s->cache = each * s->workers;
}

struct suggestion suggest(const struct survey *survey, const struct machine *machine, unsigned bytes_per_token)
{
    struct suggestion s = {.lanes = LANES, .sequence = SEQUENCE, .rows_least = UINT64_MAX};
    for (uint32_t i = 0; i < survey->n; i++) {
        const struct survey_dataset *d = &survey->dataset[i];
        if (d->trouble != NULL)
            continue;
        s.tokens += d->all_text_bytes / bytes_per_token;
        s.rows_least = d->all_rows < s.rows_least ? d->all_rows : s.rows_least;
        s.drops = s.drops || d->bad_rows > 0 || d->field[d->text].missing != NULL;
    }
    while (s.lanes > 1 && s.lanes > s.rows_least)
        s.lanes /= 2;
    s.batch = s.lanes * BATCH_LANES;
    while (s.sequence > 128 && (uint64_t)s.sequence * s.batch * 8 > s.tokens)
        s.sequence /= 2;
    suggest_memory(survey, machine, &s);
    return s;
}

/* ---- scalars ---- */

static bool is_plain(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/";
    bool word = strspn(text, "0123456789.") != strlen(text) && strcmp(text, "true") != 0 &&
                strcmp(text, "false") != 0 && strcmp(text, "null") != 0;
    return word && text[0] != '-' && strspn(text, plain) == strlen(text);
}

/* JSON's strings are YAML's in double quotes. */
static void put_scalar(struct lk_buf *out, const char *text)
{
    if (is_plain(text))
        lk_buf_puts(out, text);
    else
        lk_json_quote(out, text, strlen(text));
}

/* As seen from @dir where it lies below, else from the root; a pattern's folder is what is resolved. */
static void put_path(struct lk_buf *out, const char *dir, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? lk_strdup(".") : lk_strndup(path, slash == path ? 1 : (size_t)(slash - path));
    char *whole = realpath(path, NULL), *real = whole == NULL ? realpath(folder, NULL) : NULL;
    char *full = whole != NULL ? lk_strdup(whole)
                 : real != NULL ? lk_format("%s/%s", real, slash == NULL ? path : slash + 1)
                                : lk_strdup(path);
    size_t n = strlen(dir);
    bool below = strncmp(full, dir, n) == 0 && (full[n] == '/' || full[n] == '\0' || strcmp(dir, "/") == 0);
    const char *from = full + (below ? n : 0);
    if (below && *from == '/')
        from++;
    put_scalar(out, *from != '\0' ? from : ".");
    free(folder);
    free(whole);
    free(real);
    free(full);
}

/* A text of any kind as the rest of a comment: on one line. */
static void put_comment(struct lk_buf *out, const char *text)
{
    size_t before = out->len;
    put_safe(out, text, strlen(text));
    for (size_t i = before; i < out->len; i++)
        if (out->data[i] == '\n' || out->data[i] == '\t')
            out->data[i] = ' ';
}

static void put_approximately(struct lk_buf *out, const struct survey_dataset *d)
{
    lk_buf_puts(out, d->whole ? "" : "about ");
    put_count(out, d->all_rows);
    lk_buf_puts(out, " rows with ");
    put_bytes(out, d->all_text_bytes);
    lk_buf_puts(out, " of text");
}

/* ---- sections ---- */

static void put_tokenizer(struct lk_buf *out, const char *dir, const struct found_tokenizer *t, const char *before)
{
    lk_buf_puts(out, before);
    switch (t->paths.kind) {
    case LK_TOKENIZER_PAIR:
        lk_buf_puts(out, "pair: {vocab: ");
        put_path(out, dir, t->main);
        lk_buf_puts(out, ", merges: ");
        put_path(out, dir, t->merges);
        lk_buf_puts(out, "}");
        break;
    case LK_TOKENIZER_TIKTOKEN:
        lk_buf_puts(out, "tiktoken: {path: ");
        put_path(out, dir, t->main);
        lk_buf_puts(out, ", scheme: ");
        put_scalar(out, t->scheme);
        lk_buf_puts(out, "}");
        break;
    default:
        lk_buf_puts(out, "hf: ");
        put_path(out, dir, t->main);
        break;
    }
    lk_buf_puts(out, "\n");
}

static void put_tokenizers(struct lk_buf *out, const char *dir, const struct found_tokenizers *found)
{
    const struct found_tokenizer *used = NULL;
    uint32_t others = 0;
    lk_buf_puts(out, "    tokenizer:\n");
    for (uint32_t i = 0; i < found->n; i++) {
        const struct found_tokenizer *t = &found->one[i];
        if (t->trouble != NULL) {
            lk_buf_puts(out, "      # cannot be used: ");
            put_comment(out, t->trouble);
            lk_buf_puts(out, "\n");
        } else if (used == NULL) {
            used = t;
        } else if (others++ < COMMENTED_MAX) {
            put_tokenizer(out, dir, t, "      # or ");
        }
    }
    if (used == NULL) {
        lk_buf_puts(out, "      # No tokenizer was found near the data. Until you name one, every byte is a token:\n"
                         "      # hf: path/to/tokenizer.json\n"
                         "      # tiktoken: {path: path/to/cl100k_base.tiktoken, scheme: cl100k_base}\n"
                         "      bytes: true\n");
    } else {
        put_tokenizer(out, dir, used, "      ");
        lk_buf_puts(out, "      # It has ");
        put_count(out, used->vocab);
        lk_buf_puts(out, " ids.\n");
    }
    if (used == NULL || used->has_end)
        lk_buf_puts(out, "      append: eos            # ends every document\n");
    else
        lk_buf_puts(out, "      # append: \"<token>\"    # ends every document: this tokenizer does not say which does\n");
}

static void put_shards(struct lk_buf *out, const struct survey_dataset *d)
{
    uint32_t by_codec[LK_CODECS] = {0};
    for (uint32_t i = 0; i < d->files.n; i++)
        by_codec[d->files.codecs[i]]++;
    for (int c = 0, some = 0; c < LK_CODECS; c++) {
        static const char *const names[LK_CODECS] = {".jsonl", ".jsonl.gz", ".jsonl.zst"};
        if (by_codec[c] == 0)
            continue;
        lk_buf_puts(out, some++ > 0 ? ", " : "");
        put_count(out, by_codec[c]);
        lk_buf_putf(out, " %s", names[c]);
    }
}

void put_unserved(struct lk_buf *out, const struct survey_dataset *d)
{
    uint32_t n = 0;
    for (uint32_t f = 0; f < d->n_fields; f++) {
        const struct survey_field *field = &d->field[f];
        if (!survey_unserved(d, f) || n++ >= UNSERVED_MAX)
            continue;
        lk_buf_puts(out, n > 1 ? ", " : "");
        lk_buf_puts(out, field->list ? "the list \"" : "\"");
        put_comment(out, field->path);
        lk_buf_putf(out, "\" (%" PRIu64 " bytes a row)", field->bytes / d->rows);
    }
    if (n > UNSERVED_MAX)
        lk_buf_putf(out, " and %u more", n - UNSERVED_MAX);
}

/* Which field is the text, why, and which others might have been. */
static void put_reason(struct lk_buf *out, const struct survey_dataset *d)
{
    const struct survey_field *text = &d->field[d->text];
    const struct survey_field *second = NULL;
    for (uint32_t f = 0; f < d->n_fields; f++)
        if (f != d->text && !d->field[f].list && d->field[f].bytes > 0 && (second == NULL || d->field[f].bytes > second->bytes))
            second = &d->field[f];
    lk_buf_puts(out, "      #   the text is \"");
    put_comment(out, text->path);
    lk_buf_putf(out, "\": %s, %" PRIu64 " bytes a row in a sample of ",
                d->named ? "as --text says" : "the longest string", text->bytes / text->rows);
    put_count(out, d->rows);
    if (second == NULL) {
        lk_buf_puts(out, "; there is no other\n");
    } else {
        lk_buf_puts(out, "; then \"");
        put_comment(out, second->path);
        lk_buf_putf(out, "\", %" PRIu64 "\n", second->bytes / second->rows);
    }
    struct lk_buf unserved = {0};
    put_unserved(&unserved, d);
    if (unserved.len > 0)
        lk_buf_putf(out, "      #   a row has one text, so these are not served: %s; to serve several,\n"
                         "      #   write them into one field first\n", lk_buf_cstr(&unserved));
    lk_buf_done(&unserved);
}

static void put_bad(struct lk_buf *out, const struct survey_dataset *d)
{
    const struct survey_field *text = &d->field[d->text];
    if (d->bad != NULL) {
        lk_buf_putf(out, "      #   bad rows in the sample: %" PRIu64 ", the first ", d->bad_rows);
        put_comment(out, d->bad);
        lk_buf_puts(out, "\n");
    }
    if (text->missing != NULL) {
        lk_buf_putf(out, "      #   rows of the sample without this text: %" PRIu64 ", the first ", d->rows - text->rows);
        put_comment(out, text->missing);
        lk_buf_puts(out, "\n");
    }
}

static void put_dataset(struct lk_buf *out, const char *dir, const struct survey_dataset *d, uint64_t all)
{
    if (d->trouble != NULL) {
        lk_buf_puts(out, "      # left out: ");
        put_comment(out, d->name);
        lk_buf_puts(out, ": ");
        put_comment(out, d->trouble);
        lk_buf_puts(out, "\n");
        return;
    }
    uint64_t text = d->all_text_bytes > 0 ? d->all_text_bytes : 1;
    lk_buf_putf(out, "      # %s: ", d->name);
    put_shards(out, d);
    lk_buf_puts(out, "; ");
    put_approximately(out, d);
    lk_buf_puts(out, ", ");
    put_percent(out, text, all);
    lk_buf_puts(out, "\n");
    put_reason(out, d);
    put_bad(out, d);
    lk_buf_puts(out, "      ");
    put_scalar(out, d->name);
    lk_buf_puts(out, ": {path: ");
    put_path(out, dir, d->path);
    lk_buf_puts(out, ", text: ");
    put_scalar(out, d->field[d->text].path);
    lk_buf_putf(out, ", weight: %" PRIu64 ".%06" PRIu64 "}\n", text / 1000000, text % 1000000);
}

static void put_datasets(struct lk_buf *out, const char *dir, const struct survey *survey)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < survey->n; i++)
        if (survey->dataset[i].trouble == NULL)
            all += survey->dataset[i].all_text_bytes > 0 ? survey->dataset[i].all_text_bytes : 1;
    lk_buf_puts(out, "    # Weights are relative. Here they are the megabytes of text, so that every row is as likely\n"
                     "    # as any other; a larger one takes a larger share of the tokens.\n"
                     "    datasets:\n");
    for (uint32_t i = 0; i < survey->n; i++)
        put_dataset(out, dir, &survey->dataset[i], all);
}

static void put_stream(struct lk_buf *out, const char *dir, const struct survey *survey,
                       const struct found_tokenizers *found, const struct suggestion *s)
{
    lk_buf_putf(out, "streams:\n  pretrain:\n"
                     "    seed: 1                  # another seed is another order of the same data\n"
                     "    lanes: %-3u               # what can run in parallel; how many ranks read is free\n",
                s->lanes);
    if (s->lanes < LANES)
        lk_buf_putf(out, "                             # %u would be usual, but the smallest dataset has %" PRIu64 " rows\n",
                    LANES, s->rows_least);
    lk_buf_putf(out, "    batch: %-5u             # sequences in a step, over all ranks: a multiple of lanes\n"
                     "    sequence: %-5u          # tokens in a sequence: %u in a step", s->batch, s->sequence,
                s->batch * s->sequence);
    lk_buf_puts(out, "; the data have about ");
    put_count(out, s->tokens);
    lk_buf_puts(out, "\n\n");
    put_tokenizers(out, dir, found);
    lk_buf_puts(out, "\n");
    put_datasets(out, dir, survey);
    lk_buf_putf(out, "\n    # A row that is malformed or without its text: `error` stops the stream and names it, `drop`\n"
                     "    # leaves it out and counts it.%s\n"
                     "    on_bad_row: %s\n\n"
                     "    # What happens between rows and sequences: `lanekeeper explain` says what it comes to.\n"
                     "    pipeline:\n"
                     "      # - filter: {min_bytes: 64}                # keeps the rows that meet every condition\n"
                     "      - shuffle: {buffer: 1024}                  # records held in each lane\n"
                     "      - pack: {algorithm: exact_fit, pool: 1024} # documents whole, nothing padded\n\n",
                s->drops ? " There were such rows: they are named above." : "", s->drops ? "drop" : "error");
}

static void put_setting(struct lk_buf *out, const char *key, uint64_t bytes, const char *why)
{
    struct lk_buf size = {0};
    lk_put_size(&size, bytes);
    lk_buf_putf(out, "  %s: %-*s # %s\n", key, (int)(21 - strlen(key)), lk_buf_cstr(&size), why);
    lk_buf_done(&size);
}

/* Beside the file, unless a socket's path would be too long there. */
static void put_run_dir(struct lk_buf *out, const char *dir)
{
    char hex[LK_DIGEST_HEX];
    char *run_dir = lk_strdup("run");
    if (strlen(dir) + strlen("/run/lanekeeper.sock") > LK_SOCKET_PATH_MAX) {
        free(run_dir);
        lk_digest_hex(lk_digest_of(dir, strlen(dir)), hex);
        run_dir = lk_format("/tmp/lanekeeper-%.8s", hex);
    }
    lk_buf_putf(out, "  run_dir: %-14s # sockets, on a file system of this machine alone; trainers connect to\n"
                     "                          # ipc://%s%s/lanekeeper.sock\n",
                run_dir, run_dir[0] == '/' ? "" : "…/", run_dir);
    free(run_dir);
}

static void put_runtime(struct lk_buf *out, const char *dir, const struct suggestion *s)
{
    lk_buf_puts(out, "runtime:\n");
    put_run_dir(out, dir);
    lk_buf_puts(out, "  # listen: [\"tcp://0.0.0.0:7070\"]           # for ranks on other machines\n"
                     "  # http: 127.0.0.1:8080                     # metrics and health, for Prometheus and probes\n");
    if (s->some_workers)
        lk_buf_putf(out, "  workers: %-14u # fewer than processors: each takes memory of its own\n", s->workers);
    else
        lk_buf_puts(out, "  workers: cores          # processes that read and tokenise\n");
    put_setting(out, "arena", s->arena, "memory for tokens and ready batches");
    put_setting(out, "cache", s->cache, "memory for decompressed shards, all workers together");
    lk_buf_puts(out, "  index_dir: index        # where `lanekeeper index` puts what it makes\n"
                     "  snapshots: {dir: snapshots, every: 100}    # they save time, never correctness\n"
                     "  counts: {dir: counts");
    if (s->counts < COUNTS_MIB * MIB) {
        lk_buf_puts(out, ", memory: ");
        lk_put_size(out, s->counts);
    }
    lk_buf_puts(out, "}    # so do these; may be shared\n");
}

void init_text(struct lk_buf *out, const char *dir, const struct survey *survey,
               const struct found_tokenizers *found, const struct suggestion *suggestion)
{
    lk_buf_puts(out, "# A starting configuration, made by `lanekeeper init` from what it found. Everything that is not\n"
                     "# written here has a default: `lanekeeper config reference` lists all keys. Paths that are\n"
                     "# relative start from this file's folder. Next: `lanekeeper index` with this file, then\n"
                     "# `lanekeeper config check`, `lanekeeper explain`, and `lanekeeperd` to serve it.\n"
                     "#\n"
                     "# What stands under `streams` decides every byte of every batch. What stands under `runtime` may\n"
                     "# be changed at any time.\n\n");
    put_stream(out, dir, survey, found, suggestion);
    put_runtime(out, dir, suggestion);
}
