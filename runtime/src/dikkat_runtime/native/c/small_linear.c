/* Linear layers of small models in training: float32 products of tensors as they lie, in tiles that stay in registers.
 *
 * Every sum has one order, whatever the number of threads and, but for a weight's gradient, of rows.
 */
#include "products.h"
#include "threads.h"

#include <stdlib.h>

/* Rows that a thread takes at once: with their outputs they stay in cache. */
#define ROWS 96
/* Shares of these blocks, each with sums of its own: at most as many threads, and for any number of them the same bits. */
#define SHARES 16

typedef struct {
    int64_t rows, inputs, outputs; /* both widths are multiples of PADDING */
    const float *x, *weight, *bias; /* (rows, inputs), (outputs, inputs), (outputs) or null */
    const float *rectified;         /* backward: (rows, outputs), what max(output, 0) was; null: there was none */
    int64_t threads;
} SmallLinear;

/* In place: `count` rows plus the bias, and nothing below zero where they are to be rectified. */
INLINE void end_rows(const SmallLinear *l, float *rows, int64_t count, int relu) {
    for (int64_t row = 0; l->bias && row < count; row++)
        for (int64_t o = 0; o < l->outputs; o++) rows[row * l->outputs + o] += l->bias[o];
    for (int64_t at = 0; relu && at < count * l->outputs; at++) rows[at] = rows[at] < 0.0f ? 0.0f : rows[at];
}

typedef struct {
    const SmallLinear *linear;
    const float *weight; /* transposed */
    float *output;
    int relu;
} ForwardJob;

static void forward_share(const void *job, int64_t block, int64_t thread) {
    const ForwardJob *j = job;
    const SmallLinear *l = j->linear;
    int64_t from = block * ROWS, count = smaller_of(l->rows - from, ROWS);
    float *to = j->output + from * l->outputs;
    (void)thread;
    rows_times_matrix(to, l->outputs, l->x + from * l->inputs, l->inputs, 1, j->weight, l->inputs, l->outputs, l->outputs,
                      count);
    end_rows(l, to, count, j->relu);
}

/* Twin: F.linear, and with `relu` F.relu of it. Returns 0, or 1 for want of memory. */
int small_linear(const SmallLinear *l, float *output, int relu) {
    float *weight = aligned_alloc(64, sizeof(float) * l->inputs * l->outputs);
    if (!weight) return 1;
    for (int64_t o = 0; o < l->outputs; o++)
        for (int64_t i = 0; i < l->inputs; i++) weight[i * l->outputs + o] = l->weight[o * l->inputs + i];
    ForwardJob job = {l, weight, output, relu};
    share_out(l->threads, groups_of(l->rows, ROWS), 1, forward_share, &job);
    free(weight);
    return 0;
}

/* The gradient of `count` rows before the rectifier: itself, or a copy in `buffer` that is zero where nothing flows. */
INLINE const float *flow_of(const SmallLinear *l, const float *gradient, int64_t from, int64_t count, float *buffer) {
    const float *rows = gradient + from * l->outputs, *kept = l->rectified + from * l->outputs;
    if (!l->rectified) return rows;
    for (int64_t at = 0; at < count * l->outputs; at++) buffer[at] = kept[at] <= 0.0f ? 0.0f : rows[at];
    return buffer;
}

/* sums += the `count` numbers of `part`. */
INLINE void add(float *sums, const float *part, int64_t count) {
    for (int64_t at = 0; at < count; at++) sums[at] += part[at];
}

/* Gradients to be written, any of which may be null: grad_x (rows, inputs) = gradient (rows, outputs) x weight,
 * grad_weight (outputs, inputs) = gradient^T x, and grad_bias (outputs), the sum of the gradient. */
typedef struct {
    float *grad_x, *grad_weight, *grad_bias;
} LinearGradients;

/* The blocks of rows from `first` to `end`, each of which is read once; their part of the two sums goes to `sums`,
 * (outputs, inputs) and (outputs), which are zero. */
INLINE void share_backward(const SmallLinear *l, const float *gradient, const LinearGradients *to, float *sums,
                           float *scratch, int64_t first, int64_t end) {
    int64_t weights = l->outputs * l->inputs;
    for (int64_t from = first * ROWS; from < l->rows && from < end * ROWS; from += ROWS) {
        int64_t count = l->rows - from < ROWS ? l->rows - from : ROWS;
        const float *flow = flow_of(l, gradient, from, count, scratch + weights), *x = l->x + from * l->inputs;
        if (to->grad_x)
            rows_times_matrix(to->grad_x + from * l->inputs, l->inputs, flow, l->outputs, 1, l->weight, l->outputs,
                              l->inputs, l->inputs, count);
        if (to->grad_weight) {
            rows_times_matrix(scratch, l->inputs, flow, 1, l->outputs, x, count, l->inputs, l->inputs, l->outputs);
            add(sums, scratch, weights);
        }
        for (int64_t row = 0; to->grad_bias && row < count; row++)
            add(sums + weights, flow + row * l->outputs, l->outputs);
    }
}

typedef struct {
    const SmallLinear *linear;
    const float *gradient;
    const LinearGradients *to;
    float *memory; /* sums of each share, then what each thread needs besides */
    int64_t blocks, sums, per_thread;
} BackwardJob;

static void backward_share(const void *job, int64_t share, int64_t thread) {
    const BackwardJob *j = job;
    share_backward(j->linear, j->gradient, j->to, j->memory + share * j->sums,
                   j->memory + SHARES * j->sums + j->per_thread * thread, j->blocks * share / SHARES,
                   j->blocks * (share + 1) / SHARES);
}

/* Returns 0, or 1 for want of memory. */
int small_linear_backward(const SmallLinear *l, const float *gradient, const LinearGradients *to) {
    int64_t blocks = (l->rows + ROWS - 1) / ROWS, weights = l->outputs * l->inputs, sums = weights + l->outputs;
    int64_t per_thread = weights + ROWS * l->outputs;
    float *memory = aligned_alloc(64, sizeof(float) * (SHARES * sums + l->threads * per_thread));
    if (!memory) return 1;
    memset(memory, 0, sizeof(float) * SHARES * sums);
    BackwardJob job = {l, gradient, to, memory, blocks, sums, per_thread};
    share_out(l->threads, SHARES, 1, backward_share, &job);
    for (int64_t share = 1; share < SHARES; share++) add(memory, memory + share * sums, sums);
    if (to->grad_weight) memcpy(to->grad_weight, memory, sizeof(float) * weights);
    if (to->grad_bias) memcpy(to->grad_bias, memory + weights, sizeof(float) * l->outputs);
    free(memory);
    return 0;
}
