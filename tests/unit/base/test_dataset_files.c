#include "base/dataset_files.h"

#include "base/mem.h"
#include "tests/lib/check_main.h"

#include <string.h>

static const struct {
    const char *name;
    int codec; /* -1: no shard */
    size_t stem;
} cases[] = {
    {"a.jsonl", LK_CODEC_PLAIN, 7},
    {"a.jsonl.gz", LK_CODEC_GZIP, 7},
    {"a.jsonl.zst", LK_CODEC_ZSTD, 7},
    {"deep/er/part-00001.jsonl.zst", LK_CODEC_ZSTD, 24},
    {".jsonl", LK_CODEC_PLAIN, 6},
    {".jsonl.gz", LK_CODEC_GZIP, 6},
    {"a.jsonl.jsonl", LK_CODEC_PLAIN, 13},
    {"a.jsonl.gz.gz", -1, 0},
    {"a.json", -1, 0},
    {"a.gz", -1, 0},
    {"jsonl", -1, 0},
    {"a.jsonl.", -1, 0},
    {"a.JSONL", -1, 0},
    {"a.jsonl.bz2", -1, 0},
    {"", -1, 0},
};

START_TEST(a_shard_is_told_by_its_name)
{
    enum lk_codec codec = LK_CODECS;
    size_t stem = 0;
    bool shard = lk_codec_of_name(cases[_i].name, &codec, &stem);
    ck_assert_int_eq(shard, cases[_i].codec >= 0);
    if (shard) {
        ck_assert_int_eq((int)codec, cases[_i].codec);
        ck_assert_uint_eq(stem, cases[_i].stem);
    }
}
END_TEST

START_TEST(codecs_have_names)
{
    ck_assert_str_eq(lk_codec_name(LK_CODEC_PLAIN), "plain");
    ck_assert_str_eq(lk_codec_name(LK_CODEC_GZIP), "gzip");
    ck_assert_str_eq(lk_codec_name(LK_CODEC_ZSTD), "zstd");
}
END_TEST

START_TEST(a_listing_is_freed_with_all_it_holds)
{
    struct lk_dataset_files files = {0};
    lk_dataset_files_done(&files);
    files.root = lk_strdup("/data");
    files.n = 2;
    files.names = lk_zalloc(2, sizeof(char *));
    files.names[0] = lk_strdup("a.jsonl");
    files.names[1] = lk_strdup("b.jsonl");
    files.codecs = lk_zalloc(2, sizeof *files.codecs);
    files.bytes = lk_zalloc(2, sizeof *files.bytes);
    files.n_ignored = 1;
    files.ignored = lk_zalloc(1, sizeof(char *));
    files.ignored[0] = lk_strdup("README");
    lk_dataset_files_done(&files);
    ck_assert_ptr_null(files.names);
    ck_assert_uint_eq(files.n, 0);
    lk_dataset_files_done(&files);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("base/dataset_files");
    TCase *t = tcase_create("dataset_files");
    tcase_add_loop_test(t, a_shard_is_told_by_its_name, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_test(t, codecs_have_names);
    tcase_add_test(t, a_listing_is_freed_with_all_it_holds);
    suite_add_tcase(s, t);
    return s;
}
