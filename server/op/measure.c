#include "op/measure.h"

#include <stdlib.h>
#include <string.h>

struct lk_measure {
    struct lk_measure_spec spec;
    struct lk_row_reader *reader;
    struct lk_encoder *encoder;
};

static const char *const drop_names[LK_DROP_KINDS] = {
#define LK_DROP_NAME(name, text) [LK_DROP_##name] = (text),
    LK_DROPS(LK_DROP_NAME)
#undef LK_DROP_NAME
};

const char *lk_drop_name(enum lk_drop drop)
{
    return (unsigned)drop < LK_DROP_KINDS ? drop_names[drop] : "?";
}

/* Field 0 of the reader is the text; filter f has field f + 1, which is the text again when it asks
 * for none. */
struct lk_measure *lk_measure_new(const struct lk_measure_spec *spec)
{
    struct lk_measure *m = lk_zalloc(1, sizeof *m);
    const char *paths[LK_ROW_FIELDS_MAX];

    LK_CHECK(spec->n_filters < LK_ROW_FIELDS_MAX);
    m->spec = *spec;
    paths[0] = spec->text;
    for (uint32_t f = 0; f < spec->n_filters; f++)
        paths[f + 1] = spec->filter[f].field != NULL ? spec->filter[f].field : spec->text;
    m->reader = lk_row_reader_new(paths, spec->n_filters + 1u);
    m->encoder = spec->encoder != NULL ? spec->encoder : lk_encoder_new(spec->tokenizer);
    return m;
}

void lk_measure_free(struct lk_measure *m)
{
    if (m == NULL)
        return;
    lk_row_reader_free(m->reader);
    if (m->spec.encoder == NULL)
        lk_encoder_free(m->encoder);
    free(m);
}

/* A property of the bytes: an error or a drop, as the recipe says. The text stays either way. */
static enum lk_code bad_row(const struct lk_measure *m, enum lk_drop drop,
                            struct lk_measured *ret_measured)
{
    if (!m->spec.drop_bad)
        return LK_INVALID_ARGUMENT;
    *ret_measured = (struct lk_measured){.drop = drop};
    return LK_OK;
}

/* The token is quoted as JSON would be: it may have line ends, or bytes that a terminal acts on. */
enum lk_code lk_check_specials(const struct lk_encoder *encoder,
                               const struct lk_tokenizer *tokenizer, struct lk_err *err)
{
    struct lk_buf quoted = {0};
    uint32_t id;
    size_t at, n = 0;

    if (!lk_encoder_refuses(encoder, &id, &at))
        return LK_OK;
    const uint8_t *token = lk_tokenizer_bytes(tokenizer, id, &n);
    lk_json_quote(&quoted, token, n);
    enum lk_code code = lk_fail(err, LK_INVALID_ARGUMENT,
                                "byte %zu of the text: a special token where special_in_text is "
                                "error: id %u, %s",
                                at, id, lk_buf_cstr(&quoted));
    lk_buf_done(&quoted);
    return code;
}

static void say_no_text(const struct lk_measure *m, const struct lk_row_field *text,
                        struct lk_err *err)
{
    if (text->found)
        (void)lk_fail(err, LK_INVALID_ARGUMENT, "byte %zu: field \"%s\": expected a string, found %s",
                      text->at, m->spec.text, lk_json_type_name(text->type));
    else
        (void)lk_fail(err, LK_INVALID_ARGUMENT, "byte 0: the row has no field \"%s\"",
                      m->spec.text);
}

/* Equality is of text: of a decoded string, or of a number, true, false or null as it is written. */
static bool field_equals(const struct lk_row_field *field, const char *want)
{
    return field->found && field->type != LK_JSON_ARRAY && field->type != LK_JSON_OBJECT &&
           field->n == strlen(want) && memcmp(field->bytes, want, field->n) == 0;
}

/* The first filter that the row does not pass, of those that need no tokens. */
static enum lk_drop filter_row(const struct lk_measure *m, uint64_t text_bytes)
{
    for (uint32_t f = 0; f < m->spec.n_filters; f++) {
        const struct lk_measure_filter *filter = &m->spec.filter[f];
        if (text_bytes < filter->min_bytes || text_bytes > filter->max_bytes)
            return LK_DROP_FILTER_BYTES;
        if (filter->equals != NULL &&
            !field_equals(lk_row_field(m->reader, f + 1u), filter->equals))
            return LK_DROP_FILTER_EQUALS;
    }
    return LK_DROP_NONE;
}

static enum lk_drop filter_tokens(const struct lk_measure *m, uint64_t tokens)
{
    if (tokens == 0)
        return LK_DROP_EMPTY;
    for (uint32_t f = 0; f < m->spec.n_filters; f++) {
        const struct lk_measure_filter *filter = &m->spec.filter[f];
        if (tokens < filter->min_tokens || tokens > filter->max_tokens)
            return LK_DROP_FILTER_TOKENS;
    }
    return LK_DROP_NONE;
}

static void encode(const struct lk_measure *m, const struct lk_row_field *text,
                   struct lk_tokens *out)
{
    if (m->spec.has_prepend)
        lk_tokens_push(out, m->spec.prepend);
    lk_encode(m->encoder, text->bytes, text->n, out);
    if (m->spec.has_append)
        lk_tokens_push(out, m->spec.append);
}

/* Tokenises and judges a row whose text passed the filters before; @measured has its bytes. */
static enum lk_code measure_text(struct lk_measure *m, const struct lk_row_field *text,
                                 struct lk_tokens *out, struct lk_measured *measured,
                                 struct lk_err *err)
{
    size_t before = out->n;
    uint64_t specials = lk_encoder_specials(m->encoder);

    encode(m, text, out);
    measured->specials = lk_encoder_specials(m->encoder) - specials;
    measured->tokens = (uint32_t)(out->n - before);
    if (lk_check_specials(m->encoder, m->spec.tokenizer, err) != LK_OK) {
        (void)lk_fail_in(err, "byte %zu: field \"%s\"", text->at, m->spec.text);
        measured->drop = LK_DROP_SPECIAL;
        return m->spec.drop_bad ? LK_OK : LK_INVALID_ARGUMENT;
    }
    measured->drop = filter_tokens(m, measured->tokens);
    return LK_OK;
}

enum lk_code lk_measure_row(struct lk_measure *m, const uint8_t *row, size_t bytes,
                            struct lk_tokens *out, struct lk_measured *ret_measured,
                            struct lk_err *err)
{
    size_t before = out->n;

    if (lk_row_read(m->reader, row, bytes, err) != LK_OK)
        return bad_row(m, LK_DROP_MALFORMED, ret_measured);
    const struct lk_row_field *text = lk_row_field(m->reader, 0);
    if (!text->found || text->type != LK_JSON_STRING) {
        say_no_text(m, text, err);
        return bad_row(m, LK_DROP_FIELD, ret_measured);
    }
    struct lk_measured measured = {.text_bytes = text->n};
    measured.drop = filter_row(m, text->n);
    enum lk_code code = LK_OK;
    if (measured.drop == LK_DROP_NONE)
        code = measure_text(m, text, out, &measured, err);
    if (code != LK_OK || measured.drop != LK_DROP_NONE) {
        out->n = before;
        measured.tokens = 0;
        measured.specials = 0;
    }
    *ret_measured = measured;
    return code;
}
