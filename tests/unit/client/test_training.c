/* lanekeeper_training: options, what is made here and what is found in shared memory, lifetimes, and what a
 * daemon may send. The values of the arrays are tested in tests/unit/proto; here those that are known of the
 * fake daemon's rows: two pieces of T/2 tokens, the first of which begins in its document at the row's number. */
#include "fixture.h"

#define HALF (T / 2)

static struct lanekeeper_training_options training_options(void)
{
    struct lanekeeper_training_options o;
    lanekeeper_training_options_init(&o);
    return o;
}

static struct lanekeeper_training make(const struct lanekeeper_batch *b, const struct lanekeeper_training_options *o)
{
    struct lanekeeper_training g;
    struct lanekeeper_error error = {0};
    enum lanekeeper_code code = lanekeeper_training(b, o, &g, &error);
    ck_assert_msg(code == LANEKEEPER_OK, "%s", error.text);
    return g;
}

/* The defaults' arrays of a batch of the fake daemon's. */
static void assert_defaults(const struct lanekeeper_training *g, const struct lanekeeper_batch *b)
{
    const int64_t *ids = g->input_ids, *labels = g->labels, *positions = g->positions, *documents = g->document_ids;
    ck_assert_uint_eq(g->rows, b->rows);
    ck_assert_uint_eq(g->sequence, T);
    ck_assert_int_eq(g->dtype, LANEKEEPER_I64);
    for (uint32_t r = 0; r < b->rows; r++)
        for (uint32_t i = 0; i < T; i++) {
            size_t at = (size_t)r * T + i;
            bool counts = i % HALF != HALF - 1;
            int64_t next = fake_token(b->step, b->first_row + r, i + 1);
            if (ids[at] != (int64_t)fake_token(b->step, b->first_row + r, i) ||
                labels[at] != (counts ? next : -100) || positions[at] != i % HALF || documents[at] != i / HALF ||
                g->loss_mask[at] != counts)
                ck_abort_msg("step %lu row %u token %u", (unsigned long)b->step, r, i);
        }
    ck_assert_uint_eq(g->num_valid_tokens, (uint64_t)b->rows * (T - 2));
    ck_assert_uint_eq(g->n_cu_seqlens, 2 * b->rows + 1);
    ck_assert_int_eq(g->max_seqlen, HALF);
    ck_assert_ptr_null(g->max_seqlens);
    for (uint32_t k = 0; k < g->n_cu_seqlens; k++)
        ck_assert_int_eq(g->cu_seqlens[k], (int32_t)(k * HALF));
}

START_TEST(made_here_first_and_then_found_in_shared_memory)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper_options o = options_of(0);
    o.rank = 1;
    o.world = 3; /* rows 2 to 4: not the first of the slot */
    struct lanekeeper *lk = connect_with(&o);
    for (uint64_t step = 0; step < 4; step++) {
        struct lanekeeper_batch b;
        LK_OK_(lanekeeper_next(lk, &b), lk);
        struct lanekeeper_training g = make(&b, NULL);
        ck_assert_uint_eq(g.shared, step > 0);
        assert_defaults(&g, &b);
        lanekeeper_training_done(&g);
        ck_assert_ptr_null(g.input_ids);
        lanekeeper_training_done(&g);
        lanekeeper_release(&b);
    }
    ck_assert_uint_eq(atomic_load(&f->trainings), 3);
    lanekeeper_close(lk);
    wait_for(&f->leases_held, 0);
    fake_stop(f);
}
END_TEST

/* Loop: by wire, by memory. */
START_TEST(every_option_by_wire_and_by_memory)
{
    struct fake_daemon *f = start(_i);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_batch b;
    for (int twice = 0; twice < 2; twice++) {
        struct lanekeeper_training_options o = {.dtype = LANEKEEPER_I32,
                                                .labels = LANEKEEPER_LABELS_SAME,
                                                .borders = LANEKEEPER_BORDERS_KEPT,
                                                .positions = LANEKEEPER_POSITIONS_DOCUMENT,
                                                .cu_seqlens = LANEKEEPER_CU_SEQLENS_ROWS,
                                                .ignore_index = -1};
        LK_OK_(lanekeeper_next(lk, &b), lk);
        struct lanekeeper_training g = make(&b, &o);
        ck_assert_uint_eq(g.shared, _i != 0 && twice == 1);
        ck_assert_ptr_eq(g.input_ids, b.tokens); /* no copy */
        ck_assert_ptr_null(g.loss_mask);
        ck_assert_ptr_null(g.document_ids);
        for (uint32_t r = 0; r < FAKE_ROWS; r++) {
            const int32_t *labels = (const int32_t *)g.labels + (size_t)r * T;
            const int32_t *positions = (const int32_t *)g.positions + (size_t)r * T;
            for (uint32_t i = 0; i < T; i++) {
                ck_assert_int_eq(labels[i], i == 0 ? -1 : (int32_t)fake_token(b.step, r, i));
                ck_assert_int_eq(positions[i], i < HALF ? (int32_t)(r + i) : (int32_t)(i - HALF));
            }
            ck_assert_int_eq(g.max_seqlens[r], HALF);
            for (uint32_t k = 0; k < 3; k++)
                ck_assert_int_eq(g.cu_seqlens[3 * r + k], (int32_t)(k * HALF));
        }
        ck_assert_uint_eq(g.n_cu_seqlens, 3);
        ck_assert_int_eq(g.max_seqlen, HALF);
        ck_assert_uint_eq(g.num_valid_tokens, FAKE_ROWS * (T - 1));
        lanekeeper_training_done(&g);
        lanekeeper_release(&b);
    }
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(ids_alone_need_no_daemon)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_batch b;
    struct lanekeeper_training_options o = {.dtype = LANEKEEPER_I32};
    for (int twice = 0; twice < 2; twice++) {
        LK_OK_(lanekeeper_next(lk, &b), lk);
        struct lanekeeper_training g = make(&b, &o);
        ck_assert_ptr_eq(g.input_ids, b.tokens);
        ck_assert_ptr_null(g.labels);
        ck_assert_ptr_null(g.positions);
        ck_assert_ptr_null(g.cu_seqlens);
        ck_assert_int_eq(g.max_seqlen, 0);
        ck_assert_uint_eq(g.num_valid_tokens, FAKE_ROWS * (T - 2));
        lanekeeper_training_done(&g);
        lanekeeper_release(&b);
    }
    ck_assert_uint_eq(atomic_load(&f->trainings), 0);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(arrays_outlive_batch_handle_and_daemon)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_batch b[3], copy[3];
    struct lanekeeper_training g[3];
    for (int i = 0; i < 3; i++) { /* one of our own, two of the daemon's */
        LK_OK_(lanekeeper_next(lk, &b[i]), lk);
        g[i] = make(&b[i], NULL);
        copy[i] = b[i];
        lanekeeper_release(&b[i]);
    }
    lanekeeper_training_done(&g[2]);
    wait_for(&f->leases_held, 2); /* the others still have theirs */
    lanekeeper_close(lk);
    ck_assert_uint_eq(atomic_load(&f->leases_held), 2);
    for (int i = 0; i < 2; i++)
        assert_defaults(&g[i], &copy[i]);
    fake_stop(f);
    assert_defaults(&g[1], &copy[1]);
    lanekeeper_training_done(&g[1]);
    lanekeeper_training_done(&g[0]);
}
END_TEST

START_TEST(the_last_of_many_gives_the_lease_back)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_batch b;
    struct lanekeeper_training g[3];
    next_is(lk, 0, true);
    LK_OK_(lanekeeper_next(lk, &b), lk);
    for (int i = 0; i < 3; i++)
        g[i] = make(&b, NULL);
    lanekeeper_training_done(&g[1]);
    lanekeeper_release(&b);
    lanekeeper_training_done(&g[0]);
    wait_for(&f->leases_held, 1);
    lanekeeper_training_done(&g[2]);
    wait_for(&f->leases_held, 0);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(bad_options_are_named)
{
    static const struct {
        size_t field;
        uint32_t value;
        const char *text;
    } bad[] = {
#define FIELD(name) offsetof(struct lanekeeper_training_options, name)
        {FIELD(dtype), LANEKEEPER_U32, "dtype 4"},  {FIELD(dtype), 0, "dtype 0"},
        {FIELD(labels), 3, "labels 3"},             {FIELD(borders), 2, "borders 2"},
        {FIELD(positions), 4, "positions 4"},       {FIELD(cu_seqlens), 3, "cu_seqlens 3"},
        {FIELD(loss_mask), 2, "loss_mask 2"},       {FIELD(document_ids), UINT32_MAX, "document_ids 4294967295"},
#undef FIELD
    };
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_batch b, none = {0};
    struct lanekeeper_training g;
    struct lanekeeper_error error;
    LK_OK_(lanekeeper_next(lk, &b), lk);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lanekeeper_training_options o = training_options();
        memcpy((char *)&o + bad[i].field, &bad[i].value, 4);
        memset(&g, 0xff, sizeof g);
        ck_assert_int_eq(lanekeeper_training(&b, &o, &g, &error), LANEKEEPER_INVALID_ARGUMENT);
        ck_assert_msg(strstr(error.text, bad[i].text) != NULL, "%s", error.text);
        ck_assert_ptr_null(g.owner);
        lanekeeper_training_done(&g); /* fine */
    }
    struct lanekeeper_training_options o = training_options();
    o.dtype = LANEKEEPER_I32;
    o.ignore_index = (int64_t)INT32_MAX + 1;
    ck_assert_int_eq(lanekeeper_training(&b, &o, &g, &error), LANEKEEPER_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.text, "2147483648"));
    ck_assert_int_eq(lanekeeper_training(&b, &o, &g, NULL), LANEKEEPER_INVALID_ARGUMENT); /* no text wanted */
    ck_assert_int_eq(lanekeeper_training(&none, NULL, &g, &error), LANEKEEPER_INVALID_ARGUMENT);
    ck_assert_int_eq(lanekeeper_training(NULL, NULL, &g, &error), LANEKEEPER_INVALID_ARGUMENT);
    lanekeeper_training_done(NULL);
    lanekeeper_release(&b);
    next_is(lk, 1, true);
    ck_assert_uint_eq(atomic_load(&f->trainings), 0); /* bad ones are not asked for */
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

/* Loop: every kind of malformed place. */
START_TEST(malformed_arrays_are_data_loss_and_the_next_ones_work)
{
    bool shared = _i != FAKE_TRAINING_INLINE;
    struct fake_daemon *f = start(shared);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_batch b;
    LK_OK_(lanekeeper_next(lk, &b), lk);
    struct lanekeeper_training g = make(&b, NULL);
    lanekeeper_training_done(&g);
    lanekeeper_release(&b);
    atomic_store(&f->fault, _i);
    ck_assert_int_eq(lanekeeper_next(lk, &b), LANEKEEPER_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(lanekeeper_error_text(lk), "training arrays"));
    wait_for(&f->leases_held, 0);
    atomic_store(&f->fault, FAKE_NONE);
    LK_OK_(lanekeeper_next(lk, &b), lk);
    g = make(&b, NULL);
    ck_assert_uint_eq(g.shared, shared);
    assert_defaults(&g, &b);
    lanekeeper_training_done(&g);
    lanekeeper_release(&b);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(arrays_of_other_options_are_left_alone)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(0);
    atomic_store(&f->fault, FAKE_TRAINING_OTHER);
    for (int i = 0; i < 3; i++) {
        struct lanekeeper_batch b;
        LK_OK_(lanekeeper_next(lk, &b), lk);
        struct lanekeeper_training g = make(&b, NULL);
        ck_assert_uint_eq(g.shared, 0);
        assert_defaults(&g, &b);
        lanekeeper_training_done(&g);
        lanekeeper_release(&b);
    }
    ck_assert_uint_eq(atomic_load(&f->trainings), 2);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

/* The column of the whole row that is column @j of a rank's slice. */
static uint32_t column_of(uint32_t j, uint32_t rank, uint32_t size, enum lanekeeper_slice kind)
{
    uint32_t each = T / size, half = each / 2;
    if (kind == LANEKEEPER_SLICE_CONTIGUOUS)
        return rank * each + j;
    return j < half ? rank * half + j : T - (rank + 1) * half + (j - half);
}

static int64_t number_at(const struct lanekeeper_training *g, const void *array, size_t i)
{
    return g->dtype == LANEKEEPER_I64 ? ((const int64_t *)array)[i] : ((const int32_t *)array)[i];
}

static void assert_slice(const struct lanekeeper_training *whole, uint32_t rank, uint32_t size,
                         enum lanekeeper_slice kind, const struct lanekeeper_training *slice)
{
    const void *all[] = {whole->input_ids, whole->labels, whole->positions, whole->document_ids};
    const void *part[] = {slice->input_ids, slice->labels, slice->positions, slice->document_ids};
    uint64_t valid = 0;
    ck_assert_uint_eq(slice->sequence, T / size);
    ck_assert_uint_eq(slice->shared, 0);
    for (uint32_t r = 0; r < whole->rows; r++)
        for (uint32_t j = 0; j < slice->sequence; j++) {
            size_t from = (size_t)r * T + column_of(j, rank, size, kind), to = (size_t)r * slice->sequence + j;
            for (int a = 0; a < 4; a++)
                if (all[a] != NULL && number_at(whole, all[a], from) != number_at(slice, part[a], to))
                    ck_abort_msg("rank %u of %u kind %d: array %d row %u column %u", rank, size, (int)kind, a, r, j);
            if (whole->loss_mask != NULL && whole->loss_mask[from] != slice->loss_mask[to])
                ck_abort_msg("rank %u of %u kind %d: mask row %u column %u", rank, size, (int)kind, r, j);
            valid += whole->labels != NULL && number_at(whole, whole->labels, from) != -100;
        }
    if (whole->labels != NULL)
        ck_assert_uint_eq(slice->num_valid_tokens, valid);
    ck_assert_uint_eq(slice->n_cu_seqlens, whole->n_cu_seqlens);
    ck_assert_int_eq(slice->max_seqlen, whole->max_seqlen);
    for (uint32_t i = 0; i < whole->n_cu_seqlens * (whole->max_seqlens != NULL ? whole->rows : 1); i++)
        ck_assert_int_eq(slice->cu_seqlens[i], whole->cu_seqlens[i]);
    for (uint32_t r = 0; whole->max_seqlens != NULL && r < whole->rows; r++)
        ck_assert_int_eq(slice->max_seqlens[r], whole->max_seqlens[r]);
}

static void slice_all(const struct lanekeeper_training *g)
{
    struct lanekeeper_error error;
    for (int kind = 0; kind < 2; kind++)
        for (uint32_t size = 1; size <= T / (kind + 1u); size *= 2) {
            uint64_t valid = 0;
            for (uint32_t rank = 0; rank < size; rank++) {
                struct lanekeeper_training slice;
                ck_assert_int_eq(lanekeeper_training_slice(g, rank, size, kind, &slice, &error), LANEKEEPER_OK);
                assert_slice(g, rank, size, kind, &slice);
                valid += slice.num_valid_tokens;
                lanekeeper_training_done(&slice);
            }
            ck_assert_uint_eq(valid, g->num_valid_tokens);
        }
}

/* Loop: every kind of labels, borders, cu_seqlens, and type. */
START_TEST(slices_are_columns_of_the_whole)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_batch b;
    struct lanekeeper_training_options o = training_options();
    o.labels = _i % 3;
    o.borders = _i / 3 % 2;
    o.cu_seqlens = _i / 6 % 3;
    o.dtype = _i / 18 == 0 ? LANEKEEPER_I32 : LANEKEEPER_I64;
    o.loss_mask = o.document_ids = _i % 2;
    for (int step = 0; step < 2; step++) {
        LK_OK_(lanekeeper_next(lk, &b), lk);
        struct lanekeeper_training g = make(&b, &o);
        ck_assert_uint_eq(g.shared, step);
        slice_all(&g);
        lanekeeper_training_done(&g);
        lanekeeper_release(&b);
    }
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(slices_stand_alone_and_bad_ones_are_named)
{
    static const struct {
        uint32_t rank, size;
        int kind;
        const char *text;
    } bad[] = {{0, 0, 0, "rank 0 of 0"}, {2, 2, 0, "rank 2 of 2"},       {0, 1, 2, "kind 2"},
               {0, 3, 0, "16 tokens"},   {0, 16, 1, "32 equal chunks"}, {0, UINT32_MAX, 1, "8589934590"}};
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_batch b;
    struct lanekeeper_training slice, again, none = {0};
    struct lanekeeper_error error;
    LK_OK_(lanekeeper_next(lk, &b), lk);
    struct lanekeeper_training g = make(&b, NULL), reference = make(&b, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(lanekeeper_training_slice(&g, bad[i].rank, bad[i].size, bad[i].kind, &slice, &error),
                         LANEKEEPER_INVALID_ARGUMENT);
        ck_assert_msg(strstr(error.text, bad[i].text) != NULL, "%s", error.text);
        ck_assert_ptr_null(slice.owner);
    }
    ck_assert_int_eq(lanekeeper_training_slice(&none, 0, 1, 0, &slice, &error), LANEKEEPER_INVALID_ARGUMENT);
    ck_assert_int_eq(lanekeeper_training_slice(NULL, 0, 1, 0, &slice, NULL), LANEKEEPER_INVALID_ARGUMENT);
    ck_assert_int_eq(lanekeeper_training_slice(&g, 1, 4, 1, &slice, &error), LANEKEEPER_OK);
    ck_assert_int_eq(lanekeeper_training_slice(&slice, 0, 2, 0, &again, &error), LANEKEEPER_INVALID_ARGUMENT);
    lanekeeper_training_done(&g);
    lanekeeper_release(&b);
    assert_slice(&reference, 1, 4, 1, &slice);
    lanekeeper_training_done(&reference);
    wait_for(&f->leases_held, 0); /* a slice holds none */
    ck_assert_uint_eq(slice.sequence, 4);
    lanekeeper_training_done(&slice);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(a_batch_of_copies_is_as_good)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_batch b, copy;
    uint32_t tokens[FAKE_ROWS * T];
    struct lanekeeper_row row[FAKE_ROWS];
    struct lanekeeper_part part[2 * FAKE_ROWS];
    LK_OK_(lanekeeper_next(lk, &b), lk);
    memcpy(tokens, b.tokens, sizeof tokens);
    memcpy(row, b.row, sizeof row);
    memcpy(part, b.part, sizeof part);
    copy = b;
    copy.owner = NULL;
    copy.tokens = tokens;
    copy.row = row;
    copy.part = part;
    lanekeeper_release(&b);
    struct lanekeeper_training g = make(&copy, NULL);
    ck_assert_uint_eq(g.shared, 0);
    assert_defaults(&g, &copy);
    slice_all(&g);
    lanekeeper_training_done(&g);
    lanekeeper_release(&copy);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

static void *train(void *arg)
{
    struct lanekeeper_batch *b = arg;
    for (int i = 0; i < 200; i++) {
        struct lanekeeper_training_options o = training_options();
        o.ignore_index = -100 - i % 2; /* every other one is made here */
        struct lanekeeper_training g = make(b, &o);
        if (((const int64_t *)g.labels)[T - 1] != o.ignore_index)
            ck_abort_msg("round %d", i);
        lanekeeper_training_done(&g);
    }
    return NULL;
}

START_TEST(several_threads_may_train_on_one_batch)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(2);
    struct lanekeeper_batch b;
    pthread_t thread[4];
    next_is(lk, 0, true);
    LK_OK_(lanekeeper_next(lk, &b), lk);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, train, &b), 0);
    for (uint64_t s = 2; s < 40; s++) /* meanwhile calls are sent, with whatever is wished for just then */
        next_is(lk, s, true);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
    lanekeeper_release(&b);
    lanekeeper_close(lk);
    wait_for(&f->leases_held, 0);
    fake_stop(f);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("client/training");
    TCase *t = tcase_create("training");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, made_here_first_and_then_found_in_shared_memory);
    tcase_add_loop_test(t, every_option_by_wire_and_by_memory, 0, 2);
    tcase_add_test(t, ids_alone_need_no_daemon);
    tcase_add_test(t, arrays_outlive_batch_handle_and_daemon);
    tcase_add_test(t, the_last_of_many_gives_the_lease_back);
    tcase_add_test(t, bad_options_are_named);
    tcase_add_loop_test(t, malformed_arrays_are_data_loss_and_the_next_ones_work, FAKE_TRAINING_OUTSIDE,
                        FAKE_TRAINING_INLINE + 1);
    tcase_add_test(t, arrays_of_other_options_are_left_alone);
    tcase_add_loop_test(t, slices_are_columns_of_the_whole, 0, 36);
    tcase_add_test(t, slices_stand_alone_and_bad_ones_are_named);
    tcase_add_test(t, a_batch_of_copies_is_as_good);
    tcase_add_test(t, several_threads_may_train_on_one_batch);
    suite_add_tcase(s, t);
    return s;
}
