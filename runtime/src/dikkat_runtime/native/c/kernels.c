/* The memory-bound chains of a training step, each in one pass over memory: residual + dropout, rotary positions, and
 * softmax + smoothed cross-entropy with its gradient.
 *
 * Every kernel has a PyTorch twin (named above it) that gives the same result up to rounding. Tensors are bfloat16, or
 * float32 where `is_float32`; sums are float32. Work is cut in fixed shares, so the same input gives the same bits.
 */
#include "random_bits.h"
#include "indices.h"
#include "rotation.h"
#include "tensors.h"
#include "threads.h"

#include <stdlib.h>

/* A vector of entries from `at` on, or the fewer that are left. */
INLINE void add_dropped_vec(void *output, const void *rest, const void *x, const int16_t *bits, int32_t threshold,
                            float scale, int64_t at, int64_t count, int is_float32) {
    short_vec sixteen;
    vec sum = {0}, values = {0};
    memcpy(&sixteen, bits, sizeof sixteen);
    if (count == LANES) {
        values = load_vec(x, at, is_float32);
        if (rest) sum = load_vec(rest, at, is_float32);
    } else {
        for (int i = 0; i < count; i++) {
            values[i] = load(x, at + i, is_float32);
            if (rest) sum[i] = load(rest, at + i, is_float32);
        }
    }
    ivec kept = longer_shorts(sixteen) >= threshold;
    store_vec(output, at, sum + (vec)((ivec)(values * scale) & kept), count, is_float32);
}

/* Draws that one thread makes before it takes the next ones. */
#define DRAWS_TOGETHER (1024 * BITS_PER_CALL)

typedef struct {
    void *output;
    const void *rest, *x;
    uint64_t seed;
    int32_t threshold;
    float scale;
    int64_t entries;
    int is_float32;
} Dropout;

INLINE void add_dropped_as(const Dropout *d, const void *rest, int64_t begin, int is_float32) {
    int64_t end = smaller_of(begin + DRAWS_TOGETHER, d->entries);
    for (int64_t from = begin; from < end; from += BITS_PER_CALL) {
        int16_t bits[BITS_PER_CALL];
        make_bits(bits, d->seed, from);
        for (int64_t i = 0, at = from; i < BITS_PER_CALL && at < end; i += LANES, at += LANES) {
            if (at + LANES <= end)
                add_dropped_vec(d->output, rest, d->x, bits + i, d->threshold, d->scale, at, LANES, is_float32);
            else
                add_dropped_vec(d->output, rest, d->x, bits + i, d->threshold, d->scale, at, end - at, is_float32);
        }
    }
}

static void add_dropped_share(const void *job, int64_t index, int64_t thread) {
    const Dropout *d = job;
    int64_t begin = index * DRAWS_TOGETHER;
    (void)thread;
    if (d->is_float32 && d->rest)
        add_dropped_as(d, d->rest, begin, 1);
    else if (d->is_float32)
        add_dropped_as(d, 0, begin, 1);
    else if (d->rest)
        add_dropped_as(d, d->rest, begin, 0);
    else
        add_dropped_as(d, 0, begin, 0);
}

/* Twin: kernels/dropout.py, `rest + x * keep_mask`. output = rest + dropout(x); `rest` may be null. */
void add_dropped(void *output, const void *rest, const void *x, uint64_t seed, int64_t threshold, float scale,
                 int64_t entries, int is_float32, int threads) {
    Dropout job = {output, rest, x, seed, (int32_t)threshold, scale, entries, is_float32};
    share_out(threads, groups_of(entries, DRAWS_TOGETHER), 1, add_dropped_share, &job);
}

typedef struct {
    int16_t *bits;
    uint64_t seed;
    int64_t entries;
} RandomBits;

static void make_random_bits_share(const void *job, int64_t index, int64_t thread) {
    const RandomBits *l = job;
    int64_t from = index * BITS_PER_CALL;
    int16_t bits[BITS_PER_CALL];
    (void)thread;
    make_bits(bits, l->seed, from);
    memcpy(l->bits + from, bits, sizeof *bits * smaller_of(BITS_PER_CALL, l->entries - from));
}

/* Twin: kernels/random_bits.py, `splitmix64`. The numbers that `add_dropped` makes, written down. */
void make_random_bits(int16_t *bits, uint64_t seed, int64_t entries, int threads) {
    RandomBits job = {bits, seed, entries};
    share_out(threads, groups_of(entries, BITS_PER_CALL), 1024, make_random_bits_share, &job);
}

/* Sizes and addresses of what is rotated: (B, H, T, K) by strides of b, h and t, in entries; the last stride is one. */
typedef struct {
    int64_t batch, heads, length, width, strides[3];
    const void *x;
    Rotation rotation;
    int64_t back; /* 1 turns the other way */
    int64_t is_float32, threads;
} Rotating;

/* Up to a vector of entries from `at` on of all heads of one position. */
INLINE void rotate_entries(const Rotating *w, void *output, int64_t row, int64_t at, int64_t count, int is_float32) {
    int64_t b = row / w->length, t = row % w->length;
    Angles by = angles_of(&w->rotation, position_of(&w->rotation, b, t, w->length), w->width, at, count, w->back);
    for (int64_t h = 0; h < w->heads; h++) {
        int64_t from = b * w->strides[0] + h * w->strides[1] + t * w->strides[2] + at;
        vec pairs = {0};
        if (count == LANES)
            pairs = load_vec(w->x, from, is_float32);
        else
            for (int i = 0; i < count; i++) pairs[i] = load(w->x, from + i, is_float32);
        store_vec(output, (row * w->heads + h) * w->width + at, rotated(pairs, by), count, is_float32);
    }
}

INLINE void rotate_row(const Rotating *w, void *output, int64_t row, int is_float32) {
    int64_t at = 0;
    for (; at + LANES <= w->width; at += LANES) rotate_entries(w, output, row, at, LANES, is_float32);
    if (at < w->width) rotate_entries(w, output, row, at, w->width - at, is_float32);
}

typedef struct {
    const Rotating *turning;
    void *output;
} RotatingJob;

static void rotate_share(const void *job, int64_t row, int64_t thread) {
    const RotatingJob *j = job;
    (void)thread;
    if (j->turning->is_float32)
        rotate_row(j->turning, j->output, row, 1);
    else
        rotate_row(j->turning, j->output, row, 0);
}

/* Twin: kernels/rotary.py, rotate_reference. `output` is (B, T, H, K). Returns 0, or INDEX_ERROR for a position that the tables lack. */
int rotate(const Rotating *w, void *output) {
    if (!has_positions(&w->rotation, w->batch, w->length)) return INDEX_ERROR;
    RotatingJob job = {w, output};
    int64_t rows = w->batch * w->length;
    share_out(w->threads, rows, groups_of(rows, w->threads), rotate_share, &job);
    return 0;
}

INLINE void smoothed_softmax_row(void *logits, int64_t vocab, int64_t target, float smoothing, float *loss,
                                 float *likelihood, float *row, int is_float32) {
    float largest = -INFINITY, total = 0.0f, sum = 0.0f;
#pragma omp simd reduction(max : largest) reduction(+ : sum)
    for (int64_t v = 0; v < vocab; v++) {
        row[v] = load(logits, v, is_float32);
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
    for (int64_t v = 0; v < vocab; v++) store(logits, v, row[v] * share - floor, is_float32);
}

typedef struct {
    void *logits;
    const int64_t *targets;
    int64_t vocab;
    float smoothing, *loss, *likelihood;
    int is_float32;
    float *scratch;
    int64_t per_thread; /* numbers of it for each thread */
} Smoothing;

static void smoothed_softmax_share(const void *job, int64_t r, int64_t thread) {
    const Smoothing *s = job;
    void *own = (void *)entry(s->logits, r * s->vocab, s->is_float32);
    float *row = s->scratch + s->per_thread * thread, *loss = s->loss + r, *likelihood = s->likelihood + r;
    if (s->is_float32)
        smoothed_softmax_row(own, s->vocab, s->targets[r], s->smoothing, loss, likelihood, row, 1);
    else
        smoothed_softmax_row(own, s->vocab, s->targets[r], s->smoothing, loss, likelihood, row, 0);
}

/* Twin: kernels/cross_entropy.py, smoothed_softmax_reference. In place: (rows, vocab) logits to the gradient of the smoothed loss;
 * `loss` and `likelihood` are (rows). Returns 0, NO_MEMORY, or INDEX_ERROR for a target that is no entry of a row. */
int smoothed_softmax(void *logits, const int64_t *targets, int64_t rows, int64_t vocab, float smoothing, float *loss,
                     float *likelihood, int is_float32, int threads) {
    if (!are_inside(targets, rows, vocab)) return INDEX_ERROR;
    int64_t per_thread = padded(vocab);
    float *scratch = aligned_alloc(64, sizeof(float) * per_thread * threads);
    if (!scratch) return NO_MEMORY;
    Smoothing job = {logits, targets, vocab, smoothing, loss, likelihood, is_float32, scratch, per_thread};
    share_out(threads, rows, 16, smoothed_softmax_share, &job);
    free(scratch);
    return 0;
}
