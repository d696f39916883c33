#include "host/machine.h"

#include "base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *open_below(const char *root, const char *path)
{
    char *whole = lk_format("%s%s", root, path);
    FILE *file = fopen(whole, "re");
    free(whole);
    return file;
}

/* Decimal digits, and after them nothing, a space or a line end; false as well where the number does not fit
 * ("max" is no number). */
static bool read_number(const char *text, uint64_t *ret_value)
{
    uint64_t value = 0;
    size_t n = 0;
    for (; text[n] >= '0' && text[n] <= '9'; n++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[n] - '0'), &value))
            return false;
    }
    *ret_value = value;
    return n > 0 && (text[n] == '\0' || text[n] == '\n' || text[n] == ' ');
}

static void lower_to(struct machine_memory *memory, uint64_t bytes, const char *what, const char *path)
{
    if (bytes == 0 || bytes >= memory->bytes)
        return;
    char *before = memory->from;
    memory->bytes = bytes;
    memory->from = lk_format("%s, %s", what, path);
    free(before);
}

static void read_physical(const char *root, struct machine_memory *memory)
{
    static const char key[] = "MemTotal:";
    FILE *file = open_below(root, "/proc/meminfo");
    char *line = NULL;
    size_t cap = 0;
    uint64_t kib;
    while (file != NULL && getline(&line, &cap, file) >= 0) {
        if (strncmp(line, key, sizeof key - 1) != 0)
            continue;
        const char *number = line + sizeof key - 1;
        if (read_number(number + strspn(number, " \t"), &kib) && kib <= UINT64_MAX / 1024)
            lower_to(memory, kib * 1024, "physical memory", "MemTotal of /proc/meminfo");
        break;
    }
    free(line);
    if (file != NULL)
        (void)fclose(file);
}

/* ---- control groups ---- */

static void read_limit(const char *root, const char *dir, const char *name, struct machine_memory *memory)
{
    char *path = lk_format("%s/%s", dir, name), text[64];
    FILE *file = open_below(root, path);
    uint64_t bytes;
    if (file != NULL && fgets(text, sizeof text, file) != NULL && read_number(text, &bytes))
        lower_to(memory, bytes, "limit of the control group", path);
    if (file != NULL)
        (void)fclose(file);
    free(path);
}

static bool is_there(const char *root, const char *path)
{
    char *whole = lk_format("%s%s", root, path);
    bool there = access(whole, F_OK) == 0;
    free(whole);
    return there;
}

/* The limits of @group, which starts with '/', and of all above it, to the one that is mounted at @mount. Where the
 * mount shows a part of the tree only, the group is not there; what is called like one above it is another then, and
 * the mount point alone counts. */
static void read_limits(const char *root, const char *mount, const char *group, const char *name,
                        struct machine_memory *memory)
{
    char *dir = lk_format("%s%s", mount, group);
    size_t n = strlen(dir), top = strlen(mount);
    if (!is_there(root, dir))
        n = top;
    while (n > top && dir[n - 1] == '/')
        n--;
    dir[n] = '\0';
    for (;;) {
        read_limit(root, dir, name, memory);
        if (n <= top)
            break;
        while (n > top && dir[--n] != '/')
            ;
        dir[n] = '\0';
    }
    free(dir);
}

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list;; at++) {
        size_t m = strcspn(at, ",");
        if (m == n && strncmp(at, word, n) == 0)
            return true;
        at += m;
        if (*at == '\0')
            return false;
    }
}

/* A line "number:controllers:path" of /proc/self/cgroup; version 2 is number 0, without controllers. */
static void read_group(const char *root, char *line, struct machine_memory *memory)
{
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL)
        return;
    *controllers++ = '\0';
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    /* "/../…": a group outside of what this namespace shows; then there is only the mount point to look at. */
    const char *group = path[0] == '/' && strncmp(path, "/..", 3) != 0 ? path : "/";
    if (strcmp(line, "0") == 0 && controllers[0] == '\0') {
        read_limits(root, "/sys/fs/cgroup", group, "memory.max", memory);
        read_limits(root, "/sys/fs/cgroup/unified", group, "memory.max", memory);
    } else if (has_word(controllers, "memory")) {
        read_limits(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", memory);
    }
}

void machine_memory_read(const char *root, struct machine_memory *ret_memory)
{
    *ret_memory = (struct machine_memory){.bytes = UINT64_MAX};
    read_physical(root, ret_memory);
    FILE *file = open_below(root, "/proc/self/cgroup");
    char *line = NULL;
    size_t cap = 0;
    while (file != NULL && getline(&line, &cap, file) >= 0)
        read_group(root, line, ret_memory);
    free(line);
    if (file != NULL)
        (void)fclose(file);
}

void machine_memory_done(struct machine_memory *memory)
{
    free(memory->from);
    *memory = (struct machine_memory){.bytes = 0};
}
