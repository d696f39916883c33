/*
 * Configurations: any bytes are a configuration, or are refused with INVALID_ARGUMENT that names the place.
 * What was taken keeps the bounds that the core asserts: of each small stream a plan and a lane are made and
 * driven, over rows that are made up. What is read does not depend on how often it is read.
 */
#include "config/canonical.h"
#include "config/config.h"
#include "core/lane.h"
#include "tests/fuzz/fuzz.h"

#define SMALL_BYTES (32u << 20) /* of a lane's memory: larger ones are not made here */
#define SMALL_WORK 4096u        /* lanes times datasets, likewise */
#define SEQUENCES 8

static enum lk_code parse(const uint8_t *data, size_t n, struct lk_config *ret_config, struct lk_err *err)
{
    uint8_t *exact = lk_fuzz_copy(data, n);
    enum lk_code code = lk_config_parse("c.yaml", exact, n, "/conf", ret_config, err);

    free(exact);
    return code;
}

/* Drives a lane whose rows all have as many tokens as their number says, or none. */
static void drive(struct lk_lane *lane)
{
    struct lk_item item;
    struct lk_slice slice;
    uint32_t sequences = 0, slices = 0;

    while (sequences < SEQUENCES && slices < 64) {
        enum seq_pull pull = lane_next(lane, &item);
        if (pull == SEQ_END || pull == SEQ_ERROR)
            break;
        sequences += pull == SEQ_OK;
        if (pull == SEQ_OK)
            continue;
        struct lk_row_measure measure[LK_SLICE_ROWS_MAX];
        LK_CHECK(source_plan(lane_source(lane), lane_wanted(lane), UINT64_MAX, LK_SLICE_ROWS_MAX, &slice));
        for (uint32_t i = 0; i < slice.n; i++) {
            uint32_t tokens = (uint32_t)(slice.rows[i] * 37 % 300);
            measure[i] = (struct lk_row_measure){.tokens = tokens, .text_bytes = 3 * tokens, .drop = tokens == 0};
        }
        source_measured(lane_source(lane), slice.dataset, slice.id, measure, slice.n);
        slices++;
    }
    lane_check(lane);
}

static void use(const struct lk_recipe *recipe)
{
    uint64_t rows[2] = {0, 3ull * recipe->lanes + 50};
    struct lk_plan plan = {0};
    struct lk_err err;

    if ((uint64_t)recipe->lanes * recipe->n_datasets > SMALL_WORK)
        return;
    struct lk_shape *shape = lk_zalloc(recipe->n_datasets, sizeof *shape);
    for (uint32_t d = 0; d < recipe->n_datasets; d++)
        shape[d] = (struct lk_shape){.shards = 1, .shard_first = rows};
    LK_CHECK(plan_init(&plan, recipe, shape, &err) == LK_OK);
    if (lane_bound(recipe) <= SMALL_BYTES) {
        struct lk_lane *lane = lane_new(&plan, recipe->lanes - 1);
        drive(lane);
        lane_free(lane);
    }
    plan_done(&plan);
    free(shape);
}

static void put_texts(const struct lk_config *config, struct lk_buf *out)
{
    for (uint32_t i = 0; i < config->n_streams; i++)
        lk_recipe_canonical(&config->stream[i], out, out);
}

static void check_same(const struct lk_config *config, const uint8_t *data, size_t n)
{
    struct lk_config again;
    struct lk_buf texts = {0}, texts_again = {0};
    struct lk_err err;

    LK_CHECK(parse(data, n, &again, &err) == LK_OK);
    put_texts(config, &texts);
    put_texts(&again, &texts_again);
    LK_CHECK(texts.len == texts_again.len && memcmp(texts.data, texts_again.data, texts.len) == 0);
    lk_buf_done(&texts);
    lk_buf_done(&texts_again);
    lk_config_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct lk_config config = {0};
    struct lk_err err = {0};
    enum lk_code code = parse(data, n, &config, &err);

    if (code != LK_OK) {
        LK_CHECK(code == LK_INVALID_ARGUMENT);
        LK_CHECK(strncmp(err.text, "c.yaml:", 7) == 0);
        return 0;
    }
    LK_CHECK(config.n_streams > 0 && config.n_streams <= LK_STREAMS_MAX);
    check_same(&config, data, n);
    for (uint32_t i = 0; i < config.n_streams; i++)
        use(&config.stream[i]);
    lk_config_done(&config);
    return 0;
}
