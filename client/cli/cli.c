#include "client/cli/cli.h"

#include "base/json.h"
#include "host/stream.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REACH_MS 3000 /* a daemon that runs answers Hello in milliseconds */

void cli_options(struct cli *cli, struct option_row *ret_rows)
{
    const struct option_row rows[] = {
        {"--connect", "ADDRESS", OPTION_TEXT, &cli->connect, 0, 0,
         "the daemon: ipc:///path or tcp://host:port. Without it: where --config"
         "\n                         listens first, or else what LANEKEEPER_ADDRESS says"},
        {"--config", "FILE", OPTION_TEXT, &cli->config_path, 0, 0, "the configuration"},
        {"--offline", NULL, OPTION_FLAG, &cli->offline, 0, 0,
         "with --config: by a private daemon that ends with the command"},
        {"--stream", "NAME", OPTION_TEXT, &cli->stream, 0, 0, "which one, if there are several"},
        {"--timeout", "SECONDS", OPTION_U32, &cli->timeout_s, 1, 86400,
         "for one answer; 60 by default"},
        {"--json", NULL, OPTION_FLAG, &cli->json, 0, 0, "for a program to read"},
        {.name = NULL},
    };
    memcpy(ret_rows, rows, sizeof rows);
}

/* ---- failures ---- */

static void say_failure(struct cli *cli, int code, const char *text)
{
    struct lk_buf out = {0};
    (void)fprintf(stderr, "lanekeeper %s: %s\n", cli->command, text);
    if (cli->json) {
        lk_buf_puts(&out, "{\"error\":{");
        json_text(&out, false, "code", lanekeeper_code_name(code));
        json_text(&out, true, "text", text);
        lk_buf_puts(&out, "}}\n");
        (void)output_flush(&out);
    }
    lk_buf_done(&out);
}

int cli_fail(struct cli *cli, int code, const char *format, ...)
{
    char text[LK_ERR_TEXT_MAX + 256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    say_failure(cli, code, text);
    return EXIT_PROBLEM;
}

int cli_fail_daemon(struct cli *cli, int code, const char *text)
{
    say_failure(cli, code, text);
    return code == LANEKEEPER_UNAVAILABLE && cli->daemon.pid <= 0 ? EXIT_UNREACHABLE : EXIT_PROBLEM;
}

int cli_fail_call(struct cli *cli, const struct lanekeeper *handle, int code)
{
    struct lk_err why;
    if (cli->daemon.pid > 0 && !private_alive(&cli->daemon, &why))
        return cli_fail_err(cli, &why);
    return cli_fail_daemon(cli, code, lanekeeper_error_text(handle));
}

int cli_fail_err(struct cli *cli, const struct lk_err *err)
{
    return cli_fail(cli, (int)err->code, "%s", err->text);
}

/* ---- opening ---- */

static int pick_stream(struct cli *cli)
{
    struct lk_buf names = {0};
    for (uint32_t i = 0; i < cli->config.n_streams; i++) {
        const char *name = cli->config.stream[i].name;
        lk_buf_putf(&names, "%s%s", i > 0 ? ", " : "", name);
        bool only = cli->any_stream || cli->config.n_streams == 1;
        if (cli->stream != NULL ? strcmp(cli->stream, name) == 0 : only) {
            cli->stream_number = i;
            cli->stream = name;
            lk_buf_done(&names);
            return -1;
        }
    }
    int status = cli->stream != NULL
                     ? cli_fail(cli, LANEKEEPER_NOT_FOUND, "%s has no stream \"%s\"; it has %s",
                                cli->config_path, cli->stream, lk_buf_cstr(&names))
                     : options_fail(cli->command, "%s has several streams; say --stream and one of %s",
                                    cli->config_path, lk_buf_cstr(&names));
    lk_buf_done(&names);
    return status;
}

static void find_address(struct cli *cli)
{
    const char *environment = getenv("LANEKEEPER_ADDRESS");
    if (cli->connect != NULL)
        cli->address = cli->connect;
    else if (cli->configured)
        cli->address = cli->config.runtime.listen[0];
    else if (environment != NULL && environment[0] != '\0')
        cli->address = environment;
}

int cli_open(struct cli *cli)
{
    struct lk_err err;
    if (cli->offline && cli->config_path == NULL)
        return options_fail(cli->command, "--offline needs --config FILE");
    if (cli->offline && cli->connect != NULL)
        return options_fail(cli->command, "--offline asks no other daemon, so not with --connect");
    if (cli->config_path != NULL) {
        if (lk_config_load(cli->config_path, &cli->config, &err) != LK_OK)
            return cli_fail_err(cli, &err);
        cli->configured = true;
        int status = pick_stream(cli);
        if (status >= 0)
            return status;
    }
    if (!cli->offline) {
        find_address(cli);
        return -1;
    }
    if (private_start(&cli->daemon, cli->config_path, "read", &err) != LK_OK)
        return cli_fail_err(cli, &err);
    cli->address = cli->daemon.address;
    return -1;
}

void cli_done(struct cli *cli)
{
    private_stop(&cli->daemon);
    lk_config_done(&cli->config);
}

const struct lk_recipe *cli_recipe(const struct cli *cli)
{
    return cli->configured ? &cli->config.stream[cli->stream_number] : NULL;
}

/* ---- connecting ---- */

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pause_ms(long ms)
{
    struct timespec t = {.tv_nsec = ms * 1000000};
    (void)nanosleep(&t, NULL);
}

static int fail_unreached(struct cli *cli, const char *text)
{
    if (cli->config_path == NULL || cli->daemon.pid > 0)
        return cli_fail_daemon(cli, LANEKEEPER_UNAVAILABLE, text);
    char *told = lk_format("%s `lanekeeperd %s` starts one; --offline does without", text, cli->config_path);
    int status = cli_fail_daemon(cli, LANEKEEPER_UNAVAILABLE, told);
    free(told);
    return status;
}

/* Until the daemon answers Hello: a private one may open large indexes first, and its end is noticed
 * meanwhile. */
static int reach(struct cli *cli, const struct lanekeeper_options *ask)
{
    struct lanekeeper_options options = *ask;
    struct lanekeeper_error error;
    struct lanekeeper *probe;
    struct lk_err why;
    bool own = cli->daemon.pid > 0;
    int64_t until = now_ms() + (own ? (int64_t)cli->timeout_s * 1000 : REACH_MS);
    for (;;) {
        if (own && !private_alive(&cli->daemon, &why))
            return cli_fail_err(cli, &why);
        if (own && !private_listens(&cli->daemon) && now_ms() < until) {
            pause_ms(2);
            continue;
        }
        options.timeout_ms = own ? 500 : REACH_MS;
        enum lanekeeper_code code = lanekeeper_connect(&options, &probe, &error);
        if (code == LANEKEEPER_OK) {
            lanekeeper_close(probe);
            cli->reached = true;
            return -1;
        }
        bool passes = code == LANEKEEPER_UNAVAILABLE || code == LANEKEEPER_DEADLINE_EXCEEDED;
        if (!passes || now_ms() >= until)
            return passes ? fail_unreached(cli, error.text) : cli_fail_daemon(cli, (int)code, error.text);
    }
}

int cli_connect(struct cli *cli, const struct lanekeeper_options *ask, struct lanekeeper **ret_handle)
{
    struct lanekeeper_options options = *ask;
    struct lanekeeper_error error;
    if (cli->address == NULL)
        return options_fail(cli->command, "no daemon is known: say --connect ADDRESS, --config FILE, or "
                                          "set LANEKEEPER_ADDRESS");
    options.address = cli->address;
    options.stream = cli->stream == NULL && cli->any_stream ? "*" : cli->stream;
    int status = cli->reached ? -1 : reach(cli, &options);
    if (status >= 0)
        return status;
    options.timeout_ms = cli->timeout_s * 1000;
    enum lanekeeper_code code = lanekeeper_connect(&options, ret_handle, &error);
    return code == LANEKEEPER_OK ? -1 : cli_fail_daemon(cli, (int)code, error.text);
}

int cli_connect_one(struct cli *cli, enum lanekeeper_sharing sharing, struct lanekeeper **ret_handle)
{
    struct lanekeeper_options options;
    lanekeeper_options_init(&options);
    options.lookahead = 0;
    options.sharing = sharing;
    return cli_connect(cli, &options, ret_handle);
}

void cli_tell_changed(struct cli *cli, struct lanekeeper *handle)
{
    struct lanekeeper_info info;
    struct stream stream = {.recipe = NULL};
    struct lk_err err;
    char here[LK_DIGEST_HEX], there[LK_DIGEST_HEX];
    if (!cli->configured || cli->daemon.pid > 0 || lanekeeper_info(handle, &info) != LANEKEEPER_OK ||
        stream_open(&cli->config, cli->stream_number, &stream, &err) != LK_OK)
        return;
    if (!lk_digest_equal(stream.digest, lk_digest_get(info.stream_digest))) {
        lk_digest_hex(stream.digest, here);
        lk_digest_hex(lk_digest_get(info.stream_digest), there);
        (void)fprintf(stderr, "lanekeeper %s: this is the stream with digest %s that the daemon serves; %s describes %s "
                              "now, which it serves when it is started anew\n", cli->command, there, cli->config_path, here);
    }
    stream_done(&stream);
}
