/* One update of all parameters by AdamW (Loshchilov and Hutter 2019, algorithm 2), with all that follows from it, in one
 * pass over memory: their moving average, and the copy in bfloat16 that the model computes with.
 *
 * Twin: native/adamw.py, _by_torch. Sums are made of fixed parts, so that no number of threads changes a bit of them.
 */
#include "tensors.h"

/* Numbers of one part: a share of work, and of a sum. */
#define PART 4096

/* Addresses of `entries` numbers each, and the numbers of one update. */
typedef struct {
    float *weights, *first, *second;
    float *average;   /* may be null */
    uint16_t *copy;   /* may be null */
    const void *gradient;
    int64_t entries;
    float share;      /* of the gradient that counts, after clipping and division */
    float kept;       /* of a weight, after decay */
    float beta1, beta2, epsilon;
    float rate, root; /* learning rate and second moment, corrected for young moments: over 1 - beta1^n, over the root of
                         1 - beta2^n */
    float fresh;      /* share of the new weights in their average */
    int64_t wide, threads;
} Update;

INLINE void update_vec(const Update *u, int64_t at, int64_t count, int wide) {
    vec gradient = {0}, first = {0}, second = {0}, weights = {0}, roots;
    if (count == LANES)
        gradient = load_vec(u->gradient, at, wide);
    else
        for (int64_t i = 0; i < count; i++) gradient[i] = load(u->gradient, at + i, wide);
    memcpy(&first, u->first + at, sizeof(float) * count);
    memcpy(&second, u->second + at, sizeof(float) * count);
    memcpy(&weights, u->weights + at, sizeof(float) * count);
    gradient *= u->share;
    first += (1.0f - u->beta1) * (gradient - first);
    second = u->beta2 * second + (1.0f - u->beta2) * gradient * gradient;
#pragma omp simd
    for (int i = 0; i < LANES; i++) roots[i] = sqrtf(second[i]);
    weights = u->kept * weights - u->rate * first / (roots / u->root + u->epsilon);
    memcpy(u->first + at, &first, sizeof(float) * count);
    memcpy(u->second + at, &second, sizeof(float) * count);
    memcpy(u->weights + at, &weights, sizeof(float) * count);
    if (u->average) {
        vec average = {0};
        memcpy(&average, u->average + at, sizeof(float) * count);
        average += u->fresh * (weights - average);
        memcpy(u->average + at, &average, sizeof(float) * count);
    }
    if (u->copy) {
        /* as PyTorch rounds, the smallest numbers too: a run that goes on has its copy from there */
        narrow_vec copy = __builtin_convertvector((ivec)as_narrow(weights) >> 16, narrow_vec);
        memcpy(u->copy + at, &copy, sizeof(uint16_t) * count);
    }
}

INLINE void update_part(const Update *u, int64_t from, int wide) {
    int64_t end = from + PART < u->entries ? from + PART : u->entries, at = from;
    for (; at + LANES <= end; at += LANES) update_vec(u, at, LANES, wide);
    if (at < end) update_vec(u, at, end - at, wide);
}

void adamw(const Update *u) {
#pragma omp parallel for schedule(static) num_threads(u->threads)
    for (int64_t from = 0; from < u->entries; from += PART) {
        if (u->wide)
            update_part(u, from, 1);
        else
            update_part(u, from, 0);
    }
}

INLINE double squares_of_part(const void *x, int64_t from, int64_t entries, int wide) {
    int64_t end = from + PART < entries ? from + PART : entries, at = from;
    vec sums[4] = {{0}};
    for (; at + 4 * LANES <= end; at += 4 * LANES)
        for (int i = 0; i < 4; i++) {
            vec values = load_vec(x, at + i * LANES, wide);
            sums[i] += values * values;
        }
    double sum = lane_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; at < end; at++) sum += (double)load(x, at, wide) * load(x, at, wide);
    return sum;
}

/* Twin: torch.linalg.vector_norm. `sums` has room for one number a part; returns the sum of the squares of all entries. */
double sum_of_squares(const void *x, int64_t entries, double *sums, int wide, int threads) {
    double sum = 0.0;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t from = 0; from < entries; from += PART)
        sums[from / PART] = wide ? squares_of_part(x, from, entries, 1) : squares_of_part(x, from, entries, 0);
    for (int64_t part = 0; part * PART < entries; part++) sum += sums[part];
    return sum;
}
