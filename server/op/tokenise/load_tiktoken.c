/*
 * A .tiktoken file: one token a line, its bytes in base64 and its rank, which is its id.
 */
#include "op/tokenise/internal.h"

enum lk_code lk_load_tiktoken(struct lk_tokenizer *tokenizer, const struct lk_tokenizer_files *files,
                              struct lk_err *err)
{
    (void)tokenizer;
    return lk_fail(err, LK_UNIMPLEMENTED, "%s: .tiktoken files are not implemented",
                   files->main_name);
}
