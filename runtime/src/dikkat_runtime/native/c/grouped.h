/* A linear layer of which each group of inputs has a scale of its own (grouped_layer.c). */
#ifndef DIKKAT_GROUPED_H
#define DIKKAT_GROUPED_H

#include "vectors.h"

#define GROUP 32
/* Vectors of outputs, and rows, whose sums stay in registers. */
#define GROUP_VECTORS 4
#define GROUP_PANEL (GROUP_VECTORS * LANES)

typedef struct {
    uint8_t *weight;   /* panels of groups: scale and least or mean of each output in bfloat16, then fours of q side by side */
    const float *bias; /* (outputs) or null */
    int64_t inputs, outputs, bits;
} Grouped;

/* Bytes of a group of a panel. */
INLINE int64_t group_bytes(int64_t bits) { return GROUP_PANEL * (4 + GROUP * bits / 8); }

/* Dense (rows, inputs) to dense (rows, outputs). Returns 0, or 1 for want of memory. */
int grouped_layer(const Grouped *layer, const float *from, float *to, int64_t rows, int64_t threads);

#endif
