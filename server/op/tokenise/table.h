/*
 * Memory for large hash tables. They are read at random, so that finding the pages costs more than the
 * lines of memory do: hence huge pages, where the system has them.
 */
#ifndef LK_OP_TOKENISE_TABLE_H
#define LK_OP_TOKENISE_TABLE_H

#include <stddef.h>

struct lk_table {
    void *data; /* zeroed at first, at the beginning of a line of memory */
    void *memory;
    size_t mapped; /* bytes of a mapping; 0: from the heap */
};

struct lk_table lk_table_new(size_t count, size_t size); /* stops the process where there is no memory */
void lk_table_done(struct lk_table *table);              /* zeroed is fine */

#endif
