/*
 * How much memory there is for this process: the least of
 *
 *   - physical memory: MemTotal of /proc/meminfo. Swap is none: token memory that is swapped out is slower than
 *     making it anew;
 *   - the limits of its control group and of every group above it, as Documentation/admin-guide/cgroup-v2.rst
 *     (memory.max) and cgroup-v1/memory.rst (memory.limit_in_bytes) of the kernel describe them, where they
 *     are usually mounted: /sys/fs/cgroup, /sys/fs/cgroup/unified, /sys/fs/cgroup/memory. In a container that
 *     sees its own group only, that is the one at the mount point.
 *
 * What cannot be read is no limit.
 */
#ifndef LK_HOST_MACHINE_H
#define LK_HOST_MACHINE_H

#include <stdint.h>

struct machine_memory {
    uint64_t bytes; /* UINT64_MAX: nothing is known */
    char *from;     /* where the number stands, for a person; owned; NULL: nothing is known */
};

/* @root goes before the paths that are read: "" for the machine's own. */
void machine_memory_read(const char *root, struct machine_memory *ret_memory);
void machine_memory_done(struct machine_memory *memory); /* safe on a zeroed one */

#endif
