/* The pipeline of a stream: filters, then split, shuffle and pack under the rules of their order. */
#include "config/draft.h"

#include <string.h>

#define SECTION "streams.*.pipeline[]"

enum lk_code lk_read_pipeline(struct lk_reading *r, const struct lk_key *key,
                              const struct lk_yaml *node, void *object)
{
    size_t n_keys;
    const struct lk_key *keys = lk_keys(&n_keys);
    if (node->kind != LK_YAML_LIST)
        return lk_read_expected(r, key, node, NULL);
    for (uint32_t i = 0; i < node->n; i++) {
        const struct lk_yaml *stage = &node->item[i];
        size_t mark = lk_path_push_index(r, i);
        if (stage->kind != LK_YAML_MAP || stage->n != 1)
            return lk_read_fail(r, stage, "expected one stage, such as \"split: {max_tokens: 8192}\"");
        (void)lk_path_push(r, stage->item[0].key);
        size_t k = lk_key_find(SECTION, stage->item[0].key);
        if (k == n_keys) {
            struct lk_buf hint = {0};
            lk_key_put_suggestion(&hint, SECTION, stage->item[0].key);
            enum lk_code code = lk_read_fail_key(
                r, &stage->item[0], "unknown stage: expected filter, split, shuffle or pack%s",
                lk_buf_cstr(&hint));
            lk_buf_done(&hint);
            return code;
        }
        LK_TRY(lk_read_value(r, &keys[k], &stage->item[0], object));
        lk_path_pop(r, mark);
    }
    return LK_OK;
}

/* ---- filter ---- */

static enum lk_code check_filter(struct lk_reading *r, const struct lk_yaml *node,
                                 const struct lk_filter_recipe *filter)
{
    if (node->n == 0)
        return lk_read_fail(r, node, "expected at least one condition, found none");
    if (filter->min_bytes > filter->max_bytes)
        return lk_read_fail(r, node, "min_bytes is above max_bytes: no row could pass");
    if (filter->min_tokens > filter->max_tokens)
        return lk_read_fail(r, node, "min_tokens is above max_tokens: no row could pass");
    if ((filter->field == NULL) != (filter->equals == NULL))
        return lk_read_fail(r, node, "expected \"field\" and \"equals\" together");
    return LK_OK;
}

enum lk_code lk_read_filter(struct lk_reading *r, const struct lk_key *key,
                            const struct lk_yaml *node, void *object)
{
    struct lk_stream_draft *draft = object;
    struct lk_recipe *recipe = &draft->recipe;
    if (node->kind != LK_YAML_MAP)
        return lk_read_expected(r, key, node, NULL);
    if (draft->n_stages > 0)
        return lk_read_fail_key(r, node, "filters come before split, shuffle and pack");
    if (recipe->n_filters == LK_FILTERS_MAX)
        return lk_read_fail_key(r, node, "expected at most %d filters", LK_FILTERS_MAX);
    draft->filter = (struct lk_filter_recipe){.max_bytes = UINT64_MAX, .max_tokens = UINT64_MAX};
    LK_TRY(lk_read_section(r, key->path, node, node, draft));
    LK_TRY(check_filter(r, node, &draft->filter));
    recipe->filter[recipe->n_filters++] = draft->filter;
    draft->filter = (struct lk_filter_recipe){0};
    return LK_OK;
}

/* ---- stages ---- */

static const struct lk_stage_draft *find_stage(const struct lk_stream_draft *draft,
                                               enum lk_stage_kind kind)
{
    for (uint32_t i = 0; i < draft->n_stages; i++) {
        if (draft->stage[i].recipe.kind == kind)
            return &draft->stage[i];
    }
    return NULL;
}

static enum lk_code read_stage(struct lk_reading *r, const struct lk_key *key,
                               const struct lk_yaml *node, struct lk_stream_draft *draft,
                               enum lk_stage_kind kind)
{
    if (node->kind != LK_YAML_MAP)
        return lk_read_expected(r, key, node, NULL);
    if (draft->n_stages == LK_STAGES_MAX)
        return lk_read_fail_key(r, node, "expected at most %d stages after the filters",
                                LK_STAGES_MAX);
    if (kind != LK_STAGE_SHUFFLE && find_stage(draft, kind) != NULL)
        return lk_read_fail_key(r, node, "expected at most one of this stage, found a second");
    draft->next = (struct lk_stage_draft){.node = node};
    LK_TRY(lk_read_section(r, key->path, node, node, draft));
    draft->next.recipe.kind = kind;
    draft->stage[draft->n_stages++] = draft->next;
    return LK_OK;
}

enum lk_code lk_read_split(struct lk_reading *r, const struct lk_key *key,
                           const struct lk_yaml *node, void *object)
{
    struct lk_stream_draft *draft = object;
    if (find_stage(draft, LK_STAGE_PACK) != NULL)
        return lk_read_fail_key(r, node, "split comes before pack: sequences are not split");
    return read_stage(r, key, node, draft, LK_STAGE_SPLIT);
}

enum lk_code lk_read_shuffle(struct lk_reading *r, const struct lk_key *key,
                             const struct lk_yaml *node, void *object)
{
    return read_stage(r, key, node, object, LK_STAGE_SHUFFLE);
}

enum lk_code lk_read_pack(struct lk_reading *r, const struct lk_key *key,
                          const struct lk_yaml *node, void *object)
{
    struct lk_stream_draft *draft = object;
    LK_TRY(read_stage(r, key, node, draft, LK_STAGE_PACK));
    struct lk_stage_draft *pack = &draft->stage[draft->n_stages - 1];
    if (pack->recipe.algorithm == LK_PACK_CONCAT) {
        const struct lk_yaml *pool = lk_yaml_get(node, "pool");
        if (pool != NULL)
            return lk_read_fail_key(r, pool, "\"concat\" has no pool: remove the key");
        pack->recipe.pool = 0;
    }
    return LK_OK;
}

enum lk_code lk_read_within(struct lk_reading *r, const struct lk_key *key,
                            const struct lk_yaml *node, void *object)
{
    struct lk_stage_draft *pack = &((struct lk_stream_draft *)object)->next;
    if (node->kind == LK_YAML_MAP)
        return lk_read_section(r, key->path, node, node, object);
    if (node->kind == LK_YAML_LIST)
        return lk_read_expected(r, key, node, NULL);
    pack->alone = strcmp(node->text, "dataset") == 0;
    if (!pack->alone && strcmp(node->text, "all") != 0)
        return lk_read_expected(r, key, node, NULL);
    return LK_OK;
}

/* Only kept: which names there are is known when the whole stream has been read. */
enum lk_code lk_read_groups(struct lk_reading *r, const struct lk_key *key,
                            const struct lk_yaml *node, void *object)
{
    if (node->kind != LK_YAML_LIST || node->n == 0)
        return lk_read_expected(r, key, node, NULL);
    ((struct lk_stream_draft *)object)->next.groups = node;
    return LK_OK;
}

/* first_fit and best_fit never cut a record, so none may be longer than a sequence. */
static bool records_fit(const struct lk_stream_draft *draft)
{
    const struct lk_stage_draft *split = find_stage(draft, LK_STAGE_SPLIT);
    if (split != NULL && split->recipe.max_tokens <= draft->recipe.sequence)
        return true;
    for (uint32_t i = 0; i < draft->recipe.n_filters; i++) {
        if (draft->recipe.filter[i].max_tokens <= draft->recipe.sequence)
            return true;
    }
    return false;
}

enum lk_code lk_finish_pipeline(struct lk_reading *r, struct lk_stream_draft *draft)
{
    struct lk_recipe *recipe = &draft->recipe;
    const struct lk_yaml *node = lk_yaml_get(draft->node, "pipeline");
    const struct lk_stage_draft *pack = find_stage(draft, LK_STAGE_PACK);
    size_t mark = lk_path_push(r, "pipeline");
    if (pack == NULL)
        return lk_read_fail_key(r, node, "expected a \"pack\" stage, found none");
    enum lk_pack algorithm = pack->recipe.algorithm;
    bool whole = algorithm == LK_PACK_FIRST_FIT || algorithm == LK_PACK_BEST_FIT;
    if (whole && !records_fit(draft))
        return lk_read_fail(r, pack->node,
                            "%s never cuts a record: expected a \"split\" with max_tokens of at "
                            "most the sequence (%u) before it, or a filter with such max_tokens",
                            algorithm == LK_PACK_FIRST_FIT ? "first_fit" : "best_fit",
                            recipe->sequence);
    for (uint32_t i = 0; i < draft->n_stages; i++)
        recipe->stage[i] = draft->stage[i].recipe;
    recipe->n_stages = draft->n_stages;
    lk_path_pop(r, mark);
    return LK_OK;
}
