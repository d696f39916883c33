/*
 * SentencePiece's usual way, see lk_read_marks: Llama 2, Mistral, Phi-3, Gemma.
 *
 * Three shapes of files mean it: a Replace " " → U+2581 in the normalizer, with or without a Prepend and with
 * no pre_tokenizer or one that splits at the spaces that are gone by then; or no normalizer and
 * Metaspace. Whatever differs is left to the readers of all normalizers and pre_tokenizers, and so are
 * errors: here any of them only means "not of that kind".
 */
#include "op/tokenise/parse.h"

#include "op/pretok/joins.h"

#define MARK "\xe2\x96\x81"

struct marks {
    bool replace, prepend, metaspace, split;
    char scheme[LK_TYPE_MAX];
};

struct text_part {
    char pattern[LK_TYPE_MAX], content[LK_TYPE_MAX], scheme[LK_TYPE_MAX];
    bool prefix, prefix_given, split;
};

static enum lk_code no(void)
{
    return LK_NOT_FOUND;
}

static enum lk_code read_string_pattern(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {{"String", lk_read_word, 0, true}};
    return lk_read_object(load, members, LK_COUNT(members), to, err);
}

static enum lk_code read_replace(struct lk_load *load, struct marks *marks, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"type", lk_read_skip, 0, true},
        {"pattern", read_string_pattern, offsetof(struct text_part, pattern), true},
        {"content", lk_read_word, offsetof(struct text_part, content), true},
    };
    struct text_part part = {0};

    LK_TRY(lk_read_object(load, members, LK_COUNT(members), &part, err));
    if (strcmp(part.pattern, " ") != 0 || strcmp(part.content, MARK) != 0 || marks->replace)
        return no();
    marks->replace = true;
    return LK_OK;
}

static enum lk_code read_prepend(struct lk_load *load, struct marks *marks, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"type", lk_read_skip, 0, true},
        {"prepend", lk_read_word, offsetof(struct text_part, content), true},
    };
    struct text_part part = {0};

    LK_TRY(lk_read_object(load, members, LK_COUNT(members), &part, err));
    if (strcmp(part.content, MARK) != 0 || marks->prepend)
        return no();
    marks->prepend = true;
    return LK_OK;
}

static enum lk_code read_normalizer_part(struct lk_load *load, struct marks *marks,
                                         struct lk_err *err)
{
    char type[LK_TYPE_MAX];

    LK_TRY(lk_peek_type(load, type, err));
    if (strcmp(type, "Replace") == 0)
        return read_replace(load, marks, err);
    return strcmp(type, "Prepend") == 0 ? read_prepend(load, marks, err) : no();
}

static enum lk_code read_normalizers(struct lk_load *load, void *to, struct lk_err *err)
{
    bool more = false;

    LK_TRY(lk_expect(load, LK_JSON_ARRAY, err));
    LK_TRY(lk_json_enter(&load->json, err));
    for (;;) {
        LK_TRY(lk_json_next(&load->json, &more, NULL, NULL, err));
        if (!more)
            return LK_OK;
        LK_TRY(read_normalizer_part(load, to, err));
    }
}

static enum lk_code read_normalizer(struct lk_load *load, struct marks *marks, struct lk_err *err)
{
    static const struct lk_member members[] = {{"type", lk_read_skip, 0, true},
                                               {"normalizers", read_normalizers, 0, true}};
    char type[LK_TYPE_MAX];

    LK_TRY(lk_peek_type(load, type, err));
    if (strcmp(type, "Sequence") == 0)
        return lk_read_object(load, members, LK_COUNT(members), marks, err);
    return read_normalizer_part(load, marks, err);
}

/* It never finds a space once they are replaced, so that its behavior does not matter. */
static enum lk_code read_split(struct lk_load *load, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"type", lk_read_skip, 0, true},
        {"pattern", read_string_pattern, offsetof(struct text_part, pattern), true},
        {"behavior", lk_read_word, offsetof(struct text_part, scheme), true},
        {"invert", lk_read_flag, offsetof(struct text_part, prefix), true},
    };
    struct text_part part = {0};

    LK_TRY(lk_read_object(load, members, LK_COUNT(members), &part, err));
    return strcmp(part.pattern, " ") == 0 && !part.prefix ? LK_OK : no();
}

static enum lk_code read_metaspace(struct lk_load *load, struct marks *marks, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"type", lk_read_skip, 0, true},
        {"replacement", lk_read_word, offsetof(struct text_part, content), true},
        {"prepend_scheme", lk_read_word, offsetof(struct text_part, scheme), true},
        {"split", lk_read_flag, offsetof(struct text_part, split), true},
    };
    struct text_part part = {0};

    LK_TRY(lk_read_object(load, members, LK_COUNT(members), &part, err));
    if (strcmp(part.content, MARK) != 0)
        return no();
    marks->metaspace = true;
    marks->split = part.split;
    memcpy(marks->scheme, part.scheme, sizeof marks->scheme);
    return LK_OK;
}

static enum lk_code read_pre_tokenizer(struct lk_load *load, struct marks *marks,
                                       struct lk_err *err)
{
    char type[LK_TYPE_MAX];

    LK_TRY(lk_peek_type(load, type, err));
    if (strcmp(type, "Split") == 0)
        return marks->replace ? read_split(load, err) : no();
    return strcmp(type, "Metaspace") == 0 ? read_metaspace(load, marks, err) : no();
}

static bool read_value(struct lk_load *load, size_t at, struct marks *marks,
                       enum lk_code (*read)(struct lk_load *, struct marks *, struct lk_err *))
{
    struct lk_err err = {.code = LK_OK};
    size_t before = load->path.len;
    uint32_t depth = load->json.depth;
    bool null = false;

    if (at == 0)
        return true;
    load->json.at = at;
    bool fits = lk_read_null(load, &null, &err) == LK_OK && (null || read(load, marks, &err) == LK_OK);
    load->path.len = before; /* it may have given up anywhere */
    load->json.depth = depth;
    return fits;
}

/* Tokens looked for in normalised text, which is never written out here. */
static bool has_normalized(const struct lk_load *load)
{
    for (size_t i = 0; i < load->added_n; i++)
        if (load->added[i].normalized)
            return true;
    return false;
}

static bool prefix_of(const struct marks *marks, enum lk_prefix *ret_prefix)
{
    *ret_prefix = marks->prepend ? LK_PREFIX_ALWAYS : LK_PREFIX_NONE;
    if (marks->prepend || !marks->metaspace || strcmp(marks->scheme, "never") == 0)
        return true;
    *ret_prefix = strcmp(marks->scheme, "first") == 0 ? LK_PREFIX_FIRST : LK_PREFIX_UNLESS_MARK;
    return *ret_prefix == LK_PREFIX_FIRST || strcmp(marks->scheme, "always") == 0;
}

bool lk_read_marks(struct lk_load *load)
{
    struct lk_tokenizer *tokenizer = load->tokenizer;
    struct marks marks = {0};
    enum lk_prefix prefix = LK_PREFIX_NONE;

    if (load->parsed.ignore_merges || /* whole pieces are compared as they stand */
        /* without a token, U+2581 is its bytes, which a space's are not */
        lk_names_place(&load->parsed.names, MARK, sizeof MARK - 1) == LK_NO_ID ||
        !read_value(load, load->normalizer_at, &marks, read_normalizer) ||
        !read_value(load, load->pre_tokenizer_at, &marks, read_pre_tokenizer))
        return false;
    if ((!marks.replace && (marks.prepend || !marks.metaspace)) || !prefix_of(&marks, &prefix) ||
        ((marks.replace || marks.prepend) && has_normalized(load)))
        return false;
    tokenizer->marks = true;
    tokenizer->prefix = prefix;
    if (marks.split)
        lk_cutter_marks(&tokenizer->pretok.stages[tokenizer->pretok.n++]);
    return true;
}
