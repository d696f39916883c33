/*
 * A Hugging Face tokenizer.json.
 *
 * Every key is known and handled, or refused with its JSON path: nothing is skipped that could change
 * an id. Components name their kind in a member "type" that may stand anywhere in them, so each is
 * read twice: once for the type, once for its members. The vocabulary and the merges are most of the file: they
 * are read once, where they stand.
 */
#include "op/tokenise/parse.h"

#include <stdlib.h>

/* ---- what does not change an id here ---- */

static enum lk_code skip_kind(struct lk_load *load, void *to, struct lk_err *err)
{
    return lk_read_skip(load, to, err);
}

/* It adds begin and end tokens, which the recipe does, or corrects offsets. */
static enum lk_code read_post_processor(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_kind kinds[] = {
        {"ByteLevel", skip_kind},         {"TemplateProcessing", skip_kind},
        {"RobertaProcessing", skip_kind}, {"BertProcessing", skip_kind},
        {"Sequence", skip_kind},
    };
    size_t start = load->json.at;
    char type[LK_TYPE_MAX] = "";

    (void)to;
    LK_TRY(lk_read_component(load, "a post_processor", kinds, LK_COUNT(kinds), err));
    size_t end = load->json.at;
    load->json.at = start;
    enum lk_json_type json_type = LK_JSON_NULL;
    LK_TRY(lk_json_peek(&load->json, &json_type, err));
    if (json_type == LK_JSON_OBJECT)
        LK_TRY(lk_peek_type(load, type, err));
    load->json.at = end;
    if (type[0] != '\0' && strcmp(type, "ByteLevel") != 0)
        lk_note(load->tokenizer,
                "post_processor %s is not applied: begin and end tokens are the recipe's matter",
                type);
    return LK_OK;
}

static enum lk_code ignored(struct lk_load *load, const char *what, struct lk_err *err)
{
    bool null = false;

    LK_TRY(lk_read_null(load, &null, err));
    if (null)
        return LK_OK;
    lk_note(load->tokenizer, "%s in the file is ignored", what);
    return lk_json_skip(&load->json, err);
}

static enum lk_code read_truncation(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    return ignored(load, "truncation", err);
}

static enum lk_code read_padding(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    return ignored(load, "padding", err);
}

static enum lk_code read_dropout(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    return ignored(load, "dropout", err);
}

/* ---- added tokens ---- */

struct added_item {
    struct lk_added_token token;
    uint64_t id;
};

static enum lk_code read_content(struct lk_load *load, void *to, struct lk_err *err)
{
    struct lk_added_token *token = to;
    struct lk_text content = {0};

    LK_TRY(lk_read_text(load, &content, err));
    token->text = content.text;
    token->n = content.n;
    return LK_OK;
}

static enum lk_code read_id(struct lk_load *load, void *to, struct lk_err *err)
{
    LK_TRY(lk_expect(load, LK_JSON_NUMBER, err));
    return lk_json_u64(&load->json, LK_VOCAB_MAX - 1, to, err);
}

static enum lk_code read_added_token(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"id", read_id, offsetof(struct added_item, id), true},
        {"content", read_content, offsetof(struct added_item, token), true},
        {"single_word", lk_read_flag, offsetof(struct added_item, token.single_word), true},
        {"lstrip", lk_read_flag, offsetof(struct added_item, token.lstrip), true},
        {"rstrip", lk_read_flag, offsetof(struct added_item, token.rstrip), true},
        {"normalized", lk_read_flag, offsetof(struct added_item, token.normalized), true},
        {"special", lk_read_flag, offsetof(struct added_item, token.special), true},
    };
    struct added_item item = {0};

    (void)to;
    enum lk_code code = lk_read_object(load, members, LK_COUNT(members), &item, err);
    if (code != LK_OK) {
        free(item.token.text);
        return code;
    }
    if ((load->added_n & (load->added_n - 1)) == 0) { /* a power of two: full */
        size_t cap = load->added_n == 0 ? 1 : load->added_n * 2;
        load->added = lk_resize(load->added, cap, sizeof *load->added);
        load->added_ids = lk_resize(load->added_ids, cap, sizeof *load->added_ids);
    }
    load->added_ids[load->added_n] = (uint32_t)item.id;
    load->added[load->added_n++] = item.token;
    return LK_OK;
}

static enum lk_code read_added_tokens(struct lk_load *load, void *to, struct lk_err *err)
{
    bool null = false;

    (void)to;
    LK_TRY(lk_read_null(load, &null, err));
    return null ? LK_OK : lk_read_array(load, read_added_token, err);
}

static enum lk_code add_added_tokens(struct lk_load *load, struct lk_err *err)
{
    load->path.len = 0;
    lk_buf_puts(&load->path, ".added_tokens");
    for (size_t i = 0; i < load->added_n; i++) {
        size_t before = lk_path_index(load, i);
        LK_TRY(lk_add_added(load->tokenizer, &load->parsed, &load->added[i], load->added_ids[i],
                            err));
        load->path.len = before;
    }
    return LK_OK;
}

/* ---- model ---- */

static enum lk_code read_model_type(struct lk_load *load, void *to, struct lk_err *err)
{
    char type[LK_TYPE_MAX] = "";

    (void)to;
    LK_TRY(lk_read_word(load, type, err));
    if (strcmp(type, "BPE") == 0)
        return LK_OK;
    return lk_fail(err, LK_UNIMPLEMENTED, "a model of type \"%s\" is not implemented", type);
}

/* It matters only for what has no token; lk_build looks it up. */
static enum lk_code read_unknown(struct lk_load *load, void *to, struct lk_err *err)
{
    struct lk_text text = {0};
    bool null = false;

    (void)to;
    LK_TRY(lk_read_null(load, &null, err));
    if (null)
        return LK_OK;
    LK_TRY(lk_read_text(load, &text, err));
    load->parsed.unknown = text.text;
    load->parsed.unknown_n = text.n;
    return LK_OK;
}

/* An affix of subwords. */
static enum lk_code read_no_affix(struct lk_load *load, void *to, struct lk_err *err)
{
    const uint8_t *text;
    size_t n = 0;
    bool null = false;

    (void)to;
    LK_TRY(lk_read_null(load, &null, err));
    if (null)
        return LK_OK;
    LK_TRY(lk_expect(load, LK_JSON_STRING, err));
    LK_TRY(lk_json_string(&load->json, &text, &n, err));
    return n == 0 ? LK_OK : lk_unimplemented(err, "a prefix or suffix of subwords");
}

#define FILE_BYTES_A_TOKEN 80 /* roughly, with its merges: it only spares growing */

static enum lk_code read_vocab(struct lk_load *load, void *to, struct lk_err *err)
{
    struct lk_names *names = &load->parsed.names;
    const uint8_t *key = NULL;
    size_t key_n = 0;
    bool more = false;

    (void)to;
    LK_TRY(lk_expect(load, LK_JSON_OBJECT, err));
    LK_TRY(lk_json_enter(&load->json, err));
    lk_names_reserve(names, load->json.bytes / FILE_BYTES_A_TOKEN);
    load->has_vocab = true;
    for (;;) {
        uint64_t id = 0;
        LK_TRY(lk_json_next(&load->json, &more, &key, &key_n, err));
        if (!more)
            return LK_OK;
        /* A key lives only until the next call: it goes in first, its id follows. */
        enum lk_code code = lk_add_token(&load->parsed, key, key_n, 0, err);
        if (code != LK_OK) {
            (void)lk_path_key(load, key, key_n);
            return code;
        }
        struct lk_name *name = &names->items[names->n - 1];
        code = read_id(load, &id, err);
        if (code != LK_OK) {
            (void)lk_path_key(load, lk_name_text(names, name), name->n);
            return code;
        }
        name->id = (uint32_t)id;
    }
}

/* Merges speak of tokens: should they stand before the vocabulary, they are read later. */
static enum lk_code read_merges_in_place(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    if (!load->has_vocab)
        return lk_read_mark(load, &load->merges_at, err);
    return lk_read_merges(load, NULL, err);
}

static enum lk_code read_model(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"type", read_model_type, 0, false},
        {"dropout", read_dropout, 0, false},
        {"unk_token", read_unknown, 0, false},
        {"continuing_subword_prefix", read_no_affix, 0, false},
        {"end_of_word_suffix", read_no_affix, 0, false},
        {"fuse_unk", lk_read_flag, offsetof(struct lk_load, parsed.fuse_unknown), false},
        {"byte_fallback", lk_read_flag, offsetof(struct lk_load, parsed.byte_fallback), false},
        {"ignore_merges", lk_read_flag, offsetof(struct lk_load, parsed.ignore_merges), false},
        {"vocab", read_vocab, 0, true},
        {"merges", read_merges_in_place, 0, true},
    };
    char type[LK_TYPE_MAX];

    (void)to;
    LK_TRY(lk_peek_type(load, type, err)); /* first: another type has other keys */
    if (type[0] != '\0' && strcmp(type, "BPE") != 0) {
        lk_buf_puts(&load->path, ".type");
        return lk_fail(err, LK_UNIMPLEMENTED, "a model of type \"%s\" is not implemented", type);
    }
    return lk_read_object(load, members, LK_COUNT(members), load, err);
}

/* ---- the file ---- */

static enum lk_code read_at(struct lk_load *load, size_t at, const char *path, lk_read_fn *read,
                            struct lk_err *err)
{
    bool null = false;

    load->path.len = 0;
    if (at == 0)
        return LK_OK;
    lk_buf_puts(&load->path, path);
    load->json.at = at;
    LK_TRY(lk_read_null(load, &null, err));
    return null ? LK_OK : read(load, NULL, err);
}

/* Those that depend on each other, whatever their order in the file. */
static enum lk_code read_components(struct lk_load *load, struct lk_err *err)
{
    if (load->merges_at != 0) {
        load->path.len = 0;
        lk_buf_puts(&load->path, ".model.merges");
        load->json.at = load->merges_at;
        LK_TRY(lk_read_merges(load, NULL, err));
    }
    LK_TRY(read_at(load, load->decoder_at, ".decoder", lk_read_decoder, err));
    if (!lk_read_marks(load)) {
        LK_TRY(read_at(load, load->normalizer_at, ".normalizer", lk_read_normalizer, err));
        LK_TRY(read_at(load, load->pre_tokenizer_at, ".pre_tokenizer", lk_read_pre_tokenizer, err));
    }
    load->parsed.spelling = load->byte_level ? LK_SPELLING_BYTES : LK_SPELLING_CHARACTERS;
    return LK_OK;
}

static enum lk_code build(struct lk_load *load, struct lk_err *err)
{
    load->path.len = 0;
    lk_buf_puts(&load->path, ".model");
    return lk_build(load->tokenizer, &load->parsed, err);
}

static enum lk_code read_file(struct lk_load *load, struct lk_err *err)
{
    static const struct lk_member members[] = {
        {"version", lk_read_skip, 0, false},
        {"truncation", read_truncation, 0, false},
        {"padding", read_padding, 0, false},
        {"added_tokens", read_added_tokens, 0, false},
        {"normalizer", lk_read_mark, offsetof(struct lk_load, normalizer_at), false},
        {"pre_tokenizer", lk_read_mark, offsetof(struct lk_load, pre_tokenizer_at), false},
        {"post_processor", read_post_processor, 0, false},
        {"decoder", lk_read_mark, offsetof(struct lk_load, decoder_at), false},
        {"model", read_model, 0, true},
    };

    LK_TRY(lk_read_object(load, members, LK_COUNT(members), load, err));
    LK_TRY(lk_json_end(&load->json, err));
    LK_TRY(read_components(load, err));
    LK_TRY(build(load, err));
    return add_added_tokens(load, err);
}

static void load_done(struct lk_load *load)
{
    for (size_t i = 0; i < load->added_n; i++)
        free(load->added[i].text);
    free(load->added);
    free(load->added_ids);
    lk_bpe_files_done(&load->parsed);
    lk_json_done(&load->json);
    lk_buf_done(&load->path);
}

enum lk_code lk_load_hf(struct lk_tokenizer *tokenizer, const struct lk_tokenizer_files *files,
                        struct lk_err *err)
{
    struct lk_load load = {.tokenizer = tokenizer};

    lk_json_init(&load.json, files->main, files->main_bytes);
    enum lk_code code = read_file(&load, err);
    if (code != LK_OK)
        code = lk_fail_in(err, "%s: $%s", files->main_name, lk_buf_cstr(&load.path));
    load_done(&load);
    return code;
}
