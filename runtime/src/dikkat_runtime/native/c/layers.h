/* What the native encoder and decoder have in common besides linear layers: norms and activations of single rows. */
#ifndef DIKKAT_LAYERS_H
#define DIKKAT_LAYERS_H

#include "linear.h"

typedef struct {
    const float *weight, *bias; /* (D) or null */
    int64_t present;            /* else the identity */
    float eps;
} Norm;

/* Sum of x - less, or of its square; four sums, so that one need not wait for the other. */
INLINE float sum_of_row(const float *x, int64_t width, float less, const int squared) {
    vec sums[4] = {{0}};
    float rest = 0.0f;
    int64_t at = 0;
    for (; at + 4 * LANES <= width; at += 4 * LANES)
        for (int i = 0; i < 4; i++) {
            vec entries = *(const loose *)(x + at + i * LANES) - less;
            sums[i] += squared ? entries * entries : entries;
        }
    for (; at + LANES <= width; at += LANES) {
        vec entries = *(const loose *)(x + at) - less;
        sums[0] += squared ? entries * entries : entries;
    }
    for (; at < width; at++) rest += squared ? (x[at] - less) * (x[at] - less) : x[at] - less;
    return lane_sum((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
}

/* Twin: nn.LayerNorm of one row. */
INLINE void normalize(float *to, const float *x, const Norm *norm, int64_t width) {
    if (!norm->present) {
        memcpy(to, x, sizeof(float) * width);
        return;
    }
    float mean = sum_of_row(x, width, 0.0f, 0) / (float)width;
    float share = 1.0f / sqrtf(sum_of_row(x, width, mean, 1) / (float)width + norm->eps);
    for (int64_t i = 0; i < width; i++)
        to[i] = (x[i] - mean) * share * (norm->weight ? norm->weight[i] : 1.0f) + (norm->bias ? norm->bias[i] : 0.0f);
}

/* Twin: F.gelu. The complementary error function as in Abramowitz and Stegun 7.1.26, to 1.5e-7. */
INLINE float gelu(float x) {
    float z = fabsf(x) * 0.70710678118654752f, t = 1.0f / (1.0f + 0.3275911f * z);
    float series = 1.061405429f;
    series = series * t - 1.453152027f;
    series = series * t + 1.421413741f;
    series = series * t - 0.284496736f;
    series = series * t + 0.254829592f;
    float half = 0.5f * x * (series * t * exponential(-z * z));
    return x < 0.0f ? half : x - half;
}

/* Twin: F.silu. The exponential never overflows, since it is that of a number below zero. */
INLINE float silu(float x) {
    float decay = exponential(-fabsf(x));
    return (x < 0.0f ? x * decay : x) / (1.0f + decay);
}

/* Twin: F.gelu with approximate="tanh", where (1 + tanh z) / 2 is the logistic function of 2 z. */
INLINE float gelu_tanh(float x) {
    float z = 1.5957691216057308f * (x + 0.044715f * x * x * x), decay = exponential(-fabsf(z));
    return (x < 0.0f ? x * decay : x) / (1.0f + decay);
}

/* The activations, by the numbers that native/library.py gives them. */
enum { RELU, GELU, SILU, GELU_TANH };

/* Twin: the activation of nn/layers.py. NaN stays NaN. */
INLINE void activate_row(float *x, int64_t width, int64_t activation) {
    if (activation == GELU)
        for (int64_t i = 0; i < width; i++) x[i] = gelu(x[i]);
    else if (activation == SILU)
        for (int64_t i = 0; i < width; i++) x[i] = silu(x[i]);
    else if (activation == GELU_TANH)
        for (int64_t i = 0; i < width; i++) x[i] = gelu_tanh(x[i]);
    else
        for (int64_t i = 0; i < width; i++) x[i] = x[i] < 0.0f ? 0.0f : x[i];
}

/* Twin: nn/residual.py, of one row. Adds what a sub-layer found and makes the input of the next one: the norm of the
 * sum, which under post-norm is also what the next sub-layer's result is added to. */
INLINE void add_and_normalize_row(float *sum, float *input, const float *change, const Norm *norm, int64_t width,
                                  int post_norm) {
    for (int64_t i = 0; i < width; i++) sum[i] += change[i];
    normalize(input, sum, norm, width);
    if (post_norm) memcpy(sum, input, sizeof(float) * width);
}

#endif
