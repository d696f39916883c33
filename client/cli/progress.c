#include "client/cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR_CELLS = 24 };
static const uint64_t second_ns = 1000000000;
static const uint64_t line_every_ns = 5000000000; /* where there is no terminal */

uint64_t progress_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * second_ns + (uint64_t)now.tv_nsec;
}

void progress_init(struct progress *p, const char *what)
{
    uint64_t now = progress_now_ns();
    *p = (struct progress){
        .what = what, .unit = "rows", .terminal = isatty(STDERR_FILENO) == 1, .began_ns = now, .last_ns = now};
}

/* "45%, 12.3 of 27.1 MB, 250.1 MB/s, 4210 rows, 0:07 left" */
static void describe(const struct progress *p, uint64_t now, uint64_t done, uint64_t all,
                     uint64_t rows, char *text, size_t n)
{
    double seconds = (double)(now - p->began_ns) / 1e9, rate = 0;
    char left[32] = "";

    if (seconds > 0)
        rate = (double)done / seconds;
    if (rate > 0 && done < all) {
        uint64_t eta = (uint64_t)((double)(all - done) / rate);
        (void)snprintf(left, sizeof left, ", %llu:%02llu left", (unsigned long long)(eta / 60),
                       (unsigned long long)(eta % 60));
    }
    if (p->of != NULL) {
        (void)snprintf(text, n, "%3u%%, %llu of %llu %s, %llu %s%s",
                       all > 0 ? (unsigned)(100.0 * (double)done / (double)all) : 100u,
                       (unsigned long long)done, (unsigned long long)all, p->of,
                       (unsigned long long)rows, p->unit, left);
        return;
    }
    (void)snprintf(text, n, "%3u%%, %.1f of %.1f MB, %.1f MB/s, %llu %s%s",
                   all > 0 ? (unsigned)(100.0 * (double)done / (double)all) : 100u,
                   (double)done / 1e6, (double)all / 1e6, rate / 1e6, (unsigned long long)rows,
                   p->unit, left);
}

static void draw(struct progress *p, uint64_t done, uint64_t all, const char *text)
{
    char bar[BAR_CELLS + 1];
    double part = all > 0 ? (double)done / (double)all : 1;
    unsigned full = (unsigned)(part * BAR_CELLS);

    if (full > BAR_CELLS)
        full = BAR_CELLS;
    memset(bar, '.', BAR_CELLS);
    memset(bar, '#', full);
    bar[BAR_CELLS] = '\0';
    (void)fprintf(stderr, "\r[%s] %s\033[K", bar, text);
    (void)fflush(stderr);
    p->drawn = true;
}

static void report(void *owner, uint64_t done, uint64_t all, uint64_t rows)
{
    struct progress *p = owner;
    uint64_t now = progress_now_ns();
    char text[160];

    describe(p, now, done, all, rows, text, sizeof text);
    if (p->terminal) {
        draw(p, done, all, text);
    } else if (now - p->last_ns >= line_every_ns) {
        (void)fprintf(stderr, "%s: %s\n", p->what, text);
        p->last_ns = now;
    }
}

struct lk_progress progress_hook(struct progress *p)
{
    return (struct lk_progress){.report = report, .owner = p};
}

static void draw_count(struct progress *p, uint64_t now, uint64_t done, uint64_t rows)
{
    (void)fprintf(stderr, "\r%.1f MB, %.1f MB/s, %llu %s\033[K", (double)done / 1e6,
                  (double)done * 1e3 / (double)(now - p->began_ns), (unsigned long long)rows,
                  p->unit);
    (void)fflush(stderr);
    p->drawn = true;
}

void progress_tick(struct progress *p, uint64_t done, uint64_t all, uint64_t rows)
{
    uint64_t now;
    if (!p->terminal || (now = progress_now_ns()) - p->began_ns < second_ns ||
        now - p->last_ns < second_ns / 5)
        return;
    p->last_ns = now;
    if (all > 0)
        report(p, done, all, rows);
    else
        draw_count(p, now, done, rows);
}

void progress_done(struct progress *p)
{
    if (p->drawn)
        (void)fputs("\r\033[K", stderr);
    p->drawn = false;
}
