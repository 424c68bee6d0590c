/* The gradient of the vocabulary's loss with probabilities that are sampled: each is rounded, up or down by chance, to a
 * whole number of shares of its row, so that nearly all are zero and the mean is the probability itself. Products with
 * such a gradient add up the few rows that are left.
 *
 * Tensors are bfloat16, or float32 where `is_float32`; sums are float32, in an order that the number of threads does not change.
 */
#include "indices.h"
#include "tensors.h"
#include "threads.h"

#include <stdlib.h>

/* Vectors of a row that are summed at once. */
#define SUMS (REGISTERS / 4)

/* A sparse matrix (rows, vocabulary); an entry may be there twice, and then counts twice. */
typedef struct {
    int64_t rows, capacity; /* entries that a row may have */
    int64_t samples;    /* shares of a row, 128 at most */
    int32_t *entries;   /* (rows, capacity) */
    int32_t *counts;    /* (rows): entries that a row has */
    float *shares;      /* (rows, capacity) */
} SampledGradient;

/* The largest of a row of logits, and their sum. Two of each, so that one need not wait for the other. */
INLINE float largest_logit(const void *logits, int64_t vocab, float *sum, int is_float32) {
    vec largest[2] = {(vec){0} - INFINITY, (vec){0} - INFINITY}, totals[2] = {{0}};
    int64_t at = 0;
    for (; at + 2 * LANES <= vocab; at += 2 * LANES)
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            vec values = load_vec(logits, at + i * LANES, is_float32);
            largest[i] = larger(values, largest[i]), totals[i] += values;
        }
    float most = largest_lane(larger(largest[0], largest[1])), total = lane_sum(totals[0] + totals[1]);
    for (; at < vocab; at++) {
        float logit = load(logits, at, is_float32);
        most = logit > most ? logit : most, total += logit;
    }
    *sum = total;
    return most;
}

/* A vector of logits from `at` on, with minus infinity after the last. */
INLINE vec logits_at(const void *logits, int64_t at, int64_t vocab, int is_float32) {
    vec values = (vec){0} - INFINITY;
    if (at + LANES <= vocab) return load_vec(logits, at, is_float32);
    for (int i = 0; i < vocab - at; i++) values[i] = load(logits, at + i, is_float32);
    return values;
}

/* Exponentials of logits less the largest, and zeros after them; returns the sum of each lane. */
INLINE vec exponential_line(float *line, const void *logits, int64_t vocab, float largest, int is_float32) {
    vec totals = {0};
    for (int64_t at = 0; at < padded(vocab); at += LANES) {
        vec powers = logits_at(logits, at, vocab, is_float32) - largest;
#pragma omp simd
        for (int i = 0; i < LANES; i++) powers[i] = exponential(powers[i]);
        *(vec *)(line + at) = powers, totals += powers;
    }
    return totals;
}

/* Entries of a row next to each other, and how many shares fall to each; there is memory for a vector after the last. */
typedef struct {
    int32_t *entries, *shares;
    int64_t count;
} Samples;

/* Those of a vector of shares that are not zero; `at` is the first entry. */
INLINE void find_shares(Samples *samples, int64_t at, ivec shares) {
    int32_t *entries = samples->entries + samples->count, *there = samples->shares + samples->count;
#if LANES == 16
    __mmask16 marked = _mm512_test_epi32_mask((__m512i)shares, (__m512i)shares);
    _mm512_storeu_si512(entries, _mm512_maskz_compress_epi32(marked, (__m512i)(LANE_NUMBERS + (int32_t)at)));
    _mm512_storeu_si512(there, _mm512_maskz_compress_epi32(marked, (__m512i)shares));
    samples->count += __builtin_popcount(marked);
#else
    byte_vec bytes = __builtin_convertvector(shares, byte_vec), none = {0};
    if (!memcmp(&bytes, &none, sizeof none)) return;
    int count = 0;
    for (int i = 0; i < LANES; i++) entries[count] = (int32_t)at + i, there[count] = shares[i], count += shares[i] != 0;
    samples->count += count;
#endif
}

/* How many whole numbers each entry passes when `scale` times the entries are laid end to end from `offset` on: those of
 * the first lane, then those of the second and so on. */
INLINE void sample_entries(Samples *samples, const float *line, int64_t end, vec totals, float scale, float offset) {
    vec reached;
    for (int i = 0; i < LANES; i++) reached[i] = offset, offset += totals[i] * scale;
    ivec passed = __builtin_convertvector(reached, ivec);
    for (int64_t at = 0; at < end; at += LANES) {
        reached += *(const vec *)(line + at) * scale;
        ivec now = __builtin_convertvector(reached, ivec);
        find_shares(samples, at, now - passed);
        passed = now;
    }
}

INLINE void sample_row(const SampledGradient *d, int64_t row, const void *logits, int64_t target, float offset, int64_t vocab,
                     float smoothing, float *loss, float *likelihood, float *line, int is_float32) {
    int64_t end = padded(vocab);
    float sum, largest = largest_logit(logits, vocab, &sum, is_float32), right = load(logits, target, is_float32) - largest;
    vec totals = exponential_line(line, logits, vocab, largest, is_float32);
    float total = lane_sum(totals), normalizer = logf(total);
    /* sum is not finite where a logit is not, which the largest alone might hide */
    *likelihood = normalizer - right + (sum - sum);
    *loss = (1.0f - smoothing) * *likelihood + smoothing * (normalizer + (largest - sum / (float)vocab));
    int32_t *entries = d->entries + row * d->capacity;
    float *shares = d->shares + row * d->capacity;
    /* what is no number reaches all that is made of the row */
    entries[0] = (int32_t)target, shares[0] = smoothing - 1.0f + (*likelihood - *likelihood), d->counts[row] = 1;
    if (!isfinite(*likelihood)) return;
    int32_t *space = (int32_t *)(line + end);
    Samples samples = {space, space + d->capacity + LANES, 0};
    sample_entries(&samples, line, end, totals, (float)d->samples / total, offset);
    memcpy(entries + 1, samples.entries, sizeof *entries * samples.count);
    for (int64_t e = 0; e < samples.count; e++) shares[1 + e] = (float)samples.shares[e] / (float)d->samples;
    d->counts[row] = (int32_t)(1 + samples.count);
}

typedef struct {
    const SampledGradient *sampled;
    const void *logits;
    const int64_t *targets;
    const float *offsets;
    int64_t vocab;
    float smoothing, *loss, *likelihood;
    int is_float32;
    float *scratch;
    int64_t per_thread; /* numbers of it for each thread */
} Sampling;

static void sample_share(const void *job, int64_t r, int64_t thread) {
    const Sampling *j = job;
    const void *from = entry(j->logits, r * j->vocab, j->is_float32);
    float *line = j->scratch + j->per_thread * thread, *loss = j->loss + r, *likelihood = j->likelihood + r;
    if (j->is_float32)
        sample_row(j->sampled, r, from, j->targets[r], j->offsets[r], j->vocab, j->smoothing, loss, likelihood, line, 1);
    else
        sample_row(j->sampled, r, from, j->targets[r], j->offsets[r], j->vocab, j->smoothing, loss, likelihood, line, 0);
}

/* Twin: kernels/sampled_gradient.py, sampled_softmax. Of (rows, vocab) logits: their probabilities, sampled from one of `offsets`
 * a row (systematic sampling, Madow 1949), less 1 - `smoothing` at the target; `loss` and `likelihood` are (rows). Returns
 * 0, NO_MEMORY, or INDEX_ERROR for a target that is no entry of a row. */
int sampled_softmax(const SampledGradient *d, const void *logits, const int64_t *targets, const float *offsets, int64_t vocab,
                  float smoothing, float *loss, float *likelihood, int is_float32, int threads) {
    if (!are_inside(targets, d->rows, vocab)) return INDEX_ERROR;
    int64_t per_thread = padded(padded(vocab) + 2 * (d->capacity + LANES));
    float *scratch = aligned_alloc(64, sizeof(float) * per_thread * threads);
    if (!scratch) return NO_MEMORY;
    Sampling job = {d, logits, targets, offsets, vocab, smoothing, loss, likelihood, is_float32, scratch, per_thread};
    share_out(threads, d->rows, 16, sample_share, &job);
    free(scratch);
    return 0;
}

/* Rows of a matrix, each so many times, added to `sums`, a part of a row of `vectors`, a constant where this is used. */
INLINE void add_part(vec *sums, const int32_t *rows, const float *shares, int64_t count, const void *matrix,
                     int64_t width, int64_t at, int is_float32, const int vectors) {
    for (int64_t e = 0; e < count; e++)
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++) sums[i] += shares[e] * load_vec(matrix, rows[e] * width + at + i * LANES, is_float32);
}

/* to (width) = begin + the sum of shares[e] times the row rows[e] of a matrix. */
INLINE void add_rows(void *to, const float *begin, const int32_t *rows, const float *shares, int64_t count,
                     const void *matrix, int64_t width, int is_float32, int is_float32_result) {
    int64_t at = 0;
    for (; at + SUMS * LANES <= width; at += SUMS * LANES) {
        vec sums[SUMS];
        memcpy(sums, begin + at, sizeof sums);
        add_part(sums, rows, shares, count, matrix, width, at, is_float32, SUMS);
#pragma GCC unroll 8
        for (int i = 0; i < SUMS; i++) store_vec(to, at + i * LANES, sums[i], LANES, is_float32_result);
    }
    for (; at + LANES <= width; at += LANES) {
        vec sum;
        memcpy(&sum, begin + at, sizeof sum);
        add_part(&sum, rows, shares, count, matrix, width, at, is_float32, 1);
        store_vec(to, at, sum, LANES, is_float32_result);
    }
    for (; at < width; at++) {
        float sum = begin[at];
        for (int64_t e = 0; e < count; e++) sum += shares[e] * load(matrix, rows[e] * width + at, is_float32);
        store(to, at, sum, is_float32_result);
    }
}

/* Whether each entry that the rows have is one of the vocabulary. */
static int has_entries_inside(const SampledGradient *d, int64_t vocab) {
    for (int64_t r = 0; r < d->rows; r++) {
        const int32_t *entries = d->entries + r * d->capacity;
        if (d->counts[r] < 0 || d->counts[r] > d->capacity) return 0;
        int outside = 0;
        for (int32_t e = 0; e < d->counts[r]; e++) outside |= entries[e] < 0 || entries[e] >= vocab;
        if (outside) return 0;
    }
    return 1;
}

typedef struct {
    const SampledGradient *sampled;
    void *to;
    const void *weight;
    const float *begin;
    int64_t width;
    int is_float32;
} HiddenJob;

static void hidden_share(const void *job, int64_t r, int64_t thread) {
    const HiddenJob *j = job;
    const SampledGradient *d = j->sampled;
    const int32_t *entries = d->entries + r * d->capacity;
    const float *shares = d->shares + r * d->capacity;
    void *there = (void *)entry(j->to, r * j->width, j->is_float32);
    (void)thread;
    if (j->is_float32)
        add_rows(there, j->begin, entries, shares, d->counts[r], j->weight, j->width, 1, 1);
    else
        add_rows(there, j->begin, entries, shares, d->counts[r], j->weight, j->width, 0, 0);
}

/* to (rows, width) = `begin` (width) in each row + the sampled matrix times weight (vocabulary, width). Returns 0, or INDEX_ERROR
 * for an entry that the vocabulary lacks. */
int sampled_grad_hidden(const SampledGradient *d, void *to, const void *weight, const float *begin, int64_t vocab, int64_t width,
                    int is_float32, int threads) {
    if (!has_entries_inside(d, vocab)) return INDEX_ERROR;
    HiddenJob job = {d, to, weight, begin, width, is_float32};
    share_out(threads, d->rows, 16, hidden_share, &job);
    return 0;
}

/* The sampled matrix by columns. */
typedef struct {
    int32_t *begins; /* (vocabulary + 1) */
    int32_t *rows;   /* of the entries of the first column, from the first row on, then of those of the second ... */
    float *shares;
} Columns;

static void sort_by_columns(const Columns *c, const SampledGradient *d, int64_t vocab) {
    memset(c->begins, 0, sizeof *c->begins * (vocab + 1));
    for (int64_t r = 0; r < d->rows; r++)
        for (int64_t e = 0; e < d->counts[r]; e++) c->begins[d->entries[r * d->capacity + e]]++;
    for (int64_t v = 0, sum = 0; v <= vocab; v++) {
        sum += c->begins[v];
        c->begins[v] = (int32_t)sum;
    }
    /* from the end, so that each column's end becomes its beginning */
    for (int64_t r = d->rows - 1; r >= 0; r--)
        for (int64_t e = d->counts[r] - 1; e >= 0; e--) {
            int32_t at = --c->begins[d->entries[r * d->capacity + e]];
            c->rows[at] = (int32_t)r, c->shares[at] = d->shares[r * d->capacity + e];
        }
}

typedef struct {
    const Columns *columns;
    float *to;
    const void *hidden;
    int64_t width;
    int is_float32;
} WeightJob;

static void weight_share(const void *job, int64_t v, int64_t thread) {
    const WeightJob *j = job;
    int32_t begin = j->columns->begins[v], count = j->columns->begins[v + 1] - begin;
    const int32_t *rows = j->columns->rows + begin;
    const float *shares = j->columns->shares + begin;
    float *there = j->to + v * j->width;
    (void)thread;
    if (!count) return;
    if (j->is_float32)
        add_rows(there, there, rows, shares, count, j->hidden, j->width, 1, 1);
    else
        add_rows(there, there, rows, shares, count, j->hidden, j->width, 0, 1);
}

/* to (vocabulary, width), in float32, += the sampled matrix transposed times hidden (rows, width). Returns 0, NO_MEMORY, or
 * INDEX_ERROR for an entry that the vocabulary lacks. */
int sampled_grad_weight(const SampledGradient *d, float *to, const void *hidden, int64_t vocab, int64_t width, int is_float32, int threads) {
    if (!has_entries_inside(d, vocab)) return INDEX_ERROR;
    int64_t most = d->rows * d->capacity;
    int32_t *scratch = malloc(sizeof *scratch * (vocab + 1 + 2 * most));
    if (!scratch) return NO_MEMORY;
    Columns columns = {scratch, scratch + vocab + 1, (float *)(scratch + vocab + 1 + most)};
    sort_by_columns(&columns, d, vocab);
    WeightJob job = {&columns, to, hidden, width, is_float32};
    share_out(threads, vocab, 64, weight_share, &job);
    free(scratch);
    return 0;
}
