/* Linear layers of training in eight bits: weights packed anew whenever they have changed, and rows times them.
 *
 * Tensors are bfloat16, or float32 where `wide`. Every row, and every weight of an output, is rounded on its own and the
 * sums are exact, so neither threads nor neighbours change a bit.
 */
#include "byte_packing.h"

#include <omp.h>
#include <stdlib.h>

/* Rows that a thread rounds before it multiplies them: their bytes stay in its cache. */
#define ROWS_AT_ONCE 96

typedef struct {
    int8_t *weight; /* of Packed, to be filled */
    float *scale;
    int32_t *shift;
    const void *from; /* (outputs, inputs), or where `columns` (inputs, outputs), its rows `step` apart; null: is filled */
    int64_t step, outputs, inputs;
    int64_t columns, wide;
} Packing;

/* The panel that begins with output `first`; `lines` holds LANES rows of bytes. */
static void pack_panel_of_bytes(const Packing *p, int64_t first, int8_t *lines) {
    int64_t width = padded(p->inputs), some = p->outputs - first < BYTE_PANEL ? p->outputs - first : BYTE_PANEL;
    int8_t *to = p->weight + first * width;
    float *scale = p->scale + first;
    int32_t *shift = p->shift + first;
    for (int64_t o = some; o < BYTE_PANEL; o++) scale[o] = 0.0f, shift[o] = 0;
    const void *from = entry(p->from, p->columns ? first : first * p->step, p->wide);
    if (p->columns && !p->wide && some == BYTE_PANEL)
        pack_columns(to, scale, shift, NULL, from, p->step, BYTE_PANEL, p->inputs, width, 0);
    else if (p->columns)
        pack_columns(to, scale, shift, NULL, from, p->step, some, p->inputs, width, p->wide);
    else if (p->wide)
        pack_rows(to, scale, shift, from, p->step, some, p->inputs, width, lines, 1);
    else
        pack_rows(to, scale, shift, from, p->step, some, p->inputs, width, lines, 0);
}

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

INLINE void byte_rows(void *to, const void *from, int64_t step, const Packed *packed, const Finish *finish, int64_t count,
                      int64_t inputs, int64_t outputs, Ahead ahead, char *scratch, int wide) {
    int64_t width = padded(inputs);
    float *scales = (float *)scratch;
    uint8_t *entries = (uint8_t *)(scales + ROWS_AT_ONCE);
    for (int64_t row = 0; row < count; row++)
        scales[row] = quantized_row(entries + row * width * ENTRY_BYTES, entry(from, row * step, wide), inputs, wide);
    Rows rows = {entries, scales, count, width, ahead};
    quantized_products(to, outputs, &rows, packed, finish, 0, outputs, wide);
}

/* `count` rows from `row` on, to be asked for while those of `now` others are multiplied. Only whole rows lie together. */
static Ahead rows_ahead(const void *from, int64_t step, int64_t row, int64_t count, int64_t now, const Packing *weights,
                        int wide) {
    if (step != weights->inputs) return (Ahead){0};
    int64_t bytes = count * step * (wide ? 4 : 2);
    int64_t share = bytes / blocks_of(now, weights->outputs);
    return (Ahead){entry(from, row * step, wide), bytes, (share / 64 + 1) * 64};
}

/* Twin: native/quantized_by_torch.py, linear. (rows, inputs), `step` apart, to dense (rows, outputs). The weights are packed
 * before where they are not yet. Returns 0, or 1 for want of memory. */
int byte_linear(void *to, const void *from, int64_t step, const Packing *weights, const Finish *finish, int64_t rows,
                int wide, int threads) {
    Packed packed = {weights->weight, weights->scale, weights->shift};
    int64_t inputs = weights->inputs, outputs = weights->outputs;
    int64_t room = ROWS_AT_ONCE * (sizeof(float) + padded(inputs) * ENTRY_BYTES);
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
            Ahead ahead = {0};
            if (left > 0 && outputs > 0) ahead = rows_ahead(from, step, next, left, some, weights, wide);
            void *there = (void *)entry(to, first * outputs, wide);
            Finish here = *finish;
            here.streams = rows * outputs >= LARGE;
            if (here.gate) here.gate = entry(here.gate, first * outputs, wide);
            if (wide)
                byte_rows(there, entry(from, first * step, 1), step, &packed, &here, some, inputs, outputs, ahead, own, 1);
            else
                byte_rows(there, entry(from, first * step, 0), step, &packed, &here, some, inputs, outputs, ahead, own, 0);
        }
        streamed();
    }
    free(scratch);
    return 0;
}
