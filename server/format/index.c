/*
 * Reading an index. Nothing in the file is believed: counts are held against the length of the file
 * before anything is sized by them, the trailer against all bytes, and then every field against the
 * fields it must agree with. The layout is in index_layout.h.
 */
#include "format/index.h"

#include "base/bytes.h"
#include "base/hasher.h"
#include "format/index_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the arrays of an index are used where they lie in the file, which is little-endian"
#endif

struct lk_digest lk_index_digest_of(const struct lk_index_shard *shards, uint32_t n)
{
    static const char domain[] = "lanekeeper dataset 1"; /* its NUL is hashed, too */
    struct lk_hasher *hasher = lk_hasher_new();

    lk_hasher_put(hasher, domain, sizeof domain);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t fixed[36];
        lk_put_u32(fixed, (uint32_t)shards[i].codec);
        lk_put_u64(fixed + 4, shards[i].data_bytes);
        lk_put_u64(fixed + 12, shards[i].rows);
        lk_digest_put(shards[i].content, fixed + 20);
        lk_hasher_put(hasher, shards[i].name, strlen(shards[i].name) + 1);
        lk_hasher_put(hasher, fixed, sizeof fixed);
    }
    struct lk_digest digest = lk_hasher_digest(hasher);
    lk_hasher_free(hasher);
    return digest;
}

/* ---- checking ---- */

/* Far above any file, and far enough below 2^64 for sums of a few to be safe. */
#define DATA_BYTES_MAX (1ull << 56)

static enum lk_code contradiction(const struct lk_index *index, const char *field,
                                  unsigned long long want, unsigned long long found,
                                  struct lk_err *err)
{
    return lk_fail(err, LK_DATA_LOSS, "%s: broken index: %s: expected %llu, found %llu",
                   index->path, field, want, found);
}

static enum lk_code shard_contradiction(const struct lk_index *index, uint32_t shard,
                                        const char *field, unsigned long long want,
                                        unsigned long long found, struct lk_err *err)
{
    char what[64];
    (void)snprintf(what, sizeof what, "shard %u: %s", shard, field);
    return contradiction(index, what, want, found, err);
}

/* Magic, version, lengths and the trailer: after this the sections are where they should be. */
static enum lk_code check_frame(const struct lk_index *index, struct lk_index_sizes *ret_sizes,
                                struct lk_err *err)
{
    const uint8_t *p = index->map;
    uint64_t n = index->map_bytes, least = LK_INDEX_HEADER_BYTES + LK_INDEX_TRAILER_BYTES;

    if (n < least)
        return contradiction(index, "length of the file, at least", least, n, err);
    if (memcmp(p, LK_INDEX_MAGIC, 8) != 0)
        return lk_fail(err, LK_DATA_LOSS, "%s: not an index: magic: expected \"LKINDEX\"",
                       index->path);
    if (lk_get_u32(p + 8) != LK_INDEX_VERSION)
        return lk_fail(err, LK_FAILED_PRECONDITION,
                       "%s: index version: expected %u, found %u: make it again with `lanekeeper "
                       "index`",
                       index->path, LK_INDEX_VERSION, lk_get_u32(p + 8));
    if (lk_get_u64(p + 16) != n)
        return contradiction(index, "length of the file", lk_get_u64(p + 16), n, err);
    struct lk_digest sum = lk_digest_of(p, n - LK_INDEX_TRAILER_BYTES);
    if (!lk_digest_equal(sum, lk_digest_get(p + n - LK_INDEX_TRAILER_BYTES)))
        return lk_fail(err, LK_DATA_LOSS, "%s: broken index: its checksum does not match its bytes",
                       index->path);
    if (lk_get_u32(p + 12) != LK_INDEX_GRANULE)
        return contradiction(index, "granule", LK_INDEX_GRANULE, lk_get_u32(p + 12), err);
    if (lk_get_u32(p + 28) != 0)
        return contradiction(index, "reserved bytes", 0, lk_get_u32(p + 28), err);
    *ret_sizes = (struct lk_index_sizes){.shards = lk_get_u32(p + 24),
                                         .rows = lk_get_u64(p + 32),
                                         .granules = lk_get_u64(p + 40),
                                         .name_bytes = lk_get_u64(p + 48)};
    return LK_OK;
}

static enum lk_code check_counts(const struct lk_index *index, const struct lk_index_sizes *sizes,
                                 struct lk_err *err)
{
    uint64_t n = index->map_bytes;

    if (sizes->shards == 0 || sizes->shards > LK_SHARDS_MAX)
        return contradiction(index, "shards, 1 to", LK_SHARDS_MAX, sizes->shards, err);
    /* Bounded by the length first, so that the sum below cannot wrap. */
    if (sizes->rows == 0 || sizes->rows > n / 8)
        return contradiction(index, "rows, 1 to", n / 8, sizes->rows, err);
    if (sizes->granules == 0 || sizes->granules > n / 8)
        return contradiction(index, "stored offsets, 1 to", n / 8, sizes->granules, err);
    if (sizes->name_bytes > n)
        return contradiction(index, "bytes of names, at most", n, sizes->name_bytes, err);
    uint64_t end = lk_index_layout_of(sizes).end;
    if (end != n)
        return contradiction(index, "length of all sections", n, end, err);
    return LK_OK;
}

/* Below the root, whatever it says: no absolute name, no "..", nothing empty. */
static bool safe_name(const char *name, size_t n)
{
    if (n == 0 || strlen(name) != n || name[0] == '/')
        return false;
    for (const char *part = name; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        size_t m = strcspn(part, "/");
        if (m == 0 || (m == 1 && part[0] == '.') || (m == 2 && memcmp(part, "..", 2) == 0))
            return false;
    }
    return true;
}

static enum lk_code read_name(const struct lk_index *index, uint32_t i, uint32_t name_bytes,
                              const char **names, const char *names_end,
                              struct lk_index_shard *shard, struct lk_err *err)
{
    if (name_bytes >= (uint64_t)(names_end - *names))
        return shard_contradiction(index, i, "length of the name, below",
                                   (unsigned long long)(names_end - *names), name_bytes, err);
    if ((*names)[name_bytes] != '\0' || !safe_name(*names, name_bytes))
        return lk_fail(err, LK_DATA_LOSS,
                       "%s: broken index: shard %u: expected a name below the root", index->path,
                       i);
    shard->name = *names;
    if (i > 0 && strcmp(shard[-1].name, shard->name) >= 0)
        return lk_fail(err, LK_DATA_LOSS,
                       "%s: broken index: shard %u: expected a name after \"%s\", found \"%s\"",
                       index->path, i, shard[-1].name, shard->name);
    *names += name_bytes + 1;
    return LK_OK;
}

/* One entry of the table, held against the one before it. */
static enum lk_code check_shard(const struct lk_index *index, uint32_t i, struct lk_err *err)
{
    const struct lk_index_shard *s = &index->shard[i];
    uint64_t first_row = i > 0 ? s[-1].first_row + s[-1].rows : 0, first_granule = 0;

    if (i > 0)
        first_granule = s[-1].first_granule + (s[-1].rows + s[-1].stride - 1) / s[-1].stride;
    if (s->codec >= LK_CODECS)
        return shard_contradiction(index, i, "codec, at most", LK_CODECS - 1, s->codec, err);
    if (s->stride != LK_INDEX_GRANULE && s->stride != 1)
        return shard_contradiction(index, i, "stride, 1 or", LK_INDEX_GRANULE, s->stride, err);
    if ((s->stride == 1) != (s->gap == 0) || (s->stride > 1 && s->rows < 2 && s->gap != 1))
        return shard_contradiction(index, i, "gap", s->stride == 1 ? 0 : 1, s->gap, err);
    if (s->codec == LK_CODEC_PLAIN && s->file_bytes != s->data_bytes)
        return shard_contradiction(index, i, "bytes of the data", s->file_bytes, s->data_bytes,
                                   err);
    if (s->data_bytes > DATA_BYTES_MAX)
        return shard_contradiction(index, i, "bytes of the data, at most", DATA_BYTES_MAX,
                                   s->data_bytes, err);
    if (s->first_row != first_row)
        return shard_contradiction(index, i, "first row", first_row, s->first_row, err);
    if (s->rows > index->rows - first_row)
        return shard_contradiction(index, i, "rows, at most", index->rows - first_row, s->rows,
                                   err);
    if (s->first_granule != first_granule)
        return shard_contradiction(index, i, "first stored offset", first_granule,
                                   s->first_granule, err);
    return LK_OK;
}

static enum lk_code read_shards(struct lk_index *index, const struct lk_index_layout *at,
                                const struct lk_index_sizes *sizes, struct lk_err *err)
{
    const uint8_t *map = index->map, *p = map + LK_INDEX_HEADER_BYTES;
    const char *names = (const char *)map + at->names, *names_end = names + sizes->name_bytes;
    uint64_t rows = 0, granules = 0;

    index->shard = lk_zalloc(sizes->shards, sizeof *index->shard);
    for (uint32_t i = 0; i < index->shards; i++, p += LK_INDEX_SHARD_BYTES) {
        struct lk_index_shard *s = &index->shard[i];
        *s = (struct lk_index_shard){.codec = (enum lk_codec)lk_get_u32(p + 4),
                                     .stride = lk_get_u32(p + 8),
                                     .gap = lk_get_u32(p + 12),
                                     .file_bytes = lk_get_u64(p + 16),
                                     .data_bytes = lk_get_u64(p + 24),
                                     .first_row = lk_get_u64(p + 32),
                                     .rows = lk_get_u64(p + 40),
                                     .first_granule = lk_get_u64(p + 48),
                                     .content = lk_digest_get(p + 56)};
        LK_TRY(read_name(index, i, lk_get_u32(p), &names, names_end, s, err));
        LK_TRY(check_shard(index, i, err));
        if (lk_get_u64(p + 72) != 0)
            return shard_contradiction(index, i, "reserved bytes", 0, lk_get_u64(p + 72), err);
        rows = s->first_row + s->rows;
        granules = s->first_granule + (s->rows + s->stride - 1) / s->stride;
        if (granules > sizes->granules)
            return shard_contradiction(index, i, "stored offsets, at most", sizes->granules,
                                       granules, err);
    }
    if (rows != sizes->rows)
        return contradiction(index, "rows of all shards", sizes->rows, rows, err);
    if (granules != sizes->granules)
        return contradiction(index, "stored offsets of all shards", sizes->granules, granules, err);
    if (names != names_end)
        return contradiction(index, "bytes of names", (uint64_t)(names_end - names), 0, err);
    return LK_OK;
}

/* Every row lies after the one before it, with a line end between them, and within the data. */
static enum lk_code check_rows(const struct lk_index *index, uint32_t shard, struct lk_err *err)
{
    const struct lk_index_shard *s = &index->shard[shard];
    const uint32_t *bytes = index->row_bytes + s->first_row;
    const uint64_t *granule = index->granule + s->first_granule;
    uint64_t least = 0; /* where the next row may begin */

    for (uint64_t i = 0; i < s->rows; i++) {
        uint64_t offset = i % s->stride == 0 ? granule[i / s->stride] : least - 1 + s->gap;
        bool exact = i > 0 && s->stride > 1;
        uint64_t want = exact ? least - 1 + s->gap : least;
        if (exact ? offset != want : offset < want)
            return lk_fail(err, LK_DATA_LOSS,
                           "%s: broken index: shard %u: offset of row %llu: expected %s%llu, found "
                           "%llu",
                           index->path, shard, (unsigned long long)i, exact ? "" : "at least ",
                           (unsigned long long)want, (unsigned long long)offset);
        if (bytes[i] == 0 || bytes[i] > LK_ROW_BYTES_MAX || offset > s->data_bytes ||
            bytes[i] > s->data_bytes - offset)
            return lk_fail(err, LK_DATA_LOSS,
                           "%s: broken index: shard %u: length of row %llu: expected 1 to %u within "
                           "%llu bytes, found %u at %llu",
                           index->path, shard, (unsigned long long)i, LK_ROW_BYTES_MAX,
                           (unsigned long long)s->data_bytes, bytes[i],
                           (unsigned long long)offset);
        least = offset + bytes[i] + 1;
    }
    return LK_OK;
}

static enum lk_code read_index(struct lk_index *index, struct lk_err *err)
{
    const uint8_t *map = index->map;
    struct lk_index_sizes sizes = {0};

    LK_TRY(check_frame(index, &sizes, err));
    LK_TRY(check_counts(index, &sizes, err));
    struct lk_index_layout at = lk_index_layout_of(&sizes);
    index->shards = (uint32_t)sizes.shards;
    index->rows = sizes.rows;
    index->row_bytes = (const uint32_t *)(const void *)(map + at.row_bytes);
    index->row_hash = (const uint32_t *)(const void *)(map + at.row_hash);
    index->granule = (const uint64_t *)(const void *)(map + at.granule);
    LK_TRY(read_shards(index, &at, &sizes, err));
    for (uint32_t i = 0; i < index->shards; i++)
        LK_TRY(check_rows(index, i, err));
    index->digest = lk_index_digest_of(index->shard, index->shards);
    if (!lk_digest_equal(index->digest, lk_digest_get(map + 56)))
        return lk_fail(err, LK_DATA_LOSS,
                       "%s: broken index: the digest of the dataset does not match its shards",
                       index->path);
    return LK_OK;
}

/* ---- opening ---- */

void lk_index_close(struct lk_index *index)
{
    if (index->mapped)
        (void)munmap((void *)(uintptr_t)index->map, index->map_bytes);
    else
        free((void *)(uintptr_t)index->map);
    free(index->shard);
    free((char *)(uintptr_t)index->path);
    *index = (struct lk_index){0};
}

/* Checks what @index holds and hands it over, or lets it go. */
static enum lk_code adopt(struct lk_index *index, struct lk_index *ret_index, struct lk_err *err)
{
    enum lk_code code = read_index(index, err);
    if (code == LK_OK)
        *ret_index = *index;
    else
        lk_index_close(index);
    return code;
}

enum lk_code lk_index_of_bytes(const char *name, struct lk_buf *bytes, struct lk_index *ret_index,
                               struct lk_err *err)
{
    struct lk_index index = {
        .path = lk_strdup(name), .map = bytes->data, .map_bytes = bytes->len};
    *bytes = (struct lk_buf){0};
    return adopt(&index, ret_index, err);
}

/* The whole file in memory; @n is its length. */
static enum lk_code load(int fd, const char *path, size_t n, const void **ret_map,
                         struct lk_err *err)
{
    uint8_t *data = lk_alloc(n);
    size_t at = 0;
    ssize_t got = 1;

    while (at < n && got > 0) {
        got = pread(fd, data + at, n - at, (off_t)at);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            at += (size_t)got;
    }
    if (at < n) {
        free(data);
        return got < 0 ? lk_fail(err, LK_UNAVAILABLE, "cannot read %s: %s", path, strerror(errno))
                       : lk_fail(err, LK_DATA_LOSS, "%s: cut off while it was read", path);
    }
    *ret_map = data;
    return LK_OK;
}

static enum lk_code read_or_map(int fd, struct lk_index *index, struct lk_err *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return lk_fail(err, LK_INVALID_ARGUMENT, "%s: no regular file, expected an index",
                       index->path);
    index->map_bytes = (size_t)st.st_size;
    if (index->map_bytes < LK_INDEX_MAP_MIN)
        return load(fd, index->path, index->map_bytes, &index->map, err);
    void *map = mmap(NULL, index->map_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "cannot map %s: %s", index->path,
                       strerror(errno));
    index->map = map;
    index->mapped = true;
    return LK_OK;
}

enum lk_code lk_index_open(const char *path, struct lk_index *ret_index, struct lk_err *err)
{
    int fd = TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd < 0 && errno == ENOENT)
        return lk_fail(err, LK_NOT_FOUND, "%s: no such index", path);
    if (fd < 0)
        return lk_fail(err, errno == EACCES ? LK_PERMISSION_DENIED : LK_UNAVAILABLE,
                       "cannot open %s: %s", path, strerror(errno));
    struct lk_index index = {.path = lk_strdup(path)};
    enum lk_code code = read_or_map(fd, &index, err);
    (void)close(fd);
    if (code != LK_OK) {
        lk_index_close(&index);
        return code;
    }
    return adopt(&index, ret_index, err);
}

/* ---- using ---- */

/* The shard that holds a row: the last one that begins at or before it; empty ones begin there, too,
 * so it is the last of those. */
static uint32_t shard_of(const struct lk_index *index, uint64_t row)
{
    uint32_t low = 0, high = index->shards - 1;
    while (low < high) {
        uint32_t mid = low + (high - low + 1) / 2;
        if (index->shard[mid].first_row <= row)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

struct lk_row_place lk_index_place(const struct lk_index *index, uint64_t row)
{
    LK_CHECK(row < index->rows);
    return lk_index_place_in(index, shard_of(index, row), row);
}

struct lk_row_place lk_index_place_in(const struct lk_index *index, uint32_t shard, uint64_t row)
{
    const struct lk_index_shard *s = &index->shard[shard];
    LK_CHECK(row - s->first_row < s->rows);
    uint64_t in_shard = row - s->first_row, from = in_shard - in_shard % s->stride;
    uint64_t offset = index->granule[s->first_granule + in_shard / s->stride];

    for (uint64_t i = from; i < in_shard; i++)
        offset += (uint64_t)index->row_bytes[s->first_row + i] + s->gap;
    return (struct lk_row_place){.shard = shard,
                                 .row_in_shard = in_shard,
                                 .offset = offset,
                                 .bytes = index->row_bytes[row],
                                 .hash = index->row_hash[row]};
}

enum lk_code lk_index_check_files(const struct lk_index *index, const char *root,
                                  struct lk_opener opener, struct lk_err *err)
{
    for (uint32_t i = 0; i < index->shards; i++) {
        const struct lk_index_shard *s = &index->shard[i];
        struct lk_source *source = NULL;
        char *path = lk_format("%s/%s", root, s->name);
        enum lk_code code = lk_open(opener, path, &source, err);
        if (code == LK_OK && source->bytes != s->file_bytes)
            code = lk_fail(err, LK_DATA_LOSS,
                           "%s changed since it was indexed: expected %llu bytes, found %llu "
                           "(index: %s)",
                           path, (unsigned long long)s->file_bytes,
                           (unsigned long long)source->bytes, index->path);
        lk_source_close(source);
        free(path);
        if (code != LK_OK)
            return code;
    }
    return LK_OK;
}
