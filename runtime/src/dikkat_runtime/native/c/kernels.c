/* The memory-bound chains of a training step, each in one pass over memory: residual + dropout, rotary positions, and
 * softmax + smoothed cross-entropy with its gradient.
 *
 * Every kernel has a PyTorch twin (named above it) that gives the same result up to rounding. Tensors are bfloat16, or
 * float32 where `wide`; sums are float32. Work is cut in fixed shares, so the same input gives the same bits.
 */
#include "draws.h"
#include "indices.h"
#include "rotation.h"
#include "tensors.h"

#include <omp.h>
#include <stdlib.h>

/* A vector of entries from `at` on, or the fewer that are left. */
INLINE void add_dropped_vec(void *output, const void *rest, const void *x, const int16_t *levels, int32_t threshold,
                            float scale, int64_t at, int64_t count, int wide) {
    short_vec level;
    vec sum = {0}, values = {0};
    memcpy(&level, levels, sizeof level);
    if (count == LANES) {
        values = load_vec(x, at, wide);
        if (rest) sum = load_vec(rest, at, wide);
    } else {
        for (int i = 0; i < count; i++) {
            values[i] = load(x, at + i, wide);
            if (rest) sum[i] = load(rest, at + i, wide);
        }
    }
    ivec kept = longer_shorts(level) >= threshold;
    store_vec(output, at, sum + (vec)((ivec)(values * scale) & kept), count, wide);
}

INLINE void add_dropped_as(void *output, const void *rest, const void *x, uint64_t seed, int32_t threshold, float scale,
                           int64_t entries, int wide, int threads) {
#pragma omp parallel for schedule(dynamic, 1024) num_threads(threads)
    for (int64_t from = 0; from < entries; from += DRAWS) {
        int16_t levels[DRAWS];
        draw(levels, seed, from);
        for (int64_t i = 0, at = from; i < DRAWS && at < entries; i += LANES, at += LANES) {
            if (at + LANES <= entries)
                add_dropped_vec(output, rest, x, levels + i, threshold, scale, at, LANES, wide);
            else
                add_dropped_vec(output, rest, x, levels + i, threshold, scale, at, entries - at, wide);
        }
    }
}

/* Twin: nn/dropout.py, `rest + x * keep_mask`. output = rest + dropout(x); `rest` may be null. */
void add_dropped(void *output, const void *rest, const void *x, uint64_t seed, int64_t threshold, float scale,
                 int64_t entries, int wide, int threads) {
    if (wide)
        add_dropped_as(output, rest, x, seed, threshold, scale, entries, 1, threads);
    else if (rest)
        add_dropped_as(output, rest, x, seed, threshold, scale, entries, 0, threads);
    else
        add_dropped_as(output, 0, x, seed, threshold, scale, entries, 0, threads);
}

/* Twin: nn/draws.py, `splitmix64`. The draws that `add_dropped` makes, written down. */
void draw_levels(int16_t *levels, uint64_t seed, int64_t entries, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t from = 0; from < entries; from += DRAWS) {
        int16_t drawn[DRAWS];
        draw(drawn, seed, from);
        memcpy(levels + from, drawn, sizeof *drawn * (from + DRAWS <= entries ? DRAWS : entries - from));
    }
}

/* Sizes and addresses of what is turned: (B, H, T, K) by strides of b, h and t, in entries; the last stride is one. */
typedef struct {
    int64_t batch, heads, length, width, strides[3];
    const void *x;
    Rotation rotation;
    int64_t back; /* 1 turns the other way */
    int64_t wide, threads;
} Turning;

/* Up to a vector of entries from `at` on of all heads of one position. */
INLINE void turn_entries(const Turning *w, void *output, int64_t row, int64_t at, int64_t count, int wide) {
    int64_t b = row / w->length, t = row % w->length;
    Angles by = angles_of(&w->rotation, place_of(&w->rotation, b, t, w->length), w->width, at, count, w->back);
    for (int64_t h = 0; h < w->heads; h++) {
        int64_t from = b * w->strides[0] + h * w->strides[1] + t * w->strides[2] + at;
        vec pairs = {0};
        if (count == LANES)
            pairs = load_vec(w->x, from, wide);
        else
            for (int i = 0; i < count; i++) pairs[i] = load(w->x, from + i, wide);
        store_vec(output, (row * w->heads + h) * w->width + at, turned(pairs, by), count, wide);
    }
}

INLINE void turn_row(const Turning *w, void *output, int64_t row, int wide) {
    int64_t at = 0;
    for (; at + LANES <= w->width; at += LANES) turn_entries(w, output, row, at, LANES, wide);
    if (at < w->width) turn_entries(w, output, row, at, w->width - at, wide);
}

/* Twin: nn/rotary.py, Rotation. `output` is (B, T, H, K). Returns 0, or OUTSIDE for a position that the tables lack. */
int turn(const Turning *w, void *output) {
    if (!has_positions(&w->rotation, w->batch, w->length)) return OUTSIDE;
#pragma omp parallel for schedule(static) num_threads(w->threads)
    for (int64_t row = 0; row < w->batch * w->length; row++) {
        if (w->wide)
            turn_row(w, output, row, 1);
        else
            turn_row(w, output, row, 0);
    }
    return 0;
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

/* Twin: training/exact_chunks.py, smoothed_softmax. In place: (rows, vocab) logits to the gradient of the smoothed loss;
 * `loss` and `likelihood` are (rows). Returns 0, NO_MEMORY, or OUTSIDE for a target that is no entry of a row. */
int smoothed_softmax(void *logits, const int64_t *targets, int64_t rows, int64_t vocab, float smoothing, float *loss,
                     float *likelihood, int wide, int threads) {
    if (!are_inside(targets, rows, vocab)) return OUTSIDE;
    int64_t each = padded(vocab);
    float *scratch = aligned_alloc(64, sizeof(float) * each * threads);
    if (!scratch) return NO_MEMORY;
#pragma omp parallel for schedule(dynamic, 16) num_threads(threads)
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
