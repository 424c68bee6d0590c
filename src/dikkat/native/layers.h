/* What the native encoder and decoder have in common beside linear layers: norms and activations of single rows. */
#ifndef DIKKAT_LAYERS_H
#define DIKKAT_LAYERS_H

#include "linear.h"

typedef struct {
    const float *weight, *bias; /* (D) or null */
    int64_t present;            /* else the identity */
    float eps;
} Norm;

/* Twin: nn.LayerNorm of one row. */
INLINE void normalize(float *to, const float *x, const Norm *norm, int64_t width) {
    float mean = 0.0f, square = 0.0f;
    if (!norm->present) {
        memcpy(to, x, sizeof(float) * width);
        return;
    }
#pragma omp simd reduction(+ : mean)
    for (int64_t i = 0; i < width; i++) mean += x[i];
    mean /= (float)width;
#pragma omp simd reduction(+ : square)
    for (int64_t i = 0; i < width; i++) square += (x[i] - mean) * (x[i] - mean);
    float share = 1.0f / sqrtf(square / (float)width + norm->eps);
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

/* Twin: the activation of nn/feed_forward.py. NaN stays NaN. */
INLINE void activate_row(float *x, int64_t width, int is_gelu) {
    if (is_gelu)
        for (int64_t i = 0; i < width; i++) x[i] = gelu(x[i]);
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
