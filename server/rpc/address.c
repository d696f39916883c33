#include "rpc/address.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define IPC "ipc://"
#define TCP "tcp://"

const char *address_ipc_path(const char *address)
{
    return strncmp(address, IPC, strlen(IPC)) == 0 ? address + strlen(IPC) : NULL;
}

static enum lk_code path_check(const char *what, const char *path, struct lk_err *err)
{
    size_t n = strlen(path);
    if (n == 0)
        return lk_fail(err, LK_INVALID_ARGUMENT, "%s: the socket's path is empty", what);
    if (n >= UNIX_PATH_BYTES)
        return lk_fail(err, LK_INVALID_ARGUMENT,
                       "%s: the socket's path has %zu bytes, the system allows at most %d", what, n,
                       UNIX_PATH_BYTES - 1);
    return LK_OK;
}

static enum lk_code port_check(const char *address, struct lk_err *err)
{
    const char *host = address + strlen(TCP), *colon = strrchr(host, ':'), *bracket = strrchr(host, ']');

    if (colon == NULL || (bracket != NULL && colon < bracket))
        return lk_fail(err, LK_INVALID_ARGUMENT, "%s: expected tcp://host:port, the port is missing",
                       address);
    if (colon == host)
        return lk_fail(err, LK_INVALID_ARGUMENT, "%s: expected tcp://host:port, the host is missing",
                       address);
    if (host[0] != '[' && memchr(host, ':', (size_t)(colon - host)) != NULL)
        return lk_fail(err, LK_INVALID_ARGUMENT,
                       "%s: an IPv6 address goes in brackets: tcp://[::1]:7070", address);
    const char *digits = colon + 1;
    size_t n = strlen(digits);
    if (n == 0 || n > 5 || strspn(digits, "0123456789") != n || strtoul(digits, NULL, 10) > 65535)
        return lk_fail(err, LK_INVALID_ARGUMENT, "%s: port \"%s\" is not a number from 0 to 65535",
                       address, digits);
    return LK_OK;
}

enum lk_code address_check(const char *address, struct lk_err *err)
{
    const char *path = address_ipc_path(address);

    if (path != NULL)
        return path_check(address, path, err);
    if (strncmp(address, TCP, strlen(TCP)) == 0)
        return port_check(address, err);
    return lk_fail(err, LK_INVALID_ARGUMENT,
                   "\"%s\": expected an address ipc:///path/of.sock or tcp://host:port", address);
}

char *address_with_port(const char *address, uint16_t port)
{
    size_t n = (size_t)(strrchr(address, ':') - address);
    return lk_format("%.*s:%u", (int)n, address, port);
}

/* An open, locked descriptor of the directory of @path, or -1. */
static int directory_lock(const char *path)
{
    char *copy = lk_strdup(path);
    int fd = TEMP_FAILURE_RETRY(open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC));

    free(copy);
    for (int tries = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0; tries++) {
        if (tries == 100 || (errno != EWOULDBLOCK && errno != EINTR)) {
            close(fd);
            fd = -1;
        } else {
            (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        }
    }
    return fd;
}

/* Whether a process listens on the socket file @path. */
static bool somebody_listens(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return true; /* cannot tell: rather refuse than take a living socket away */
    memcpy(at.sun_path, path, strlen(path) + 1);
    int failed = connect(fd, (const struct sockaddr *)&at, sizeof at);
    bool refused = failed != 0 && (errno == ECONNREFUSED || errno == ENOENT); /* its owner took it away */
    close(fd);
    return !refused;
}

static enum lk_code path_free_up(const char *path, struct lk_err *err)
{
    struct stat st;

    if (lstat(path, &st) != 0) {
        if (errno == ENOENT)
            return LK_OK;
        return lk_fail(err, LK_FAILED_PRECONDITION, "%s: %s", path, strerror(errno));
    }
    if (!S_ISSOCK(st.st_mode))
        return lk_fail(err, LK_ALREADY_EXISTS, "%s: exists and is no socket; not replaced", path);
    if (somebody_listens(path))
        return lk_fail(err, LK_ALREADY_EXISTS, "%s: address in use: another process listens on it",
                       path);
    if (unlink(path) != 0 && errno != ENOENT)
        return lk_fail(err, LK_PERMISSION_DENIED, "%s: cannot remove the stale socket: %s", path,
                       strerror(errno));
    return LK_OK;
}

enum lk_code unix_path_claim(const char *path, int *ret_lock, struct lk_err *err)
{
    LK_TRY(path_check(path, path, err));
    int lock = directory_lock(path);
    enum lk_code code = path_free_up(path, err);
    if (code != LK_OK) {
        if (lock >= 0)
            close(lock);
        return code;
    }
    *ret_lock = lock;
    return LK_OK;
}
