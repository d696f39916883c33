/*
 * The "merges" of a tokenizer.json: pairs of tokens by their text, as ["a", "b"] or as "a b".
 *
 * Each part is looked up in a table far larger than the caches. Batches of them are looked up in one go, so that
 * the processor waits for many of them at a time and not for one after the other.
 */
#include "op/tokenise/parse.h"

#include <stdlib.h>

#define BATCH 64u

struct batch {
    struct part {
        const uint8_t *text; /* in the file; NULL: a copy lies in copies, as the file's has escapes */
        size_t at, n;
    } parts[BATCH][2];
    size_t n;
    size_t first; /* number of the first one in the file */
    struct lk_buf copies;
};

static void put_part(struct lk_load *load, struct batch *batch, unsigned side, const uint8_t *text,
                     size_t n)
{
    const struct lk_json *json = &load->json;
    struct part *part = &batch->parts[batch->n][side];
    bool in_file = text >= json->text && text < json->text + json->bytes;

    *part = (struct part){.text = in_file ? text : NULL, .at = batch->copies.len, .n = n};
    if (!in_file)
        lk_buf_put(&batch->copies, text, n);
}

static const uint8_t *text_of(const struct batch *batch, const struct part *part)
{
    return part->text != NULL ? part->text : batch->copies.data + part->at;
}

static enum lk_code add_one(struct lk_load *load, const struct batch *batch, size_t i,
                            uint32_t places[2], struct lk_err *err)
{
    for (unsigned side = 0; side < 2; side++) {
        const struct part *part = &batch->parts[i][side];
        if (places[side] == LK_NO_ID) /* again, for what there is to say */
            LK_TRY(lk_find_part(&load->parsed, text_of(batch, part), part->n, &places[side], err));
    }
    return lk_add_merge_of(&load->parsed, places[0], places[1], err);
}

static enum lk_code add_batch(struct lk_load *load, struct batch *batch, struct lk_err *err)
{
    uint32_t places[BATCH][2];

    for (size_t i = 0; i < batch->n; i++)
        for (unsigned side = 0; side < 2; side++) {
            const struct part *part = &batch->parts[i][side];
            places[i][side] =
                lk_names_place(&load->parsed.names, text_of(batch, part), part->n);
        }
    for (size_t i = 0; i < batch->n; i++)
        if (add_one(load, batch, i, places[i], err) != LK_OK) {
            (void)lk_path_index(load, batch->first + i);
            return err->code;
        }
    batch->first += batch->n;
    batch->n = 0;
    batch->copies.len = 0;
    return LK_OK;
}

static enum lk_code read_text(struct lk_load *load, struct batch *batch, struct lk_err *err)
{
    const uint8_t *text, *space = NULL;
    size_t n = 0;

    LK_TRY(lk_json_string(&load->json, &text, &n, err));
    if (n > 0)
        space = memchr(text, ' ', n);
    if (space == NULL || memchr(space + 1, ' ', n - (size_t)(space + 1 - text)) != NULL)
        return lk_fail(err, LK_INVALID_ARGUMENT, "expected two tokens separated by one space");
    put_part(load, batch, 0, text, (size_t)(space - text));
    put_part(load, batch, 1, space + 1, n - (size_t)(space + 1 - text));
    return LK_OK;
}

static enum lk_code read_pair(struct lk_load *load, struct batch *batch, struct lk_err *err)
{
    const uint8_t *text;
    size_t n = 0;
    unsigned parts = 0;
    bool more = false;

    LK_TRY(lk_json_enter(&load->json, err));
    for (;; parts++) {
        LK_TRY(lk_json_next(&load->json, &more, NULL, NULL, err));
        if (!more)
            break;
        LK_TRY(lk_expect(load, LK_JSON_STRING, err));
        LK_TRY(lk_json_string(&load->json, &text, &n, err));
        if (parts < 2)
            put_part(load, batch, parts, text, n);
    }
    if (parts != 2)
        return lk_fail(err, LK_INVALID_ARGUMENT, "expected 2 tokens, found %u", parts);
    return LK_OK;
}

/* All merges have the form of the first one. */
static enum lk_code read_one(struct lk_load *load, struct batch *batch, enum lk_json_type *form,
                             struct lk_err *err)
{
    enum lk_json_type type = LK_JSON_NULL;

    LK_TRY(lk_json_peek(&load->json, &type, err));
    if (batch->first + batch->n == 0 && type == LK_JSON_ARRAY)
        *form = type;
    if (type != *form)
        return lk_expect(load, *form, err);
    return type == LK_JSON_ARRAY ? read_pair(load, batch, err) : read_text(load, batch, err);
}

static enum lk_code read_all(struct lk_load *load, struct batch *batch, struct lk_err *err)
{
    enum lk_json_type form = LK_JSON_STRING;
    bool more = false;

    LK_TRY(lk_expect(load, LK_JSON_ARRAY, err));
    LK_TRY(lk_json_enter(&load->json, err));
    for (;;) {
        LK_TRY(lk_json_next(&load->json, &more, NULL, NULL, err));
        if (!more)
            return add_batch(load, batch, err);
        if (read_one(load, batch, &form, err) != LK_OK) {
            struct lk_err later = *err; /* what came before may be wrong, too: that is said first */
            size_t index = batch->first + batch->n;
            LK_TRY(add_batch(load, batch, err));
            (void)lk_path_index(load, index);
            *err = later;
            return err->code;
        }
        if (++batch->n == BATCH)
            LK_TRY(add_batch(load, batch, err));
    }
}

enum lk_code lk_read_merges(struct lk_load *load, void *to, struct lk_err *err)
{
    struct batch *batch = lk_zalloc(1, sizeof *batch);

    (void)to;
    enum lk_code code = read_all(load, batch, err);
    lk_buf_done(&batch->copies);
    free(batch);
    return code;
}
