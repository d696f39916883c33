/* The hand-over socket: raw Unix clients, polled from the same thread. */
#include "rpc/handover.h"

#include "base/bytes.h"
#include "tests/lib/check_main.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define REGION 8192u
#define WAIT_MS 5000

struct seen { /* what the ops were told */
    uint32_t joined, gone, released;
    uint64_t client, lease, sum;
};

static char dir[64], path[128];

static void setup(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/lk-handover-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/memory", dir);
}

static void teardown(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static void on_joined(void *owner, uint64_t client)
{
    struct seen *seen = owner;
    seen->joined++;
    seen->client = client;
}

static void on_released(void *owner, uint64_t client, uint64_t lease)
{
    struct seen *seen = owner;
    seen->released++;
    seen->client = client;
    seen->lease = lease;
    seen->sum += lease;
}

static void on_gone(void *owner, uint64_t client)
{
    struct seen *seen = owner;
    seen->gone++;
    seen->client = client;
}

static int sealed_region(void)
{
    int fd = memfd_create("lk-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, REGION), 0);
    ck_assert_int_eq(pwrite(fd, "payload", 7, 4096), 7);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE), 0);
    return fd;
}

static struct handover *open_handover(struct seen *seen, int region, uint32_t clients)
{
    static const struct handover_ops ops = {on_joined, on_released, on_gone};
    uint64_t bytes = REGION;
    struct handover_config config = {.path = path, .socket_mode = 0600, .regions = &region,
                                     .region_bytes = &bytes, .n_regions = 1, .clients_max = clients,
                                     .ops = &ops, .owner = seen};
    struct handover *h = NULL;
    struct lk_err err;
    enum lk_code code = handover_open(&config, &h, &err);
    ck_assert_msg(code == LK_OK, "%s", code == LK_OK ? "" : err.text);
    return h;
}

static int dial(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* Polls until the counter has the value. */
static void until(struct handover *h, const uint32_t *counter, uint32_t value)
{
    for (int i = 0; *counter < value; i++) {
        struct pollfd p = {.fd = handover_fd(h), .events = POLLIN};
        ck_assert_msg(poll(&p, 1, WAIT_MS) == 1, "nothing happens: %u of %u", *counter, value);
        handover_poll(h);
    }
    ck_assert_uint_eq(*counter, value);
}

static void send_message(int fd, uint32_t a, uint32_t b, uint64_t c)
{
    uint8_t m[16];
    lk_put_u32(m, a);
    lk_put_u32(m + 4, b);
    lk_put_u64(m + 8, c);
    ck_assert_int_eq(send(fd, m, sizeof m, MSG_NOSIGNAL), sizeof m);
}

#define MAGIC_NUMBER 0x31484b4cu /* "LKH1" */

static int join(struct handover *h, struct seen *seen, uint64_t client)
{
    int fd = dial();
    send_message(fd, MAGIC_NUMBER, 0, client);
    until(h, &seen->joined, seen->joined + 1);
    ck_assert_uint_eq(seen->client, client);
    return fd;
}

/* Reads the daemon's hello; returns the region's descriptor. */
static int take_region(int fd)
{
    uint8_t text[16];
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {text, sizeof text};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
                       .msg_controllen = sizeof control};
    int region;
    ck_assert_int_eq(recvmsg(fd, &m, MSG_CMSG_CLOEXEC), 16);
    ck_assert_uint_eq(lk_get_u32(text), MAGIC_NUMBER);
    ck_assert_uint_eq(lk_get_u32(text + 4), 1);
    ck_assert_uint_eq(lk_get_u64(text + 8), REGION);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    ck_assert_ptr_nonnull(c);
    memcpy(&region, CMSG_DATA(c), sizeof region);
    return region;
}

/* True: the daemon has closed the connection. */
static bool closed(int fd)
{
    char byte;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
    return recv(fd, &byte, 1, 0) <= 0;
}

START_TEST(client_gets_the_region_and_cannot_write_it)
{
    struct seen seen = {0};
    int memory = sealed_region();
    struct handover *h = open_handover(&seen, memory, 4);
    int fd = join(h, &seen, 77), region = take_region(fd);
    const char *at = mmap(NULL, REGION, PROT_READ, MAP_SHARED, region, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    ck_assert_int_eq(memcmp(at + 4096, "payload", 7), 0);
    ck_assert_ptr_eq(mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, region, 0), MAP_FAILED);
    ck_assert_int_eq(write(region, "x", 1), -1);
    ck_assert_int_eq(ftruncate(region, 0), -1);
    (void)munmap((void *)(uintptr_t)at, REGION);
    close(region);
    close(fd);
    handover_close(h);
    close(memory);
}
END_TEST

START_TEST(releases_arrive_however_they_are_cut)
{
    struct seen seen = {0};
    int memory = sealed_region();
    struct handover *h = open_handover(&seen, memory, 4);
    int fd = join(h, &seen, 1);
    uint8_t all[16 * 100];
    for (uint32_t i = 0; i < 100; i++) {
        lk_put_u32(all + 16 * i, 1);
        lk_put_u32(all + 16 * i + 4, 0);
        lk_put_u64(all + 16 * i + 8, i + 1);
    }
    size_t at = 0;
    for (size_t n = 1; at < sizeof all; at += n, n = n % 37 + 3) {
        if (n > sizeof all - at)
            n = sizeof all - at;
        ck_assert_int_eq(send(fd, all + at, n, 0), (ssize_t)n);
        handover_poll(h);
    }
    until(h, &seen.released, 100);
    ck_assert_uint_eq(seen.sum, 5050);
    close(fd);
    handover_close(h);
    close(memory);
}
END_TEST

START_TEST(end_of_a_connection_is_told_once_and_of_that_client)
{
    struct seen seen = {0};
    int memory = sealed_region();
    struct handover *h = open_handover(&seen, memory, 4);
    int a = join(h, &seen, 1), b = join(h, &seen, 2);
    close(a);
    until(h, &seen.gone, 1);
    ck_assert_uint_eq(seen.client, 1);
    send_message(b, 1, 0, 9);
    until(h, &seen.released, 1);
    close(b);
    until(h, &seen.gone, 2);
    ck_assert_uint_eq(seen.client, 2);
    handover_close(h);
    ck_assert_uint_eq(seen.gone, 2);
    close(memory);
}
END_TEST

/* Loop: what a stranger may say. */
START_TEST(garbage_closes_its_connection_only)
{
    static const struct {
        uint32_t a, b;
        uint64_t c;
    } bad[] = {{0x31484b4d, 0, 5}, {MAGIC_NUMBER, 1, 5}, {MAGIC_NUMBER, 0, 0}, {MAGIC_NUMBER, 0, 1},
               {0, 0, 0}, {1, 0, 7}};
    struct seen seen = {0};
    int memory = sealed_region();
    struct handover *h = open_handover(&seen, memory, 4);
    int good = join(h, &seen, 1);
    int fd = dial();
    send_message(fd, bad[_i].a, bad[_i].b, bad[_i].c);
    for (int i = 0; i < 10; i++)
        handover_poll(h);
    ck_assert(closed(fd));
    ck_assert_uint_eq(seen.joined, 1);
    ck_assert_uint_eq(seen.gone, 0);
    ck_assert_uint_eq(seen.released, 0);
    close(fd);
    fd = join(h, &seen, 3); /* after a good hello: not a release */
    close(take_region(fd));
    send_message(fd, 2, 0, 1);
    until(h, &seen.gone, 1);
    ck_assert(closed(fd));
    send_message(good, 1, 0, 9);
    until(h, &seen.released, 1);
    ck_assert_uint_eq(seen.client, 1);
    close(fd);
    close(good);
    handover_close(h);
    close(memory);
}
END_TEST

START_TEST(silent_connections_give_way_to_clients)
{
    struct seen seen = {0};
    int memory = sealed_region();
    struct handover *h = open_handover(&seen, memory, 3);
    int client[3], silent[10];
    for (int i = 0; i < 10; i++) {
        silent[i] = dial();
        handover_poll(h);
    }
    for (int i = 0; i < 3; i++)
        client[i] = join(h, &seen, (uint64_t)i + 1);
    for (int i = 0; i < 10; i++) {
        ck_assert(closed(silent[i]));
        close(silent[i]);
    }
    int fourth = dial(); /* all places are taken by clients: turned away, they stay */
    handover_poll(h);
    ck_assert(closed(fourth));
    close(fourth);
    ck_assert_uint_eq(seen.gone, 0);
    close(client[1]);
    until(h, &seen.gone, 1);
    client[1] = join(h, &seen, 9);
    for (int i = 0; i < 3; i++)
        close(client[i]);
    handover_close(h);
    close(memory);
}
END_TEST

START_TEST(socket_file_has_its_mode_and_goes_with_its_owner)
{
    struct seen seen = {0};
    struct stat st;
    int memory = sealed_region();
    struct handover *h = open_handover(&seen, memory, 4), *other = NULL;
    uint64_t bytes = REGION;
    struct handover_config config = {.path = path, .socket_mode = 0600, .regions = &memory,
                                     .region_bytes = &bytes, .n_regions = 1, .clients_max = 4,
                                     .ops = NULL, .owner = NULL};
    struct lk_err err;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    ck_assert_int_eq(handover_open(&config, &other, &err), LK_ALREADY_EXISTS);
    ck_assert_ptr_nonnull(strstr(err.text, path));
    ck_assert_ptr_null(other);
    handover_close(h);
    ck_assert_int_ne(stat(path, &st), 0);
    handover_close(NULL);
    close(memory);
}
END_TEST

START_TEST(want_of_descriptors_does_not_keep_the_owner_busy)
{
    struct seen seen = {0};
    struct rlimit limit, none;
    int memory = sealed_region();
    struct handover *h = open_handover(&seen, memory, 4);
    int client = join(h, &seen, 1), fd = dial();
    struct pollfd p = {.fd = handover_fd(h), .events = POLLIN};
    send_message(fd, MAGIC_NUMBER, 0, 2);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int next = dup(client); /* the number that accept would give */
    ck_assert_int_ge(next, 0);
    close(next);
    none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    handover_poll(h);
    int wakes = poll(&p, 1, 0);
    send_message(client, 1, 0, 9); /* the others are served as ever */
    handover_poll(h);
    int more = poll(&p, 1, 0);
    uint32_t released = seen.released, joined = seen.joined;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(wakes, 0);
    ck_assert_int_eq(more, 0);
    ck_assert_uint_eq(released, 1);
    ck_assert_uint_eq(joined, 1);
    until(h, &seen.joined, 2); /* once there are descriptors again, nobody has to ask again */
    close(take_region(fd));
    close(fd);
    close(client);
    handover_close(h);
    close(memory);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("rpc/handover");
    TCase *t = tcase_create("handover");
    tcase_set_timeout(t, 20);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, client_gets_the_region_and_cannot_write_it);
    tcase_add_test(t, releases_arrive_however_they_are_cut);
    tcase_add_test(t, end_of_a_connection_is_told_once_and_of_that_client);
    tcase_add_loop_test(t, garbage_closes_its_connection_only, 0, 6);
    tcase_add_test(t, silent_connections_give_way_to_clients);
    tcase_add_test(t, socket_file_has_its_mode_and_goes_with_its_owner);
    tcase_add_test(t, want_of_descriptors_does_not_keep_the_owner_busy);
    suite_add_tcase(s, t);
    return s;
}
