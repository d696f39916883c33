/* A directory of its own for each test, removed with everything in it. */
#ifndef LK_TESTS_LIB_TEMP_DIR_H
#define LK_TESTS_LIB_TEMP_DIR_H

#include <check.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct temp_dir {
    char path[96];
};

static inline void temp_dir_init(struct temp_dir *dir)
{
    strcpy(dir->path, "/tmp/lk-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir->path));
}

static inline int temp_dir_remove_one(const char *path, const struct stat *st, int type,
                                      struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void temp_dir_done(struct temp_dir *dir)
{
    ck_assert_int_eq(nftw(dir->path, temp_dir_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* "<dir>/<name>" in one of a few static buffers, so that one call may use several. */
static inline const char *temp_path(const struct temp_dir *dir, const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", dir->path, name);
    return path;
}

/* Writes a file, making the directories above it. */
static inline const char *temp_file(const struct temp_dir *dir, const char *name, const void *data,
                                    size_t n)
{
    const char *path = temp_path(dir, name);
    char above[512];
    for (const char *slash = strchr(path + strlen(dir->path) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        (void)snprintf(above, sizeof above, "%.*s", (int)(slash - path), path);
        ck_assert(mkdir(above, 0777) == 0 || errno == EEXIST);
    }
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

#endif
