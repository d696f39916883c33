#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct file {
    struct lk_source source;
    char *path;
    int fd;
};

/* ---- errors ---- */

static const struct {
    int error;
    enum lk_code code;
} codes[] = {
    {ENOENT, LK_NOT_FOUND},           {ENOTDIR, LK_NOT_FOUND},
    {EACCES, LK_PERMISSION_DENIED},   {EPERM, LK_PERMISSION_DENIED},
    {EROFS, LK_PERMISSION_DENIED},    {EMFILE, LK_RESOURCE_EXHAUSTED},
    {ENFILE, LK_RESOURCE_EXHAUSTED},  {ENOSPC, LK_RESOURCE_EXHAUSTED},
    {EDQUOT, LK_RESOURCE_EXHAUSTED},  {EFBIG, LK_RESOURCE_EXHAUSTED},
    {ENOMEM, LK_RESOURCE_EXHAUSTED},  {EISDIR, LK_INVALID_ARGUMENT},
    {ELOOP, LK_INVALID_ARGUMENT},     {ENAMETOOLONG, LK_INVALID_ARGUMENT},
    {EEXIST, LK_ALREADY_EXISTS},      {EIO, LK_UNAVAILABLE},
    {EAGAIN, LK_UNAVAILABLE},         {ESTALE, LK_UNAVAILABLE},
    {ETIMEDOUT, LK_UNAVAILABLE},      {ENXIO, LK_INVALID_ARGUMENT},
};

enum lk_code lk_file_fail(struct lk_err *err, int error, const char *what, const char *path)
{
    char reason[128];
    const char *text = strerror_r(error, reason, sizeof reason);
    enum lk_code code = LK_UNKNOWN;

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].error == error)
            code = codes[i].code;
    struct rlimit limit;
    if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        return lk_fail(err, code, "%s %s: %s (the limit is %llu: raise ulimit -n)", what, path,
                       text, (unsigned long long)limit.rlim_cur);
    return lk_fail(err, code, "%s %s: %s", what, path, text);
}

/* ---- reading ---- */

static void pause_before_try(int attempt)
{
    long ns = 100000;
    for (int i = 0; i < attempt; i++)
        ns *= 10;
    struct timespec wait = {.tv_sec = 0, .tv_nsec = ns};
    while (nanosleep(&wait, &wait) != 0 && errno == EINTR)
        continue;
}

/* One pread that EINTR does not end; transient errors are tried again, a bounded number of times. */
static ssize_t read_some(int fd, void *to, size_t n, uint64_t offset)
{
    int attempt = 1;
    for (;;) {
        ssize_t got = pread(fd, to, n, (off_t)offset);
        if (got >= 0)
            return got;
        if (errno == EINTR)
            continue;
        bool transient = errno == EIO || errno == EAGAIN || errno == ETIMEDOUT;
        if (!transient || attempt == LK_FILE_TRIES)
            return -1;
        pause_before_try(attempt++);
    }
}

/* Files of a dataset must not change under a reader; a changed size is the cheapest sign of it. */
static enum lk_code check_size(const struct file *file, struct lk_err *err)
{
    struct stat st;
    if (fstat(file->fd, &st) != 0)
        return lk_file_fail(err, errno, "cannot look at", file->path);
    if ((uint64_t)st.st_size == file->source.bytes)
        return LK_OK;
    return lk_fail(err, LK_DATA_LOSS, "%s changed while it was open: it had %llu bytes, now %llu",
                   file->path, (unsigned long long)file->source.bytes,
                   (unsigned long long)st.st_size);
}

static enum lk_code file_read_at(struct lk_source *source, uint64_t offset, void *to, size_t n,
                                 struct lk_err *err)
{
    struct file *file = (struct file *)source;
    uint8_t *p = to;

    if (offset > source->bytes || n > source->bytes - offset)
        return lk_fail(err, LK_OUT_OF_RANGE, "%s: %zu bytes at %llu are not within its %llu bytes",
                       file->path, n, (unsigned long long)offset,
                       (unsigned long long)source->bytes);
    while (n > 0) {
        ssize_t got = read_some(file->fd, p, n, offset);
        if (got < 0) {
            (void)lk_file_fail(err, errno, "cannot read", file->path);
            return lk_fail_in(err, "byte %llu", (unsigned long long)offset);
        }
        if (got == 0)
            break;
        p += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    LK_TRY(check_size(file, err));
    if (n > 0)
        return lk_fail(err, LK_UNAVAILABLE, "cannot read %s: nothing came at byte %llu of %llu",
                       file->path, (unsigned long long)offset, (unsigned long long)source->bytes);
    return LK_OK;
}

static void file_close(struct lk_source *source)
{
    struct file *file = (struct file *)source;
    (void)close(file->fd);
    free(file->path);
    free(file);
}

static const struct lk_source_ops file_ops = {.read_at = file_read_at, .close = file_close};

enum lk_code lk_file_open(const char *path, struct lk_source **ret_source, struct lk_err *err)
{
    /* Not blocking: opening a pipe by mistake must not wait for a writer. */
    int fd = TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (fd < 0)
        return lk_file_fail(err, errno, "cannot open", path);
    struct stat st;
    if (fstat(fd, &st) != 0) {
        int error = errno;
        (void)close(fd);
        return lk_file_fail(err, error, "cannot look at", path);
    }
    if (!S_ISREG(st.st_mode)) {
        (void)close(fd);
        return lk_fail(err, LK_INVALID_ARGUMENT, "cannot read %s: expected a regular file, found %s",
                       path, S_ISDIR(st.st_mode) ? "a directory" : "a device, pipe or socket");
    }
    struct file *file = lk_zalloc(1, sizeof *file);
    file->path = lk_strdup(path);
    file->fd = fd;
    file->source = (struct lk_source){
        .ops = &file_ops, .name = file->path, .bytes = (uint64_t)st.st_size};
    *ret_source = &file->source;
    return LK_OK;
}

static enum lk_code open_for_format(void *owner, const char *path, struct lk_source **ret_source,
                                    struct lk_err *err)
{
    (void)owner;
    return lk_file_open(path, ret_source, err);
}

struct lk_opener lk_file_opener(void)
{
    return (struct lk_opener){.open = open_for_format};
}

enum lk_code lk_file_read_all(const char *path, size_t max_bytes, struct lk_buf *out,
                              struct lk_err *err)
{
    struct lk_source *source = NULL;
    enum lk_code code;

    out->len = 0;
    LK_TRY(lk_file_open(path, &source, err));
    LK_CHECK(source != NULL);
    size_t n = source->bytes < SIZE_MAX ? (size_t)source->bytes : SIZE_MAX;
    if (n > max_bytes) {
        code = lk_fail(err, LK_RESOURCE_EXHAUSTED, "%s has %zu bytes, expected at most %zu", path,
                       n, max_bytes);
        goto out;
    }
    code = lk_source_read(source, 0, lk_buf_room(out, n), n, err);
    if (code == LK_OK)
        out->len = n;
out:
    lk_source_close(source);
    return code;
}
