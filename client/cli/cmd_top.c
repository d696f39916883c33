/* `lanekeeper top`: what a daemon does, refreshed. What is shown is top_view's, how it is screen's. */
#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/cli/sample.h"
#include "client/cli/screen.h"
#include "client/cli/top_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MS 1000 /* a key is not waited for longer than this */

struct top {
    struct cli cli;
    bool once, batch;
    uint32_t count; /* 0: without end */
    uint32_t interval_ms;
    struct lanekeeper *handle; /* NULL: not connected */
    struct sample old, new;
    char *away; /* NULL: the daemon answered last time */
    struct top_view view;
    struct screen screen;
    struct lines lines;
    struct lk_buf out;
};

/* ---- data ---- */

static void set_away(struct top *t, const char *why)
{
    free(t->away);
    t->away = why != NULL ? lk_strdup(why) : NULL;
}

static bool try_to_connect(struct top *t)
{
    struct lanekeeper_options options;
    struct lanekeeper_error error;
    lanekeeper_options_init(&options);
    options.address = t->cli.address;
    options.stream = "*"; /* all of them are shown */
    options.lookahead = 0;
    options.sharing = LANEKEEPER_SHARED_NEVER;
    options.timeout_ms = ANSWER_MS;
    if (lanekeeper_connect(&options, &t->handle, &error) == LANEKEEPER_OK)
        return true;
    set_away(t, error.text);
    t->handle = NULL;
    return false;
}

/* A new sample, or why there is none. A daemon that went away is tried anew at the next look. */
static void look(struct top *t)
{
    struct sample next = {.at_ms = 0};
    struct lk_err err = {.code = LK_OK};
    char *json = NULL;
    if (t->handle == NULL && !try_to_connect(t))
        return;
    if (lanekeeper_status(t->handle, &json) != LANEKEEPER_OK) {
        set_away(t, lanekeeper_error_text(t->handle));
        lanekeeper_close(t->handle);
        t->handle = NULL;
        return;
    }
    if (sample_parse(json, sample_now_ms(), &next, &err) == LK_OK) {
        sample_done(&t->old);
        t->old = t->new;
        t->new = next;
    }
    set_away(t, err.code != LK_OK ? err.text : NULL);
    lanekeeper_free(json);
}

static void lay_out(struct top *t)
{
    t->view.away = t->away;
    top_lines(&t->view, &t->old, &t->new, &t->lines);
}

/* ---- as text ---- */

static bool print(struct top *t, bool more)
{
    lay_out(t);
    for (size_t i = 0; i < t->lines.n; i++)
        lk_buf_putf(&t->out, "%s\n", t->lines.line[i].text);
    lk_buf_puts(&t->out, more ? "\n" : "");
    return output_flush(&t->out);
}

static int run_text(struct top *t)
{
    uint32_t count = t->count > 0 ? t->count : t->batch ? 0 : 1;
    t->view.width = screen_width();
    t->view.all = true;
    look(t); /* what the first rates are taken against */
    if (t->away != NULL && count == 1)
        return cli_fail_daemon(&t->cli, LANEKEEPER_UNAVAILABLE, t->away);
    for (uint32_t i = 0; count == 0 || i < count; i++) {
        sample_pause_ms(t->interval_ms);
        look(t);
        if (!print(t, i + 1 != count))
            return EXIT_PROBLEM;
    }
    return t->away == NULL ? EXIT_WELL : EXIT_UNREACHABLE;
}

/* ---- as a screen ---- */

static void move(struct top *t, int by)
{
    uint32_t n = (uint32_t)value_get(&t->new.status, "streams")->n;
    t->view.only = NULL;
    t->view.first_lane = 0;
    if (n > 0)
        t->view.stream = (t->view.stream + n + (uint32_t)(by + (int)n)) % n;
}

static uint32_t last_lane(const struct top *t)
{
    const struct value *streams = value_get(&t->new.status, "streams");
    uint64_t most = 1;
    for (size_t s = 0; s < streams->n; s++)
        if (value_u64(&streams->child[s], "lanes") > most)
            most = value_u64(&streams->child[s], "lanes");
    return (uint32_t)most - 1;
}

/* False: it is enough. */
static bool press(struct top *t, int key)
{
    if (key == 'q' || key == 'Q' || key == 4)
        return false;
    if (key == ' ')
        t->view.paused = !t->view.paused;
    else if (key >= '1' && key <= '9') {
        t->view.only = NULL;
        t->view.first_lane = 0;
        t->view.stream = (uint32_t)(key - '1');
    } else if (key == SCREEN_LEFT || key == SCREEN_RIGHT)
        move(t, key == SCREEN_LEFT ? -1 : 1);
    else if (key == SCREEN_DOWN && t->view.first_lane < last_lane(t))
        t->view.first_lane++;
    else if (key == SCREEN_UP && t->view.first_lane > 0)
        t->view.first_lane--;
    return true;
}

/* What is to be done until the next look; false: the end. */
static bool attend(struct top *t, int64_t until)
{
    for (;;) {
        int key = 0;
        int64_t left = until - sample_now_ms();
        t->view.width = t->screen.width;
        t->view.height = t->screen.height;
        lay_out(t);
        if (!screen_draw(&t->screen, &t->lines))
            return false;
        enum screen_event event = screen_wait(&t->screen, left > 0 ? (int)left : 0, &key);
        if (event == SCREEN_END || (event == SCREEN_KEY && !press(t, key)))
            return false;
        if (event == SCREEN_TIMEOUT && sample_now_ms() >= until)
            return true;
    }
}

static int run_screen(struct top *t)
{
    bool entered = screen_enter(&t->screen);
    while (entered) {
        int64_t began = sample_now_ms();
        if (!t->view.paused)
            look(t);
        if (!attend(t, began + t->interval_ms))
            break;
    }
    screen_leave(&t->screen);
    return entered ? EXIT_WELL : cli_fail(&t->cli, LANEKEEPER_INTERNAL, "the terminal cannot be set up");
}

/* ---- the command ---- */

static int run(struct top *t)
{
    t->view.only = t->cli.stream;
    t->cli.any_stream = true;
    int status = cli_open(&t->cli);
    if (status >= 0)
        return status;
    t->view.address = t->cli.address;
    if (t->cli.address == NULL)
        return options_fail("top", "no daemon is known: say its ADDRESS or CONFIG, or set LANEKEEPER_ADDRESS");
    return t->once || t->batch || t->count > 0 || !screen_possible() ? run_text(t) : run_screen(t);
}

int cmd_top(int argc, char **argv, const struct listener *listener)
{
    struct top t = {.cli = {.command = argv[0], .timeout_s = 1}, .interval_ms = 1000};
    const struct option_row own[] = {
        {"--connect", "ADDRESS", OPTION_TEXT, &t.cli.connect, 0, 0, "the daemon, as ADDRESS"},
        {"--config", "FILE", OPTION_TEXT, &t.cli.config_path, 0, 0, "the configuration, as CONFIG"},
        {"--stream", "NAME", OPTION_TEXT, &t.cli.stream, 0, 0, "the one to show in full; the first by default"},
        {"--interval", "MS", OPTION_U32, &t.interval_ms, 50, 3600000, "between two looks; 1000 by default"},
        {"--once", NULL, OPTION_FLAG, &t.once, 0, 0, "as text, once: also where no terminal is"},
        {"--batch", NULL, OPTION_FLAG, &t.batch, 0, 0, "as text, again and again"},
        {"-n", "N", OPTION_U32, &t.count, 1, UINT32_MAX, "as text, so many times"},
        {.name = NULL},
    };
    const struct usage usage = {
        .synopsis = "top [ADDRESS | CONFIG] [--stream NAME] [--interval MS] [--once | --batch] [-n N]",
        .about = "Shows what a daemon does, on a screen that is refreshed: streams, cursors and lanes, workers,\n"
                 "what every request waits for, what is made and read a second, memory, and rows dropped by\n"
                 "reason. ADDRESS is ipc:///path or tcp://host:port; of a CONFIG, where it listens first; without\n"
                 "either LANEKEEPER_ADDRESS is asked. A daemon that is away is tried again.\n"
                 "Keys: q ends, space halts, 1-9, left and right choose the stream, up and down move the lanes.\n"
                 "NO_COLOR in the environment: without colours.\n",
        .own = own, .args_min = 0, .args_max = 1};
    int args;
    int status = options_parse(argc, argv, listener, &usage, &args);
    if (status >= 0)
        return status;
    if (args == 1 && strstr(argv[1], "://") != NULL)
        t.cli.connect = argv[1];
    else if (args == 1)
        t.cli.config_path = argv[1];
    status = run(&t);
    lanekeeper_close(t.handle);
    sample_done(&t.old);
    sample_done(&t.new);
    lines_done(&t.lines);
    lk_buf_done(&t.out);
    free(t.away);
    cli_done(&t.cli);
    return status;
}
