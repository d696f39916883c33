/*
 * Runs a target on the files of a corpus, for `make check`: fuzz_NAME FILE|FOLDER... An input that once
 * was wrong stays right. Besides each file as it is: cut short everywhere, and with bits turned.
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#define CHANGES 50u /* of one file, evenly spread */

static void run(const uint8_t *data, size_t n)
{
    uint8_t *exact = lk_fuzz_copy(data, n);
    (void)LLVMFuzzerTestOneInput(exact, n);
    free(exact);
}

static void run_changed(uint8_t *data, size_t n)
{
    size_t step = n / CHANGES + 1;

    run(data, n);
    for (size_t i = 0; i < n; i += step) {
        run(data, i);
        data[i] ^= (uint8_t)(1u << i % 8);
        run(data, n);
        data[i] ^= (uint8_t)(1u << i % 8);
    }
}

static size_t run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct lk_buf data = {0};
    size_t n;

    if (file == NULL) {
        fprintf(stderr, "replay: %s cannot be read\n", path);
        exit(1);
    }
    while ((n = fread(lk_buf_room(&data, 65536), 1, 65536, file)) > 0)
        data.len += n;
    (void)fclose(file);
    run_changed(data.data, data.len);
    lk_buf_done(&data);
    return 1;
}

static size_t run_path(const char *path)
{
    struct stat status;
    size_t files = 0;

    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode))
        return run_file(path);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char *inner = lk_format("%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.')
            files += run_path(inner);
        free(inner);
    }
    if (folder != NULL)
        (void)closedir(folder);
    return files;
}

int main(int argc, char **argv)
{
    size_t files = 0;

    for (int i = 1; i < argc; i++)
        files += run_path(argv[i]);
    if (files == 0) {
        fprintf(stderr, "usage: %s FILE|FOLDER...: no file there\n", argv[0]);
        return 2;
    }
    printf("%s: %zu inputs and their changes: well\n", argv[0], files);
    return 0;
}
