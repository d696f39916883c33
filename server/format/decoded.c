#include "format/decoded.h"

#include "base/mem.h"
#include "format/decoder.h"
#include "format/format.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20 };

struct decoded {
    struct lk_source source;
    char *name;
    uint8_t *memory; /* or NULL, and then */
    int fd;
};

static enum lk_code read_fd(const struct decoded *d, uint64_t offset, uint8_t *to, size_t n,
                            struct lk_err *err)
{
    while (n > 0) {
        ssize_t got = pread(d->fd, to, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return lk_fail(err, LK_UNAVAILABLE, "cannot read the decoded form of %s at byte %llu: %s",
                           d->name, (unsigned long long)offset,
                           got < 0 ? strerror(errno) : "nothing came");
        to += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return LK_OK;
}

static enum lk_code decoded_read_at(struct lk_source *source, uint64_t offset, void *to, size_t n,
                                    struct lk_err *err)
{
    const struct decoded *d = (const struct decoded *)source;
    if (offset > source->bytes || n > source->bytes - offset)
        return lk_fail(err, LK_OUT_OF_RANGE, "%s: %zu bytes at %llu are not within %llu bytes",
                       d->name, n, (unsigned long long)offset, (unsigned long long)source->bytes);
    if (d->memory == NULL)
        return read_fd(d, offset, to, n, err);
    if (n > 0)
        memcpy(to, d->memory + offset, n);
    return LK_OK;
}

static void decoded_close(struct lk_source *source)
{
    struct decoded *d = (struct decoded *)source;
    if (d->fd >= 0)
        (void)close(d->fd);
    free(d->memory);
    free(d->name);
    free(d);
}

static const struct lk_source_ops decoded_ops = {.read_at = decoded_read_at,
                                                 .close = decoded_close};

/* A file that has no name, so that it goes with its last descriptor. */
static int unnamed_file(const char *dir)
{
    int fd = TEMP_FAILURE_RETRY(open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    char *name = lk_format("%s/lanekeeper-XXXXXX", dir);
    fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(name);
    free(name);
    return fd;
}

static enum lk_code make_room(struct decoded *d, struct lk_err *err)
{
    if (d->source.bytes <= LK_SHARD_MEMORY_MAX) {
        d->memory = lk_alloc((size_t)d->source.bytes);
        return LK_OK;
    }
    const char *dir = getenv("TMPDIR");
    if (dir == NULL || *dir == '\0')
        dir = "/var/tmp";
    d->fd = unnamed_file(dir);
    if (d->fd < 0)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "cannot make a temporary file in %s: %s", dir,
                       strerror(errno));
    return LK_OK;
}

static enum lk_code write_all(const struct decoded *d, const uint8_t *p, size_t n,
                              struct lk_err *err)
{
    while (n > 0) {
        ssize_t did = write(d->fd, p, n);
        if (did < 0 && errno == EINTR)
            continue;
        if (did < 0)
            return lk_fail(err, LK_RESOURCE_EXHAUSTED,
                           "cannot keep the decoded form of %s (%llu bytes): %s", d->name,
                           (unsigned long long)d->source.bytes, strerror(errno));
        p += did;
        n -= (size_t)did;
    }
    return LK_OK;
}

/* Never takes more than one byte beyond what is expected: a bomb goes off elsewhere. */
static enum lk_code fill(struct decoded *d, struct lk_decoder *decoder, struct lk_err *err)
{
    uint8_t *chunk = lk_alloc(CHUNK_BYTES);
    uint64_t done = 0;
    size_t got = 1;
    enum lk_code code = LK_OK;

    while (code == LK_OK && got > 0 && done <= d->source.bytes) {
        code = lk_decoder_read(decoder, chunk, CHUNK_BYTES, &got, err);
        if (code != LK_OK || got > d->source.bytes - done) {
            done += code == LK_OK ? got : 0;
            break;
        }
        if (d->memory != NULL && got > 0)
            memcpy(d->memory + done, chunk, got);
        else if (got > 0)
            code = write_all(d, chunk, got, err);
        done += got;
    }
    free(chunk);
    if (code == LK_OK && done != d->source.bytes)
        code = lk_fail(err, LK_DATA_LOSS,
                       "%s changed since it was indexed: expected %llu bytes of data, found %s%llu",
                       d->name, (unsigned long long)d->source.bytes,
                       done > d->source.bytes ? "at least " : "", (unsigned long long)done);
    return code;
}

enum lk_code lk_decoded_make(struct lk_source *source, enum lk_codec codec, uint64_t data_bytes,
                             struct lk_source **ret_decoded, struct lk_err *err)
{
    struct decoded *d = lk_zalloc(1, sizeof *d);
    struct lk_decoder *decoder = lk_decoder_new(source, codec);

    d->fd = -1;
    d->name = lk_strdup(source->name);
    d->source =
        (struct lk_source){.ops = &decoded_ops, .name = d->name, .bytes = data_bytes};
    enum lk_code code = make_room(d, err);
    if (code == LK_OK)
        code = fill(d, decoder, err);
    lk_decoder_free(decoder);
    if (code == LK_OK)
        *ret_decoded = &d->source;
    else
        decoded_close(&d->source);
    return code;
}
