/*
 * HTTP beside the service: connections that send anything to the real server. It never ends, keeps nothing of
 * them, hands no request out that is malformed, and answers the next right one.
 *
 * Input: a byte for how the bytes are cut; then what a connection sends.
 */
#include "base/mem.h"
#include "rpc/http.h"
#include "tests/fuzz/fuzz.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE 5000 /* milliseconds for a right request */

static struct http_server *server;

static void clean_up(void)
{
    http_close(server);
}

static void begin(void)
{
    struct lk_err err;
    if (server != NULL)
        return;
    LK_CHECK(http_open("127.0.0.1:0", &server, &err) == LK_OK);
    LK_CHECK(atexit(clean_up) == 0);
}

static int dial(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    at.sin_port = htons((uint16_t)atoi(strrchr(http_address(server), ':') + 1));
    LK_CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    /* Ends with a reset, so that no port stays taken after thousands of them. */
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

/* Answers what is there; how many. */
static uint32_t answer_all(void)
{
    struct http_request *request;
    uint32_t n = 0;

    for (; (request = http_next(server)) != NULL; n++) {
        LK_CHECK(strlen(http_path(request)) < 256 && strpbrk(http_path(request), "?#") == NULL);
        http_answer(request, 200, "text/plain", "ok\n", 3);
    }
    return n;
}

/* Until @fd has something, or its end; answering meanwhile. False: not in time. */
static bool wait_for(int fd, int timeout_ms)
{
    struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = http_fd(server), .events = POLLIN}};

    for (int left = timeout_ms; left > 0; left--) {
        (void)poll(p, 2, 1);
        (void)answer_all();
        if (p[0].revents != 0)
            return true;
    }
    return false;
}

static void send_pieces(int fd, const uint8_t *data, size_t n, size_t piece)
{
    for (size_t at = 0; at < n; at += piece)
        if (send(fd, data + at, piece < n - at ? piece : n - at, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            return;
}

static void check_served(void)
{
    static const char right[] = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    char text[16] = "";
    int fd = dial();

    send_pieces(fd, (const uint8_t *)right, sizeof right - 1, sizeof right);
    LK_CHECK(wait_for(fd, PATIENCE));
    LK_CHECK(recv(fd, text, 12, MSG_WAITALL) == 12 && memcmp(text, "HTTP/1.1 200", 12) == 0);
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct lk_fuzz_input input = {data, n};

    begin();
    uint8_t how = lk_fuzz_byte(&input);
    int fd = dial();
    send_pieces(fd, input.at, input.left, how < 128 ? input.left + 1 : 1 + how % 64u);
    if (how % 2 == 0)
        (void)shutdown(fd, SHUT_WR);
    (void)wait_for(fd, 2);
    check_served();
    (void)close(fd);
    return 0;
}
