/*
 * lanekeeper-worker: reads and tokenises rows for a lanekeeperd, on this machine or another.
 */
#include "base/mem.h"
#include "proto/worker_arguments.h"
#include "store/file.h"
#include "worker/worker.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define EXIT_USAGE 2
#define TOKEN_MAX 4096
#define LOCAL_SOCKET 3
#define LOCAL_BOARD 4

struct arguments {
    const char *connect, *token_file;
    int token_fd; /* -1: none */
    uint32_t reconnect_s;
    pid_t parent; /* 0: not local */
};

static void print_line(void *owner, const char *text)
{
    (void)owner;
    (void)fprintf(stderr, "lanekeeper-worker[%d]: %s\n", (int)getpid(), text);
}

static bool read_number(const char *text, long max, long *ret_value)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < 0 || value > max)
        return false;
    *ret_value = value;
    return true;
}

static void print_usage(FILE *to)
{
    (void)fprintf(to, "Usage: %s\n\n%s\n", worker_synopsis, worker_about);
    for (const struct worker_argument *row = worker_arguments(); row->name != NULL; row++)
        (void)fprintf(to, "  --%s %-*s  %s\n", row->name, 16 - (int)strlen(row->name), row->value, row->help);
    (void)fputs("\nExit status: 0 the daemon ended, 1 refused or gone, 2 wrong arguments.\n", to);
}

static bool misused(const char *why)
{
    (void)fprintf(stderr, "lanekeeper-worker: %s\n", why);
    print_usage(stderr);
    return false;
}

static void make_options(struct option options[WORKER_ARGUMENTS + 2])
{
    const struct worker_argument *row = worker_arguments();
    for (int i = 0; i < WORKER_ARGUMENTS; i++)
        options[i] = (struct option){row[i].name, required_argument, NULL, row[i].key};
    options[WORKER_ARGUMENTS] = (struct option){"help", no_argument, NULL, 'h'};
    options[WORKER_ARGUMENTS + 1] = (struct option){NULL, 0, NULL, 0};
}

/* True when the arguments make sense; else *ret_exit is what to exit with. */
static bool read_arguments(int argc, char **argv, struct arguments *args, int *ret_exit)
{
    struct option options[WORKER_ARGUMENTS + 2];
    long value = 0;
    int option;
    make_options(options);
    *ret_exit = EXIT_USAGE;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'h') {
            print_usage(stdout);
            *ret_exit = EXIT_SUCCESS;
            return false;
        }
        bool number = option == 'd' || option == 'r' || option == 'l';
        if (option == '?')
            return print_usage(stderr), false;
        if (number && !read_number(optarg, 1 << 30, &value))
            return misused(option == 'r' ? "--reconnect: expected seconds" : "expected a number");
        if (option == 'c')
            args->connect = optarg;
        else if (option == 'f')
            args->token_file = optarg;
        else if (option == 'd')
            args->token_fd = (int)value;
        else if (option == 'r')
            args->reconnect_s = (uint32_t)(value > 1000000 ? 1000000 : value);
        else
            args->parent = (pid_t)value;
    }
    bool given = args->connect != NULL, tokens = args->token_file != NULL || args->token_fd >= 0;
    if (optind == argc && (args->parent != 0 ? !given && !tokens
                                             : given && (args->token_file != NULL) !=
                                                            (args->token_fd >= 0)))
        return true;
    return misused(optind < argc   ? "unexpected argument"
                   : args->parent != 0 ? "--local goes with no other option"
                   : !given            ? "--connect ADDRESS is missing"
                   : !tokens           ? "the daemon's secret is missing: --token-file FILE"
                                       : "--token-file and --token-fd: expected one of them");
}

/* The daemon writes the token into a pipe and closes its end before it starts us. */
static enum lk_code read_descriptor(int fd, struct lk_buf *token, struct lk_err *err)
{
    for (;;) {
        ssize_t n = read(fd, lk_buf_room(token, TOKEN_MAX), TOKEN_MAX);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return lk_fail(err, LK_INVALID_ARGUMENT, "--token-fd %d: %s", fd, strerror(errno));
        if (n == 0)
            break;
        token->len += (size_t)n;
        if (token->len > TOKEN_MAX)
            return lk_fail(err, LK_INVALID_ARGUMENT, "--token-fd %d: more than %d bytes", fd,
                           TOKEN_MAX);
    }
    (void)close(fd);
    return LK_OK;
}

static enum lk_code read_token(const struct arguments *args, struct lk_buf *token,
                               struct lk_err *err)
{
    if (args->token_file != NULL)
        LK_TRY(lk_file_read_all(args->token_file, TOKEN_MAX, token, err));
    else
        LK_TRY(read_descriptor(args->token_fd, token, err));
    while (token->len > 0 && strchr(" \t\r\n", token->data[token->len - 1]) != NULL)
        token->len--;
    if (token->len == 0 || memchr(token->data, '\0', token->len) != NULL)
        return lk_fail(err, LK_INVALID_ARGUMENT, "the token is empty, or no text");
    return LK_OK;
}

/* A local worker dies with its daemon, whatever kills that. The daemon may be gone already: then we
 * have another parent, and no signal will come. */
static void die_with(pid_t parent)
{
    if (parent == 0)
        return;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
    struct arguments args = {.token_fd = -1, .reconnect_s = 600};
    struct lk_buf token = {0};
    struct lk_err err = {.code = LK_OK, .text = ""};
    int status;
    if (!read_arguments(argc, argv, &args, &status))
        return status;
    die_with(args.parent);
    (void)signal(SIGPIPE, SIG_IGN);
    enum lk_code code = args.parent != 0 ? LK_OK : read_token(&args, &token, &err);
    if (code == LK_OK) {
        struct worker_options worker = {
            .address = args.connect,
            .token = lk_buf_cstr(&token),
            .local = args.parent != 0,
            .socket = LOCAL_SOCKET,
            .board = LOCAL_BOARD,
            .patience_ms = args.parent != 0 ? 2000 : args.reconnect_s * 1000,
            .log = print_line,
        };
        code = worker_run(&worker, &err);
    }
    lk_buf_done(&token);
    if (code == LK_OK)
        return EXIT_SUCCESS;
    struct lk_buf line = {0};
    lk_buf_putf(&line, "%s: %s", lk_code_name(code), err.text);
    print_line(NULL, lk_buf_cstr(&line));
    lk_buf_done(&line);
    return EXIT_FAILURE;
}
