/* Weights that are packed where they have changed, and rows times them, a few rows at a time. */
#ifndef DIKKAT_BYTE_ROWS_H
#define DIKKAT_BYTE_ROWS_H

#include "byte_packing.h"
#include "threads.h"

#include <stdlib.h>

/* Rows that a thread rounds before it multiplies them: their bytes stay in its cache. */
#define ROWS_PER_CHUNK 96

typedef struct {
    int8_t *weight; /* of Packed, to be filled; null with a `from`: in memory of the call that packs and multiplies */
    float *scale;
    int32_t *shift;
    const void *from; /* (outputs, inputs), or where `columns` (inputs, outputs), its rows `step` apart; null: is filled */
    int64_t step, outputs, inputs;
    int64_t columns, is_float32;
} Packing;

/* Gives `p` memory for what is packed, where it has none, and returns it, to be freed; null: none is needed, or there is none. */
INLINE void *take_memory(Packing *p) {
    if (p->weight || !p->from) return NULL;
    int64_t outputs = groups_of(p->outputs, BYTE_PANEL) * BYTE_PANEL, bytes = outputs * padded(p->inputs);
    p->weight = aligned_alloc(64, bytes + outputs * (sizeof(float) + sizeof(int32_t)) + 64);
    p->scale = (float *)(p->weight + bytes), p->shift = (int32_t *)(p->scale + outputs);
    return p->weight;
}

/* The panel that begins with output `first`; `lines` holds LANES rows of bytes. */
void pack_panel_of_bytes(const Packing *p, int64_t first, int8_t *lines);

/* Bytes of scratch that a thread needs for rows of so many inputs. */
INLINE int64_t bytes_of_rows(int64_t inputs) { return ROWS_PER_CHUNK * (sizeof(float) + padded(inputs) * ENTRY_BYTES); }

/* Dense (count, outputs) = so many rows (count, inputs), `step` apart, rounded and multiplied by packed weights. */
void byte_rows(void *to, const void *from, int64_t step, const Packed *packed, const Epilogue *epilogue, int64_t count,
               int64_t inputs, int64_t outputs, Prefetch prefetch, char *scratch, int is_float32);

/* `count` rows from `row` on, to be prefetched while those of `now` others are multiplied. Only whole rows lie together. */
INLINE Prefetch prefetch_of_rows(const void *from, int64_t step, int64_t row, int64_t count, int64_t now, const Packing *weights,
                        int is_float32) {
    if (count <= 0 || weights->outputs == 0 || step != weights->inputs) return (Prefetch){0};
    int64_t bytes = count * step * (is_float32 ? 4 : 2);
    int64_t share = bytes / blocks_of(now, weights->outputs);
    return (Prefetch){entry(from, row * step, is_float32), bytes, (share / 64 + 1) * 64};
}

#endif
