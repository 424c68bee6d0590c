/* The memory-bound chains of a training step, each in one pass over memory: residual + dropout, and softmax + smoothed
 * cross-entropy with its gradient.
 *
 * Every kernel has a PyTorch twin (named above it) that gives the same result up to rounding. Tensors are bfloat16, or
 * float32 where `wide`; sums are float32. Work is cut in fixed shares, so the same input gives the same bits.
 */
#include "tensors.h"

#include <omp.h>
#include <stdlib.h>

INLINE void add_dropped_entries(void *output, const void *rest, const void *x, const int16_t *draws, int64_t threshold,
                                float scale, int64_t from, int64_t to, int wide) {
#pragma omp simd
    for (int64_t i = from; i < to; i++) {
        float kept = draws[i] >= threshold ? load(x, i, wide) * scale : 0.0f;
        store(output, i, (rest ? load(rest, i, wide) : 0.0f) + kept, wide);
    }
}

/* Twin: nn/dropout.py, `rest + x * keep_mask`. output = rest + dropout(x); `rest` may be null. */
void add_dropped(void *output, const void *rest, const void *x, const int16_t *draws, int64_t threshold, float scale,
                 int64_t entries, int wide, int threads) {
    int64_t block = 1 << 12;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t from = 0; from < entries; from += block) {
        int64_t to = from + block < entries ? from + block : entries;
        if (wide)
            add_dropped_entries(output, rest, x, draws, threshold, scale, from, to, 1);
        else if (rest)
            add_dropped_entries(output, rest, x, draws, threshold, scale, from, to, 0);
        else
            add_dropped_entries(output, 0, x, draws, threshold, scale, from, to, 0);
    }
}

INLINE void smoothed_softmax_row(void *logits, int64_t vocab, int64_t target, float smoothing, float *loss,
                                 float *likelihood, float *row, int wide) {
    float largest = -INFINITY, total = 0.0f, sum = 0.0f;
#pragma omp simd reduction(max : largest) reduction(+ : sum)
    for (int64_t v = 0; v < vocab; v++) {
        row[v] = load(logits, v, wide);
        largest = row[v] > largest ? row[v] : largest;
        sum += row[v];
    }
    float right = row[target];
#pragma omp simd reduction(+ : total)
    for (int64_t v = 0; v < vocab; v++) {
        row[v] = exponential(row[v] - largest);
        total += row[v];
    }
    /* sum is not finite where a logit is not, which the largest alone might hide */
    float normalizer = largest + logf(total), share = 1.0f / total, floor = smoothing / (float)vocab;
    *likelihood = normalizer - right + (sum - sum);
    *loss = (1.0f - smoothing) * *likelihood + smoothing * (normalizer - sum / (float)vocab);
    row[target] -= (1.0f - smoothing) * total;
#pragma omp simd
    for (int64_t v = 0; v < vocab; v++) store(logits, v, row[v] * share - floor, wide);
}

/* Twin: training/objective.py, smoothed_softmax. In place: (rows, vocab) logits to the gradient of the smoothed loss;
 * `loss` and `likelihood` are (rows). Returns 0, or 1 for want of memory. */
int smoothed_softmax(void *logits, const int64_t *targets, int64_t rows, int64_t vocab, float smoothing, float *loss,
                     float *likelihood, int wide, int threads) {
    int64_t each = padded(vocab);
    float *scratch = aligned_alloc(64, sizeof(float) * each * threads);
    if (!scratch) return 1;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < rows; r++) {
        void *own = (char *)logits + r * vocab * (wide ? 4 : 2);
        float *row = scratch + each * omp_get_thread_num();
        if (wide)
            smoothed_softmax_row(own, vocab, targets[r], smoothing, loss + r, likelihood + r, row, 1);
        else
            smoothed_softmax_row(own, vocab, targets[r], smoothing, loss + r, likelihood + r, row, 0);
    }
    free(scratch);
    return 0;
}
