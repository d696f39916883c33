/*
 * Replacing a file as a whole. Where the file system has unnamed files, the new contents have no
 * name until they are complete and on the disk, so that a killed process leaves nothing behind.
 */
#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

struct lk_writing {
    char *path;
    char *dir;  /* of @path */
    char *temp; /* name in @dir that is renamed to @path */
    int fd;
    bool named; /* @temp exists */
};

/* Two hosts may share the directory: neither process nor thread numbers would keep them apart. */
static enum lk_code begin(struct lk_writing *w, const char *path, struct lk_err *err)
{
    const char *slash = strrchr(path, '/');
    uint64_t random = 0;

    *w = (struct lk_writing){.path = lk_strdup(path), .fd = -1};
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return lk_file_fail(err, errno, "no random name to write", path);
    w->dir = slash == NULL ? lk_strdup(".") : lk_strndup(path, (size_t)(slash - path) + 1);
    w->temp = lk_format("%s/.lanekeeper-%016llx.tmp", w->dir, (unsigned long long)random);
    w->fd = TEMP_FAILURE_RETRY(open(w->dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
    if (w->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        w->fd = TEMP_FAILURE_RETRY(open(w->temp, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666));
        w->named = w->fd >= 0;
    }
    return w->fd >= 0 ? LK_OK : lk_file_fail(err, errno, "cannot create", path);
}

enum lk_code lk_file_put(struct lk_writing *w, const void *data, size_t n, struct lk_err *err)
{
    const uint8_t *p = data;
    while (n > 0) {
        ssize_t did = write(w->fd, p, n);
        if (did < 0 && errno == EINTR)
            continue;
        if (did < 0)
            return lk_file_fail(err, errno, "cannot write", w->path);
        p += did;
        n -= (size_t)did;
    }
    return LK_OK;
}

static enum lk_code give_name(struct lk_writing *w, struct lk_err *err)
{
    if (!w->named) {
        LK_CHECK(w->temp != NULL);
        char *self = lk_format("/proc/self/fd/%d", w->fd);
        int rc = linkat(AT_FDCWD, self, AT_FDCWD, w->temp, AT_SYMLINK_FOLLOW);
        int error = errno;
        free(self);
        if (rc != 0)
            return lk_file_fail(err, error, "cannot name", w->path);
        w->named = true;
    }
    if (rename(w->temp, w->path) != 0)
        return lk_file_fail(err, errno, "cannot replace", w->path);
    w->named = false;
    return LK_OK;
}

/* A new name is lasting only when its directory is on the disk. */
static enum lk_code sync_dir(const struct lk_writing *w, struct lk_err *err)
{
    int fd = TEMP_FAILURE_RETRY(open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0)
        return lk_file_fail(err, errno, "cannot open", w->dir);
    int rc = TEMP_FAILURE_RETRY(fsync(fd)), error = errno;
    (void)close(fd);
    if (rc != 0 && error != EINVAL) /* some file systems have no such thing */
        return lk_file_fail(err, error, "cannot sync", w->dir);
    return LK_OK;
}

enum lk_code lk_file_begin(const char *path, struct lk_writing **ret_writing, struct lk_err *err)
{
    struct lk_writing *w = lk_alloc(sizeof *w);
    enum lk_code code = begin(w, path, err);
    if (code != LK_OK) {
        lk_file_abandon(w);
        return code;
    }
    *ret_writing = w;
    return LK_OK;
}

enum lk_code lk_file_end(struct lk_writing *w, struct lk_err *err)
{
    enum lk_code code = LK_OK;
    if (TEMP_FAILURE_RETRY(fsync(w->fd)) != 0)
        code = lk_file_fail(err, errno, "cannot write", w->path);
    if (code == LK_OK)
        code = give_name(w, err);
    if (code == LK_OK)
        code = sync_dir(w, err);
    lk_file_abandon(w);
    return code;
}

void lk_file_abandon(struct lk_writing *w)
{
    if (w == NULL)
        return;
    if (w->named)
        (void)unlink(w->temp);
    if (w->fd >= 0)
        (void)close(w->fd);
    free(w->path);
    free(w->temp);
    free(w->dir);
    free(w);
}

enum lk_code lk_file_write_atomic(const char *path, const void *data, size_t n,
                                  struct lk_err *err)
{
    struct lk_writing *w;
    LK_TRY(lk_file_begin(path, &w, err));
    enum lk_code code = lk_file_put(w, data, n, err);
    if (code == LK_OK)
        return lk_file_end(w, err);
    lk_file_abandon(w);
    return code;
}
