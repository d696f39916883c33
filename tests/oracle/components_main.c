/*
 * components_main DIRECTORY: what becomes of texts between the added tokens and the model.
 *
 * Standard input: texts, each as a little-endian u32 length and its bytes. Standard output: for each the
 * normalised text (u32 length, bytes), the text as the pre_tokenizer changed it (the same), a u32
 * number of pieces, and their lengths in bytes, u32 each. Files whose pre_tokenizer puts something in
 * front of text are not for this program.
 */
#include "base/bytes.h"
#include "op/tokenise/internal.h"
#include "tests/lib/tokenizer_files.h"

#include <stdlib.h>
#include <string.h>

static void put_bytes(struct lk_buf *out, const uint8_t *p, size_t n)
{
    lk_buf_put_u32(out, (uint32_t)n);
    lk_buf_put(out, p, n);
}

static uint32_t put_pieces(const struct lk_pretok *pretok, uint32_t stage, const uint8_t *p,
                           const uint8_t *end, struct lk_buf *out)
{
    const uint8_t *stops[LK_PIECES_MAX];
    uint32_t count = 0;

    while (p < end) {
        const struct lk_cutter *cutter = &pretok->stages[stage];
        size_t n = cutter->cut(cutter, p, end, stops);
        for (size_t i = 0; i < n; p = stops[i++]) {
            LK_CHECK(stops[i] > p && stops[i] <= end);
            if (stage + 1 < pretok->n) {
                count += put_pieces(pretok, stage + 1, p, stops[i], out);
            } else {
                lk_buf_put_u32(out, (uint32_t)(stops[i] - p));
                count++;
            }
        }
    }
    return count;
}

static void show(const struct lk_tokenizer *tokenizer, struct lk_normal_scratch scratch[2],
                 const uint8_t *text, size_t n)
{
    struct lk_buf out = {0}, pieces = {0};
    const uint8_t *p = text;

    lk_normal_apply(&tokenizer->normal, &scratch[0], p, n, &p, &n);
    put_bytes(&out, p, n);
    lk_normal_apply(&tokenizer->section, &scratch[1], p, n, &p, &n);
    put_bytes(&out, p, n);
    uint8_t *exact = lk_alloc(n); /* a read beyond it is an error that sanitizers see */
    memcpy(exact, p, n);
    lk_buf_put_u32(&out, put_pieces(&tokenizer->pretok, 0, exact, exact + n, &pieces));
    lk_buf_put(&out, pieces.data, pieces.len);
    (void)fwrite(out.data, 1, out.len, stdout);
    free(exact);
    lk_buf_done(&out);
    lk_buf_done(&pieces);
}

int main(int argc, char **argv)
{
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_normal_scratch scratch[2] = {0};
    struct lk_buf text = {0};
    struct lk_err err;
    uint8_t head[4];

    if (argc != 2) {
        fprintf(stderr, "usage: components_main DIRECTORY\n");
        return 2;
    }
    if (lk_test_tokenizer(argv[1], LK_SPECIAL_SPLIT, &tokenizer, &err) != LK_OK) {
        fprintf(stderr, "%s: %s\n", lk_code_name(err.code), err.text);
        return 3;
    }
    if (tokenizer->prefix != LK_PREFIX_NONE) {
        fprintf(stderr, "components_main: not for files with a prefix\n");
        return 2;
    }
    while (fread(head, 1, 4, stdin) == 4) {
        size_t n = lk_get_u32(head);
        text.len = 0;
        if (fread(lk_buf_room(&text, n + 1), 1, n, stdin) != n)
            return 1;
        show(tokenizer, scratch, text.data, n);
    }
    lk_buf_done(&text);
    lk_normal_scratch_done(&scratch[0]);
    lk_normal_scratch_done(&scratch[1]);
    lk_tokenizer_free(tokenizer);
    return 0;
}
