/*
 * encode_main DIRECTORY [text]: encodes documents with the tokenizer in DIRECTORY.
 *
 * Standard input: documents, each as a little-endian u32 length and its bytes. Standard output: for
 * each document a u32 count and the ids, u32 each. "text": special tokens are text.
 */
#include "base/bytes.h"
#include "tests/lib/tokenizer_files.h"

#include <stdlib.h>
#include <string.h>

static void put(const struct lk_tokens *ids)
{
    struct lk_buf out = {0};

    lk_buf_put_u32(&out, (uint32_t)ids->n);
    for (size_t i = 0; i < ids->n; i++)
        lk_buf_put_u32(&out, ids->ids[i]);
    (void)fwrite(out.data, 1, out.len, stdout);
    lk_buf_done(&out);
}

static int encode_all(struct lk_encoder *encoder)
{
    struct lk_tokens ids = {0};
    struct lk_buf text = {0};
    uint8_t head[4];

    while (fread(head, 1, 4, stdin) == 4) {
        size_t n = lk_get_u32(head);
        text.len = 0;
        if (fread(lk_buf_room(&text, n + 1), 1, n, stdin) != n) {
            fprintf(stderr, "encode_main: a document of %zu bytes is cut short\n", n);
            return 1;
        }
        ids.n = 0;
        /* A buffer of the exact size: a read beyond it is an error that sanitizers see. */
        uint8_t *exact = lk_alloc(n);
        memcpy(exact, text.data, n);
        lk_encode(encoder, exact, n, &ids);
        free(exact);
        put(&ids);
    }
    lk_tokens_done(&ids);
    lk_buf_done(&text);
    return 0;
}

int main(int argc, char **argv)
{
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_err err;

    if (argc < 2) {
        fprintf(stderr, "usage: encode_main DIRECTORY [text]\n");
        return 2;
    }
    enum lk_special_in_text special =
        argc > 2 && strcmp(argv[2], "text") == 0 ? LK_SPECIAL_TEXT : LK_SPECIAL_SPLIT;
    if (lk_test_tokenizer(argv[1], special, &tokenizer, &err) != LK_OK) {
        fprintf(stderr, "encode_main: %s: %s\n", lk_code_name(err.code), err.text);
        return 3;
    }
    struct lk_encoder *encoder = lk_encoder_new(tokenizer);
    int status = encode_all(encoder);
    lk_encoder_free(encoder);
    lk_tokenizer_free(tokenizer);
    return status;
}
