/*
 * The "normalizer" of a tokenizer.json: every kind but those that BPE tokenizers have no use for
 * (BertNormalizer, Precompiled, Nmt) or that spell bytes before anything is cut (ByteLevel).
 */
#include "op/tokenise/parse.h"

#include <stdlib.h>

/* How many times as long a step may make text, at most. */
static size_t growth_of(const struct lk_normal_step *step)
{
    if (step->kind != LK_NORMAL_REPLACE || step->to_n <= step->from_n)
        return 1;
    LK_CHECK(step->from_n > 0);
    return (step->to_n + step->from_n - 1) / step->from_n;
}

/* All steps together: each could feed the next. */
static bool grows_too_much(const struct lk_normal *normal, const struct lk_normal_step *step)
{
    size_t growth = growth_of(step);

    for (uint32_t i = 0; i < normal->n; i++)
        growth *= growth_of(&normal->steps[i]);
    return growth > LK_NORMAL_TEXT_MAX;
}

enum lk_code lk_add_step(struct lk_normal *normal, struct lk_normal_step step, struct lk_err *err)
{
    enum lk_code code = LK_OK;

    if (step.to_n > LK_NORMAL_TEXT_MAX)
        code = lk_fail(err, LK_UNIMPLEMENTED, "a text of %zu bytes, expected at most %d", step.to_n,
                       LK_NORMAL_TEXT_MAX);
    else if (grows_too_much(normal, &step))
        code = lk_fail(err, LK_UNIMPLEMENTED, "replacing that makes a text more than %d times as long",
                       LK_NORMAL_TEXT_MAX);
    if (code != LK_OK) {
        free(step.from);
        free(step.to);
        return code;
    }
    if (!lk_normal_add(normal, step))
        return lk_fail(err, LK_UNIMPLEMENTED, "more than %d normalizers", LK_NORMAL_STEPS);
    return LK_OK;
}

static enum lk_code add(struct lk_load *load, enum lk_normal_kind kind, struct lk_err *err)
{
    return lk_add_step(&load->tokenizer->normal, (struct lk_normal_step){.kind = kind}, err);
}

static enum lk_code read_plain(struct lk_load *load, enum lk_normal_kind kind, struct lk_err *err)
{
    static const struct lk_member members[] = {{"type", lk_read_skip, 0, true}};

    LK_TRY(lk_read_object(load, members, LK_COUNT(members), NULL, err));
    return add(load, kind, err);
}

static enum lk_code read_nfc(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    return read_plain(load, LK_NORMAL_NFC, err);
}

static enum lk_code read_nfd(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    return read_plain(load, LK_NORMAL_NFD, err);
}

static enum lk_code read_nfkc(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    return read_plain(load, LK_NORMAL_NFKC, err);
}

static enum lk_code read_nfkd(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    return read_plain(load, LK_NORMAL_NFKD, err);
}

static enum lk_code read_lowercase(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    return read_plain(load, LK_NORMAL_LOWERCASE, err);
}

static enum lk_code read_strip_accents(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    return read_plain(load, LK_NORMAL_STRIP_ACCENTS, err);
}

static enum lk_code read_strip(struct lk_load *load, void *to, struct lk_err *err)
{
    struct {
        bool left, right;
    } strip = {0};
    const struct lk_member members[] = {
        {"type", lk_read_skip, 0, true},
        {"strip_left", lk_read_flag, 0, true},
        {"strip_right", lk_read_flag, sizeof(bool), true},
    };

    (void)to;
    LK_TRY(lk_read_object(load, members, LK_COUNT(members), &strip, err));
    if (strip.left)
        LK_TRY(add(load, LK_NORMAL_STRIP_LEFT, err));
    return strip.right ? add(load, LK_NORMAL_STRIP_RIGHT, err) : LK_OK;
}

static enum lk_code read_prepend(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {{"type", lk_read_skip, 0, true},
                                               {"prepend", lk_read_text, 0, true}};
    struct lk_text text = {0};

    (void)to;
    enum lk_code code = lk_read_object(load, members, LK_COUNT(members), &text, err);
    if (code != LK_OK) {
        free(text.text);
        return code;
    }
    struct lk_normal_step step = {.kind = LK_NORMAL_PREPEND, .to = text.text, .to_n = text.n};
    return lk_add_step(&load->tokenizer->normal, step, err);
}

static enum lk_code read_regex(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)load;
    (void)to;
    return lk_unimplemented(err, "replacing by a regular expression");
}

static enum lk_code read_pattern(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {{"String", lk_read_text, 0, true},
                                               {"Regex", read_regex, 0, false}};
    return lk_read_object(load, members, LK_COUNT(members), to, err);
}

static enum lk_code read_replace(struct lk_load *load, void *to, struct lk_err *err)
{
    struct replace {
        struct lk_text from, to;
    } replace = {0};
    const struct lk_member members[] = {
        {"type", lk_read_skip, 0, true},
        {"pattern", read_pattern, offsetof(struct replace, from), true},
        {"content", lk_read_text, offsetof(struct replace, to), true},
    };

    (void)to;
    enum lk_code code = lk_read_object(load, members, LK_COUNT(members), &replace, err);
    if (code == LK_OK && replace.from.n == 0)
        code = lk_unimplemented(err, "replacing the empty text");
    if (code != LK_OK) {
        free(replace.from.text);
        free(replace.to.text);
        return code;
    }
    struct lk_normal_step step = {.kind = LK_NORMAL_REPLACE,
                                  .from = replace.from.text,
                                  .from_n = replace.from.n,
                                  .to = replace.to.text,
                                  .to_n = replace.to.n};
    return lk_add_step(&load->tokenizer->normal, step, err);
}

static enum lk_code read_sequence(struct lk_load *load, void *to, struct lk_err *err);

static enum lk_code read_any(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_kind kinds[] = {
        {"NFC", read_nfc},
        {"NFD", read_nfd},
        {"NFKC", read_nfkc},
        {"NFKD", read_nfkd},
        {"Lowercase", read_lowercase},
        {"Strip", read_strip},
        {"StripAccents", read_strip_accents},
        {"Prepend", read_prepend},
        {"Replace", read_replace},
        {"Sequence", read_sequence},
    };
    (void)to;
    return lk_read_component(load, "a normalizer", kinds, LK_COUNT(kinds), err);
}

static enum lk_code read_parts(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    return lk_read_array(load, read_any, err);
}

static enum lk_code read_sequence(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {{"type", lk_read_skip, 0, true},
                                               {"normalizers", read_parts, 0, true}};
    return lk_read_object(load, members, LK_COUNT(members), to, err);
}

enum lk_code lk_read_normalizer(struct lk_load *load, void *to, struct lk_err *err)
{
    return read_any(load, to, err);
}
