/*
 * sim [--seeds A..B | --seed N] [--jobs N] [--first] [--perturb N] [--verbose]: runs seeds, prints
 * "seeds=N events=N failures=N" and how fast. Each failure is one line: the seed, and the first thing that
 * was not as it must be. --first ends with the first one; --hash prints the hash of each seed's event log.
 */
#include "sim.h"

#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define JOBS_MAX 64
#define SEED_SECONDS 20 /* of CPU time: a seed that takes longer never ends */

static struct sim *the_sim; /* the seams carry no owner: see sim.h */

struct sim *sim_now(void)
{
    return the_sim;
}

/* The log --------------------------------------------------------------------------------------- */

void sim_note(struct sim *sim, const char *format, ...)
{
    char line[SIM_LOG_LINE];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    size_t bytes = n < (int)sizeof line ? (size_t)n : sizeof line - 1;
    sim->log_hash = XXH3_64bits_withSeed(line, bytes, sim->log_hash);
    if (sim->verbose)
        printf("%6" PRIu64 " %s\n", sim->events, line);
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(sim->failure, sizeof sim->failure, format, args);
    va_end(args);
    longjmp(sim->failed, 1);
}

/* In place of base/status.c's, by the linker: a broken invariant ends the seed, not the program. */
_Noreturn void __wrap_lk_check_failed(const char *condition, const char *file, int line);
_Noreturn void __wrap_lk_check_failed(const char *condition, const char *file, int line)
{
    sim_fail(sim_now(), "%s:%d: %s does not hold", file, line, condition);
}

/* Around host/slots.c's: what a slot held before is of no use to anybody. */
uint32_t __real_slots_take(struct slots *slots, uint64_t step, uint32_t rows);
uint32_t __wrap_slots_take(struct slots *slots, uint64_t step, uint32_t rows);
uint32_t __wrap_slots_take(struct slots *slots, uint64_t step, uint32_t rows)
{
    uint32_t slot = __real_slots_take(slots, step, rows);
    if (slot == SLOT_NONE)
        return slot;
    const struct lk_batch_head *head = slots_head(slots, slot);
    memset(slots_tokens(slots, slot, 0), 0xd5, 4 * (size_t)rows * head->tokens);
    memset(slots_parts(slots, slot), 0xd5, (size_t)rows * head->tokens * sizeof(struct lk_batch_part));
    return slot;
}

/* One seed -------------------------------------------------------------------------------------- */

static void describe(void *owner, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void describe(void *owner, const char *format, ...)
{
    char line[SIM_LOG_LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    sim_note(owner, "%s", line);
}

bool sim_run(struct sim *sim, uint64_t seed, bool turning, bool verbose)
{
    memset(sim, 0, sizeof *sim);
    sim->verbose = verbose;
    the_sim = sim;
    gen_case(seed, &sim->of);
    if (turning)
        turns_case(&sim->of);
    gen_describe(&sim->of, describe, sim);
    if (setjmp(sim->failed) != 0)
        return false; /* what it holds is lost: nobody knows in which state it is */
    world_begin(sim);
    if (turning && sim->engine != NULL) {
        turns(sim);
    } else {
        world_events(sim);
        world_calm(sim);
    }
    world_done(sim);
    return true;
}

/* Many ------------------------------------------------------------------------------------------ */

/* Shared with the processes that run seeds. */
struct shared {
    uint64_t next, end;
    uint64_t seeds, events, failures, batches, late;
    uint64_t at[JOBS_MAX]; /* seed that it is at, plus one; 0: none */
};

struct options {
    uint64_t from, to;
    uint32_t jobs;
    bool verbose, hash, first, turns;
};

static void count_failure(struct shared *shared, const struct options *options)
{
    __atomic_fetch_add(&shared->failures, 1, __ATOMIC_SEQ_CST);
    if (options->first)
        __atomic_store_n(&shared->next, shared->end, __ATOMIC_SEQ_CST);
}

static void run_one(struct shared *shared, uint64_t seed, const struct options *options)
{
    static struct sim sim;
    struct itimerval limit = {.it_value = {.tv_sec = SEED_SECONDS}};
    (void)setitimer(ITIMER_VIRTUAL, &limit, NULL);
    bool good = sim_run(&sim, seed, options->turns, options->verbose);
    if (!good) {
        printf("seed %" PRIu64 ": event %" PRIu64 ": %s\n", seed, sim.events, sim.failure);
        count_failure(shared, options);
    }
    if (options->hash)
        printf("%" PRIu64 " %016" PRIx64 "\n", seed, sim.log_hash);
    __atomic_fetch_add(&shared->seeds, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&shared->events, sim.events, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&shared->batches, sim.batches, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&shared->late, sim.late, __ATOMIC_SEQ_CST);
}

static void run_job(struct shared *shared, uint32_t job, const struct options *options)
{
    for (;;) {
        uint64_t seed = __atomic_fetch_add(&shared->next, 1, __ATOMIC_SEQ_CST);
        if (seed >= shared->end)
            break;
        shared->at[job] = seed + 1;
        run_one(shared, seed, options);
        fflush(stdout);
    }
    shared->at[job] = 0;
}

static pid_t fork_job(struct shared *shared, uint32_t job, const struct options *options)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    run_job(shared, job, options);
    exit(0);
}

/* A process that dies takes one seed with it, and another one goes on. */
static void run_jobs(struct shared *shared, const struct options *options)
{
    pid_t pid[JOBS_MAX];
    uint32_t running = 0;
    for (uint32_t i = 0; i < options->jobs; i++, running++)
        pid[i] = fork_job(shared, i, options);
    while (running > 0) {
        int status;
        pid_t gone = wait(&status);
        uint32_t i = 0;
        while (i < options->jobs && pid[i] != gone)
            i++;
        running--;
        if (i == options->jobs || status == 0)
            continue;
        count_failure(shared, options);
        if (shared->at[i] == 0) {
            printf("a process ends with status %d\n", status);
            continue;
        }
        printf("seed %" PRIu64 ": %s, status %d\n", shared->at[i] - 1,
               WIFSIGNALED(status) && WTERMSIG(status) == SIGVTALRM ? "it never ends" : "the process dies", status);
        pid[i] = fork_job(shared, i, options);
        running++;
    }
}

static int usage(void)
{
    fprintf(stderr, "usage: sim [--seeds A..B | --seed N] [--jobs N] [--first] [--perturb N] [--hash] "
                    "[--turns] [--verbose]\n");
    return 2;
}

static bool parse(int argc, char **argv, struct options *options)
{
    char *end;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--verbose") == 0) {
            options->verbose = true;
        } else if (strcmp(argv[i], "--hash") == 0) {
            options->hash = true;
        } else if (strcmp(argv[i], "--first") == 0) {
            options->first = true;
        } else if (strcmp(argv[i], "--turns") == 0) {
            options->turns = true;
        } else if (strcmp(argv[i], "--seed") == 0 && ++i > 0) {
            options->from = strtoull(value, &end, 10);
            options->to = options->from + 1;
        } else if (strcmp(argv[i], "--seeds") == 0 && ++i > 0) {
            options->from = strtoull(value, &end, 10);
            if (strncmp(end, "..", 2) != 0)
                return false;
            options->to = strtoull(end + 2, &end, 10);
        } else if (strcmp(argv[i], "--jobs") == 0 && ++i > 0) {
            options->jobs = (uint32_t)strtoul(value, &end, 10);
        } else if (strcmp(argv[i], "--perturb") == 0 && ++i > 0) {
            (void)mallopt(M_PERTURB, atoi(value)); /* what fresh and freed memory holds */
        } else {
            return false;
        }
    }
    return options->jobs >= 1 && options->jobs <= JOBS_MAX && options->from < options->to;
}

int main(int argc, char **argv)
{
    struct options options = {.from = 0, .to = 1000, .jobs = 1};
    struct timespec begin, now;
    (void)mallopt(M_PERTURB, 0xa5);
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 30); /* what is freed is kept: page faults are what costs time */
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
    if (!parse(argc, argv, &options))
        return usage();
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    LK_CHECK(shared != MAP_FAILED);
    shared->next = options.from;
    shared->end = options.to;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (options.to - options.from == 1)
        run_job(shared, 0, &options);
    else
        run_jobs(shared, &options);
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9;
    printf("seeds=%" PRIu64 " events=%" PRIu64 " failures=%" PRIu64 " batches=%" PRIu64 " late=%" PRIu64
           " events/s=%.0f\n", shared->seeds, shared->events, shared->failures, shared->batches, shared->late,
           (double)shared->events / seconds);
    return shared->failures == 0 ? 0 : 1;
}
