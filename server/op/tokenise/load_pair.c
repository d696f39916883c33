/*
 * GPT-2's own files: a vocabulary as one JSON object, and the merges one a line. They mean byte-level
 * BPE with GPT-2's expression, no prefix space, and the special token <|endoftext|>.
 */
#include "op/pretok/families.h"
#include "op/tokenise/internal.h"

#include "base/json.h"

static enum lk_code read_vocab(struct lk_json *json, struct lk_bpe_files *out, struct lk_err *err)
{
    const uint8_t *key = NULL;
    size_t key_n = 0;
    enum lk_json_type type = LK_JSON_NULL;
    bool more = false;

    LK_TRY(lk_json_peek(json, &type, err));
    if (type != LK_JSON_OBJECT)
        return lk_fail(err, LK_INVALID_ARGUMENT, "expected an object, found %s",
                       lk_json_type_name(type));
    LK_TRY(lk_json_enter(json, err));
    for (;;) {
        uint64_t id = 0;
        LK_TRY(lk_json_next(json, &more, &key, &key_n, err));
        if (!more)
            break;
        struct lk_buf kept = {0}; /* the key lives only until the next call */
        lk_buf_put(&kept, key, key_n);
        enum lk_code code = lk_json_u64(json, LK_VOCAB_MAX - 1, &id, err);
        if (code == LK_OK)
            code = lk_add_token(out, kept.data, kept.len, id, err);
        lk_buf_done(&kept);
        LK_TRY(code);
    }
    return lk_json_end(json, err);
}

static enum lk_code read_line(struct lk_bpe_files *out, const uint8_t *line, size_t n,
                              struct lk_err *err)
{
    const uint8_t *space = n == 0 ? NULL : memchr(line, ' ', n);

    if (space == NULL || memchr(space + 1, ' ', n - (size_t)(space + 1 - line)) != NULL)
        return lk_fail(err, LK_INVALID_ARGUMENT,
                       "expected two tokens separated by one space");
    size_t left = (size_t)(space - line);
    return lk_add_merge(out, line, left, space + 1, n - left - 1, err);
}

static enum lk_code read_merges(const struct lk_tokenizer_files *files, struct lk_bpe_files *out,
                                struct lk_err *err)
{
    const uint8_t *p = files->merges, *end = p + files->merges_bytes;

    for (size_t number = 1; p < end; number++) {
        const uint8_t *stop = memchr(p, '\n', (size_t)(end - p));
        const uint8_t *next = stop == NULL ? end : stop + 1;
        size_t n = (size_t)((stop == NULL ? end : stop) - p);
        n -= n > 0 && p[n - 1] == '\r';
        bool version = n >= 8 && memcmp(p, "#version", 8) == 0;
        if (!version && !(n == 0 && next == end)) {
            if (read_line(out, p, n, err) != LK_OK)
                return lk_fail_in(err, "%s:%zu", files->merges_name, number);
        }
        p = next;
    }
    return LK_OK;
}

static enum lk_code read_both(const struct lk_tokenizer_files *files, struct lk_bpe_files *out,
                              struct lk_err *err)
{
    struct lk_json json;

    lk_json_init(&json, files->main, files->main_bytes);
    enum lk_code code = read_vocab(&json, out, err);
    lk_json_done(&json);
    if (code != LK_OK)
        return lk_fail_in(err, "%s", files->main_name);
    return read_merges(files, out, err);
}

enum lk_code lk_load_pair(struct lk_tokenizer *tokenizer, const struct lk_tokenizer_files *files,
                          struct lk_err *err)
{
    static const char end_of_text[] = "<|endoftext|>";
    struct lk_added_token token = {.n = sizeof end_of_text - 1, .special = true};
    struct lk_bpe_files parsed = {0};
    uint8_t text[sizeof end_of_text];

    if (files->merges == NULL)
        return lk_fail(err, LK_INVALID_ARGUMENT, "%s: expected a file of merges with it",
                       files->main_name);
    memcpy(text, end_of_text, sizeof text);
    token.text = text;
    tokenizer->pretok.n = 1;
    tokenizer->pretok.stages[0] =
        (struct lk_cutter){.cut = lk_cut_gpt2(lk_simd_here()), .unicode = &tokenizer->unicode};
    enum lk_code code = read_both(files, &parsed, err);
    if (code != LK_OK)
        goto out;
    code = lk_build(tokenizer, &parsed, err);
    if (code == LK_OK)
        code = lk_add_added(tokenizer, &parsed, &token, LK_NO_ID, err);
    if (code != LK_OK)
        code = lk_fail_in(err, "%s", files->main_name);
out:
    lk_bpe_files_done(&parsed);
    return code;
}
