#include "client/cli/explain.h"

#include "client/cli/memory.h"
#include "core/plan.h"

#include <inttypes.h>
#include <string.h>

const char *const explain_units[] = {"tokens", "bytes of text", "documents"};
const char *const explain_packs[] = {"concat", "first_fit", "best_fit", "exact_fit"};
const char *const explain_specials[] = {"split", "text", "error"};

const char *explain_then(enum lk_then then)
{
    static const char *const name[] = {"repeat", "stop", "release"};
    return name[then];
}

static void count(struct lk_buf *out, const char *before, uint64_t n, const char *after)
{
    lk_buf_puts(out, before);
    put_count(out, n);
    lk_buf_puts(out, after);
}

/* ---- the stream ---- */

static void text_batches(struct lk_buf *out, const struct lk_recipe *recipe)
{
    for (uint32_t i = 0; i < recipe->n_batches; i++) {
        const struct lk_batch_recipe *batch = &recipe->batch[i];
        count(out, i == 0 ? "  a step is " : "  from step ", i == 0 ? batch->size : batch->from,
              i == 0 ? " sequences" : ": ");
        if (i > 0)
            count(out, "", batch->size, " sequences");
        count(out, ", ", batch->size / recipe->lanes, " of each lane, ");
        count(out, "", (uint64_t)batch->size * recipe->sequence, " tokens\n");
    }
}

static uint32_t smallest_step(const struct lk_recipe *recipe)
{
    uint32_t least = recipe->batch[0].size;
    for (uint32_t i = 1; i < recipe->n_batches; i++)
        least = recipe->batch[i].size < least ? recipe->batch[i].size : least;
    return least;
}

static void text_head(struct explain *e)
{
    const struct lk_recipe *recipe = e->stream.recipe;
    struct lk_buf *out = &e->out;
    lk_buf_putf(out, "stream %s\n  order digest  ", recipe->name);
    put_hex(out, e->stream.order);
    lk_buf_puts(out, "\n  stream digest ");
    put_hex(out, e->stream.digest);
    lk_buf_putf(out, "\n  order version %d, seed %" PRIu64 "\n", LK_ORDER_VERSION, recipe->seed);
    count(out, "  ", recipe->lanes, " lanes make sequences of ");
    count(out, "", recipe->sequence, " tokens; any number of ranks up to ");
    count(out, "", smallest_step(recipe), " may cut a step\n");
    text_batches(out, recipe);
}

/* ---- datasets ---- */

static void text_blocks(struct lk_buf *out, const struct lk_recipe *recipe,
                        const struct facts_dataset *facts)
{
    count(out, "    ", facts->blocks, " blocks of at most ");
    count(out, "", facts->block_rows, " rows");
    if (recipe->block_rows != 0 && facts->block_rows < recipe->block_rows)
        count(out, " (", recipe->block_rows, " were asked for: smaller ones give every lane enough)");
    count(out, ", ", facts->lane_blocks_min, " to ");
    count(out, "", facts->lane_blocks_max, " a lane; ");
    lk_buf_putf(out, "blocks %s, rows in them %s\n", recipe->permute_blocks ? "permuted" : "as they lie",
                recipe->permute_rows ? "permuted" : "as they lie");
}

static void text_sample(struct lk_buf *out, const struct facts_dataset *facts)
{
    if (facts->no_sample != NULL) {
        lk_buf_puts(out, "    no estimate: ");
        put_safe(out, facts->no_sample, strlen(facts->no_sample));
        lk_buf_puts(out, "\n");
        return;
    }
    count(out, "    estimated from ", facts->sampled, " rows: a pass is about ");
    count(out, "", facts->pass_tokens, " tokens of ");
    count(out, "", facts->pass_rows, " documents");
    if (facts->pass_steps > 0)
        count(out, ", done after about ", facts->pass_steps, " steps");
    lk_buf_puts(out, "; ");
    put_percent(out, facts->longer, facts->kept);
    lk_buf_puts(out, " of documents are longer than a sequence\n");
    if (facts->kept == facts->sampled)
        return;
    lk_buf_puts(out, "    of these rows are dropped: ");
    const char *before = "";
    for (int i = 1; i < LK_DROP_KINDS; i++) {
        if (facts->dropped[i] == 0)
            continue;
        lk_buf_putf(out, "%s%s ", before, lk_drop_name((enum lk_drop)i));
        put_percent(out, facts->dropped[i], facts->sampled);
        before = ", ";
    }
    lk_buf_puts(out, "\n");
}

static void text_dataset(struct explain *e, uint32_t d)
{
    const struct lk_dataset_recipe *dataset = &e->stream.recipe->dataset[d];
    const struct facts_dataset *facts = &e->facts.dataset[d];
    struct lk_buf *out = &e->out;
    lk_buf_putf(out, "\ndataset %s: expected share ", dataset->name);
    put_percent(out, facts->weight, e->facts.weights);
    lk_buf_putf(out, " of %s, in every lane at every moment to within one document\n",
                explain_units[e->stream.recipe->mixture]);
    count(out, "    ", facts->rows, " rows in ");
    count(out, "", facts->shards, facts->shards == 1 ? " shard, " : " shards, ");
    put_bytes(out, facts->row_bytes);
    if (dataset->epochs == 0)
        lk_buf_puts(out, "; repeats without end\n");
    else
        lk_buf_putf(out, "; %u pass%s, then %s\n", dataset->epochs,
                    dataset->epochs == 1 ? "" : "es",
                    dataset->then == LK_THEN_RELEASE ? "its share goes to the others"
                    : dataset->then == LK_THEN_STOP  ? "the stream stops"
                                                     : "it repeats without end");
    text_blocks(out, e->stream.recipe, facts);
    text_sample(out, facts);
}

/* ---- stages ---- */

/* A bound of a filter, unless it is @none; @before is what goes before the next one. */
static void text_bound(struct lk_buf *out, const char **before, const char *than, uint64_t bound,
                       uint64_t none, const char *unit)
{
    if (bound == none)
        return;
    lk_buf_putf(out, "%s%s than ", *before, than);
    count(out, "", bound, unit);
    *before = ", or ";
}

static void text_filter(struct lk_buf *out, const struct lk_filter_recipe *filter)
{
    const char *before = "  filter: drops, counts and lists documents with ";
    text_bound(out, &before, "less", filter->min_bytes, 0, " bytes");
    text_bound(out, &before, "more", filter->max_bytes, UINT64_MAX, " bytes");
    text_bound(out, &before, "less", filter->min_tokens, 0, " tokens");
    text_bound(out, &before, "more", filter->max_tokens, UINT64_MAX, " tokens");
    if (filter->field != NULL) {
        lk_buf_putf(out, "%sa field ", before);
        put_safe(out, filter->field, strlen(filter->field));
        lk_buf_puts(out, " that is not \"");
        put_safe(out, filter->equals, strlen(filter->equals));
        lk_buf_puts(out, "\"");
    }
    lk_buf_puts(out, "\n");
}

static void text_pack(struct lk_buf *out, const struct lk_recipe *recipe,
                      const struct lk_stage_recipe *stage)
{
    static const char *const words[] = {
        "documents follow each other, and each sequence's end cuts one; nothing is padded",
        "the first open sequence with room takes a document; what cannot be filled is padded; none is cut",
        "the fullest open sequence with room takes a document; what cannot be filled is padded; none is cut",
        "documents are combined to fill sequences exactly; one is cut only where none fits; nothing is padded",
    };
    lk_buf_putf(out, "  pack %s: %s\n", explain_packs[stage->algorithm], words[stage->algorithm]);
    lk_buf_puts(out, "      holds, in each lane, ");
    if (stage->algorithm == LK_PACK_CONCAT)
        count(out, "the rest of a document, less than ", recipe->sequence, " tokens before its sequence is full");
    else
        count(out, "up to ", stage->pool,
              stage->algorithm == LK_PACK_EXACT_FIT ? " waiting documents" : " open sequences");
    if (stage->groups > 1)
        count(out, ", for each of ", stage->groups, " groups of datasets that share no sequence");
    lk_buf_puts(out, "\n");
}

static void text_stage(struct lk_buf *out, const struct lk_recipe *recipe, uint32_t i)
{
    const struct lk_stage_recipe *stage = &recipe->stage[i];
    bool packed = false;
    for (uint32_t before = 0; before < i; before++)
        packed = packed || recipe->stage[before].kind == LK_STAGE_PACK;
    switch (stage->kind) {
    case LK_STAGE_SPLIT:
        count(out, "  split: cuts documents after every ", stage->max_tokens,
              " tokens; drops, pads and holds nothing\n");
        break;
    case LK_STAGE_SHUFFLE:
        count(out, "  shuffle: holds up to ", stage->buffer,
              packed ? " sequences in each lane; drops and pads nothing\n"
                     : " documents in each lane; drops and pads nothing\n");
        break;
    case LK_STAGE_PACK:
        text_pack(out, recipe, stage);
        break;
    }
}

/* What is put around documents: that nothing is, is as easily forgotten as it is hard to see. */
static void text_around(struct explain *e)
{
    const struct stream *s = &e->stream;
    struct lk_buf *out = &e->out;
    lk_buf_puts(out, "  tokenise: ");
    if (s->has_prepend)
        lk_buf_putf(out, "token %u (%s) before each document, ", s->prepend, s->recipe->tokenizer.prepend);
    if (s->has_append)
        lk_buf_putf(out, "token %u (%s) after each document; ", s->append, s->recipe->tokenizer.append);
    else
        lk_buf_puts(out, s->has_prepend ? "none after it; " : "no token after a document says that it ends (tokenizer.append); ");
}

static void text_stages(struct explain *e)
{
    static const char *const specials[] = {
        "the text of a special token inside a document becomes that token, and is counted",
        "the text of a special token inside a document is text like any other, and is counted",
        "the text of a special token inside a document makes its row malformed",
    };
    const struct lk_recipe *recipe = e->stream.recipe;
    struct lk_buf *out = &e->out;
    lk_buf_putf(out, "\nstages\n  read: a malformed row, or one without its text, %s; one that crashes "
                     "workers %s; one without tokens is dropped and counted\n",
                recipe->on_bad_row == LK_BAD_DROP ? "is dropped, counted and listed" : "stops the stream",
                recipe->drop_crashing ? "is dropped, counted and listed" : "stops the stream");
    text_around(e);
    lk_buf_putf(out, "%s\n", specials[recipe->tokenizer.special_in_text]);
    for (uint32_t i = 0; i < recipe->n_filters; i++)
        text_filter(out, &recipe->filter[i]);
    for (uint32_t i = 0; i < recipe->n_stages; i++)
        text_stage(out, recipe, i);
}

/* ---- end and memory ---- */

static void text_end(struct explain *e)
{
    struct lk_buf *out = &e->out;
    lk_buf_puts(out, "\nend\n");
    if (!e->stream.finite) {
        lk_buf_puts(out, "  the stream has none\n");
        return;
    }
    lk_buf_putf(out, "  the stream ends, for all ranks at the same step, with the first step that a lane "
                     "cannot fill; what remains is %s\n",
                e->stream.recipe->tail == LK_TAIL_PAD ? "padded to whole steps" : "dropped and counted");
    if (!e->facts.estimated) {
        lk_buf_puts(out, "  no estimate of when: see the datasets\n");
        return;
    }
    count(out, "  estimated: after about ", e->facts.steps, " steps, ");
    count(out, "", e->facts.tokens, " tokens; ");
    lk_buf_putf(out, "%s%s\n",
                e->facts.ends_by != NULL ? "stopped by dataset " : "when all datasets are used up",
                e->facts.ends_by != NULL ? e->facts.ends_by : "");
}

/* ---- the run, in advance ---- */

/* In passes, with two decimals as integers make them. */
static void put_passes(struct lk_buf *out, uint64_t drawn, uint64_t rows)
{
    uint64_t hundredths = (uint64_t)((__uint128_t)drawn * 100 / rows);
    count(out, "", hundredths / 100, "");
    lk_buf_putf(out, ".%02" PRIu64 " passes", hundredths % 100);
}

static void text_exact_dataset(struct explain *e, uint32_t d)
{
    const struct exact_dataset *exact = &e->exact.dataset[d];
    struct lk_buf *out = &e->out;
    uint64_t dropped = 0;
    for (int i = 1; i < LK_DROP_KINDS; i++)
        dropped += exact->dropped[i];
    lk_buf_putf(out, "  dataset %s: ", e->stream.recipe->dataset[d].name);
    count(out, "", exact->tokens, " tokens, ");
    put_percent(out, exact->tokens, e->exact.tokens);
    lk_buf_puts(out, " of all; ");
    put_passes(out, exact->drawn, e->facts.dataset[d].rows);
    count(out, ", ", exact->drawn, " rows drawn, ");
    count(out, "", dropped, " dropped\n");
}

static void text_how(struct explain *e)
{
    struct lk_buf *out = &e->out;
    if (e->exact.known == e->exact.rows) {
        lk_buf_puts(out, "  --steps N runs it over known counts for so many steps, and is exact\n");
        return;
    }
    count(out, "  the tokens of ", e->exact.known, "");
    count(out, " of ", e->exact.rows, " rows have been counted; `lanekeeper measure ");
    put_safe(out, e->cli.config_path, strlen(e->cli.config_path));
    lk_buf_puts(out, "` counts the rest, and makes this exact\n");
}

static void text_exact(struct explain *e)
{
    struct lk_buf *out = &e->out;
    if (e->estimate)
        return;
    lk_buf_puts(out, "\nexactly\n");
    if (e->exact.fails != NULL) {
        lk_buf_puts(out, "  it will fail: ");
        put_safe(out, e->exact.fails, strlen(e->exact.fails));
        lk_buf_puts(out, "\n");
        return;
    }
    if (!e->exact.run) {
        text_how(e);
        return;
    }
    count(out, e->exact.ended ? "  the stream ends after " : "  the first ", e->exact.steps, " steps");
    count(out, e->exact.ended ? ", " : " have ", e->exact.sequences, " sequences, ");
    count(out, "", e->exact.tokens, " tokens and ");
    count(out, "", e->exact.padded, " of padding\n");
    for (uint32_t d = 0; d < e->exact.n; d++)
        text_exact_dataset(e, d);
}

static void text_memory(struct explain *e)
{
    const struct lk_runtime *runtime = &e->cli.config.runtime;
    const struct lk_recipe *recipe = e->stream.recipe;
    struct lk_buf *out = &e->out;
    lk_buf_puts(out, "\nmemory of this stream\n");
    put_stream_memory(out, &e->cli.config, recipe);
    if (runtime->snapshot_every == 0) {
        lk_buf_puts(out, "  snapshots   none are written\n");
    } else {
        count(out, "  snapshots   on disk: every ", runtime->snapshot_every, " steps, ");
        count(out, "", (uint64_t)runtime->snapshot_keep * recipe->lanes, " files, each smaller than a lane's buffers\n");
    }
    lk_buf_puts(out, "\n");
    put_memory(out, &e->cli.config);
}

void explain_text(struct explain *e)
{
    text_head(e);
    for (uint32_t d = 0; d < e->facts.n; d++)
        text_dataset(e, d);
    text_stages(e);
    text_end(e);
    text_exact(e);
    text_memory(e);
}
