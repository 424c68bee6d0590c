/* Attention, forward and backward, a head at a time in cache: its weights are never all there unless they are kept. Here in
 * vectors; long enough sequences of bfloat16 in tiles, where there are tiles.
 *
 * Sums are float32 and in rising order; what no query of a block may see is left out, which changes no bit. Work is cut
 * in fixed shares, so the same input gives the same bits.
 */
#include "attention_distance.h"
#include "layout.h"

SIZE_OF(Attention);

/* Weights that are computed together, about: half a mebibyte; and the fewest and most queries they may belong to. */
#define CACHED (1 << 17)
#define MIN_COUNT 24
#define MAX_COUNT 96

/* Queries whose weights are computed together: few enough that these stay in cache and that under a causal mask most of
 * what is hidden is never computed, many enough that keys and values are not fetched anew for each; whole tiles. */
INLINE int64_t block_of(const Attention *a) {
    if (!a->queries) return 0;
    int64_t rows = a->keys ? CACHED / padded(a->keys) : MAX_COUNT, blocks;
    rows = rows < MIN_COUNT ? MIN_COUNT : rows > MAX_COUNT ? MAX_COUNT : rows;
    blocks = (a->queries + rows - 1) / rows;
    rows = (a->queries + blocks - 1) / blocks;
    return blocks == 1 ? rows : (rows + TALLEST - 1) / TALLEST * TALLEST;
}

/* Weights before dropout of the `count` queries from `first` on, over the keys they see. */
INLINE void weigh(const Attention *a, const Distances *distances, float *rows, const float *query, const float *key, int64_t pair,
                  int64_t first, int64_t count, int64_t visible) {
    int64_t keys = padded(a->keys);
    rows_times_matrix(rows, keys, query, padded(a->width), 1, key, a->width, keys, padded(visible), count);
    int open = sees_all(a, pair, visible), is_scaled = has_distances(a);
    if (is_scaled) add_distances(a, distances, rows, query, pair % a->heads, first, count, visible);
    for (int64_t t = 0; t < count; t++)
        softmax_row_by(rows + t * keys, visible, is_scaled ? 1.0f : a->beta, open ? 0 : mask_row(a, pair, first + t),
                       a->mask_strides[3], 1);
}

/* `count` queries from `first` on, and all keys, as they are compared. */
INLINE void load_queries(const Attention *a, float *to, int64_t b, int64_t h, int64_t first, int64_t count, int is_float32) {
    int64_t from = head_offset(a->query_strides, b, h) + first * a->query_strides[2];
    load_rows(to, entry(a->query, from, is_float32), count, a->width, a->query_strides[2], is_float32);
    rotate_rows(a, to, b, first, count, 0, is_float32);
}

INLINE void load_keys(const Attention *a, float *to, int64_t b, int64_t h, int is_float32) {
    const void *from = entry(a->key, head_offset(a->key_strides, b, h), is_float32);
    load_rows(to, from, a->keys, a->width, a->key_strides[2], is_float32);
    rotate_rows(a, to, b, 0, a->keys, 0, is_float32);
}

/* The same transposed; `buffer` is for the rows. */
INLINE void load_key_columns(const Attention *a, float *to, float *buffer, int64_t b, int64_t h, int is_float32) {
    const void *from = entry(a->key, head_offset(a->key_strides, b, h), is_float32);
    if (!a->rotation.cosines) {
        load_columns(to, from, a->keys, a->width, a->key_strides[2], is_float32);
        return;
    }
    load_keys(a, buffer, b, h, is_float32);
    load_columns(to, buffer, a->keys, a->width, padded(a->width), 1);
}

/* Each stage runs over all rows before the next: a row alone is one long chain in which every step waits for the last. */
INLINE void attention_forward_head(const Attention *a, void *output, float *scratch, int64_t pair, int is_float32) {
    int64_t b = pair / a->heads, h = pair % a->heads, block = block_of(a);
    int64_t keys = padded(a->keys), width = padded(a->width), value_width = padded(a->value_width);
    int64_t step = a->heads * a->value_width, offset = b * a->queries * step + h * a->value_width;
    fetch_head(a, NULL, NULL, pair + 1, is_float32);
    fetch_rows(output, offset, a->queries, a->value_width, step, is_float32, 1);
    float *query = scratch, *key = query + block * width, *value = key + a->width * keys;
    float *rows = value + a->keys * value_width, *result = rows + block * keys;
    Distances distances;
    lay_out_distances(a, block, result + block * value_width, &distances);
    load_key_columns(a, key, result + block * value_width, b, h, is_float32);
    load_rows(value, entry(a->value, head_offset(a->value_strides, b, h), is_float32), a->keys, a->value_width,
              a->value_strides[2], is_float32);
    begin_distances(a, &distances, b, h);
    for (int64_t first = 0; first < a->queries; first += block) {
        int64_t end = first + block < a->queries ? first + block : a->queries, count = end - first;
        int64_t visible = visible_keys(a, pair, first, end), line = pair * a->queries + first;
        load_queries(a, query, b, h, first, count, is_float32);
        float *weights = a->weights ? a->weights + line * keys : rows;
        weigh(a, &distances, weights, query, key, pair, first, count, visible);
        for (int64_t t = 0; a->weights && t < count; t++)
            memset(weights + t * keys + visible, 0, sizeof(float) * (a->keys - visible));
        if (a->random_bits) drop_rows(a, rows, weights, line * a->keys, count, visible);
        rows_times_matrix(result, value_width, a->random_bits ? rows : weights, keys, 1, value, visible, value_width,
                          value_width, count);
        store_rows(output, offset + first * step, step, result, count, a->value_width, is_float32);
    }
}

typedef struct {
    const Attention *attention;
    void *output;
    float *scratch;
    int64_t per_thread; /* numbers of it for each thread */
} ForwardJob;

static void forward_share(const void *job, int64_t pair, int64_t thread) {
    const ForwardJob *f = job;
    float *own = f->scratch + f->per_thread * thread;
    if (f->attention->is_float32)
        attention_forward_head(f->attention, f->output, own, pair, 1);
    else
        attention_forward_head(f->attention, f->output, own, pair, 0);
}

/* Twin: kernels/attention.py, matmul_attention. `output` is (B, T, H, E). Returns 0, NO_MEMORY, or
 * INDEX_ERROR for a position that the tables of the rotation lack. */
int attention_forward(const Attention *a, void *output) {
    if (!has_positions(&a->rotation, a->batch, a->keys)) return INDEX_ERROR;
#if HAS_TILES
    if (attends_in_tiles(a)) return attention_forward_in_tiles(a, output);
#endif
    int64_t per_thread = padded(block_of(a) * (padded(a->width) + padded(a->keys) + padded(a->value_width)) +
                          a->width * padded(a->keys) + a->keys * (padded(a->width) + padded(a->value_width)));
    Distances distances;
    per_thread += lay_out_distances(a, block_of(a), NULL, &distances);
    float *scratch = aligned_alloc(64, sizeof(float) * per_thread * a->threads);
    if (!scratch) return 1;
    ForwardJob job = {a, output, scratch, per_thread};
    share_out(a->threads, a->batch * a->heads, heads_per_turn(a), forward_share, &job);
    free(scratch);
    return 0;
}

/* Where one head's backward pass keeps its numbers; `key` is transposed where the weights are computed again. */
typedef struct {
    float *query, *key_rows, *key, *value, *output, *scores, *weights, *result, *of_key, *of_value;
} Scratch;

/* Divides `memory` into its buffers; returns the numbers that they have together. */
INLINE int64_t lay_out(const Attention *a, float *memory, Scratch *parts) {
    int64_t keys = padded(a->keys), width = padded(a->width), value_width = padded(a->value_width);
    int64_t block = block_of(a), longer = block > a->keys ? block : a->keys;
    struct {
        float **part;
        int64_t size;
    } buffers[] = {
        {&parts->query, block * width},          {&parts->key_rows, a->keys * width},
        {&parts->key, a->width * keys},          {&parts->value, a->value_width * keys},
        {&parts->output, block * value_width},   {&parts->scores, block * keys},
        {&parts->weights, block * keys},         {&parts->result, longer * (width > value_width ? width : value_width)},
        {&parts->of_key, a->keys * width},       {&parts->of_value, a->keys * value_width},
    };
    int64_t used = 0;
    for (unsigned i = 0; i < sizeof buffers / sizeof *buffers; used += buffers[i++].size)
        if (memory) *buffers[i].part = memory + used;
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

/* In place: the gradient of weights to that of products; both (count, padded keys). Behind the `visible` entries, up to a
 * whole vector, it leaves anything. */
INLINE void softmax_backward(const Attention *a, float *scores, const float *weights, int64_t count, int64_t visible) {
    for (int64_t t = 0; t < count; t++, scores += padded(a->keys), weights += padded(a->keys)) {
        /* d softmax: w (g - sum(g w)); a masked entry has weight 0, so nothing flows through it */
        float mean = product_of_rows(weights, scores, visible);
        for (int64_t s = 0; s < visible; s += LANES) {
            vec *gradients = (vec *)(scores + s);
            *gradients = *(const vec *)(weights + s) * (*gradients - mean) * a->beta;
        }
    }
}

/* sums (keys, width) += rows^T x matrix, for the `visible` of the keys; the `first` time it writes all of them. */
INLINE void add_products(float *sums, float *result, const float *rows, const float *matrix, int64_t keys, int64_t visible,
                         int64_t width, int64_t count, int first) {
    rows_times_matrix(first ? sums : result, width, rows, 1, padded(keys), matrix, count, width, width, visible);
    if (first)
        memset(sums + visible * width, 0, sizeof(float) * (keys - visible) * width);
    else
        for (int64_t i = 0; i < visible * width; i++) sums[i] += result[i];
}

INLINE void attention_backward_head(const Attention *a, const void *gradient, const int64_t *strides,
                                    const Gradients *of, float *scratch, int64_t pair, int is_float32) {
    int64_t b = pair / a->heads, h = pair % a->heads, block = block_of(a);
    int64_t keys = padded(a->keys), width = padded(a->width), value_width = padded(a->value_width);
    Scratch own;
    lay_out(a, scratch, &own);
    int64_t of_query = b * a->queries * of->query_step + h * a->width;
    int64_t of_key = b * a->keys * of->key_step + h * a->width;
    int64_t of_value = b * a->keys * of->value_step + h * a->value_width;
    fetch_head(a, gradient, strides, pair + 1, is_float32);
    fetch_rows(of->query, of_query, a->queries, a->width, of->query_step, is_float32, 1);
    fetch_rows(of->key, of_key, a->keys, a->width, of->key_step, is_float32, 1);
    fetch_rows(of->value, of_value, a->keys, a->value_width, of->value_step, is_float32, 1);
    load_keys(a, own.key_rows, b, h, is_float32);
    if (!a->weights) load_columns(own.key, own.key_rows, a->keys, a->width, width, 1);
    load_columns(own.value, entry(a->value, head_offset(a->value_strides, b, h), is_float32), a->keys, a->value_width,
                 a->value_strides[2], is_float32);
    for (int64_t first = 0; first < a->queries; first += block) {
        int64_t end = first + block < a->queries ? first + block : a->queries, count = end - first;
        int64_t visible = visible_keys(a, pair, first, end), line = pair * a->queries + first;
        load_queries(a, own.query, b, h, first, count, is_float32);
        load_rows(own.output, entry(gradient, head_offset(strides, b, h) + first * strides[2], is_float32), count,
                  a->value_width, strides[2], is_float32);
        float *weights = a->weights ? a->weights + line * keys : own.weights;
        if (!a->weights) weigh(a, NULL, weights, own.query, own.key, pair, first, count, visible);
        rows_times_matrix(own.scores, keys, own.output, value_width, 1, own.value, a->value_width, keys, padded(visible),
                          count);
        if (a->random_bits) drop_rows(a, own.scores, own.scores, line * a->keys, count, visible);
        softmax_backward(a, own.scores, weights, count, visible);
        if (a->random_bits) {
            drop_rows(a, own.weights, weights, line * a->keys, count, visible);
            weights = own.weights;
        }
        rows_times_matrix(own.result, width, own.scores, keys, 1, own.key_rows, visible, width, width, count);
        rotate_rows(a, own.result, b, first, count, 1, 1);
        store_rows(of->query, of_query + first * of->query_step, of->query_step, own.result, count, a->width, is_float32);
        add_products(own.of_key, own.result, own.scores, own.query, a->keys, visible, width, count, first == 0);
        add_products(own.of_value, own.result, weights, own.output, a->keys, visible, value_width, count, first == 0);
    }
    rotate_rows(a, own.of_key, b, 0, a->keys, 1, 1);
    store_rows(of->key, of_key, of->key_step, own.of_key, a->keys, a->width, is_float32);
    store_rows(of->value, of_value, of->value_step, own.of_value, a->keys, a->value_width, is_float32);
}

typedef struct {
    const Attention *attention;
    const void *gradient;
    const int64_t *strides;
    const Gradients *of;
    float *scratch;
    int64_t per_thread; /* numbers of it for each thread */
} BackwardJob;

static void backward_share(const void *job, int64_t pair, int64_t thread) {
    const BackwardJob *b = job;
    float *own = b->scratch + b->per_thread * thread;
    if (b->attention->is_float32)
        attention_backward_head(b->attention, b->gradient, b->strides, b->of, own, pair, 1);
    else
        attention_backward_head(b->attention, b->gradient, b->strides, b->of, own, pair, 0);
}

/* Twin: autograd through kernels/attention.py, matmul_attention. `gradient` (B, H, T, E) has `strides` of b, h and t. Returns 0,
 * NO_MEMORY, or INDEX_ERROR as attention_forward. */
int attention_backward(const Attention *a, const void *gradient, const int64_t *strides, const Gradients *of) {
    if (!has_positions(&a->rotation, a->batch, a->keys)) return INDEX_ERROR;
#if HAS_TILES
    if (attends_in_tiles(a)) return attention_backward_in_tiles(a, gradient, strides, of);
#endif
    Scratch parts;
    int64_t per_thread = padded(lay_out(a, 0, &parts));
    float *scratch = aligned_alloc(64, sizeof(float) * per_thread * a->threads);
    if (!scratch) return 1;
    BackwardJob job = {a, gradient, strides, of, scratch, per_thread};
    share_out(a->threads, a->batch * a->heads, heads_per_turn(a), backward_share, &job);
    free(scratch);
    return 0;
}
