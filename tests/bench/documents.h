/*
 * The documents that a speed is measured over.
 */
#ifndef LK_TESTS_BENCH_DOCUMENTS_H
#define LK_TESTS_BENCH_DOCUMENTS_H

#include "base/mem.h"

#include <stdbool.h>

struct lk_test_documents {
    struct lk_buf text; /* one after the other */
    size_t *ends;       /* in text */
    size_t n, cap;
};

/*
 * Appends the documents of a file: of one named *.jsonl every row's field "text" is one; any other file
 * is text, cut at 64 KiB at a line's end. False: it cannot be read, and @program has said so.
 */
bool lk_test_documents_read(struct lk_test_documents *docs, const char *program, const char *path);

void lk_test_documents_done(struct lk_test_documents *docs);

#endif
