/* What the client does when there is no memory left: its inner functions, over a socket of the test's. */
#include "client/c/batch.h"

#include "client/c/link.h"
#include "proto/handover.h"
#include "tests/lib/check_main.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMITED false /* the sanitizer itself needs address space */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LIMITED false
#endif
#endif
#ifndef LIMITED
#define LIMITED true
#endif

/* As malloc without a sanitizer. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static char dir[64], path[128];

static void setup(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/lk-memory-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/memory", dir);
}

static void teardown(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(batch_too_large_for_memory_is_resource_exhausted)
{
    struct batch_wanted wanted = {.step = 3, .sequence = 16, .datasets = 1};
    struct lanekeeper_batch batch = {0};
    Lk__GetBatchReply reply = LK__GET_BATCH_REPLY__INIT;
    uint8_t digest[16] = {0}, payload[1] = {0};
    char why[256] = "";

    reply.step = 3;
    reply.sequence = 16;
    reply.rows = reply.global_rows = 8;
    reply.digest = (ProtobufCBinaryData){.len = 16, .data = digest};
    ck_assert_int_eq(lkc_batch_make(&wanted, &reply, payload, (size_t)1 << 60, NULL, &batch, why, sizeof why),
                     LANEKEEPER_RESOURCE_EXHAUSTED);
    ck_assert_msg(strstr(why, "1152921504606846976 bytes") != NULL, "%s", why);
    ck_assert_int_eq(lkc_batch_make(&wanted, &reply, payload, SIZE_MAX, NULL, &batch, why, sizeof why),
                     LANEKEEPER_RESOURCE_EXHAUSTED);
    ck_assert_ptr_null(batch.owner);
    ck_assert_int_eq(lkc_batch_make(&wanted, &reply, payload, 1, NULL, &batch, why, sizeof why),
                     LANEKEEPER_DATA_LOSS);
}
END_TEST

/* ---- a daemon that says hello, and reads nothing ---- */

static void *greet(void *arg)
{
    uint8_t hello[LK_HANDOVER_MESSAGE_BYTES];
    int *fd = arg, client = accept(*fd, NULL, NULL);

    ck_assert_int_ge(client, 0);
    ck_assert_int_eq(recv(client, hello, sizeof hello, MSG_WAITALL), sizeof hello);
    ck_assert_int_eq(send(client, LK_HANDOVER_MAGIC "\0\0\0\0", 8, MSG_NOSIGNAL), 8);
    close(*fd);
    *fd = client;
    return NULL;
}

/* Returns the daemon's end. */
static int join(struct memory **ret_memory)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    pthread_t thread;
    char why[256] = "";
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(at.sun_path, path, strlen(path) + 1);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, greet, &fd), 0);
    bool joined = lkc_memory_open(path, lkc_link_now_ms() + 5000, ret_memory, why, sizeof why);
    ck_assert_msg(joined, "%s", why);
    (void)pthread_join(thread, NULL);
    return fd;
}

/* Reads all releases that there are: of leases 1 … @n, none twice. Returns how many. */
static uint32_t read_releases(int fd, uint8_t *seen, uint64_t n)
{
    uint8_t message[LK_HANDOVER_MESSAGE_BYTES];
    uint32_t count = 0;

    while (recv(fd, message, sizeof message, MSG_DONTWAIT) == (ssize_t)sizeof message) {
        uint64_t lease;
        ck_assert_uint_eq(message[0], LK_HANDOVER_RELEASE);
        memcpy(&lease, message + 8, sizeof lease);
        ck_assert_uint_le(lease, n);
        ck_assert_uint_eq(seen[lease]++, 0);
        count++;
    }
    return count;
}

START_TEST(leases_wait_for_a_daemon_that_does_not_read)
{
    enum { AT_ONCE = 5000, ALL = 5200 };
    static uint8_t seen[ALL + 1];
    struct memory *memory;
    int fd = join(&memory);
    uint32_t n = 0;

    for (uint64_t lease = 1; lease <= AT_ONCE; lease++)
        lkc_memory_release(memory, lease);
    for (uint64_t lease = AT_ONCE + 1; lease <= ALL; lease++) {
        uint32_t got = read_releases(fd, seen, lease);
        ck_assert_msg(n > 0 || got < AT_ONCE, "the socket took all of them: nothing has been tested");
        n += got;
        lkc_memory_release(memory, lease);
    }
    ck_assert_uint_eq(n + read_releases(fd, seen, ALL), ALL);
    lkc_memory_drop(memory);
    close(fd);
}
END_TEST

#define LEASES 200000u

START_TEST(no_memory_to_remember_a_lease_does_not_end_the_others)
{
    static uint8_t seen[LEASES + 2];
    struct rlimit limit, none = {0};
    struct memory *memory;
    int fd = join(&memory);

    ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
    none.rlim_max = limit.rlim_max;
    if (LIMITED)
        ck_assert_int_eq(setrlimit(RLIMIT_AS, &none), 0);
    for (uint64_t lease = 1; lease <= LEASES; lease++)
        lkc_memory_release(memory, lease);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    ck_assert(lkc_memory_alive(memory)); /* its end would free what is being read */
    uint32_t first = read_releases(fd, seen, LEASES);
    lkc_memory_release(memory, LEASES + 1);
    uint32_t more = read_releases(fd, seen, LEASES + 1);
    ck_assert_uint_gt(first, 0);
    ck_assert_uint_gt(more, 0); /* what could be remembered goes now */
    ck_assert(!LIMITED || first + more < LEASES); /* it has really been that tight */
    char byte;
    ck_assert_int_eq(recv(fd, &byte, 1, MSG_DONTWAIT), -1); /* still open */
    lkc_memory_drop(memory);
    close(fd);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("client/memory");
    TCase *t = tcase_create("memory");
    tcase_set_timeout(t, 30);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, batch_too_large_for_memory_is_resource_exhausted);
    tcase_add_test(t, leases_wait_for_a_daemon_that_does_not_read);
    tcase_add_test(t, no_memory_to_remember_a_lease_does_not_end_the_others);
    suite_add_tcase(s, t);
    return s;
}
