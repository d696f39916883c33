/* Reading one stream: from the mapping in the file to a recipe. */
#include "config/draft.h"

#include <stdlib.h>
#include <string.h>

void lk_dataset_recipe_done(struct lk_dataset_recipe *dataset)
{
    free(dataset->name);
    free(dataset->path);
    free(dataset->text);
    *dataset = (struct lk_dataset_recipe){0};
}

void lk_filter_recipe_done(struct lk_filter_recipe *filter)
{
    free(filter->field);
    free(filter->equals);
    *filter = (struct lk_filter_recipe){0};
}

void lk_recipe_done(struct lk_recipe *recipe)
{
    for (uint32_t i = 0; i < recipe->n_datasets; i++)
        lk_dataset_recipe_done(&recipe->dataset[i]);
    for (uint32_t i = 0; i < recipe->n_filters; i++)
        lk_filter_recipe_done(&recipe->filter[i]);
    free(recipe->dataset);
    free(recipe->batch);
    free(recipe->name);
    free(recipe->tokenizer.path);
    free(recipe->tokenizer.merges);
    free(recipe->tokenizer.scheme);
    free(recipe->tokenizer.append);
    free(recipe->tokenizer.prepend);
    *recipe = (struct lk_recipe){0};
}

static void draft_done(struct lk_stream_draft *draft)
{
    for (uint32_t i = 0; i < draft->n_datasets; i++)
        lk_dataset_recipe_done(&draft->dataset[i].recipe);
    free(draft->dataset);
    free(draft->tokenizer.hf);
    free(draft->tokenizer.vocab);
    free(draft->tokenizer.merges);
    free(draft->tokenizer.ranks);
    free(draft->tokenizer.scheme);
    lk_filter_recipe_done(&draft->filter);
    lk_recipe_done(&draft->recipe);
}

/* ---- batch: an integer, or a schedule ---- */

static enum lk_code read_schedule(struct lk_reading *r, const struct lk_yaml *list,
                                  struct lk_recipe *recipe)
{
    recipe->batch = lk_zalloc(list->n, sizeof *recipe->batch);
    for (uint32_t i = 0; i < list->n; i++) {
        const struct lk_yaml *entry = &list->item[i];
        struct lk_batch_recipe *batch = &recipe->batch[recipe->n_batches++];
        size_t mark = lk_path_push_index(r, i);
        if (entry->kind != LK_YAML_MAP)
            return lk_read_fail(r, entry, "expected a mapping {from: step, size: sequences}");
        LK_TRY(lk_read_section(r, "streams.*.batch[]", entry, entry, batch));
        if (i == 0 && batch->from != 0)
            return lk_read_fail(r, entry, "expected \"from: 0\" in the first entry, found %llu",
                                (unsigned long long)batch->from);
        if (i > 0 && batch->from <= batch[-1].from)
            return lk_read_fail(r, entry, "expected \"from\" above that of the entry before, %llu",
                                (unsigned long long)batch[-1].from);
        lk_path_pop(r, mark);
    }
    return LK_OK;
}

enum lk_code lk_read_batch(struct lk_reading *r, const struct lk_key *key,
                           const struct lk_yaml *node, void *object)
{
    struct lk_recipe *recipe = &((struct lk_stream_draft *)object)->recipe;
    if (node->kind == LK_YAML_MAP)
        return lk_read_expected(r, key, node, NULL);
    if (node->kind == LK_YAML_LIST) {
        if (node->n < 1 || node->n > LK_BATCHES_MAX)
            return lk_read_fail(r, node, "expected 1 to %d entries, found %u", LK_BATCHES_MAX,
                                node->n);
        return read_schedule(r, node, recipe);
    }
    struct lk_key integer = *key;
    integer.type = LK_KEY_U32;
    integer.offset = offsetof(struct lk_batch_recipe, size);
    recipe->batch = lk_zalloc(1, sizeof *recipe->batch);
    recipe->n_batches = 1;
    return lk_read_value(r, &integer, node, &recipe->batch[0]);
}

static enum lk_code check_batch(struct lk_reading *r, const struct lk_stream_draft *draft)
{
    const struct lk_recipe *recipe = &draft->recipe;
    const struct lk_yaml *node = lk_yaml_get(draft->node, "batch");
    size_t mark = lk_path_push(r, "batch");
    for (uint32_t i = 0; i < recipe->n_batches; i++) {
        uint32_t size = recipe->batch[i].size;
        const struct lk_yaml *at = node->kind == LK_YAML_LIST ? &node->item[i] : node;
        if (size % recipe->lanes != 0)
            return lk_read_fail(r, at,
                                "expected a multiple of lanes (%u), found %u: each lane gives the "
                                "same number of sequences to a step",
                                recipe->lanes, size);
    }
    lk_path_pop(r, mark);
    return LK_OK;
}

/* ---- tokenizer ---- */

/* Exactly one kind, and all that belongs to it. */
static enum lk_code check_tokenizer(struct lk_reading *r, const struct lk_yaml *node,
                                    const struct lk_tokenizer_draft *from)
{
    const struct lk_yaml *pair = lk_yaml_get(node, "pair");
    const struct lk_yaml *tiktoken = lk_yaml_get(node, "tiktoken");
    if ((from->hf != NULL) + (pair != NULL) + (tiktoken != NULL) + from->bytes != 1)
        return lk_read_fail(r, node,
                            "expected exactly one of \"hf: path\", \"pair: {vocab: path, merges: "
                            "path}\", \"tiktoken: {path: path, scheme: name}\" and \"bytes: true\"");
    if (pair != NULL && (from->vocab == NULL || from->merges == NULL))
        return lk_read_fail(r, pair, "expected both \"vocab\" and \"merges\"");
    if (tiktoken != NULL && (from->ranks == NULL || from->scheme == NULL))
        return lk_read_fail(r, tiktoken, "expected both \"path\" and \"scheme\"");
    return LK_OK;
}

static enum lk_code finish_tokenizer(struct lk_reading *r, struct lk_stream_draft *draft)
{
    struct lk_tokenizer_draft *from = &draft->tokenizer;
    struct lk_tokenizer_recipe *to = &draft->recipe.tokenizer;
    size_t mark = lk_path_push(r, "tokenizer");

    LK_TRY(check_tokenizer(r, lk_yaml_get(draft->node, "tokenizer"), from));
    to->source = from->bytes           ? LK_TOKENISE_BYTES
                 : from->hf != NULL    ? LK_TOKENISE_HF
                 : from->vocab != NULL ? LK_TOKENISE_PAIR
                                       : LK_TOKENISE_TIKTOKEN;
    to->path = from->hf != NULL ? from->hf : from->vocab != NULL ? from->vocab : from->ranks;
    to->merges = from->merges;
    to->scheme = from->scheme;
    *from = (struct lk_tokenizer_draft){0};
    lk_path_pop(r, mark);
    return LK_OK;
}

/* ---- the stream itself ---- */

static enum lk_code read_stream(struct lk_reading *r, const struct lk_yaml *node,
                                struct lk_stream_draft *draft)
{
    LK_TRY(lk_read_name(r, node));
    if (node->kind != LK_YAML_MAP)
        return lk_read_fail(r, node, "expected a mapping: the recipe of the stream");
    draft->recipe.name = lk_strdup(node->key);
    LK_TRY(lk_read_section(r, "streams.*", node, node, draft));
    LK_TRY(finish_tokenizer(r, draft));
    LK_TRY(check_batch(r, draft));
    LK_TRY(lk_finish_pipeline(r, draft));
    return lk_finish_datasets(r, draft);
}

enum lk_code lk_read_streams(struct lk_reading *r, const struct lk_key *key,
                             const struct lk_yaml *node, void *object)
{
    struct lk_config *config = &((struct lk_root_draft *)object)->config;
    if (node->kind != LK_YAML_MAP)
        return lk_read_expected(r, key, node, NULL);
    if (node->n < 1 || node->n > LK_STREAMS_MAX)
        return lk_read_fail(r, node, "expected 1 to %d streams, found %u", LK_STREAMS_MAX, node->n);
    config->stream = lk_zalloc(node->n, sizeof *config->stream);
    for (uint32_t i = 0; i < node->n; i++) {
        struct lk_stream_draft draft = {.node = &node->item[i]};
        size_t mark = lk_path_push(r, node->item[i].key);
        enum lk_code code = read_stream(r, &node->item[i], &draft);
        if (code == LK_OK) {
            config->stream[config->n_streams++] = draft.recipe;
            draft.recipe = (struct lk_recipe){0};
        }
        draft_done(&draft);
        if (code != LK_OK)
            return code;
        lk_path_pop(r, mark);
    }
    return LK_OK;
}
