#include "config/keys.h"

#include "config/draft.h"
#include "config/scalar.h"

#include <string.h>

static const char *const mixtures[] = {"tokens", "bytes", "samples", NULL};
static const char *const thens[] = {"repeat", "stop", "release", NULL};
static const char *const specials[] = {"split", "text", "error", NULL};
static const char *const block_orders[] = {"sequential", "permuted", NULL};
static const char *const error_or_drop[] = {"error", "drop", NULL};
static const char *const tails[] = {"drop", "pad", NULL};
static const char *const packs[] = {"concat", "first_fit", "best_fit", "exact_fit", NULL};
static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};

#define S(field)  offsetof(struct lk_stream_draft, field)
#define D(field)  offsetof(struct lk_dataset_draft, field)
#define R(field)  offsetof(struct lk_root_draft, config.runtime.field)
#define PIPELINE  "streams.*.pipeline[]"
#define TEXT_MAX  1024
#define PATH_LONG 4096
#define TOP64     UINT64_MAX
#define TERA      (1ull << 40)
#define DAY       86400000ull

_Static_assert(sizeof(enum lk_mixture_unit) == sizeof(unsigned), "choices are stored as unsigned");
_Static_assert(sizeof(enum lk_log_level) == sizeof(unsigned), "choices are stored as unsigned");

/* One key a block; sections in the order of the reference. */
static const struct lk_key keys[] = {
    {.path = "streams", .type = LK_KEY_OWN, .required = true, .read = lk_read_streams,
     .form = "a mapping of stream names to recipes",
     .help = "the ordered supplies of batches that the daemon serves, by name"},
    {.path = "runtime", .type = LK_KEY_SECTION,
     .help = "settings that change speed and cost, never data"},

    {.path = "streams.*.seed", .type = LK_KEY_U64, .def = "0", .max = TOP64,
     .offset = S(recipe.seed), .help = "keys every permutation; another seed is another order"},
    {.path = "streams.*.lanes", .type = LK_KEY_U32, .def = "8", .min = 1, .max = LK_LANES_MAX,
     .offset = S(recipe.lanes),
     .help = "fixed logical streams that make the sequences; what can run in parallel. Not the "
             "number of ranks, which is free"},
    {.path = "streams.*.batch", .type = LK_KEY_OWN, .required = true, .read = lk_read_batch,
     .min = 1, .max = LK_BATCH_MAX,
     .form = "an integer from 1 to 65536, or a list of {from: step, size: integer}",
     .help = "sequences in a step, over all ranks: a multiple of `lanes`; or a schedule over steps"},
    {.path = "streams.*.sequence", .type = LK_KEY_U32, .required = true, .min = 1,
     .max = LK_SEQUENCE_MAX, .offset = S(recipe.sequence), .help = "tokens in a sequence"},
    {.path = "streams.*.tokenizer", .type = LK_KEY_SECTION, .required = true,
     .help = "one of `hf`, `pair`, `tiktoken` and `bytes`, and what is put around documents"},
    {.path = "streams.*.datasets", .type = LK_KEY_OWN, .required = true, .read = lk_read_datasets,
     .form = "a mapping of dataset names to {path, text, weight, …}",
     .help = "what is mixed, by name. Names key the permutations, so a renamed dataset has another "
             "order; their order in the file means nothing"},
    {.path = "streams.*.epochs", .type = LK_KEY_U32, .min = 1, .max = 1000000, .offset = S(epochs),
     .help = "passes over each dataset that does not say, which then releases its share; without "
             "it such datasets repeat without end"},
    {.path = "streams.*.mixture", .type = LK_KEY_CHOICE, .def = "tokens", .choices = mixtures,
     .offset = S(recipe.mixture), .help = "what the weights' shares are counted in"},
    {.path = "streams.*.order", .type = LK_KEY_SECTION, .help = "how rows are ordered in an epoch"},
    {.path = "streams.*.on_bad_row", .type = LK_KEY_CHOICE, .def = "error",
     .choices = error_or_drop, .offset = S(recipe.on_bad_row),
     .help = "a malformed row, one without its text, or one that `special_in_text: error` refuses: stop, naming it, or drop, count and list it"},
    {.path = "streams.*.on_crash", .type = LK_KEY_SWITCH, .def = "error", .choices = error_or_drop,
     .offset = S(recipe.drop_crashing),
     .help = "a row that kills three workers: stop, naming it, or drop, count and list it"},
    {.path = "streams.*.pipeline", .type = LK_KEY_OWN, .required = true, .read = lk_read_pipeline,
     .form = "a list of filter, split, shuffle and pack",
     .help = "the stages between rows and sequences, in this order: filters first, exactly one "
             "`pack`, `split` before it, `shuffle` before it (of records) or after it (of sequences)"},
    {.path = "streams.*.tail", .type = LK_KEY_CHOICE, .def = "drop", .choices = tails,
     .offset = S(recipe.tail),
     .help = "what is left when a finite stream cannot fill a step: dropped and counted, or padded"},
    {.path = "streams.*.pad_id", .type = LK_KEY_U32, .def = "0", .max = (1u << 24) - 1,
     .offset = S(recipe.pad_id), .help = "token id of padding"},

    {.path = "streams.*.batch[].from", .type = LK_KEY_U64, .required = true, .max = TOP64,
     .offset = offsetof(struct lk_batch_recipe, from),
     .help = "first step of this size: 0 in the first entry, then rising"},
    {.path = "streams.*.batch[].size", .type = LK_KEY_U32, .required = true, .min = 1,
     .max = LK_BATCH_MAX, .offset = offsetof(struct lk_batch_recipe, size),
     .help = "sequences in a step, a multiple of `lanes`"},

    {.path = "streams.*.tokenizer.hf", .type = LK_KEY_PATH, .min = 1, .max = PATH_LONG,
     .offset = S(tokenizer.hf), .help = "a Hugging Face tokenizer.json"},
    {.path = "streams.*.tokenizer.pair", .type = LK_KEY_SECTION,
     .help = "GPT-2's older pair of files"},
    {.path = "streams.*.tokenizer.tiktoken", .type = LK_KEY_SECTION,
     .help = "a file of ranks, by tiktoken's own rule"},
    {.path = "streams.*.tokenizer.bytes", .type = LK_KEY_BOOL, .offset = S(tokenizer.bytes),
     .help = "every byte is a token; 256 ends a text"},
    {.path = "streams.*.tokenizer.append", .type = LK_KEY_TEXT, .min = 1, .max = TEXT_MAX,
     .offset = S(recipe.tokenizer.append),
     .help = "token put after each document: `eos`, `bos` or a token's text; without it, none"},
    {.path = "streams.*.tokenizer.prepend", .type = LK_KEY_TEXT, .min = 1, .max = TEXT_MAX,
     .offset = S(recipe.tokenizer.prepend), .help = "token put before each document, likewise"},
    {.path = "streams.*.tokenizer.special_in_text", .type = LK_KEY_CHOICE, .def = "split",
     .choices = specials, .offset = S(recipe.tokenizer.special_in_text),
     .help = "the text of a special token inside a document becomes that token (`split`, Hugging "
             "Face's rule), is `text` like any other, or makes the row malformed (`error`: see "
             "`on_bad_row`)"},
    {.path = "streams.*.tokenizer.pair.vocab", .type = LK_KEY_PATH, .min = 1, .max = PATH_LONG,
     .offset = S(tokenizer.vocab), .help = "vocab.json or encoder.json"},
    {.path = "streams.*.tokenizer.pair.merges", .type = LK_KEY_PATH, .min = 1, .max = PATH_LONG,
     .offset = S(tokenizer.merges), .help = "merges.txt or vocab.bpe"},

    {.path = "streams.*.tokenizer.tiktoken.path", .type = LK_KEY_PATH, .min = 1, .max = PATH_LONG,
     .offset = S(tokenizer.ranks), .help = "a .tiktoken file: one token in base64 and its rank a line"},
    {.path = "streams.*.tokenizer.tiktoken.scheme", .type = LK_KEY_TEXT, .min = 1, .max = TEXT_MAX,
     .offset = S(tokenizer.scheme),
     .help = "the name of the pattern and special tokens that go with it, such as `cl100k_base`"},

    {.path = "streams.*.datasets.*.path", .type = LK_KEY_PATH, .required = true, .min = 1,
     .max = PATH_LONG, .offset = D(recipe.path),
     .help = "a folder, a file, or a pattern with `*`; not part of the order"},
    {.path = "streams.*.datasets.*.text", .type = LK_KEY_FIELD, .def = "text", .min = 1,
     .max = TEXT_MAX, .offset = D(recipe.text),
     .help = "the field that holds the text: a dotted path; `\\.` is a point inside a key"},
    {.path = "streams.*.datasets.*.weight", .type = LK_KEY_WEIGHT, .def = "1",
     .max = LK_WEIGHT_ONE * LK_WEIGHT_ONE, .offset = D(weight_nano),
     .help = "its share, relative to the sum of all; 0 leaves the dataset out"},
    {.path = "streams.*.datasets.*.epochs", .type = LK_KEY_U32, .min = 1, .max = 1000000,
     .offset = D(epochs), .help = "passes before `then` applies; with `stop` and `release` only"},
    {.path = "streams.*.datasets.*.then", .type = LK_KEY_CHOICE, .choices = thens,
     .offset = D(then),
     .help = "after the last pass: `repeat` without end, `stop` the lane, or `release` the share to "
             "the others. Without it: `release` where a number of epochs is given, else `repeat`"},

    {.path = "streams.*.order.block_rows", .type = LK_KEY_U32, .def = "256", .min = 1,
     .max = 1000000000, .word = "shard", .word_value = 0, .offset = S(recipe.block_rows),
     .help = "consecutive rows that are read together; 1 is a global shuffle, `shard` whole files"},
    {.path = "streams.*.order.blocks", .type = LK_KEY_SWITCH, .def = "permuted",
     .choices = block_orders, .offset = S(recipe.permute_blocks),
     .help = "blocks in an order that each epoch draws anew, or as they lie"},
    {.path = "streams.*.order.shuffle_rows", .type = LK_KEY_BOOL, .def = "true",
     .offset = S(recipe.permute_rows), .help = "permute the rows inside a block"},

    {.path = PIPELINE ".filter", .type = LK_KEY_OWN, .read = lk_read_filter,
     .form = "a mapping of conditions", .help = "keeps the rows that meet every condition"},
    {.path = PIPELINE ".split", .type = LK_KEY_OWN, .read = lk_read_split,
     .form = "a mapping {max_tokens: …}", .help = "cuts long records; at most one"},
    {.path = PIPELINE ".shuffle", .type = LK_KEY_OWN, .read = lk_read_shuffle,
     .form = "a mapping {buffer: …}", .help = "a buffer that emits in random order"},
    {.path = PIPELINE ".pack", .type = LK_KEY_OWN, .read = lk_read_pack,
     .form = "a mapping {algorithm: …, pool: …, within: …}", .help = "records to sequences"},

    {.path = PIPELINE ".filter.min_bytes", .type = LK_KEY_SIZE, .max = TERA,
     .offset = S(filter.min_bytes), .help = "bytes of the text, at least"},
    {.path = PIPELINE ".filter.max_bytes", .type = LK_KEY_SIZE, .max = TERA,
     .offset = S(filter.max_bytes), .help = "bytes of the text, at most"},
    {.path = PIPELINE ".filter.min_tokens", .type = LK_KEY_U64, .max = LK_RECORD_TOKENS_MAX,
     .offset = S(filter.min_tokens), .help = "tokens, with those put around the text, at least"},
    {.path = PIPELINE ".filter.max_tokens", .type = LK_KEY_U64, .max = LK_RECORD_TOKENS_MAX,
     .offset = S(filter.max_tokens), .help = "tokens, with those put around the text, at most"},
    {.path = PIPELINE ".filter.field", .type = LK_KEY_FIELD, .min = 1, .max = TEXT_MAX,
     .offset = S(filter.field), .help = "a field that must be equal to `equals`"},
    {.path = PIPELINE ".filter.equals", .type = LK_KEY_TEXT, .max = TEXT_MAX,
     .offset = S(filter.equals), .help = "the text, or the number as written, that it must have"},

    {.path = PIPELINE ".split.max_tokens", .type = LK_KEY_U32, .required = true, .min = 1,
     .max = LK_SEQUENCE_MAX, .offset = S(next.recipe.max_tokens),
     .help = "longer records are cut into parts of this many tokens and a rest"},
    {.path = PIPELINE ".shuffle.buffer", .type = LK_KEY_U32, .def = "1024", .min = 2,
     .max = LK_BUFFER_MAX, .offset = S(next.recipe.buffer),
     .help = "records or, after `pack`, sequences held in each lane"},
    {.path = PIPELINE ".pack.algorithm", .type = LK_KEY_CHOICE, .def = "exact_fit",
     .choices = packs, .offset = S(next.recipe.algorithm),
     .help = "`concat` cuts at every sequence's end; `first_fit` and `best_fit` pad; `exact_fit` "
             "keeps documents whole and pads nothing"},
    {.path = PIPELINE ".pack.pool", .type = LK_KEY_U32, .def = "1024", .min = 1,
     .max = LK_BUFFER_MAX, .offset = S(next.recipe.pool),
     .help = "open sequences (`first_fit`, `best_fit`) or waiting records (`exact_fit`), for each "
             "lane and group; not with `concat`"},
    {.path = PIPELINE ".pack.within", .type = LK_KEY_OWN, .def = "all", .read = lk_read_within,
     .form = "\"all\", \"dataset\" or {groups: [[names], [names], …]}",
     .help = "which datasets may share a sequence: any, only a dataset with itself, or those of a "
             "group, each dataset in one group"},

    {.path = PIPELINE ".pack.within.groups", .type = LK_KEY_OWN, .required = true,
     .read = lk_read_groups, .form = "a list of lists of dataset names",
     .help = "the groups: every dataset of the stream in exactly one"},

    {.path = "runtime.run_dir", .type = LK_KEY_PATH, .def = "run", .min = 1, .max = PATH_LONG,
     .offset = R(run_dir), .help = "folder of the sockets, on a file system of this machine alone; the whole path of one has at "
                                     "most 107 bytes"},
    {.path = "runtime.listen", .type = LK_KEY_OWN, .read = lk_read_listen, .offset = R(listen),
     .form = "an address (ipc:///path or tcp://host:port) or a list of 1 to 16",
     .help = "where clients connect; by default `ipc://<run_dir>/lanekeeper.sock`"},
    {.path = "runtime.fd_socket", .type = LK_KEY_PATH, .min = 1, .max = PATH_LONG,
     .offset = R(fd_socket),
     .help = "Unix socket that hands batches to local trainers without a copy; by default "
             "`<run_dir>/memory.sock`"},
    {.path = "runtime.http", .type = LK_KEY_OWN, .read = lk_read_host_port, .offset = R(http),
     .form = "host:port", .help = "metrics and health; without it, none"},
    {.path = "runtime.workers", .type = LK_KEY_U32, .def = "cores", .max = LK_WORKERS_MAX,
     .word = "cores", .word_value = UINT32_MAX, .offset = R(workers),
     .help = "worker processes on this machine; `cores` = one a core"},
    {.path = "runtime.workers_listen", .type = LK_KEY_OWN, .read = lk_read_address,
     .offset = R(workers_listen), .form = "an address (ipc:///path or tcp://host:port)",
     .help = "where workers of other machines connect; without it, nowhere"},
    {.path = "runtime.worker_token_file", .type = LK_KEY_PATH, .min = 1, .max = PATH_LONG,
     .offset = R(worker_token_file), .help = "file with the secret that such workers must show"},
    {.path = "runtime.arena", .type = LK_KEY_SIZE, .def = "512MiB", .min = 1u << 20, .max = TERA,
     .offset = R(arena_bytes),
     .help = "memory for tokens, and for ready batches, which take at most half of it; whatever the buffers. It is not in "
             "/dev/shm. More than the machine, or the control group, has is refused at start"},
    {.path = "runtime.state", .type = LK_KEY_SIZE, .def = "4GiB", .min = 1u << 20, .max = TERA,
     .offset = R(state_bytes),
     .help = "memory for the lanes' buffers when they are full, in all cursors: descriptors, not "
             "tokens. A recipe that is estimated to need more is refused; `lanekeeper config check` tells "
             "the estimate and the worst case"},
    {.path = "runtime.cache", .type = LK_KEY_SIZE, .def = "256MiB", .max = TERA,
     .offset = R(cache_bytes), .help = "memory for decompressed shards, all workers together"},
    {.path = "runtime.prefetch_steps", .type = LK_KEY_U32, .def = "8", .min = 1, .max = 4096,
     .offset = R(prefetch_steps), .help = "steps made ready ahead of the highest one asked for"},
    {.path = "runtime.snapshots", .type = LK_KEY_SECTION,
     .help = "saved states of lanes: they save time, never correctness"},
    {.path = "runtime.counts", .type = LK_KEY_SECTION,
     .help = "token counts of rows that were measured once: they save time, never correctness"},
    {.path = "runtime.index_dir", .type = LK_KEY_PATH, .def = "index", .min = 1, .max = PATH_LONG,
     .offset = R(index_dir), .help = "folder of the datasets' indexes"},
    {.path = "runtime.log_level", .type = LK_KEY_CHOICE, .def = "info", .choices = log_levels,
     .offset = R(log_level), .help = "least important lines that are logged"},
    {.path = "runtime.stall_timeout", .type = LK_KEY_DURATION, .def = "1min", .min = 1000,
     .max = DAY, .offset = R(stall_timeout_ms),
     .help = "unhealthy when nothing has moved for so long although it was asked to"},
    {.path = "runtime.drain_timeout", .type = LK_KEY_DURATION, .def = "10s", .min = 100, .max = DAY,
     .offset = R(drain_timeout_ms), .help = "after SIGTERM the daemon ends within this time"},
    {.path = "runtime.max_deadline", .type = LK_KEY_DURATION, .def = "1h", .min = 1000, .max = DAY,
     .offset = R(deadline_max_ms), .help = "longest deadline that a request may set"},
    {.path = "runtime.max_message", .type = LK_KEY_SIZE, .def = "1MiB", .min = 1u << 16,
     .max = 1u << 30, .offset = R(message_max),
     .help = "a longer message from a client is refused"},
    {.path = "runtime.max_waiting", .type = LK_KEY_U32, .def = "16384", .min = 1, .max = 1u << 20,
     .offset = R(waiting_max),
     .help = "requests that may wait at once: one a rank, and one more for each step of its look-ahead"},
    {.path = "runtime.max_cursors", .type = LK_KEY_U32, .def = "4", .min = 1, .max = 64,
     .offset = R(cursors_max), .help = "far-apart places of a stream that are served at once"},

    {.path = "runtime.snapshots.dir", .type = LK_KEY_PATH, .def = "snapshots", .min = 1,
     .max = PATH_LONG, .offset = R(snapshot_dir), .help = "folder of the snapshots"},
    {.path = "runtime.snapshots.every", .type = LK_KEY_U64, .def = "100", .max = 1000000000,
     .offset = R(snapshot_every), .help = "steps between snapshots; 0 writes none"},
    {.path = "runtime.snapshots.keep", .type = LK_KEY_U32, .def = "8", .min = 1, .max = 1000000,
     .offset = R(snapshot_keep), .help = "newest snapshots kept of each lane; older ones are thinned out with their age"},

    {.path = "runtime.counts.dir", .type = LK_KEY_PATH, .def = "counts", .min = 1, .max = PATH_LONG,
     .offset = R(counts_dir),
     .help = "folder of the counts; daemons, and machines, may share it"},
    {.path = "runtime.counts.size", .type = LK_KEY_SIZE, .def = "4GiB", .max = TERA,
     .offset = R(counts_bytes),
     .help = "bytes of all its files, about two a row; the oldest go first. 0 keeps none"},
    {.path = "runtime.counts.memory", .type = LK_KEY_SIZE, .def = "256MiB", .min = 1u << 20, .max = TERA,
     .offset = R(counts_memory), .help = "memory for counts, taken as needed; a shard's file may have a fourth of it"},
};

const struct lk_key *lk_keys(size_t *ret_n)
{
    *ret_n = sizeof keys / sizeof *keys;
    return keys;
}

const char *lk_key_name_in(const struct lk_key *key, const char *section)
{
    size_t n = strlen(section);
    const char *name = key->path;
    if (n > 0) {
        if (strncmp(key->path, section, n) != 0 || key->path[n] != '.')
            return NULL;
        name += n + 1;
    }
    return strchr(name, '.') == NULL ? name : NULL;
}

size_t lk_key_find(const char *section, const char *name)
{
    size_t n;
    const struct lk_key *key = lk_keys(&n);
    for (size_t k = 0; k < n; k++) {
        const char *known = lk_key_name_in(&key[k], section);
        if (known != NULL && strcmp(known, name) == 0)
            return k;
    }
    return n;
}

static void put_range(struct lk_buf *out, const char *noun, const struct lk_key *key,
                      void (*put)(struct lk_buf *, uint64_t))
{
    lk_buf_putf(out, "%s from ", noun);
    put(out, key->min);
    lk_buf_puts(out, " to ");
    put(out, key->max);
}

static void put_plain(struct lk_buf *out, uint64_t value)
{
    lk_buf_putf(out, "%llu", (unsigned long long)value);
}

static void put_words(struct lk_buf *out, const char *const *words)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        const char *between = i == 0 ? "" : words[i + 1] == NULL ? " or " : ", ";
        lk_buf_putf(out, "%s\"%s\"", between, words[i]);
    }
}

void lk_key_put_expected(struct lk_buf *out, const struct lk_key *key)
{
    switch (key->type) {
    case LK_KEY_BOOL:
        lk_buf_puts(out, "true or false");
        break;
    case LK_KEY_U32:
    case LK_KEY_U64:
        put_range(out, "an integer", key, put_plain);
        break;
    case LK_KEY_SIZE:
        put_range(out, "a size", key, lk_put_size);
        break;
    case LK_KEY_DURATION:
        put_range(out, "a duration", key, lk_put_duration);
        break;
    case LK_KEY_WEIGHT:
        lk_buf_puts(out, "a number of at most 9 digits and 9 decimals, 0 or more");
        break;
    case LK_KEY_TEXT:
        lk_buf_puts(out, "a text");
        break;
    case LK_KEY_FIELD:
        lk_buf_puts(out, "a field's dotted path");
        break;
    case LK_KEY_PATH:
        lk_buf_puts(out, "a path");
        break;
    case LK_KEY_CHOICE:
    case LK_KEY_SWITCH:
        put_words(out, key->choices);
        break;
    case LK_KEY_SECTION:
        lk_buf_puts(out, "a mapping");
        break;
    case LK_KEY_OWN:
        lk_buf_puts(out, key->form);
        break;
    }
    if (key->word != NULL)
        lk_buf_putf(out, " or \"%s\"", key->word);
}
