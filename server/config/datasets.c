/* The datasets of a stream: names in order, exact weights, epochs, groups. */
#include "config/draft.h"

#include "config/scalar.h"

#include <stdlib.h>
#include <string.h>

static enum lk_code read_dataset(struct lk_reading *r, const struct lk_yaml *node,
                                 struct lk_dataset_draft *dataset)
{
    LK_TRY(lk_read_name(r, node));
    if (node->kind != LK_YAML_MAP)
        return lk_read_fail(r, node, "expected a mapping {path: …, text: …, weight: …}");
    dataset->node = node;
    dataset->then = LK_THEN_UNSAID;
    dataset->recipe.name = lk_strdup(node->key);
    return lk_read_section(r, "streams.*.datasets.*", node, node, dataset);
}

static int by_name(const void *a, const void *b)
{
    const struct lk_dataset_draft *x = a, *y = b;
    return strcmp(x->recipe.name, y->recipe.name);
}

enum lk_code lk_read_datasets(struct lk_reading *r, const struct lk_key *key,
                              const struct lk_yaml *node, void *object)
{
    struct lk_stream_draft *draft = object;
    if (node->kind != LK_YAML_MAP)
        return lk_read_expected(r, key, node, NULL);
    if (node->n < 1 || node->n > LK_DATASETS_MAX)
        return lk_read_fail(r, node, "expected 1 to %d datasets, found %u", LK_DATASETS_MAX,
                            node->n);
    draft->dataset = lk_zalloc(node->n, sizeof *draft->dataset);
    for (uint32_t i = 0; i < node->n; i++) {
        size_t mark = lk_path_push(r, node->item[i].key);
        LK_TRY(read_dataset(r, &node->item[i], &draft->dataset[draft->n_datasets++]));
        lk_path_pop(r, mark);
    }
    /* A mapping has no order, but the core breaks ties by the datasets' order: names decide it. */
    qsort(draft->dataset, draft->n_datasets, sizeof *draft->dataset, by_name);
    return LK_OK;
}

/* ---- weights: decimal text → the smallest integers of the same proportions ---- */

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static enum lk_code reduce_weights(struct lk_reading *r, struct lk_stream_draft *draft)
{
    const struct lk_yaml *node = lk_yaml_get(draft->node, "datasets");
    uint64_t divisor = 0, sum = 0;
    for (uint32_t i = 0; i < draft->n_datasets; i++)
        divisor = gcd(draft->dataset[i].weight_nano, divisor);
    if (divisor == 0)
        return lk_read_fail_key(r, node, "every weight is 0: expected at least one above it");
    for (uint32_t i = 0; i < draft->n_datasets; i++) {
        struct lk_dataset_draft *dataset = &draft->dataset[i];
        dataset->recipe.weight = dataset->weight_nano / divisor;
        sum += dataset->recipe.weight; /* at most 4096 times 1e18, and cut before it can wrap: */
        if (sum > LK_WEIGHT_SUM_MAX)
            return lk_read_fail_key(r, node,
                                    "the weights as integers without a common divisor sum to more "
                                    "than %llu: round them to fewer digits",
                                    LK_WEIGHT_SUM_MAX);
    }
    return LK_OK;
}

/* ---- epochs ---- */

static enum lk_code settle_epochs(struct lk_reading *r, const struct lk_stream_draft *draft,
                                  struct lk_dataset_draft *dataset)
{
    uint32_t epochs = dataset->epochs != 0 ? dataset->epochs : draft->epochs;
    unsigned then = dataset->then;
    if (then == LK_THEN_UNSAID)
        then = epochs != 0 ? LK_THEN_RELEASE : LK_THEN_REPEAT;
    if (then == LK_THEN_REPEAT && dataset->epochs != 0)
        return lk_read_fail(r, lk_yaml_get(dataset->node, "then"),
                            "\"repeat\" means passes without end: expected no \"epochs\" beside it");
    if (then == LK_THEN_REPEAT)
        epochs = 0;
    else if (epochs == 0)
        epochs = 1;
    dataset->recipe.epochs = epochs;
    dataset->recipe.then = (enum lk_then)then;
    return LK_OK;
}

/* ---- groups of `pack: within` ---- */

static struct lk_dataset_draft *find_dataset(struct lk_stream_draft *draft, const char *name)
{
    for (uint32_t i = 0; i < draft->n_datasets; i++) {
        if (strcmp(draft->dataset[i].recipe.name, name) == 0)
            return &draft->dataset[i];
    }
    return NULL;
}

/* recipe.group holds the group's number from 1 while groups are being read, 0 = in none yet. */
static enum lk_code join_group(struct lk_reading *r, struct lk_stream_draft *draft,
                               const struct lk_yaml *name, uint32_t group)
{
    if (name->kind != LK_YAML_SCALAR)
        return lk_read_fail(r, name, "expected the name of a dataset");
    struct lk_dataset_draft *dataset = find_dataset(draft, name->text);
    if (dataset == NULL)
        return lk_read_fail(r, name, "expected the name of a dataset of this stream, found \"%.64s\"",
                            name->text);
    if (dataset->recipe.group != 0)
        return lk_read_fail(r, name, "dataset \"%s\" is in two groups", dataset->recipe.name);
    dataset->recipe.group = group;
    return LK_OK;
}

static enum lk_code read_group_lists(struct lk_reading *r, struct lk_stream_draft *draft,
                                     const struct lk_yaml *groups)
{
    for (uint32_t g = 0; g < groups->n; g++) {
        const struct lk_yaml *group = &groups->item[g];
        if (group->kind != LK_YAML_LIST || group->n == 0)
            return lk_read_fail(r, group, "expected a list of dataset names");
        for (uint32_t i = 0; i < group->n; i++)
            LK_TRY(join_group(r, draft, &group->item[i], g + 1));
    }
    for (uint32_t i = 0; i < draft->n_datasets; i++) {
        if (draft->dataset[i].recipe.group == 0)
            return lk_read_fail(r, groups, "dataset \"%s\" is in no group: every one has to be",
                                draft->dataset[i].recipe.name);
    }
    return LK_OK;
}

static struct lk_stage_draft *pack_of(struct lk_stream_draft *draft)
{
    for (uint32_t i = 0; i < draft->n_stages; i++) {
        if (draft->stage[i].recipe.kind == LK_STAGE_PACK)
            return &draft->stage[i];
    }
    return NULL;
}

static enum lk_code assign_groups(struct lk_reading *r, struct lk_stream_draft *draft)
{
    struct lk_stage_draft *pack = pack_of(draft);
    LK_CHECK(pack != NULL);
    size_t mark = lk_path_push(r, "pipeline.pack.within.groups");
    if (pack->groups != NULL)
        LK_TRY(read_group_lists(r, draft, pack->groups));
    for (uint32_t i = 0; pack->alone && i < draft->n_datasets; i++)
        draft->dataset[i].recipe.group = i + 1;
    lk_path_pop(r, mark);
    return LK_OK;
}

/* Groups are numbered by their first dataset, so that listing them in another order changes nothing. */
static void renumber_groups(struct lk_recipe *recipe, uint32_t *number_of)
{
    uint32_t groups = 0;
    for (uint32_t i = 0; i < recipe->n_datasets; i++) {
        uint32_t *number = &number_of[recipe->dataset[i].group];
        if (*number == 0)
            *number = ++groups;
        recipe->dataset[i].group = *number - 1;
    }
    for (uint32_t i = 0; i < recipe->n_stages; i++) {
        if (recipe->stage[i].kind == LK_STAGE_PACK)
            recipe->stage[i].groups = groups;
    }
}

/* Moves the datasets that have a share into the recipe. */
static void move_datasets(struct lk_reading *r, struct lk_stream_draft *draft)
{
    struct lk_recipe *recipe = &draft->recipe;
    recipe->dataset = lk_zalloc(draft->n_datasets, sizeof *recipe->dataset);
    for (uint32_t i = 0; i < draft->n_datasets; i++) {
        struct lk_dataset_draft *from = &draft->dataset[i];
        if (from->weight_nano == 0) {
            lk_read_note(r, from->node, "dataset \"%s\" has weight 0 and is left out",
                         from->recipe.name);
            continue;
        }
        recipe->dataset[recipe->n_datasets++] = from->recipe;
        from->recipe = (struct lk_dataset_recipe){0};
    }
}

enum lk_code lk_finish_datasets(struct lk_reading *r, struct lk_stream_draft *draft)
{
    LK_TRY(assign_groups(r, draft));
    size_t mark = lk_path_push(r, "datasets");
    LK_TRY(reduce_weights(r, draft));
    for (uint32_t i = 0; i < draft->n_datasets; i++) {
        size_t inner = lk_path_push(r, draft->dataset[i].recipe.name);
        LK_TRY(settle_epochs(r, draft, &draft->dataset[i]));
        lk_path_pop(r, inner);
    }
    /* No group is empty or shares a dataset, so their numbers end at that of the datasets. */
    uint32_t *number_of = lk_zalloc((size_t)draft->n_datasets + 1, sizeof *number_of);
    move_datasets(r, draft);
    renumber_groups(&draft->recipe, number_of);
    free(number_of);
    lk_path_pop(r, mark);
    return LK_OK;
}
