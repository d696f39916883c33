#include "host/snapshots.h"

#include "base/bytes.h"
#include "core/steps.h"
#include "store/file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#define HEAD_BYTES 64
#define STATE_MAX (256u << 20)
#define QUEUE_MAX 4096
#define QUEUE_BYTES_MAX (512ull << 20)
#define LIST_MS 1000
#define ZSTD_LEVEL 3

struct job {
    struct job *next;
    struct lk_digest order;
    uint32_t lane;
    uint64_t position;
    const struct lk_recipe *recipe;
    uint64_t every;
    struct lk_buf state;
};

/* What a name says. */
struct named {
    struct lk_digest order;
    uint32_t lane;
    uint64_t position;
};

struct snapshots {
    char *dir;
    uint32_t keep;
    const struct log *log;
    struct named *list;    /* the directory as it was at listed_ms; the reader's alone */
    size_t n_list;
    int64_t listed_ms;
    pthread_t writer;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wake;
    struct job *first, **last;
    uint32_t queued;
    uint64_t queued_bytes;
    const struct job *writing; /* at this moment; NULL: none */
    bool unwanted;             /* it is to be removed when it has been written */
    bool stop;
    struct snapshots_stats stats;
};

/* Names --------------------------------------------------------------------------------------- */

static char *name_of(struct lk_digest order, uint32_t lane, uint64_t position)
{
    char hex[LK_DIGEST_HEX];
    lk_digest_hex(order, hex);
    return lk_format("%s-%05u-%020" PRIu64 ".lks", hex, lane, position);
}

static bool parse_name(const char *name, struct lk_digest *ret_order, uint32_t *ret_lane,
                       uint64_t *ret_position)
{
    char hex[LK_DIGEST_HEX];
    unsigned lane;
    uint64_t position;
    int end = 0;
    /* NOLINTNEXTLINE(cert-err34-c): a number that is too large becomes the largest, which no file is asked for by */
    if (sscanf(name, "%32[0-9a-f]-%5u-%20" SCNu64 ".lks%n", hex, &lane, &position, &end) != 3 ||
        end == 0 || name[end] != '\0' || !lk_digest_parse(hex, ret_order))
        return false;
    *ret_lane = lane;
    *ret_position = position;
    return true;
}

/* By order digest, lane and position. */
static int by_name(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    if (!lk_digest_equal(x->order, y->order))
        return x->order.hi != y->order.hi ? (x->order.hi < y->order.hi ? -1 : 1)
                                          : (x->order.lo < y->order.lo ? -1 : 1);
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

/* All snapshots in the directory, sorted. Caller frees. */
static struct named *list_all(const struct snapshots *s, size_t *ret_n)
{
    struct named *list = NULL;
    size_t n = 0, cap = 0;
    DIR *dir = opendir(s->dir);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        struct named named;
        if (!parse_name(entry->d_name, &named.order, &named.lane, &named.position))
            continue;
        if (n == cap) {
            cap = cap == 0 ? 64 : 2 * cap;
            list = lk_resize(list, cap, sizeof *list);
        }
        list[n++] = named;
    }
    if (dir != NULL)
        closedir(dir);
    if (n > 0)
        qsort(list, n, sizeof *list, by_name);
    *ret_n = n;
    return list;
}

/* How many of the sorted @list come before or are @named. */
static size_t count_up_to(const struct named *list, size_t n, const struct named *named)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_name(&list[middle], named) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Bytes --------------------------------------------------------------------------------------- */

static void put_file(const struct job *job, struct lk_buf *out)
{
    size_t bound = ZSTD_compressBound(job->state.len);
    uint8_t *head = lk_buf_room(out, HEAD_BYTES + bound);
    size_t packed = ZSTD_compress(head + HEAD_BYTES, bound, job->state.data, job->state.len,
                                  ZSTD_LEVEL);
    LK_CHECK(!ZSTD_isError(packed));
    memcpy(head, "LKS1", 4);
    lk_put_u32(head + 4, 1);
    lk_digest_put(job->order, head + 8);
    lk_put_u32(head + 24, job->lane);
    lk_put_u32(head + 28, 0);
    lk_put_u64(head + 32, job->position);
    lk_put_u32(head + 40, (uint32_t)job->state.len);
    lk_put_u32(head + 44, (uint32_t)packed);
    lk_put_u64(head + 48, lk_hash64(head, 48, 0));
    lk_put_u64(head + 56, lk_hash64(head + HEAD_BYTES, packed, 0));
    out->len += HEAD_BYTES + packed;
}

struct head {
    struct lk_digest order;
    uint32_t lane;
    uint64_t position;
    uint32_t state_bytes, packed_bytes;
};

/* All versions keep the first 56 bytes as they are, so that another one is told from damage. */
static enum lk_code get_head(const char *path, const struct lk_buf *file, struct head *ret_head,
                             struct lk_err *err)
{
    const uint8_t *p = file->data;
    if (file->len < HEAD_BYTES)
        return lk_fail(err, LK_DATA_LOSS, "%s: a snapshot has at least %d bytes, this one %zu", path,
                       HEAD_BYTES, file->len);
    if (memcmp(p, "LKS1", 4) != 0 || lk_hash64(p, 48, 0) != lk_get_u64(p + 48))
        return lk_fail(err, LK_DATA_LOSS, "%s: the header is damaged", path);
    if (lk_get_u32(p + 4) != 1)
        return lk_fail(err, LK_FAILED_PRECONDITION, "%s: version %u, expected 1", path,
                       lk_get_u32(p + 4));
    struct head head = {.order = lk_digest_get(p + 8),
                        .lane = lk_get_u32(p + 24),
                        .position = lk_get_u64(p + 32),
                        .state_bytes = lk_get_u32(p + 40),
                        .packed_bytes = lk_get_u32(p + 44)};
    if (head.state_bytes > STATE_MAX || head.packed_bytes != file->len - HEAD_BYTES)
        return lk_fail(err, LK_DATA_LOSS, "%s: %zu bytes after the header, expected %u", path,
                       file->len - HEAD_BYTES, head.packed_bytes);
    if (lk_hash64(p + HEAD_BYTES, head.packed_bytes, 0) != lk_get_u64(p + 56))
        return lk_fail(err, LK_DATA_LOSS, "%s: the contents do not match their checksum", path);
    *ret_head = head;
    return LK_OK;
}

static enum lk_code read_file(const char *path, struct head *ret_head, struct lk_buf *out,
                              struct lk_err *err)
{
    struct lk_buf file = {0};
    enum lk_code code = lk_file_read_all(path, STATE_MAX + HEAD_BYTES, &file, err);
    if (code == LK_OK)
        code = get_head(path, &file, ret_head, err);
    if (code == LK_OK) {
        out->len = 0;
        uint8_t *to = lk_buf_room(out, ret_head->state_bytes);
        size_t n = ZSTD_decompress(to, ret_head->state_bytes, file.data + HEAD_BYTES,
                                   ret_head->packed_bytes);
        if (ZSTD_isError(n) || n != ret_head->state_bytes)
            code = lk_fail(err, LK_DATA_LOSS, "%s: cannot be decompressed to %u bytes", path,
                           ret_head->state_bytes);
        else
            out->len = n;
    }
    lk_buf_done(&file);
    return code;
}

enum lk_code snapshot_check(const char *path, struct lk_digest *ret_order, uint32_t *ret_lane,
                            uint64_t *ret_position, struct lk_err *err)
{
    struct head head;
    struct lk_buf state = {0};
    struct lk_digest order;
    uint32_t lane;
    uint64_t position;
    const char *slash = strrchr(path, '/');
    enum lk_code code = read_file(path, &head, &state, err);
    lk_buf_done(&state);
    if (code != LK_OK)
        return code;
    if (!parse_name(slash != NULL ? slash + 1 : path, &order, &lane, &position) ||
        !lk_digest_equal(order, head.order) || lane != head.lane || position != head.position)
        return lk_fail(err, LK_DATA_LOSS,
                       "%s: the name is not that of its contents (lane %u, position %" PRIu64 ")",
                       path, head.lane, head.position);
    *ret_order = order;
    *ret_lane = lane;
    *ret_position = position;
    return LK_OK;
}

/* Writing ------------------------------------------------------------------------------------- */

static void remove_file(const struct snapshots *s, struct lk_digest order, uint32_t lane,
                        uint64_t position)
{
    char *name = name_of(order, lane, position);
    char *path = lk_format("%s/%s", s->dir, name);
    (void)unlink(path); /* another server may have done it */
    free(path);
    free(name);
}

/* Is the file at @position to stay, when the one of @job has been written? A file of age a, in numbers,
 * stays when its number divides by the power of two that is about a/keep. A number's divisors never
 * change, so a file that goes at one age would not have been wanted at a later one. */
static bool stays(const struct snapshots *s, const struct job *job, uint64_t position)
{
    uint64_t number = steps_at(job->recipe, position) / job->every;
    uint64_t age = steps_at(job->recipe, job->position) / job->every - number, every = 1;
    while (age / every >= s->keep)
        every *= 2;
    return number % every == 0;
}

static void prune(struct snapshots *s, const struct job *job)
{
    struct named last = {.order = job->order, .lane = job->lane, .position = job->position};
    size_t n;
    struct named *list = list_all(s, &n);
    for (size_t i = count_up_to(list, n, &last); i-- > 0;) {
        if (!lk_digest_equal(list[i].order, job->order) || list[i].lane != job->lane)
            break;
        if (!stays(s, job, list[i].position))
            remove_file(s, job->order, job->lane, list[i].position);
    }
    free(list);
}

/* Another server may have written it: then it is the same. A damaged one is made anew; one that cannot be
 * read, or that a later version wrote, is left alone. */
static bool is_there(const char *path, const struct job *job)
{
    struct lk_buf file = {0};
    struct head head;
    struct lk_err err;
    enum lk_code code = lk_file_read_all(path, STATE_MAX + HEAD_BYTES, &file, &err);
    if (code == LK_OK)
        code = get_head(path, &file, &head, &err);
    lk_buf_done(&file);
    if (code == LK_OK)
        return lk_digest_equal(head.order, job->order) && head.lane == job->lane &&
               head.position == job->position;
    return code != LK_NOT_FOUND && code != LK_DATA_LOSS;
}

static void write_job(struct snapshots *s, const struct job *job)
{
    struct lk_buf file = {0};
    struct lk_err err;
    char *name = name_of(job->order, job->lane, job->position);
    char *path = lk_format("%s/%s", s->dir, name);
    enum lk_code code = LK_OK;

    if (!is_there(path, job)) {
        put_file(job, &file);
        code = lk_file_write_atomic(path, file.data, file.len, &err);
        if (code != LK_OK)
            log_event(s->log, LOG_LEVEL_WARN, "snapshots", "not_written", "reason", err.text, NULL);
        else
            prune(s, job);
    }
    pthread_mutex_lock(&s->mutex);
    s->stats.written += code == LK_OK && file.len > 0;
    s->stats.bytes += code == LK_OK ? file.len : 0;
    s->stats.failed += code != LK_OK;
    pthread_mutex_unlock(&s->mutex);
    lk_buf_done(&file);
    free(path);
    free(name);
}

static void *write_jobs(void *arg)
{
    struct snapshots *s = arg;
    pthread_mutex_lock(&s->mutex);
    while (!s->stop || s->first != NULL) {
        struct job *job = s->first;
        if (job == NULL) {
            pthread_cond_wait(&s->wake, &s->mutex);
            continue;
        }
        s->first = job->next;
        if (s->first == NULL)
            s->last = &s->first;
        s->queued--;
        s->queued_bytes -= job->state.len;
        s->writing = job;
        s->unwanted = false;
        pthread_mutex_unlock(&s->mutex);
        write_job(s, job);
        pthread_mutex_lock(&s->mutex);
        if (s->unwanted)
            remove_file(s, job->order, job->lane, job->position);
        s->writing = NULL;
        lk_buf_done(&job->state);
        free(job);
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

void snapshots_write(struct snapshots *s, const struct lk_recipe *recipe, uint64_t every,
                     struct lk_digest order, uint32_t lane, uint64_t position,
                     struct lk_buf *state)
{
    LK_CHECK(every > 0);
    struct job *job = lk_zalloc(1, sizeof *job);
    *job = (struct job){.order = order,
                        .lane = lane,
                        .position = position,
                        .recipe = recipe,
                        .every = every,
                        .state = *state};
    *state = (struct lk_buf){0};
    pthread_mutex_lock(&s->mutex);
    bool full = s->queued == QUEUE_MAX || job->state.len > STATE_MAX ||
                s->queued_bytes + job->state.len > QUEUE_BYTES_MAX;
    if (full) {
        s->stats.failed++;
    } else {
        *s->last = job;
        s->last = &job->next;
        s->queued++;
        s->queued_bytes += job->state.len;
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->mutex);
    if (full) {
        log_event(s->log, LOG_LEVEL_WARN, "snapshots", "not_written", "reason",
                  "too large, or the writer cannot keep up", NULL);
        lk_buf_done(&job->state);
        free(job);
    }
}

static void release(struct snapshots *s)
{
    pthread_mutex_destroy(&s->mutex);
    pthread_cond_destroy(&s->wake);
    free(s->dir);
    free(s->list);
    free(s);
}

enum lk_code snapshots_open(const char *dir, uint32_t keep, const struct log *log,
                            struct snapshots **ret_snapshots, struct lk_err *err)
{
    if (mkdir(dir, 0755) != 0 && errno != EEXIST)
        return lk_file_fail(err, errno, "cannot make the snapshot directory", dir);
    struct snapshots *s = lk_zalloc(1, sizeof *s);
    s->dir = lk_strdup(dir);
    s->keep = keep;
    s->log = log;
    s->last = &s->first;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->wake, NULL);
    int error = pthread_create(&s->writer, NULL, write_jobs, s);
    if (error != 0) {
        release(s);
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "cannot start the thread that writes snapshots: %s",
                       strerror(error));
    }
    *ret_snapshots = s;
    return LK_OK;
}

void snapshots_close(struct snapshots *s)
{
    if (s == NULL)
        return;
    pthread_mutex_lock(&s->mutex);
    s->stop = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->writer, NULL);
    release(s);
}

static void drop_queued(struct snapshots *s, struct lk_digest order)
{
    pthread_mutex_lock(&s->mutex);
    s->unwanted = s->unwanted || (s->writing != NULL && lk_digest_equal(s->writing->order, order));
    for (struct job **at = &s->first; *at != NULL;) {
        struct job *job = *at;
        if (!lk_digest_equal(job->order, order)) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        s->queued--;
        s->queued_bytes -= job->state.len;
        lk_buf_done(&job->state);
        free(job);
    }
    s->last = &s->first;
    while (*s->last != NULL)
        s->last = &(*s->last)->next;
    pthread_mutex_unlock(&s->mutex);
}

void snapshots_forget(struct snapshots *s, struct lk_digest order)
{
    size_t n;
    drop_queued(s, order);
    struct named *list = list_all(s, &n);
    for (size_t i = 0; i < n; i++)
        if (lk_digest_equal(list[i].order, order))
            remove_file(s, order, list[i].lane, list[i].position);
    free(list);
    s->listed_ms = 0;
}

/* Reading ------------------------------------------------------------------------------------- */

static int64_t clock_ms(void)
{
    struct timespec now;
    LK_CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Many lanes are restored at once: they share one look at the directory. */
static void list_again(struct snapshots *s)
{
    int64_t now = clock_ms();
    if (s->listed_ms != 0 && now - s->listed_ms < LIST_MS)
        return;
    free(s->list);
    s->list = list_all(s, &s->n_list);
    s->listed_ms = now;
}

/* One candidate; a damaged one is named in the log, so that the older one is no surprise. */
static bool try_read(struct snapshots *s, struct lk_digest order, uint32_t lane, uint64_t position,
                     struct lk_buf *ret_state)
{
    struct lk_err err;
    struct head head;
    char *name = name_of(order, lane, position);
    char *path = lk_format("%s/%s", s->dir, name);
    enum lk_code code = read_file(path, &head, ret_state, &err);
    if (code == LK_OK && (!lk_digest_equal(head.order, order) || head.lane != lane ||
                          head.position != position))
        code = lk_fail(&err, LK_DATA_LOSS, "%s: its header names another lane or position", path);
    if (code != LK_OK)
        log_event(s->log, LOG_LEVEL_WARN, "snapshots", "unusable", "reason", err.text, "instead",
                  "an older one", NULL);
    if (code == LK_DATA_LOSS)
        remove_file(s, order, lane, position); /* makes room for a whole one */
    pthread_mutex_lock(&s->mutex);
    s->stats.read += code == LK_OK;
    s->stats.damaged += code != LK_OK;
    pthread_mutex_unlock(&s->mutex);
    free(path);
    free(name);
    return code == LK_OK;
}

bool snapshots_read(struct snapshots *s, struct lk_digest order, uint32_t lane, uint64_t from,
                    uint64_t until, uint64_t *ret_position, struct lk_buf *ret_state)
{
    struct named last = {.order = order, .lane = lane, .position = until};
    list_again(s);
    for (size_t i = count_up_to(s->list, s->n_list, &last); i-- > 0;) {
        const struct named *named = &s->list[i];
        if (!lk_digest_equal(named->order, order) || named->lane != lane || named->position < from)
            break;
        if (try_read(s, order, lane, named->position, ret_state)) {
            *ret_position = named->position;
            return true;
        }
    }
    return false;
}

void snapshots_stats(struct snapshots *s, struct snapshots_stats *ret_stats)
{
    pthread_mutex_lock(&s->mutex);
    *ret_stats = s->stats;
    pthread_mutex_unlock(&s->mutex);
}
