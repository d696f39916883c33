/* A configuration that uses most keys, and helpers to change a piece of it. */
#ifndef LK_TESTS_UNIT_CONFIG_SAMPLE_H
#define LK_TESTS_UNIT_CONFIG_SAMPLE_H

#include "base/mem.h"
#include "config/config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char sample[] = "streams:\n"
                             "  pretrain:\n"
                             "    seed: 1\n"
                             "    lanes: 8\n"
                             "    batch: 64\n"
                             "    sequence: 2048\n"
                             "    tokenizer: {hf: gpt2/tokenizer.json, append: eos}\n"
                             "    datasets:\n"
                             "      docs: {path: \"data/docs/*.jsonl\", text: text, weight: 5}\n"
                             "      man: {path: data/man/, weight: 3, epochs: 2, then: release}\n"
                             "      code: {path: /data/code/, text: body.content, weight: 2}\n"
                             "    mixture: tokens\n"
                             "    order: {block_rows: 256, shuffle_rows: true}\n"
                             "    pipeline:\n"
                             "      - filter: {min_bytes: 64, max_bytes: 2MiB}\n"
                             "      - split: {max_tokens: 8192}\n"
                             "      - shuffle: {buffer: 1024}\n"
                             "      - pack: {algorithm: exact_fit, pool: 512}\n"
                             "runtime:\n"
                             "  workers: 2\n"
                             "  arena: 512MiB\n"
                             "  snapshots: {dir: snaps, every: 100, keep: 8}\n";

/* @text with the first @find replaced. Caller frees. */
static inline char *replaced(const char *text, const char *find, const char *replace)
{
    const char *at = strstr(text, find);
    ck_assert_msg(at != NULL, "there is no %s", find);
    return lk_format("%.*s%s%s", (int)(at - text), text, replace, at + strlen(find));
}

static inline char *sample_with(const char *find, const char *replace)
{
    return replaced(sample, find, replace);
}

static inline enum lk_code parse_text(const char *text, struct lk_config *ret, struct lk_err *err)
{
    return lk_config_parse("c.yaml", text, strlen(text), "/conf", ret, err);
}

static inline void must_parse(const char *text, struct lk_config *ret)
{
    struct lk_err err;
    enum lk_code code = parse_text(text, ret, &err);
    ck_assert_msg(code == LK_OK, "%s", code == LK_OK ? "" : err.text);
}

static inline void must_parse_with(const char *find, const char *replace, struct lk_config *ret)
{
    char *text = sample_with(find, replace);
    must_parse(text, ret);
    free(text);
}

/* Every part of @want, separated by "…", has to stand in the message, in this order. */
static inline void message_has(const char *message, const char *want)
{
    const char *at = message;
    while (want != NULL) {
        const char *end = strstr(want, "…");
        char *part = end != NULL ? lk_strndup(want, (size_t)(end - want)) : lk_strdup(want);
        const char *found = strstr(at, part);
        ck_assert_msg(found != NULL, "expected \"%s\" in: %s", part, message);
        at = found + strlen(part);
        free(part);
        want = end != NULL ? end + strlen("…") : NULL;
    }
}

static inline void must_fail(const char *text, const char *want)
{
    struct lk_config config;
    struct lk_err err;
    enum lk_code code = parse_text(text, &config, &err);
    ck_assert_msg(code == LK_INVALID_ARGUMENT, "accepted, but expected: %s\n%s", want, text);
    message_has(err.text, want);
}

static inline void must_fail_with(const char *find, const char *replace, const char *want)
{
    char *text = sample_with(find, replace);
    must_fail(text, want);
    free(text);
}

/* A row of a table of mistakes. */
struct mistake {
    const char *find, *replace, *want;
};

#endif
