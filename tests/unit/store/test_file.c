#include "store/file.h"
#include "tests/lib/check_main.h"
#include "tests/lib/temp_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static struct temp_dir dir;

/* The reads of the code under test come through here and can be made to fail. */
static struct {
    int error;      /* of the next @times reads */
    int times;
    size_t at_most; /* bytes that one read yields; 0: no limit */
    int calls;
} fault;

ssize_t pread(int fd, void *to, size_t n, off_t offset)
{
    fault.calls++;
    if (fault.times > 0) {
        fault.times--;
        errno = fault.error;
        return -1;
    }
    if (fault.at_most > 0 && n > fault.at_most)
        n = fault.at_most;
    return syscall(SYS_pread64, fd, to, n, offset);
}

static void setup(void)
{
    memset(&fault, 0, sizeof fault);
    temp_dir_init(&dir);
}

static void teardown(void)
{
    temp_dir_done(&dir);
}

static int entries(void)
{
    DIR *d = opendir(dir.path);
    int n = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

START_TEST(a_file_is_read_at_any_offset)
{
    struct lk_source *source;
    struct lk_err err;
    char got[4] = {0};
    ck_assert_int_eq(lk_file_open(temp_file(&dir, "f", "0123456789", 10), &source, &err), LK_OK);
    ck_assert_uint_eq(source->bytes, 10);
    ck_assert_int_eq(lk_source_read(source, 7, got, 3, &err), LK_OK);
    ck_assert_str_eq(got, "789");
    ck_assert_int_eq(lk_source_read(source, 10, got, 0, &err), LK_OK);
    ck_assert_int_eq(lk_source_read(source, 8, got, 3, &err), LK_OUT_OF_RANGE);
    ck_assert_int_eq(lk_source_read(source, UINT64_MAX, got, 3, &err), LK_OUT_OF_RANGE);
    lk_source_close(source);
}
END_TEST

START_TEST(short_and_interrupted_reads_are_continued)
{
    struct lk_source *source;
    struct lk_err err;
    char got[11] = {0};
    ck_assert_int_eq(lk_file_open(temp_file(&dir, "f", "0123456789", 10), &source, &err), LK_OK);
    fault.at_most = 3;
    fault.error = EINTR;
    fault.times = 100;
    ck_assert_int_eq(lk_source_read(source, 0, got, 10, &err), LK_OK);
    ck_assert_str_eq(got, "0123456789");
    ck_assert_int_eq(fault.calls, 104);
    lk_source_close(source);
}
END_TEST

START_TEST(transient_errors_are_retried_and_then_named)
{
    struct lk_source *source;
    struct lk_err err;
    char got[10];
    const char *path = temp_file(&dir, "f", "0123456789", 10);
    ck_assert_int_eq(lk_file_open(path, &source, &err), LK_OK);
    fault.error = EIO;
    fault.times = LK_FILE_TRIES - 1;
    ck_assert_int_eq(lk_source_read(source, 2, got, 5, &err), LK_OK);
    ck_assert_mem_eq(got, "23456", 5);
    fault.times = 1000;
    fault.calls = 0;
    ck_assert_int_eq(lk_source_read(source, 2, got, 5, &err), LK_UNAVAILABLE);
    ck_assert_int_eq(fault.calls, LK_FILE_TRIES);
    ck_assert_ptr_nonnull(strstr(err.text, path));
    ck_assert_ptr_nonnull(strstr(err.text, "byte 2"));
    fault.error = ESTALE; /* the file is gone on its server: no retry cures that */
    fault.calls = 0;
    ck_assert_int_eq(lk_source_read(source, 2, got, 5, &err), LK_UNAVAILABLE);
    ck_assert_int_eq(fault.calls, 1);
    lk_source_close(source);
}
END_TEST

START_TEST(a_file_that_shrinks_or_grows_under_a_reader_is_noticed)
{
    struct lk_source *source;
    struct lk_err err;
    char got[10];
    const char *path = temp_file(&dir, "f", "0123456789", 10);
    ck_assert_int_eq(lk_file_open(path, &source, &err), LK_OK);
    ck_assert_int_eq(truncate(path, 4), 0);
    ck_assert_int_eq(lk_source_read(source, 0, got, 10, &err), LK_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(err.text, "it had 10 bytes, now 4"));
    ck_assert_int_eq(truncate(path, 20), 0);
    ck_assert_int_eq(lk_source_read(source, 0, got, 10, &err), LK_DATA_LOSS);
    lk_source_close(source);
}
END_TEST

START_TEST(what_cannot_be_opened_says_why)
{
    struct lk_source *source = NULL;
    struct lk_err err;
    ck_assert_int_eq(lk_file_open(temp_path(&dir, "none"), &source, &err), LK_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, temp_path(&dir, "none")));
    ck_assert_int_eq(lk_file_open(dir.path, &source, &err), LK_INVALID_ARGUMENT);
    ck_assert_int_eq(mkfifo(temp_path(&dir, "pipe"), 0600), 0);
    ck_assert_int_eq(lk_file_open(temp_path(&dir, "pipe"), &source, &err), LK_INVALID_ARGUMENT);
    struct rlimit limit = {.rlim_cur = 0, .rlim_max = 0};
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    temp_file(&dir, "f", "x", 1);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 3;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    enum lk_code code = lk_file_open(temp_path(&dir, "f"), &source, &err);
    limit.rlim_cur = before;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(code, LK_RESOURCE_EXHAUSTED);
    ck_assert_ptr_nonnull(strstr(err.text, "limit is 3"));
    ck_assert_ptr_null(source);
}
END_TEST

START_TEST(whole_reads_stop_at_their_limit)
{
    struct lk_buf buf = {0};
    struct lk_err err;
    const char *path = temp_file(&dir, "f", "0123456789", 10);
    ck_assert_int_eq(lk_file_read_all(path, 10, &buf, &err), LK_OK);
    ck_assert_uint_eq(buf.len, 10);
    ck_assert_mem_eq(buf.data, "0123456789", 10);
    ck_assert_int_eq(lk_file_read_all(path, 9, &buf, &err), LK_RESOURCE_EXHAUSTED);
    ck_assert_ptr_nonnull(strstr(err.text, "has 10 bytes, expected at most 9"));
    ck_assert_uint_eq(buf.len, 0);
    lk_buf_done(&buf);
}
END_TEST

START_TEST(a_file_is_replaced_as_a_whole_and_old_readers_keep_theirs)
{
    struct lk_source *old;
    struct lk_buf buf = {0};
    struct lk_err err;
    char got[3];
    const char *path = temp_file(&dir, "f", "old", 3);
    ck_assert_int_eq(lk_file_open(path, &old, &err), LK_OK);
    ck_assert_int_eq(lk_file_write_atomic(path, "the new one", 11, &err), LK_OK);
    ck_assert_int_eq(lk_source_read(old, 0, got, 3, &err), LK_OK);
    ck_assert_mem_eq(got, "old", 3);
    ck_assert_int_eq(lk_file_read_all(path, 100, &buf, &err), LK_OK);
    ck_assert_uint_eq(buf.len, 11);
    ck_assert_int_eq(lk_file_write_atomic(path, "", 0, &err), LK_OK);
    ck_assert_int_eq(lk_file_read_all(path, 100, &buf, &err), LK_OK);
    ck_assert_uint_eq(buf.len, 0);
    ck_assert_int_eq(entries(), 1);
    lk_source_close(old);
    lk_buf_done(&buf);
}
END_TEST

START_TEST(a_file_written_in_pieces_appears_at_its_end_or_not_at_all)
{
    struct lk_writing *writing;
    struct lk_buf buf = {0};
    struct lk_err err;
    const char *path = temp_file(&dir, "f", "old", 3);
    for (int end = 0; end < 2; end++) {
        ck_assert_int_eq(lk_file_begin(path, &writing, &err), LK_OK);
        ck_assert_int_eq(lk_file_put(writing, "two ", 4, &err), LK_OK);
        ck_assert_int_eq(lk_file_put(writing, "", 0, &err), LK_OK);
        ck_assert_int_eq(lk_file_put(writing, "pieces", 6, &err), LK_OK);
        ck_assert_int_eq(lk_file_read_all(path, 100, &buf, &err), LK_OK);
        ck_assert_uint_eq(buf.len, 3);
        if (end == 0)
            lk_file_abandon(writing);
        else
            ck_assert_int_eq(lk_file_end(writing, &err), LK_OK);
        ck_assert_int_eq(entries(), 1);
    }
    ck_assert_int_eq(lk_file_read_all(path, 100, &buf, &err), LK_OK);
    ck_assert_uint_eq(buf.len, 10);
    ck_assert_mem_eq(buf.data, "two pieces", 10);
    ck_assert_int_eq(lk_file_begin(temp_path(&dir, "no/f"), &writing, &err), LK_NOT_FOUND);
    lk_buf_done(&buf);
}
END_TEST

START_TEST(a_failed_write_leaves_the_old_file_and_nothing_else)
{
    struct lk_err err;
    struct lk_buf buf = {0};
    char block[8192] = {0};
    const char *path = temp_file(&dir, "f", "old", 3);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit, small;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 4096; /* the second half of the data has no room */
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum lk_code code = lk_file_write_atomic(path, block, sizeof block, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(code, LK_RESOURCE_EXHAUSTED);
    ck_assert_ptr_nonnull(strstr(err.text, path));
    ck_assert_int_eq(lk_file_read_all(path, 100, &buf, &err), LK_OK);
    ck_assert_uint_eq(buf.len, 3);
    ck_assert_int_eq(entries(), 1);

    ck_assert_int_eq(mkdir(temp_path(&dir, "d"), 0777), 0); /* cannot be replaced by a file */
    ck_assert_int_ne(lk_file_write_atomic(temp_path(&dir, "d"), "x", 1, &err), LK_OK);
    ck_assert_int_eq(entries(), 2);
    ck_assert_int_eq(lk_file_write_atomic(temp_path(&dir, "no/f"), "x", 1, &err), LK_NOT_FOUND);
    lk_buf_done(&buf);
}
END_TEST

START_TEST(descriptors_are_closed_and_not_inherited)
{
    struct lk_source *source;
    struct lk_err err;
    int before = dup(0);
    close(before);
    ck_assert_int_eq(lk_file_open(temp_file(&dir, "f", "x", 1), &source, &err), LK_OK);
    ck_assert_int_eq(fcntl(before, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    lk_source_close(source);
    ck_assert_int_eq(lk_file_write_atomic(temp_path(&dir, "g"), "x", 1, &err), LK_OK);
    int after = dup(0);
    close(after);
    ck_assert_int_eq(before, after);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("store/file");
    TCase *t = tcase_create("file");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_file_is_read_at_any_offset);
    tcase_add_test(t, short_and_interrupted_reads_are_continued);
    tcase_add_test(t, transient_errors_are_retried_and_then_named);
    tcase_add_test(t, a_file_that_shrinks_or_grows_under_a_reader_is_noticed);
    tcase_add_test(t, what_cannot_be_opened_says_why);
    tcase_add_test(t, whole_reads_stop_at_their_limit);
    tcase_add_test(t, a_file_is_replaced_as_a_whole_and_old_readers_keep_theirs);
    tcase_add_test(t, a_file_written_in_pieces_appears_at_its_end_or_not_at_all);
    tcase_add_test(t, a_failed_write_leaves_the_old_file_and_nothing_else);
    tcase_add_test(t, descriptors_are_closed_and_not_inherited);
    suite_add_tcase(s, t);
    return s;
}
