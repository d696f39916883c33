/* Every configuration in conf/ works. Run from the repository's root. */
#include "config/config.h"

#include "tests/lib/check_main.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* How many configurations lie in @folder, every one of which must be accepted without a note. */
static int accepted_in(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int files = 0;
    ck_assert_msg(dir != NULL, "run this from the repository's root");
    while ((entry = readdir(dir)) != NULL) {
        struct lk_config config;
        struct lk_err err;
        size_t n = strlen(entry->d_name);
        if (n < 5 || strcmp(entry->d_name + n - 5, ".yaml") != 0)
            continue;
        char *path = lk_format("%s/%s", folder, entry->d_name);
        enum lk_code code = lk_config_load(path, &config, &err);
        ck_assert_msg(code == LK_OK, "%s", code == LK_OK ? "" : err.text);
        ck_assert_str_eq(config.notes, "");
        lk_config_done(&config);
        free(path);
        files++;
    }
    (void)closedir(dir);
    return files;
}

START_TEST(every_configuration_in_conf_is_accepted)
{
    ck_assert_int_ge(accepted_in("conf"), 2);
    ck_assert_int_ge(accepted_in("conf/examples"), 6);
}
END_TEST

START_TEST(the_demo_is_the_stream_that_its_comments_describe)
{
    struct lk_config config;
    struct lk_err err;
    ck_assert_int_eq(lk_config_load("conf/demo.yaml", &config, &err), LK_OK);
    const struct lk_recipe *r = lk_config_stream(&config, "pretrain");
    ck_assert_ptr_nonnull(r);
    ck_assert_uint_eq(r->lanes, 8);
    ck_assert_uint_eq(r->sequence, 2048);
    ck_assert_uint_eq(r->n_batches, 3);
    ck_assert_uint_eq(r->batch[0].size, 8);
    ck_assert_uint_eq(r->batch[2].size, 64);
    ck_assert_uint_eq(r->n_datasets, 3);
    lk_config_done(&config);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("config/examples");
    TCase *t = tcase_create("examples");
    tcase_add_test(t, every_configuration_in_conf_is_accepted);
    tcase_add_test(t, the_demo_is_the_stream_that_its_comments_describe);
    suite_add_tcase(s, t);
    return s;
}
