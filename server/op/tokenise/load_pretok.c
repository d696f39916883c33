/*
 * The "pre_tokenizer" of a tokenizer.json.
 */
#include "op/pretok/families.h"
#include "op/tokenise/parse.h"

struct byte_level {
    bool add_prefix_space, trim_offsets, use_regex;
};

static enum lk_code read_byte_level(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"type", lk_read_skip, 0, true},
        {"add_prefix_space", lk_read_flag, offsetof(struct byte_level, add_prefix_space), true},
        {"trim_offsets", lk_read_flag, offsetof(struct byte_level, trim_offsets), false},
        {"use_regex", lk_read_flag, offsetof(struct byte_level, use_regex), false},
    };
    struct byte_level level = {.use_regex = true};
    struct lk_tokenizer *tokenizer = load->tokenizer;
    bool split = tokenizer->pretok.n > 0;

    (void)to;
    if (load->byte_level)
        return lk_unimplemented(err, "a second ByteLevel");
    LK_TRY(lk_read_object(load, members, LK_COUNT(members), &level, err));
    if (split && level.use_regex)
        return lk_unimplemented(err, "Split before a ByteLevel with use_regex");
    if (split && level.add_prefix_space)
        return lk_unimplemented(err, "Split before a ByteLevel with add_prefix_space");
    if (!split) {
        struct lk_cutter *cutter = &tokenizer->pretok.stages[tokenizer->pretok.n++];
        lk_cutter_whole(cutter);
        if (level.use_regex)
            *cutter = (struct lk_cutter){.cut = lk_cut_gpt2(lk_simd_here()),
                                         .unicode = &tokenizer->unicode};
    }
    tokenizer->prefix = level.add_prefix_space ? LK_PREFIX_UNLESS_SPACE : LK_PREFIX_NONE;
    load->byte_level = true;
    return LK_OK;
}

static enum lk_code read_regex(struct lk_load *load, void *to, struct lk_err *err)
{
    const uint8_t *text;
    size_t n = 0;

    (void)to;
    LK_TRY(lk_expect(load, LK_JSON_STRING, err));
    LK_TRY(lk_json_string(&load->json, &text, &n, err));
    struct lk_pretok *pretok = &load->tokenizer->pretok;
    if (pretok->n > 0)
        return lk_unimplemented(err, "more than one Split");
    struct lk_pattern pattern = {.text = text, .n = n};
    if (lk_cutter_of_patterns(&pattern, 1, &load->tokenizer->unicode, LK_SIMD_BEST,
                              &pretok->stages[pretok->n]) == LK_OK) {
        pretok->n++;
        return LK_OK;
    }
    struct lk_buf quoted = {0};
    lk_json_quote(&quoted, text, n < 300 ? n : 300);
    enum lk_code code = lk_fail(err, LK_UNIMPLEMENTED, "the expression %s is not implemented",
                                lk_buf_cstr(&quoted));
    lk_buf_done(&quoted);
    return code;
}

static enum lk_code read_pattern(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {{"Regex", read_regex, 0, true}};
    return lk_read_object(load, members, LK_COUNT(members), to, err);
}

struct split {
    char behavior[LK_TYPE_MAX];
    bool invert;
};

/* Every known expression matches every character, so "isolate the matches" and "remove what lies
 * between the matches" are the same. */
static enum lk_code read_split(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"type", lk_read_skip, 0, true},
        {"pattern", read_pattern, 0, true},
        {"behavior", lk_read_word, offsetof(struct split, behavior), true},
        {"invert", lk_read_flag, offsetof(struct split, invert), true},
    };
    struct split split = {0};

    (void)to;
    if (load->byte_level)
        return lk_unimplemented(err, "Split after ByteLevel");
    LK_TRY(lk_read_object(load, members, LK_COUNT(members), &split, err));
    if ((strcmp(split.behavior, "Isolated") == 0 && !split.invert) ||
        (strcmp(split.behavior, "Removed") == 0 && split.invert))
        return LK_OK;
    return lk_fail(err, LK_UNIMPLEMENTED,
                   "behavior \"%s\" with invert %s is not implemented", split.behavior,
                   split.invert ? "true" : "false");
}

static enum lk_code read_pre_tokenizer_part(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_kind kinds[] = {{"Split", read_split}, {"ByteLevel", read_byte_level}};
    (void)to;
    return lk_read_component(load, "a pre_tokenizer", kinds, LK_COUNT(kinds), err);
}

static enum lk_code read_pre_tokenizers(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    return lk_read_array(load, read_pre_tokenizer_part, err);
}

static enum lk_code read_pre_tokenizer_sequence(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {{"type", lk_read_skip, 0, true},
                                            {"pretokenizers", read_pre_tokenizers, 0, true}};
    return lk_read_object(load, members, LK_COUNT(members), to, err);
}

enum lk_code lk_read_pre_tokenizer(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_kind kinds[] = {{"Split", read_split},
                                        {"ByteLevel", read_byte_level},
                                        {"Sequence", read_pre_tokenizer_sequence}};
    (void)to;
    LK_TRY(lk_read_component(load, "a pre_tokenizer", kinds, LK_COUNT(kinds), err));
    return load->byte_level ? LK_OK : lk_unimplemented(err, "a pre_tokenizer without ByteLevel");
}
