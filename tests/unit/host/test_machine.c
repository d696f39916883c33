/* What memory there is, on machines that are made up file by file. */
#include "host/machine.h"

#include "tests/lib/check_main.h"
#include "tests/lib/temp_dir.h"

#include <string.h>

#define MIB (1ull << 20)

static struct temp_dir root;

static void setup(void)
{
    temp_dir_init(&root);
}

static void teardown(void)
{
    temp_dir_done(&root);
}

static void have(const char *path, const char *text)
{
    (void)temp_file(&root, path + 1, text, strlen(text));
}

static void have_physical(void)
{
    have("/proc/meminfo", "Foo:  7 kB\nMemTotal:       16384 kB\nMemFree:  1 kB\n");
}

/* @from: what the source's text ends with; NULL: none. */
static void expect(uint64_t bytes, const char *from)
{
    struct machine_memory memory;
    machine_memory_read(root.path, &memory);
    ck_assert_uint_eq(memory.bytes, bytes);
    ck_assert_int_eq(from == NULL, memory.from == NULL);
    if (from != NULL) {
        size_t n = strlen(from), m = strlen(memory.from);
        ck_assert_msg(m >= n && strcmp(memory.from + m - n, from) == 0, "%s, expected %s", memory.from, from);
    }
    machine_memory_done(&memory);
    machine_memory_done(&memory);
}

START_TEST(nothing_readable_is_no_limit)
{
    expect(UINT64_MAX, NULL);
    have("/proc/meminfo", "MemTotal: plenty\n");
    have("/proc/self/cgroup", "");
    expect(UINT64_MAX, NULL);
    have("/proc/self/cgroup", "nonsense\n0:\n::\n0::\n");
    expect(UINT64_MAX, NULL);
}
END_TEST

START_TEST(without_groups_there_is_physical_memory)
{
    have_physical();
    expect(16 * MIB, "MemTotal of /proc/meminfo");
    have("/proc/self/cgroup", "0::/user.slice/a.scope\n"); /* files of a group that are missing */
    expect(16 * MIB, "MemTotal of /proc/meminfo");
}
END_TEST

START_TEST(version_2_the_least_of_the_group_and_those_above_it)
{
    have_physical();
    have("/proc/self/cgroup", "0::/a.slice/job_7/step_0\n");
    have("/sys/fs/cgroup/a.slice/job_7/step_0/memory.max", "max\n");
    expect(16 * MIB, "/proc/meminfo");
    have("/sys/fs/cgroup/a.slice/job_7/memory.max", "8388608\n");
    expect(8 * MIB, "limit of the control group, /sys/fs/cgroup/a.slice/job_7/memory.max");
    have("/sys/fs/cgroup/a.slice/memory.max", "9437184\n"); /* more */
    have("/sys/fs/cgroup/a.slice/job_8/memory.max", "1\n"); /* another's */
    expect(8 * MIB, "/sys/fs/cgroup/a.slice/job_7/memory.max");
    have("/sys/fs/cgroup/a.slice/job_7/step_0/memory.max", "4194304\n");
    expect(4 * MIB, "/sys/fs/cgroup/a.slice/job_7/step_0/memory.max");
    have("/sys/fs/cgroup/a.slice/memory.max", "2097152");
    expect(2 * MIB, "/sys/fs/cgroup/a.slice/memory.max");
    have("/sys/fs/cgroup/memory.max", "1048576\n");
    expect(MIB, "/sys/fs/cgroup/memory.max");
}
END_TEST

START_TEST(a_container_that_sees_its_own_group_only)
{
    have_physical();
    have("/sys/fs/cgroup/memory.max", "8388608\n");
    have("/proc/self/cgroup", "0::/\n");
    expect(8 * MIB, "/sys/fs/cgroup/memory.max");
    have("/proc/self/cgroup", "0::/docker/0123456789abcdef\n");
    expect(8 * MIB, "/sys/fs/cgroup/memory.max");
    have("/sys/fs/cgroup/docker/another/memory.max", "4096\n"); /* of containers in this one: the group is none of them */
    have("/sys/fs/cgroup/docker/memory.max", "4096\n");
    expect(8 * MIB, "/sys/fs/cgroup/memory.max");
    have("/proc/self/cgroup", "0::/../outside\n");
    have("/sys/fs/outside/memory.max", "4096\n"); /* a path is not followed out of the mount */
    expect(8 * MIB, "/sys/fs/cgroup/memory.max");
}
END_TEST

START_TEST(version_1_and_both_at_once)
{
    have_physical();
    have("/proc/self/cgroup", "12:cpu,cpuacct:/x\n4:memory:/docker/abc\n3:hugetlb,memoryless:/y\n0::/docker/abc\n");
    have("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none, as version 1 says it */
    have("/sys/fs/cgroup/memory/y/memory.limit_in_bytes", "4096\n");
    have("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "4096\n");
    expect(16 * MIB, "/proc/meminfo");
    have("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "8388608\n");
    expect(8 * MIB, "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes");
    have("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "4194304\n");
    expect(4 * MIB, "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes");
    have("/sys/fs/cgroup/unified/docker/abc/memory.max", "2097152\n");
    expect(2 * MIB, "/sys/fs/cgroup/unified/docker/abc/memory.max");
    have("/proc/self/cgroup", "9:cpu,memory:/z\n");
    have("/sys/fs/cgroup/memory/z/memory.limit_in_bytes", "1048576\n");
    expect(MIB, "/sys/fs/cgroup/memory/z/memory.limit_in_bytes");
}
END_TEST

START_TEST(numbers_that_are_none_are_no_limit)
{
    static const char *const bad[] = {"", "\n", "max", "-1\n", "4096k\n", "0\n", "99999999999999999999999\n", "0x1000\n"};
    have_physical();
    have("/proc/self/cgroup", "0::/a\n");
    have("/sys/fs/cgroup/a/memory.max", bad[_i]);
    expect(16 * MIB, "/proc/meminfo");
}
END_TEST

/* Whatever machine this is: it has more than a MiB, and says where that stands. */
START_TEST(this_machine)
{
    struct machine_memory memory;
    machine_memory_read("", &memory);
    ck_assert_uint_gt(memory.bytes, MIB);
    ck_assert_uint_lt(memory.bytes, UINT64_MAX);
    ck_assert_ptr_nonnull(memory.from);
    machine_memory_done(&memory);
}
END_TEST

Suite *suite(void)
{
    Suite *suite_ = suite_create("host/machine");
    TCase *t = tcase_create("machine");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, nothing_readable_is_no_limit);
    tcase_add_test(t, without_groups_there_is_physical_memory);
    tcase_add_test(t, version_2_the_least_of_the_group_and_those_above_it);
    tcase_add_test(t, a_container_that_sees_its_own_group_only);
    tcase_add_test(t, version_1_and_both_at_once);
    tcase_add_loop_test(t, numbers_that_are_none_are_no_limit, 0, 8);
    tcase_add_test(t, this_machine);
    suite_add_tcase(suite_, t);
    return suite_;
}
