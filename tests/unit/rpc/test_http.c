/* The HTTP server beside the service, over plain sockets. */
#include "rpc/http.h"

#include "base/mem.h"
#include "tests/lib/check_main.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_MS 5000

static struct http_server *open_at(const char *where)
{
    struct http_server *server = NULL;
    struct lk_err err;
    enum lk_code code = http_open(where, &server, &err);
    ck_assert_msg(code == LK_OK, "%s", code == LK_OK ? "" : err.text);
    return server;
}

static int dial(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = WAIT_MS / 1000};
    at.sin_port = htons(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static uint16_t port_of(const struct http_server *server)
{
    return (uint16_t)atoi(strrchr(http_address(server), ':') + 1);
}

static int ask(const struct http_server *server, const char *request)
{
    int fd = dial(port_of(server));
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    return fd;
}

/* The status of the answer; 0: closed without one. @ret_text: what has come by then. */
static int status(int fd, char *ret_text, size_t room)
{
    size_t n = 0;
    ssize_t got;
    while (n < room - 1 && (got = recv(fd, ret_text + n, room - 1 - n, 0)) > 0)
        n += (size_t)got;
    ret_text[n] = '\0';
    return n > 12 ? atoi(ret_text + strlen("HTTP/1.1 ")) : 0;
}

static struct http_request *wait_request(struct http_server *server)
{
    struct http_request *request;
    while ((request = http_next(server)) == NULL) {
        struct pollfd p = {.fd = http_fd(server), .events = POLLIN};
        ck_assert_msg(poll(&p, 1, WAIT_MS) == 1, "no request within %d ms", WAIT_MS);
    }
    return request;
}

START_TEST(request_is_answered_by_its_owner)
{
    struct http_server *server = open_at("127.0.0.1:0");
    char text[1024];
    int fd = ask(server, "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    struct http_request *request = wait_request(server);
    ck_assert_str_eq(http_path(request), "/metrics");
    http_answer(request, 200, "text/plain", "lanes 8\n", 8);
    ck_assert_int_eq(status(fd, text, sizeof text), 200);
    ck_assert_ptr_nonnull(strstr(text, "lanes 8\n"));
    close(fd);
    http_close(server);
}
END_TEST

START_TEST(bodies_are_refused)
{
    struct http_server *server = open_at("127.0.0.1:0");
    char text[1024];
    int fd = ask(server, "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                         "Content-Length: 1000\r\n\r\n");
    ck_assert_int_eq(status(fd, text, sizeof text), 400);
    ck_assert_ptr_null(http_next(server));
    close(fd);
    http_close(server);
}
END_TEST

START_TEST(too_many_that_wait_are_told_so_and_closing_answers_the_rest)
{
    struct http_server *server = open_at("127.0.0.1:0");
    int fd[HTTP_WAITING_MAX + 1];
    char text[1024];
    struct pollfd p[HTTP_WAITING_MAX + 1];
    for (int i = 0; i <= HTTP_WAITING_MAX; i++) {
        fd[i] = ask(server, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        p[i] = (struct pollfd){.fd = fd[i], .events = POLLIN};
    }
    ck_assert_int_eq(poll(p, HTTP_WAITING_MAX + 1, WAIT_MS), 1); /* one of them: nng has several threads */
    http_close(server);
    for (int i = 0; i <= HTTP_WAITING_MAX; i++) {
        int code = status(fd[i], text, sizeof text);
        ck_assert_msg(code == 503 || (code == 0 && p[i].revents == 0), "%s", text);
        close(fd[i]);
    }
}
END_TEST

START_TEST(address_in_use_is_named)
{
    struct http_server *server = open_at("127.0.0.1:0"), *other = NULL;
    struct lk_err err;
    int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    ck_assert_int_eq(bind(taken, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(taken, 1), 0);
    ck_assert_int_eq(getsockname(taken, (struct sockaddr *)&at, &n), 0);
    char *where = lk_format("127.0.0.1:%u", ntohs(at.sin_port));
    ck_assert_int_eq(http_open(where, &other, &err), LK_UNAVAILABLE);
    ck_assert_msg(strstr(err.text, where) != NULL, "%s", err.text);
    ck_assert_ptr_null(other);
    free(where);
    close(taken);
    http_close(server);
    http_close(NULL);
}
END_TEST

/* nng forgets the handler of a request whose connection ends in the moment in which it is read, and with
 * it what the handler holds: some hundred bytes at the end of a process. Not so in the other tests. */
void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

static struct http_server *open_forgotten(void)
{
    if (__lsan_disable != NULL)
        __lsan_disable();
    struct http_server *server = open_at("127.0.0.1:0");
    if (__lsan_enable != NULL)
        __lsan_enable();
    return server;
}

struct crowd {
    atomic_bool stop;
    atomic_uint port;
};

/* Asks whoever listens at the moment, and does not always wait for the answer. */
static void *press(void *arg)
{
    struct crowd *crowd = arg;
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    char text[64];
    for (int i = 0; !atomic_load(&crowd->stop); i++) {
        int fd = dial((uint16_t)atomic_load(&crowd->port));
        if (fd < 0)
            continue;
        if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) > 0 && i % 2 == 0)
            (void)!recv(fd, text, sizeof text, 0);
        close(fd);
    }
    return NULL;
}

START_TEST(closing_while_requests_arrive_is_clean)
{
    struct crowd crowd = {0};
    pthread_t thread[4];
    uint32_t served = 0;
    struct http_server *server = open_forgotten();
    atomic_store(&crowd.port, port_of(server));
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, press, &crowd), 0);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 3; i++, served++)
            http_answer(wait_request(server), 200, "text/plain", "ok\n", 3);
        http_close(server);
        server = open_forgotten();
        atomic_store(&crowd.port, port_of(server));
    }
    atomic_store(&crowd.stop, true);
    http_close(server);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(thread[i], NULL);
    ck_assert_uint_eq(served, 300);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("rpc/http");
    TCase *t = tcase_create("http");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, request_is_answered_by_its_owner);
    tcase_add_test(t, bodies_are_refused);
    tcase_add_test(t, too_many_that_wait_are_told_so_and_closing_answers_the_rest);
    tcase_add_test(t, address_in_use_is_named);
    tcase_add_test(t, closing_while_requests_arrive_is_clean);
    suite_add_tcase(s, t);
    return s;
}
