#include "client/cli/rows.h"

#include "format/format.h"
#include "store/file.h"

#include <stdlib.h>

struct rows_run {
    struct lk_measure *measure;
    struct lk_tokens tokens;
    struct lk_measured *measured; /* of the first row of this call */
};

static enum lk_code each(void *owner, uint32_t i, const uint8_t *bytes, uint32_t n_bytes,
                         struct lk_err *err)
{
    struct rows_run *run = owner;
    struct lk_err why;
    (void)err;
    run->tokens.n = 0;
    return lk_measure_row(run->measure, bytes, n_bytes, &run->tokens, &run->measured[i], &why);
}

static struct lk_measure *measure_of(const struct stream *stream, uint32_t d,
                                     struct lk_measure_filter filter[LK_FILTERS_MAX])
{
    const struct lk_recipe *recipe = stream->recipe;
    for (uint32_t i = 0; i < recipe->n_filters; i++) {
        const struct lk_filter_recipe *from = &recipe->filter[i];
        filter[i] = (struct lk_measure_filter){.min_bytes = from->min_bytes,
                                               .max_bytes = from->max_bytes,
                                               .min_tokens = from->min_tokens,
                                               .max_tokens = from->max_tokens,
                                               .field = from->field,
                                               .equals = from->equals};
    }
    const struct lk_measure_spec spec = {.tokenizer = stream->tokenizer,
                                         .text = recipe->dataset[d].text,
                                         .has_append = stream->has_append,
                                         .has_prepend = stream->has_prepend,
                                         .append = stream->append,
                                         .prepend = stream->prepend,
                                         .drop_bad = true,
                                         .filter = filter,
                                         .n_filters = recipe->n_filters};
    return lk_measure_new(&spec);
}

/* Of rows [0, n), how many lie in the first one's shard; their spans. */
static uint32_t spans_of(const struct lk_index *index, const uint64_t *row, uint32_t n,
                         struct lk_row_span *ret_span, uint32_t *ret_shard)
{
    uint32_t i = 0;
    for (; i < n; i++) {
        struct lk_row_place place = lk_index_place(index, row[i]);
        if (i == 0)
            *ret_shard = place.shard;
        else if (place.shard != *ret_shard)
            break;
        ret_span[i] = (struct lk_row_span){.row = place.row_in_shard,
                                           .offset = place.offset,
                                           .bytes = place.bytes,
                                           .hash = place.hash};
    }
    return i;
}

enum lk_code rows_measure(const struct stream *stream, uint32_t d, const uint64_t *row, uint32_t n,
                          struct lk_measured *ret_measured, struct lk_err *err)
{
    const struct lk_index *index = &stream->index[d];
    struct lk_measure_filter filter[LK_FILTERS_MAX];
    struct lk_shard_cache *cache = lk_shard_cache_new(lk_file_opener(), 2, ROWS_BYTES_MAX);
    struct lk_row_span *span = lk_zalloc(n, sizeof *span);
    struct rows_run run = {.measure = measure_of(stream, d, filter)};
    enum lk_code code = LK_OK;
    for (uint32_t done = 0, some; done < n && code == LK_OK; done += some) {
        uint32_t s = 0;
        some = spans_of(index, row + done, n - done, span, &s);
        run.measured = ret_measured + done;
        const struct lk_index_shard *shard = &index->shard[s];
        code = lk_shard_read_rows(cache, stream->root[d], shard->name, shard->codec,
                                  shard->data_bytes, span, some, each, &run, err);
    }
    lk_tokens_done(&run.tokens);
    lk_measure_free(run.measure);
    lk_shard_cache_free(cache);
    free(span);
    return code;
}
