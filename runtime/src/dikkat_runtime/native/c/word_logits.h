/* Logits of some words alone: rows of the output matrix as they lie, wherever they are. A logit has the same bits as in the
 * product with the whole matrix.
 */
#ifndef DIKKAT_WORD_LOGITS_H
#define DIKKAT_WORD_LOGITS_H

#include "linear.h"

/* Rows that are multiplied with OUTPUTS words at once. */
#define WORD_ROWS 2
/* Bytes of a word's weights are so many, or a multiple: whole vectors on any processor. */
#define WORD_BYTES 64

/* The words that the translation of each sentence may consist of. */
typedef struct {
    const int64_t *starts; /* (sentences + 1): those of a sentence are from starts[sentence] on; all, or V of them */
    const int32_t *ids;    /* rising within a sentence */
    const int8_t *weights; /* (V, D in whole WORD_BYTES), the output matrix in eight bits; null: in 32 bits */
    const float *scales, *biases; /* of each of `ids`, as those of the output matrix in eight bits */
    const int32_t *shifts;
} Words;

/* Entries of a row in the order in which bytes of weights are multiplied as they lie; returns its scale. `to` holds
 * ENTRY_BYTES for each of `width`, and `inputs` is a multiple of PADDING. */
INLINE float quantized_in_order(uint8_t *to, const float *from, int64_t inputs, int64_t width) {
    uint8_t *bytes = to + (ENTRY_BYTES - 1) * width;
    float scale = scale_of_row(from, inputs, 1), share = share_of(scale);
#pragma omp simd
    for (int64_t i = 0; i < inputs; i++) bytes[i] = (uint8_t)((int32_t)nearbyintf(from[i] * share) + SHIFT);
    memset(bytes + inputs, SHIFT, width - inputs);
#if !MULTIPLIES_BYTES
    for (int64_t at = 0; at < width; at += LANES * QUAD) {
        ivec four = *(const loose_ivec *)(bytes + at);
        *(loose_ivec *)(to + 2 * at) = four & 0x00ff00ff;
        *(loose_ivec *)(to + 2 * at + LANES * QUAD) = four >> 8 & 0x00ff00ff;
    }
#endif
    return scale;
}

/* LANES fours of entries of such a row. */
INLINE Fours fours_in_order(const uint8_t *from) {
#if MULTIPLIES_BYTES
    return *(const loose_ivec *)from;
#else
    return (Fours){(halves) * (const loose_ivec *)from, (halves) * (const loose_ivec *)(from + LANES * QUAD)};
#endif
}

/* Sums of the lanes of OUTPUTS vectors. */
INLINE void integer_lane_sums(int32_t *to, const ivec *v) {
    ivec above = HALVED(v[0], v[1], LANES / 2), below = HALVED(v[2], v[3], LANES / 2), sums = HALVED(above, below, LANES / 4);
#if LANES == 16
    sums += SWAPPED(sums, 2);
#endif
#if LANES >= 8
    sums += SWAPPED(sums, 1);
#endif
    for (int i = 0; i < OUTPUTS; i++) to[i] = sums[LANES / OUTPUTS * i];
}

/* Products of `rows` rows, a constant where this is used, with OUTPUTS words: totals of row r from r * LANES on. */
INLINE void word_products(int32_t *totals, const uint8_t *entries, int64_t width, const int8_t *const *weights, const int rows) {
    ivec sums[WORD_ROWS][OUTPUTS] = {{{0}}};
    for (int64_t at = 0; at < width; at += LANES * QUAD) {
        Fours row[WORD_ROWS];
#pragma GCC unroll 2
        for (int r = 0; r < rows; r++) row[r] = fours_in_order(entries + (r * width + at) * ENTRY_BYTES);
#pragma GCC unroll 4
        for (int i = 0; i < OUTPUTS; i++) {
            Fours w = signed_fours(*(const loose_ivec *)(weights[i] + at));
#pragma GCC unroll 2
            for (int r = 0; r < rows; r++) sums[r][i] = add_products(sums[r][i], row[r], w);
        }
    }
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++) integer_lane_sums(totals + r * LANES, sums[r]);
}

/* Logits `start` to `end` of the words from `first` on, of `rows` rows, which are rounded already. */
INLINE void word_block(float *to, int64_t to_step, const uint8_t *entries, const float *scales, int64_t width,
                       const Words *words, int64_t first, int64_t start, int64_t end, const int rows) {
    for (int64_t at = start; at < end; at += LANES) {
        int64_t some = smaller_of(end - at, LANES), from = first + at;
        int32_t totals[WORD_ROWS * LANES];
        for (int64_t i = 0; i < LANES; i += OUTPUTS) {
            const int8_t *weights[OUTPUTS];
            for (int j = 0; j < OUTPUTS; j++) weights[j] = words->weights + words->ids[from + smaller_of(i + j, some - 1)] * width;
            word_products(totals + i, entries, width, weights, rows);
        }
        vec word_scales = {0}, biases = {0};
        ivec shifts = {0};
        memcpy(&word_scales, words->scales + from, sizeof(float) * some);
        memcpy(&biases, words->biases + from, sizeof(float) * some);
        memcpy(&shifts, words->shifts + from, sizeof(int32_t) * some);
        for (int r = 0; r < rows; r++) {
            vec scale = scales[r] * word_scales;
            vec logits = __builtin_convertvector(*(const loose_ivec *)(totals + r * LANES) - shifts, vec) * scale + biases;
            memcpy(to + r * to_step + at, &logits, sizeof(float) * some);
        }
    }
}

/* Logits `start` to `end` of the words from `first` on, of any rows; `scratch` holds quantized_scratch() numbers. */
static void word_logits_in_bytes(float *to, int64_t to_step, const float *from, int64_t from_step, const Words *words,
                                 int64_t first, int64_t inputs, int64_t rows, int64_t start, int64_t end, float *scratch) {
    int64_t width = groups_of(inputs, WORD_BYTES) * WORD_BYTES;
    uint8_t *entries = (uint8_t *)scratch;
    for (int64_t row = 0; row < rows; row += WORD_ROWS) {
        int64_t some = smaller_of(rows - row, WORD_ROWS);
        float scales[WORD_ROWS], *there = to + row * to_step;
        for (int64_t r = 0; r < some; r++)
            scales[r] = quantized_in_order(entries + r * width * ENTRY_BYTES, from + (row + r) * from_step, padded(inputs), width);
        if (some == WORD_ROWS)
            word_block(there, to_step, entries, scales, width, words, first, start, end, WORD_ROWS);
        else
            word_block(there, to_step, entries, scales, width, words, first, start, end, 1);
    }
}

/* Logits `start` to `end`, whole OUTPUTS but for the last, of the `count` words from `first` on, of rows of a sentence. */
INLINE void word_logits(float *to, int64_t to_step, const float *from, int64_t from_step, const Words *words,
                        int64_t first, int64_t count, const Linear *output, int64_t rows, int64_t start, int64_t end,
                        float *scratch) {
    if (words->weights)
        word_logits_in_bytes(to, to_step, from, from_step, words, first, output->inputs, rows, start, end, scratch);
    else
        picked_few_rows(to, to_step, from, from_step, output, words->ids + first, count, rows, start, end);
}

#endif
