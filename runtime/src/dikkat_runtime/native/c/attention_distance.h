/* What the distance of a key from a query adds to their score: a number of its bucket, or products with vectors. */
#ifndef DIKKAT_ATTENTION_DISTANCE_H
#define DIKKAT_ATTENTION_DISTANCE_H

#include "attention.h"
#include "products.h"

/* Of T5 and MPNet: buckets, half of them for keys after the query, and the distance that the last ones reach. */
#define BUCKETS 32
#define BUCKETS_REACH 128

/* Of one head: the row of each distance, from that of the first key to the last query on; the vectors that queries are multiplied
 * with, transposed; and the products of `block` queries and of all keys with theirs. */
typedef struct {
    float *vectors, *keys, *by_query, *by_key;
    int32_t *rows;
} Distances;

INLINE int has_distances(const Attention *a) { return a->distance_bias || a->distance_key; }

/* Divides `memory` into its buffers; returns the numbers that they have together. */
INLINE int64_t lay_out_distances(const Attention *a, int64_t block, float *memory, Distances *d) {
    int64_t width = padded(a->width), vectors = a->distance_key ? padded(2 * a->distance_span) : 0, size = 0;
    if (!has_distances(a)) return 0;
    d->vectors = memory + size, size += a->width * vectors;
    d->keys = memory + size, size += vectors ? a->keys * width : 0;
    d->by_query = memory + size, size += block * vectors;
    d->by_key = memory + size, size += a->keys * vectors;
    d->rows = (int32_t *)(memory + size), size += padded(2 * a->keys);
    return size;
}

/* How many of `steps` logarithmic ones lie between `least` and `size`; `most` is all of them. */
INLINE double logarithmic(int64_t size, int64_t least, int64_t most, int64_t steps) {
    return log((double)size / least) / log((double)most / least) * steps;
}

/* Raffel et al. (2020, section 2.1); twin: nn/relative.py, distance_buckets. `away` is the key minus the query; with `is_causal` keys
 * after the query, which are never seen, have no buckets. */
INLINE int64_t bucket_of(int64_t away, int64_t is_causal) {
    int64_t half = is_causal ? BUCKETS : BUCKETS / 2, exact = half / 2, later = away > 0 && !is_causal ? half : 0;
    int64_t size = away < 0 ? -away : is_causal ? 0 : away;
    if (size < exact) return later + size;
    /* a power of the step must not fall into the bucket below */
    int64_t far = exact + (int64_t)(logarithmic(size, exact, BUCKETS_REACH, half - exact) + 1e-9);
    return later + (far < half ? far : half - 1);
}

/* He et al. (2021); twin: nn/scorers.py, DisentangledScore. `away` is the query minus the key. */
INLINE int64_t vector_of(const Attention *a, int64_t away) {
    int64_t span = a->distance_span, middle = span / 2, size = away < 0 ? -away : away;
    if (a->distance_reach && size > middle) {
        size = middle + (int64_t)ceil(logarithmic(size, middle, a->distance_reach - 1, middle - 1) - 1e-9);
        away = away < 0 ? -size : size;
    }
    int64_t row = away + span;
    return row < 0 ? 0 : row < 2 * span ? row : 2 * span - 1;
}

/* The vectors (2 span, K) of a head, transposed. */
INLINE void load_vectors(const Attention *a, float *to, const float *table, int64_t h) {
    load_columns(to, table + h * 2 * a->distance_span * a->width, 2 * a->distance_span, a->width, a->width, 1);
}

/* For the head `h` of the text `b`. */
INLINE void begin_distances(const Attention *a, Distances *d, int64_t b, int64_t h) {
    if (!has_distances(a)) return;
    for (int64_t away = 1 - a->keys; away < a->keys; away++)
        d->rows[away + a->keys - 1] = (int32_t)(a->distance_bias ? bucket_of(away, a->distance_is_causal) : vector_of(a, -away));
    if (!a->distance_key) return;
    int64_t vectors = padded(2 * a->distance_span), width = padded(a->width);
    load_vectors(a, d->vectors, a->distance_query, h);
    load_rows(d->keys, entry(a->key, head_offset(a->key_strides, b, h), 1), a->keys, a->width, a->key_strides[2], 1);
    rows_times_matrix(d->by_key, vectors, d->keys, width, 1, d->vectors, a->width, vectors, vectors, a->keys);
    load_vectors(a, d->vectors, a->distance_key, h);
}

/* In place: `scores` of the `count` queries from `first` on and the keys they see, times beta, with what distances add. Queries are
 * the last of the positions of the keys. */
INLINE void add_distances(const Attention *a, const Distances *d, float *scores, const float *query, int64_t h, int64_t first,
                          int64_t count, int64_t visible) {
    int64_t vectors = padded(2 * a->distance_span);
    if (a->distance_key)
        rows_times_matrix(d->by_query, vectors, query, padded(a->width), 1, d->vectors, a->width, vectors, vectors, count);
    for (int64_t t = 0; t < count; t++, scores += padded(a->keys)) {
        const int32_t *row = d->rows + a->queries - 1 - (first + t);
        for (int64_t s = 0; a->distance_bias && s < visible; s++)
            scores[s] = scores[s] * a->beta + a->distance_bias[row[s] * a->heads + h];
        for (int64_t s = 0; a->distance_key && s < visible; s++)
            scores[s] = (scores[s] + d->by_query[t * vectors + row[s]] + d->by_key[s * vectors + row[s]]) * a->beta;
    }
}

#endif
