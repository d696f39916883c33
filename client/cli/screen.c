/* Escape sequences: ECMA-48, and xterm's private modes 7 (wrap), 25 (cursor) and 1049 (alternate screen). */
#include "client/cli/screen.h"

#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { ESCAPE_MS = 25, COLUMNS_MAX = 1000 };

static const char enter_codes[] = "\033[?1049h\033[?25l\033[?7l\033[H\033[2J";
static const char leave_codes[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

bool screen_possible(void)
{
    const char *term = getenv("TERM");
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term != NULL && term[0] != '\0' &&
           strcmp(term, "dumb") != 0;
}

unsigned screen_width(void)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    long n = columns != NULL ? strtol(columns, NULL, 10) : 0;
    return n > 0 && n <= COLUMNS_MAX ? (unsigned)n : 80;
}

static bool write_all(const void *data, size_t n)
{
    const char *p = data;
    while (n > 0) {
        ssize_t did = write(STDOUT_FILENO, p, n);
        if (did < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        if (did < 0 && errno == EAGAIN)
            (void)poll(&(struct pollfd){.fd = STDOUT_FILENO, .events = POLLOUT}, 1, 100);
        if (did > 0) {
            p += did;
            n -= (size_t)did;
        }
    }
    return true;
}

static void measure(struct screen *screen)
{
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    screen->width = known ? size.ws_col : 80;
    screen->height = known ? size.ws_row : 24;
}

static bool take(struct screen *screen)
{
    struct termios raw;
    if (tcgetattr(STDIN_FILENO, &screen->saved) != 0)
        return false;
    raw = screen->saved;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* ISIG stays: ^C and ^Z are signals */
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0)
        return false;
    screen->taken = true;
    measure(screen);
    return write_all(enter_codes, sizeof enter_codes - 1);
}

static void give_back(struct screen *screen)
{
    if (!screen->taken)
        return;
    (void)write_all(leave_codes, sizeof leave_codes - 1);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &screen->saved);
    screen->taken = false;
}

bool screen_enter(struct screen *screen)
{
    static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT};
    const char *no_colour = getenv("NO_COLOR");
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        (void)sigaddset(&set, all[i]);
    *screen = (struct screen){.signals = -1, .colour = no_colour == NULL || no_colour[0] == '\0'};
    (void)sigprocmask(SIG_BLOCK, &set, &screen->before);
    screen->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return screen->signals >= 0 && take(screen);
}

void screen_leave(struct screen *screen)
{
    give_back(screen);
    if (screen->signals > 0) {
        (void)close(screen->signals);
        (void)sigprocmask(SIG_SETMASK, &screen->before, NULL);
    }
    screen->signals = 0;
}

/* Stopped with the terminal as it was; on after SIGCONT, which may find another size. */
static enum screen_event stop(struct screen *screen)
{
    give_back(screen);
    (void)kill(getpid(), SIGSTOP);
    return take(screen) ? SCREEN_RESIZE : SCREEN_END;
}

static enum screen_event read_signal(struct screen *screen)
{
    struct signalfd_siginfo info;
    enum screen_event event = SCREEN_TIMEOUT;
    while (read(screen->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGTSTP)
            event = stop(screen);
        else if (info.ssi_signo == SIGWINCH || info.ssi_signo == SIGCONT)
            event = SCREEN_RESIZE;
        else
            return SCREEN_END;
        if (event == SCREEN_END)
            return event;
    }
    measure(screen);
    return event;
}

/* After an escape: the rest of an arrow key, "[A" or "OA", comes at once or not at all. */
static int read_arrow(void)
{
    static const char letter[] = "ABDC";
    char rest[2];
    for (int i = 0; i < 2; i++) {
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        if (poll(&in, 1, ESCAPE_MS) != 1 || read(STDIN_FILENO, &rest[i], 1) != 1)
            return '\033';
    }
    const char *at = memchr(letter, rest[1], 4);
    return (rest[0] == '[' || rest[0] == 'O') && at != NULL ? SCREEN_UP + (int)(at - letter) : '\033';
}

static enum screen_event read_key(int *ret_key)
{
    unsigned char c;
    ssize_t n = read(STDIN_FILENO, &c, 1);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        return SCREEN_END;
    if (n < 0)
        return SCREEN_TIMEOUT;
    *ret_key = c == '\033' ? read_arrow() : c;
    return SCREEN_KEY;
}

enum screen_event screen_wait(struct screen *screen, int ms, int *ret_key)
{
    struct pollfd fds[2] = {{.fd = screen->signals, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
    if (poll(fds, 2, ms) <= 0)
        return SCREEN_TIMEOUT;
    if (fds[0].revents != 0)
        return read_signal(screen);
    if ((fds[1].revents & POLLIN) != 0)
        return read_key(ret_key);
    return SCREEN_END;
}

static const char *code_of(const struct screen *screen, enum tint tint)
{
    static const char *const colours[] = {"", "\033[1m", "\033[7m", "\033[2m", "\033[32m", "\033[33m",
                                          "\033[1;31m"};
    static const char *const plain[] = {"", "\033[1m", "\033[7m", "", "", "\033[1m", "\033[1m"};
    return screen->colour ? colours[tint] : plain[tint];
}

bool screen_draw(struct screen *screen, const struct lines *lines)
{
    struct lk_buf out = {0};
    lk_buf_puts(&out, "\033[H");
    for (size_t i = 0; i < lines->n && i < screen->height; i++) {
        const char *code = code_of(screen, lines->line[i].tint);
        lk_buf_putf(&out, "%s%s%s%s\033[K", i > 0 ? "\r\n" : "", code, lines->line[i].text,
                    code[0] != '\0' ? "\033[0m" : "");
    }
    lk_buf_puts(&out, "\033[J");
    bool written = write_all(out.data, out.len);
    lk_buf_done(&out);
    return written;
}
