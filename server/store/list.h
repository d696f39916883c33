/*
 * Which files a dataset's path means.
 */
#ifndef LK_STORE_LIST_H
#define LK_STORE_LIST_H

#include "base/dataset_files.h"
#include "base/status.h"

/*
 * The shards that @path means, sorted by the bytes of their names relative to the root: not by
 * directory order or locale.
 *
 * A directory: every *.jsonl, *.jsonl.gz and *.jsonl.zst below it, recursively (links are followed).
 * Files and folders whose names begin with a dot, and files of other kinds, are listed as ignored.
 * A file: itself; the root is its directory.
 * A glob (* ? [..], not "**"): the files it matches; the root is the directory above the first
 * wildcard. Directories and other files that it matches are listed as ignored.
 *
 * Errors: nothing found; the same shard under two codecs (x.jsonl and x.jsonl.gz); a directory that
 * cannot be read or contains itself by a link; a shard that is no regular file.
 */
enum lk_code lk_dataset_list(const char *path, struct lk_dataset_files *ret_files,
                             struct lk_err *err);

/* The same for @n >= 1 paths, as a shell makes them of a glob that nobody quoted: when there are
 * several, they must be files of one directory. */
enum lk_code lk_dataset_list_all(const char *const *paths, uint32_t n,
                                 struct lk_dataset_files *ret_files, struct lk_err *err);

#endif
