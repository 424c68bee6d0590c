/* What decoding asks of the logits of a row: its largest entries, and how to make log-probabilities.
 * Every row has one order of sums.
 */
#ifndef DIKKAT_RANKING_H
#define DIKKAT_RANKING_H

#include "vectors.h"

/* Entries that are looked at one by one only if the largest of them can enter. */
#define BLOCK 64
/* Exponentials that are summed in float32, before their sum is added in float64. */
#define RANKED_CHUNK 1024

/* The largest, of which what is no number is none; four maxima, so that one need not wait for the other. */
INLINE float largest_entry(const float *x, int64_t count) {
    vec maxima[4];
    int64_t at = 0;
    for (int i = 0; i < 4; i++) maxima[i] = (vec){0} - INFINITY;
    for (; at + 4 * LANES <= count; at += 4 * LANES)
        for (int i = 0; i < 4; i++) maxima[i] = larger(*(const loose *)(x + at + i * LANES), maxima[i]);
    float largest = largest_lane(larger(larger(maxima[0], maxima[1]), larger(maxima[2], maxima[3])));
    for (; at < count; at++) largest = x[at] > largest ? x[at] : largest;
    return largest;
}

/* Puts an entry where it ranks, after its equals; the last of `k` falls out. */
INLINE int64_t enter(float *largest, int64_t *indices, int64_t held, int64_t k, float entry, int64_t index) {
    int64_t at = held < k ? held++ : k - 1;
    for (; at > 0 && largest[at - 1] < entry; at--) largest[at] = largest[at - 1], indices[at] = indices[at - 1];
    largest[at] = entry, indices[at] = index;
    return held;
}

static void top_of_row(const float *row, int64_t width, int64_t k, float *largest, int64_t *indices) {
    int64_t held = 0;
    for (int64_t start = 0; start < width; start += BLOCK) {
        int64_t end = smaller_of(start + BLOCK, width);
        if (held == k && largest_entry(row + start, end - start) <= largest[k - 1]) continue;
        for (int64_t i = start; i < end; i++)
            if (held < k || row[i] > largest[k - 1]) held = enter(largest, indices, held, k, row[i], i);
    }
}

/* The logarithm of the sum of exp(entry - largest). */
static float log_sum_of_row(const float *row, int64_t width, float largest) {
    double sum = 0.0;
    for (int64_t start = 0; start < width; start += RANKED_CHUNK) {
        int64_t end = smaller_of(start + RANKED_CHUNK, width);
        float part = 0.0f;
#pragma omp simd reduction(+ : part)
        for (int64_t i = start; i < end; i++) part += exponential(row[i] - largest);
        sum += part;
    }
    return (float)log(sum);
}

/* The same, with the entropy of the row. */
static float log_sum_and_entropy(const float *row, int64_t width, float largest, float *entropy) {
    double sum = 0.0, weighted = 0.0;
    for (int64_t start = 0; start < width; start += RANKED_CHUNK) {
        int64_t end = smaller_of(start + RANKED_CHUNK, width);
        float part = 0.0f, weighted_part = 0.0f;
#pragma omp simd reduction(+ : part, weighted_part)
        for (int64_t i = start; i < end; i++) {
            float far = row[i] - largest, power = exponential(far);
            part += power, weighted_part += power * far;
        }
        sum += part, weighted += weighted_part;
    }
    *entropy = (float)(log(sum) - weighted / sum);
    return (float)log(sum);
}

/* log(x) to about one part in 2^22 for x > 0 that are no smaller than FLT_MIN: e log(2) and the series of atanh for the rest,
 * which lies within a factor of sqrt(2) of one. */
INLINE float logarithm(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    int32_t power = (int32_t)(bits - 0x3f3504f3u) >> 23;
    bits -= (uint32_t)power << 23;
    memcpy(&x, &bits, 4);
    float t = (x - 1.0f) / (x + 1.0f), square = t * t;
    float series = 1.0f / 9.0f * square + 1.0f / 7.0f;
    series = series * square + 1.0f / 5.0f;
    series = series * square + 1.0f / 3.0f;
    return 2.0f * t * (series * square + 1.0f) + (float)power * 0.69314718056f;
}

/* The entropy of a row of probabilities, all `share` times what stands there. */
static float entropy_of_probabilities(const float *row, int64_t width, float share) {
    double sum = 0.0;
    for (int64_t start = 0; start < width; start += RANKED_CHUNK) {
        int64_t end = smaller_of(start + RANKED_CHUNK, width);
        float part = 0.0f;
#pragma omp simd reduction(+ : part)
        for (int64_t i = start; i < end; i++) {
            float p = row[i] * share;
            part -= p * logarithm(p < FLT_MIN ? FLT_MIN : p);
        }
        sum += part;
    }
    return (float)sum;
}

/* In place: exp(entry - largest); returns their sum. */
INLINE float exponentials_of_row(float *row, int64_t width, float largest) {
    double sum = 0.0;
    for (int64_t start = 0; start < width; start += RANKED_CHUNK) {
        int64_t end = smaller_of(start + RANKED_CHUNK, width);
        float part = 0.0f;
#pragma omp simd reduction(+ : part)
        for (int64_t i = start; i < end; i++) part += row[i] = exponential(row[i] - largest);
        sum += part;
    }
    return (float)sum;
}

#endif
