/*
 * The "normalizer" of a tokenizer.json.
 */
#include "op/tokenise/parse.h"

static enum lk_code read_nfc(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {{"type", lk_read_skip, 0, true}};

    load->tokenizer->normalize = true;
    return lk_read_object(load, members, LK_COUNT(members), to, err);
}

static enum lk_code read_plain_nfc(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_kind kinds[] = {{"NFC", read_nfc}};
    (void)to;
    return lk_read_component(load, "a normalizer", kinds, LK_COUNT(kinds), err);
}

static enum lk_code read_normalizers(struct lk_load *load, void *to, struct lk_err *err)
{
    (void)to;
    return lk_read_array(load, read_plain_nfc, err);
}

static enum lk_code read_normalizer_sequence(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_member members[] = {{"type", lk_read_skip, 0, true},
                                            {"normalizers", read_normalizers, 0, true}};
    return lk_read_object(load, members, LK_COUNT(members), to, err);
}

enum lk_code lk_read_normalizer(struct lk_load *load, void *to, struct lk_err *err)
{
    static const struct lk_kind kinds[] = {{"NFC", read_nfc},
                                        {"Sequence", read_normalizer_sequence}};
    (void)to;
    return lk_read_component(load, "a normalizer", kinds, LK_COUNT(kinds), err);
}
