/*
 * An expression as a program, and the machine that runs it.
 *
 * The machine backtracks as the reference's engine does, from a stack of its own. Characters are first
 * mapped to the classes in which the expression's sets divide them, at most 256. Branches that the
 * next character rules out are never entered. Should the work get out of proportion to the text seen,
 * every state (instruction, place) that fails is remembered and not tried again, also by later attempts
 * and calls: whether a state fails depends on nothing before it (as in Davis et al., "Using Selective
 * Memoization to Defeat Regular Expression Denial of Service", 2021).
 */
#include "op/pretok/regex.h"

#include "base/digest.h"
#include "base/mem.h"
#include "op/pretok/regex_tree.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM_MAX 1024
#define STEPS_FREE 65536u /* before the work is compared with the text seen */
#define STEPS_PER_BYTE 64u
#define SEEN_BITS_MAX (UINT64_C(1) << 32)

enum op { OP_SET, OP_RUN, OP_SPLIT, OP_JUMP, OP_LOOK, OP_END, OP_LINE_END, OP_MATCH };

struct filter { /* classes of the next character with which it is worth going on */
    uint64_t bits[4];
};

struct inst {
    enum op op;
    enum lk_repeat how; /* of RUN */
    bool negative;      /* of LOOK */
    uint32_t a;         /* SET, RUN: the set; SPLIT: tried first; JUMP: where to; LOOK: after its body */
    uint32_t b;         /* RUN: at most so many; SPLIT: tried second */
    uint32_t slot;      /* of SPLIT and RUN, counted */
    struct filter first, second; /* of SPLIT */
};

/*
 * States that failed, in a text that proved hard. A cutter keeps no state between calls, but a cache it
 * may: what is left of a text is known again by its length and digest, whoever asks.
 */
struct memo {
    size_t span;              /* places: 0…span bytes before the end */
    size_t left;              /* of the text, when it was put away, */
    struct lk_digest digest;  /* and of which */
    uint64_t bits[];          /* slot * (span + 1) + bytes before the end */
};

struct regex {
    _Atomic(struct memo *) spare; /* of the last call that found its text hard; taken by the next one */
    struct inst *program;
    uint32_t n, slots;
    enum lk_split how;
    bool spelled;
    struct filter start;
    struct lk_unicode classes;
    uint8_t bytes[256];   /* of spelled text */
    uint64_t masks[256];  /* class → sets that it belongs to */
    struct filter sets[LK_REGEX_SETS]; /* and the other way round */
};

static void regex_free(void *data)
{
    struct regex *regex = data;

    if (regex == NULL)
        return;
    free(atomic_load(&regex->spare));
    free(regex->program);
    lk_unicode_done(&regex->classes);
    free(regex);
}

/* ---- classes ---- */

struct event {
    uint32_t point;
    uint64_t sets; /* that begin or end there */
};

static int compare_events(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    return (x->point > y->point) - (x->point < y->point);
}

static struct event *events_of(const struct lk_regex_tree *tree, size_t *ret_n)
{
    size_t n = 0, cap = 0;

    for (uint32_t i = 0; i < tree->sets_n; i++)
        cap += 2 * tree->sets[i].n;
    struct event *events = lk_zalloc(cap + 1, sizeof *events);
    for (uint32_t i = 0; i < tree->sets_n; i++)
        for (size_t k = 0; k < tree->sets[i].n; k++) {
            events[n++] = (struct event){tree->sets[i].ranges[k].first, UINT64_C(1) << i};
            events[n++] = (struct event){tree->sets[i].ranges[k].last + 1, UINT64_C(1) << i};
        }
    qsort(events, n, sizeof *events, compare_events);
    *ret_n = n;
    return events;
}

/* Class 0 is what is in no set. */
static enum lk_code make_classes(struct regex *regex, const struct lk_regex_tree *tree,
                                 struct lk_err *err)
{
    size_t n = 0, classes = 1;
    struct event *events = events_of(tree, &n);
    uint8_t *flags = lk_zalloc(0x110000, 1);
    uint64_t sets = 0;
    enum lk_code code = LK_OK;

    for (size_t i = 0; i < n && code == LK_OK; i++) {
        sets ^= events[i].sets;
        uint32_t from = events[i].point, to = i + 1 < n ? events[i + 1].point : 0x110000;
        if (from == to)
            continue;
        size_t class = 0;
        while (class < classes && regex->masks[class] != sets)
            class++;
        if (class == classes && classes == 256) {
            code = lk_fail(err, LK_UNIMPLEMENTED,
                           "an expression that divides characters into more than 256 classes");
            break;
        }
        if (class == classes)
            regex->masks[classes++] = sets;
        memset(flags + from, (int)class, to - from);
    }
    free(events);
    lk_unicode_pack(&regex->classes, flags);
    return code;
}

/* ---- the program ---- */

struct compiler {
    const struct lk_regex_tree *tree;
    struct regex *regex;
    struct lk_err *err;
};

static enum lk_code emit(struct compiler *compiler, struct inst inst)
{
    struct regex *regex = compiler->regex;

    if (regex->n == PROGRAM_MAX)
        return lk_fail(compiler->err, LK_UNIMPLEMENTED, "an expression as long as this");
    if (inst.op == OP_SPLIT || inst.op == OP_RUN)
        inst.slot = regex->slots++;
    regex->program[regex->n++] = inst;
    return LK_OK;
}

static enum lk_code compile(struct compiler *compiler, uint32_t index);

static enum lk_code compile_run(struct compiler *compiler, const struct lk_node *node,
                                const struct lk_node *child)
{
    for (uint32_t i = 0; i < node->min; i++)
        LK_TRY(emit(compiler, (struct inst){.op = OP_SET, .a = child->set}));
    uint32_t more = node->max == LK_REGEX_ENDLESS ? node->max : node->max - node->min;
    if (more == 0)
        return LK_OK;
    return emit(compiler,
                (struct inst){.op = OP_RUN, .how = node->how, .a = child->set, .b = more});
}

/* A SPLIT whose ways are "one more" and "no more"; the second is filled in later. */
static enum lk_code emit_choice(struct compiler *compiler, enum lk_repeat how, uint32_t *ret_at)
{
    uint32_t at = *ret_at = compiler->regex->n;
    return emit(compiler, how == LK_REPEAT_LAZY ? (struct inst){.op = OP_SPLIT, .b = at + 1}
                                                : (struct inst){.op = OP_SPLIT, .a = at + 1});
}

static void end_choice(struct compiler *compiler, enum lk_repeat how, uint32_t at)
{
    struct inst *split = &compiler->regex->program[at];
    *(how == LK_REPEAT_LAZY ? &split->a : &split->b) = compiler->regex->n;
}

static enum lk_code compile_repeat(struct compiler *compiler, const struct lk_node *node)
{
    const struct lk_node *child = &compiler->tree->nodes[node->child];
    uint32_t choices[LK_REGEX_REPEAT_MAX], n = 0;

    if (child->kind == LK_NODE_SET)
        return compile_run(compiler, node, child);
    for (uint32_t i = 0; i < node->min; i++)
        LK_TRY(compile(compiler, node->child));
    if (node->max == LK_REGEX_ENDLESS) {
        LK_TRY(emit_choice(compiler, node->how, &choices[n++]));
        LK_TRY(compile(compiler, node->child));
        LK_TRY(emit(compiler, (struct inst){.op = OP_JUMP, .a = choices[0]}));
    }
    for (uint32_t i = node->min; node->max != LK_REGEX_ENDLESS && i < node->max; i++) {
        LK_TRY(emit_choice(compiler, node->how, &choices[n++]));
        LK_TRY(compile(compiler, node->child));
    }
    while (n > 0)
        end_choice(compiler, node->how, choices[--n]);
    return LK_OK;
}

static enum lk_code compile_alternatives(struct compiler *compiler, const struct lk_node *node)
{
    uint32_t jumps = 0; /* each points to the one before, until the end is known */

    for (uint32_t i = node->child; i != 0; i = compiler->tree->nodes[i].next) {
        uint32_t split = compiler->regex->n;
        bool last = compiler->tree->nodes[i].next == 0;
        if (!last)
            LK_TRY(emit(compiler, (struct inst){.op = OP_SPLIT, .a = split + 1}));
        LK_TRY(compile(compiler, i));
        if (last)
            break;
        uint32_t jump = compiler->regex->n;
        LK_TRY(emit(compiler, (struct inst){.op = OP_JUMP, .a = jumps}));
        jumps = jump;
        compiler->regex->program[split].b = compiler->regex->n;
    }
    while (jumps != 0) {
        uint32_t before = compiler->regex->program[jumps].a;
        compiler->regex->program[jumps].a = compiler->regex->n;
        jumps = before;
    }
    return LK_OK;
}

static enum lk_code compile_look(struct compiler *compiler, const struct lk_node *node)
{
    uint32_t look = compiler->regex->n;

    LK_TRY(emit(compiler, (struct inst){.op = OP_LOOK, .negative = node->negative}));
    LK_TRY(compile(compiler, node->child));
    LK_TRY(emit(compiler, (struct inst){.op = OP_MATCH}));
    compiler->regex->program[look].a = compiler->regex->n;
    return LK_OK;
}

/* As deep as the parser allowed. */
static enum lk_code compile(struct compiler *compiler, uint32_t index)
{
    const struct lk_node *node = &compiler->tree->nodes[index];

    switch (node->kind) {
    case LK_NODE_EMPTY:
        return LK_OK;
    case LK_NODE_SET:
        return emit(compiler, (struct inst){.op = OP_SET, .a = node->set});
    case LK_NODE_CAT:
        for (uint32_t i = node->child; i != 0; i = compiler->tree->nodes[i].next)
            LK_TRY(compile(compiler, i));
        return LK_OK;
    case LK_NODE_ALT:
        return compile_alternatives(compiler, node);
    case LK_NODE_REPEAT:
        return compile_repeat(compiler, node);
    case LK_NODE_LOOK:
        return compile_look(compiler, node);
    case LK_NODE_END:
        return emit(compiler, (struct inst){.op = OP_END});
    case LK_NODE_LINE_END:
        return emit(compiler, (struct inst){.op = OP_LINE_END});
    }
    return LK_OK;
}

/* ---- with which characters a state can go on ---- */

static void filter_all(struct filter *filter)
{
    memset(filter->bits, 0xff, sizeof filter->bits);
}

static void make_set_filters(struct regex *regex)
{
    for (unsigned class = 0; class < 256; class++)
        for (uint32_t set = 0; set < LK_REGEX_SETS; set++)
            if (regex->masks[class] >> set & 1)
                regex->sets[set].bits[class / 64] |= UINT64_C(1) << class % 64;
}

static void filter_set(const struct regex *regex, uint32_t set, struct filter *filter)
{
    for (unsigned i = 0; i < 4; i++)
        filter->bits[i] |= regex->sets[set].bits[i];
}

static void make_filter(const struct regex *regex, uint32_t start, struct filter *filter)
{
    bool *known = lk_zalloc(regex->n, sizeof *known);
    uint32_t *open = lk_zalloc(2 * (size_t)regex->n + 1, sizeof *open), n = 0;

    for (open[n++] = start; n > 0;) {
        uint32_t pc = open[--n];
        const struct inst *inst = &regex->program[pc];
        if (known[pc])
            continue;
        known[pc] = true;
        switch (inst->op) {
        case OP_SET:
            filter_set(regex, inst->a, filter);
            break;
        case OP_RUN:
            filter_set(regex, inst->a, filter);
            open[n++] = pc + 1;
            break;
        case OP_SPLIT:
            open[n++] = inst->a;
            open[n++] = inst->b;
            break;
        case OP_JUMP:
        case OP_LOOK:
            open[n++] = inst->a;
            break;
        default:
            filter_all(filter);
        }
    }
    free(known);
    free(open);
}

static void make_filters(struct regex *regex)
{
    make_set_filters(regex);
    make_filter(regex, 0, &regex->start);
    for (uint32_t i = 0; i < regex->n; i++)
        if (regex->program[i].op == OP_SPLIT) {
            make_filter(regex, regex->program[i].a, &regex->program[i].first);
            make_filter(regex, regex->program[i].b, &regex->program[i].second);
        }
}

/* ---- the machine ---- */

#define FRAMES 32

enum frame_kind {
    FRAME_STATE, /* go on at @pc */
    FRAME_GIVE,  /* the same with a character less, not below @low */
    FRAME_TAKE,  /* @pc is a lazy RUN: with a character more, if @left allows */
};

struct frame {
    enum frame_kind kind;
    uint32_t pc, left;
    const uint8_t *p, *low;
};

/* One call of the cutter. */
struct job {
    const struct regex *regex;
    const uint8_t *begin, *end;
    const uint8_t *furthest;
    uint64_t steps;
    struct memo *memo; /* NULL: not needed so far */
    bool hard;         /* or not affordable */
    struct frame *frames, own[FRAMES];
    size_t n, cap;
};

static inline unsigned class_of(const struct job *job, const uint8_t *p, size_t *ret_n)
{
    if (job->regex->spelled) {
        *ret_n = 1;
        return job->regex->bytes[*p];
    }
    return lk_flags_at(&job->regex->classes, p, job->end, ret_n);
}

static inline bool in_set(const struct job *job, uint32_t set, const uint8_t *p, size_t *ret_n)
{
    return p < job->end && (job->regex->masks[class_of(job, p, ret_n)] >> set & 1) != 0;
}

static inline bool passes(const struct filter *filter, unsigned class)
{
    return (filter->bits[class / 64] >> class % 64 & 1) != 0;
}

static void push(struct job *job, struct frame frame)
{
    if (job->n == job->cap) {
        struct frame *more = lk_alloc(job->cap * 2 * sizeof *more);
        memcpy(more, job->frames, job->n * sizeof *more);
        if (job->frames != job->own)
            free(job->frames);
        job->frames = more;
        job->cap *= 2;
    }
    job->frames[job->n++] = frame;
}

static uint64_t bit_of(const struct job *job, uint32_t slot, const uint8_t *p)
{
    return slot * ((uint64_t)job->memo->span + 1) + (uint64_t)(job->end - p);
}

/* Was this state tried? Then it failed. */
static bool seen(struct job *job, uint32_t slot, const uint8_t *p)
{
    uint64_t bit = bit_of(job, slot, p);
    uint64_t mask = UINT64_C(1) << bit % 64, *word = &job->memo->bits[bit / 64];

    if ((*word & mask) != 0)
        return true;
    *word |= mask;
    return false;
}

/* Takes what a RUN takes at once, and leaves a frame for the rest; where to go on. */
static const uint8_t *take_run(struct job *job, const struct inst *inst, uint32_t pc,
                               const uint8_t *p)
{
    const uint8_t *low = p;
    size_t n;

    if (inst->how == LK_REPEAT_LAZY) {
        push(job, (struct frame){.kind = FRAME_TAKE, .pc = pc, .left = inst->b, .p = p});
        return p;
    }
    for (uint32_t left = inst->b; left > 0 && in_set(job, inst->a, p, &n); left--) {
        p += n;
        job->steps++;
    }
    if (p > low && inst->how == LK_REPEAT_GREEDY)
        push(job, (struct frame){.kind = FRAME_GIVE, .pc = pc + 1, .p = p, .low = low});
    return p;
}

/* The same of an endless one, one character at a time: false, when it is to be left. */
static bool take_one(struct job *job, const struct inst *inst, uint32_t pc, const uint8_t **p)
{
    size_t n;

    if (inst->how == LK_REPEAT_LAZY) {
        push(job, (struct frame){.kind = FRAME_TAKE, .pc = pc, .left = inst->b, .p = *p});
        return false;
    }
    if (!in_set(job, inst->a, *p, &n))
        return false;
    if (inst->how == LK_REPEAT_GREEDY)
        push(job, (struct frame){.kind = FRAME_STATE, .pc = pc + 1, .p = *p});
    *p += n;
    return true;
}

/* Takes up the last frame above @base; false: there is none. */
static bool resume(struct job *job, size_t base, uint32_t *ret_pc, const uint8_t **ret_p)
{
    size_t n;

    while (job->n > base) {
        struct frame *frame = &job->frames[job->n - 1];
        *ret_pc = frame->pc;
        *ret_p = frame->p;
        if (frame->kind == FRAME_STATE) {
            job->n--;
            return true;
        }
        if (frame->kind == FRAME_GIVE) {
            do
                frame->p--;
            while (!job->regex->spelled && frame->p > frame->low && (*frame->p & 0xc0) == 0x80);
            *ret_p = frame->p;
            if (frame->p <= frame->low)
                job->n--;
            return true;
        }
        const struct inst *run = &job->regex->program[frame->pc];
        if (frame->left == 0 || !in_set(job, run->a, frame->p, &n)) {
            job->n--;
            continue;
        }
        frame->p += n;
        *ret_p = frame->p;
        *ret_pc = frame->pc + 1;
        if (run->b != LK_REGEX_ENDLESS) {
            frame->left--;
        } else if (job->memo != NULL) { /* as a state of its own, that is looked up */
            *ret_pc = frame->pc;
            job->n--;
        }
        return true;
    }
    return false;
}

static bool at_line_end(const struct job *job, const uint8_t *p)
{
    return p == job->end || (!job->regex->spelled && *p == '\n'); /* none is spelled so */
}

enum outcome { FAILED, MATCHED, TOO_HARD };

static enum outcome run(struct job *job, uint32_t pc, const uint8_t *p, bool looking,
                        const uint8_t **ret_stop);

/* SPLIT: where to go on; false: nowhere. */
static inline bool choose(struct job *job, const struct inst *inst, uint32_t *pc, const uint8_t *p)
{
    bool first = true, second = true;
    size_t n;

    if (p < job->end) {
        unsigned class = class_of(job, p, &n);
        first = passes(&inst->first, class);
        second = passes(&inst->second, class);
    }
    if (first && second)
        push(job, (struct frame){.kind = FRAME_STATE, .pc = inst->b, .p = p});
    *pc = first ? inst->a : inst->b;
    return first || second;
}

/* One instruction at @pc and @p, which move; false: this way fails. */
static inline bool step(struct job *job, bool looking, uint32_t *pc, const uint8_t **p)
{
    const struct inst *inst = &job->regex->program[*pc];
    bool remembers = job->memo != NULL && !looking;
    const uint8_t *stop;
    size_t n;

    switch (inst->op) {
    case OP_SET:
        if (!in_set(job, inst->a, *p, &n))
            return false;
        *p += n;
        ++*pc;
        return true;
    case OP_RUN:
        if (remembers && seen(job, inst->slot, *p))
            return false;
        if (remembers && inst->b == LK_REGEX_ENDLESS) {
            *pc += take_one(job, inst, *pc, p) ? 0 : 1;
            return true;
        }
        *p = take_run(job, inst, *pc, *p);
        ++*pc;
        return true;
    case OP_SPLIT:
        return !(remembers && seen(job, inst->slot, *p)) && choose(job, inst, pc, *p);
    case OP_JUMP:
        *pc = inst->a;
        return true;
    case OP_LOOK:
        n = run(job, *pc + 1, *p, true, &stop) == MATCHED;
        *pc = inst->a;
        return n != inst->negative;
    case OP_END:
        ++*pc;
        return *p == job->end;
    case OP_LINE_END:
        ++*pc;
        return at_line_end(job, *p);
    case OP_MATCH:
        break;
    }
    return true;
}

/* Runs the program from @pc at @p. Within look-ahead, which is short, nothing is remembered: there a
 * state that was tried may have succeeded. */
static enum outcome run(struct job *job, uint32_t pc, const uint8_t *p, bool looking,
                        const uint8_t **ret_stop)
{
    size_t base = job->n;

    for (;;) {
        if (job->regex->program[pc].op == OP_MATCH) {
            *ret_stop = p;
            job->n = base;
            return MATCHED;
        }
        job->steps++;
        if (!step(job, looking, &pc, &p)) {
            if (p > job->furthest)
                job->furthest = p;
            if (!job->hard && !looking &&
                job->steps > STEPS_FREE + STEPS_PER_BYTE * (uint64_t)(job->furthest - job->begin)) {
                job->n = base;
                return TOO_HARD;
            }
            if (!resume(job, base, &pc, &p))
                return FAILED;
        }
    }
}

static void become_hard(struct job *job)
{
    size_t span = (size_t)(job->end - job->begin);
    uint64_t bits = job->regex->slots * ((uint64_t)span + 1);

    job->hard = true;
    if (bits > SEEN_BITS_MAX)
        return;
    job->memo = lk_zalloc(1, sizeof *job->memo + (bits / 64 + 1) * sizeof *job->memo->bits);
    job->memo->span = span;
}

/* What was seen beyond a match failed, but states within it may be what led to it; and it may be looked
 * for again. */
static void forget(struct job *job, const struct lk_match *match)
{
    for (uint32_t slot = 0; slot < job->regex->slots; slot++)
        for (const uint8_t *p = match->start; p <= match->stop; p++) {
            uint64_t bit = bit_of(job, slot, p);
            job->memo->bits[bit / 64] &= ~(UINT64_C(1) << bit % 64);
        }
}

/* Takes what an earlier call found out about this text. */
static void recall(struct job *job, struct regex *regex)
{
    size_t left = (size_t)(job->end - job->begin);

    if (atomic_load_explicit(&regex->spare, memory_order_relaxed) == NULL)
        return;
    struct memo *memo = atomic_exchange(&regex->spare, NULL);
    if (memo != NULL && memo->left == left &&
        lk_digest_equal(memo->digest, lk_digest_of(job->begin, left))) {
        job->memo = memo;
        job->hard = true;
    } else {
        free(memo);
    }
}

/* Puts it away for the next call, unless the text ends at @p. */
static void put_away(struct job *job, struct regex *regex, const uint8_t *p)
{
    struct memo *memo = job->memo;

    if (memo != NULL && p < job->end) {
        memo->left = (size_t)(job->end - p);
        memo->digest = lk_digest_of(p, memo->left);
        memo = atomic_exchange(&regex->spare, memo);
    }
    free(memo);
}

static bool find_match(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                       struct lk_match *ret_match)
{
    struct job *job = cutter->data;
    size_t n;

    for (; p < end; p += n) {
        if (!passes(&job->regex->start, class_of(job, p, &n)))
            continue;
        enum outcome outcome = run(job, 0, p, false, &ret_match->stop);
        if (outcome == TOO_HARD) {
            become_hard(job);
            outcome = run(job, 0, p, false, &ret_match->stop);
        }
        if (outcome == MATCHED) {
            ret_match->start = p;
            if (job->memo != NULL)
                forget(job, ret_match);
            return true;
        }
    }
    return false;
}

static size_t cut_regex(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                        const uint8_t *ret_stops[LK_PIECES_MAX])
{
    struct regex *regex = cutter->data;
    struct job job;
    struct lk_cutter with_job = {.data = &job};

    job.regex = regex; /* not initialised as a whole: the frames are many */
    job.begin = job.furthest = p;
    job.end = end;
    job.steps = 0;
    job.memo = NULL;
    job.hard = false;
    job.frames = job.own;
    job.n = 0;
    job.cap = FRAMES;
    recall(&job, regex);
    size_t n = lk_split_cut(&with_job, find_match, regex->how, p, end, ret_stops);
    put_away(&job, regex, ret_stops[n - 1]);
    if (job.frames != job.own)
        free(job.frames);
    return n;
}

/* ---- from an expression ---- */

static enum lk_code make(struct regex *regex, const struct lk_regex_tree *tree,
                         lk_spelled *spelled, struct lk_err *err)
{
    struct compiler compiler = {.tree = tree, .regex = regex, .err = err};

    LK_TRY(make_classes(regex, tree, err));
    regex->program = lk_alloc(PROGRAM_MAX * sizeof *regex->program);
    LK_TRY(compile(&compiler, tree->root));
    LK_TRY(emit(&compiler, (struct inst){.op = OP_MATCH}));
    regex->program = lk_resize(regex->program, regex->n, sizeof *regex->program);
    make_filters(regex);
    regex->spelled = spelled != NULL;
    for (unsigned b = 0; b < 256 && spelled != NULL; b++)
        regex->bytes[b] = lk_unicode_flags(&regex->classes, (*spelled)[b]);
    return LK_OK;
}

enum lk_code lk_cutter_regex(const struct lk_pattern *pattern, const struct lk_unicode *unicode,
                             enum lk_split how, lk_spelled *spelled, struct lk_cutter *ret_cutter,
                             struct lk_err *err)
{
    struct lk_regex_tree *tree = lk_zalloc(1, sizeof *tree);
    struct regex *regex = lk_zalloc(1, sizeof *regex);
    enum lk_code code = lk_regex_parse(pattern, tree, err);

    regex->how = how;
    if (code == LK_OK)
        code = make(regex, tree, spelled, err);
    lk_regex_tree_done(tree);
    free(tree);
    if (code != LK_OK) {
        regex_free(regex);
        return code;
    }
    *ret_cutter = (struct lk_cutter){
        .cut = cut_regex, .unicode = unicode, .data = regex, .data_done = regex_free};
    return LK_OK;
}

/* ---- does it match everywhere? ---- */

/* Adds characters with which it certainly matches, taking one. */
static void add_certain(const struct lk_regex_tree *tree, const struct lk_node *node,
                        struct lk_set *set);

static bool can_be_empty(const struct lk_node *node)
{
    return node->shortest == 0 && node->kind != LK_NODE_LOOK && node->kind != LK_NODE_END &&
           node->kind != LK_NODE_LINE_END;
}

/* One part takes the character, the others are empty; a possessive part before it might take it first.
 * What is taken no times has no condition to meet; parts within groups that are taken were not asked for
 * theirs, so of these only single characters may be left out. */
static bool may_be_left_out(const struct lk_regex_tree *tree, const struct lk_node *node, bool before)
{
    if (node->kind == LK_NODE_EMPTY)
        return true;
    return can_be_empty(node) && node->kind == LK_NODE_REPEAT &&
           (node->min == 0 || tree->nodes[node->child].kind == LK_NODE_SET) &&
           !(before && node->how == LK_REPEAT_POSSESSIVE);
}

static void add_certain_of_sequence(const struct lk_regex_tree *tree, const struct lk_node *sequence,
                                    struct lk_set *set)
{
    for (uint32_t i = sequence->child; i != 0; i = tree->nodes[i].next) {
        bool alone = true, before = true;
        for (uint32_t k = sequence->child; k != 0; k = tree->nodes[k].next) {
            if (k == i)
                before = false;
            else
                alone &= may_be_left_out(tree, &tree->nodes[k], before);
        }
        if (alone)
            add_certain(tree, &tree->nodes[i], set);
    }
}

static void add_certain(const struct lk_regex_tree *tree, const struct lk_node *node,
                        struct lk_set *set)
{
    switch (node->kind) {
    case LK_NODE_SET:
        lk_set_add_set(set, &tree->sets[node->set]);
        return;
    case LK_NODE_REPEAT:
        if (node->min <= 1)
            add_certain(tree, &tree->nodes[node->child], set);
        return;
    case LK_NODE_ALT:
        for (uint32_t i = node->child; i != 0; i = tree->nodes[i].next)
            add_certain(tree, &tree->nodes[i], set);
        return;
    case LK_NODE_CAT:
        add_certain_of_sequence(tree, node, set);
        return;
    default:
        return;
    }
}

bool lk_regex_covers(const struct lk_pattern *pattern)
{
    struct lk_regex_tree *tree = lk_zalloc(1, sizeof *tree);
    struct lk_set set = {0};
    struct lk_err err;
    bool covers = false;

    if (lk_regex_parse(pattern, tree, &err) == LK_OK) {
        add_certain(tree, &tree->nodes[tree->root], &set);
        lk_set_add(&set, 0xd800, 0xdfff); /* no characters */
        lk_set_settle(&set);
        covers = set.n == 1 && set.ranges[0].first == 0 && set.ranges[0].last == 0x10ffff;
    }
    lk_set_done(&set);
    lk_regex_tree_done(tree);
    free(tree);
    return covers;
}
