/*
 * The loaders: any bytes are a tokenizer or are refused with an INVALID_ARGUMENT or UNIMPLEMENTED that
 * says something; and what was taken encodes any text to ids of its vocabulary, always the same, or is
 * an expression that finds it too hard.
 *
 * Input: a byte for the kind; for a pair and a configuration the files are separated by a byte 0xff.
 */
#include "op/pretok/regex.h"
#include "op/tokenise/tokenizer.h"
#include "tests/fuzz/fuzz.h"

#include <setjmp.h>

static const char *const schemes[] = {"r50k_base", "cl100k_base", "o200k_base", "p50k_base", "nope"};
static const char *const texts[] = {
    "Hello, World's  12345\n\n \tab abc <s>[M]</s><|endoftext|> x",
    "e\u0301\u00e9\u4e2d\u3042\ud55c\U0001f469\u200d\u00a0\u2581\u2581 <0x0A> \u017f'S",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    " ",
    "\n",
};

static jmp_buf too_hard;
static struct lk_tokens once, twice;
static uint8_t *text;

/* In the place of more steps, and of the one that ends the process. */
const uint32_t lk_regex_steps = 100000;

_Noreturn void lk_regex_too_hard(struct lk_pattern pattern, int code)
{
    LK_CHECK(pattern.n > 0 && code < 0);
    longjmp(too_hard, 1);
}

static void encode_twice(const struct lk_tokenizer *tokenizer, struct lk_encoder *encoder, size_t n)
{
    lk_encode(encoder, text, n, &once);
    lk_encode(encoder, text, n, &twice); /* from the caches now */
    LK_CHECK(once.n == twice.n);
    for (size_t i = 0; i < once.n; i++)
        LK_CHECK(once.ids[i] == twice.ids[i] && once.ids[i] < lk_tokenizer_vocab(tokenizer));
}

/* False: it was too hard, and what became of the encoder is not known. */
static bool check_encode(const struct lk_tokenizer *tokenizer, struct lk_encoder *encoder,
                         const char *string)
{
    size_t n = strlen(string);
    volatile bool done = false;

    text = lk_fuzz_copy((const uint8_t *)string, n);
    once = twice = (struct lk_tokens){0};
    if (setjmp(too_hard) == 0) {
        encode_twice(tokenizer, encoder, n);
        done = true;
    }
    lk_tokens_done(&once);
    lk_tokens_done(&twice);
    free(text);
    return done;
}

static void use(const struct lk_tokenizer *tokenizer)
{
    struct lk_encoder *encoder = lk_encoder_new_small(tokenizer);
    struct lk_err err;
    uint32_t id = 0, vocab = lk_tokenizer_vocab(tokenizer);

    for (size_t i = 0; i < sizeof texts / sizeof *texts && check_encode(tokenizer, encoder, texts[i]);)
        i++;
    for (uint32_t i = 0, step = vocab / 64 + 1; i < vocab; i += step) {
        size_t n = 0;
        const uint8_t *bytes = lk_tokenizer_bytes(tokenizer, i, &n);
        LK_CHECK(bytes != NULL || n == 0);
    }
    LK_CHECK(lk_tokenizer_find(tokenizer, "eos", &id, &err) != LK_OK || id < vocab);
    LK_CHECK(lk_tokenizer_find(tokenizer, "a", &id, &err) != LK_OK || id < vocab);
    LK_CHECK(lk_tokenizer_notes(tokenizer) != NULL);
    lk_encoder_free(encoder);
}

/* The files of @input as @kind wants them, all in memory of their size. */
static void split(struct lk_fuzz_input input, uint8_t kind, struct lk_tokenizer_files *files)
{
    const uint8_t *mark = input.left > 0 ? memchr(input.at, 0xff, input.left) : NULL;
    size_t first = mark != NULL ? (size_t)(mark - input.at) : input.left;
    size_t rest = mark != NULL ? input.left - first - 1 : 0;

    files->main = lk_fuzz_copy(input.at, first);
    files->main_bytes = first;
    files->main_name = "main";
    files->special_in_text = (enum lk_special_in_text)(kind / 4 % 3);
    switch (kind % 4) {
    case 0:
        files->kind = LK_TOKENIZER_HF;
        if (mark != NULL) {
            files->config = lk_fuzz_copy(mark + 1, rest);
            files->config_bytes = rest;
        }
        files->config_name = "config";
        break;
    case 1:
        files->kind = LK_TOKENIZER_PAIR;
        files->merges = lk_fuzz_copy(mark != NULL ? mark + 1 : NULL, rest);
        files->merges_bytes = rest;
        files->merges_name = "merges";
        break;
    default:
        files->kind = LK_TOKENIZER_TIKTOKEN;
        files->scheme = schemes[kind / 16 % (sizeof schemes / sizeof *schemes)];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct lk_fuzz_input input = {data, n};
    struct lk_tokenizer_files files = {0};
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_err err = {0};

    uint8_t kind = lk_fuzz_byte(&input);
    split(input, kind, &files);
    enum lk_code code = lk_tokenizer_new(&files, &tokenizer, &err);
    if (code == LK_OK) {
        use(tokenizer);
    } else {
        LK_CHECK(code == LK_INVALID_ARGUMENT || code == LK_UNIMPLEMENTED);
        LK_CHECK(err.text[0] != '\0');
    }
    lk_tokenizer_free(tokenizer);
    free((void *)files.main);
    free((void *)files.merges);
    free((void *)files.config);
    return 0;
}
