#include "op/tokenise/table.h"

#include "base/mem.h"
#include "base/status.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; headers may be older */
#endif

#define LINE 64u
#define HUGE_PAGE ((size_t)2 << 20)

static void *aligned(void *memory, size_t to)
{
    return (void *)(((uintptr_t)memory + to - 1) & ~(uintptr_t)(to - 1));
}

struct lk_table lk_table_new(size_t count, size_t size)
{
    struct lk_table table = {0};

    LK_CHECK(count <= (SIZE_MAX - HUGE_PAGE) / size);
    if (count * size < HUGE_PAGE) {
        table.memory = lk_zalloc(count * size + LINE, 1);
        table.data = aligned(table.memory, LINE);
        return table;
    }
    table.mapped = count * size + HUGE_PAGE;
    table.memory =
        mmap(NULL, table.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LK_CHECK(table.memory != MAP_FAILED);
    table.data = aligned(table.memory, HUGE_PAGE);
    /* Wishes, both: and the pages now, not one by one in the midst of the first document. */
    (void)madvise(table.data, count * size, MADV_HUGEPAGE);
    (void)madvise(table.data, count * size, MADV_POPULATE_WRITE);
    return table;
}

void lk_table_done(struct lk_table *table)
{
    if (table->mapped == 0)
        free(table->memory);
    else
        (void)munmap(table->memory, table->mapped);
    *table = (struct lk_table){0};
}
