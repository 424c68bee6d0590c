/* Layer norm (Ba et al. 2016) of bfloat16 rows in training, forward and backward, each in one pass over memory.
 *
 * Twin: torch.nn.functional.layer_norm. Sums are float32; those over rows are made in fixed shares, so that no number of
 * threads changes a bit of them.
 */
#include "tensors.h"

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

/* Returns 0, or 1 for want of memory. */
int normalize_forward(const Normalization *n, uint16_t *output) {
    int64_t width = n->width, failed = 0;
#pragma omp parallel num_threads(n->threads) reduction(+ : failed)
    {
        float *deviations = aligned_alloc(64, sizeof(float) * width);
        failed = !deviations;
#pragma omp for schedule(static)
        for (int64_t row = 0; row < n->rows; row++) {
            if (failed) continue;
            row_statistics(deviations, n->mean + row, n->inverse + row, n->x + row * width, width, n->eps);
            for (int64_t i = 0; i < width; i += LANES) {
                vec scale = n->inverse[row] * load_vec(n->weight, i, 0);
                store_vec(output, row * width + i, *(vec *)(deviations + i) * scale + load_vec(n->bias, i, 0), LANES, 0);
            }
        }
        free(deviations);
    }
    return failed != 0;
}

/* The gradient of one row; adds what it gives to the sums of weight and bias. `room` is for two rows. */
INLINE void backward_row(const Normalization *n, uint16_t *of_x, float *of_weight, float *of_bias,
                         const uint16_t *gradient, float *room, int64_t row) {
    int64_t width = n->width, first = row * width;
    float *normal = room, *scaled = room + width;
    vec sums = {0}, products = {0};
    for (int64_t i = 0; i < width; i += LANES) {
        vec x = (load_vec(n->x, first + i, 0) - n->mean[row]) * n->inverse[row], g = load_vec(gradient, first + i, 0);
        vec by = g * load_vec(n->weight, i, 0);
        *(vec *)(of_weight + i) += g * x, *(vec *)(of_bias + i) += g;
        sums += by, products += by * x;
        *(vec *)(normal + i) = x, *(vec *)(scaled + i) = by;
    }
    /* what would move all entries of a row alike, or stretch it, changes nothing */
    float mean = lane_sum(sums) / (float)width, along = lane_sum(products) / (float)width;
    for (int64_t i = 0; i < width; i += LANES) {
        vec found = n->inverse[row] * (*(vec *)(scaled + i) - mean - *(vec *)(normal + i) * along);
        store_vec(of_x, first + i, found, LANES, 0);
    }
}

/* `gradient` and `of_x` are (rows, width), `of_weight` and `of_bias` (width). Returns 0, or 1 for want of memory. */
int normalize_backward(const Normalization *n, const uint16_t *gradient, uint16_t *of_x, uint16_t *of_weight,
                       uint16_t *of_bias) {
    int64_t width = n->width;
    float *memory = aligned_alloc(64, sizeof(float) * width * 4 * SHARES);
    if (!memory) return 1;
#pragma omp parallel for schedule(static) num_threads(n->threads)
    for (int64_t share = 0; share < SHARES; share++) {
        float *sums = memory + share * 4 * width;
        memset(sums, 0, sizeof(float) * 2 * width);
        for (int64_t row = share * n->rows / SHARES; row < (share + 1) * n->rows / SHARES; row++)
            backward_row(n, of_x, sums, sums + width, gradient, sums + 2 * width, row);
    }
    for (int64_t i = 0; i < width; i += LANES) {
        vec weight = {0}, bias = {0};
        for (int64_t share = 0; share < SHARES; share++) {
            const float *sums = memory + share * 4 * width + i;
            weight += *(const vec *)sums, bias += *(const vec *)(sums + width);
        }
        store_vec(of_weight, i, weight, LANES, 0);
        store_vec(of_bias, i, bias, LANES, 0);
    }
    free(memory);
    return 0;
}
