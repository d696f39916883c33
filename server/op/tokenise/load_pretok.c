/*
 * The "pre_tokenizer" of a tokenizer.json: a list of stages, each of which cuts the pieces of the one
 * before. All are read first, as known families may consist of several.
 *
 * After ByteLevel the reference's stages see text in which every byte is spelled as a character; here
 * text stays as it is, and those stages are told what each byte stands for.
 */
#include "op/pretok/families.h"
#include "op/pretok/regex.h"
#include "op/tokenise/parse.h"

#include <stdlib.h>

enum stage_kind { STAGE_REGEX, STAGE_LITERAL, STAGE_CHARS, STAGE_GPT2 };

struct stage {
    enum stage_kind kind;
    enum lk_split how;
    bool spelled;        /* after ByteLevel */
    bool drops;          /* what lies between matches */
    uint8_t flag;        /* of CHARS */
    struct lk_text text; /* of REGEX and LITERAL; owned */
    char *path;          /* where it stands in the file */
};

struct lk_stages {
    struct stage items[LK_PRETOK_STAGES];
    size_t n;
    bool metaspace;
};

static enum lk_code add(struct lk_load *load, struct stage stage, struct lk_err *err)
{
    struct lk_stages *stages = load->stages;

    if (stages->n == LK_PRETOK_STAGES) {
        free(stage.text.text);
        return lk_fail(err, LK_UNIMPLEMENTED, "more than %d pre_tokenizers", LK_PRETOK_STAGES);
    }
    stage.spelled = load->byte_level;
    stage.path = lk_strdup(lk_buf_cstr(&load->path));
    stages->items[stages->n++] = stage;
    return LK_OK;
}

/* ---- the kinds ---- */

static enum lk_code read_byte_level(struct lk_load *load, void *to, struct lk_err *err)
{
    struct byte_level {
        bool add_prefix_space, trim_offsets, use_regex;
    } level = {.use_regex = true};
    const struct lk_member members[] = {
        {"type", lk_read_skip, 0, true},
        {"add_prefix_space", lk_read_flag, offsetof(struct byte_level, add_prefix_space), true},
        {"trim_offsets", lk_read_flag, offsetof(struct byte_level, trim_offsets), false},
        {"use_regex", lk_read_flag, offsetof(struct byte_level, use_regex), false},
    };
    struct lk_stages *stages = load->stages;

    (void)to;
    if (load->byte_level)
        return lk_unimplemented(err, "a second ByteLevel");
    LK_TRY(lk_read_object(load, members, LK_COUNT(members), &level, err));
    if (level.add_prefix_space && (stages->n > 0 || stages->metaspace))
        return lk_unimplemented(err, "another pre_tokenizer before a ByteLevel with add_prefix_space");
    if (level.add_prefix_space)
        load->tokenizer->prefix = LK_PREFIX_UNLESS_SPACE;
    if (level.use_regex)
        LK_TRY(add(load, (struct stage){.kind = STAGE_GPT2}, err));
    load->byte_level = true;
    return LK_OK;
}

/* To invert is to take what lies between the matches for the matches. */
static enum lk_code read_behavior(struct stage *stage, const char *behavior, bool invert,
                                  struct lk_err *err)
{
    if (strcmp(behavior, "Removed") == 0 && !invert)
        return lk_fail(err, LK_UNIMPLEMENTED, "behavior \"Removed\", which loses text, is not implemented");
    stage->drops = strcmp(behavior, "Removed") == 0;
    if (strcmp(behavior, "Isolated") == 0 || stage->drops)
        stage->how = LK_SPLIT_ISOLATED;
    else if (strcmp(behavior, "MergedWithPrevious") == 0)
        stage->how = invert ? LK_SPLIT_WITH_NEXT : LK_SPLIT_WITH_PREVIOUS;
    else if (strcmp(behavior, "MergedWithNext") == 0)
        stage->how = invert ? LK_SPLIT_WITH_PREVIOUS : LK_SPLIT_WITH_NEXT;
    else if (strcmp(behavior, "Contiguous") == 0)
        stage->how = LK_SPLIT_CONTIGUOUS;
    else
        return lk_fail(err, LK_UNIMPLEMENTED, "behavior \"%s\" is not implemented", behavior);
    return LK_OK;
}

struct split {
    struct lk_text regex, literal;
    char behavior[LK_TYPE_MAX];
    bool invert;
};

static enum lk_code read_pattern(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"Regex", lk_read_text, offsetof(struct split, regex), false},
        {"String", lk_read_text, offsetof(struct split, literal), false},
    };
    struct split *split = to;

    LK_TRY(lk_read_object(load, members, LK_COUNT(members), split, err));
    if ((split->regex.text == NULL) == (split->literal.text == NULL))
        return lk_fail(err, LK_INVALID_ARGUMENT, "expected either a key \"Regex\" or \"String\"");
    return split->literal.text != NULL && split->literal.n == 0
               ? lk_unimplemented(err, "splitting at the empty text")
               : LK_OK;
}

static enum lk_code read_split(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"type", lk_read_skip, 0, true},
        {"pattern", read_pattern, 0, true},
        {"behavior", lk_read_word, offsetof(struct split, behavior), true},
        {"invert", lk_read_flag, offsetof(struct split, invert), true},
    };
    struct split split = {0};
    struct stage stage = {.kind = STAGE_REGEX};

    (void)to;
    enum lk_code code = lk_read_object(load, members, LK_COUNT(members), &split, err);
    if (code == LK_OK)
        code = read_behavior(&stage, split.behavior, split.invert, err);
    if (code != LK_OK) {
        free(split.regex.text);
        free(split.literal.text);
        return code;
    }
    if (split.literal.text != NULL)
        stage.kind = STAGE_LITERAL;
    stage.text = split.literal.text != NULL ? split.literal : split.regex;
    return add(load, stage, err);
}

static enum lk_code read_digits(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {{"type", lk_read_skip, 0, true},
                                               {"individual_digits", lk_read_flag, 0, true}};
    bool individual = false;

    (void)to;
    LK_TRY(lk_read_object(load, members, LK_COUNT(members), &individual, err));
    struct stage stage = {.kind = STAGE_CHARS,
                          .flag = LK_CLASS_NUMERIC,
                          .how = individual ? LK_SPLIT_ISOLATED : LK_SPLIT_CONTIGUOUS};
    return add(load, stage, err);
}

static enum lk_code read_punctuation(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {{"type", lk_read_skip, 0, true},
                                               {"behavior", lk_read_word, 0, false}};
    char behavior[LK_TYPE_MAX] = "Isolated";
    struct stage stage = {.kind = STAGE_CHARS, .flag = LK_CLASS_PUNCTUATION};

    (void)to;
    LK_TRY(lk_read_object(load, members, LK_COUNT(members), behavior, err));
    LK_TRY(read_behavior(&stage, behavior, false, err));
    return add(load, stage, err);
}

struct metaspace {
    char replacement[LK_TYPE_MAX], scheme[LK_TYPE_MAX];
    bool prefix, split;
};

static enum lk_code set_prefix(struct lk_load *load, const struct metaspace *metaspace,
                               struct lk_err *err)
{
    struct lk_tokenizer *tokenizer = load->tokenizer;

    if (!metaspace->prefix && strcmp(metaspace->scheme, "never") != 0)
        return lk_fail(err, LK_INVALID_ARGUMENT, "add_prefix_space contradicts prepend_scheme");
    if (strcmp(metaspace->scheme, "always") == 0)
        tokenizer->prefix = LK_PREFIX_UNLESS_MARK;
    else if (strcmp(metaspace->scheme, "first") == 0)
        tokenizer->prefix = LK_PREFIX_FIRST;
    else if (strcmp(metaspace->scheme, "never") != 0)
        return lk_fail(err, LK_INVALID_ARGUMENT, "prepend_scheme \"%s\", expected always, first or never",
                       metaspace->scheme);
    /* It would not be the first one any more, says the reference. */
    if (tokenizer->prefix == LK_PREFIX_FIRST && lk_normal_moves_start(&tokenizer->normal))
        return lk_unimplemented(err, "prepend_scheme \"first\" after a normalizer that takes text away "
                                     "or replaces several characters");
    return LK_OK;
}

/* Where spaces are not simply taken for U+2581 (load_marks.c): they are replaced. */
static enum lk_code read_metaspace(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"type", lk_read_skip, 0, true},
        {"replacement", lk_read_word, offsetof(struct metaspace, replacement), true},
        {"add_prefix_space", lk_read_flag, offsetof(struct metaspace, prefix), false},
        {"prepend_scheme", lk_read_word, offsetof(struct metaspace, scheme), false},
        {"split", lk_read_flag, offsetof(struct metaspace, split), false},
        {"str_rep", lk_read_skip, 0, false},
    };
    static const char mark[] = "\xe2\x96\x81";
    struct metaspace metaspace = {.scheme = "always", .prefix = true, .split = true};
    struct lk_stages *stages = load->stages;

    (void)to;
    LK_TRY(lk_read_object(load, members, LK_COUNT(members), &metaspace, err));
    if (strcmp(metaspace.replacement, mark) != 0)
        return lk_unimplemented(err, "a replacement other than U+2581");
    if (stages->n > 0 || stages->metaspace || load->byte_level)
        return lk_unimplemented(err, "Metaspace after another pre_tokenizer");
    stages->metaspace = true;
    LK_TRY(set_prefix(load, &metaspace, err));
    struct lk_normal_step step = {.kind = LK_NORMAL_REPLACE,
                                  .from = (uint8_t *)lk_strdup(" "),
                                  .from_n = 1,
                                  .to = (uint8_t *)lk_strdup(mark),
                                  .to_n = sizeof mark - 1};
    LK_TRY(lk_add_step(&load->tokenizer->section, step, err));
    struct stage stage = {.kind = STAGE_LITERAL,
                          .how = LK_SPLIT_WITH_NEXT,
                          .text = {(uint8_t *)lk_strdup(mark), sizeof mark - 1}};
    if (metaspace.split)
        return add(load, stage, err);
    free(stage.text.text);
    return LK_OK;
}

static enum lk_code read_dropping(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)load;
    (void)to;
    return lk_unimplemented(err, "a pre_tokenizer that drops white space");
}

static enum lk_code read_sequence(struct lk_load *load, void *to, struct lk_err *err);

static enum lk_code read_any(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_kind kinds[] = {
        {"Split", read_split},
        {"ByteLevel", read_byte_level},
        {"Digits", read_digits},
        {"Punctuation", read_punctuation},
        {"Metaspace", read_metaspace},
        {"Sequence", read_sequence},
        {"Whitespace", read_dropping},
        {"WhitespaceSplit", read_dropping},
        {"BertPreTokenizer", read_dropping},
    };
    (void)to;
    return lk_read_component(load, "a pre_tokenizer", kinds, LK_COUNT(kinds), err);
}

static enum lk_code read_parts(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    return lk_read_array(load, read_any, err);
}

static enum lk_code read_sequence(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {{"type", lk_read_skip, 0, true},
                                               {"pretokenizers", read_parts, 0, true}};
    return lk_read_object(load, members, LK_COUNT(members), to, err);
}

/* ---- from stages to cutters ---- */

static enum lk_code fail_at(struct lk_load *load, const struct stage *stage, const char *below,
                            enum lk_code code)
{
    load->path.len = 0;
    lk_buf_puts(&load->path, stage->path);
    lk_buf_puts(&load->path, below);
    return code;
}

static void spell_bytes(uint32_t ret_points[256])
{
    for (unsigned b = 0; b < 256; b++)
        ret_points[b] = lk_byte_point((uint8_t)b);
}

/* As many of the stages from @at as a known family consists of; 0: they are none. */
static size_t find_family(struct lk_load *load, const struct lk_stages *stages, size_t at,
                          struct lk_cutter *ret_cutter)
{
    struct lk_pattern patterns[LK_PRETOK_STAGES];
    size_t n = 0;

    for (size_t i = at; i < stages->n; i++) {
        const struct stage *stage = &stages->items[i];
        if (stage->kind != STAGE_REGEX || stage->how != LK_SPLIT_ISOLATED || stage->spelled ||
            (stage->drops && i > at))
            break;
        patterns[n++] = (struct lk_pattern){.text = stage->text.text, .n = stage->text.n};
    }
    while (n > 0 && lk_cutter_of_patterns(patterns, n, &load->tokenizer->unicode, LK_SIMD_BEST,
                                          ret_cutter) != LK_OK)
        n--;
    return n;
}

static enum lk_code make_regex(struct lk_load *load, const struct stage *stage,
                               lk_spelled *spelled, struct lk_cutter *ret_cutter,
                               struct lk_err *err)
{
    struct lk_pattern pattern = {.text = stage->text.text, .n = stage->text.n};
    enum lk_code code = lk_cutter_regex(&pattern, &load->tokenizer->unicode, stage->how, spelled,
                                        ret_cutter, err);
    return code == LK_OK ? code : fail_at(load, stage, ".pattern.Regex", code);
}

/* A text that no bytes are spelled as is never found. */
static void make_literal(const struct stage *stage, struct lk_cutter *ret_cutter)
{
    struct lk_buf bytes = {0};

    if (!stage->spelled)
        lk_buf_put(&bytes, stage->text.text, stage->text.n);
    else if (!lk_byte_unspell(stage->text.text, stage->text.n, &bytes))
        bytes.len = 0;
    if (bytes.len > 0)
        lk_cutter_literal(bytes.data, bytes.len, stage->how, ret_cutter);
    else
        lk_cutter_whole(ret_cutter);
    lk_buf_done(&bytes);
}

/* The tokenizer's own tables are made later, when the whole file is known to be sound. */
static void make_chars(struct lk_load *load, const struct stage *stage, lk_spelled *spelled,
                       struct lk_cutter *ret_cutter)
{
    struct lk_unicode tables = {0};

    if (spelled != NULL)
        lk_unicode_init(&tables);
    lk_cutter_chars(spelled == NULL ? &load->tokenizer->unicode : &tables, stage->flag, stage->how,
                    spelled, ret_cutter);
    ret_cutter->unicode = &load->tokenizer->unicode;
    lk_unicode_done(&tables);
}

static enum lk_code make_cutter(struct lk_load *load, const struct stage *stage,
                                struct lk_cutter *ret_cutter, struct lk_err *err)
{
    uint32_t points[256];
    lk_spelled *spelled = stage->spelled ? (lk_spelled *)&points : NULL;

    spell_bytes(points);
    switch (stage->kind) {
    case STAGE_REGEX:
        return make_regex(load, stage, spelled, ret_cutter, err);
    case STAGE_LITERAL:
        make_literal(stage, ret_cutter);
        return LK_OK;
    case STAGE_CHARS:
        make_chars(load, stage, spelled, ret_cutter);
        return LK_OK;
    case STAGE_GPT2:
        *ret_cutter = (struct lk_cutter){.cut = lk_cut_gpt2(lk_simd_here()),
                                         .unicode = &load->tokenizer->unicode};
        return LK_OK;
    }
    return LK_OK;
}

/* What is dropped between matches must be nothing. */
static enum lk_code check_drops(struct lk_load *load, const struct stage *stage, struct lk_err *err)
{
    struct lk_pattern pattern = {.text = stage->text.text, .n = stage->text.n};

    if (!stage->drops || (stage->kind == STAGE_REGEX && lk_regex_covers(&pattern)))
        return LK_OK;
    return fail_at(load, stage, "",
                   lk_fail(err, LK_UNIMPLEMENTED,
                           "behavior \"Removed\", inverted, with a pattern that may leave something "
                           "between its matches, which would be lost, is not implemented"));
}

static enum lk_code make_cutters(struct lk_load *load, const struct lk_stages *stages,
                                 struct lk_err *err)
{
    struct lk_pretok *pretok = &load->tokenizer->pretok;

    for (size_t i = 0; i < stages->n;) {
        struct lk_cutter *cutter = &pretok->stages[pretok->n];
        LK_TRY(check_drops(load, &stages->items[i], err));
        size_t n = find_family(load, stages, i, cutter);
        if (n == 0) {
            LK_TRY(make_cutter(load, &stages->items[i], cutter, err));
            n = 1;
        }
        pretok->n++;
        i += n;
    }
    return LK_OK;
}

enum lk_code lk_read_pre_tokenizer(struct lk_load *load, void *to, struct lk_err *err)
{
    struct lk_stages stages = {0};

    load->stages = &stages;
    enum lk_code code = read_any(load, to, err);
    load->stages = NULL;
    if (code == LK_OK)
        code = make_cutters(load, &stages, err);
    for (size_t i = 0; i < stages.n; i++) {
        free(stages.items[i].text.text);
        free(stages.items[i].path);
    }
    return code;
}
