#include "store/list.h"
#include "tests/lib/check_main.h"
#include "tests/lib/temp_dir.h"

#include <locale.h>

static struct temp_dir dir;

static void setup(void)
{
    temp_dir_init(&dir);
}

static void teardown(void)
{
    temp_dir_done(&dir);
}

static void touch(const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        temp_file(&dir, names[i], "{}\n", 3);
}

static void check_names(const struct lk_dataset_files *files, const char *const *want, uint32_t n)
{
    ck_assert_uint_eq(files->n, n);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_str_eq(files->names[i], want[i]);
        ck_assert_uint_eq(files->bytes[i], 3);
    }
}

/* RC-019 */
START_TEST(order_is_that_of_bytes_whatever_the_creation_and_the_locale)
{
    static const char *const made[] = {"shard-2.jsonl", "shard-10.jsonl", "shard-1.jsonl",
                                       "Shard-3.jsonl", "\xc3\xa9.jsonl", "a/z.jsonl", "a.jsonl"};
    static const char *const want[] = {"Shard-3.jsonl", "a.jsonl", "a/z.jsonl", "shard-1.jsonl",
                                       "shard-10.jsonl", "shard-2.jsonl", "\xc3\xa9.jsonl"};
    struct lk_dataset_files files;
    struct lk_err err;
    touch(made, 7);
    ck_assert_int_eq(lk_dataset_list(dir.path, &files, &err), LK_OK);
    check_names(&files, want, 7);
    ck_assert_str_eq(files.root, dir.path);
    lk_dataset_files_done(&files);
    (void)(setlocale(LC_ALL, "en_US.UTF-8") || setlocale(LC_ALL, "C.UTF-8"));
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(remove(temp_path(&dir, made[i])), 0);
    for (int i = 6; i >= 0; i--)
        touch(&made[i], 1);
    ck_assert_int_eq(lk_dataset_list(temp_path(&dir, "/"), &files, &err), LK_OK);
    check_names(&files, want, 7);
    lk_dataset_files_done(&files);
}
END_TEST

/* RC-046, of shards. */
START_TEST(only_shards_are_listed_and_the_rest_is_said)
{
    static const char *const made[] = {"a.jsonl", "b.jsonl.gz", "c.jsonl.zst", "README.md",
                                       "d.json", ".hidden.jsonl", ".git/x.jsonl", "e.jsonl.bz2",
                                       "sub/.f.jsonl", "sub/g.JSONL"};
    static const char *const want[] = {"a.jsonl", "b.jsonl.gz", "c.jsonl.zst"};
    static const char *const ignored[] = {".git",        ".hidden.jsonl", "README.md",   "d.json",
                                          "e.jsonl.bz2", "sub/.f.jsonl",  "sub/g.JSONL", "z-link"};
    struct lk_dataset_files files;
    struct lk_err err;
    touch(made, 10);
    ck_assert_int_eq(symlink("nowhere", temp_path(&dir, "z-link")), 0);
    ck_assert_int_eq(lk_dataset_list(dir.path, &files, &err), LK_OK);
    check_names(&files, want, 3);
    ck_assert_int_eq(files.codecs[0], LK_CODEC_PLAIN);
    ck_assert_int_eq(files.codecs[1], LK_CODEC_GZIP);
    ck_assert_int_eq(files.codecs[2], LK_CODEC_ZSTD);
    ck_assert_uint_eq(files.n_ignored, 8);
    for (int i = 0; i < 8; i++)
        ck_assert_str_eq(files.ignored[i], ignored[i]);
    lk_dataset_files_done(&files);
}
END_TEST

START_TEST(the_same_shard_twice_is_an_error)
{
    static const char *const made[] = {"x.jsonl", "x.jsonl-b.jsonl", "x.jsonl.gz"};
    struct lk_dataset_files files;
    struct lk_err err;
    touch(made, 3);
    ck_assert_int_eq(lk_dataset_list(dir.path, &files, &err), LK_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "x.jsonl and x.jsonl.gz"));
}
END_TEST

START_TEST(a_glob_and_a_single_file_have_the_root_above_them)
{
    static const char *const made[] = {"docs/b.jsonl", "docs/a.jsonl", "docs/n.txt", "man/a.jsonl",
                                       "docs/sub.jsonl/c.jsonl"};
    struct lk_dataset_files files;
    struct lk_err err;
    touch(made, 5);
    ck_assert_int_eq(lk_dataset_list(temp_path(&dir, "docs/*"), &files, &err), LK_OK);
    check_names(&files, (const char *const[]){"a.jsonl", "b.jsonl"}, 2);
    ck_assert_str_eq(files.root, temp_path(&dir, "docs"));
    ck_assert_uint_eq(files.n_ignored, 2);
    lk_dataset_files_done(&files);
    ck_assert_int_eq(lk_dataset_list(temp_path(&dir, "*/[a-b].jsonl"), &files, &err), LK_OK);
    check_names(&files, (const char *const[]){"docs/a.jsonl", "docs/b.jsonl", "man/a.jsonl"}, 3);
    lk_dataset_files_done(&files);
    ck_assert_int_eq(lk_dataset_list(temp_path(&dir, "docs/b.jsonl"), &files, &err), LK_OK);
    check_names(&files, (const char *const[]){"b.jsonl"}, 1);
    ck_assert_str_eq(files.root, temp_path(&dir, "docs"));
    lk_dataset_files_done(&files);
    ck_assert_int_eq(chdir(temp_path(&dir, "docs")), 0);
    static const char *const relative[] = {"*.jsonl", "./*.jsonl", ".", "../docs/?.jsonl"};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(lk_dataset_list(relative[i], &files, &err), LK_OK);
        ck_assert_str_eq(files.names[0], "a.jsonl");
        lk_dataset_files_done(&files);
    }
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

START_TEST(paths_that_mean_nothing_are_errors)
{
    struct lk_dataset_files files;
    struct lk_err err;
    ck_assert_int_eq(lk_dataset_list(temp_path(&dir, "none"), &files, &err), LK_NOT_FOUND);
    ck_assert_int_eq(lk_dataset_list(dir.path, &files, &err), LK_NOT_FOUND);
    ck_assert_int_eq(lk_dataset_list(temp_path(&dir, "*.jsonl"), &files, &err), LK_NOT_FOUND);
    ck_assert_int_eq(lk_dataset_list(temp_path(&dir, "**/a"), &files, &err), LK_INVALID_ARGUMENT);
    temp_file(&dir, "notes.txt", "x", 1);
    ck_assert_int_eq(lk_dataset_list(dir.path, &files, &err), LK_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "notes.txt"));
    ck_assert_int_eq(symlink("gone", temp_path(&dir, "a.jsonl")), 0);
    ck_assert_int_eq(lk_dataset_list(dir.path, &files, &err), LK_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "a.jsonl"));
}
END_TEST

START_TEST(a_glob_that_the_shell_expanded_is_the_same_dataset)
{
    static const char *const made[] = {"b.jsonl", "a.jsonl", "n.txt", "sub/c.jsonl"};
    struct lk_dataset_files files;
    struct lk_err err;
    touch(made, 4);
    const char *paths[] = {temp_path(&dir, "b.jsonl"), temp_path(&dir, "n.txt"),
                           temp_path(&dir, "a.jsonl")};
    ck_assert_int_eq(lk_dataset_list_all(paths, 3, &files, &err), LK_OK);
    check_names(&files, (const char *const[]){"a.jsonl", "b.jsonl"}, 2);
    ck_assert_str_eq(files.root, dir.path);
    ck_assert_uint_eq(files.n_ignored, 1);
    lk_dataset_files_done(&files);
    paths[1] = temp_path(&dir, "sub/c.jsonl");
    ck_assert_int_eq(lk_dataset_list_all(paths, 3, &files, &err), LK_INVALID_ARGUMENT);
    paths[1] = temp_path(&dir, "sub");
    ck_assert_int_eq(lk_dataset_list_all(paths, 3, &files, &err), LK_INVALID_ARGUMENT);
    paths[1] = paths[0];
    ck_assert_int_eq(lk_dataset_list_all(paths, 3, &files, &err), LK_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "same shard twice"));
    paths[1] = temp_path(&dir, "none");
    ck_assert_int_eq(lk_dataset_list_all(paths, 3, &files, &err), LK_NOT_FOUND);
}
END_TEST

START_TEST(links_are_followed_and_loops_refused)
{
    struct lk_dataset_files files;
    struct lk_err err;
    temp_file(&dir, "data/real/a.jsonl", "{}\n", 3);
    ck_assert_int_eq(symlink("real", temp_path(&dir, "data/again")), 0);
    ck_assert_int_eq(lk_dataset_list(temp_path(&dir, "data"), &files, &err), LK_OK);
    check_names(&files, (const char *const[]){"again/a.jsonl", "real/a.jsonl"}, 2);
    lk_dataset_files_done(&files);
    ck_assert_int_eq(symlink("..", temp_path(&dir, "data/real/up")), 0);
    ck_assert_int_eq(lk_dataset_list(temp_path(&dir, "data"), &files, &err), LK_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "link to a directory above it"));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("store/list");
    TCase *t = tcase_create("list");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, order_is_that_of_bytes_whatever_the_creation_and_the_locale);
    tcase_add_test(t, only_shards_are_listed_and_the_rest_is_said);
    tcase_add_test(t, the_same_shard_twice_is_an_error);
    tcase_add_test(t, a_glob_and_a_single_file_have_the_root_above_them);
    tcase_add_test(t, paths_that_mean_nothing_are_errors);
    tcase_add_test(t, a_glob_that_the_shell_expanded_is_the_same_dataset);
    tcase_add_test(t, links_are_followed_and_loops_refused);
    suite_add_tcase(s, t);
    return s;
}
