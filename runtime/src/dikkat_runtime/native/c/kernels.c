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
#include "threads.h"

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

/* Draws that one thread makes before it takes the next ones. */
#define DRAWS_TOGETHER (1024 * DRAWS)

typedef struct {
    void *output;
    const void *rest, *x;
    uint64_t seed;
    int32_t threshold;
    float scale;
    int64_t entries;
    int wide;
} Dropout;

INLINE void add_dropped_as(const Dropout *d, const void *rest, int64_t begin, int wide) {
    int64_t end = smaller_of(begin + DRAWS_TOGETHER, d->entries);
    for (int64_t from = begin; from < end; from += DRAWS) {
        int16_t levels[DRAWS];
        draw(levels, d->seed, from);
        for (int64_t i = 0, at = from; i < DRAWS && at < end; i += LANES, at += LANES) {
            if (at + LANES <= end)
                add_dropped_vec(d->output, rest, d->x, levels + i, d->threshold, d->scale, at, LANES, wide);
            else
                add_dropped_vec(d->output, rest, d->x, levels + i, d->threshold, d->scale, at, end - at, wide);
        }
    }
}

static void add_dropped_share(const void *job, int64_t index, int64_t thread) {
    const Dropout *d = job;
    int64_t begin = index * DRAWS_TOGETHER;
    (void)thread;
    if (d->wide && d->rest)
        add_dropped_as(d, d->rest, begin, 1);
    else if (d->wide)
        add_dropped_as(d, 0, begin, 1);
    else if (d->rest)
        add_dropped_as(d, d->rest, begin, 0);
    else
        add_dropped_as(d, 0, begin, 0);
}

/* Twin: nn/dropout.py, `rest + x * keep_mask`. output = rest + dropout(x); `rest` may be null. */
void add_dropped(void *output, const void *rest, const void *x, uint64_t seed, int64_t threshold, float scale,
                 int64_t entries, int wide, int threads) {
    Dropout job = {output, rest, x, seed, (int32_t)threshold, scale, entries, wide};
    share_out(threads, groups_of(entries, DRAWS_TOGETHER), 1, add_dropped_share, &job);
}

typedef struct {
    int16_t *levels;
    uint64_t seed;
    int64_t entries;
} Levels;

static void draw_levels_share(const void *job, int64_t index, int64_t thread) {
    const Levels *l = job;
    int64_t from = index * DRAWS;
    int16_t drawn[DRAWS];
    (void)thread;
    draw(drawn, l->seed, from);
    memcpy(l->levels + from, drawn, sizeof *drawn * smaller_of(DRAWS, l->entries - from));
}

/* Twin: nn/draws.py, `splitmix64`. The draws that `add_dropped` makes, written down. */
void draw_levels(int16_t *levels, uint64_t seed, int64_t entries, int threads) {
    Levels job = {levels, seed, entries};
    share_out(threads, groups_of(entries, DRAWS), 1024, draw_levels_share, &job);
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

typedef struct {
    const Turning *turning;
    void *output;
} TurningJob;

static void turn_share(const void *job, int64_t row, int64_t thread) {
    const TurningJob *j = job;
    (void)thread;
    if (j->turning->wide)
        turn_row(j->turning, j->output, row, 1);
    else
        turn_row(j->turning, j->output, row, 0);
}

/* Twin: nn/rotary.py, Rotation. `output` is (B, T, H, K). Returns 0, or OUTSIDE for a position that the tables lack. */
int turn(const Turning *w, void *output) {
    if (!has_positions(&w->rotation, w->batch, w->length)) return OUTSIDE;
    TurningJob job = {w, output};
    int64_t rows = w->batch * w->length;
    share_out(w->threads, rows, groups_of(rows, w->threads), turn_share, &job);
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

typedef struct {
    void *logits;
    const int64_t *targets;
    int64_t vocab;
    float smoothing, *loss, *likelihood;
    int wide;
    float *scratch;
    int64_t each; /* numbers of it for each thread */
} Smoothing;

static void smoothed_softmax_share(const void *job, int64_t r, int64_t thread) {
    const Smoothing *s = job;
    void *own = (void *)entry(s->logits, r * s->vocab, s->wide);
    float *row = s->scratch + s->each * thread, *loss = s->loss + r, *likelihood = s->likelihood + r;
    if (s->wide)
        smoothed_softmax_row(own, s->vocab, s->targets[r], s->smoothing, loss, likelihood, row, 1);
    else
        smoothed_softmax_row(own, s->vocab, s->targets[r], s->smoothing, loss, likelihood, row, 0);
}

/* Twin: training/exact_chunks.py, smoothed_softmax. In place: (rows, vocab) logits to the gradient of the smoothed loss;
 * `loss` and `likelihood` are (rows). Returns 0, NO_MEMORY, or OUTSIDE for a target that is no entry of a row. */
int smoothed_softmax(void *logits, const int64_t *targets, int64_t rows, int64_t vocab, float smoothing, float *loss,
                     float *likelihood, int wide, int threads) {
    if (!are_inside(targets, rows, vocab)) return OUTSIDE;
    int64_t each = padded(vocab);
    float *scratch = aligned_alloc(64, sizeof(float) * each * threads);
    if (!scratch) return NO_MEMORY;
    Smoothing job = {logits, targets, vocab, smoothing, loss, likelihood, wide, scratch, each};
    share_out(threads, rows, 16, smoothed_softmax_share, &job);
    free(scratch);
    return 0;
}
