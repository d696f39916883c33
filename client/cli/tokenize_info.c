/* `lanekeeper tokenize --info`: what a tokenizer is. */
#include "base/json.h"
#include "client/cli/tokenize.h"
#include "op/tokenise/describe.h"

#include <inttypes.h>
#include <string.h>

enum { ADDED_SHOWN = 24 };

static const char *const kinds[] = {"bytes", "hf", "pair", "tiktoken"}; /* by enum lk_tokenizer_kind */
static const char *const kinds_said[] = {"bytes: every byte is a token", "a tokenizer.json of Hugging Face",
                                         "GPT-2's pair of files", "a .tiktoken file of ranks"};
static const char *const rules[] = {"split", "text", "error"}; /* by enum lk_special_in_text */

static void text_added(struct tokenize *t, uint32_t n)
{
    for (uint32_t i = 0; i < n && i < ADDED_SHOWN; i++) {
        struct lk_tokenizer_added token = lk_tokenizer_added(t->chosen.tokenizer, i);
        lk_buf_putf(&t->out, "  %8u ", token.id);
        put_quoted(&t->out, token.text, token.n);
        lk_buf_putf(&t->out, "%s%s%s%s%s\n", token.special ? " special" : "",
                    token.single_word ? ", a word of its own only" : "",
                    token.lstrip ? ", with the spaces before it" : "",
                    token.rstrip ? ", with the spaces after it" : "",
                    token.normalized ? ", in normalised text" : "");
    }
    if (n > ADDED_SHOWN)
        lk_buf_putf(&t->out, "  … and %u more: --json has them all\n", n - ADDED_SHOWN);
}

static void text_role(struct tokenize *t, const char *role)
{
    struct lk_err err;
    uint32_t id;
    size_t n = 0;
    if (lk_tokenizer_find(t->chosen.tokenizer, role, &id, &err) != LK_OK) {
        lk_buf_putf(&t->out, "%s          none\n", role);
        return;
    }
    const uint8_t *text = lk_tokenizer_bytes(t->chosen.tokenizer, id, &n);
    lk_buf_putf(&t->out, "%s          %u ", role, id);
    put_quoted(&t->out, text, n);
    lk_buf_puts(&t->out, "\n");
}

static void text_notes(struct tokenize *t, const char *notes)
{
    while (*notes != '\0') {
        size_t n = strcspn(notes, "\n");
        lk_buf_puts(&t->out, "note         ");
        put_safe(&t->out, notes, n);
        lk_buf_puts(&t->out, "\n");
        notes += n + (notes[n] == '\n');
    }
}

static void text_info(struct tokenize *t, const struct lk_tokenizer_facts *facts)
{
    struct lk_buf *out = &t->out;
    lk_buf_putf(out, "tokenizer    %s\n", kinds_said[facts->kind]);
    if (t->chosen.paths.main != NULL && facts->kind != LK_TOKENIZER_BYTES)
        lk_buf_putf(out, "file         %s\n", t->chosen.paths.main);
    if (t->chosen.paths.merges != NULL)
        lk_buf_putf(out, "merges       %s\n", t->chosen.paths.merges);
    if (t->chosen.paths.scheme != NULL)
        lk_buf_putf(out, "scheme       %s\n", t->chosen.paths.scheme);
    lk_buf_puts(out, "vocabulary   ");
    put_count(out, facts->vocab);
    lk_buf_puts(out, " ids, ");
    put_count(out, facts->vocab - facts->tokens);
    lk_buf_puts(out, " of them holes\n");
    text_role(t, "bos");
    text_role(t, "eos");
    lk_buf_putf(out, "in text      special tokens: %s\n", rules[facts->special_in_text]);
    text_notes(t, lk_tokenizer_notes(t->chosen.tokenizer));
    lk_buf_puts(out, "digest       ");
    put_hex(out, lk_tokenizer_digest(t->chosen.tokenizer));
    lk_buf_putf(out, "\nloaded in    %" PRIu64 ".%" PRIu64 " ms\n", t->chosen.load_ns / 1000000,
                t->chosen.load_ns / 100000 % 10);
    lk_buf_putf(out, "added tokens %u, %u of them special\n", facts->added, facts->special);
    text_added(t, facts->added);
}

static void json_added(struct lk_buf *out, bool more, struct lk_tokenizer_added token)
{
    lk_buf_puts(out, more ? ",{" : "{");
    json_u64(out, false, "id", token.id);
    json_key(out, true, "text");
    lk_json_quote(out, token.text, token.n);
    json_bool(out, true, "special", token.special);
    json_bool(out, true, "single_word", token.single_word);
    json_bool(out, true, "lstrip", token.lstrip);
    json_bool(out, true, "rstrip", token.rstrip);
    json_bool(out, true, "normalized", token.normalized);
    lk_buf_puts(out, "}");
}

static void json_role(struct tokenize *t, const char *role)
{
    struct lk_err err;
    uint32_t id;
    if (lk_tokenizer_find(t->chosen.tokenizer, role, &id, &err) == LK_OK)
        json_u64(&t->out, true, role, id);
}

static void json_notes(struct lk_buf *out, const char *notes)
{
    json_key(out, true, "notes");
    lk_buf_puts(out, "[");
    for (const char *before = ""; *notes != '\0'; before = ",") {
        size_t n = strcspn(notes, "\n");
        lk_buf_puts(out, before);
        lk_json_quote(out, notes, n);
        notes += n + (notes[n] == '\n');
    }
    lk_buf_puts(out, "]");
}

static void json_info(struct tokenize *t, const struct lk_tokenizer_facts *facts)
{
    struct lk_buf *out = &t->out;
    lk_buf_puts(out, "{");
    json_text(out, false, "kind", kinds[facts->kind]);
    if (t->chosen.paths.main != NULL && facts->kind != LK_TOKENIZER_BYTES)
        json_text(out, true, "file", t->chosen.paths.main);
    if (t->chosen.paths.merges != NULL)
        json_text(out, true, "merges", t->chosen.paths.merges);
    if (t->chosen.paths.scheme != NULL)
        json_text(out, true, "scheme", t->chosen.paths.scheme);
    json_u64(out, true, "vocabulary", facts->vocab);
    json_u64(out, true, "tokens", facts->tokens);
    json_role(t, "bos");
    json_role(t, "eos");
    json_text(out, true, "special_in_text", rules[facts->special_in_text]);
    json_notes(out, lk_tokenizer_notes(t->chosen.tokenizer));
    json_digest(out, true, "digest", lk_tokenizer_digest(t->chosen.tokenizer));
    json_u64(out, true, "load_nanoseconds", t->chosen.load_ns);
    json_key(out, true, "added");
    lk_buf_puts(out, "[");
    for (uint32_t i = 0; i < facts->added; i++)
        json_added(out, i > 0, lk_tokenizer_added(t->chosen.tokenizer, i));
    lk_buf_puts(out, "]}\n");
}

void tokenize_put_info(struct tokenize *t)
{
    struct lk_tokenizer_facts facts;
    lk_tokenizer_facts(t->chosen.tokenizer, &facts);
    (t->chosen.cli.json ? json_info : text_info)(t, &facts);
}
