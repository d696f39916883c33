/*
 * encode_main DIRECTORY [split|text|error]: encodes documents with the tokenizer in DIRECTORY.
 *
 * Standard input: documents, each as a little-endian u32 length and its bytes; a length of 2^32 - 1 is
 * no document: what was answered so far is sent. Standard output: for each document a u32 count and the ids,
 * u32 each; with "error", then a u32, how many special tokens stood in its text. The second argument
 * is what becomes of those (split if it is not given). Exit status 3: the tokenizer was refused.
 */
#include "base/bytes.h"
#include "tests/lib/tokenizer_files.h"

#include <stdlib.h>
#include <string.h>

#define SEND UINT32_MAX

static void put(const struct lk_buf *out)
{
    (void)fwrite(out->data, 1, out->len, stdout);
}

static void put_ids(const struct lk_tokens *ids)
{
    struct lk_buf out = {0};

    lk_buf_put_u32(&out, (uint32_t)ids->n);
    for (size_t i = 0; i < ids->n; i++)
        lk_buf_put_u32(&out, ids->ids[i]);
    put(&out);
    lk_buf_done(&out);
}

static void put_specials(struct lk_encoder *encoder, uint64_t before)
{
    struct lk_buf out = {0};

    lk_buf_put_u32(&out, (uint32_t)(lk_encoder_specials(encoder) - before));
    put(&out);
    lk_buf_done(&out);
}

/* A document of @n bytes from the input; false when it ends before. */
static bool encode_one(struct lk_encoder *encoder, size_t n, struct lk_tokens *ids)
{
    /* A buffer of the exact size: a read beyond it is an error that sanitizers see. */
    uint8_t *exact = lk_alloc(n);
    bool whole = fread(exact, 1, n, stdin) == n;

    ids->n = 0;
    if (whole)
        lk_encode(encoder, exact, n, ids);
    else
        fprintf(stderr, "encode_main: a document of %zu bytes is cut short\n", n);
    free(exact);
    return whole;
}

static int encode_all(struct lk_encoder *encoder, bool counts)
{
    struct lk_tokens ids = {0};
    uint8_t head[4];
    int status = 0;

    while (status == 0 && fread(head, 1, 4, stdin) == 4) {
        uint32_t n = lk_get_u32(head);
        uint64_t before = lk_encoder_specials(encoder);
        if (n == SEND) {
            (void)fflush(stdout);
            continue;
        }
        if (!encode_one(encoder, n, &ids)) {
            status = 1;
            continue;
        }
        put_ids(&ids);
        if (counts)
            put_specials(encoder, before);
    }
    lk_tokens_done(&ids);
    return status;
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {[LK_SPECIAL_SPLIT] = "split",
                                        [LK_SPECIAL_TEXT] = "text",
                                        [LK_SPECIAL_ERROR] = "error"};
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_err err;
    size_t mode = 0;

    while (argc > 2 && mode < 3 && strcmp(argv[2], modes[mode]) != 0)
        mode++;
    if (argc < 2 || mode == 3) {
        fprintf(stderr, "usage: encode_main DIRECTORY [split|text|error]\n");
        return 2;
    }
    if (lk_test_tokenizer(argv[1], (enum lk_special_in_text)mode, &tokenizer, &err) != LK_OK) {
        fprintf(stderr, "encode_main: %s: %s\n", lk_code_name(err.code), err.text);
        return 3;
    }
    struct lk_encoder *encoder = lk_encoder_new(tokenizer);
    int status = encode_all(encoder, mode == LK_SPECIAL_ERROR);
    lk_encoder_free(encoder);
    lk_tokenizer_free(tokenizer);
    return status;
}
