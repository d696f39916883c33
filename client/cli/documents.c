#include "client/cli/documents.h"

#include "base/utf8.h"
#include "client/cli/input.h"
#include "format/jsonl.h"
#include "op/fields.h"
#include "store/list.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (256u << 10)
#define TEXT_BYTES_MAX (UINT32_MAX - 1ull) /* what can be encoded as one document */

struct reading {
    const struct documents *documents;
    struct progress *progress;
    uint64_t all_bytes, done_bytes; /* stored; all: 0 where it is not known */
    uint64_t count;
    /* of the file being read */
    struct input input;
    uint64_t before;                /* stored bytes of the files before */
    struct lk_row_reader *rows;
    struct lk_buf window;           /* data from window_at on, not all of it handed out */
    uint64_t window_at;
    uint64_t row;
};

static enum lk_code hand_out(struct reading *r, const uint8_t *text, size_t n, struct lk_err *err)
{
    const struct document document = {.text = text, .n = n};
    r->count++;
    return r->documents->each(r->documents->owner, &document, err);
}

/* Reads a piece to the end of the window; 0 bytes: there is no more. */
static enum lk_code next_piece(struct reading *r, size_t *ret_got, struct lk_err *err)
{
    uint8_t *to = lk_buf_room(&r->window, PIECE_BYTES);
    LK_TRY(input_read(&r->input, to, PIECE_BYTES, ret_got, err));
    r->window.len += *ret_got;
    r->done_bytes = r->before + input_at(&r->input);
    progress_tick(r->progress, r->done_bytes, r->all_bytes, r->count);
    return LK_OK;
}

/* Puts the file before an error of what is in it; those of reading it have it. */
static enum lk_code in_file(const struct reading *r, enum lk_code code, struct lk_err *err)
{
    return code == LK_OK ? LK_OK : lk_fail_in(err, "%s", input_name(&r->input));
}

/* ---- text ---- */

static enum lk_code whole_text(struct reading *r, struct lk_err *err)
{
    size_t valid = lk_utf8_valid_prefix(r->window.data, r->window.len);
    if (valid < r->window.len)
        return lk_fail(err, LK_INVALID_ARGUMENT, "byte %zu: expected UTF-8, found the byte 0x%02x",
                       valid, r->window.data[valid]);
    return hand_out(r, r->window.data, r->window.len, err);
}

static enum lk_code read_text(struct reading *r, struct lk_err *err)
{
    size_t got;
    do {
        LK_TRY(next_piece(r, &got, err));
        if (r->window.len > TEXT_BYTES_MAX)
            return lk_fail(err, LK_OUT_OF_RANGE,
                           "%s: more than %llu bytes, which is too long for one document",
                           input_name(&r->input), (unsigned long long)TEXT_BYTES_MAX);
    } while (got > 0);
    return in_file(r, whole_text(r, err), err);
}

/* ---- rows ---- */

static enum lk_code row_text(struct reading *r, const uint8_t *row, size_t n, struct lk_err *err)
{
    LK_TRY(lk_row_read(r->rows, row, n, err));
    const struct lk_row_field *text = lk_row_field(r->rows, 0);
    if (!text->found)
        return lk_fail(err, LK_INVALID_ARGUMENT, "the row has no field \"%s\"", r->documents->field);
    if (text->type != LK_JSON_STRING)
        return lk_fail(err, LK_INVALID_ARGUMENT, "byte %zu: field \"%s\": expected a string, found %s",
                       text->at, r->documents->field, lk_json_type_name(text->type));
    return hand_out(r, text->bytes, text->n, err);
}

static enum lk_code each_row(void *owner, const struct lk_jsonl_row *row, struct lk_err *err)
{
    struct reading *r = owner;
    const uint8_t *bytes = r->window.data + (row->offset - r->window_at);
    if (row_text(r, bytes, row->bytes, err) != LK_OK)
        return lk_fail_in(err, "row %llu at byte %llu", (unsigned long long)r->row,
                          (unsigned long long)row->offset);
    r->row++;
    return LK_OK;
}

/* Every row up to the last line end has been handed out. */
static void forget_lines(struct reading *r)
{
    const uint8_t *data = r->window.data;
    const uint8_t *end = r->window.len > 0 ? memrchr(data, '\n', r->window.len) : NULL;
    if (end == NULL)
        return;
    size_t n = (size_t)(end + 1 - data);
    memmove(r->window.data, end + 1, r->window.len - n);
    r->window.len -= n;
    r->window_at += n;
}

static enum lk_code read_rows(struct reading *r, struct lk_err *err)
{
    struct lk_jsonl *lines = lk_jsonl_new(each_row, r);
    enum lk_code code;
    size_t got = 0;
    do {
        code = next_piece(r, &got, err);
        if (code == LK_OK && got > 0)
            code = in_file(r, lk_jsonl_put(lines, r->window.data + r->window.len - got, got, err), err);
        if (code == LK_OK)
            forget_lines(r);
    } while (code == LK_OK && got > 0);
    if (code == LK_OK)
        code = in_file(r, lk_jsonl_end(lines, err), err);
    lk_jsonl_free(lines);
    return code;
}

/* ---- files ---- */

static enum lk_code read_one(struct reading *r, const char *path, struct lk_err *err)
{
    bool rows = r->documents->field != NULL;
    r->before = r->done_bytes;
    r->window.len = 0;
    r->window_at = r->row = 0;
    LK_TRY(input_open(&r->input, path, rows, err));
    enum lk_code code = rows ? read_rows(r, err) : read_text(r, err);
    input_close(&r->input);
    return code;
}

/* The shards that one path means. */
static enum lk_code read_shards(struct reading *r, const struct lk_dataset_files *files,
                                struct lk_err *err)
{
    for (uint32_t i = 0; i < files->n; i++) {
        char *path = lk_format("%s/%s", files->root, files->names[i]);
        enum lk_code code = read_one(r, path, err);
        free(path);
        if (code != LK_OK)
            return code;
    }
    return LK_OK;
}

static enum lk_code list(const struct documents *documents, const char *path,
                         struct lk_dataset_files *ret_files, struct lk_err *err)
{
    if (documents->field == NULL || !input_is_many(path))
        return LK_OK;
    return lk_dataset_list(path, ret_files, err);
}

static enum lk_code read_path(struct reading *r, const char *path, struct lk_err *err)
{
    struct lk_dataset_files files = {0};
    LK_TRY(list(r->documents, path, &files, err));
    enum lk_code code = files.n > 0 ? read_shards(r, &files, err) : read_one(r, path, err);
    lk_dataset_files_done(&files);
    return code;
}

/* 0 when one is not known before it is read. */
static uint64_t bytes_of(const struct documents *documents, const char *const *paths, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct lk_dataset_files files = {0};
        struct lk_err err;
        uint64_t bytes = 0;
        if (list(documents, paths[i], &files, &err) != LK_OK)
            return 0;
        for (uint32_t f = 0; f < files.n; f++)
            bytes += files.bytes[f];
        if (files.n == 0)
            bytes = input_bytes(paths[i]);
        lk_dataset_files_done(&files);
        if (bytes == 0)
            return 0;
        sum += bytes;
    }
    return sum;
}

enum lk_code documents_read(const struct documents *documents, const char *const *paths, uint32_t n,
                            struct progress *progress, struct lk_err *err)
{
    static const char *const standard[] = {"-"};
    struct reading r = {.documents = documents, .progress = progress};
    if (n == 0) {
        paths = standard;
        n = 1;
    }
    r.all_bytes = bytes_of(documents, paths, n);
    if (documents->field != NULL)
        r.rows = lk_row_reader_new(&documents->field, 1);
    enum lk_code code = LK_OK;
    for (uint32_t i = 0; i < n && code == LK_OK; i++)
        code = read_path(&r, paths[i], err);
    lk_row_reader_free(r.rows);
    lk_buf_done(&r.window);
    return code;
}
