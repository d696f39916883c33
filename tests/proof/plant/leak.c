/* Preloaded into the program that LK_LEAK_IN names: memory that nobody remembers, for LeakSanitizer to find. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 16 /* one might be taken for remembered, if its address still stood somewhere */

static void __attribute__((constructor)) plant(void)
{
    const char *in = getenv("LK_LEAK_IN");
    if (in == NULL || strcmp(in, program_invocation_short_name) != 0)
        return;
    for (int i = 0; i < BLOCKS; i++) {
        char *volatile p = malloc(1234);
        memset(p, 1, 1234);
        p = NULL;
    }
}
