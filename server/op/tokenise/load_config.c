/*
 * tokenizer_config.json: of all it says, only which tokens end and begin a text matters here.
 */
#include "op/tokenise/internal.h"

#include "base/json.h"

#include <stdlib.h>

/* A token of the configuration: null, its text, or an object with its text as "content". */
static enum lk_code read_named(struct lk_json *json, char **ret_text, struct lk_err *err)
{
    enum lk_json_type type = LK_JSON_NULL;
    const uint8_t *text = NULL;
    size_t n = 0;
    bool more = false;

    LK_TRY(lk_json_peek(json, &type, err));
    if (type == LK_JSON_OBJECT) {
        LK_TRY(lk_json_enter(json, err));
        for (;;) {
            const uint8_t *key = NULL;
            size_t key_n = 0;
            LK_TRY(lk_json_next(json, &more, &key, &key_n, err));
            if (!more)
                return LK_OK;
            if (key_n == 7 && memcmp(key, "content", 7) == 0)
                LK_TRY(read_named(json, ret_text, err));
            else
                LK_TRY(lk_json_skip(json, err));
        }
    }
    if (type != LK_JSON_STRING)
        return lk_json_skip(json, err);
    LK_TRY(lk_json_string(json, &text, &n, err));
    free(*ret_text);
    *ret_text = lk_strndup((const char *)text, n);
    return LK_OK;
}

static enum lk_code read_config(struct lk_tokenizer *tokenizer, struct lk_json *json,
                                struct lk_err *err)
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
        LK_TRY(lk_json_next(json, &more, &key, &key_n, err));
        if (!more)
            return lk_json_end(json, err);
        if (key_n == 9 && memcmp(key, "eos_token", 9) == 0)
            LK_TRY(read_named(json, &tokenizer->eos, err));
        else if (key_n == 9 && memcmp(key, "bos_token", 9) == 0)
            LK_TRY(read_named(json, &tokenizer->bos, err));
        else
            LK_TRY(lk_json_skip(json, err));
    }
}

enum lk_code lk_load_config(struct lk_tokenizer *tokenizer, const struct lk_tokenizer_files *files,
                            struct lk_err *err)
{
    struct lk_json json;

    tokenizer->has_config = true;
    lk_json_init(&json, files->config, files->config_bytes);
    enum lk_code code = read_config(tokenizer, &json, err);
    if (code != LK_OK)
        code = lk_fail_in(err, "%s", files->config_name);
    lk_json_done(&json);
    return code;
}
