/*
 * The "decoder" of a tokenizer.json. It has no part in encoding; of what it does, detokenising needs what a
 * token's bytes are, and whether a space is dropped in front.
 */
#include "op/tokenise/parse.h"

struct decoder {
    char content[LK_TYPE_MAX];
    char scheme[LK_TYPE_MAX];
    uint64_t start, stop;
};

static enum lk_code read_count(struct lk_load *load, void *to, struct lk_err *err)
{
    LK_TRY(lk_expect(load, LK_JSON_NUMBER, err));
    return lk_json_u64(&load->json, 1024, to, err);
}

static enum lk_code read_nothing(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {{"type", lk_read_skip, 0, true}};
    return lk_read_object(load, members, LK_COUNT(members), to, err);
}

static enum lk_code read_byte_level(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"type", lk_read_skip, 0, true},
        {"add_prefix_space", lk_read_skip, 0, false},
        {"trim_offsets", lk_read_skip, 0, false},
        {"use_regex", lk_read_skip, 0, false},
    };
    return lk_read_object(load, members, LK_COUNT(members), to, err);
}

static enum lk_code read_byte_fallback(struct lk_load *load, void *to, struct lk_err *err)
{
    load->parsed.decoder.bytes = true;
    return read_nothing(load, to, err);
}

static enum lk_code read_mark_pattern(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {{"String", lk_read_word, 0, true}};
    char pattern[LK_TYPE_MAX] = "";

    (void)to;
    LK_TRY(lk_read_object(load, members, LK_COUNT(members), pattern, err));
    if (strcmp(pattern, "\xe2\x96\x81") != 0)
        return lk_unimplemented(err, "replacing anything but U+2581");
    return LK_OK;
}

static enum lk_code read_replace(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"type", lk_read_skip, 0, true},
        {"pattern", read_mark_pattern, 0, true},
        {"content", lk_read_word, offsetof(struct decoder, content), true},
    };
    struct decoder decoder = {0};

    (void)to;
    LK_TRY(lk_read_object(load, members, LK_COUNT(members), &decoder, err));
    if (strcmp(decoder.content, " ") != 0)
        return lk_unimplemented(err, "replacing U+2581 by anything but a space");
    load->parsed.decoder.marks = true;
    return LK_OK;
}

static enum lk_code read_strip(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"type", lk_read_skip, 0, true},
        {"content", lk_read_word, offsetof(struct decoder, content), true},
        {"start", read_count, offsetof(struct decoder, start), true},
        {"stop", read_count, offsetof(struct decoder, stop), true},
    };
    struct decoder decoder = {0};

    (void)to;
    LK_TRY(lk_read_object(load, members, LK_COUNT(members), &decoder, err));
    if (strcmp(decoder.content, " ") != 0 || decoder.stop != 0)
        return lk_unimplemented(err, "stripping anything but spaces in front");
    load->tokenizer->strip = (uint32_t)decoder.start;
    return LK_OK;
}

/* The reference drops every mark of the first token; here it is the one that encoding put there. */
static enum lk_code read_metaspace(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"type", lk_read_skip, 0, true},
        {"replacement", lk_read_word, offsetof(struct decoder, content), true},
        {"prepend_scheme", lk_read_word, offsetof(struct decoder, scheme), false},
        {"add_prefix_space", lk_read_skip, 0, false},
        {"str_rep", lk_read_skip, 0, false},
        {"split", lk_read_skip, 0, false},
    };
    struct decoder decoder = {0};

    (void)to;
    LK_TRY(lk_read_object(load, members, LK_COUNT(members), &decoder, err));
    if (strcmp(decoder.content, "\xe2\x96\x81") != 0)
        return lk_unimplemented(err, "a replacement that is not U+2581");
    load->parsed.decoder.marks = true;
    load->tokenizer->strip = strcmp(decoder.scheme, "never") != 0;
    return LK_OK;
}

static enum lk_code read_parts(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    return lk_read_array(load, lk_read_decoder, err);
}

static enum lk_code read_sequence(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {{"type", lk_read_skip, 0, true},
                                               {"decoders", read_parts, 0, true}};
    return lk_read_object(load, members, LK_COUNT(members), to, err);
}

enum lk_code lk_read_decoder(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_kind kinds[] = {
        {"ByteLevel", read_byte_level}, {"ByteFallback", read_byte_fallback},
        {"Fuse", read_nothing},         {"Replace", read_replace},
        {"Strip", read_strip},          {"Metaspace", read_metaspace},
        {"Sequence", read_sequence},
    };
    (void)to;
    return lk_read_component(load, "a decoder", kinds, LK_COUNT(kinds), err);
}
