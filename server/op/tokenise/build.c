/*
 * From what the files say to the tables that encoding uses.
 */
#include "op/tokenise/internal.h"

#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define SHOWN 80 /* bytes of a file's string in a message */

void lk_bpe_files_done(struct lk_bpe_files *files)
{
    lk_names_done(&files->names);
    free(files->merges);
    *files = (struct lk_bpe_files){0};
}

void lk_note(struct lk_tokenizer *tokenizer, const char *format, ...)
{
    char line[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (tokenizer->notes.len > 0)
        lk_buf_puts(&tokenizer->notes, "\n");
    lk_buf_puts(&tokenizer->notes, line);
}

/* Fails with a text about a string of the file, quoted and cut. */
static enum lk_code fail_about(struct lk_err *err, const char *before, const void *text, size_t n,
                               const char *after)
{
    struct lk_buf quoted = {0};

    lk_json_quote(&quoted, text, n < SHOWN ? n : SHOWN);
    enum lk_code code = lk_fail(err, LK_INVALID_ARGUMENT, "%s%s%s%s", before,
                                lk_buf_cstr(&quoted), n < SHOWN ? "" : "...", after);
    lk_buf_done(&quoted);
    return code;
}

enum lk_code lk_add_token(struct lk_bpe_files *files, const uint8_t *text, size_t n, uint64_t id,
                          struct lk_err *err)
{
    if (id >= LK_VOCAB_MAX)
        return lk_fail(err, LK_INVALID_ARGUMENT, "id %llu, expected at most %u",
                       (unsigned long long)id, LK_VOCAB_MAX - 1);
    if (!lk_names_add(&files->names, text, n, (uint32_t)id))
        return fail_about(err, "the token ", text, n, " is given twice");
    return LK_OK;
}

enum lk_code lk_add_merge(struct lk_bpe_files *files, const uint8_t *left, size_t left_n,
                          const uint8_t *right, size_t right_n, struct lk_err *err)
{
    struct lk_merge merge = {.left = lk_names_find(&files->names, left, left_n),
                             .right = lk_names_find(&files->names, right, right_n)};

    if (merge.left == LK_NO_ID)
        return fail_about(err, "the part ", left, left_n, " is not in the vocabulary");
    if (merge.right == LK_NO_ID)
        return fail_about(err, "the part ", right, right_n, " is not in the vocabulary");
    struct lk_buf joined = {0};
    lk_buf_put(&joined, left, left_n);
    lk_buf_put(&joined, right, right_n);
    merge.id = lk_names_find(&files->names, joined.data, joined.len);
    enum lk_code code = LK_OK;
    if (merge.id == LK_NO_ID)
        code = fail_about(err, "the result ", joined.data, joined.len,
                          " is not in the vocabulary");
    lk_buf_done(&joined);
    if (code != LK_OK)
        return code;
    if (files->merges_n == files->merges_cap) {
        files->merges_cap = files->merges_cap == 0 ? 1024 : files->merges_cap * 2;
        files->merges = lk_resize(files->merges, files->merges_cap, sizeof *files->merges);
    }
    files->merges[files->merges_n++] = merge;
    return LK_OK;
}

/* Id → bytes, and the ids of single bytes. */
static enum lk_code build_vocab(struct lk_tokenizer *tokenizer, const struct lk_names *names,
                                bool *spelled, struct lk_err *err)
{
    struct lk_buf bytes = {0};
    enum lk_code code = LK_OK;

    for (size_t i = 0; i < names->n && code == LK_OK; i++) {
        const struct lk_name *name = &names->items[i];
        const uint8_t *text = names->pool.data + name->start;
        if (lk_vocab_has(&tokenizer->vocab, name->id)) {
            char after[48];
            (void)snprintf(after, sizeof after, " has the id %u of another token", name->id);
            code = fail_about(err, "the token ", text, name->n, after);
            break;
        }
        bytes.len = 0;
        spelled[i] = lk_byte_unspell(text, name->n, &bytes);
        if (!spelled[i])
            lk_buf_put(&bytes, text, name->n);
        lk_vocab_set(&tokenizer->vocab, name->id, bytes.data, bytes.len);
        if (spelled[i] && bytes.len == 1)
            tokenizer->bpe.alphabet.byte_id[bytes.data[0]] = name->id;
    }
    lk_buf_done(&bytes);
    return code;
}

/* Which tokens a whole piece may be looked up as: with ignore_merges every one, else those that
 * merging makes of their own bytes, so that the lookup only saves the merging. */
static void build_words(struct lk_tokenizer *tokenizer, const struct lk_bpe_files *files,
                        const bool *spelled)
{
    struct lk_bpe_scratch scratch = {0};
    struct lk_tokens ids = {0};

    for (size_t i = 0; i < files->names.n; i++) {
        uint32_t id = files->names.items[i].id;
        struct lk_span span = tokenizer->vocab.spans[id];
        const uint8_t *bytes = tokenizer->vocab.pool.data + span.start;
        if (!spelled[i] || span.n == 0)
            continue;
        uint32_t *made = lk_tokens_room(&ids, span.n);
        if (files->ignore_merges ||
            (lk_bpe_merge(&tokenizer->bpe, &scratch, bytes, span.n, made) == 1 && made[0] == id))
            lk_bpe_add_word(&tokenizer->bpe, bytes, span.n, id);
    }
    lk_tokens_done(&ids);
    lk_bpe_scratch_done(&scratch);
}

/* UTF-8 never has the bytes C0, C1 and F5 to FF. */
static unsigned missing_bytes(const struct lk_bpe *bpe)
{
    unsigned missing = 0;

    for (unsigned b = 0; b < 256; b++)
        missing += bpe->alphabet.byte_id[b] == LK_NO_ID && b != 0xc0 && b != 0xc1 && b < 0xf5;
    return missing;
}

/* Ids may have holes, but memory must follow the file's size, not a number in it. */
static enum lk_code check_ids(const struct lk_names *names, struct lk_err *err)
{
    for (size_t i = 0; i < names->n; i++)
        if (names->items[i].id > names->n * 8 + 65536)
            return lk_fail(err, LK_INVALID_ARGUMENT, "id %u in a vocabulary of %zu tokens",
                           names->items[i].id, names->n);
    return LK_OK;
}

enum lk_code lk_build(struct lk_tokenizer *tokenizer, const struct lk_bpe_files *files,
                      struct lk_err *err)
{
    LK_TRY(check_ids(&files->names, err));
    bool *spelled = lk_zalloc(files->names.n + 1, sizeof *spelled);

    lk_unicode_init(&tokenizer->unicode);
    lk_nfc_init(&tokenizer->nfc);
    lk_bpe_init(&tokenizer->bpe, files->merges_n, files->names.n);
    for (size_t i = 0; i < files->merges_n; i++)
        lk_bpe_add_pair(&tokenizer->bpe, files->merges[i].left, files->merges[i].right, (uint32_t)i,
                        files->merges[i].id);
    enum lk_code code = build_vocab(tokenizer, &files->names, spelled, err);
    if (code != LK_OK)
        goto out;
    unsigned missing = missing_bytes(&tokenizer->bpe);
    if (missing > 0 && files->has_unknown) {
        code = lk_fail(err, LK_UNIMPLEMENTED,
                       "unk_token or byte_fallback with %u byte values that have no token: not "
                       "implemented",
                       missing);
        goto out;
    }
    if (missing > 0)
        lk_note(tokenizer,
                "%u of the byte values that UTF-8 uses have no token: where text has them, they "
                "are left out, as the reference does",
                missing);
    build_words(tokenizer, files, spelled);
out:
    free(spelled);
    return code;
}

/* The reference's rule for a token that the vocabulary lacks. */
static uint32_t next_free_id(const struct lk_added *added, const struct lk_names *names)
{
    return added->end_id > names->n ? added->end_id : (uint32_t)names->n;
}

enum lk_code lk_add_added(struct lk_tokenizer *tokenizer, const struct lk_bpe_files *files,
                          const struct lk_added_token *token, uint32_t want, struct lk_err *err)
{
    struct lk_added_token copy = *token;

    if (token->n == 0)
        return lk_fail(err, LK_INVALID_ARGUMENT, "an added token without text");
    if (lk_added_find(&tokenizer->added, token->text, token->n) != NULL)
        return fail_about(err, "the added token ", token->text, token->n, " is given twice");
    copy.id = lk_names_find(&files->names, token->text, token->n);
    if (copy.id == LK_NO_ID)
        copy.id = next_free_id(&tokenizer->added, &files->names);
    if (want != LK_NO_ID && want != copy.id) {
        char after[96];
        (void)snprintf(after, sizeof after, " has the id %u, but the reference gives it %u", want,
                       copy.id);
        return fail_about(err, "the added token ", token->text, token->n, after);
    }
    if (copy.id >= LK_VOCAB_MAX)
        return lk_fail(err, LK_INVALID_ARGUMENT, "no id is left below %u", LK_VOCAB_MAX);
    struct lk_buf pattern = {0};
    if (token->normalized && tokenizer->normalize) {
        struct lk_nfc_scratch scratch = {0};
        lk_nfc_append(&tokenizer->nfc, &tokenizer->unicode, &scratch, token->text, token->n,
                      &pattern);
        lk_nfc_scratch_done(&scratch);
    } else {
        lk_buf_put(&pattern, token->text, token->n);
    }
    if (lk_added_has_pattern(&tokenizer->added, token->normalized, pattern.data, pattern.len)) {
        lk_buf_done(&pattern); /* the reference takes either, by chance */
        return fail_about(err, "after normalisation another added token is the same as ",
                          token->text, token->n, "");
    }
    copy.text = lk_alloc(token->n);
    memcpy(copy.text, token->text, token->n);
    copy.pattern = pattern.data;
    copy.pattern_n = pattern.len;
    lk_added_push(&tokenizer->added, copy);
    lk_vocab_set(&tokenizer->vocab, copy.id, copy.text, copy.n);
    return LK_OK;
}
