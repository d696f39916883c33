/*
 * The decoded bytes of one compressed shard, kept for reading at any offset: in memory when small,
 * else in a file without a name.
 */
#ifndef LK_FORMAT_DECODED_H
#define LK_FORMAT_DECODED_H

#include "base/dataset_files.h"
#include "base/source.h"

/*
 * Decodes @source, which must yield exactly @data_bytes, into something that can be read like a
 * plain file. @source may be closed afterwards. DATA_LOSS when it yields more or fewer bytes;
 * RESOURCE_EXHAUSTED when the temporary directory is full.
 */
enum lk_code lk_decoded_make(struct lk_source *source, enum lk_codec codec, uint64_t data_bytes,
                             struct lk_source **ret_decoded, struct lk_err *err);

#endif
