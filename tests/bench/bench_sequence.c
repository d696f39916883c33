/*
 * How many records a second one lane sequences: mix, split, shuffle and pack, on descriptors alone.
 * Also what each way to pack costs in cuts, padding and losses, since that is what it trades.
 *
 *   bench_sequence [--json] [RECORDS]       one core; no payload, no worker, no I/O
 */
#include "tests/lib/synth.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SEQUENCE = 2048, DATASETS = 3, ROWS = 100000, SPLIT = 8192, SHUFFLE = 1024, POOL = 1024 };

/* 257 quantiles of a log-normal law of mean 1011 and sigma 1.2: lengths of documents in tokens, the
 * ends of the law cut at 1/5000. Drawn from by linear interpolation, so that every machine has the same. */
static const uint32_t quantile[257] = {
    7, 20, 27, 32, 37, 41, 45, 49, 53, 56, 59, 63,
    66, 69, 72, 75, 78, 81, 84, 87, 90, 93, 96, 98,
    101, 104, 107, 110, 112, 115, 118, 121, 124, 127, 129, 132,
    135, 138, 141, 144, 146, 149, 152, 155, 158, 161, 164, 167,
    170, 173, 176, 179, 182, 185, 188, 191, 194, 197, 200, 203,
    206, 209, 213, 216, 219, 222, 226, 229, 232, 235, 239, 242,
    246, 249, 252, 256, 259, 263, 267, 270, 274, 277, 281, 285,
    288, 292, 296, 300, 304, 308, 311, 315, 319, 323, 328, 332,
    336, 340, 344, 348, 353, 357, 361, 366, 370, 375, 379, 384,
    388, 393, 398, 403, 407, 412, 417, 422, 427, 432, 437, 443,
    448, 453, 459, 464, 470, 475, 481, 486, 492, 498, 504, 510,
    516, 522, 528, 534, 541, 547, 554, 560, 567, 574, 580, 587,
    594, 601, 609, 616, 623, 631, 639, 646, 654, 662, 670, 678,
    687, 695, 704, 712, 721, 730, 739, 749, 758, 768, 777, 787,
    797, 808, 818, 829, 840, 850, 862, 873, 885, 897, 909, 921,
    933, 946, 959, 972, 986, 1000, 1014, 1028, 1043, 1058, 1074, 1089,
    1106, 1122, 1139, 1156, 1174, 1192, 1211, 1230, 1249, 1269, 1290, 1311,
    1333, 1356, 1379, 1402, 1427, 1452, 1478, 1505, 1533, 1561, 1591, 1622,
    1654, 1687, 1721, 1756, 1793, 1832, 1872, 1913, 1957, 2002, 2050, 2100,
    2153, 2208, 2266, 2328, 2393, 2462, 2535, 2614, 2697, 2787, 2884, 2988,
    3101, 3225, 3361, 3510, 3677, 3864, 4075, 4318, 4601, 4936, 5343, 5854,
    6525, 7466, 8953, 11977, 34434,
};

static uint32_t random_length(uint64_t random)
{
    uint32_t cell = (uint32_t)(random >> 56), within = (uint32_t)(random >> 24);
    uint32_t low = quantile[cell], high = quantile[cell + 1];
    return low + (uint32_t)lk_below((uint64_t)within << 32, high - low + 1);
}

struct result {
    uint64_t records, tokens;
    uint64_t cpu_ns;
    struct lane_totals totals;
};

static void make_stream(struct synth *s, enum lk_pack algorithm)
{
    static const uint64_t weight[DATASETS] = {5, 3, 2};
    synth_init(s, SEQUENCE);
    s->recipe.mixture = LK_MEASURE_TOKENS;
    s->recipe.block_rows = 256;
    s->recipe.permute_blocks = s->recipe.permute_rows = true;
    for (uint32_t d = 0; d < DATASETS; d++) {
        synth_dataset(s, weight[d], ROWS);
        s->row[d] = lk_zalloc(ROWS, sizeof *s->row[d]);
        for (uint64_t i = 0; i < ROWS; i++) {
            uint32_t tokens = random_length(lk_key(d, i));
            s->row[d][i] = (struct lk_row_measure){.tokens = tokens, .text_bytes = 4 * tokens};
        }
    }
    bool whole = algorithm == LK_PACK_FIRST_FIT || algorithm == LK_PACK_BEST_FIT;
    synth_stage(s, LK_STAGE_SPLIT)->max_tokens = whole ? SEQUENCE : SPLIT;
    synth_stage(s, LK_STAGE_SHUFFLE)->buffer = SHUFFLE;
    synth_pack(s, algorithm, POOL);
    s->slice_rows = LK_SLICE_ROWS_MAX;
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct result measure(enum lk_pack algorithm, uint64_t records)
{
    struct synth *s = lk_zalloc(1, sizeof *s);
    struct result result = {0};
    struct lk_err err;
    struct lk_item item;
    make_stream(s, algorithm);
    LK_CHECK(synth_plan(s, &err) == LK_OK);
    struct lk_lane *lane = lane_new(&s->plan, 0);

    uint64_t start = cpu_ns();
    do { /* a record is a little more than two to a sequence: the totals are asked for now and then */
        for (int i = 0; i < 1000; i++)
            LK_CHECK(synth_next(s, lane, &item) == SEQ_OK);
        lane_totals(lane, &result.totals);
    } while (result.totals.records < records);
    result.cpu_ns = cpu_ns() - start;

    result.records = result.totals.records;
    result.tokens = result.totals.tokens_in;
    lane_free(lane);
    synth_done(s);
    free(s);
    return result;
}

static void print_row(const char *name, const struct result *r)
{
    const struct seq_counts *pack = &r->totals.pack;
    double sequences = (double)pack->sequences, out = sequences * SEQUENCE;
    printf("%-10s %8.2f %8.0f %8.3f %8.3f %9.1f %7.1f\n", name,
           1e3 * (double)r->records / (double)r->cpu_ns, (double)r->cpu_ns / (double)r->records,
           (double)(pack->cuts - pack->forced_cuts) / sequences, (double)pack->forced_cuts / sequences,
           1e6 * (double)pack->padded / out, 1e6 * (double)pack->lost / (double)r->tokens);
}

static void print_json(const struct result *exact)
{
    printf("{\"sequence.records_per_s\": {\"value\": %.0f, \"unit\": \"records/s\", \"against\": 2000000, "
           "\"ratio\": %.3f, \"settings\": \"one core, %d datasets, log-normal lengths of mean 1011, "
           "split %d, shuffle %d, exact_fit %d, sequence %d\"}}\n",
           1e9 * (double)exact->records / (double)exact->cpu_ns,
           1e3 * (double)exact->records / (double)exact->cpu_ns / 2.0, DATASETS, SPLIT, SHUFFLE, POOL,
           SEQUENCE);
}

int main(int argc, char **argv)
{
    static const char *const name[] = {"concat", "first_fit", "best_fit", "exact_fit"};
    bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
    const char *asked = argc > 1 + json ? argv[1 + json] : "2000000";
    uint64_t records = strtoull(asked, NULL, 10);
    if (json) {
        struct result exact = measure(LK_PACK_EXACT_FIT, records);
        print_json(&exact);
        return 0;
    }
    printf("one lane, one core: mix %d, split, shuffle %d, pack %d, sequence %d\n", DATASETS, SHUFFLE,
           POOL, SEQUENCE);
    printf("%-10s %8s %8s %8s %8s %9s %7s\n", "pack", "M rec/s", "ns/rec", "cuts/seq", "forced",
           "pad/M", "lost/M");
    for (int i = 0; i < 4; i++) {
        struct result result = measure((enum lk_pack)i, records);
        print_row(name[i], &result);
    }
    return 0;
}
