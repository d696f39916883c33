#include "host/log.h"

#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 300

static const char *const level_name[] = {"error", "warn", "info", "debug"};

static void begin(struct lk_buf *line, enum log_level level, const char *component,
                  const char *event)
{
    struct timespec now;
    struct tm utc;
    char stamp[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    (void)strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    lk_buf_putf(line, "%s.%03ldZ %s %s: %s", stamp, now.tv_nsec / 1000000, level_name[level],
                component, event);
}

static bool plain(const char *value)
{
    for (const char *c = value; *c != '\0'; c++)
        if ((unsigned char)*c <= ' ' || *c == '"' || *c == '\\' || *c == '=' || *c == 0x7f)
            return false;
    return *value != '\0';
}

static void put_pair(struct lk_buf *line, const char *key, const char *value)
{
    lk_buf_putf(line, " %s=", key);
    if (plain(value)) {
        lk_buf_puts(line, value);
        return;
    }
    lk_buf_puts(line, "\"");
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            lk_buf_putf(line, "\\%c", *c);
        else if ((unsigned char)*c < ' ' || *c == 0x7f)
            lk_buf_putf(line, "\\x%02x", (unsigned char)*c);
        else
            lk_buf_put(line, c, 1);
    }
    lk_buf_puts(line, "\"");
}

/* Whether @ms are enough until a piece can be written without waiting. What is no pipe can at once. */
static bool writable(int ms)
{
    struct pollfd log = {.fd = STDERR_FILENO, .events = POLLOUT};
    int n;
    while ((n = poll(&log, 1, ms)) < 0 && errno == EINTR)
        continue;
    return n != 0;
}

/* One write a line, so that lines of several processes do not mix. False: there is no room. */
static bool put_out(const struct lk_buf *line, bool waits, int ms)
{
    size_t done = 0;
    while (done < line->len) {
        size_t left = line->len - done, piece = waits || left < PIPE_BUF ? left : PIPE_BUF;
        if (!waits && !writable(ms))
            return false;
        ssize_t n = write(STDERR_FILENO, line->data + done, piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && !waits)
            return false; /* others share it: what there was room for is taken */
        if (n <= 0)
            break; /* nobody reads the log: there is nowhere to say so */
        done += (size_t)n;
    }
    return true;
}

/* The first line that finds no room waits a little for it; those after it do not. */
static void end(const struct log *log, struct lk_buf *line)
{
    bool waits = log->lost == NULL;
    uint64_t lost = waits ? 0 : atomic_load(log->lost);
    lk_buf_puts(line, "\n");
    if (lost > 0 && writable(0) && atomic_compare_exchange_strong(log->lost, &lost, 0)) {
        struct lk_buf told = {0};
        begin(&told, LOG_LEVEL_WARN, "log", "lines_lost");
        lk_buf_putf(&told, " lines=%llu reason=\"its reader did not keep up\"\n", (unsigned long long)lost);
        if (put_out(&told, false, 0))
            lost = 0;
        else
            atomic_fetch_add(log->lost, lost);
        lk_buf_done(&told);
    }
    if (!put_out(line, waits, lost > 0 ? 0 : WAIT_MS))
        atomic_fetch_add(log->lost, 1);
    lk_buf_done(line);
}

void log_event(const struct log *log, enum log_level level, const char *component,
               const char *event, ...)
{
    struct lk_buf line = {0};
    va_list args;
    if (level > log->level)
        return;
    begin(&line, level, component, event);
    va_start(args, event);
    for (const char *key; (key = va_arg(args, const char *)) != NULL;)
        put_pair(&line, key, va_arg(args, const char *));
    va_end(args);
    end(log, &line);
}

void log_text(const struct log *log, enum log_level level, const char *component,
              const char *event, const char *format, ...)
{
    struct lk_buf line = {0};
    char text[2048];
    va_list args;
    if (level > log->level)
        return;
    begin(&line, level, component, event);
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put_pair(&line, "text", text);
    end(log, &line);
}
