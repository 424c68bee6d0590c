/* Layer norm (Ba et al. 2016) of bfloat16 rows in training, forward and backward, each in one pass over memory.
 *
 * Twin: torch.nn.functional.layer_norm. Sums are float32; those over rows are made in fixed shares, so that no number of
 * threads changes a bit of them.
 */
#include "tensors.h"
#include "threads.h"

#include <stdlib.h>

/* Of the rows, each with sums of its own over them. */
#define SHARES 16

/* Addresses and sizes: rows (rows, width), width a multiple of PADDING, and for each row its mean and the inverse of its
 * deviation. */
typedef struct {
    const uint16_t *x, *weight, *bias;
    float *mean, *inverse;
    int64_t rows, width;
    float eps;
    int64_t threads;
} Normalization;

/* Deviations of a row from its mean, with both statistics of it. */
INLINE void row_statistics(float *deviations, float *mean, float *inverse, const uint16_t *x, int64_t width, float eps) {
    vec sums = {0}, squares = {0};
    for (int64_t i = 0; i < width; i += LANES) {
        vec values = load_vec(x, i, 0);
        *(vec *)(deviations + i) = values, sums += values;
    }
    *mean = lane_sum(sums) / (float)width;
    for (int64_t i = 0; i < width; i += LANES) {
        vec *at = (vec *)(deviations + i);
        *at -= *mean, squares += *at * *at;
    }
    *inverse = 1.0f / sqrtf(lane_sum(squares) / (float)width + eps);
}

typedef struct {
    const Normalization *n;
    uint16_t *output;
    float *deviations; /* a row for each thread */
} ForwardJob;

static void forward_row(const void *job, int64_t row, int64_t thread) {
    const ForwardJob *j = job;
    const Normalization *n = j->n;
    int64_t width = n->width;
    float *deviations = j->deviations + thread * width;
    row_statistics(deviations, n->mean + row, n->inverse + row, n->x + row * width, width, n->eps);
    for (int64_t i = 0; i < width; i += LANES) {
        vec scale = n->inverse[row] * load_vec(n->weight, i, 0);
        vec normal = *(vec *)(deviations + i) * scale + load_vec(n->bias, i, 0);
        store_vec(j->output, row * width + i, normal, LANES, 0);
    }
}

/* Returns 0, or 1 for want of memory. */
int normalize_forward(const Normalization *n, uint16_t *output) {
    float *deviations = aligned_alloc(64, sizeof(float) * n->width * n->threads);
    if (!deviations) return 1;
    ForwardJob job = {n, output, deviations};
    share_out(n->threads, n->rows, groups_of(n->rows, n->threads), forward_row, &job);
    free(deviations);
    return 0;
}

/* The sum of a vector, stored in bfloat16 first, and of one there, as PyTorch rounds it. */
INLINE void store_sum(uint16_t *to, int64_t at, vec values, const uint16_t *other) {
    vec sum = (vec)(longer_halves(to_bf16_vec(values)) << 16) + load_vec(other, at, 0);
    bf16_vec bf16 = __builtin_convertvector((ivec)rounded_to_bf16(sum) >> 16, bf16_vec);
    memcpy(to + at, &bf16, sizeof bf16);
}

/* The gradient of one row, with that of another branch where there is one; adds what it gives to the sums of weight and bias.
 * `buffer` is for two rows. */
INLINE void backward_row(const Normalization *n, uint16_t *grad_x, float *grad_weight, float *grad_bias,
                         const uint16_t *gradient, const uint16_t *other, float *buffer, int64_t row) {
    int64_t width = n->width, first = row * width;
    float *normal = buffer, *scaled = buffer + width;
    vec sums = {0}, products = {0};
    for (int64_t i = 0; i < width; i += LANES) {
        vec x = (load_vec(n->x, first + i, 0) - n->mean[row]) * n->inverse[row], g = load_vec(gradient, first + i, 0);
        vec by = g * load_vec(n->weight, i, 0);
        *(vec *)(grad_weight + i) += g * x, *(vec *)(grad_bias + i) += g;
        sums += by, products += by * x;
        *(vec *)(normal + i) = x, *(vec *)(scaled + i) = by;
    }
    /* what would move all entries of a row alike, or stretch it, changes nothing */
    float mean = lane_sum(sums) / (float)width, along = lane_sum(products) / (float)width;
    for (int64_t i = 0; i < width; i += LANES) {
        vec result = n->inverse[row] * (*(vec *)(scaled + i) - mean - *(vec *)(normal + i) * along);
        if (other)
            store_sum(grad_x, first + i, result, other);
        else
            store_vec(grad_x, first + i, result, LANES, 0);
    }
}

typedef struct {
    const Normalization *n;
    const uint16_t *gradient, *other;
    uint16_t *grad_x;
    float *memory; /* sums of each share, and memory for it */
} BackwardJob;

static void backward_share(const void *job, int64_t share, int64_t thread) {
    const BackwardJob *j = job;
    const Normalization *n = j->n;
    int64_t width = n->width;
    float *sums = j->memory + share * 4 * width;
    (void)thread;
    memset(sums, 0, sizeof(float) * 2 * width);
    for (int64_t row = share * n->rows / SHARES; row < (share + 1) * n->rows / SHARES; row++)
        backward_row(n, j->grad_x, sums, sums + width, j->gradient, j->other, sums + 2 * width, row);
}

/* `gradient`, `grad_x` and `other`, which is added to it unless it is null, are (rows, width), `grad_weight` and `grad_bias`
 * (width). Returns 0, or 1 for want of memory. */
int normalize_backward(const Normalization *n, const uint16_t *gradient, const uint16_t *other, uint16_t *grad_x,
                       uint16_t *grad_weight, uint16_t *grad_bias) {
    int64_t width = n->width;
    float *memory = aligned_alloc(64, sizeof(float) * width * 4 * SHARES);
    if (!memory) return 1;
    BackwardJob job = {n, gradient, other, grad_x, memory};
    share_out(n->threads, SHARES, 1, backward_share, &job);
    for (int64_t i = 0; i < width; i += LANES) {
        vec weight = {0}, bias = {0};
        for (int64_t share = 0; share < SHARES; share++) {
            const float *sums = memory + share * 4 * width + i;
            weight += *(const vec *)sums, bias += *(const vec *)(sums + width);
        }
        store_vec(grad_weight, i, weight, LANES, 0);
        store_vec(grad_bias, i, bias, LANES, 0);
    }
    free(memory);
    return 0;
}
