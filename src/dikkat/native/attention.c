/* Attention, forward and backward, a head at a time in cache: its weights are never all there unless they are kept.
 *
 * Sums are float32 and in rising order; what no query of a block may see is left out, which changes no bit. Work is cut
 * in fixed shares, so the same input gives the same bits.
 */
#include "products.h"
#include "rotation.h"
#include "tensors.h"

#include <omp.h>
#include <stdlib.h>

/* Weights that are computed together, about: half a mebibyte; and the fewest and most queries they may belong to. */
#define CACHED (1 << 17)
#define FEWEST 24
#define MOST 96

/* Heads that a thread takes one after the other, at most, so that what it asks for in one is near it in the next. */
#define HEADS 8

/* Sizes and addresses of one attention: (B, H, T, K) by strides of b, h and t, in entries; the last stride is one. */
typedef struct {
    int64_t batch, heads, queries, keys, width, value_width;
    const void *query, *key, *value;
    int64_t query_strides[3], key_strides[3], value_strides[3];
    const uint8_t *mask; /* 1 = may attend; null: everything may */
    int64_t mask_strides[4];
    const int16_t *draws; /* (B, H, T, S); a weight is kept where draw >= threshold; null: all are kept */
    int64_t threshold;
    float beta, scale;
    Rotation rotation; /* of queries and keys, which then have the same positions */
    /* (B, H, T, padded S), before dropout; null: not kept, and computed again for the backward pass */
    float *weights;
    int64_t wide, threads;
} Attention;

INLINE int64_t head_offset(const int64_t *strides, int64_t b, int64_t h) { return b * strides[0] + h * strides[1]; }

/* A vector of draws from `place` on, and zeros behind the last of all. */
INLINE ivec draws_at(const Attention *a, int64_t place) {
    short_vec levels = {0};
    int64_t left = a->batch * a->heads * a->queries * a->keys - place;
    if (left >= LANES)
        memcpy(&levels, a->draws + place, sizeof levels);
    else
        for (int64_t i = 0; i < left; i++) levels[i] = a->draws[place + i];
    return longer_shorts(levels);
}

/* Dropout of `count` rows of `seen` entries, padded; `line` is the first of their draws. Behind the entries, up to a
 * whole vector, it leaves anything. */
INLINE void drop_rows(const Attention *a, float *to, const float *rows, int64_t line, int64_t count, int64_t seen) {
    for (int64_t t = 0; t < count; t++, line += a->keys, rows += padded(a->keys), to += padded(a->keys))
        for (int64_t s = 0; s < seen; s += LANES) {
            ivec kept = draws_at(a, line + s) >= (int32_t)a->threshold;
            *(vec *)(to + s) = (vec)((ivec)(*(const vec *)(rows + s) * a->scale) & kept);
        }
}

/* Queries whose weights are computed together: few enough that these stay in cache and that under a causal mask most of
 * what is hidden is never computed, many enough that keys and values are not fetched anew for each; whole tiles. */
INLINE int64_t block_of(const Attention *a) {
    int64_t rows = CACHED / padded(a->keys), blocks;
    rows = rows < FEWEST ? FEWEST : rows > MOST ? MOST : rows;
    blocks = (a->queries + rows - 1) / rows;
    rows = (a->queries + blocks - 1) / blocks;
    return blocks == 1 ? rows : (rows + TALLEST - 1) / TALLEST * TALLEST;
}

INLINE int64_t heads_at_once(const Attention *a) {
    int64_t share = a->batch * a->heads / a->threads / 4;
    return share < 1 ? 1 : share < HEADS ? share : HEADS;
}

/* The mask of query `t`, or null. */
INLINE const uint8_t *mask_row(const Attention *a, int64_t pair, int64_t t) {
    if (!a->mask) return 0;
    return a->mask + head_offset(a->mask_strides, pair / a->heads, pair % a->heads) + t * a->mask_strides[2];
}

/* Number of keys up to the last that any of the queries from `first` to `end` may attend to. */
INLINE int64_t seen_keys(const Attention *a, int64_t pair, int64_t first, int64_t end) {
    if (!a->mask) return a->keys;
    int64_t seen = 0;
    for (int64_t t = a->mask_strides[2] ? end - 1 : first; t >= first && seen < a->keys; t--) {
        const uint8_t *allowed = mask_row(a, pair, t);
        int64_t last = a->keys;
        while (last > seen && !allowed[(last - 1) * a->mask_strides[3]]) last--;
        seen = last;
    }
    return seen;
}

/* Whether all queries may attend to all of the `seen` keys, as where a mask only hides padding. */
INLINE int sees_all(const Attention *a, int64_t pair, int64_t seen) {
    if (!a->mask) return 1;
    return a->mask_strides[2] == 0 && a->mask_strides[3] == 1 && !memchr(mask_row(a, pair, 0), 0, seen);
}

/* Weights before dropout of the `count` queries from `first` on, over the keys they see. */
INLINE void weigh(const Attention *a, float *rows, const float *query, const float *key, int64_t pair, int64_t first,
                  int64_t count, int64_t seen) {
    int64_t keys = padded(a->keys);
    rows_times_matrix(rows, keys, query, padded(a->width), 1, key, a->width, keys, padded(seen), count);
    int open = sees_all(a, pair, seen);
    for (int64_t t = 0; t < count; t++)
        softmax_row(rows + t * keys, seen, a->beta, open ? 0 : mask_row(a, pair, first + t), a->mask_strides[3]);
}

/* In place: up to a vector of entries from `at` on of a row at `place`. Numbers that are not `wide` are rounded as they would
 * be in memory. */
INLINE void turn_entries(const Attention *a, float *row, int64_t place, int64_t at, int64_t count, int back, int wide) {
    vec found = turned(*(vec *)(row + at), angles_of(&a->rotation, place, a->width, at, count, back));
    *(vec *)(row + at) = wide ? found : as_narrow(found);
}

/* In place: `count` padded rows of width K, of sentence `b` from `first` on, turned by their positions. */
INLINE void turn_rows(const Attention *a, float *rows, int64_t b, int64_t first, int64_t count, int back, int wide) {
    for (int64_t t = first; a->rotation.cosines && t < first + count; t++, rows += padded(a->width)) {
        int64_t place = place_of(&a->rotation, b, t, a->keys), at = 0;
        for (; at + LANES <= a->width; at += LANES) turn_entries(a, rows, place, at, LANES, back, wide);
        if (at < a->width) turn_entries(a, rows, place, at, a->width - at, back, wide);
    }
}

/* `count` queries from `first` on, and all keys, as they are compared. */
INLINE void load_queries(const Attention *a, float *to, int64_t b, int64_t h, int64_t first, int64_t count, int wide) {
    int64_t from = head_offset(a->query_strides, b, h) + first * a->query_strides[2];
    load_rows(to, entry(a->query, from, wide), count, a->width, a->query_strides[2], wide);
    turn_rows(a, to, b, first, count, 0, wide);
}

INLINE void load_keys(const Attention *a, float *to, int64_t b, int64_t h, int wide) {
    const void *from = entry(a->key, head_offset(a->key_strides, b, h), wide);
    load_rows(to, from, a->keys, a->width, a->key_strides[2], wide);
    turn_rows(a, to, b, 0, a->keys, 0, wide);
}

/* The same transposed; `room` is for the rows. */
INLINE void load_key_columns(const Attention *a, float *to, float *room, int64_t b, int64_t h, int wide) {
    const void *from = entry(a->key, head_offset(a->key_strides, b, h), wide);
    if (!a->rotation.cosines) {
        load_columns(to, from, a->keys, a->width, a->key_strides[2], wide);
        return;
    }
    load_keys(a, room, b, h, wide);
    load_columns(to, room, a->keys, a->width, padded(a->width), 1);
}

/* Asks for a head's rows, of which `first` is the first entry, before they are needed: they lie too far apart for the
 * processor to see what comes next. */
INLINE void fetch_rows(const void *from, int64_t first, int64_t rows, int64_t width, int64_t step, int wide,
                       const int to_write) {
    for (int64_t row = 0; row < rows && row < MOST; row++, first += step)
        for (int64_t at = 0; at < width; at += wide ? 16 : 32)
            __builtin_prefetch(entry(from, first + at, wide), to_write);
}

/* What the head `pair` reads, if there is one; `gradient`, of which it has a row for each query, may be null. */
INLINE void fetch_head(const Attention *a, const void *gradient, const int64_t *strides, int64_t pair, int wide) {
    if (pair >= a->batch * a->heads) return;
    int64_t b = pair / a->heads, h = pair % a->heads;
    const int64_t *of_query = a->query_strides, *of_key = a->key_strides, *of_value = a->value_strides;
    fetch_rows(a->query, head_offset(of_query, b, h), a->queries, a->width, of_query[2], wide, 0);
    fetch_rows(a->key, head_offset(of_key, b, h), a->keys, a->width, of_key[2], wide, 0);
    fetch_rows(a->value, head_offset(of_value, b, h), a->keys, a->value_width, of_value[2], wide, 0);
    if (gradient) fetch_rows(gradient, head_offset(strides, b, h), a->queries, a->value_width, strides[2], wide, 0);
}

/* Each stage runs over all rows before the next: a row alone is one long chain in which every step waits for the last. */
INLINE void attention_forward_head(const Attention *a, void *output, float *scratch, int64_t pair, int wide) {
    int64_t b = pair / a->heads, h = pair % a->heads, block = block_of(a);
    int64_t keys = padded(a->keys), width = padded(a->width), value_width = padded(a->value_width);
    int64_t step = a->heads * a->value_width, place = b * a->queries * step + h * a->value_width;
    fetch_head(a, NULL, NULL, pair + 1, wide);
    fetch_rows(output, place, a->queries, a->value_width, step, wide, 1);
    float *query = scratch, *key = query + block * width, *value = key + a->width * keys;
    float *rows = value + a->keys * value_width, *result = rows + block * keys;
    load_key_columns(a, key, result + block * value_width, b, h, wide);
    load_rows(value, entry(a->value, head_offset(a->value_strides, b, h), wide), a->keys, a->value_width,
              a->value_strides[2], wide);
    for (int64_t first = 0; first < a->queries; first += block) {
        int64_t end = first + block < a->queries ? first + block : a->queries, count = end - first;
        int64_t seen = seen_keys(a, pair, first, end), line = pair * a->queries + first;
        load_queries(a, query, b, h, first, count, wide);
        float *weights = a->weights ? a->weights + line * keys : rows;
        weigh(a, weights, query, key, pair, first, count, seen);
        for (int64_t t = 0; a->weights && t < count; t++)
            memset(weights + t * keys + seen, 0, sizeof(float) * (a->keys - seen));
        if (a->draws) drop_rows(a, rows, weights, line * a->keys, count, seen);
        rows_times_matrix(result, value_width, a->draws ? rows : weights, keys, 1, value, seen, value_width,
                          value_width, count);
        store_rows(output, place + first * step, step, result, count, a->value_width, wide);
    }
}

/* Twin: nn/explicit.py, _ExplicitAttention.forward. `output` is (B, T, H, E). Returns 0, or 1 for want of memory. */
int attention_forward(const Attention *a, void *output) {
    int64_t each = padded(block_of(a) * (padded(a->width) + padded(a->keys) + padded(a->value_width)) +
                          a->width * padded(a->keys) + a->keys * (padded(a->width) + padded(a->value_width)));
    float *scratch = aligned_alloc(64, sizeof(float) * each * a->threads);
    if (!scratch) return 1;
#pragma omp parallel for schedule(dynamic, heads_at_once(a)) num_threads(a->threads)
    for (int64_t pair = 0; pair < a->batch * a->heads; pair++) {
        float *own = scratch + each * omp_get_thread_num();
        if (a->wide)
            attention_forward_head(a, output, own, pair, 1);
        else
            attention_forward_head(a, output, own, pair, 0);
    }
    free(scratch);
    return 0;
}

/* Where one head's backward pass keeps its numbers; `key` is transposed where the weights are computed again. */
typedef struct {
    float *query, *key_rows, *key, *value, *output, *scores, *weights, *result, *of_key, *of_value;
} Scratch;

/* Hands out the parts of `memory`; returns how many numbers they are together. */
INLINE int64_t lay_out(const Attention *a, float *memory, Scratch *parts) {
    int64_t keys = padded(a->keys), width = padded(a->width), value_width = padded(a->value_width);
    int64_t block = block_of(a), longer = block > a->keys ? block : a->keys;
    struct {
        float **part;
        int64_t size;
    } each[] = {
        {&parts->query, block * width},          {&parts->key_rows, a->keys * width},
        {&parts->key, a->width * keys},          {&parts->value, a->value_width * keys},
        {&parts->output, block * value_width},   {&parts->scores, block * keys},
        {&parts->weights, block * keys},         {&parts->result, longer * (width > value_width ? width : value_width)},
        {&parts->of_key, a->keys * width},       {&parts->of_value, a->keys * value_width},
    };
    int64_t used = 0;
    for (unsigned i = 0; i < sizeof each / sizeof *each; used += each[i++].size)
        if (memory) *each[i].part = memory + used;
    return used;
}

/* sum(a b), both padded; four sums, so that one need not wait for the other. */
INLINE float product_of_rows(const float *a, const float *b, int64_t count) {
    vec sums[4] = {{0}};
    int64_t at = 0;
    for (; at + 4 * LANES <= count; at += 4 * LANES)
        for (int i = 0; i < 4; i++)
            sums[i] += *(const vec *)(a + at + i * LANES) * *(const vec *)(b + at + i * LANES);
    for (; at + LANES <= count; at += LANES) sums[0] += *(const vec *)(a + at) * *(const vec *)(b + at);
    if (at < count) {
        vec last = *(const vec *)(a + at) * *(const vec *)(b + at);
        sums[1] += (vec)((ivec)last & (LANE_NUMBERS < (int32_t)(count - at)));
    }
    return lane_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* In place: the gradient of weights to that of products; both (count, padded keys). Behind the `seen` entries, up to a
 * whole vector, it leaves anything. */
INLINE void softmax_backward(const Attention *a, float *scores, const float *weights, int64_t count, int64_t seen) {
    for (int64_t t = 0; t < count; t++, scores += padded(a->keys), weights += padded(a->keys)) {
        /* d softmax: w (g - sum(g w)); a masked entry has weight 0, so nothing flows through it */
        float mean = product_of_rows(weights, scores, seen);
        for (int64_t s = 0; s < seen; s += LANES) {
            vec *found = (vec *)(scores + s);
            *found = *(const vec *)(weights + s) * (*found - mean) * a->beta;
        }
    }
}

/* sums (keys, width) += rows^T x matrix, for the `seen` of the keys; the `first` time it writes all of them. */
INLINE void add_products(float *sums, float *result, const float *rows, const float *matrix, int64_t keys, int64_t seen,
                         int64_t width, int64_t count, int first) {
    rows_times_matrix(first ? sums : result, width, rows, 1, padded(keys), matrix, count, width, width, seen);
    if (first)
        memset(sums + seen * width, 0, sizeof(float) * (keys - seen) * width);
    else
        for (int64_t i = 0; i < seen * width; i++) sums[i] += result[i];
}

/* Gradients of query, key and value, to be written: (B, T, H, K), dense but for rows that are `step` entries apart. */
typedef struct {
    void *query, *key, *value;
    int64_t query_step, key_step, value_step;
} Gradients;

INLINE void attention_backward_head(const Attention *a, const void *gradient, const int64_t *strides,
                                    const Gradients *of, float *scratch, int64_t pair, int wide) {
    int64_t b = pair / a->heads, h = pair % a->heads, block = block_of(a);
    int64_t keys = padded(a->keys), width = padded(a->width), value_width = padded(a->value_width);
    Scratch own;
    lay_out(a, scratch, &own);
    int64_t of_query = b * a->queries * of->query_step + h * a->width;
    int64_t of_key = b * a->keys * of->key_step + h * a->width;
    int64_t of_value = b * a->keys * of->value_step + h * a->value_width;
    fetch_head(a, gradient, strides, pair + 1, wide);
    fetch_rows(of->query, of_query, a->queries, a->width, of->query_step, wide, 1);
    fetch_rows(of->key, of_key, a->keys, a->width, of->key_step, wide, 1);
    fetch_rows(of->value, of_value, a->keys, a->value_width, of->value_step, wide, 1);
    load_keys(a, own.key_rows, b, h, wide);
    if (!a->weights) load_columns(own.key, own.key_rows, a->keys, a->width, width, 1);
    load_columns(own.value, entry(a->value, head_offset(a->value_strides, b, h), wide), a->keys, a->value_width,
                 a->value_strides[2], wide);
    for (int64_t first = 0; first < a->queries; first += block) {
        int64_t end = first + block < a->queries ? first + block : a->queries, count = end - first;
        int64_t seen = seen_keys(a, pair, first, end), line = pair * a->queries + first;
        load_queries(a, own.query, b, h, first, count, wide);
        load_rows(own.output, entry(gradient, head_offset(strides, b, h) + first * strides[2], wide), count,
                  a->value_width, strides[2], wide);
        float *weights = a->weights ? a->weights + line * keys : own.weights;
        if (!a->weights) weigh(a, weights, own.query, own.key, pair, first, count, seen);
        rows_times_matrix(own.scores, keys, own.output, value_width, 1, own.value, a->value_width, keys, padded(seen),
                          count);
        if (a->draws) drop_rows(a, own.scores, own.scores, line * a->keys, count, seen);
        softmax_backward(a, own.scores, weights, count, seen);
        if (a->draws) {
            drop_rows(a, own.weights, weights, line * a->keys, count, seen);
            weights = own.weights;
        }
        rows_times_matrix(own.result, width, own.scores, keys, 1, own.key_rows, seen, width, width, count);
        turn_rows(a, own.result, b, first, count, 1, 1);
        store_rows(of->query, of_query + first * of->query_step, of->query_step, own.result, count, a->width, wide);
        add_products(own.of_key, own.result, own.scores, own.query, a->keys, seen, width, count, first == 0);
        add_products(own.of_value, own.result, weights, own.output, a->keys, seen, value_width, count, first == 0);
    }
    turn_rows(a, own.of_key, b, 0, a->keys, 1, 1);
    store_rows(of->key, of_key, of->key_step, own.of_key, a->keys, a->width, wide);
    store_rows(of->value, of_value, of->value_step, own.of_value, a->keys, a->value_width, wide);
}

/* Twin: nn/explicit.py, _ExplicitAttention.backward. `gradient` (B, H, T, E) has `strides` of b, h and t. Returns 0, or 1
 * for want of memory. */
int attention_backward(const Attention *a, const void *gradient, const int64_t *strides, const Gradients *of) {
    Scratch parts;
    int64_t each = padded(lay_out(a, 0, &parts));
    float *scratch = aligned_alloc(64, sizeof(float) * each * a->threads);
    if (!scratch) return 1;
#pragma omp parallel for schedule(dynamic, heads_at_once(a)) num_threads(a->threads)
    for (int64_t pair = 0; pair < a->batch * a->heads; pair++) {
        float *own = scratch + each * omp_get_thread_num();
        if (a->wide)
            attention_backward_head(a, gradient, strides, of, own, pair, 1);
        else
            attention_backward_head(a, gradient, strides, of, own, pair, 0);
    }
    free(scratch);
    return 0;
}
