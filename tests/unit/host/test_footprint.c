/* What a configuration takes of memory, and what is said when that is not there. */
#include "host/footprint.h"

#include "host/slots.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>
#include <string.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static struct lk_config config;
static struct lk_err err;

static void parse(const char *stages, const char *runtime)
{
    char *text = lk_format("streams: {s: {lanes: 8, batch: 64, sequence: 2048, tokenizer: {bytes: true},\n"
                           "  datasets: {d: {path: d}}, pipeline: [%s]}}\n"
                           "runtime: {workers: 4%s%s}\n", stages, runtime[0] != '\0' ? ", " : "", runtime);
    lk_config_done(&config);
    enum lk_code code = lk_config_parse("c.yaml", text, strlen(text), "/conf", &config, &err);
    ck_assert_msg(code == LK_OK, "%s", code == LK_OK ? "" : err.text);
    free(text);
}

static enum lk_code check(uint64_t there, char **ret_notes)
{
    char from[] = "a made-up machine";
    struct machine_memory memory = {there, from};
    struct lk_buf notes = {0};
    enum lk_code code = footprint_check(&config, &memory, &notes, &err);
    *ret_notes = lk_strdup(lk_buf_cstr(&notes));
    lk_buf_done(&notes);
    return code;
}

static void teardown(void)
{
    lk_config_done(&config);
}

START_TEST(an_arena_that_cannot_fit_is_refused_with_all_there_is_to_say)
{
    char *notes;
    parse("pack: {algorithm: concat}", "arena: 64GiB");
    ck_assert_int_eq(check(16 * GIB, &notes), LK_RESOURCE_EXHAUSTED);
    ck_assert_str_eq(err.text, "c.yaml: runtime.arena: 64GiB is more than the memory there is: 16.0 GiB (a made-up "
                               "machine); set it to what can be spared for tokens and ready batches");
    ck_assert_str_eq(notes, "");
    free(notes);
    ck_assert_int_eq(check(64 * GIB - 1, &notes), LK_RESOURCE_EXHAUSTED);
    free(notes);
    ck_assert_int_eq(check(64 * GIB, &notes), LK_OK); /* but there is no room for anything else */
    ck_assert_str_ne(notes, "");
    free(notes);
    parse("pack: {algorithm: concat}", "");
    ck_assert_int_eq(check(512 * MIB - 1, &notes), LK_OK); /* the default: nobody chose it */
    ck_assert_ptr_nonnull(strstr(notes, "(arena 512.0 MiB, "));
    free(notes);
}
END_TEST

START_TEST(an_arena_that_nobody_chose_or_of_a_private_daemon_becomes_smaller)
{
    char from[] = "a made-up machine";
    struct machine_memory there = {256 * MIB, from};
    struct lk_buf notes = {0};
    parse("pack: {algorithm: concat}", "");
    footprint_lower_arena(&config, &there, false, &notes);
    ck_assert_uint_eq(config.runtime.arena_bytes, 128 * MIB);
    ck_assert_str_eq(lk_buf_cstr(&notes), "c.yaml: runtime.arena: 512MiB (the default) is more than the memory there is: "
                                          "256.0 MiB (a made-up machine); half of that is used\n");
    notes.len = 0;
    footprint_lower_arena(&config, &there, true, &notes);
    parse("pack: {algorithm: concat}", "arena: 257MiB");
    footprint_lower_arena(&config, &there, false, &notes);
    ck_assert_uint_eq(config.runtime.arena_bytes, 257 * MIB);
    there = (struct machine_memory){.bytes = UINT64_MAX};
    footprint_lower_arena(&config, &there, true, &notes);
    ck_assert_uint_eq(notes.len, 0);
    there = (struct machine_memory){256 * MIB, from};
    footprint_lower_arena(&config, &there, true, &notes);
    ck_assert_uint_eq(config.runtime.arena_bytes, 128 * MIB);
    ck_assert_ptr_nonnull(strstr(lk_buf_cstr(&notes), "runtime.arena: 257MiB is more than the memory there is: 256.0 MiB ("));
    lk_buf_done(&notes);
}
END_TEST

START_TEST(from_nine_tenths_on_there_is_a_note_of_what_takes_it)
{
    struct footprint f;
    char *notes;
    parse("shuffle: {buffer: 1000}, pack: {algorithm: exact_fit, pool: 100}", "arena: 1GiB, cache: 128MiB");
    footprint_of(&config, &f);
    ck_assert_int_eq(check(f.total / 9 * 10 + 20, &notes), LK_OK);
    ck_assert_str_eq(notes, "");
    free(notes);
    ck_assert_int_eq(check(f.total / 9 * 10 - 20, &notes), LK_OK);
    ck_assert_msg(strstr(notes, "c.yaml: runtime: up to about 1.8 GiB may be taken (arena 1.0 GiB, training arrays up to ") == notes,
                  "%s", notes);
    ck_assert_msg(strstr(notes, "), and there are 2.1 GiB (a made-up machine), for trainers and all else, too; ") != NULL, "%s", notes);
    ck_assert_msg(strstr(notes, ", cache 128.0 MiB, counts.memory 256.0 MiB, daemon and workers about 448.0 MiB), and there are ") != NULL,
                  "%s", notes);
    free(notes);
    ck_assert_int_eq(check(UINT64_MAX, &notes), LK_OK);
    ck_assert_str_eq(notes, "");
    free(notes);
}
END_TEST

START_TEST(nothing_known_of_the_machine_is_no_reason_to_say_anything)
{
    struct lk_buf notes = {0};
    struct machine_memory memory;
    parse("pack: {algorithm: concat}", "arena: 1024GiB");
    machine_memory_read("/nowhere/at/all", &memory);
    ck_assert_int_eq(footprint_check(&config, &memory, &notes, &err), LK_OK);
    ck_assert_uint_eq(notes.len, 0);
    machine_memory_done(&memory);
}
END_TEST

START_TEST(the_total_is_the_sum_and_what_is_not_used_takes_nothing)
{
    struct footprint f;
    parse("pack: {algorithm: concat}", "arena: 100MiB, cache: 10MiB, counts: {memory: 20MiB}");
    footprint_of(&config, &f);
    ck_assert_uint_eq(f.arena, 100 * MIB);
    ck_assert_uint_eq(f.cache, 10 * MIB);
    ck_assert_uint_eq(f.counts, 20 * MIB);
    ck_assert_uint_eq(f.total, f.arena + f.training + f.state.usual + f.cache + f.counts + f.processes);
    ck_assert_uint_ge(f.state.most, f.state.usual);
    uint64_t four = f.processes;
    config.runtime.workers = 5;
    footprint_of(&config, &f);
    ck_assert_uint_gt(f.processes, four);
    config.runtime.workers = 0;
    config.runtime.counts_bytes = 0;
    footprint_of(&config, &f);
    ck_assert_uint_eq(f.cache, 0);
    ck_assert_uint_eq(f.counts, 0);
}
END_TEST

/* 100 MiB: half of it are 100 steps of 512 KiB, and 76 are wanted: 2 × (2 × 8 + 2) + 4 × (8 + 2). */
START_TEST(batch_memory_is_what_the_daemon_makes)
{
    struct footprint f;
    struct slots *slots;
    parse("pack: {algorithm: concat}", "arena: 100MiB");
    footprint_of(&config, &f);
    struct slots_grant grant = slots_granted(&config.runtime, 1, &config.stream[0]);
    ck_assert_uint_eq(grant.slots, 76);
    ck_assert_uint_eq(grant.leased_max, 20);
    ck_assert_uint_eq(grant.rows, 64);
    ck_assert_uint_eq(grant.step_bytes, 512 << 10);
    ck_assert_int_eq(slots_open(0, grant.slots, grant.leased_max, grant.rows, 2048, &slots, &err), LK_OK);
    ck_assert_uint_eq(slots_bytes(slots), grant.slots * slots_offset(slots, 1) + f.training);
    slots_close(slots);
    ck_assert_uint_eq(slots_granted(&config.runtime, 2, &config.stream[0]).slots, 50);
    ck_assert_uint_eq(slots_granted(&config.runtime, 100, &config.stream[0]).slots, 4);
}
END_TEST

START_TEST(what_may_be_taken_is_never_less_than_what_usually_is)
{
    static const char *const stages[] = {
        "pack: {algorithm: concat}",
        "shuffle: {buffer: 1048576}, pack: {algorithm: concat}",
        "pack: {algorithm: concat}, shuffle: {buffer: 100000}",
        "pack: {algorithm: exact_fit, pool: 100000}",
        "split: {max_tokens: 2048}, pack: {algorithm: best_fit, pool: 1000}",
        "split: {max_tokens: 8}, shuffle: {buffer: 2}, pack: {algorithm: first_fit, pool: 1}, shuffle: {buffer: 2}",
    };
    parse(stages[_i], "state: 900GiB");
    struct lk_state_bytes state = lk_recipe_state_bytes(&config.stream[0]);
    ck_assert_uint_gt(state.usual, 0);
    ck_assert_uint_ge(state.most, state.usual);
}
END_TEST

Suite *suite(void)
{
    Suite *suite_ = suite_create("host/footprint");
    TCase *t = tcase_create("footprint");
    tcase_add_checked_fixture(t, NULL, teardown);
    tcase_add_test(t, an_arena_that_cannot_fit_is_refused_with_all_there_is_to_say);
    tcase_add_test(t, an_arena_that_nobody_chose_or_of_a_private_daemon_becomes_smaller);
    tcase_add_test(t, from_nine_tenths_on_there_is_a_note_of_what_takes_it);
    tcase_add_test(t, nothing_known_of_the_machine_is_no_reason_to_say_anything);
    tcase_add_test(t, the_total_is_the_sum_and_what_is_not_used_takes_nothing);
    tcase_add_test(t, batch_memory_is_what_the_daemon_makes);
    tcase_add_loop_test(t, what_may_be_taken_is_never_less_than_what_usually_is, 0, 6);
    suite_add_tcase(suite_, t);
    return suite_;
}
