#include "config/canonical.h"

#include "core/plan.h"

/* Words of the text: fixed here, because the keys of the configuration may be renamed one day. */
static const char *const tokenizer_words[] = {"bytes", "hf", "pair", "tiktoken"};
static const char *const special_words[] = {"split", "text", "error"};
static const char *const mixture_words[] = {"tokens", "bytes", "samples"};
static const char *const then_words[] = {"repeat", "stop", "release"};
static const char *const bad_words[] = {"error", "drop"};
static const char *const pack_words[] = {"concat", "first_fit", "best_fit", "exact_fit"};
static const char *const tail_words[] = {"drop", "pad"};
static const char *const order_words[] = {"sequential", "permuted"};

static void put_line(struct lk_buf *out, const char *key, const char *word)
{
    lk_buf_putf(out, "%s %s\n", key, word);
}

static void put_number(struct lk_buf *out, const char *key, uint64_t value)
{
    lk_buf_putf(out, "%s %llu", key, (unsigned long long)value);
}

/* A limit that is not set is the highest value of its type. */
static void put_limit(struct lk_buf *out, const char *key, uint64_t value)
{
    if (value == UINT64_MAX)
        lk_buf_putf(out, "%s none", key);
    else
        put_number(out, key, value);
}

static void put_text(struct lk_buf *out, const char *key, const char *text)
{
    lk_buf_putf(out, "%s ", key);
    if (text == NULL) {
        lk_buf_puts(out, "none");
        return;
    }
    lk_buf_puts(out, "\"");
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == 0x7F) {
            lk_buf_putf(out, "\\x%02x", c);
        } else {
            if (c == '"' || c == '\\')
                lk_buf_puts(out, "\\");
            lk_buf_put(out, p, 1);
        }
    }
    lk_buf_puts(out, "\"");
}

static void put_text_line(struct lk_buf *out, const char *key, const char *text)
{
    put_text(out, key, text);
    lk_buf_puts(out, "\n");
}

static void put_tokenizer(struct lk_buf *out, const struct lk_recipe *recipe)
{
    put_line(out, "tokenizer", tokenizer_words[recipe->tokenizer.source]);
    if (recipe->tokenizer.source == LK_TOKENISE_TIKTOKEN)
        put_text_line(out, "scheme", recipe->tokenizer.scheme);
    put_text_line(out, "append", recipe->tokenizer.append);
    put_text_line(out, "prepend", recipe->tokenizer.prepend);
    put_line(out, "special_in_text", special_words[recipe->tokenizer.special_in_text]);
}

static void put_bad_rows(struct lk_buf *out, const struct lk_recipe *recipe)
{
    put_line(out, "on_bad_row", bad_words[recipe->on_bad_row]);
    put_line(out, "on_crash", bad_words[recipe->drop_crashing]);
}

static void put_head(struct lk_buf *out, const struct lk_recipe *recipe)
{
    lk_buf_putf(out, "lanekeeper-order %d\n", LK_ORDER_VERSION);
    lk_buf_putf(out, "seed %llu\n", (unsigned long long)recipe->seed);
    lk_buf_putf(out, "lanes %u\n", recipe->lanes);
    lk_buf_putf(out, "sequence %u\n", recipe->sequence);
    put_tokenizer(out, recipe);
    put_line(out, "mixture", mixture_words[recipe->mixture]);
    if (recipe->block_rows == 0)
        put_line(out, "block_rows", "shard");
    else
        lk_buf_putf(out, "block_rows %u\n", recipe->block_rows);
    put_line(out, "blocks", order_words[recipe->permute_blocks]);
    put_line(out, "rows", order_words[recipe->permute_rows]);
    put_bad_rows(out, recipe);
}

static void put_dataset(struct lk_buf *out, const struct lk_dataset_recipe *dataset)
{
    put_text(out, "dataset", dataset->name);
    put_text(out, " text", dataset->text);
    put_number(out, " weight", dataset->weight);
    put_number(out, " epochs", dataset->epochs);
    lk_buf_putf(out, " then %s", then_words[dataset->then]);
    put_number(out, " group", dataset->group);
    lk_buf_puts(out, "\n");
}

static void put_filter(struct lk_buf *out, const struct lk_filter_recipe *filter)
{
    put_number(out, "filter min_bytes", filter->min_bytes);
    put_limit(out, " max_bytes", filter->max_bytes);
    put_number(out, " min_tokens", filter->min_tokens);
    put_limit(out, " max_tokens", filter->max_tokens);
    put_text(out, " field", filter->field);
    put_text(out, " equals", filter->equals);
    lk_buf_puts(out, "\n");
}

static void put_stage(struct lk_buf *out, const struct lk_stage_recipe *stage)
{
    switch (stage->kind) {
    case LK_STAGE_SPLIT:
        lk_buf_putf(out, "split max_tokens %u\n", stage->max_tokens);
        break;
    case LK_STAGE_SHUFFLE:
        lk_buf_putf(out, "shuffle buffer %u\n", stage->buffer);
        break;
    case LK_STAGE_PACK:
        lk_buf_putf(out, "pack %s pool %u groups %u\n", pack_words[stage->algorithm], stage->pool,
                    stage->groups);
        break;
    }
}

static void put_batches(struct lk_buf *out, const struct lk_recipe *recipe)
{
    for (uint32_t i = 0; i < recipe->n_batches; i++) {
        const struct lk_batch_recipe *batch = &recipe->batch[i];
        if (i > 0 && batch->size == batch[-1].size)
            continue;
        lk_buf_putf(out, "batch from %llu size %u\n", (unsigned long long)batch->from, batch->size);
    }
}

void lk_recipe_canonical(const struct lk_recipe *recipe, struct lk_buf *order_text,
                         struct lk_buf *batch_text)
{
    put_head(order_text, recipe);
    for (uint32_t i = 0; i < recipe->n_datasets; i++)
        put_dataset(order_text, &recipe->dataset[i]);
    for (uint32_t i = 0; i < recipe->n_filters; i++)
        put_filter(order_text, &recipe->filter[i]);
    for (uint32_t i = 0; i < recipe->n_stages; i++)
        put_stage(order_text, &recipe->stage[i]);
    put_line(order_text, "tail", tail_words[recipe->tail]);
    lk_buf_putf(order_text, "pad_id %u\n", recipe->pad_id);
    put_batches(batch_text, recipe);
}

void lk_recipe_digests(const struct lk_recipe *recipe, const struct lk_digest *dataset_digest,
                       struct lk_digest tokenizer, struct lk_digest *ret_order,
                       struct lk_digest *ret_stream)
{
    struct lk_buf order = {0}, batches = {0}, stream = {0};
    char hex[LK_DIGEST_HEX];
    lk_recipe_canonical(recipe, &order, &batches);
    for (uint32_t i = 0; i < recipe->n_datasets; i++) {
        lk_digest_hex(dataset_digest[i], hex);
        put_line(&order, "data", hex);
    }
    lk_digest_hex(tokenizer, hex);
    put_line(&order, "tokenizer-data", hex);
    *ret_order = lk_digest_of(order.data, order.len);

    lk_digest_hex(*ret_order, hex);
    put_line(&stream, "order", hex);
    lk_buf_put(&stream, batches.data, batches.len);
    *ret_stream = lk_digest_of(stream.data, stream.len);
    lk_buf_done(&order);
    lk_buf_done(&batches);
    lk_buf_done(&stream);
}

struct lk_digest lk_recipe_ops_digest(const struct lk_recipe *recipe, uint32_t dataset,
                                      struct lk_digest tokenizer)
{
    struct lk_buf text = {0};
    char hex[LK_DIGEST_HEX];
    lk_buf_putf(&text, "lanekeeper-counts %d\n", LK_COUNTS_VERSION);
    put_tokenizer(&text, recipe);
    put_bad_rows(&text, recipe);
    put_text_line(&text, "text", recipe->dataset[dataset].text);
    for (uint32_t i = 0; i < recipe->n_filters; i++)
        put_filter(&text, &recipe->filter[i]);
    lk_digest_hex(tokenizer, hex);
    put_line(&text, "tokenizer-data", hex);
    struct lk_digest digest = lk_digest_of(text.data, text.len);
    lk_buf_done(&text);
    return digest;
}
