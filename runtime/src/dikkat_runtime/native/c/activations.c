/* Activations of bfloat16 numbers in training, forward and backward, each in one pass over memory.
 *
 * Twin: what `activate` of kernels/activation.py asks of PyTorch. Sums are float32.
 */
#include "layers.h"
#include "tensors.h"
#include "threads.h"

/* Numbers that a thread takes at once, a multiple of PADDING. */
#define ACTIVATED_TOGETHER 1024

/* d gelu(x) / dx = P(x) + x p(x), of the normal distribution; its tail as in `gelu`. */
INLINE float gelu_slope(float x) {
    float z = fabsf(x) * 0.70710678118654752f, t = 1.0f / (1.0f + 0.3275911f * z), decay = exponential(-z * z);
    float series = 1.061405429f;
    series = series * t - 1.453152027f;
    series = series * t + 1.421413741f;
    series = series * t - 0.284496736f;
    series = series * t + 0.254829592f;
    float tail = 0.5f * (series * t * decay);
    return (x < 0.0f ? tail : 1.0f - tail) + 0.3989422804014327f * x * decay;
}

/* The derivative of x times the logistic function of z, which grows by `rise` where x grows by one. */
INLINE float logistic_slope(float x, float z, float rise) {
    float decay = exponential(-fabsf(z)), share = 1.0f / (1.0f + decay);
    return (z < 0.0f ? decay : 1.0f) * share + x * decay * share * share * rise;
}

/* Further out it is 0 or 1, and a square might not be finite. */
INLINE float gelu_tanh_slope(float x) {
    x = x > 20.0f ? 20.0f : x < -20.0f ? -20.0f : x;
    float square = x * x;
    return logistic_slope(x, 1.5957691216057308f * (x + 0.044715f * x * square), 1.5957691216057308f * (1.0f + 0.134145f * square));
}

/* gradient = gradient x the slope of the activation at x. */
INLINE void flow_back(float *gradient, const float *x, int64_t count, int64_t activation) {
    if (activation == GELU)
        for (int64_t i = 0; i < count; i++) gradient[i] *= gelu_slope(x[i]);
    else if (activation == SILU)
        for (int64_t i = 0; i < count; i++) gradient[i] *= logistic_slope(x[i], x[i], 1.0f);
    else
        for (int64_t i = 0; i < count; i++) gradient[i] *= gelu_tanh_slope(x[i]);
}

typedef struct {
    uint16_t *to;
    const uint16_t *x, *gradient;
    int64_t entries, activation;
} Activated;

static void activated_share(const void *job, int64_t index, int64_t thread) {
    const Activated *a = job;
    int64_t first = index * ACTIVATED_TOGETHER, count = smaller_of(ACTIVATED_TOGETHER, a->entries - first);
    float x[ACTIVATED_TOGETHER] __attribute__((aligned(64))), flow[ACTIVATED_TOGETHER] __attribute__((aligned(64)));
    (void)thread;
    load_rows(x, a->x + first, 1, count, 0, 0);
    if (a->gradient) {
        load_rows(flow, a->gradient + first, 1, count, 0, 0);
        flow_back(flow, x, count, a->activation);
    } else {
        activate_row(x, count, a->activation);
    }
    store_rows(a->to, first, 0, a->gradient ? flow : x, 1, count, 0);
}

/* The activation of `entries` numbers, or with a `gradient` of the output that of the input. */
void activate_bf16(uint16_t *to, const uint16_t *x, const uint16_t *gradient, int64_t entries, int64_t activation, int threads) {
    Activated job = {to, x, gradient, entries, activation};
    share_out(threads, groups_of(entries, ACTIVATED_TOGETHER), 8, activated_share, &job);
}
