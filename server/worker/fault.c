#include "worker/fault.h"

#ifdef LK_TEST_FAULTS

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static bool row_has(const uint8_t *row, size_t bytes, const char *variable)
{
    const char *text = getenv(variable);
    return text != NULL && text[0] != '\0' && memmem(row, bytes, text, strlen(text)) != NULL;
}

static bool first_to_be_slow(void)
{
    const char *once = getenv("LK_FAULT_SLOW_ONCE");
    if (once == NULL)
        return true;
    int fd = open(once, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    (void)close(fd);
    return true;
}

/* Three seconds, or as long as it is told. */
static void be_slow(void)
{
    const char *text = getenv("LK_FAULT_SLOW_MS");
    long ms = text != NULL ? atol(text) : 3000;
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Takes memory as a row that makes the tokenizer go wild would, without touching it; ends as lk_alloc
 * does when there is no more. */
static void eat_memory(void)
{
    enum { MEALS = 64 };
    const size_t meal = (size_t)1 << 30;
    void *eaten[MEALS];
    for (int i = 0; i < MEALS; i++) {
        eaten[i] = mmap(NULL, meal, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (eaten[i] == MAP_FAILED)
            abort();
    }
    for (int i = 0; i < MEALS; i++)
        (void)munmap(eaten[i], meal);
}

void fault_row(const uint8_t *row, size_t bytes)
{
    if (row_has(row, bytes, "LK_FAULT_CRASH_TEXT"))
        abort();
    if (row_has(row, bytes, "LK_FAULT_EAT_TEXT"))
        eat_memory();
    if (row_has(row, bytes, "LK_FAULT_SLOW_TEXT") && first_to_be_slow())
        be_slow();
}

#else

typedef int fault_none; /* a translation unit must declare something */

#endif
