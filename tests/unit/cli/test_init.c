/* What `lanekeeper init` suggests for a survey, and how it writes names and paths. */
#include "client/cli/init_text.h"

#include "config/config.h"
#include "host/footprint.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>
#include <string.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static struct survey_dataset dataset_of(const char *name, const char *path, uint64_t rows, uint64_t text_bytes)
{
    struct survey_dataset d = {.name = lk_strdup(name), .path = lk_strdup(path), .rows = rows, .all_rows = rows,
                               .all_text_bytes = text_bytes, .n_fields = 1};
    d.field[0] = (struct survey_field){.path = lk_strdup("text"), .rows = rows, .bytes = text_bytes};
    return d;
}

static struct survey survey_of(uint32_t n)
{
    return (struct survey){.dataset = lk_zalloc(n, sizeof(struct survey_dataset)), .n = n, .usable = n};
}

START_TEST(usual_data_get_the_usual)
{
    const struct machine machine = {.processors = 16, .memory_bytes = 64 * GIB};
    struct survey survey = survey_of(1);
    survey.dataset[0] = dataset_of("docs", "/data/docs", 1000000, 4 * GIB);
    struct suggestion s = suggest(&survey, &machine, 4);
    ck_assert_uint_eq(s.lanes, 8);
    ck_assert_uint_eq(s.batch % s.lanes, 0);
    ck_assert_uint_eq(s.sequence, 2048);
    ck_assert_uint_eq(s.tokens, GIB);
    ck_assert_uint_eq(s.workers, 16);
    ck_assert(!s.some_workers && !s.drops);
    ck_assert_uint_eq(s.arena, 512 * MIB);
    ck_assert_uint_eq(s.cache, 256 * MIB);
    survey_done(&survey);
}
END_TEST

START_TEST(few_rows_get_fewer_lanes_and_little_text_shorter_sequences)
{
    const struct machine machine = {.processors = 2, .memory_bytes = 8 * GIB};
    struct survey survey = survey_of(2);
    survey.dataset[0] = dataset_of("a", "/a", 1000, 1000);
    survey.dataset[1] = dataset_of("b", "/b", 3, 300);
    struct suggestion s = suggest(&survey, &machine, 1);
    ck_assert_uint_eq(s.lanes, 2);
    ck_assert_uint_eq(s.rows_least, 3);
    ck_assert_uint_eq(s.sequence, 128);
    survey.dataset[1].trouble = lk_strdup("broken"); /* what is left out does not count */
    survey.dataset[0].bad_rows = 1;
    s = suggest(&survey, &machine, 1);
    ck_assert_uint_eq(s.lanes, 8);
    ck_assert(s.drops);
    survey_done(&survey);
}
END_TEST

/* Each worker's part of the cache has to hold the largest compressed shard. */
START_TEST(every_worker_has_room_for_the_largest_shard)
{
    for (uint64_t memory = 0; memory <= 64 * GIB; memory = memory == 0 ? GIB : 2 * memory) {
        for (uint64_t shard = 1; shard < 3 * GIB; shard *= 7) {
            const struct machine machine = {.processors = 8, .memory_bytes = memory};
            struct survey survey = survey_of(1);
            survey.dataset[0] = dataset_of("a", "/a", 100000, 10 * GIB);
            survey.dataset[0].decoded_max = shard;
            struct suggestion s = suggest(&survey, &machine, 4);
            ck_assert(s.workers >= 1 && s.workers <= 8);
            ck_assert_uint_ge(s.cache / s.workers, 2 * shard);
            ck_assert(s.some_workers == (s.workers < 8));
            if (s.workers > 1 && memory > 0)
                ck_assert_uint_le(2 * shard * s.workers, memory / 2);
            ck_assert_uint_ge(s.arena, 16ull * s.batch * s.sequence);
            survey_done(&survey);
        }
    }
}
END_TEST

/* Small machines and containers, too, get a configuration that the daemon finds nothing to note of. */
START_TEST(what_is_suggested_fits_the_machine)
{
    static const uint64_t sizes[] = {GIB / 2, GIB, 2 * GIB, 4 * GIB, 16 * GIB, 256 * GIB};
    static const unsigned processors[] = {1, 2, 5, 16, 64, 256};
    const struct found_tokenizers none = {.n = 0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < sizeof processors / sizeof *processors; k++) {
            char from[] = "a made-up machine";
            const struct machine machine = {.processors = processors[k], .memory_bytes = sizes[i]};
            const struct machine_memory there = {sizes[i], from};
            struct survey survey = survey_of(1);
            struct lk_buf out = {0}, notes = {0};
            struct lk_config config;
            struct lk_err err;
            survey.dataset[0] = dataset_of("a", "/a", 100000, 10 * GIB);
            survey.dataset[0].decoded_max = k % 2 == 0 ? 0 : 20 * MIB;
            const struct suggestion s = suggest(&survey, &machine, 4);
            init_text(&out, "/somewhere", &survey, &none, &s);
            enum lk_code code = lk_config_parse("x", out.data, out.len, "/somewhere", &config, &err);
            ck_assert_msg(code == LK_OK, "%s", err.text);
            if (!s.some_workers)
                config.runtime.workers = processors[k]; /* `cores`, which here are others */
            ck_assert_int_eq(footprint_check(&config, &there, &notes, &err), LK_OK);
            ck_assert_msg(notes.len == 0, "%u processors: %s", processors[k], lk_buf_cstr(&notes));
            lk_config_done(&config);
            lk_buf_done(&out);
            lk_buf_done(&notes);
            survey_done(&survey);
        }
    }
}
END_TEST

/* Names of files are not to be trusted: whatever they are, the file says what is meant. */
START_TEST(any_path_and_field_is_read_back_as_it_was)
{
    static const char *const names[] = {"plain", "with space", "a: b", "a #b", "\"quoted\"", "it's", "{x}", "[y]", "- z",
                                        "line\nend", "tab\tbed", "stra\xc3\x9f\xc3\xa9", "back\\\\slash", "true", "12", "*", "&a", "!t", "%d"};
    const struct machine machine = {.processors = 2, .memory_bytes = 8 * GIB};
    const struct found_tokenizers none = {.n = 0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct survey survey = survey_of(2);
        struct lk_buf out = {0};
        struct lk_config config;
        struct lk_err err;
        char *path = lk_format("/nowhere/%s", names[i]);
        survey.dataset[0] = dataset_of("a", path, 100, 10000);
        survey.dataset[1] = dataset_of("b", "/b", 100, 10000);
        free(survey.dataset[0].field[0].path);
        survey.dataset[0].field[0].path = lk_strdup(names[i]);
        survey.dataset[0].bad = lk_format("%s: row 1", path);
        survey.dataset[1].trouble = lk_strdup(path);
        const struct suggestion s = suggest(&survey, &machine, 1);
        init_text(&out, "/somewhere", &survey, &none, &s);
        enum lk_code code = lk_config_parse("x", out.data, out.len, "/somewhere", &config, &err);
        ck_assert_msg(code == LK_OK, "%s: %s\n%s", names[i], err.text, lk_buf_cstr(&out));
        ck_assert_uint_eq(config.stream[0].n_datasets, 1);
        ck_assert_str_eq(config.stream[0].dataset[0].path, path);
        ck_assert_str_eq(config.stream[0].dataset[0].text, names[i]);
        lk_config_done(&config);
        lk_buf_done(&out);
        survey_done(&survey);
        free(path);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("init");
    TCase *c = tcase_create("init");
    tcase_add_test(c, usual_data_get_the_usual);
    tcase_add_test(c, few_rows_get_fewer_lanes_and_little_text_shorter_sequences);
    tcase_add_test(c, every_worker_has_room_for_the_largest_shard);
    tcase_add_test(c, what_is_suggested_fits_the_machine);
    tcase_add_test(c, any_path_and_field_is_read_back_as_it_was);
    suite_add_tcase(s, c);
    return s;
}
