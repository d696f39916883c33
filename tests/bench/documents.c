#include "tests/bench/documents.h"

#include "base/json.h"
#include "base/utf8.h"
#include "op/fields.h"
#include "tests/lib/tokenizer_files.h"

#include <stdlib.h>
#include <string.h>

#define DOCUMENT 65536u

static void add(struct lk_test_documents *docs, const uint8_t *text, size_t n)
{
    if (docs->n == docs->cap) {
        docs->cap = docs->cap == 0 ? 1024 : docs->cap * 2;
        docs->ends = lk_resize(docs->ends, docs->cap, sizeof *docs->ends);
    }
    lk_buf_put(&docs->text, text, n);
    docs->ends[docs->n++] = docs->text.len;
}

/* How much of @left bytes of text makes the next document. */
static size_t document(const uint8_t *p, size_t left)
{
    if (left <= DOCUMENT)
        return left;
    const uint8_t *line = memrchr(p, '\n', DOCUMENT);
    if (line != NULL)
        return (size_t)(line - p) + 1;
    size_t n = DOCUMENT;
    while ((p[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static bool add_text(struct lk_test_documents *docs, const uint8_t *p, size_t n)
{
    if (lk_utf8_valid_prefix(p, n) != n)
        return false;
    for (size_t at = 0, part; at < n; at += part) {
        part = document(p + at, n - at);
        add(docs, p + at, part);
    }
    return true;
}

static bool add_rows(struct lk_test_documents *docs, const uint8_t *p, size_t n)
{
    static const char *const paths[] = {"text"};
    struct lk_row_reader *reader = lk_row_reader_new(paths, 1);
    struct lk_err err;
    bool ok = true;

    for (size_t at = 0, line; ok && at < n; at += line + 1) {
        const uint8_t *stop = memchr(p + at, '\n', n - at);
        line = stop == NULL ? n - at : (size_t)(stop - (p + at));
        ok = lk_row_read(reader, p + at, line, &err) == LK_OK;
        const struct lk_row_field *field = lk_row_field(reader, 0);
        if (ok && field->found && field->type == LK_JSON_STRING)
            add(docs, field->bytes, field->n);
    }
    lk_row_reader_free(reader);
    return ok;
}

bool lk_test_documents_read(struct lk_test_documents *docs, const char *program, const char *path)
{
    size_t n = 0, length = strlen(path);
    uint8_t *data = lk_test_read("", path, &n);
    bool rows = length > 6 && strcmp(path + length - 6, ".jsonl") == 0;
    bool ok = data != NULL && (rows ? add_rows(docs, data, n) : add_text(docs, data, n));

    free(data);
    if (!ok)
        fprintf(stderr, "%s: %s: not readable as %s\n", program, path, rows ? "rows" : "UTF-8");
    return ok;
}

void lk_test_documents_done(struct lk_test_documents *docs)
{
    lk_buf_done(&docs->text);
    free(docs->ends);
    *docs = (struct lk_test_documents){0};
}
