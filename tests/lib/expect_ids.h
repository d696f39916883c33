/* Texts and the ids that they are to become, as they are written: "1 2 3". */
#ifndef LK_TESTS_EXPECT_IDS_H
#define LK_TESTS_EXPECT_IDS_H

#include "base/mem.h"
#include "op/tokenise/tokenizer.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* The ids of a text as "1 2 3"; the caller frees. */
static inline char *ids_of(const struct lk_tokenizer *tokenizer, const char *text, size_t n)
{
    struct lk_encoder *encoder = lk_encoder_new_small(tokenizer);
    struct lk_tokens ids = {0};
    struct lk_buf out = {0};

    for (int pass = 0; pass < 2; pass++) { /* the second time out of the cache */
        out.len = ids.n = 0;
        lk_encode(encoder, (const uint8_t *)text, n, &ids);
        for (size_t i = 0; i < ids.n; i++)
            lk_buf_putf(&out, i == 0 ? "%u" : " %u", ids.ids[i]);
    }
    char *copy = lk_strdup(lk_buf_cstr(&out));
    lk_encoder_free(encoder);
    lk_tokens_done(&ids);
    lk_buf_done(&out);
    return copy;
}

static inline void expect_n(const struct lk_tokenizer *tokenizer, const char *text, size_t n,
                            const char *want)
{
    char *ids = ids_of(tokenizer, text, n);
    ck_assert_msg(strcmp(ids, want) == 0, "\"%s\": got [%s], expected [%s]", text, ids, want);
    free(ids);
}

static inline void expect(const struct lk_tokenizer *tokenizer, const char *text, const char *want)
{
    expect_n(tokenizer, text, strlen(text), want);
}

#endif
