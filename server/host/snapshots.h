/*
 * Snapshot files: the saved states of lanes. They only save time; losing all of them costs replay.
 *
 * One file a lane and position, named <order digest>-<lane>-<position>.lks, so that its content
 * depends on its name alone: two servers may share a directory and write the same file. Written to an
 * unnamed file, synced, linked under its name, the directory synced; by a thread of its own, since a
 * disk may be slow. A torn or damaged one is named in the log, and an older one is used.
 *
 * File, little-endian: "LKS1", u32 version (1), order digest 16, u32 lane, u32 reserved, u64 position,
 * u32 state bytes, u32 compressed bytes, u64 XXH3-64 of the 48 bytes before, u64 XXH3-64 of the
 * compressed bytes, then these (zstd of lane_save's).
 */
#ifndef LK_HOST_SNAPSHOTS_H
#define LK_HOST_SNAPSHOTS_H

#include "base/digest.h"
#include "base/mem.h"
#include "base/status.h"
#include "core/recipe.h"
#include "host/log.h"

#include <stdbool.h>
#include <stdint.h>

struct snapshots;

/* @keep: the files just before the one last written, which all stay; older ones are thinned, so that a
 * past step is never further from one than about 2/keep of its distance. Files beyond the one last
 * written are another run's, and are left alone. The directory is made when missing. */
enum lk_code snapshots_open(const char *dir, uint32_t keep, const struct log *log,
                            struct snapshots **ret_snapshots, struct lk_err *err);
void snapshots_close(struct snapshots *snapshots); /* writes what is queued first; NULL is fine */

/* Queues a state for writing; takes the memory of @state. @recipe and @every (steps between two
 * snapshots) number the files, for thinning; the recipe must outlive the writer. Full queue or disk: it
 * is dropped, counted and logged, never waited for. A file of that name that exists already is left as
 * it is. */
void snapshots_write(struct snapshots *snapshots, const struct lk_recipe *recipe, uint64_t every,
                     struct lk_digest order, uint32_t lane, uint64_t position,
                     struct lk_buf *state);

/*
 * The newest readable state of @lane at or before @until and at or after @from: its position and
 * bytes. False when there is none. A damaged one is logged, removed, and an older one tried. The
 * directory is read at most once a second, so one just written may not be seen yet.
 */
bool snapshots_read(struct snapshots *snapshots, struct lk_digest order, uint32_t lane,
                    uint64_t from, uint64_t until, uint64_t *ret_position, struct lk_buf *ret_state);

/* Something that entered states of this order has turned out to be wrong: removes all of them, written and
 * queued. */
void snapshots_forget(struct snapshots *snapshots, struct lk_digest order);

struct snapshots_stats {
    uint64_t written, bytes, failed, damaged, read;
};
void snapshots_stats(struct snapshots *snapshots, struct snapshots_stats *ret_stats);

/* Checks one file: name, header, hashes. For `lanekeeper verify`. */
enum lk_code snapshot_check(const char *path, struct lk_digest *ret_order, uint32_t *ret_lane,
                            uint64_t *ret_position, struct lk_err *err);

#endif
