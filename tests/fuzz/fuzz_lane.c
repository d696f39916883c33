/*
 * The pure machine's restore: any bytes are the state of a lane, or are refused with DATA_LOSS; and a lane
 * that took them goes on like any other: it keeps every invariant, never loops, and what it saves is taken
 * again. It may end, or fail with a text, sooner than an honest one.
 *
 * Input: three bytes that choose one of many recipes; a byte for how the rest is meant:
 *   0  a state as it is
 *   1  sections, each u16 length and bytes: their lengths and hashes are made
 *   2  an honest state, reached after some sequences, of which bytes are changed: (u16 place, byte) …; a place
 *      from 0xff00 on inserts or takes away
 */
#include "base/bytes.h"
#include "core/lane.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/synth.h"

#define SEQUENCES 24
#define SLICES 20000 /* many times what an honest lane needs for so many sequences */

static void add_pack(struct synth *s, uint8_t how)
{
    static const enum lk_pack algorithm[] = {LK_PACK_CONCAT, LK_PACK_FIRST_FIT, LK_PACK_BEST_FIT,
                                             LK_PACK_EXACT_FIT};
    synth_pack(s, algorithm[how % 4], 4 + how / 4 % 4 * 5);
    if (how & 16) {
        s->recipe.stage[s->recipe.n_stages - 1].groups = 2;
        s->dataset[1].group = 1;
    }
}

static void choose_recipe(struct synth *s, uint8_t stages, uint8_t pack, uint8_t data)
{
    static const uint64_t rows[] = {37, 3};
    uint32_t tokens[40];

    synth_init(s, 24);
    s->slice_rows = 16;
    for (uint32_t i = 0; i < 40; i++)
        tokens[i] = i * 7 % 29 % (data & 32 ? 29 : 24);
    (void)synth_tokens(s, 3, tokens, 40, (enum lk_then)(data % 3));
    struct lk_dataset_recipe *other = synth_sharded(s, 2, rows, 2);
    other->then = (enum lk_then)(data / 3 % 3);
    other->epochs = other->then == LK_THEN_REPEAT ? 0 : 2;
    if (s->dataset[0].then == LK_THEN_REPEAT)
        s->dataset[0].epochs = 0;
    s->recipe.mixture = (enum lk_mixture_unit)(data / 9 % 3);
    s->recipe.lanes = 1 + (data & 64) / 64;
    s->recipe.permute_blocks = s->recipe.permute_rows = stages & 1;
    s->recipe.tail = stages & 2 ? LK_TAIL_PAD : LK_TAIL_DROP;
    s->recipe.block_rows = stages & 4 ? 4 : 0;
    if (stages & 8 || pack % 4 == 1 || pack % 4 == 2)
        synth_stage(s, LK_STAGE_SPLIT)->max_tokens = stages & 16 ? 10 : 24;
    if (stages & 32)
        synth_stage(s, LK_STAGE_SHUFFLE)->buffer = 5;
    add_pack(s, pack);
    if (stages & 64)
        synth_stage(s, LK_STAGE_SHUFFLE)->buffer = 3;
}

/* An honest state after @sequences. */
static void honest(const struct synth *s, uint32_t sequences, struct lk_buf *out)
{
    struct lk_lane *lane = lane_new(&s->plan, 0);
    struct lk_item item;

    while (sequences-- > 0 && synth_next(s, lane, &item) == SEQ_OK)
        continue;
    lane_save(lane, out);
    lane_free(lane);
}

static void put_section(struct lk_buf *out, const uint8_t *bytes, size_t n)
{
    lk_buf_put_u32(out, (uint32_t)n);
    lk_buf_put_u64(out, lk_hash64(bytes, n, 0));
    lk_buf_put(out, bytes, n);
}

static void put_sections(struct lk_fuzz_input *input, struct lk_buf *out)
{
    while (input->left > 0) {
        size_t n = lk_fuzz_byte(input);
        n |= (size_t)lk_fuzz_byte(input) << 8;
        n = n < input->left ? n : input->left;
        put_section(out, input->at, n);
        input->at += n;
        input->left -= n;
    }
}

static void change(struct lk_buf *section, uint16_t place, uint8_t byte)
{
    size_t at = section->len > 0 ? place % section->len : 0;

    if (place < 0xff00) {
        if (section->len > 0)
            section->data[at] = byte;
    } else if (place % 2 != 0) {
        (void)lk_buf_room(section, 1);
        memmove(section->data + at + 1, section->data + at, section->len - at);
        section->data[at] = byte;
        section->len++;
    } else if (section->len > 0) {
        memmove(section->data + at, section->data + at + 1, section->len - at - 1);
        section->len--;
    }
}

/* The sections of an honest state, each changed as the input says, with hashes that are right. */
static void put_changed(const struct synth *s, struct lk_fuzz_input *input, struct lk_buf *out)
{
    struct lk_buf state = {0}, section = {0};

    honest(s, lk_fuzz_byte(input) % 40, &state);
    struct lk_reader in = lk_reader_of(state.data, state.len);
    while (in.at < in.end) {
        uint32_t n = lk_read_u32(&in);
        (void)lk_read_u64(&in);
        section.len = 0;
        lk_buf_put(&section, lk_read_bytes(&in, n), n);
        for (uint8_t changes = lk_fuzz_byte(input) % 8; changes > 0 && input->left > 0; changes--) {
            uint16_t place = lk_fuzz_byte(input);
            place = (uint16_t)(place | lk_fuzz_byte(input) << 8);
            change(&section, place, lk_fuzz_byte(input));
        }
        put_section(out, section.data, section.len);
    }
    lk_buf_done(&state);
    lk_buf_done(&section);
}

static void check_item(const struct synth *s, const struct lk_item *item)
{
    uint64_t tokens = 0;

    LK_CHECK(item->n > 0 && item->tokens <= s->recipe.sequence);
    for (uint32_t i = 0; i < item->n; i++) {
        const struct lk_span *span = &item->span[i];
        LK_CHECK(span->dataset < s->recipe.n_datasets && span->tokens > 0);
        LK_CHECK(span->row < s->plan.rows[span->dataset]);
        tokens += span->tokens;
    }
    LK_CHECK(tokens == item->tokens);
}

static void drive(const struct synth *s, struct lk_lane *lane)
{
    struct lk_item item;
    uint32_t slices = 0;

    for (uint32_t i = 0; i < SEQUENCES;) {
        enum seq_pull pull = lane_next(lane, &item);
        if (pull == SEQ_WANT) {
            LK_CHECK(slices++ < SLICES);
            LK_CHECK(synth_feed(s, lane_source(lane), lane_wanted(lane)));
            continue;
        }
        lane_check(lane);
        if (pull == SEQ_ERROR)
            LK_CHECK(lane_error(lane)->text[0] != '\0');
        if (pull != SEQ_OK)
            return;
        check_item(s, &item);
        i++;
    }
}

static void check_saved(const struct synth *s, const struct lk_lane *lane)
{
    struct lk_buf once = {0}, twice = {0};
    struct lk_lane *again = lane_new(&s->plan, 0);
    struct lk_err err;

    lane_save(lane, &once);
    LK_CHECK(lane_load(again, once.data, once.len, &err) == LK_OK);
    lane_save(again, &twice);
    LK_CHECK(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
    lane_free(again);
    lk_buf_done(&once);
    lk_buf_done(&twice);
}

static void restore(const struct synth *s, const struct lk_buf *state)
{
    struct lk_lane *lane = lane_new(&s->plan, 0);
    uint8_t *exact = lk_fuzz_copy(state->data, state->len);
    struct lk_err err = {0};
    enum lk_code code = lane_load(lane, exact, state->len, &err);

    free(exact);
    if (code == LK_OK) {
        lane_check(lane);
        check_saved(s, lane);
        drive(s, lane);
        check_saved(s, lane);
    } else {
        LK_CHECK(code == LK_DATA_LOSS && err.text[0] != '\0');
    }
    lane_free(lane);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct lk_fuzz_input input = {data, n};
    struct synth s;
    struct lk_buf state = {0};
    struct lk_err err;

    uint8_t stages = lk_fuzz_byte(&input), pack = lk_fuzz_byte(&input), rows = lk_fuzz_byte(&input);
    choose_recipe(&s, stages, pack, rows);
    LK_CHECK(synth_plan(&s, &err) == LK_OK);
    switch (lk_fuzz_byte(&input) % 3) {
    case 0:
        lk_buf_put(&state, input.at, input.left);
        break;
    case 1:
        put_sections(&input, &state);
        break;
    default:
        put_changed(&s, &input, &state);
    }
    restore(&s, &state);
    lk_buf_done(&state);
    synth_done(&s);
    return 0;
}
