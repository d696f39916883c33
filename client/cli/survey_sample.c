/* The rows of a sample: their string fields, and what is wrong with them. */
#include "base/json.h"
#include "client/cli/input.h"
#include "client/cli/survey.h"
#include "format/jsonl.h"
#include "store/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (64u << 10)
#define RATIO_BYTES (8u << 20) /* of a compressed shard that are decoded to tell how well it is compressed */

struct sampling {
    struct survey_dataset *dataset;
    const char *file;
    struct lk_buf window; /* the shard's data from its beginning */
    uint64_t row;         /* of this file */
    bool enough;
    struct lk_buf path;   /* of the value that is being read */
    char *first;          /* where the first good row is; NULL: there was none yet */
    uint64_t lengths[SURVEY_FIELDS]; /* of the row's strings; UINT64_MAX: not there */
    bool worded[SURVEY_FIELDS];
};

/* ---- one row ---- */

/* Its number; SURVEY_FIELDS: there are too many. */
static uint32_t field_of(struct sampling *s, const char *path, bool list)
{
    struct survey_dataset *d = s->dataset;
    for (uint32_t f = 0; f < d->n_fields; f++) {
        if (d->field[f].list == list && strcmp(d->field[f].path, path) == 0)
            return f;
    }
    if (d->n_fields == SURVEY_FIELDS)
        return SURVEY_FIELDS;
    d->field[d->n_fields] = (struct survey_field){
        .path = lk_strdup(path), .list = list, .missing = s->first != NULL ? lk_strdup(s->first) : NULL};
    s->lengths[d->n_fields] = UINT64_MAX;
    return d->n_fields++;
}

static void put_value(struct sampling *s, bool list, uint64_t bytes, bool worded)
{
    uint32_t f = field_of(s, lk_buf_cstr(&s->path), list);
    if (f == SURVEY_FIELDS)
        return;
    s->lengths[f] = bytes;
    s->worded[f] = worded;
}

/* What is written for people has spaces, or letters beyond ASCII; names, digests and addresses have not. */
static bool reads_like_text(const uint8_t *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == ' ' || text[i] >= 0x80)
            return true;
    }
    return false;
}

static void put_key(struct lk_buf *path, const uint8_t *key, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (key[i] == '.' || key[i] == '\\')
            lk_buf_puts(path, "\\");
        lk_buf_put(path, &key[i], 1);
    }
}

/* The same key twice: the later one counts, as where rows are read. */
static enum lk_code read_string(struct sampling *s, struct lk_json *json, struct lk_err *err)
{
    const uint8_t *text;
    size_t n;
    LK_TRY(lk_json_string(json, &text, &n, err));
    put_value(s, false, n, reads_like_text(text, n));
    return LK_OK;
}

/* A conversation, say: its elements have no path, but what is in them is worth a word. */
static enum lk_code read_list(struct sampling *s, struct lk_json *json, struct lk_err *err)
{
    uint32_t outside = json->depth;
    uint64_t bytes = 0;
    LK_TRY(lk_json_enter(json, err));
    while (json->depth > outside) {
        enum lk_json_type type;
        const uint8_t *text;
        size_t n;
        bool more;
        LK_TRY(lk_json_next(json, &more, NULL, NULL, err));
        if (!more)
            continue;
        LK_TRY(lk_json_peek(json, &type, err));
        if (type == LK_JSON_ARRAY || type == LK_JSON_OBJECT) {
            LK_TRY(lk_json_enter(json, err));
        } else if (type == LK_JSON_STRING) {
            LK_TRY(lk_json_string(json, &text, &n, err));
            bytes += reads_like_text(text, n) ? n : 0;
        } else {
            LK_TRY(lk_json_skip(json, err));
        }
    }
    put_value(s, true, bytes, bytes > 0);
    return LK_OK;
}

static enum lk_code read_object(struct sampling *s, struct lk_json *json, unsigned depth, struct lk_err *err)
{
    LK_TRY(lk_json_enter(json, err));
    for (;;) {
        const uint8_t *key;
        enum lk_json_type type;
        size_t n, before = s->path.len;
        bool more;
        LK_TRY(lk_json_next(json, &more, &key, &n, err));
        if (!more)
            return LK_OK;
        if (before > 0)
            lk_buf_puts(&s->path, ".");
        put_key(&s->path, key, n);
        LK_TRY(lk_json_peek(json, &type, err));
        bool named = n > 0 && memchr(key, '\0', n) == NULL;
        if (type == LK_JSON_STRING && named)
            LK_TRY(read_string(s, json, err));
        else if (type == LK_JSON_OBJECT && depth < SURVEY_DEPTH && named)
            LK_TRY(read_object(s, json, depth + 1, err));
        else if (type == LK_JSON_ARRAY && named)
            LK_TRY(read_list(s, json, err));
        else
            LK_TRY(lk_json_skip(json, err));
        s->path.len = before;
    }
}

static enum lk_code read_row(struct sampling *s, const uint8_t *bytes, size_t n, struct lk_err *err)
{
    struct lk_json json;
    enum lk_json_type type;
    for (uint32_t f = 0; f < s->dataset->n_fields; f++)
        s->lengths[f] = UINT64_MAX;
    s->path.len = 0;
    lk_json_init(&json, bytes, n);
    enum lk_code code = lk_json_peek(&json, &type, err);
    if (code == LK_OK && type != LK_JSON_OBJECT)
        code = lk_fail(err, LK_INVALID_ARGUMENT, "expected an object {\"text\": …}, found %s",
                       lk_json_type_name(type));
    if (code == LK_OK)
        code = read_object(s, &json, 1, err);
    if (code == LK_OK)
        code = lk_json_end(&json, err);
    lk_json_done(&json);
    return code;
}

static void count_fields(struct sampling *s)
{
    struct survey_dataset *d = s->dataset;
    if (s->first == NULL)
        s->first = lk_format("%s: row %llu", s->file, (unsigned long long)s->row);
    for (uint32_t f = 0; f < d->n_fields; f++) {
        struct survey_field *field = &d->field[f];
        if (s->lengths[f] != UINT64_MAX) {
            field->rows++;
            field->bytes += s->lengths[f];
            field->filled += s->lengths[f] > 0;
            field->worded += s->worded[f];
        } else if (field->missing == NULL) {
            field->missing = lk_format("%s: row %llu", s->file, (unsigned long long)s->row);
        }
    }
}

static enum lk_code each_row(void *owner, const struct lk_jsonl_row *row, struct lk_err *err)
{
    struct sampling *s = owner;
    struct survey_dataset *d = s->dataset;
    struct lk_err why;
    if (s->row == SURVEY_ROWS) {
        s->enough = true;
        return lk_fail(err, LK_CANCELLED, "enough");
    }
    if (read_row(s, s->window.data + row->offset, row->bytes, &why) == LK_OK) {
        d->rows++;
        d->row_bytes += row->bytes;
        count_fields(s);
    } else {
        d->bad_rows++;
        if (d->bad == NULL)
            d->bad = lk_format("%s: row %llu at byte %llu: %s", s->file, (unsigned long long)s->row,
                               (unsigned long long)row->offset, why.text);
    }
    s->row++;
    return LK_OK;
}

/* ---- one shard ---- */

/* Until there is enough of it; *ret_whole: all of it has been read. */
static enum lk_code read_shard(struct sampling *s, struct input *input, bool *ret_whole, struct lk_err *err)
{
    struct lk_jsonl *lines = lk_jsonl_new(each_row, s);
    enum lk_code code = LK_OK;
    size_t got = 1;
    s->window.len = 0;
    s->row = 0;
    s->enough = false;
    while (code == LK_OK && got > 0 && (s->window.len < SURVEY_BYTES || s->row == 0) &&
           s->window.len < SURVEY_ROW_MAX) {
        uint8_t *to = lk_buf_room(&s->window, PIECE_BYTES);
        code = input_read(input, to, PIECE_BYTES, &got, err);
        if (code != LK_OK)
            break;
        s->window.len += got;
        code = lk_jsonl_put(lines, s->window.data + s->window.len - got, got, err);
        if (code != LK_OK && !s->enough)
            code = lk_fail_in(err, "%s", s->file);
    }
    if (code == LK_OK && got == 0)
        code = lk_jsonl_end(lines, err);
    lk_jsonl_free(lines);
    *ret_whole = code == LK_OK && got == 0;
    return s->enough ? LK_OK : code;
}

/* Decoders read ahead: what the stored bytes come to is known only after more of them. */
static enum lk_code read_on(struct input *input, uint64_t *decoded, bool *whole, struct lk_err *err)
{
    uint8_t *piece = lk_alloc(PIECE_BYTES);
    enum lk_code code = LK_OK;
    size_t got = 1;
    while (code == LK_OK && got > 0 && *decoded < RATIO_BYTES) {
        code = input_read(input, piece, PIECE_BYTES, &got, err);
        *decoded += code == LK_OK ? got : 0;
    }
    *whole = code == LK_OK && got == 0;
    free(piece);
    return code;
}

static enum lk_code sample_shard(struct sampling *s, uint32_t i, struct lk_err *err)
{
    struct survey_dataset *d = s->dataset;
    const struct lk_dataset_files *files = &d->files;
    struct input input;
    bool whole = false, all = false;
    uint64_t decoded = 0;
    char *path = lk_format("%s/%s", files->root, files->names[i]);
    s->file = path;
    enum lk_code code = input_open(&input, path, true, err);
    if (code == LK_OK)
        code = read_shard(s, &input, &whole, err);
    decoded = s->window.len;
    all = whole;
    if (code == LK_OK && !whole && files->codecs[i] != LK_CODEC_PLAIN)
        code = read_on(&input, &decoded, &all, err);
    if (code == LK_OK) {
        uint64_t stored = all ? files->bytes[i] : input_at(&input);
        d->shards++;
        d->data_bytes += decoded;
        d->read_bytes += stored;
        d->whole = d->whole && whole;
        if (files->codecs[i] != LK_CODEC_PLAIN && stored > 0) {
            uint64_t bytes = (uint64_t)((double)decoded / (double)stored * (double)files->bytes[i]);
            d->decoded_max = bytes > d->decoded_max ? bytes : d->decoded_max;
        }
    }
    input_close(&input);
    free(path);
    return code;
}

/* ---- a dataset ---- */

static bool may_be_text(const struct survey_dataset *d, uint32_t f)
{
    const struct survey_field *field = &d->field[f];
    return !field->list && 2 * field->rows >= d->rows && field->bytes > 0;
}

/* The list with most text; NULL: there is none. */
static const struct survey_field *longest_list(const struct survey_dataset *d)
{
    const struct survey_field *list = NULL;
    for (uint32_t f = 0; f < d->n_fields; f++)
        if (d->field[f].list && d->field[f].bytes > 0 && (list == NULL || d->field[f].bytes > list->bytes))
            list = &d->field[f];
    return list;
}

/* The one that is @wanted, or else the longest string; of those that at least half of the rows have. The number of a
 * conversation is no text, though, however much longest. */
static bool choose_text(struct survey_dataset *d, const char *wanted)
{
    const struct survey_field *list = longest_list(d);
    bool chosen = false;
    for (uint32_t f = 0; f < d->n_fields && !d->named; f++) {
        if (!may_be_text(d, f))
            continue;
        d->named = wanted != NULL && strcmp(d->field[f].path, wanted) == 0;
        if (d->named || !chosen || d->field[f].bytes > d->field[d->text].bytes)
            d->text = f;
        chosen = true;
    }
    const struct survey_field *text = &d->field[d->text];
    bool outdone = chosen && list != NULL && 2 * text->worded <= text->filled && list->bytes > text->bytes;
    return d->named || (chosen && !outdone);
}

bool survey_unserved(const struct survey_dataset *d, uint32_t f)
{
    const struct survey_field *field = &d->field[f];
    return f != d->text && field->bytes > 0 && 2 * field->worded > field->filled &&
           field->bytes >= d->field[d->text].bytes / 20;
}

/* Why no field is the text; where there is a list with text, which. */
static char *no_text(const struct survey_dataset *d)
{
    const struct survey_field *list = longest_list(d);
    return lk_format("%s: expected a field that is a text in at least half of the rows, found %s%s%s", d->path,
                     list != NULL ? "a list with texts, \"" : "none", list != NULL ? list->path : "",
                     list != NULL ? "\": write what is to be served of it into one field first" : "");
}

static void estimate(struct survey_dataset *d)
{
    const struct survey_field *text = &d->field[d->text];
    uint64_t largest = 0;
    for (uint32_t i = 0; i < d->files.n; i++)
        if (d->files.codecs[i] != LK_CODEC_PLAIN && d->files.bytes[i] > largest)
            largest = d->files.bytes[i];
    double ratio = d->read_bytes > 0 ? (double)d->data_bytes / (double)d->read_bytes : 1;
    double all = d->whole ? (double)d->data_bytes : (double)d->stored_bytes * ratio;
    double row = (double)d->row_bytes / (double)d->rows + 1; /* with its line end */
    if ((double)largest * ratio > (double)d->decoded_max)
        d->decoded_max = (uint64_t)((double)largest * ratio);
    d->all_rows = d->whole ? d->rows : (uint64_t)(all / row);
    d->all_text_bytes = d->whole ? text->bytes : (uint64_t)((double)d->all_rows * (double)text->bytes / (double)d->rows);
}

static enum lk_code sample_shards(struct sampling *s, struct lk_err *err)
{
    uint32_t n = s->dataset->files.n, some = n < SURVEY_SHARDS ? n : SURVEY_SHARDS;
    for (uint32_t k = 0; k < some; k++) {
        uint32_t i = some < 2 ? 0 : (uint32_t)((uint64_t)k * (n - 1) / (some - 1));
        LK_TRY(sample_shard(s, i, err));
    }
    return LK_OK;
}

void survey_sample(struct survey_dataset *d, const char *wanted)
{
    struct sampling s = {.dataset = d};
    struct lk_err err;
    enum lk_code code = lk_dataset_list(d->path, &d->files, &err);
    d->whole = d->files.n <= SURVEY_SHARDS;
    if (wanted != NULL)
        (void)field_of(&s, wanted, false); /* told apart however many there are */
    for (uint32_t i = 0; i < d->files.n; i++)
        d->stored_bytes += d->files.bytes[i];
    if (code == LK_OK)
        code = sample_shards(&s, &err);
    if (code != LK_OK)
        d->trouble = lk_strdup(err.text);
    else if (d->rows == 0)
        d->trouble = d->bad != NULL ? lk_format("no row is a JSON object: %s", d->bad)
                                    : lk_format("%s: expected rows, found none", d->path);
    else if (!choose_text(d, wanted))
        d->trouble = no_text(d);
    else
        estimate(d);
    lk_buf_done(&s.window);
    lk_buf_done(&s.path);
    free(s.first);
}
