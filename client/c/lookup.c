#include "lookup.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Shared by the thread and its starter; the last of them frees it. */
struct lookup {
    atomic_uint holders;
    atomic_bool done; /* set after the two below */
    int failure;      /* of getaddrinfo */
    struct addrinfo *found;
    int fd;
    char *host, *port;
};

bool lkc_lookup_split(const char *text, char **ret_host, char **ret_port)
{
    const char *colon = strrchr(text, ':');
    char *end;

    *ret_host = *ret_port = NULL;
    if (colon == NULL || colon == text || colon[1] < '0' || colon[1] > '9')
        return false;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (*end != '\0' || end - colon > 6 || port == 0 || port > 65535)
        return false;
    size_t n = (size_t)(colon - text);
    if (text[0] == '[') {
        if (n < 3 || text[n - 1] != ']')
            return false;
        text++;
        n -= 2;
    } else if (memchr(text, ':', n) != NULL) {
        return false; /* v6 without brackets: where its port begins is a guess */
    }
    *ret_host = strndup(text, n);
    *ret_port = strdup(colon + 1);
    if (*ret_host != NULL && *ret_port != NULL)
        return true;
    free(*ret_host);
    free(*ret_port);
    *ret_host = *ret_port = NULL;
    return false;
}

static void find(struct lookup *lookup, int flags)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM,
                             .ai_flags = flags | AI_NUMERICSERV};
    uint64_t one = 1;

    lookup->failure = getaddrinfo(lookup->host, lookup->port, &hints, &lookup->found);
    if (lookup->failure != 0)
        lookup->found = NULL;
    if (lookup->failure == EAI_NONAME && (flags & AI_NUMERICHOST) != 0)
        return; /* a name */
    atomic_store(&lookup->done, true);
    /* An eventfd takes a first 1 at once. */
    if (write(lookup->fd, &one, sizeof one) != (ssize_t)sizeof one)
        abort();
}

static void *find_name(void *arg)
{
    find(arg, 0);
    lkc_lookup_drop(arg);
    return NULL;
}

static bool start_thread(struct lookup *lookup)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;

    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* the trainer's signals are for its own threads */
    atomic_fetch_add(&lookup->holders, 1);
    int failure = pthread_create(&thread, &attributes, find_name, lookup);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    if (failure != 0)
        atomic_fetch_sub(&lookup->holders, 1);
    return failure == 0;
}

struct lookup *lkc_lookup_start(const char *host, const char *port)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);

    if (lookup == NULL)
        return NULL;
    atomic_init(&lookup->holders, 1);
    lookup->host = strdup(host);
    lookup->port = strdup(port);
    lookup->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lookup->host != NULL && lookup->port != NULL && lookup->fd >= 0) {
        find(lookup, AI_NUMERICHOST);
        if (atomic_load(&lookup->done) || start_thread(lookup))
            return lookup;
    }
    lkc_lookup_drop(lookup);
    return NULL;
}

int lkc_lookup_fd(const struct lookup *lookup)
{
    return lookup->fd;
}

bool lkc_lookup_take(struct lookup *lookup, struct addrinfo **ret_found, const char **ret_why)
{
    if (!atomic_load(&lookup->done))
        return false;
    *ret_found = lookup->found;
    *ret_why = lookup->failure == 0 ? "" : gai_strerror(lookup->failure);
    lookup->found = NULL;
    return true;
}

void lkc_lookup_drop(struct lookup *lookup)
{
    if (lookup == NULL || atomic_fetch_sub(&lookup->holders, 1) != 1)
        return;
    if (lookup->found != NULL)
        freeaddrinfo(lookup->found);
    if (lookup->fd >= 0)
        (void)close(lookup->fd);
    free(lookup->host);
    free(lookup->port);
    free(lookup);
}
