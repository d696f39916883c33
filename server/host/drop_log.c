#include "host/drop_log.h"

#include <inttypes.h>
#include <stdlib.h>

void drop_log_init(struct drop_log *drops, const struct stream *stream, const struct log *log)
{
    uint32_t n = stream->recipe->n_datasets;
    *drops = (struct drop_log){.stream = stream,
                               .log = log,
                               .row = lk_zalloc(n, sizeof *drops->row),
                               .why = lk_zalloc(n, sizeof *drops->why)};
}

void drop_log_done(struct drop_log *drops)
{
    free(drops->row);
    free(drops->why);
    *drops = (struct drop_log){.stream = NULL};
}

static bool broken(enum lk_drop drop)
{
    return drop == LK_DROP_MALFORMED || drop == LK_DROP_FIELD || drop == LK_DROP_CRASH ||
           drop == LK_DROP_SPECIAL;
}

static void put(const struct drop_log *drops, enum log_level level, const char *event, uint32_t dataset,
                uint64_t row, const char *text)
{
    const struct lk_recipe *recipe = drops->stream->recipe;
    const struct lk_index *index = &drops->stream->index[dataset];
    struct lk_row_place place = lk_index_place(index, row);
    log_text(drops->log, level, "stream", event, "%s: dataset %s shard %s row %" PRIu64 ": %s", recipe->name,
             recipe->dataset[dataset].name, index->shard[place.shard].name, place.row_in_shard, text);
}

void drop_log_row(struct drop_log *drops, uint32_t dataset, uint64_t row, enum lk_drop drop)
{
    bool warn = broken(drop) && log_limit_first(&drops->row[dataset][drop], DROP_LOG_FIRST);
    drops->more += broken(drop) && !warn;
    put(drops, warn ? LOG_LEVEL_WARN : LOG_LEVEL_DEBUG, "row_dropped", dataset, row, lk_drop_name(drop));
}

/* Those beyond the first are not summed up: the rows are, when they are drawn. */
void drop_log_why(struct drop_log *drops, uint32_t dataset, uint64_t row, enum lk_drop drop, const char *why)
{
    if (why[0] == '\0')
        return;
    bool first = log_limit_first(&drops->why[dataset][drop], DROP_LOG_FIRST);
    put(drops, first ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, "row_malformed", dataset, row, why);
}

void drop_log_sum(struct drop_log *drops)
{
    const struct lk_recipe *recipe = drops->stream->recipe;
    struct lk_buf rules = {0};
    drops->more = 0;
    for (uint32_t d = 0; d < recipe->n_datasets; d++) {
        rules.len = 0;
        for (uint32_t rule = 0; rule < LK_DROP_KINDS; rule++) {
            uint64_t more = log_limit_more(&drops->row[d][rule], 0, 0);
            if (more > 0)
                lk_buf_putf(&rules, "%s%" PRIu64 " %s", rules.len > 0 ? ", " : "", more,
                            lk_drop_name((enum lk_drop)rule));
        }
        if (rules.len > 0)
            log_text(drops->log, LOG_LEVEL_WARN, "stream", "rows_dropped",
                     "%s: dataset %s: more rows dropped: %s; `lanekeeper status` counts all of them, "
                     "`lanekeeper measure CONFIG --dropped` lists each",
                     recipe->name, recipe->dataset[d].name, lk_buf_cstr(&rules));
    }
    lk_buf_done(&rules);
}
