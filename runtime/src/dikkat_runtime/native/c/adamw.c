/* One update of all parameters by AdamW (Loshchilov and Hutter 2019, algorithm 2), with all that follows from it, in one
 * pass over memory: their moving average, and the copy in bfloat16 that the model computes with.
 *
 * Twin: tests/unit/kernels/test_adamw.py, adamw_of_the_paper. Sums are made of fixed parts, so that no number of threads
 * changes a bit of them.
 */
#include "tensors.h"
#include "threads.h"

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
    int64_t is_float32, threads;
} Update;

INLINE void update_vec(const Update *u, int64_t at, int64_t count, int is_float32) {
    vec gradient = {0}, first = {0}, second = {0}, weights = {0}, roots;
    if (count == LANES)
        gradient = load_vec(u->gradient, at, is_float32);
    else
        for (int64_t i = 0; i < count; i++) gradient[i] = load(u->gradient, at + i, is_float32);
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
        bf16_vec copy = __builtin_convertvector((ivec)rounded_to_bf16(weights) >> 16, bf16_vec);
        memcpy(u->copy + at, &copy, sizeof(uint16_t) * count);
    }
}

INLINE void update_part(const Update *u, int64_t from, int is_float32) {
    int64_t end = from + PART < u->entries ? from + PART : u->entries, at = from;
    for (; at + LANES <= end; at += LANES) update_vec(u, at, LANES, is_float32);
    if (at < end) update_vec(u, at, end - at, is_float32);
}

static void update_share(const void *job, int64_t part, int64_t thread) {
    const Update *u = job;
    (void)thread;
    if (u->is_float32)
        update_part(u, part * PART, 1);
    else
        update_part(u, part * PART, 0);
}

void adamw(const Update *u) { share_out(u->threads, groups_of(u->entries, PART), 1, update_share, u); }

INLINE double squares_of_part(const void *x, int64_t from, int64_t entries, int is_float32) {
    int64_t end = from + PART < entries ? from + PART : entries, at = from;
    vec sums[4] = {{0}};
    for (; at + 4 * LANES <= end; at += 4 * LANES)
        for (int i = 0; i < 4; i++) {
            vec values = load_vec(x, at + i * LANES, is_float32);
            sums[i] += values * values;
        }
    double sum = lane_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; at < end; at++) sum += (double)load(x, at, is_float32) * load(x, at, is_float32);
    return sum;
}

typedef struct {
    const void *x;
    int64_t entries;
    double *sums;
    int is_float32;
} Squares;

static void square_share(const void *job, int64_t part, int64_t thread) {
    const Squares *s = job;
    (void)thread;
    s->sums[part] =
        s->is_float32 ? squares_of_part(s->x, part * PART, s->entries, 1) : squares_of_part(s->x, part * PART, s->entries, 0);
}

/* Twin: torch.linalg.vector_norm. `sums` holds one number a part; returns the sum of the squares of all entries. */
double sum_of_squares(const void *x, int64_t entries, double *sums, int is_float32, int threads) {
    double sum = 0.0;
    Squares squares = {x, entries, sums, is_float32};
    share_out(threads, groups_of(entries, PART), 1, square_share, &squares);
    for (int64_t part = 0; part * PART < entries; part++) sum += sums[part];
    return sum;
}
