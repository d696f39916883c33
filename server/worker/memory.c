#include "worker/memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Private writable memory of this process, as RLIMIT_DATA counts it. Sanitizers have terabytes of it
 * that they never use: so the limit is relative to what is there. */
static bool data_bytes(uint64_t *ret_bytes)
{
    unsigned long long data = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return false;
    /* NOLINTNEXTLINE(cert-err34-c): the kernel writes no number that does not fit */
    bool read = fscanf(file, "%*u %*u %*u %*u %*u %llu", &data) == 1; /* pages, stack included */
    (void)fclose(file);
    *ret_bytes = (uint64_t)data * (uint64_t)sysconf(_SC_PAGESIZE);
    return read;
}

void memory_limit(uint64_t bytes)
{
    struct rlimit limit;
    uint64_t used;
    if (!data_bytes(&used) || getrlimit(RLIMIT_DATA, &limit) != 0 || bytes > RLIM_INFINITY - used)
        return;
    rlim_t wanted = used + bytes;
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur <= wanted)
        return;
    limit.rlim_cur = wanted; /* at most the hard limit, which is never below the soft one */
    (void)setrlimit(RLIMIT_DATA, &limit);
}
