/* Linear layers of narrow models in training: float32 products of tensors as they lie, in tiles that stay in registers.
 *
 * Every sum has one order, whatever the number of threads and, but for a weight's gradient, of rows.
 */
#include "products.h"

#include <omp.h>
#include <stdlib.h>

/* Rows that a thread takes at once: with their outputs they stay in cache. */
#define ROWS 96
/* Shares of these blocks whose sums are made apart: so many threads at most, and for any number of them the same bits. */
#define SHARES 16

typedef struct {
    int64_t rows, inputs, outputs; /* both widths are multiples of PADDING */
    const float *x, *weight, *bias; /* (rows, inputs), (outputs, inputs), (outputs) or null */
    const float *rectified;         /* backward: (rows, outputs), what max(output, 0) was; null: there was none */
    int64_t threads;
} NarrowLinear;

/* In place: `count` rows plus the bias, and nothing below zero where they are to be rectified. */
INLINE void finish_rows(const NarrowLinear *l, float *rows, int64_t count, int rectifies) {
    for (int64_t row = 0; l->bias && row < count; row++)
        for (int64_t o = 0; o < l->outputs; o++) rows[row * l->outputs + o] += l->bias[o];
    for (int64_t at = 0; rectifies && at < count * l->outputs; at++) rows[at] = rows[at] < 0.0f ? 0.0f : rows[at];
}

/* Twin: F.linear, and F.relu of it where it `rectifies`. Returns 0, or 1 for want of memory. */
int narrow_linear(const NarrowLinear *l, float *output, int rectifies) {
    float *weight = aligned_alloc(64, sizeof(float) * l->inputs * l->outputs);
    if (!weight) return 1;
    for (int64_t o = 0; o < l->outputs; o++)
        for (int64_t i = 0; i < l->inputs; i++) weight[i * l->outputs + o] = l->weight[o * l->inputs + i];
#pragma omp parallel for schedule(dynamic) num_threads(l->threads)
    for (int64_t from = 0; from < l->rows; from += ROWS) {
        int64_t count = l->rows - from < ROWS ? l->rows - from : ROWS;
        float *to = output + from * l->outputs;
        rows_times_matrix(to, l->outputs, l->x + from * l->inputs, l->inputs, 1, weight, l->inputs, l->outputs,
                          l->outputs, count);
        finish_rows(l, to, count, rectifies);
    }
    free(weight);
    return 0;
}

/* The gradient of `count` rows before the rectifier: itself, or a copy in `room` that is zero where nothing flows. */
INLINE const float *flow_of(const NarrowLinear *l, const float *gradient, int64_t from, int64_t count, float *room) {
    const float *rows = gradient + from * l->outputs, *kept = l->rectified + from * l->outputs;
    if (!l->rectified) return rows;
    for (int64_t at = 0; at < count * l->outputs; at++) room[at] = kept[at] <= 0.0f ? 0.0f : rows[at];
    return room;
}

/* sums += the `count` numbers of `part`. */
INLINE void add(float *sums, const float *part, int64_t count) {
    for (int64_t at = 0; at < count; at++) sums[at] += part[at];
}

/* Gradients to be written, any of which may be null: of_x (rows, inputs) = gradient (rows, outputs) x weight,
 * of_weight (outputs, inputs) = gradient^T x, and of_bias (outputs), the sum of the gradient. */
typedef struct {
    float *of_x, *of_weight, *of_bias;
} LinearGradients;

/* The blocks of rows from `first` to `end`, each of which is read once; their part of the two sums goes to `sums`,
 * (outputs, inputs) and (outputs), which are zero. */
INLINE void share_backward(const NarrowLinear *l, const float *gradient, const LinearGradients *to, float *sums,
                           float *scratch, int64_t first, int64_t end) {
    int64_t weights = l->outputs * l->inputs;
    for (int64_t from = first * ROWS; from < l->rows && from < end * ROWS; from += ROWS) {
        int64_t count = l->rows - from < ROWS ? l->rows - from : ROWS;
        const float *flow = flow_of(l, gradient, from, count, scratch + weights), *x = l->x + from * l->inputs;
        if (to->of_x)
            rows_times_matrix(to->of_x + from * l->inputs, l->inputs, flow, l->outputs, 1, l->weight, l->outputs,
                              l->inputs, l->inputs, count);
        if (to->of_weight) {
            rows_times_matrix(scratch, l->inputs, flow, 1, l->outputs, x, count, l->inputs, l->inputs, l->outputs);
            add(sums, scratch, weights);
        }
        for (int64_t row = 0; to->of_bias && row < count; row++)
            add(sums + weights, flow + row * l->outputs, l->outputs);
    }
}

/* Returns 0, or 1 for want of memory. */
int narrow_linear_backward(const NarrowLinear *l, const float *gradient, const LinearGradients *to) {
    int64_t blocks = (l->rows + ROWS - 1) / ROWS, weights = l->outputs * l->inputs, sums = weights + l->outputs;
    int64_t each = weights + ROWS * l->outputs;
    float *memory = aligned_alloc(64, sizeof(float) * (SHARES * sums + l->threads * each));
    if (!memory) return 1;
    memset(memory, 0, sizeof(float) * SHARES * sums);
#pragma omp parallel for schedule(dynamic) num_threads(l->threads)
    for (int64_t share = 0; share < SHARES; share++)
        share_backward(l, gradient, to, memory + share * sums, memory + SHARES * sums + each * omp_get_thread_num(),
                       blocks * share / SHARES, blocks * (share + 1) / SHARES);
    for (int64_t share = 1; share < SHARES; share++) add(memory, memory + share * sums, sums);
    if (to->of_weight) memcpy(to->of_weight, memory, sizeof(float) * weights);
    if (to->of_bias) memcpy(to->of_bias, memory + weights, sizeof(float) * l->outputs);
    free(memory);
    return 0;
}
