/*
 * A trainer for the end-to-end tests: one rank, led by commands on standard input.
 *
 *   trainer ADDRESS [rank=R] [world=W] [step=S] [lookahead=N] [timeout=MS] [sharing=auto|never|always]
 *           [stream=NAME] [state=HEX]
 *
 * Every answer is one JSON object a line; each command ends with a line "ok" or "fail CODE TEXT", the
 * connecting itself too. Batches are released in the order they came when more than `hold` are held.
 *
 *   show none|tokens|parts|all   what a batch's line has beyond its digest
 *   hold N                       batches held before the oldest is released (default 0)
 *   next [N [PAUSE_MS]]          the next N batches
 *   get STEP…                    any steps, in the order given
 *   check                        reads every held batch again: its tokens must hash as at first
 *   copy u16|u32|i64             the tokens of the newest batch held, copied as that type
 *   training [KEY=VALUE]…        what a training step is fed with, of the newest batch held, and where that
 *                                lies; kept until the next one. Keys: dtype labels borders positions
 *                                cu_seqlens loss_mask document_ids ignore_index (numbers of the header), and
 *                                quiet=1: no arrays
 *   release                      gives all back, each of them twice
 *   state [STEP] | resume HEX | seek STEP | digest FROM TO | status | info | trace STEP
 *   close                        closes the handle; held batches stay
 */
#include "client/c/lanekeeper.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#define HELD_MAX 4096

struct held {
    struct lanekeeper_batch batch;
    XXH64_hash_t hash; /* of tokens, rows and parts when it came */
};

struct trainer {
    struct lanekeeper *lk;
    struct held held[HELD_MAX];
    size_t n_held, hold;
    bool tokens, parts;
    struct lanekeeper_training training;
    XXH64_hash_t training_hash;
};

static void put_hex(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%02x", bytes[i]);
}

/* Of what a row is, wherever its pieces lie among the parts. */
static XXH64_hash_t hash_of(const struct lanekeeper_batch *b)
{
    XXH64_hash_t hash = XXH3_64bits(b->tokens, (size_t)b->rows * b->sequence * sizeof *b->tokens);
    for (uint32_t r = 0; r < b->rows; r++) {
        const struct lanekeeper_row *row = &b->row[r];
        uint64_t facts[] = {row->digest_lo, row->digest_hi, row->n_parts, row->used};
        hash = XXH3_64bits_withSeed(facts, sizeof facts, hash);
        hash = XXH3_64bits_withSeed(&b->part[row->first_part], row->n_parts * sizeof *b->part, hash);
    }
    return hash;
}

static int finish(const struct trainer *t, enum lanekeeper_code code)
{
    if (code == LANEKEEPER_OK)
        printf("ok\n");
    else
        printf("fail %s %s\n", lanekeeper_code_name((int)code), lanekeeper_error_text(t->lk));
    return fflush(stdout);
}

static void put_rows(const struct trainer *t, const struct lanekeeper_batch *b)
{
    printf(",\"used\":[");
    for (uint32_t r = 0; r < b->rows; r++)
        printf("%s%u", r > 0 ? "," : "", b->row[r].used);
    printf("]");
    if (t->tokens) {
        printf(",\"tokens\":[");
        for (uint32_t r = 0; r < b->rows; r++) {
            printf(r > 0 ? ",[" : "[");
            for (uint32_t i = 0; i < b->sequence; i++)
                printf("%s%u", i > 0 ? "," : "", b->tokens[(size_t)r * b->sequence + i]);
            printf("]");
        }
        printf("]");
    }
    if (t->parts) {
        printf(",\"parts\":[");
        for (uint32_t r = 0; r < b->rows; r++) {
            printf(r > 0 ? ",[" : "[");
            for (uint32_t p = 0; p < b->row[r].n_parts; p++) {
                const struct lanekeeper_part *part = &b->part[b->row[r].first_part + p];
                printf("%s[\"%s\",%llu,%u,%u,%u]", p > 0 ? "," : "",
                       lanekeeper_dataset(t->lk, part->dataset), (unsigned long long)part->row,
                       part->epoch, part->first, part->tokens);
            }
            printf("]");
        }
        printf("]");
    }
}

static void put_batch(const struct trainer *t, const struct lanekeeper_batch *b, XXH64_hash_t hash)
{
    printf("{\"step\":%llu,\"first\":%u,\"rows\":%u,\"global\":%u,\"shared\":%u,\"hash\":\"%016llx\",\"digest\":\"",
           (unsigned long long)b->step, b->first_row, b->rows, b->global_rows, b->shared,
           (unsigned long long)hash);
    put_hex(b->digest, 16);
    printf("\"");
    if (t->tokens || t->parts)
        put_rows(t, b);
    printf("}\n");
}

static void drop_oldest(struct trainer *t)
{
    lanekeeper_release(&t->held[0].batch);
    memmove(t->held, t->held + 1, --t->n_held * sizeof *t->held);
}

static void take(struct trainer *t, const struct lanekeeper_batch *b)
{
    XXH64_hash_t hash = hash_of(b);
    put_batch(t, b, hash);
    if (t->n_held == HELD_MAX)
        drop_oldest(t);
    t->held[t->n_held++] = (struct held){.batch = *b, .hash = hash};
    while (t->n_held > t->hold)
        drop_oldest(t);
}

static void pause_ms(unsigned long ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    if (ms > 0)
        (void)nanosleep(&t, NULL);
}

static enum lanekeeper_code do_next(struct trainer *t, char *arguments)
{
    char *rest = arguments;
    unsigned long n = strtoul(rest, &rest, 10), pause = strtoul(rest, &rest, 10);
    enum lanekeeper_code code = LANEKEEPER_OK;
    for (unsigned long i = 0; i < (n == 0 ? 1 : n) && code == LANEKEEPER_OK; i++) {
        struct lanekeeper_batch batch;
        code = lanekeeper_next(t->lk, &batch);
        if (code == LANEKEEPER_OK) {
            take(t, &batch);
            fflush(stdout);
            pause_ms(pause);
        }
    }
    return code;
}

static enum lanekeeper_code do_get(struct trainer *t, char *arguments)
{
    enum lanekeeper_code code = LANEKEEPER_OK;
    for (char *word = strtok(arguments, " "); word != NULL && code == LANEKEEPER_OK;
         word = strtok(NULL, " ")) {
        struct lanekeeper_batch batch;
        code = lanekeeper_get(t->lk, strtoull(word, NULL, 10), &batch);
        if (code == LANEKEEPER_OK)
            take(t, &batch);
    }
    return code;
}

/* ---- training ---- */

static size_t size_of(const struct lanekeeper_training *g)
{
    return g->dtype == LANEKEEPER_I64 ? 8 : 4;
}

static XXH64_hash_t hash_of_training(const struct lanekeeper_training *g)
{
    size_t n = (size_t)g->rows * g->sequence;
    const void *arrays[] = {g->input_ids, g->labels, g->positions, g->document_ids};
    XXH64_hash_t hash = 0;
    for (size_t i = 0; i < 4; i++)
        if (arrays[i] != NULL)
            hash = XXH3_64bits_withSeed(arrays[i], n * size_of(g), hash);
    return g->loss_mask != NULL ? XXH3_64bits_withSeed(g->loss_mask, n, hash) : hash;
}

static void put_numbers(const char *name, const void *at, size_t n, size_t size)
{
    if (at == NULL)
        return;
    printf(",\"%s\":[", name);
    for (size_t i = 0; i < n; i++)
        printf("%s%lld", i > 0 ? "," : "",
               size == 8   ? (long long)((const int64_t *)at)[i]
               : size == 4 ? (long long)((const int32_t *)at)[i]
                           : (long long)((const uint8_t *)at)[i]);
    printf("]");
}

/* The file (its inode) and the offset in it that memory of this process is: the same in two processes means
 * that they look at the same bytes. 0 and 0: it is no file's. */
static void place_of(const void *at, unsigned long long *ret_inode, unsigned long long *ret_offset)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    *ret_inode = *ret_offset = 0;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long long begin, end, offset, inode;
        if (sscanf(line, "%llx-%llx %*s %llx %*s %llu", &begin, &end, &offset, &inode) == 4 &&
            (uintptr_t)at >= begin && (uintptr_t)at < end && inode != 0) {
            *ret_inode = inode;
            *ret_offset = offset + ((uintptr_t)at - begin);
        }
    }
    if (maps != NULL)
        (void)fclose(maps);
}

static void put_training(const struct lanekeeper_training *g, bool quiet)
{
    size_t n = (size_t)g->rows * g->sequence, size = size_of(g);
    unsigned long long inode, offset, ids_inode, ids_offset;
    place_of(g->labels != NULL ? g->labels : g->positions, &inode, &offset);
    place_of(g->input_ids, &ids_inode, &ids_offset);
    printf("{\"rows\":%u,\"sequence\":%u,\"shared\":%u,\"inode\":%llu,\"offset\":%llu,\"ids_inode\":%llu,"
           "\"ids_offset\":%llu,\"n_cu_seqlens\":%u,\"max_seqlen\":%d,\"num_valid_tokens\":%llu",
           g->rows, g->sequence, g->shared, inode, offset, ids_inode, ids_offset, g->n_cu_seqlens, g->max_seqlen,
           (unsigned long long)g->num_valid_tokens);
    if (!quiet) {
        put_numbers("input_ids", g->input_ids, n, size);
        put_numbers("labels", g->labels, n, size);
        put_numbers("positions", g->positions, n, size);
        put_numbers("document_ids", g->document_ids, n, size);
        put_numbers("loss_mask", g->loss_mask, n, 1);
        size_t cu = (g->max_seqlens != NULL ? g->rows : 1) * (size_t)g->n_cu_seqlens;
        put_numbers("cu_seqlens", g->cu_seqlens, cu, 4);
        put_numbers("max_seqlens", g->max_seqlens, g->rows, 4);
    }
    printf("}\n");
}

static void set_training(struct lanekeeper_training_options *o, const char *key, long long value)
{
    const struct {
        const char *key;
        unsigned *field;
    } known[] = {{"dtype", (unsigned *)&o->dtype},         {"labels", (unsigned *)&o->labels},
                 {"borders", (unsigned *)&o->borders},     {"positions", (unsigned *)&o->positions},
                 {"cu_seqlens", (unsigned *)&o->cu_seqlens}, {"loss_mask", &o->loss_mask},
                 {"document_ids", &o->document_ids}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(key, known[i].key) == 0)
            *known[i].field = (unsigned)value;
    if (strcmp(key, "ignore_index") == 0)
        o->ignore_index = value;
}

static enum lanekeeper_code do_training(struct trainer *t, char *arguments)
{
    struct lanekeeper_training_options options;
    struct lanekeeper_error error = {0};
    bool quiet = false;
    lanekeeper_training_options_init(&options);
    for (char *word = strtok(arguments, " "); word != NULL; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        if (value == NULL)
            return LANEKEEPER_NOT_FOUND;
        *value++ = '\0';
        quiet = quiet || strcmp(word, "quiet") == 0;
        set_training(&options, word, strtoll(value, NULL, 10));
    }
    if (t->n_held == 0)
        return LANEKEEPER_NOT_FOUND;
    lanekeeper_training_done(&t->training);
    enum lanekeeper_code code =
        lanekeeper_training(&t->held[t->n_held - 1].batch, &options, &t->training, &error);
    if (code == LANEKEEPER_OK) {
        t->training_hash = hash_of_training(&t->training);
        put_training(&t->training, quiet);
    } else {
        printf("{\"error\":\"%s\"}\n", error.text);
    }
    return code;
}

static enum lanekeeper_code do_check(struct trainer *t, char *arguments)
{
    size_t changed = 0;
    (void)arguments;
    for (size_t i = 0; i < t->n_held; i++)
        changed += hash_of(&t->held[i].batch) != t->held[i].hash;
    if (t->training.rows > 0)
        changed += hash_of_training(&t->training) != t->training_hash;
    printf("{\"held\":%zu,\"changed\":%zu}\n", t->n_held, changed);
    return LANEKEEPER_OK;
}

static void put_copied(enum lanekeeper_dtype dtype, const void *out, size_t n)
{
    printf("{\"tokens\":[");
    for (size_t i = 0; i < n; i++) {
        long long token = dtype == LANEKEEPER_U16   ? ((const uint16_t *)out)[i]
                          : dtype == LANEKEEPER_U32 ? ((const uint32_t *)out)[i]
                                                    : ((const int64_t *)out)[i];
        printf("%s%lld", i > 0 ? "," : "", token);
    }
    printf("]}\n");
}

static enum lanekeeper_code do_copy(struct trainer *t, char *arguments)
{
    enum lanekeeper_dtype dtype = strcmp(arguments, "u16") == 0   ? LANEKEEPER_U16
                                  : strcmp(arguments, "u32") == 0 ? LANEKEEPER_U32
                                                                  : LANEKEEPER_I64;
    if (t->n_held == 0)
        return LANEKEEPER_NOT_FOUND;
    const struct lanekeeper_batch *b = &t->held[t->n_held - 1].batch;
    size_t n = (size_t)b->rows * b->sequence;
    void *out = calloc(n, (size_t)dtype);
    if (out == NULL)
        return LANEKEEPER_RESOURCE_EXHAUSTED;
    enum lanekeeper_code code = lanekeeper_copy_tokens(b, dtype, out, n * (size_t)dtype);
    if (code == LANEKEEPER_OK)
        put_copied(dtype, out, n);
    free(out);
    return code;
}

static enum lanekeeper_code do_release(struct trainer *t, char *arguments)
{
    (void)arguments;
    for (size_t i = 0; i < t->n_held; i++) {
        lanekeeper_release(&t->held[i].batch);
        lanekeeper_release(&t->held[i].batch);
    }
    t->n_held = 0;
    return LANEKEEPER_OK;
}

static enum lanekeeper_code do_show(struct trainer *t, char *arguments)
{
    bool all = strcmp(arguments, "all") == 0;
    t->tokens = all || strcmp(arguments, "tokens") == 0;
    t->parts = all || strcmp(arguments, "parts") == 0;
    return LANEKEEPER_OK;
}

static enum lanekeeper_code do_hold(struct trainer *t, char *arguments)
{
    t->hold = strtoul(arguments, NULL, 10);
    t->hold = t->hold > HELD_MAX ? HELD_MAX : t->hold;
    return LANEKEEPER_OK;
}

static enum lanekeeper_code do_state(struct trainer *t, char *arguments)
{
    uint8_t state[LANEKEEPER_STATE_MAX];
    size_t n = 0;
    uint64_t step = arguments[0] != '\0' ? strtoull(arguments, NULL, 10) : LANEKEEPER_CONSUMED;
    enum lanekeeper_code code = lanekeeper_state(t->lk, step, state, &n);
    printf("{\"state\":\"");
    put_hex(state, n);
    printf("\"}\n");
    return code;
}

static size_t get_hex(const char *text, uint8_t *ret_bytes, size_t max)
{
    size_t n = 0;
    unsigned byte;
    while (n < max && sscanf(text + 2 * n, "%2x", &byte) == 1)
        ret_bytes[n++] = (uint8_t)byte;
    return n;
}

static enum lanekeeper_code do_resume(struct trainer *t, char *arguments)
{
    uint8_t state[LANEKEEPER_STATE_MAX];
    return lanekeeper_resume(t->lk, state, get_hex(arguments, state, sizeof state));
}

static enum lanekeeper_code do_seek(struct trainer *t, char *arguments)
{
    return lanekeeper_seek(t->lk, strtoull(arguments, NULL, 10));
}

static enum lanekeeper_code do_digest(struct trainer *t, char *arguments)
{
    char *rest = arguments;
    uint64_t from = strtoull(rest, &rest, 10), to = strtoull(rest, &rest, 10);
    uint8_t *digests = calloc(to - from + 1, 16);
    enum lanekeeper_code code = lanekeeper_digest(t->lk, from, to, digests);
    for (uint64_t i = 0; code == LANEKEEPER_OK && i < to - from; i++) {
        printf("{\"step\":%llu,\"digest\":\"", (unsigned long long)(from + i));
        put_hex(digests + 16 * i, 16);
        printf("\"}\n");
    }
    free(digests);
    return code;
}

static enum lanekeeper_code do_status(struct trainer *t, char *arguments)
{
    char *json = NULL;
    (void)arguments;
    enum lanekeeper_code code = lanekeeper_status(t->lk, &json);
    if (code == LANEKEEPER_OK)
        printf("%s\n", json);
    lanekeeper_free(json);
    return code;
}

static enum lanekeeper_code do_info(struct trainer *t, char *arguments)
{
    struct lanekeeper_info info;
    (void)arguments;
    enum lanekeeper_code code = lanekeeper_info(t->lk, &info);
    printf("{\"shared\":%u,\"connections\":%llu,\"stream\":\"", info.shared,
           (unsigned long long)info.connections);
    put_hex(info.stream_digest, 16);
    printf("\",\"order\":\"");
    put_hex(info.order_digest, 16);
    printf("\"}\n");
    return code;
}

static enum lanekeeper_code do_trace(struct trainer *t, char *arguments)
{
    struct lanekeeper_trace trace;
    enum lanekeeper_code code = lanekeeper_trace(t->lk, strtoull(arguments, NULL, 10), 0, 0, &trace);
    if (code != LANEKEEPER_OK)
        return code;
    for (size_t i = 0; i < trace.n; i++)
        printf("{\"dataset\":\"%s\",\"shard\":\"%s\",\"row\":%llu,\"epoch\":%u,\"first\":%u,\"tokens\":%u}\n",
               trace.part[i].dataset, trace.part[i].shard,
               (unsigned long long)trace.part[i].row_in_shard, trace.part[i].epoch,
               trace.part[i].first, trace.part[i].tokens);
    lanekeeper_trace_done(&trace);
    return LANEKEEPER_OK;
}

static const struct {
    const char *name;
    enum lanekeeper_code (*run)(struct trainer *t, char *arguments);
} commands[] = {
    {"next", do_next},     {"get", do_get},     {"check", do_check},   {"release", do_release},
    {"show", do_show},     {"hold", do_hold},   {"state", do_state},   {"resume", do_resume},
    {"seek", do_seek},     {"digest", do_digest}, {"status", do_status}, {"info", do_info},
    {"trace", do_trace},   {"copy", do_copy},     {"training", do_training},
};

static void obey(struct trainer *t, char *line)
{
    char *arguments = strchr(line, ' ');
    if (arguments != NULL)
        *arguments++ = '\0';
    else
        arguments = line + strlen(line);
    if (strcmp(line, "close") == 0) {
        lanekeeper_close(t->lk);
        t->lk = NULL;
        printf("ok\n");
        fflush(stdout);
        return;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(line, commands[i].name) == 0 && (t->lk != NULL || commands[i].run == do_check ||
                                                    commands[i].run == do_release)) {
            finish(t, commands[i].run(t, arguments));
            return;
        }
    }
    printf("fail ? no such command\n");
    fflush(stdout);
}

static bool set_option(struct lanekeeper_options *o, char *word, uint8_t state[LANEKEEPER_STATE_MAX])
{
    char *value = strchr(word, '=');
    if (value == NULL)
        return false;
    *value++ = '\0';
    if (strcmp(word, "rank") == 0)
        o->rank = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(word, "world") == 0)
        o->world = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(word, "step") == 0)
        o->step = strtoull(value, NULL, 10);
    else if (strcmp(word, "lookahead") == 0)
        o->lookahead = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(word, "timeout") == 0)
        o->timeout_ms = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(word, "sharing") == 0)
        o->sharing = value[0] == 'n'                     ? LANEKEEPER_SHARED_NEVER
                     : strcmp(value, "always") == 0 ? LANEKEEPER_SHARED_ALWAYS
                                                    : LANEKEEPER_SHARED_AUTO;
    else if (strcmp(word, "stream") == 0)
        o->stream = value;
    else if (strcmp(word, "state") == 0) {
        o->state_bytes = get_hex(value, state, LANEKEEPER_STATE_MAX);
        o->state = state;
    } else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    struct lanekeeper_options options;
    struct lanekeeper_error error;
    uint8_t state[LANEKEEPER_STATE_MAX];
    struct trainer *t = calloc(1, sizeof *t);
    char line[65536];

    lanekeeper_options_init(&options);
    options.address = argc > 1 ? argv[1] : NULL;
    for (int i = 2; i < argc; i++) {
        if (!set_option(&options, argv[i], state)) {
            fprintf(stderr, "trainer: unknown argument %s\n", argv[i]);
            return 2;
        }
    }
    enum lanekeeper_code code = lanekeeper_connect(&options, &t->lk, &error);
    if (code != LANEKEEPER_OK) {
        printf("fail %s %s\n", lanekeeper_code_name((int)code), error.text);
        free(t);
        return 1;
    }
    printf("ok\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        obey(t, line);
    }
    if (t->lk != NULL)
        lanekeeper_close(t->lk);
    (void)do_release(t, line);
    lanekeeper_training_done(&t->training);
    free(t);
    return 0;
}
