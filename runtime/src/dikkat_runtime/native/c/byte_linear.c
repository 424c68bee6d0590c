/* Linear layers of training in eight bits: weights packed anew whenever they have changed, and rows times them.
 *
 * Tensors are bfloat16, or float32 where `wide`. Every row, and every weight of an output, is rounded on its own and the
 * sums are exact, so neither threads nor neighbours change a bit.
 */
#include "byte_rows.h"

#include <omp.h>
#include <stdlib.h>

/* Twin: native/quantized_by_torch.py, pack. Returns 0, or 1 for want of memory. */
int pack_bytes(const Packing *packing, int threads) {
    int64_t room = padded(packing->inputs) * LANES;
    int8_t *lines = malloc(room * threads);
    if (!lines) return 1;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t first = 0; first < packing->outputs; first += BYTE_PANEL)
        pack_panel_of_bytes(packing, first, lines + room * omp_get_thread_num());
    free(lines);
    return 0;
}

/* Twin: native/quantized_by_torch.py, linear. (rows, inputs), `step` apart, to dense (rows, outputs). The weights are packed
 * before where they are not yet. Returns 0, or 1 for want of memory. */
int byte_linear(void *to, const void *from, int64_t step, const Packing *weights, const Finish *finish, int64_t rows,
                int wide, int threads) {
    Packed packed = {weights->weight, weights->scale, weights->shift};
    int64_t inputs = weights->inputs, outputs = weights->outputs;
    int64_t room = room_of_rows(inputs);
    char *scratch = calloc(threads, room);
    if (!scratch) return 1;
    /* equally many blocks for each thread */
    int64_t turns = rows / (threads * ROWS_AT_ONCE) + 1, blocks = turns * threads;
    int64_t block = (rows / blocks / BYTE_ROWS + 1) * BYTE_ROWS;
#pragma omp parallel num_threads(threads)
    {
        char *own = scratch + room * omp_get_thread_num();
        if (weights->from) {
#pragma omp for schedule(dynamic)
            for (int64_t first = 0; first < outputs; first += BYTE_PANEL)
                pack_panel_of_bytes(weights, first, (int8_t *)own);
        }
#pragma omp for schedule(dynamic)
        for (int64_t first = 0; first < rows; first += block) {
            int64_t some = smaller_of(rows - first, block);
            /* what a thread comes to next, if all are equally fast */
            int64_t next = first + threads * block, left = smaller_of(rows - next, block);
            Ahead ahead = rows_ahead(from, step, next, left, some, weights, wide);
            void *there = (void *)entry(to, first * outputs, wide);
            Finish here = *finish;
            here.streams = rows * outputs >= LARGE;
            if (here.gate) here.gate = entry(here.gate, first * outputs, wide);
            const void *rows_from = entry(from, first * step, wide);
            byte_rows(there, rows_from, step, &packed, &here, some, inputs, outputs, ahead, own, wide);
        }
        streamed();
    }
    free(scratch);
    return 0;
}
