/* What attention in vectors and in tiles share: sizes and addresses, masks, dropout, rotation. */
#ifndef DIKKAT_ATTENTION_H
#define DIKKAT_ATTENTION_H

#include "rotation.h"
#include "tensors.h"
#include "threads.h"
#include "tiles.h"

#include <stdlib.h>

/* Most rows of a head that are prefetched. */
#define PREFETCHED_ROWS 96

/* Most heads that a thread takes one after the other, so that the rows prefetched in one are near those of the next. */
#define HEADS 8

/* Sizes and addresses of one attention: (B, H, T, K) by strides of b, h and t, in entries; the last stride is one. */
typedef struct {
    int64_t batch, heads, queries, keys, width, value_width;
    const void *query, *key, *value;
    int64_t query_strides[3], key_strides[3], value_strides[3];
    const uint8_t *mask; /* 1 = may attend; null: everything may */
    int64_t mask_strides[4];
    const int16_t *random_bits; /* (B, H, T, S); a weight is kept where its number >= threshold; null: all are kept */
    int64_t threshold;
    float beta, scale;
    Rotation rotation; /* of queries and keys, which then have the same positions */
    /* (B, H, T, padded S), before dropout; null: not kept, and computed again for the backward pass */
    float *weights;
    int64_t is_float32, threads;
    /* Of float32, without a backward pass: what the distance of key and query adds to their score; see attention_distance.h. */
    const float *distance_bias;                 /* (BUCKETS, H), after beta; null: none */
    const float *distance_key, *distance_query; /* (H, 2 span, K), with which queries and keys are multiplied; null: none */
    int64_t distance_span, distance_reach;      /* a reach of 0: each distance has a vector of its own */
    int64_t distance_is_causal;
} Attention;

INLINE int64_t head_offset(const int64_t *strides, int64_t b, int64_t h) { return b * strides[0] + h * strides[1]; }

/* A vector of random numbers from `index` on, and zeros after the last of all. */
INLINE ivec random_bits_at(const Attention *a, int64_t index) {
    short_vec bits = {0};
    int64_t left = a->batch * a->heads * a->queries * a->keys - index;
    if (left >= LANES)
        memcpy(&bits, a->random_bits + index, sizeof bits);
    else
        for (int64_t i = 0; i < left; i++) bits[i] = a->random_bits[index + i];
    return longer_shorts(bits);
}

/* Dropout of `count` rows of `visible` entries, padded; `line` is the first of their random numbers. Behind the entries, up to a
 * whole vector, it leaves anything. */
INLINE void drop_rows(const Attention *a, float *to, const float *rows, int64_t line, int64_t count, int64_t visible) {
    for (int64_t t = 0; t < count; t++, line += a->keys, rows += padded(a->keys), to += padded(a->keys))
        for (int64_t s = 0; s < visible; s += LANES) {
            ivec kept = random_bits_at(a, line + s) >= (int32_t)a->threshold;
            *(vec *)(to + s) = (vec)((ivec)(*(const vec *)(rows + s) * a->scale) & kept);
        }
}

INLINE int64_t heads_per_turn(const Attention *a) {
    int64_t share = a->batch * a->heads / a->threads / 4;
    return share < 1 ? 1 : share < HEADS ? share : HEADS;
}

/* The mask of query `t`, or null. */
INLINE const uint8_t *mask_row(const Attention *a, int64_t pair, int64_t t) {
    if (!a->mask) return 0;
    return a->mask + head_offset(a->mask_strides, pair / a->heads, pair % a->heads) + t * a->mask_strides[2];
}

/* Number of keys up to the last that any of the queries from `first` to `end` may attend to. */
INLINE int64_t visible_keys(const Attention *a, int64_t pair, int64_t first, int64_t end) {
    if (!a->mask) return a->keys;
    int64_t visible = 0;
    for (int64_t t = a->mask_strides[2] ? end - 1 : first; t >= first && visible < a->keys; t--) {
        const uint8_t *allowed = mask_row(a, pair, t);
        int64_t last = a->keys;
        while (last > visible && !allowed[(last - 1) * a->mask_strides[3]]) last--;
        visible = last;
    }
    return visible;
}

/* Whether all queries may attend to all of the `visible` keys, as where a mask only hides padding. */
INLINE int sees_all(const Attention *a, int64_t pair, int64_t visible) {
    if (!a->mask) return 1;
    return a->mask_strides[2] == 0 && a->mask_strides[3] == 1 && !memchr(mask_row(a, pair, 0), 0, visible);
}

/* In place: up to a vector of entries from `at` on of a row at `position`. Numbers that are not `is_float32` are rounded as they would
 * be in memory. */
INLINE void rotate_entries(const Attention *a, float *row, int64_t position, int64_t at, int64_t count, int back, int is_float32) {
    vec result = rotated(*(vec *)(row + at), angles_of(&a->rotation, position, a->width, at, count, back));
    *(vec *)(row + at) = is_float32 ? result : rounded_to_bf16(result);
}

/* In place: `count` padded rows of width K, of sentence `b` from `first` on, rotated by their positions. */
INLINE void rotate_rows(const Attention *a, float *rows, int64_t b, int64_t first, int64_t count, int back, int is_float32) {
    for (int64_t t = first; a->rotation.cosines && t < first + count; t++, rows += padded(a->width)) {
        int64_t position = position_of(&a->rotation, b, t, a->keys), at = 0;
        for (; at + LANES <= a->width; at += LANES) rotate_entries(a, rows, position, at, LANES, back, is_float32);
        if (at < a->width) rotate_entries(a, rows, position, at, a->width - at, back, is_float32);
    }
}

/* Prefetches a head's rows, of which `first` is the first entry: they lie too far apart for the
 * processor to see what comes next. */
INLINE void fetch_rows(const void *from, int64_t first, int64_t rows, int64_t width, int64_t step, int is_float32,
                       const int to_write) {
    for (int64_t row = 0; row < rows && row < PREFETCHED_ROWS; row++, first += step)
        for (int64_t at = 0; at < width; at += is_float32 ? 16 : 32)
            if (to_write)
                __builtin_prefetch(entry(from, first + at, is_float32), 1);
            else
                __builtin_prefetch(entry(from, first + at, is_float32), 0);
}

/* What the head `pair` reads, if there is one; `gradient`, of which it has a row for each query, may be null. */
INLINE void fetch_head(const Attention *a, const void *gradient, const int64_t *strides, int64_t pair, int is_float32) {
    if (pair >= a->batch * a->heads) return;
    int64_t b = pair / a->heads, h = pair % a->heads;
    const int64_t *of_query = a->query_strides, *of_key = a->key_strides, *of_value = a->value_strides;
    fetch_rows(a->query, head_offset(of_query, b, h), a->queries, a->width, of_query[2], is_float32, 0);
    fetch_rows(a->key, head_offset(of_key, b, h), a->keys, a->width, of_key[2], is_float32, 0);
    fetch_rows(a->value, head_offset(of_value, b, h), a->keys, a->value_width, of_value[2], is_float32, 0);
    if (gradient) fetch_rows(gradient, head_offset(strides, b, h), a->queries, a->value_width, strides[2], is_float32, 0);
}

/* Gradients of query, key and value, to be written: (B, T, H, K), dense but for rows that are `step` entries apart. */
typedef struct {
    void *query, *key, *value;
    int64_t query_step, key_step, value_step;
} Gradients;

#if HAS_TILES
/* As `attention_forward` and `attention_backward`, of bfloat16. */
int attention_forward_in_tiles(const Attention *a, void *output);
int attention_backward_in_tiles(const Attention *a, const void *gradient, const int64_t *strides, const Gradients *of);

/* Multiply-adds of a head, of queries with keys, from which tiles pay: short sequences are mostly laid out anew for them. */
#define MIN_PRODUCTS_IN_TILES (1 << 16)

INLINE int attends_in_tiles(const Attention *a) {
    return tiles_allowed && !a->is_float32 && a->queries * a->keys * a->width >= MIN_PRODUCTS_IN_TILES;
}
#endif

#endif
