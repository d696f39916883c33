#include "host/counts_private.h"

#include "store/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_MS 1000             /* between two looks at a file that lacks something */
#define ROUND_MS 2000            /* at least, between two rounds of writing … */
#define ROUND_MOST_MS 300000     /* … and at most, */
#define ROUND_SHARE 50           /* so that writing takes a fiftieth of the time, */
#define EAGER_SHARE 8            /* or an eighth */
#define NEWS_LEAST 256u          /* rows of a shard that has any */
#define ROWS_MAX (1u << 31)      /* of a shard; of a larger one nothing is kept */

/* A block as it was read from a file. In its shard's table, and in the list of all by last use. */
struct block {
    struct block *older, *newer;
    struct shard *shard;
    uint32_t b;
    struct lk_count row[LK_COUNTS_BLOCK];
};

/* What tells a file from the one that replaces it. */
struct stamp {
    ino_t inode;
    off_t bytes;
    struct timespec changed;
};

struct shard {
    struct counts_set *set;
    uint32_t number;
    struct shard *older, *newer;   /* of those whose file is in memory, by last use */
    struct lk_counts_file file;    /* bytes.data NULL: not in memory */
    struct stamp stamp;            /* of that file when it was read */
    int64_t looked_ms;             /* 0: never */
    enum lk_code looked;           /* what came of it */
    struct lk_counts_id id;        /* rows 0: not made yet */
    struct block **block;          /* [blocks], NULL: none is in memory */
    struct shard *next_news;       /* of those with news */
    struct counts_news *news;
    size_t n_news, cap_news;
};

struct counts_set {
    struct counts *counts;
    struct counts_set *next;
    struct lk_digest ops;
    const struct lk_index *index;
    const char *name;
    struct shard *shard;           /* [index->shards] */
    uint64_t doubts;               /* contradictions: that counts_put came upon, */
    _Atomic uint64_t untold;       /* and that the writer did; see counts_job */
    uint64_t heard;                /* of those, when last asked for */
};

struct counts {
    struct counts_config config;
    char *dir;
    struct counts_writer *writer;  /* NULL: nothing is written */
    struct counts_set *sets;
    struct block *oldest, *newest;
    struct shard *oldest_file, *newest_file;
    uint64_t block_bytes, file_bytes, news_bytes;
    struct shard *with_news;
    int64_t round_ms;              /* when the last one was given to the writer */
    struct counts_stats stats;
};

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + 1;
}

/* Blocks in memory ---------------------------------------------------------------------------- */

static void block_unlink(struct counts *c, struct block *block)
{
    *(block->older != NULL ? &block->older->newer : &c->oldest) = block->newer;
    *(block->newer != NULL ? &block->newer->older : &c->newest) = block->older;
}

static void block_append(struct counts *c, struct block *block)
{
    block->older = c->newest;
    block->newer = NULL;
    *(block->older != NULL ? &block->older->newer : &c->oldest) = block;
    c->newest = block;
}

static void block_drop(struct counts *c, struct block *block)
{
    block_unlink(c, block);
    block->shard->block[block->b] = NULL;
    c->block_bytes -= sizeof *block;
    free(block);
}

static void shard_drop_blocks(struct counts *c, struct shard *s)
{
    for (uint32_t b = 0; s->block != NULL && b < lk_counts_blocks(s->id.rows); b++)
        if (s->block[b] != NULL)
            block_drop(c, s->block[b]);
    free(s->block);
    s->block = NULL;
}

/* Files in memory ----------------------------------------------------------------------------- */

static void file_unlink(struct counts *c, struct shard *s)
{
    *(s->older != NULL ? &s->older->newer : &c->oldest_file) = s->newer;
    *(s->newer != NULL ? &s->newer->older : &c->newest_file) = s->older;
}

static void file_append(struct counts *c, struct shard *s)
{
    s->older = c->newest_file;
    s->newer = NULL;
    *(s->older != NULL ? &s->older->newer : &c->oldest_file) = s;
    c->newest_file = s;
}

static void file_drop(struct counts *c, struct shard *s)
{
    if (s->file.bytes.data == NULL)
        return;
    file_unlink(c, s);
    c->file_bytes -= s->file.bytes.len;
    lk_counts_file_done(&s->file);
}

static const struct lk_index_shard *index_shard(const struct shard *s)
{
    return &s->set->index->shard[s->number];
}

static const uint32_t *row_bytes_of(const struct shard *s)
{
    return s->set->index->row_bytes + index_shard(s)->first_row;
}

static void make_id(struct shard *s)
{
    const struct lk_index_shard *shard = index_shard(s);
    s->id = (struct lk_counts_id){.ops = s->set->ops, .shard = shard->content, .rows = shard->rows};
    s->id.lengths = counts_lengths(row_bytes_of(s), shard->rows);
}

static void note_unusable(struct shard *s, enum lk_code code, struct lk_err *err)
{
    struct counts *c = s->set->counts;
    if (code == LK_NOT_FOUND || code == s->looked)
        return;
    (void)lk_fail_in(err, "the counts of dataset %s, shard %s", s->set->name, index_shard(s)->name);
    counts_log_damage(c->config.log, err);
    c->stats.damaged += code == LK_DATA_LOSS;
}

static struct stamp stamp_of(const struct stat *st)
{
    return (struct stamp){.inode = st->st_ino, .bytes = st->st_size, .changed = st->st_mtim};
}

/* Reads the file. */
static void file_look(struct shard *s)
{
    struct counts *c = s->set->counts;
    uint64_t most = c->config.memory_bytes / 4;
    struct lk_counts_file file;
    struct stat st;
    struct lk_err err;
    if (s->id.rows == 0)
        make_id(s);
    enum lk_code code = counts_load(&c->config, &s->id, most, &file, &st, &err);
    if (code == LK_OK) {
        shard_drop_blocks(c, s);
        file_drop(c, s);
        s->file = file;
        s->stamp = stamp_of(&st);
        file_append(c, s);
        c->file_bytes += file.bytes.len;
        while (c->file_bytes > most && c->oldest_file != s)
            file_drop(c, c->oldest_file);
    } else {
        note_unusable(s, code, &err);
    }
    s->looked = code;
    s->looked_ms = now_ms();
}

static bool file_changed(const struct shard *s)
{
    struct stat st;
    char *path = counts_path(s->set->counts->dir, &s->id);
    bool there = stat(path, &st) == 0;
    free(path);
    if (!there)
        return false;
    struct stamp now = stamp_of(&st), then = s->stamp;
    return now.inode != then.inode || now.bytes != then.bytes ||
           now.changed.tv_sec != then.changed.tv_sec || now.changed.tv_nsec != then.changed.tv_nsec;
}

/* Something is not known: is it in a file by now? */
static bool look_again(struct shard *s)
{
    bool there = s->file.bytes.data != NULL;
    if (s->looked_ms != 0 && now_ms() - s->looked_ms < LOOK_MS)
        return false;
    s->looked_ms = now_ms();
    if (there && !file_changed(s))
        return false;
    file_look(s);
    return s->looked == LK_OK;
}

/* Its bytes, from the file if need be; NULL when there are none. */
static const struct lk_counts_file *file_of(struct shard *s)
{
    struct counts *c = s->set->counts;
    if (s->file.bytes.data == NULL && (s->looked_ms == 0 || s->looked == LK_OK))
        file_look(s);
    if (s->file.bytes.data == NULL)
        return NULL;
    if (c->newest_file != s) {
        file_unlink(c, s);
        file_append(c, s);
    }
    return &s->file;
}

/* A file that contradicts itself is no file. */
static void file_is_damaged(struct shard *s, struct lk_err *err)
{
    struct counts *c = s->set->counts;
    char *path = counts_path(c->dir, &s->id);
    (void)lk_fail_in(err, "%s", path);
    free(path);
    s->looked = LK_OK;
    note_unusable(s, LK_DATA_LOSS, err);
    s->looked = LK_DATA_LOSS;
    shard_drop_blocks(c, s);
    file_drop(c, s);
    if (c->config.write)
        counts_remove(c->dir, &s->id);
}

static struct block *block_of(struct shard *s, uint32_t b)
{
    struct counts *c = s->set->counts;
    if (s->block != NULL && s->block[b] != NULL) {
        if (c->newest != s->block[b]) {
            block_unlink(c, s->block[b]);
            block_append(c, s->block[b]);
        }
        return s->block[b];
    }
    const struct lk_counts_file *file = file_of(s);
    if (file == NULL)
        return NULL;
    struct block *block = lk_alloc(sizeof *block);
    struct lk_err err;
    if (lk_counts_read(file, b, row_bytes_of(s), block->row, &err) != LK_OK) {
        free(block);
        file_is_damaged(s, &err);
        return NULL;
    }
    if (s->block == NULL)
        s->block = lk_zalloc(lk_counts_blocks(s->id.rows), sizeof(struct block *));
    block->shard = s;
    block->b = b;
    s->block[b] = block;
    block_append(c, block);
    c->block_bytes += sizeof *block;
    while (c->block_bytes > c->config.memory_bytes / 4 && c->oldest != block) {
        LK_CHECK(c->oldest->older == NULL);
        block_drop(c, c->oldest);
    }
    return block;
}

/* Asking -------------------------------------------------------------------------------------- */

static struct shard *shard_of(const struct counts_set *set, uint64_t row)
{
    const struct lk_index *index = set->index;
    uint32_t low = 0, high = index->shards - 1;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (index->shard[middle].first_row <= row)
            low = middle;
        else
            high = middle - 1;
    }
    /* Shards without rows begin where the next one does, which comes last. */
    return index->shard[low].rows <= ROWS_MAX ? &set->shard[low] : NULL;
}

static bool get_all(struct shard *s, const uint64_t *row, uint32_t n, struct lk_count *ret_count)
{
    uint64_t first = index_shard(s)->first_row;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t r = row[i] - first;
        const struct block *block = block_of(s, (uint32_t)(r / LK_COUNTS_BLOCK));
        if (block == NULL || !block->row[r % LK_COUNTS_BLOCK].known)
            return false;
        ret_count[i] = block->row[r % LK_COUNTS_BLOCK];
    }
    return true;
}

/* Of how many rows in a row, the first of which is in @shard, that is true. */
static uint32_t run_in(const struct lk_index_shard *shard, const uint64_t *row, uint32_t n)
{
    uint32_t run = 1;
    while (run < n && row[run] >= shard->first_row && row[run] - shard->first_row < shard->rows)
        run++;
    return run;
}

bool counts_get(struct counts_set *set, const uint64_t *row, uint32_t n, struct lk_count *ret_count)
{
    for (uint32_t i = 0, run; i < n; i += run) {
        struct shard *s = shard_of(set, row[i]);
        if (s == NULL)
            return false;
        run = run_in(index_shard(s), row + i, n - i);
        if (!get_all(s, row + i, run, ret_count + i) &&
            !(look_again(s) && get_all(s, row + i, run, ret_count + i)))
            return false;
    }
    return true;
}

void counts_used(struct counts_set *set, uint32_t rows)
{
    set->counts->stats.used += rows;
}

void counts_block(struct counts_set *set, uint32_t shard, uint32_t b,
                  struct lk_count ret_row[static LK_COUNTS_BLOCK])
{
    const struct block *block =
        set->index->shard[shard].rows <= ROWS_MAX ? block_of(&set->shard[shard], b) : NULL;
    if (block != NULL)
        memcpy(ret_row, block->row, sizeof block->row);
    else
        memset(ret_row, 0, LK_COUNTS_BLOCK * sizeof *ret_row);
}

uint64_t counts_known(struct counts_set *set)
{
    uint64_t known = 0;
    for (uint32_t i = 0; i < set->index->shards; i++) {
        struct shard *s = &set->shard[i];
        uint64_t rows = index_shard(s)->rows;
        const struct lk_counts_file *file = rows > 0 && rows <= ROWS_MAX ? file_of(s) : NULL;
        known += file != NULL ? file->known : 0;
    }
    return known;
}

/* Keeping ------------------------------------------------------------------------------------- */

/* Is it known already? What contradicts it is not used again. */
static bool known_already(struct shard *s, uint64_t r, const struct lk_count *count, bool *ret_wrong)
{
    struct block *block = s->block != NULL ? s->block[r / LK_COUNTS_BLOCK] : NULL;
    struct lk_count *old = block != NULL ? &block->row[r % LK_COUNTS_BLOCK] : NULL;
    *ret_wrong = false;
    if (old == NULL || !old->known)
        return false;
    bool same = counts_same(old, count);
    *old = *count;
    *ret_wrong = !same;
    return same;
}

/* For one more of the shard. All that wait may have gone to the writer then. */
static bool room_for_news(struct shard *s)
{
    struct counts *c = s->set->counts;
    size_t cap = s->cap_news == 0 ? NEWS_LEAST : 2 * s->cap_news;
    uint64_t more = (cap - s->cap_news) * sizeof *s->news;
    if (s->n_news < s->cap_news)
        return true;
    if (c->news_bytes + more > c->config.memory_bytes / 4) {
        if (!c->config.eager)
            return false;
        counts_flush(c);
        cap = NEWS_LEAST;
        more = cap * sizeof *s->news;
    }
    s->news = lk_resize(s->news, cap, sizeof *s->news);
    s->cap_news = cap;
    c->news_bytes += more;
    return true;
}

void counts_put(struct counts_set *set, uint64_t row, struct lk_count count)
{
    struct counts *c = set->counts;
    struct shard *s = shard_of(set, row);
    uint64_t r = s != NULL ? row - index_shard(s)->first_row : 0;
    bool wrong = false;
    count.known = true;
    if (s == NULL || known_already(s, r, &count, &wrong))
        return;
    set->doubts += wrong;
    if (c->writer == NULL)
        return;
    if (!room_for_news(s)) {
        c->stats.dropped++;
        return;
    }
    if (s->n_news == 0) {
        s->next_news = c->with_news;
        c->with_news = s;
    }
    s->news[s->n_news++] = (struct counts_news){.row = (uint32_t)r, .told = wrong, .count = count};
    c->stats.waiting++;
}

void counts_correct(struct counts_set *set, uint64_t row, struct lk_count count)
{
    struct shard *s = shard_of(set, row);
    uint64_t r = s != NULL ? row - index_shard(s)->first_row : 0;
    struct block *block = s != NULL ? block_of(s, (uint32_t)(r / LK_COUNTS_BLOCK)) : NULL;
    count.known = true;
    set->doubts++;
    if (block != NULL && block->row[r % LK_COUNTS_BLOCK].known)
        block->row[r % LK_COUNTS_BLOCK] = count;
    for (size_t i = 0; s != NULL && i < s->n_news; i++)
        s->news[i].told = s->news[i].told || s->news[i].row == r;
}

/* What a shard has to be written; its memory goes with it. */
static struct counts_job *take_job(struct shard *s)
{
    const struct lk_index_shard *shard = index_shard(s);
    struct counts_job *job = lk_zalloc(1, sizeof *job);
    *job = (struct counts_job){
        .id = {.ops = s->set->ops, .shard = shard->content, .rows = shard->rows},
        .row_bytes = row_bytes_of(s),
        .dataset = s->set->name,
        .shard = shard->name,
        .news = s->news,
        .n = s->n_news,
        .doubts = &s->set->untold,
    };
    s->news = NULL;
    s->n_news = s->cap_news = 0;
    return job;
}

static void give_all(struct counts *c)
{
    struct counts_job *jobs = NULL;
    for (struct shard *s = c->with_news; s != NULL; s = s->next_news) {
        struct counts_job *job = take_job(s);
        job->next = jobs;
        jobs = job;
    }
    c->with_news = NULL;
    c->news_bytes = 0;
    c->stats.waiting = 0;
    c->round_ms = now_ms();
    if (jobs != NULL)
        writer_give(c->writer, jobs);
}

void counts_work(struct counts *c)
{
    if (c->with_news == NULL)
        return;
    bool full = c->news_bytes > c->config.memory_bytes / 8;
    int64_t now = now_ms();
    if (!full && now - c->round_ms < ROUND_MS)
        return;
    int64_t spent = writer_spent_ms(c->writer);
    int64_t wait = spent * (c->config.eager ? EAGER_SHARE : ROUND_SHARE);
    wait = wait > ROUND_MOST_MS ? ROUND_MOST_MS : wait;
    if (spent >= 0 && (full || now - c->round_ms >= wait))
        give_all(c);
}

void counts_flush(struct counts *c)
{
    if (c->writer == NULL)
        return;
    give_all(c);
    writer_wait(c->writer);
}

/* Opening ------------------------------------------------------------------------------------- */

enum lk_code counts_open(const struct counts_config *config, struct counts **ret_counts,
                         struct lk_err *err)
{
    if (config->write && mkdir(config->dir, 0755) != 0 && errno != EEXIST)
        return lk_file_fail(err, errno, "cannot make the folder of counts", config->dir);
    struct counts *c = lk_zalloc(1, sizeof *c);
    c->config = *config;
    c->dir = lk_strdup(config->dir);
    c->config.dir = c->dir;
    c->round_ms = now_ms();
    if (config->write && (c->writer = writer_new(&c->config, err)) == NULL) {
        counts_close(c);
        return LK_RESOURCE_EXHAUSTED;
    }
    *ret_counts = c;
    return LK_OK;
}

static void set_free(struct counts_set *set)
{
    for (uint32_t i = 0; i < set->index->shards; i++) {
        struct shard *s = &set->shard[i];
        shard_drop_blocks(set->counts, s);
        file_drop(set->counts, s);
        free(s->news);
    }
    free(set->shard);
    free(set);
}

void counts_close(struct counts *c)
{
    if (c == NULL)
        return;
    if (c->writer != NULL)
        give_all(c);
    writer_free(c->writer);
    for (struct counts_set *set = c->sets, *next; set != NULL; set = next) {
        next = set->next;
        set_free(set);
    }
    free(c->dir);
    free(c);
}

struct counts_set *counts_set(struct counts *c, struct lk_digest ops, const struct lk_index *index,
                              const char *name)
{
    for (struct counts_set *set = c->sets; set != NULL; set = set->next)
        if (lk_digest_equal(set->ops, ops) && lk_digest_equal(set->index->digest, index->digest))
            return set;
    struct counts_set *set = lk_zalloc(1, sizeof *set);
    *set = (struct counts_set){
        .counts = c, .next = c->sets, .ops = ops, .index = index, .name = name};
    set->shard = lk_zalloc(index->shards, sizeof *set->shard);
    for (uint32_t i = 0; i < index->shards; i++) {
        set->shard[i].set = set;
        set->shard[i].number = i;
    }
    c->sets = set;
    return set;
}

uint64_t counts_doubts(struct counts_set *set)
{
    struct counts *c = set->counts;
    uint64_t untold = set->untold;
    for (uint32_t i = 0; untold != set->heard && i < set->index->shards; i++) {
        shard_drop_blocks(c, &set->shard[i]);
        file_drop(c, &set->shard[i]);
        set->shard[i].looked_ms = 0;
    }
    set->heard = untold;
    return set->doubts + untold;
}

void counts_stats(struct counts *c, struct counts_stats *ret_stats)
{
    *ret_stats = c->stats;
    ret_stats->memory = c->block_bytes + c->file_bytes + c->news_bytes;
    if (c->writer != NULL)
        writer_stats(c->writer, ret_stats);
}
