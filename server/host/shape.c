/* A dataset as the plan sees it, out of its index. In a file of its own, since the simulator has other streams. */
#include "host/stream.h"

void stream_shape(struct stream *stream, uint32_t d)
{
    const struct lk_index *index = &stream->index[d];
    uint64_t *first = lk_zalloc((size_t)index->shards + 1, sizeof *first);
    for (uint32_t s = 0; s < index->shards; s++)
        first[s] = index->shard[s].first_row;
    first[index->shards] = index->rows;
    stream->shard_first[d] = first;
    stream->shape[d] = (struct lk_shape){
        .shards = index->shards, .shard_first = first, .row_bytes = index->row_bytes};
}
