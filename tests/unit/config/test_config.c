/* What is accepted and what it becomes; what is refused, where and why (RC-079, RC-110, RC-128, RC-129). */
#include "tests/unit/config/sample.h"

#include "config/keys.h"
#include "config/section.h"
#include "tests/lib/check_main.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

START_TEST(the_sample_becomes_the_recipe_it_describes)
{
    struct lk_config config;
    must_parse(sample, &config);
    ck_assert_uint_eq(config.n_streams, 1);
    const struct lk_recipe *r = lk_config_stream(&config, "pretrain");
    ck_assert_ptr_nonnull(r);
    ck_assert_ptr_null(lk_config_stream(&config, "other"));
    ck_assert_uint_eq(r->seed, 1);
    ck_assert_uint_eq(r->lanes, 8);
    ck_assert_uint_eq(r->sequence, 2048);
    ck_assert_uint_eq(r->n_batches, 1);
    ck_assert_uint_eq(r->batch[0].size, 64);
    ck_assert_int_eq(r->tokenizer.source, LK_TOKENISE_HF);
    ck_assert_str_eq(r->tokenizer.path, "/conf/gpt2/tokenizer.json");
    ck_assert_str_eq(r->tokenizer.append, "eos");
    ck_assert_ptr_null(r->tokenizer.prepend);
    ck_assert_int_eq(r->tokenizer.special_in_text, LK_SPECIALS_SPLIT);
    ck_assert_int_eq(r->mixture, LK_MEASURE_TOKENS);
    ck_assert_uint_eq(r->block_rows, 256);
    ck_assert(r->permute_blocks && r->permute_rows);
    ck_assert_int_eq(r->on_bad_row, LK_BAD_ERROR);
    ck_assert(!r->drop_crashing);
    ck_assert_uint_eq(r->n_filters, 1);
    ck_assert_uint_eq(r->filter[0].min_bytes, 64);
    ck_assert_uint_eq(r->filter[0].max_bytes, 2097152);
    ck_assert_uint_eq(r->filter[0].min_tokens, 0);
    ck_assert_uint_eq(r->filter[0].max_tokens, UINT64_MAX);
    ck_assert_ptr_null(r->filter[0].field);
    ck_assert_uint_eq(r->n_stages, 3);
    ck_assert_int_eq(r->stage[0].kind, LK_STAGE_SPLIT);
    ck_assert_uint_eq(r->stage[0].max_tokens, 8192);
    ck_assert_int_eq(r->stage[1].kind, LK_STAGE_SHUFFLE);
    ck_assert_uint_eq(r->stage[1].buffer, 1024);
    ck_assert_int_eq(r->stage[2].kind, LK_STAGE_PACK);
    ck_assert_int_eq(r->stage[2].algorithm, LK_PACK_EXACT_FIT);
    ck_assert_uint_eq(r->stage[2].pool, 512);
    ck_assert_uint_eq(r->stage[2].groups, 1);
    ck_assert_int_eq(r->tail, LK_TAIL_DROP);
    ck_assert_str_eq(config.notes, "");
    lk_config_done(&config);
    lk_config_done(&config);
}
END_TEST

START_TEST(datasets_are_in_the_order_of_their_names)
{
    struct lk_config config;
    must_parse(sample, &config);
    const struct lk_recipe *r = &config.stream[0];
    ck_assert_uint_eq(r->n_datasets, 3);
    ck_assert_str_eq(r->dataset[0].name, "code");
    ck_assert_str_eq(r->dataset[0].path, "/data/code/");
    ck_assert_str_eq(r->dataset[0].text, "body.content");
    ck_assert_uint_eq(r->dataset[0].weight, 2);
    ck_assert_int_eq(r->dataset[0].then, LK_THEN_REPEAT);
    ck_assert_uint_eq(r->dataset[0].epochs, 0);
    ck_assert_str_eq(r->dataset[1].name, "docs");
    ck_assert_str_eq(r->dataset[1].path, "/conf/data/docs/*.jsonl");
    ck_assert_str_eq(r->dataset[2].name, "man");
    ck_assert_str_eq(r->dataset[2].text, "text");
    ck_assert_uint_eq(r->dataset[2].epochs, 2);
    ck_assert_int_eq(r->dataset[2].then, LK_THEN_RELEASE);
    char *index = lk_config_index_path(&config, &r->dataset[0]);
    ck_assert_str_eq(index, "/conf/index/code.lkindex");
    free(index);
    lk_config_done(&config);
}
END_TEST

START_TEST(runtime_settings_have_their_defaults)
{
    struct lk_config config;
    must_parse(sample, &config);
    const struct lk_runtime *run = &config.runtime;
    ck_assert_str_eq(run->run_dir, "/conf/run");
    ck_assert_uint_eq(run->n_listen, 1);
    ck_assert_str_eq(run->listen[0], "ipc:///conf/run/lanekeeper.sock");
    ck_assert_str_eq(run->fd_socket, "/conf/run/memory.sock");
    ck_assert_ptr_null(run->http);
    ck_assert_ptr_null(run->workers_listen);
    ck_assert_uint_eq(run->workers, 2);
    ck_assert_uint_eq(run->arena_bytes, 512u << 20);
    ck_assert_uint_eq(run->prefetch_steps, 8);
    ck_assert_str_eq(run->snapshot_dir, "/conf/snaps");
    ck_assert_uint_eq(run->snapshot_every, 100);
    ck_assert_uint_eq(run->snapshot_keep, 8);
    ck_assert_str_eq(run->counts_dir, "/conf/counts");
    ck_assert_uint_eq(run->counts_bytes, 4ull << 30);
    ck_assert_uint_eq(run->counts_memory, 256u << 20);
    ck_assert_int_eq(run->log_level, LK_LOG_INFO);
    ck_assert_uint_eq(run->drain_timeout_ms, 10000);
    lk_config_done(&config);
    must_parse_with("workers: 2", "workers: cores", &config);
    ck_assert_uint_ge(config.runtime.workers, 1);
    ck_assert_uint_le(config.runtime.workers, LK_WORKERS_MAX);
    lk_config_done(&config);
}
END_TEST

/* Every default of the table is a value that the table itself accepts, and has a help text. */
START_TEST(the_reference_names_every_key_once)
{
    struct lk_buf text = {0};
    size_t n;
    const struct lk_key *keys = lk_keys(&n);
    lk_config_reference(&text);
    ck_assert_uint_gt(n, 50);
    for (size_t i = 0; i < n; i++) {
        ck_assert_ptr_nonnull(keys[i].help);
        ck_assert_msg(strstr(lk_buf_cstr(&text), keys[i].help) != NULL, "%s", keys[i].path);
        for (size_t j = 0; j < i; j++)
            ck_assert_str_ne(keys[i].path, keys[j].path);
    }
    ck_assert_ptr_nonnull(strstr(lk_buf_cstr(&text), "| `lanes` | an integer from 1 to 4096 | `8` |"));
    lk_buf_done(&text);
}
END_TEST

/* ---- mistakes ---- */

static const struct mistake mistakes[] = {
    /* RC-129: unknown, misplaced and duplicate keys */
    {"sequence:", "seq_len:", "c.yaml:6:5: streams.pretrain.seq_len: unknown key; did you mean \"sequence\"?"},
    {"sequence:", "seq_length:", "unknown key; did you mean \"sequence\"?"},
    {"sequence:", "sequence-length:", "unknown key; did you mean \"sequence\"?"},
    {"sequence:", "\"sequence \":", "streams.pretrain.sequence : unknown key; did you mean \"sequence\"?"},
    {"seed: 1", "sed: 1", "c.yaml:3:5: streams.pretrain.sed: unknown key; did you mean \"seed\"?"},
    {"seed: 1", "Seed: 1", "did you mean \"seed\"?"},
    {"seed: 1", "zzzzz: 1", "streams.pretrain.zzzzz: unknown key"},
    {"  workers: 2", "  lanes: 2", "c.yaml:20:3: runtime.lanes: unknown key here; it belongs at \"streams.*.lanes\""},
    {"seed: 1", "arena: 1GiB", "unknown key here; it belongs at \"runtime.arena\""},
    {"runtime:", "run_time:", "run_time: unknown key; did you mean \"runtime\"?"},
    {"lanes: 8", "seed: 8", "c.yaml:4:5: key \"seed\" is given twice (first on line 3)"},
    {"      man:", "      docs:", "key \"docs\" is given twice"},
    {"weight: 5", "wieght: 5", "streams.pretrain.datasets.docs.wieght: unknown key; did you mean \"weight\"?"},
    {"- split", "- splitt", "streams.pretrain.pipeline[1].splitt: unknown stage…did you mean \"split\"?"},
    {"buffer: 1024", "buffr: 1024", "pipeline[2].shuffle.buffr: unknown key; did you mean \"buffer\"?"},
    {"    seed: 1\n", "\tseed: 1\n", "tab"},
    /* RC-128: types */
    {"lanes: 8", "lanes: 8.0", "c.yaml:4:12: streams.pretrain.lanes: expected an integer from 1 to 4096, found \"8.0\" (write it without a point)"},
    {"lanes: 8", "lanes: 8.7", "found \"8.7\""},
    {"lanes: 8", "lanes: 010", "octal"},
    {"lanes: 8", "lanes: 0x8", "found \"0x8\""},
    {"lanes: 8", "lanes: 1_000", "found \"1_000\""},
    {"lanes: 8", "lanes: 1e3", "found \"1e3\""},
    {"lanes: 8", "lanes: -1", "found \"-1\" (it is negative)"},
    {"lanes: 8", "lanes: ''", "found the quoted text \"\""},
    {"lanes: 8", "lanes: '8'", "found the quoted text \"8\""},
    {"lanes: 8", "lanes: ' 8'", "found the quoted text \" 8\""},
    {"lanes: 8", "lanes:", "found nothing"},
    {"lanes: 8", "lanes: ~", "found \"~\""},
    {"lanes: 8", "lanes: [8]", "found a list"},
    {"lanes: 8", "lanes: {a: 8}", "found a mapping"},
    {"lanes: 8", "lanes: 0", "found \"0\" (too small)"},
    {"lanes: 8", "lanes: 4097", "found \"4097\" (too large)"},
    {"lanes: 8", "lanes: 4294967297", "too large"},
    {"seed: 1", "seed: 18446744073709551616", "64 bits"},
    {"shuffle_rows: true", "shuffle_rows: yes", "streams.pretrain.order.shuffle_rows: expected true or false, found \"yes\""},
    {"shuffle_rows: true", "shuffle_rows: True", "found \"True\""},
    {"shuffle_rows: true", "shuffle_rows: 1", "found \"1\""},
    {"shuffle_rows: true", "shuffle_rows: 'true'", "found the quoted text"},
    {"shuffle_rows: true", "shuffle_rows: off", "found \"off\""},
    {"arena: 512MiB", "arena: 512mb", "runtime.arena: expected a size from 1MiB to 1TiB, found \"512mb\"…units"},
    {"arena: 512MiB", "arena: 1.5GiB", "found \"1.5GiB\""},
    {"arena: 512MiB", "arena: 64KiB", "too small"},
    {"mixture: tokens", "mixture: token", "expected \"tokens\", \"bytes\" or \"samples\", found \"token\"; did you mean \"tokens\"?"},
    {"order: {block_rows: 256, shuffle_rows: true}", "order: shuffled", "streams.pretrain.order: expected a mapping, found \"shuffled\""},
    {"block_rows: 256", "block_rows: shards", "or \"shard\", found \"shards\""},
    {"text: body.content", "text: body..content", "a part of the path is empty"},
    {"text: body.content", "text: ''", "found the quoted text \"\" (too short)"},
    /* RC-079: weights */
    {"weight: 5", "weight: -5", "c.yaml:9:…streams.pretrain.datasets.docs.weight: expected a number…found \"-5\" (it is negative)"},
    {"weight: 5", "weight: .nan", "found \".nan\""},
    {"weight: 5", "weight: NaN", "found \"NaN\""},
    {"weight: 5", "weight: .inf", "found \".inf\""},
    {"weight: 5", "weight: 1e-320", "exponent"},
    {"weight: 5", "weight: 999999999.999999999", "sum to more than 4294967296: round them"},
    /* required and contradictory */
    {"    sequence: 2048\n", "", "c.yaml:2:3: streams.pretrain.sequence: missing: tokens in a sequence"},
    {"path: /data/code/, ", "", "streams.pretrain.datasets.code.path: missing"},
    {"batch: 64", "batch: 60", "c.yaml:5:12: streams.pretrain.batch: expected a multiple of lanes (8), found 60"},
    {"batch: 64", "batch: 65544", "too large"},
    {"batch: 64", "batch: []", "expected 1 to 4096 entries, found 0"},
    {"batch: 64", "batch: {from: 0, size: 8}", "found a mapping"},
    {"batch: 64", "batch: [{from: 1, size: 8}]", "batch[0]: expected \"from: 0\" in the first entry, found 1"},
    {"batch: 64", "batch: [{from: 0, size: 8}, {from: 0, size: 16}]", "batch[1]: expected \"from\" above"},
    {"batch: 64", "batch: [{from: 0, size: 8}, {from: 9, size: 12}]", "multiple of lanes (8), found 12"},
    {"batch: 64", "batch: [{from: 0}]", "batch[0].size: missing"},
    {"batch: 64", "batch: [64]", "expected a mapping {from: step, size: sequences}"},
    {"hf: gpt2/tokenizer.json, ", "", "tokenizer: expected exactly one of"},
    {"hf: gpt2/tokenizer.json", "hf: a, bytes: true", "tokenizer: expected exactly one of"},
    {"hf: gpt2/tokenizer.json", "pair: {vocab: v.json}", "expected both \"vocab\" and \"merges\""},
    {"hf: gpt2/tokenizer.json", "tiktoken: {path: r.tiktoken}", "expected both \"path\" and \"scheme\""},
    {"append: eos", "tiktoken: {path: r, scheme: gpt2}", "expected exactly one of"},
    {"append: eos", "special_in_text: refuse", "\"split\", \"text\" or \"error\""},
    {"hf: gpt2/tokenizer.json", "bytes: false", "expected exactly one of"},
    {"hf: gpt2/tokenizer.json, append: eos", "hf: a, append: ''", "append: expected a text"},
    {"epochs: 2, then: release", "epochs: 2, then: repeat", "\"repeat\" means passes without end"},
    {"epochs: 2", "epochs: 0", "too small"},
    {"then: release", "then: releas", "did you mean \"release\"?"},
    {"      docs:", "      'do cs':", "datasets.do cs: expected a name"},
    {"      docs:", "      .docs:", "expected a name"},
    {"  pretrain:", "  'pre/train':", "streams.pre/train: expected a name"},
    /* the pipeline */
    {"      - pack: {algorithm: exact_fit, pool: 512}\n", "", "pipeline: expected a \"pack\" stage, found none"},
    {"- shuffle: {buffer: 1024}", "- pack: {algorithm: concat}", "pipeline[3].pack: expected at most one of this stage"},
    {"- filter: {min_bytes: 64, max_bytes: 2MiB}", "- split: {max_tokens: 9}", "pipeline[1].split: expected at most one"},
    {"      - split: {max_tokens: 8192}\n      - shuffle: {buffer: 1024}\n      - pack: {algorithm: exact_fit, pool: 512}\n",
     "      - pack: {algorithm: concat}\n      - split: {max_tokens: 8192}\n", "pipeline[2].split: split comes before pack"},
    {"- shuffle: {buffer: 1024}", "- filter: {min_bytes: 1}", "pipeline[2].filter: filters come before"},
    {"{min_bytes: 64, max_bytes: 2MiB}", "{}", "expected at least one condition"},
    {"{min_bytes: 64, max_bytes: 2MiB}", "{min_bytes: 3MiB, max_bytes: 2MiB}", "min_bytes is above max_bytes"},
    {"{min_bytes: 64, max_bytes: 2MiB}", "{min_tokens: 3, max_tokens: 2}", "min_tokens is above max_tokens"},
    {"{min_bytes: 64, max_bytes: 2MiB}", "{field: lang}", "expected \"field\" and \"equals\" together"},
    {"{max_tokens: 8192}", "8192", "pipeline[1].split: expected a mapping {max_tokens: …}, found \"8192\""},
    {"{max_tokens: 8192}", "{}", "pipeline[1].split.max_tokens: missing"},
    {"buffer: 1024", "buffer: 1", "too small"},
    {"algorithm: exact_fit, pool: 512", "algorithm: concat, pool: 512", "\"concat\" has no pool"},
    {"algorithm: exact_fit", "algorithm: first_fit", "first_fit never cuts a record: expected a \"split\""},
    {"algorithm: exact_fit", "algorithm: best_fit", "best_fit never cuts a record"},
    {"pool: 512", "within: datasets", "pack.within: expected \"all\", \"dataset\" or {groups"},
    {"pool: 512", "within: {group: [[docs]]}", "unknown key; did you mean \"groups\"?"},
    {"pool: 512", "within: {groups: [[docs, man]]}", "dataset \"code\" is in no group"},
    {"pool: 512", "within: {groups: [[docs, man, code], [man]]}", "dataset \"man\" is in two groups"},
    {"pool: 512", "within: {groups: [[docs, man, code, web]]}", "found \"web\""},
    {"pool: 512", "within: {groups: [docs]}", "expected a list of dataset names"},
    {"pool: 512", "within: {groups: []}", "expected a list of lists"},
    {"- shuffle: {buffer: 1024}", "- shuffle", "pipeline[2]: expected one stage"},
    /* YAML that is not wanted */
    {"seed: 1", "seed: &a 1", "c.yaml:3:11: anchors"},
    {"seed: 1", "seed: *a", "aliases"},
    {"seed: 1", "<<: {seed: 1}", "merge keys"},
    {"seed: 1", "seed: !!int 1", "tags"},
    {"seed: 1", "[seed]: 1", "expected a key"},
    {"text: body.content", "text: \"a\\0b\"", "NUL"},
    {"text: body.content", "text: 'a\\b'", "a backslash stands before a point"},
    {"runtime:", "---\nruntime:", "c.yaml:19:1: a second document begins here"},
    {"seed: 1", "seed: 'x", "not valid YAML"},
    {"seed: 1", "seed: \xFF", "c.yaml:3:11: expected UTF-8"},
    {"seed: 1", "seed: [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]", "nested too deeply"},
    /* RC-110: addresses */
    {"  workers: 2", "  listen: tcp://127.0.0.1:70000", "runtime.listen: expected an address…the port is not a number from 0 to 65535"},
    {"  workers: 2", "  listen: tcp://127.0.0.1:-1", "the port is not a number"},
    {"  workers: 2", "  listen: \"tcp://127.0.0.1:\"", "the port is not a number"},
    {"  workers: 2", "  listen: tcp://127.0.0.1", "the port is missing"},
    {"  workers: 2", "  listen: tcp://::1:7000", "in brackets"},
    {"  workers: 2", "  listen: \"tcp://[::1]\"", "the port is missing"},
    {"  workers: 2", "  listen: \"tcp://[::1:70\"", "bracket is not closed"},
    {"  workers: 2", "  listen: \"tcp://[::zz]:70\"", "not an IPv6 address"},
    {"  workers: 2", "  listen: \"tcp://:7000\"", "0.0.0.0 means every interface"},
    {"  workers: 2", "  listen: tcp://256.0.0.1:70", "not an IPv4 address"},
    {"  workers: 2", "  listen: tcp://a b:70", "neither an address nor a name"},
    {"  workers: 2", "  listen: 127.0.0.1:70", "neither ipc:// nor tcp://"},
    {"  workers: 2", "  listen: tls+tcp://a:70", "TLS is not supported"},
    {"  workers: 2", "  listen: ''", "neither ipc:// nor tcp://"},
    {"  workers: 2", "  listen: ipc://", "the path is missing"},
    {"  workers: 2", "  listen: []", "found a list"},
    {"  workers: 2", "  listen: [tcp://a:1, tcp://a:1]", "runtime.listen[1]: this address is given twice"},
    {"  workers: 2",
     "  listen: ipc:///aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     "longer than 107 bytes"},
    {"  workers: 2",
     "  run_dir: /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     "longer than 107 bytes; set \"run_dir\""},
    {"  workers: 2", "  http: 8080", "expected host:port, found \"8080\" (the port is missing)"},
    {"  workers: 2", "  workers: 0", "nothing could be read"},
    {"  workers: 2", "  workers: 257", "too large"},
    {"  workers: 2", "  workers_listen: tcp://0.0.0.0:7000", "worker_token_file"},
    {"  workers: 2", "  workers_listen: tcp://127.0.0.1:0", "worker_token_file"},
    {"  workers: 2", "  stall_timeout: 30", "needs one of the units"},
    {"sequence: 2048", "sequence: 1048577", "too large"},
    {"  workers: 2", "  listen: \"tcp://[fe80::1%]:70\"", "the zone after % is empty"},
    {"  workers: 2", "  listen: {a: b}", "found a mapping"},
    {"  workers: 2", "  listen: [[a]]", "runtime.listen[0]: expected an address"},
    {"  workers: 2", "  http: [a]", "runtime.http: expected host:port, found a list"},
    {"pool: 512", "within: [docs]", "expected \"all\", \"dataset\" or {groups"},
    {"pool: 512", "within: {groups: [[[docs]]]}", "expected the name of a dataset"},
    {"mixture: tokens",
     "mixture: äääääääääääääääääääääääääääääääääääääääääääääääääääää",
     "found \"ääääääääääääääääääääääääääääää\xE2\x80\xA6\""},
};

START_TEST(a_mistake_is_named_with_place_key_and_reason)
{
    const struct mistake *row = &mistakes[_i];
    must_fail_with(row->find, row->replace, row->want);
}
END_TEST

START_TEST(steps_that_cannot_fit_the_arena_are_refused)
{
    /* 64 × 524,288 tokens of 4 bytes are 128 MiB. */
    char *text = sample_with("sequence: 2048", "sequence: 524288");
    struct lk_config config;
    must_parse(text, &config);
    lk_config_done(&config);
    char *arena = strstr(text, "512MiB");
    memcpy(arena, "511MiB", 6);
    must_fail(text, "runtime: arena: expected room for four steps of stream \"pretrain\" "
                    "(536870912 bytes), found 511MiB");
    free(text);
}
END_TEST

START_TEST(buffers_that_cannot_fit_their_budget_are_refused)
{
    /* 8 lanes of 1,048,576 records of 64 bytes, and more: above 512 MiB. */
    char *text = sample_with("buffer: 1024", "buffer: 1048576");
    struct lk_config config;
    must_parse(text, &config);
    lk_config_done(&config);
    char *tight = lk_format("%s  state: 512MiB\n", text);
    must_fail(tight, "runtime: state: expected room for the lanes' buffers");
    free(tight);
    free(text);
}
END_TEST

static const struct {
    const char *url, *want;
} addresses[] = {
    {"tcp://127.0.0.1:0", "tcp://127.0.0.1:0"},
    {"tcp://0.0.0.0:65535", "tcp://0.0.0.0:65535"},
    {"tcp://localhost:7070", "tcp://localhost:7070"},
    {"tcp://node-7.cluster.example:7070", "tcp://node-7.cluster.example:7070"},
    {"\"tcp://[::1]:7070\"", "tcp://[::1]:7070"},
    {"\"tcp://[::ffff:127.0.0.1]:7070\"", "tcp://[::ffff:127.0.0.1]:7070"},
    {"\"tcp://[fe80::1%lo]:7070\"", "tcp://[fe80::1%lo]:7070"},
    {"ipc:///run/lk.sock", "ipc:///run/lk.sock"},
    {"ipc://lk.sock", "ipc:///conf/lk.sock"},
};

START_TEST(addresses_of_every_documented_form_are_accepted)
{
    struct lk_config config;
    char *line = lk_format("  listen: [%s]", addresses[_i].url);
    must_parse_with("  workers: 2", line, &config);
    ck_assert_uint_eq(config.runtime.n_listen, 1);
    ck_assert_str_eq(config.runtime.listen[0], addresses[_i].want);
    lk_config_done(&config);
    free(line);
}
END_TEST

START_TEST(empty_files_and_other_roots_are_refused)
{
    must_fail("", "c.yaml: the file is empty");
    must_fail("# only a comment\n", "the file is empty");
    must_fail("---\n", "expected a mapping with the keys…found nothing");
    must_fail("- a\n", "found a list");
    must_fail("hello\n", "found a text");
    must_fail("runtime: {}\n", "streams: missing");
    must_fail("streams: {}\n", "streams: expected 1 to 64 streams, found 0");
    must_fail("streams:\n", "streams: expected a mapping of stream names to recipes, found nothing");
    must_fail("streams: {a: 1}\n", "streams.a: expected a mapping");
}
END_TEST

START_TEST(crlf_and_a_byte_order_mark_change_nothing)
{
    struct lk_buf text = {0};
    struct lk_config config;
    lk_buf_puts(&text, "\xEF\xBB\xBF");
    for (const char *p = sample; *p != '\0'; p++)
        lk_buf_put(&text, *p == '\n' ? "\r\n" : p, *p == '\n' ? 2 : 1);
    must_parse(lk_buf_cstr(&text), &config);
    ck_assert_str_eq(config.stream[0].dataset[1].path, "/conf/data/docs/*.jsonl");
    ck_assert_uint_eq(config.stream[0].sequence, 2048);
    lk_config_done(&config);
    lk_buf_done(&text);
}
END_TEST

START_TEST(control_characters_of_the_file_do_not_reach_the_message)
{
    struct lk_config config;
    struct lk_err err;
    char *text = sample_with("seed: 1", "seed: \"\\e[31m\"");
    ck_assert_int_eq(parse_text(text, &config, &err), LK_INVALID_ARGUMENT);
    ck_assert_ptr_null(strchr(err.text, '\x1b'));
    free(text);
}
END_TEST

/* ---- files ---- */

static const struct {
    const char *dir, *path, *want;
} paths[] = {
    {"/a/b", "c", "/a/b/c"},
    {"/a/b/", "c", "/a/b/c"},
    {"/a/b", "/c", "/c"},
    {"/a/b", "../c", "/a/c"},
    {"/a/b", "../../c", "/c"},
    {"/a/b", "../../../c", "/c"},
    {"/a/b", "./c", "/a/b/c"},
    {"/a/b", ".././../c", "/c"},
    {"/a/b", "..c", "/a/b/..c"},
    {"/a/b", "c/../d", "/a/b/c/../d"}, /* c may be a link: the system decides */
    {"/a/b", "..", "/a/b/.."},
    {"/a/b", ".././", "/a/"},
    {"/", "c", "/c"},
    {"/", "../c", "/c"},
    {".", "../c", "./../c"},
    {"", "c", "c"},
    {NULL, "../c", "../c"},
};

START_TEST(paths_resolve_against_a_folder)
{
    char *path = lk_path_resolve(paths[_i].dir, paths[_i].path);
    ck_assert_str_eq(path, paths[_i].want);
    free(path);
}
END_TEST

static char *scratch_dir(void)
{
    char *dir = lk_strdup("/tmp/lk-config-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    return dir;
}

static void write_file(const char *path, const char *text, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, n), (ssize_t)n);
    (void)close(fd);
}

START_TEST(relative_paths_start_from_the_files_folder)
{
    char *dir = scratch_dir(), *path = lk_format("%s/c.yaml", dir);
    char *want = lk_format("%s/data/man/", dir);
    struct lk_config config;
    struct lk_err err;
    write_file(path, sample, strlen(sample));
    ck_assert_int_eq(lk_config_load(path, &config, &err), LK_OK);
    ck_assert_str_eq(config.dir, dir);
    ck_assert_str_eq(config.path, path);
    ck_assert_str_eq(config.stream[0].dataset[2].path, want);
    lk_config_done(&config);
    (void)unlink(path);
    (void)rmdir(dir);
    free(want);
    free(path);
    free(dir);
}
END_TEST

START_TEST(a_folder_a_missing_file_and_a_huge_one_are_refused)
{
    char *dir = scratch_dir(), *path = lk_format("%s/c.yaml", dir);
    size_t n = (1u << 20) + 1;
    char *huge = lk_alloc(n);
    struct lk_config config;
    struct lk_err err;
    ck_assert_int_eq(lk_config_load(dir, &config, &err), LK_INVALID_ARGUMENT);
    message_has(err.text, dir);
    message_has(err.text, "found a folder");
    ck_assert_int_eq(lk_config_load(path, &config, &err), LK_NOT_FOUND);
    message_has(err.text, path);
    memset(huge, '#', n);
    write_file(path, huge, n);
    ck_assert_int_eq(lk_config_load(path, &config, &err), LK_INVALID_ARGUMENT);
    message_has(err.text, "expected at most 1MiB");
    (void)unlink(path);
    (void)rmdir(dir);
    free(huge);
    free(path);
    free(dir);
}
END_TEST

static char *repeated(const char *piece, unsigned times)
{
    struct lk_buf text = {0};
    for (unsigned i = 0; i < times; i++)
        lk_buf_puts(&text, piece);
    (void)lk_buf_cstr(&text);
    return (char *)text.data;
}

START_TEST(limits_on_counts_and_lengths_are_named)
{
    static const struct {
        const char *find, *before, *piece;
        unsigned times;
        const char *want;
    } rows[] = {
        {"      - split", "", "      - filter: {min_bytes: 1}\n", 16, "expected at most 16 filters"},
        {"      - split", "", "      - shuffle: {}\n", 9, "expected at most 8 stages"},
        {"seed: 1", "seed: [", "1,", 9000, "too many entries (8192 at most)"},
        {"text: body", "text: body", "y", 1100, "(too long)"},
        {"pretrain:", "p", "e", 70, "expected a name of 1 to 64"},
        {"  workers: 2", "  listen: tcp://", "a", 300, "the port is missing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *pieces = repeated(rows[i].piece, rows[i].times);
        const char *after = rows[i].before[0] == '\0' ? rows[i].find
                            : rows[i].find[0] == 'p'   ? ":"
                                                       : "";
        char *replace = lk_format("%s%s%s", rows[i].before, pieces, after);
        must_fail_with(rows[i].find, replace, rows[i].want);
        free(replace);
        free(pieces);
    }
}
END_TEST

START_TEST(a_point_inside_a_key_is_escaped)
{
    struct lk_config config;
    must_parse_with("text: body.content", "text: 'a\\.b.c'", &config);
    ck_assert_str_eq(config.stream[0].dataset[0].text, "a\\.b.c");
    lk_config_done(&config);
}
END_TEST

START_TEST(datasets_of_one_name_have_one_path_in_all_streams)
{
    static const char second[] = "  validation:\n"
                                 "    batch: 8\n"
                                 "    sequence: 512\n"
                                 "    tokenizer: {bytes: true}\n"
                                 "    datasets: {docs: {path: other}}\n"
                                 "    pipeline: [pack: {algorithm: concat}]\n"
                                 "runtime:\n";
    struct lk_config config;
    char *same = replaced(second, "{docs: {path: other}}",
                          "{docs: {path: \"data/docs/*.jsonl\"}, code: {path: /data/code/}, new: {path: n}}");
    must_parse_with("runtime:\n", same, &config);
    free(same);
    ck_assert_uint_eq(config.n_streams, 2);
    ck_assert_ptr_nonnull(lk_config_stream(&config, "validation"));
    lk_config_done(&config);
    must_fail_with("runtime:\n", second,
                   "streams.validation.datasets.docs: expected the path…in stream \"pretrain\"");
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("config/config");
    TCase *t = tcase_create("config");
    tcase_add_test(t, the_sample_becomes_the_recipe_it_describes);
    tcase_add_test(t, datasets_are_in_the_order_of_their_names);
    tcase_add_test(t, runtime_settings_have_their_defaults);
    tcase_add_test(t, the_reference_names_every_key_once);
    tcase_add_loop_test(t, a_mistake_is_named_with_place_key_and_reason, 0,
                        (int)(sizeof mistakes / sizeof *mistakes));
    tcase_add_test(t, steps_that_cannot_fit_the_arena_are_refused);
    tcase_add_test(t, buffers_that_cannot_fit_their_budget_are_refused);
    tcase_add_loop_test(t, addresses_of_every_documented_form_are_accepted, 0,
                        (int)(sizeof addresses / sizeof *addresses));
    tcase_add_test(t, empty_files_and_other_roots_are_refused);
    tcase_add_test(t, crlf_and_a_byte_order_mark_change_nothing);
    tcase_add_test(t, control_characters_of_the_file_do_not_reach_the_message);
    tcase_add_loop_test(t, paths_resolve_against_a_folder, 0, (int)(sizeof paths / sizeof *paths));
    tcase_add_test(t, relative_paths_start_from_the_files_folder);
    tcase_add_test(t, a_folder_a_missing_file_and_a_huge_one_are_refused);
    tcase_add_test(t, limits_on_counts_and_lengths_are_named);
    tcase_add_test(t, a_point_inside_a_key_is_escaped);
    tcase_add_test(t, datasets_of_one_name_have_one_path_in_all_streams);
    suite_add_tcase(s, t);
    return s;
}
