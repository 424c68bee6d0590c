/* Linear layers of training in eight bits: weights packed anew whenever they have changed, and rows times them.
 *
 * Tensors are bfloat16, or float32 where `is_float32`. Every row, and every weight of an output, is rounded on its own and the
 * sums are exact, so neither threads nor neighbours change a bit.
 */
#include "byte_rows.h"
#include "layout.h"
#include "threads.h"

#include <stdlib.h>

SIZE_OF(Packing);

typedef struct {
    const Packing *packing;
    int8_t *lines;
    int64_t per_thread; /* bytes of them for each thread */
} PackingJob;

static void pack_share(const void *job, int64_t panel, int64_t thread) {
    const PackingJob *p = job;
    pack_panel_of_bytes(p->packing, panel * BYTE_PANEL, p->lines + p->per_thread * thread);
}

/* Twin: kernels/int8_products.py, pack_reference. Returns 0, or 1 for want of memory. */
int pack_bytes(const Packing *packing, int threads) {
    int64_t per_thread = padded(packing->inputs) * LANES;
    int8_t *lines = malloc(per_thread * threads);
    if (!lines) return 1;
    PackingJob job = {packing, lines, per_thread};
    share_out(threads, groups_of(packing->outputs, BYTE_PANEL), 1, pack_share, &job);
    free(lines);
    return 0;
}

typedef struct {
    void *to;
    const void *from;
    int64_t step;
    const Packing *weights;
    const Epilogue *epilogue;
    int64_t rows, block, next_share; /* rows of a share, and how far the next share of a thread is, if all are equally fast */
    int is_float32;
    char *scratch;
    int64_t per_thread; /* bytes of it for each thread */
} RowsJob;

static void rows_share(const void *job, int64_t index, int64_t thread) {
    const RowsJob *j = job;
    const Packing *weights = j->weights;
    Packed packed = {weights->weight, weights->scale, weights->shift};
    int64_t first = index * j->block, some = smaller_of(j->rows - first, j->block), next = first + j->next_share;
    int64_t at = first * weights->outputs, left = smaller_of(j->rows - next, j->block);
    Prefetch prefetch = prefetch_of_rows(j->from, j->step, next, left, some, weights, j->is_float32);
    Epilogue here = *j->epilogue;
    here.streams = j->rows * weights->outputs >= MIN_STREAMED;
    if (here.relu_output) here.relu_output = entry(here.relu_output, at, j->is_float32);
    byte_rows((void *)entry(j->to, at, j->is_float32), entry(j->from, first * j->step, j->is_float32), j->step, &packed, &here, some,
              weights->inputs, weights->outputs, prefetch, j->scratch + j->per_thread * thread, j->is_float32);
    streamed();
}

/* Twin: kernels/int8_products.py, packed_product_reference. (rows, inputs), `step` apart, to dense (rows, outputs). The weights are packed
 * before where they are not yet. Returns 0, or 1 for want of memory. */
int byte_linear(void *to, const void *from, int64_t step, const Packing *weights, const Epilogue *epilogue, int64_t rows,
                int is_float32, int threads) {
    int64_t per_thread = bytes_of_rows(weights->inputs);
    Packing own = *weights;
    void *memory = take_memory(&own);
    char *scratch = calloc(threads, per_thread);
    if (!scratch || (own.from && !own.weight)) return free(memory), free(scratch), 1;
    /* equally many blocks for each thread */
    int64_t turns = rows / (threads * ROWS_PER_CHUNK) + 1, blocks = turns * threads;
    int64_t block = (rows / blocks / BYTE_ROWS + 1) * BYTE_ROWS;
    PackingJob packing = {&own, (int8_t *)scratch, per_thread};
    if (own.from) share_out(threads, groups_of(weights->outputs, BYTE_PANEL), 1, pack_share, &packing);
    RowsJob job = {to, from, step, &own, epilogue, rows, block, threads * block, is_float32, scratch, per_thread};
    share_out(threads, groups_of(rows, block), 1, rows_share, &job);
    free(memory), free(scratch);
    return 0;
}
