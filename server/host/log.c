#include "host/log.h"

#include "base/mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_name[] = {"error", "warn", "info", "debug"};

static void begin(struct lk_buf *line, enum log_level level, const char *component,
                  const char *event)
{
    struct timespec now;
    struct tm utc;
    char stamp[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
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

/* One write a line, so that lines of several processes do not mix. */
static void end(struct lk_buf *line)
{
    lk_buf_puts(line, "\n");
    size_t done = 0;
    while (done < line->len) {
        ssize_t n = write(STDERR_FILENO, line->data + done, line->len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break; /* nobody reads the log: there is nowhere to say so */
        done += (size_t)n;
    }
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
    end(&line);
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
    end(&line);
}
