#include "rpc/listen_fd.h"

#include "base/mem.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024
#define TCP "tcp://"

/* ---- Unix ---- */

/* Nobody can connect before listen(), so the mode is right from the first moment on. */
static int set_up_unix(int fd, const char *path, uint32_t mode, struct stat *ret_status)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path, path, strlen(path) + 1);
    if (bind(fd, (const struct sockaddr *)&at, sizeof at) != 0)
        return errno;
    if (chmod(path, mode) == 0 && lstat(path, ret_status) == 0 && listen(fd, BACKLOG) == 0)
        return 0;
    int failure = errno;
    (void)unlink(path);
    return failure;
}

enum lk_code listen_unix(const char *path, uint32_t mode, int *ret_fd, struct unix_place *ret_place,
                         struct lk_err *err)
{
    struct stat status;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int failure = fd < 0 ? errno : set_up_unix(fd, path, mode, &status);
    if (failure != 0) {
        if (fd >= 0)
            (void)close(fd);
        return lk_fail(err, LK_UNAVAILABLE, "cannot listen on ipc://%s: %s", path, strerror(failure));
    }
    *ret_fd = fd;
    *ret_place = (struct unix_place){
        .path = lk_strdup(path), .device = status.st_dev, .inode = status.st_ino};
    return LK_OK;
}

void unix_place_done(struct unix_place *place)
{
    struct stat status;
    if (place->path == NULL)
        return;
    if (lstat(place->path, &status) == 0 && status.st_dev == place->device && status.st_ino == place->inode)
        (void)unlink(place->path);
    free(place->path);
    place->path = NULL;
}

/* ---- TCP ---- */

/* Host and port of "tcp://host:port", brackets taken off; caller frees the host. */
static char *split(const char *address, const char **ret_port)
{
    const char *host = address + strlen(TCP), *colon = strrchr(host, ':');
    size_t n = (size_t)(colon - host);
    *ret_port = colon + 1;
    if (n >= 2 && host[0] == '[' && host[n - 1] == ']')
        return lk_strndup(host + 1, n - 2);
    return lk_strndup(host, n);
}

static uint16_t *port_in(struct sockaddr_storage *at)
{
    return at->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)(void *)at)->sin6_port
                                     : &((struct sockaddr_in *)(void *)at)->sin_port;
}

/* Binds to @at, with *port if that is not 0, which then is the real one; an errno. */
static int bind_one(const struct addrinfo *at, uint16_t *port, int *ret_fd)
{
    struct sockaddr_storage place = {0};
    socklen_t n = at->ai_addrlen;
    int one = 1, failure = 0;
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    memcpy(&place, at->ai_addr, at->ai_addrlen);
    *port_in(&place) = htons(*port);
    /* The port of a daemon that has just ended, and of which the kernel still remembers connections. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (at->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&place, n) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&place, &n) != 0)
        failure = errno;
    if (failure != 0) {
        (void)close(fd);
        return failure;
    }
    *port = ntohs(*port_in(&place));
    *ret_fd = fd;
    return 0;
}

/* The first failure that tells something; 0 if one of them is bound. In use anywhere is in use. */
static int bind_all(const struct addrinfo *found, int *ret_fd, uint32_t *ret_n, uint16_t *port)
{
    bool chosen = *port == 0;
    int failure = 0;
    *ret_n = 0;
    for (const struct addrinfo *at = found; at != NULL && *ret_n < LISTEN_TCP_MAX; at = at->ai_next) {
        int failed = bind_one(at, port, &ret_fd[*ret_n]);
        if (failed == 0)
            (*ret_n)++;
        else if (failure == 0 || failed == EADDRINUSE)
            failure = failed;
    }
    if (*ret_n > 0 && (failure != EADDRINUSE || chosen))
        return 0;
    while (*ret_n > 0)
        (void)close(ret_fd[--*ret_n]);
    return failure == 0 ? EADDRNOTAVAIL : failure;
}

enum lk_code listen_tcp(const char *address, int ret_fd[LISTEN_TCP_MAX], uint32_t *ret_n, uint16_t *ret_port,
                        struct lk_err *err)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    const char *digits;
    char *host = split(address, &digits);
    int unknown = getaddrinfo(strcmp(host, "*") == 0 ? NULL : host, digits, &hints, &found);
    free(host);
    if (unknown != 0)
        return lk_fail(err, LK_INVALID_ARGUMENT, "%s: no such address on this machine (%s)", address,
                       gai_strerror(unknown));
    *ret_port = (uint16_t)strtoul(digits, NULL, 10);
    int failure = bind_all(found, ret_fd, ret_n, ret_port);
    freeaddrinfo(found);
    if (failure == 0)
        return LK_OK;
    if (failure == EADDRINUSE)
        return lk_fail(err, LK_ALREADY_EXISTS, "%s: address in use: another process listens on it", address);
    if (failure == EADDRNOTAVAIL)
        return lk_fail(err, LK_INVALID_ARGUMENT, "%s: no such address on this machine", address);
    return lk_fail(err, LK_UNAVAILABLE, "cannot listen on %s: %s", address, strerror(failure));
}
