/* The memory-bound chains of a training step, each in one pass over memory: the arithmetic of attention over short
 * sequences, residual + dropout, and softmax + smoothed cross-entropy with its gradient.
 *
 * Every kernel has a PyTorch twin (named above it) that gives the same result up to rounding. Tensors are bfloat16, or
 * float32 where `wide`; sums are float32. Work is cut in fixed shares, so the same input gives the same bits.
 */
#include "vectors.h"

#include <omp.h>
#include <stdlib.h>

/* Rows and vectors that the innermost product computes side by side, at most: its sums stay in registers. */
#define TALLEST 12
#define WIDEST 4

INLINE float widened(uint16_t narrow) {
    uint32_t bits = (uint32_t)narrow << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* Round to nearest, ties to even. */
INLINE uint16_t narrowed(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

INLINE float load(const void *from, int64_t at, int wide) {
    return wide ? ((const float *)from)[at] : widened(((const uint16_t *)from)[at]);
}

INLINE void store(void *to, int64_t at, float value, int wide) {
    if (wide)
        ((float *)to)[at] = value;
    else
        ((uint16_t *)to)[at] = narrowed(value);
}

/* Copies `rows` strided rows of `width` into float32 rows padded with zeros. */
INLINE void load_rows(float *to, const void *from, int64_t rows, int64_t width, int64_t stride, int wide) {
    int64_t step = padded(width);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t at = 0; at < step; at++)
            to[row * step + at] = at < width ? load(from, row * stride + at, wide) : 0.0f;
}

/* Writes float32 rows, which are padded, as head `h` of the rows from `first` on of a dense (rows, heads, width). */
INLINE void store_rows(void *to, int64_t first, int64_t heads, int64_t h, const float *from, int64_t rows, int64_t width,
                       int wide) {
    for (int64_t row = 0; row < rows; row++, from += padded(width))
        for (int64_t at = 0; at < width; at++)
            store(to, ((first + row) * heads + h) * width + at, from[at], wide);
}

/* Sixteen numbers of a row, at any address. */
INLINE vec load_vec(const void *from, int64_t at, int wide) {
    vec values;
    if (wide) {
        memcpy(&values, (const float *)from + at, sizeof values);
    } else {
        uint16_t narrow __attribute__((vector_size(2 * LANES)));
        memcpy(&narrow, (const uint16_t *)from + at, sizeof narrow);
        values = (vec)(__builtin_convertvector(narrow, ivec) << 16);
    }
    return values;
}

/* Copies strided rows transposed: (rows, width) to float32 (width, padded rows). */
INLINE void load_columns(float *to, const void *from, int64_t rows, int64_t width, int64_t stride, int wide) {
    int64_t step = padded(rows);
    for (int64_t row = 0; row < step; row += LANES) {
        int64_t at = 0;
        for (; at + LANES <= width; at += LANES) {
            vec block[LANES];
            for (int i = 0; i < LANES; i++)
                block[i] = row + i < rows ? load_vec(from, (row + i) * stride + at, wide) : (vec){0};
            transpose(block);
            for (int i = 0; i < LANES; i++) *(vec *)(to + (at + i) * step + row) = block[i];
        }
        for (; at < width; at++)
            for (int64_t i = row; i < row + LANES; i++)
                to[at * step + i] = i < rows ? load(from, i * stride + at, wide) : 0.0f;
    }
}

/* to (R, C vectors) = rows (R, inner) x matrix (inner, C vectors); R and C are constants where this is used. */
INLINE void tile(float *to, int64_t to_step, const float *rows, int64_t row_step, int64_t hop, const float *matrix,
                 int64_t inner, int64_t step, const int R, const int C) {
    vec sums[TALLEST][WIDEST];
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int c = 0; c < C; c++) sums[r][c] = (vec){0};
    for (int64_t i = 0; i < inner; i++, rows += hop, matrix += step)
#pragma GCC unroll 12
        for (int r = 0; r < R; r++)
#pragma GCC unroll 4
            for (int c = 0; c < C; c++) sums[r][c] += rows[r * row_step] * *(const vec *)(matrix + c * LANES);
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int c = 0; c < C; c++) *(vec *)(to + r * to_step + c * LANES) = sums[r][c];
}

/* to (count, step) = rows (count, inner) x matrix (inner, step); `step` is a multiple of LANES, the entries of a row are
 * `hop` apart. Every sum is in rising order. The last tile of rows may begin with rows that are done. */
static void rows_times_matrix(float *to, int64_t to_step, const float *rows, int64_t row_step, int64_t hop,
                              const float *matrix, int64_t inner, int64_t step, int64_t count) {
#define COLUMNS(R, C)                                                                                                  \
    for (; at + (C) * LANES <= step; at += (C) * LANES)                                                                \
        for (int64_t next = 0; next < count;) {                                                                        \
            int64_t row = count < (R) || next + (R) <= count ? next : count - (R);                                     \
            float *there = to + row * to_step + at;                                                                    \
            const float *here = rows + row * row_step;                                                                 \
            if (count < (R))                                                                                           \
                tile(there, to_step, here, row_step, hop, matrix + at, inner, step, 1, C), next++;                     \
            else                                                                                                       \
                tile(there, to_step, here, row_step, hop, matrix + at, inner, step, R, C), next = row + (R);           \
        }
    int64_t at = 0;
    COLUMNS(6, 4)
    COLUMNS(8, 2)
    COLUMNS(12, 1)
#undef COLUMNS
}

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
    float *weights; /* (B, H, T, S), before dropout */
    int64_t wide, threads;
} Attention;

INLINE const void *shifted(const void *from, int64_t entries, int wide) {
    return (const char *)from + entries * (wide ? 4 : 2);
}

INLINE int64_t head_offset(const int64_t *strides, int64_t b, int64_t h) { return b * strides[0] + h * strides[1]; }

INLINE void drop_row(float *row, int64_t keys, const int16_t *draws, int64_t threshold, float scale) {
    for (int64_t s = 0; s < keys; s++) row[s] = draws[s] >= threshold ? row[s] * scale : 0.0f;
}

/* Each stage runs over all rows before the next: a row alone is one long chain in which every step waits for the last. */
INLINE void attention_forward_head(const Attention *a, void *output, float *scratch, int64_t pair, int wide) {
    int64_t b = pair / a->heads, h = pair % a->heads;
    int64_t keys = padded(a->keys), width = padded(a->width), value_width = padded(a->value_width);
    float *query = scratch, *key = query + a->queries * width, *value = key + a->width * keys;
    float *rows = value + a->keys * value_width, *result = rows + a->queries * keys;
    load_rows(query, shifted(a->query, head_offset(a->query_strides, b, h), wide), a->queries, a->width,
              a->query_strides[2], wide);
    load_columns(key, shifted(a->key, head_offset(a->key_strides, b, h), wide), a->keys, a->width, a->key_strides[2],
                 wide);
    load_rows(value, shifted(a->value, head_offset(a->value_strides, b, h), wide), a->keys, a->value_width,
              a->value_strides[2], wide);
    const uint8_t *mask = a->mask ? a->mask + head_offset(a->mask_strides, b, h) : 0;
    rows_times_matrix(rows, keys, query, width, 1, key, a->width, keys, a->queries);
    for (int64_t t = 0; t < a->queries; t++) {
        int64_t line = (pair * a->queries + t) * a->keys;
        float *row = rows + t * keys;
        softmax_row(row, a->keys, a->beta, mask ? mask + t * a->mask_strides[2] : 0, a->mask_strides[3]);
        memcpy(a->weights + line, row, sizeof(float) * a->keys);
        if (a->draws) drop_row(row, a->keys, a->draws + line, a->threshold, a->scale);
    }
    rows_times_matrix(result, value_width, rows, keys, 1, value, a->keys, value_width, a->queries);
    store_rows(output, b * a->queries, a->heads, h, result, a->queries, a->value_width, wide);
}

/* Twin: nn/explicit.py, _ExplicitAttention.forward. `output` is (B, T, H, E). Returns 0, or 1 for want of memory. */
int attention_forward(const Attention *a, void *output) {
    int64_t each = padded(a->queries * (padded(a->width) + padded(a->keys) + padded(a->value_width)) +
                          a->width * padded(a->keys) + a->keys * padded(a->value_width));
    float *scratch = aligned_alloc(64, sizeof(float) * each * a->threads);
    if (!scratch) return 1;
#pragma omp parallel for schedule(static) num_threads(a->threads)
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

INLINE void attention_backward_head(const Attention *a, const void *gradient, const int64_t *strides, void *of_query,
                                    void *of_key, void *of_value, float *scratch, int64_t pair, int wide) {
    int64_t b = pair / a->heads, h = pair % a->heads;
    int64_t keys = padded(a->keys), width = padded(a->width), value_width = padded(a->value_width);
    float *query = scratch, *key = query + a->queries * width, *value = key + a->keys * width;
    float *output = value + a->value_width * keys, *scores = output + a->queries * value_width;
    float *used = scores + a->queries * keys, *result = used + a->queries * keys;
    load_rows(query, shifted(a->query, head_offset(a->query_strides, b, h), wide), a->queries, a->width,
              a->query_strides[2], wide);
    load_rows(key, shifted(a->key, head_offset(a->key_strides, b, h), wide), a->keys, a->width, a->key_strides[2],
              wide);
    load_columns(value, shifted(a->value, head_offset(a->value_strides, b, h), wide), a->keys, a->value_width,
                 a->value_strides[2], wide);
    load_rows(output, shifted(gradient, head_offset(strides, b, h), wide), a->queries, a->value_width, strides[2],
              wide);
    rows_times_matrix(scores, keys, output, value_width, 1, value, a->value_width, keys, a->queries);
    for (int64_t t = 0; t < a->queries; t++) {
        int64_t line = (pair * a->queries + t) * a->keys;
        const float *weights = a->weights + line;
        float *row = scores + t * keys, *kept = used + t * keys;
        memcpy(kept, weights, sizeof(float) * a->keys);
        if (a->draws) {
            drop_row(row, a->keys, a->draws + line, a->threshold, a->scale);
            drop_row(kept, a->keys, a->draws + line, a->threshold, a->scale);
        }
        /* d softmax: w (g - sum(g w)); a masked entry has weight 0, so nothing flows through it */
        float mean = 0.0f;
#pragma omp simd reduction(+ : mean)
        for (int64_t s = 0; s < a->keys; s++) mean += weights[s] * row[s];
        for (int64_t s = 0; s < a->keys; s++) row[s] = weights[s] * (row[s] - mean) * a->beta;
    }
    rows_times_matrix(result, width, scores, keys, 1, key, a->keys, width, a->queries);
    store_rows(of_query, b * a->queries, a->heads, h, result, a->queries, a->width, wide);
    rows_times_matrix(result, width, scores, 1, keys, query, a->queries, width, a->keys);
    store_rows(of_key, b * a->keys, a->heads, h, result, a->keys, a->width, wide);
    rows_times_matrix(result, value_width, used, 1, keys, output, a->queries, value_width, a->keys);
    store_rows(of_value, b * a->keys, a->heads, h, result, a->keys, a->value_width, wide);
}

/* Twin: nn/explicit.py, _ExplicitAttention.backward. `gradient` (B, H, T, E) has `strides` of b, h and t; the others
 * are (B, T, H, K), (B, S, H, K) and (B, S, H, E). Returns 0, or 1 for want of memory. */
int attention_backward(const Attention *a, const void *gradient, const int64_t *strides, void *of_query, void *of_key,
                       void *of_value) {
    int64_t keys = padded(a->keys), width = padded(a->width), value_width = padded(a->value_width);
    int64_t longer = a->queries > a->keys ? a->queries : a->keys, wider = width > value_width ? width : value_width;
    int64_t each = padded((a->queries + a->keys) * width + a->value_width * keys + a->queries * value_width +
                          2 * a->queries * keys + longer * wider);
    float *scratch = aligned_alloc(64, sizeof(float) * each * a->threads);
    if (!scratch) return 1;
#pragma omp parallel for schedule(static) num_threads(a->threads)
    for (int64_t pair = 0; pair < a->batch * a->heads; pair++) {
        float *own = scratch + each * omp_get_thread_num();
        if (a->wide)
            attention_backward_head(a, gradient, strides, of_query, of_key, of_value, own, pair, 1);
        else
            attention_backward_head(a, gradient, strides, of_query, of_key, of_value, own, pair, 0);
    }
    free(scratch);
    return 0;
}

INLINE void add_dropped_entries(void *output, const void *rest, const void *x, const int16_t *draws, int64_t threshold,
                                float scale, int64_t from, int64_t to, int wide) {
#pragma omp simd
    for (int64_t i = from; i < to; i++) {
        float kept = draws[i] >= threshold ? load(x, i, wide) * scale : 0.0f;
        store(output, i, (rest ? load(rest, i, wide) : 0.0f) + kept, wide);
    }
}

/* Twin: nn/dropout.py, `rest + x * keep_mask`. output = rest + dropout(x); `rest` may be null. */
void add_dropped(void *output, const void *rest, const void *x, const int16_t *draws, int64_t threshold, float scale,
                 int64_t entries, int wide, int threads) {
    int64_t block = 1 << 12;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t from = 0; from < entries; from += block) {
        int64_t to = from + block < entries ? from + block : entries;
        if (wide)
            add_dropped_entries(output, rest, x, draws, threshold, scale, from, to, 1);
        else if (rest)
            add_dropped_entries(output, rest, x, draws, threshold, scale, from, to, 0);
        else
            add_dropped_entries(output, 0, x, draws, threshold, scale, from, to, 0);
    }
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

/* Twin: training/objective.py, smoothed_softmax. In place: (rows, vocab) logits to the gradient of the smoothed loss;
 * `loss` and `likelihood` are (rows). Returns 0, or 1 for want of memory. */
int smoothed_softmax(void *logits, const int64_t *targets, int64_t rows, int64_t vocab, float smoothing, float *loss,
                     float *likelihood, int wide, int threads) {
    int64_t each = padded(vocab);
    float *scratch = aligned_alloc(64, sizeof(float) * each * threads);
    if (!scratch) return 1;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < rows; r++) {
        void *own = (char *)logits + r * vocab * (wide ? 4 : 2);
        float *row = scratch + each * omp_get_thread_num();
        if (wide)
            smoothed_softmax_row(own, vocab, targets[r], smoothing, loss + r, likelihood + r, row, 1);
        else
            smoothed_softmax_row(own, vocab, targets[r], smoothing, loss + r, likelihood + r, row, 0);
    }
    free(scratch);
    return 0;
}
