/* Linear layers of narrow models in training: float32 products of tensors as they lie, in tiles that stay in registers.
 *
 * Every sum has one order, whatever the number of threads and, but for a weight's gradient, of rows.
 */
#include "products.h"

#include <omp.h>
#include <stdlib.h>

/* Rows that a thread takes at once: with their outputs they stay in cache. */
#define ROWS 96
/* Rows whose share of a weight's gradient is summed before it is added. */
#define SUMMED 128

typedef struct {
    int64_t rows, inputs, outputs; /* both widths are multiples of LANES */
    const float *x, *weight, *bias; /* (rows, inputs), (outputs, inputs), (outputs) or null */
    int64_t threads;
} NarrowLinear;

/* Twin: F.linear. Returns 0, or 1 for want of memory. */
int narrow_linear(const NarrowLinear *l, float *output) {
    float *weight = aligned_alloc(64, sizeof(float) * l->inputs * l->outputs);
    if (!weight) return 1;
    for (int64_t o = 0; o < l->outputs; o++)
        for (int64_t i = 0; i < l->inputs; i++) weight[i * l->outputs + o] = l->weight[o * l->inputs + i];
#pragma omp parallel for schedule(static) num_threads(l->threads)
    for (int64_t from = 0; from < l->rows; from += ROWS) {
        int64_t count = l->rows - from < ROWS ? l->rows - from : ROWS;
        float *to = output + from * l->outputs;
        rows_times_matrix(to, l->outputs, l->x + from * l->inputs, l->inputs, 1, weight, l->inputs, l->outputs,
                          l->outputs, count);
        for (int64_t row = 0; l->bias && row < count; row++)
            for (int64_t o = 0; o < l->outputs; o++) to[row * l->outputs + o] += l->bias[o];
    }
    free(weight);
    return 0;
}

/* of_x (rows, inputs) = gradient (rows, outputs) x weight. */
void narrow_linear_of_x(const NarrowLinear *l, const float *gradient, float *of_x) {
#pragma omp parallel for schedule(static) num_threads(l->threads)
    for (int64_t from = 0; from < l->rows; from += ROWS)
        rows_times_matrix(of_x + from * l->inputs, l->inputs, gradient + from * l->outputs, l->outputs, 1, l->weight,
                          l->outputs, l->inputs, l->inputs, l->rows - from < ROWS ? l->rows - from : ROWS);
}

/* sums (width) += `count` rows, `step` apart; `part` has room for one. */
INLINE void add_rows(float *sums, const float *rows, int64_t count, int64_t step, int64_t width, float *part) {
    memset(part, 0, sizeof(float) * width);
    for (int64_t row = 0; row < count; row++)
        for (int64_t o = 0; o < width; o++) part[o] += rows[row * step + o];
    for (int64_t o = 0; o < width; o++) sums[o] += part[o];
}

/* of_weight (outputs, inputs) = gradient^T x and of_bias (outputs), which may be null, the sum of the gradient; each
 * thread takes some of the outputs. Returns 0, or 1 for want of memory. */
int narrow_linear_of_weight(const NarrowLinear *l, const float *gradient, float *of_weight, float *of_bias) {
    int64_t size = (l->outputs / l->threads + 1) * l->inputs;
    float *scratch = aligned_alloc(64, sizeof(float) * size * l->threads);
    if (!scratch) return 1;
    memset(of_weight, 0, sizeof(float) * l->outputs * l->inputs);
    if (of_bias) memset(of_bias, 0, sizeof(float) * l->outputs);
#pragma omp parallel for schedule(static) num_threads(l->threads)
    for (int64_t number = 0; number < l->threads; number++) {
        int64_t first = l->outputs * number / l->threads, end = l->outputs * (number + 1) / l->threads;
        float *part = scratch + size * number, *to = of_weight + first * l->inputs;
        for (int64_t from = 0; from < l->rows; from += SUMMED) {
            int64_t count = l->rows - from < SUMMED ? l->rows - from : SUMMED;
            const float *rows = gradient + from * l->outputs + first;
            rows_times_matrix(part, l->inputs, rows, 1, l->outputs, l->x + from * l->inputs, count, l->inputs,
                              l->inputs, end - first);
            for (int64_t i = 0; i < (end - first) * l->inputs; i++) to[i] += part[i];
            if (of_bias) add_rows(of_bias + first, rows, count, l->outputs, end - first, part);
        }
    }
    free(scratch);
    return 0;
}
