/* Attention of bfloat16 in tiles, backward, a head at a time in cache. Gradients of keys and values are summed transposed, so
 * that the largest matrices need not be. */
#include "attention_tiles.h"

#if HAS_TILES
/* Writes the gradient of all keys, which is transposed, to entries from `first` on. */
INLINE void store_columns(const Attention *a, uint16_t *to, int64_t first, int64_t step, float *buffer, const float *sums,
                          int64_t width, int64_t b, int turns) {
    load_columns(buffer, sums, padded(width), padded(a->keys), padded(a->keys), 1);
    if (turns) rotate_rows(a, buffer, b, 0, a->keys, 1, 1);
    store_rows(to, first, step, buffer, a->keys, width, 0);
}

/* sum(share a b), both padded; four sums, so that one need not wait for the other. */
INLINE float shared_product(float share, const float *a, const float *b, int64_t count) {
    vec sums[4] = {{0}};
    int64_t at = 0;
    for (; at + 4 * LANES <= count; at += 4 * LANES)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            sums[i] += *(const vec *)(a + at + i * LANES) * share * *(const vec *)(b + at + i * LANES);
    for (; at < count; at += LANES)
        sums[0] += up_to(*(const vec *)(a + at) * share * *(const vec *)(b + at), count - at);
    return lane_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* A row on its way back: what makes its numbers weights, and the mean of what flows to these. */
typedef struct {
    const float *weights, *dropped, *flow;
    float share, mean;
} Row;

INLINE Row row_of(const Attention *a, const Scratch *own, const float *weights, const float *dropped, int64_t t,
                  int64_t visible) {
    int64_t at = t * padded(a->keys);
    Row row = {weights + at, dropped + at, own->scores + at, a->weights ? 1.0f : own->shares[t], 0.0f};
    row.mean = shared_product(row.share, row.weights, row.flow, visible);
    return row;
}

/* The gradient of a vector of scores. d softmax: w (g - sum(g w)); a masked entry has weight 0, so nothing flows through it. */
INLINE vec of_scores(const Row *row, int64_t at, int64_t visible, float beta) {
    vec weights = *(const vec *)(row->weights + at) * row->share;
    return up_to(weights * (*(const vec *)(row->flow + at) - row->mean) * beta, visible - at);
}

INLINE vec of_values(const Row *row, int64_t at, int64_t visible) {
    return up_to(*(const vec *)(row->dropped + at) * row->share, visible - at);
}

/* From numbers that shares make weights, before and after dropout, and what flows to these: the gradients of scores, in rows
 * and in pairs, and weights in pairs; two rows at a time. */
INLINE void softmax_back(const Attention *a, const Scratch *own, const float *weights, const float *dropped, int64_t count,
                         int64_t visible) {
    int64_t keys = padded(a->keys), next = whole(keys);
    uint16_t *bf16 = own->bf16;
    uint32_t *pairs = own->pairs, *weight_pairs = own->weight_pairs;
    for (int64_t t = 0; t < count; t += 2, bf16 += 2 * next, pairs += keys, weight_pairs += keys) {
        Row above = row_of(a, own, weights, dropped, t, visible), below = above;
        const int both = t + 1 < count;
        if (both) below = row_of(a, own, weights, dropped, t + 1, visible);
        for (int64_t at = 0; at < visible; at += LANES) {
            vec low = of_scores(&above, at, visible, a->beta), high = {0}, high_weights = {0};
            if (both) high = of_scores(&below, at, visible, a->beta), high_weights = of_values(&below, at, visible);
            short_numbers rounded = to_bf16_together(low, high);
            memcpy(bf16 + at, &rounded, sizeof rounded / 2);
            memcpy(bf16 + next + at, (char *)&rounded + sizeof rounded / 2, sizeof rounded / 2);
            *(short_numbers *)(pairs + at) = alternating(rounded);
            *(short_numbers *)(weight_pairs + at) = alternating(to_bf16_together(of_values(&above, at, visible), high_weights));
        }
        if (padded(visible) < whole(visible)) {
            store_vec(bf16, padded(visible), (vec){0}, LANES, 0);
            store_vec(bf16 + next, padded(visible), (vec){0}, LANES, 0);
        }
    }
    int64_t lines = whole(count) / 2 - (count + 1) / 2;
    memset(pairs, 0, sizeof *pairs * lines * keys);
    memset(weight_pairs, 0, sizeof *pairs * lines * keys);
}

/* What one block of queries adds to the gradients; the one of the queries is written. */
INLINE void backward_block(const Attention *a, const Gradients *of, const Scratch *own, int64_t pair, int64_t first,
                           int64_t count, int64_t visible) {
    int64_t keys = padded(a->keys), width = padded(a->width), value_width = padded(a->value_width);
    int64_t b = pair / a->heads, h = pair % a->heads, line = pair * a->queries + first;
    const float *weights = a->weights ? a->weights + line * keys : own->weights;
    if (!a->weights) weigh(a, own, own->weights, NULL, pair, first, count, visible);
    bf16_products(own->scores, keys, own->output, whole(a->value_width), own->value_columns, keys,
                    whole(a->value_width), padded(visible), count, 0);
    if (a->random_bits) {
        drop_rows(a, own->scores, own->scores, line * a->keys, count, visible);
        drop_rows(a, own->dropped, weights, line * a->keys, count, visible);
    }
    softmax_back(a, own, weights, a->random_bits ? own->dropped : weights, count, visible);
    bf16_products(own->result, width, own->bf16, whole(keys), own->key_pairs, width, whole(visible), width, count, 0);
    rotate_rows(a, own->result, b, first, count, 1, 1);
    int64_t of_query = b * a->queries * of->query_step + h * a->width;
    store_rows(of->query, of_query + first * of->query_step, of->query_step, own->result, count, a->width, 0);
    bf16_products(own->of_key, keys, own->query_transposed, whole(count), own->pairs, keys, whole(count), padded(visible),
                    width, 1);
    bf16_products(own->of_value, keys, own->output_transposed, whole(count), own->weight_pairs, keys, whole(count),
                    padded(visible), value_width, 1);
}

INLINE void backward_head(const Attention *a, const void *gradient, const int64_t *strides, const Gradients *of,
                          char *scratch, int64_t pair) {
    int64_t b = pair / a->heads, h = pair % a->heads, block = block_of(a), known = visible_keys(a, pair, 0, a->queries);
    int64_t keys = padded(a->keys), width = padded(a->width), value_width = padded(a->value_width);
    int64_t of_query = b * a->queries * of->query_step + h * a->width;
    int64_t of_key = b * a->keys * of->key_step + h * a->width;
    int64_t of_value = b * a->keys * of->value_step + h * a->value_width;
    Scratch own;
    lay_out(a, scratch, &own);
    fetch_head(a, gradient, strides, pair + 1, 0);
    fetch_rows(of->query, of_query, a->queries, a->width, of->query_step, 0, 1);
    fetch_rows(of->key, of_key, a->keys, a->width, of->key_step, 0, 1);
    fetch_rows(of->value, of_value, a->keys, a->value_width, of->value_step, 0, 1);
    load_keys(a, &own, pair, known);
    if (!a->weights) rotate_in_pairs(a, own.key_columns, own.key, a->width);
    rotate_in_pairs(a, own.value_columns, own.value, a->value_width);
    pair_rows(own.key_pairs, own.key, whole(a->width), whole(known), width);
    memset(own.of_key, 0, sizeof(float) * width * keys);
    memset(own.of_value, 0, sizeof(float) * value_width * keys);
    for (int64_t first = 0; first < a->queries; first += block) {
        int64_t end = smaller_of(first + block, a->queries), count = end - first;
        const uint16_t *flow = (const uint16_t *)gradient + head_offset(strides, b, h) + first * strides[2];
        load_queries(a, own.query, b, h, first, count);
        load_whole_rows(own.output, flow, strides[2], count, a->value_width, whole(count));
        rotate_whole_rows(own.query_transposed, own.pairs, own.query, whole(a->width), count, width);
        rotate_whole_rows(own.output_transposed, own.pairs, own.output, whole(a->value_width), count, value_width);
        backward_block(a, of, &own, pair, first, count, visible_keys(a, pair, first, end));
    }
    store_columns(a, of->key, of_key, of->key_step, own.result, own.of_key, a->width, b, 1);
    store_columns(a, of->value, of_value, of->value_step, own.result, own.of_value, a->value_width, b, 0);
}

typedef struct {
    const Attention *attention;
    const void *gradient;
    const int64_t *strides;
    const Gradients *of;
    char *scratch;
    int64_t per_thread; /* bytes of it for each thread */
} Job;

static void backward_share(const void *job, int64_t pair, int64_t thread) {
    const Job *b = job;
    unsigned before = begin_with_tiles();
    backward_head(b->attention, b->gradient, b->strides, b->of, b->scratch + b->per_thread * thread, pair);
    end_with_tiles(before);
}

int attention_backward_in_tiles(const Attention *a, const void *gradient, const int64_t *strides, const Gradients *of) {
    Scratch parts;
    int64_t per_thread = lay_out(a, 0, &parts);
    char *scratch = aligned_alloc(64, per_thread * a->threads);
    if (!scratch) return 1;
    Job job = {a, gradient, strides, of, scratch, per_thread};
    share_out(a->threads, a->batch * a->heads, heads_per_turn(a), backward_share, &job);
    free(scratch);
    return 0;
}
#endif
