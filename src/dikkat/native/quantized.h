/* Linear layers in eight bits: weights with a scale for each output, activations with a scale for each row, both the
 * largest magnitude over 127, and exact sums of their products in 32 bits. So a row has the same bits in any company.
 */
#ifndef DIKKAT_QUANTIZED_H
#define DIKKAT_QUANTIZED_H

#include "vectors.h"

/* Outputs of a panel of eight-bit weights, inputs side by side in each, and rows that are multiplied at once. */
#define BYTE_PANEL (4 * LANES)
#define QUAD 4
#define BYTE_ROWS 6
/* Added to activations, since the instruction multiplies unsigned by signed bytes; taken off the sums again. */
#define SHIFT 128

/* Made by native/quantized.py, pack. */
typedef struct {
    const int8_t *weight; /* (outputs / 64, padded inputs / 4, 64, 4), zeros where there are none; null: in 32 bits */
    const float *scale;   /* (outputs), in whole panels */
    const int32_t *shift; /* (outputs), in whole panels: the sum of the weights of an output, times 128 */
} Packed;

/* In numbers of four bytes, what quantized_rows() needs for itself. */
INLINE int64_t quantized_scratch(int64_t rows, int64_t inputs) { return padded(rows * padded(inputs) / 4) + padded(rows); }

/* Bytes of a row that ends in zeros; returns its scale, which is no number where an entry is none. */
INLINE float quantized_row(uint8_t *to, const float *from, int64_t width) {
    float largest = 0.0f, total = 0.0f;
#pragma omp simd reduction(max : largest) reduction(+ : total)
    for (int64_t i = 0; i < width; i++) {
        float size = fabsf(from[i]);
        largest = size > largest ? size : largest;
        total += from[i] * 0.0f;
    }
    float share = largest > 0.0f ? 127.0f / largest : 0.0f;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) to[i] = (uint8_t)((int32_t)nearbyintf(from[i] * share) + SHIFT);
    return largest / 127.0f + total;
}

/* sums += the products of four unsigned with four signed bytes, in each lane. Written as an instruction, since compilers
 * copy the sums from register to register around the intrinsic, which costs as much as the products. */
INLINE ivec add_products_of_bytes(ivec sums, ivec entries, ivec weight) {
#ifdef __AVX512VNNI__
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(entries), "v"(weight));
#else
    for (int byte = 0; byte < QUAD; byte++)
        sums += (entries << 8 * (QUAD - 1 - byte) >> 24 & 255) * (weight << 8 * (QUAD - 1 - byte) >> 24);
#endif
    return sums;
}

/* The sums of one panel for `rows` rows; `rows` is a constant where this is used. */
INLINE void byte_products(ivec sums[BYTE_ROWS][4], const uint8_t *from, int64_t from_step, const int8_t *weight,
                          int64_t quads, const int rows) {
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) sums[r][i] = (ivec){0};
    for (int64_t quad = 0; quad < quads; quad++, from += QUAD, weight += BYTE_PANEL * QUAD) {
        ivec w[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) w[i] = *(const loose_ivec *)(weight + i * LANES * QUAD);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, from + r * from_step, sizeof four);
            ivec entries = (ivec){0} + four;
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) sums[r][i] = add_products_of_bytes(sums[r][i], entries, w[i]);
        }
    }
}

/* The outputs of a panel, as many as there are, of `rows` rows. */
INLINE void byte_block(float *to, int64_t to_step, const uint8_t *from, int64_t from_step, const float *scales,
                       const Packed *packed, int64_t first, int64_t quads, const vec *bias, int64_t outputs,
                       const int rows) {
    ivec sums[BYTE_ROWS][4];
    byte_products(sums, from, from_step, packed->weight + first * quads * QUAD, quads, rows);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        vec found[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            ivec whole = sums[r][i] - *(const ivec *)(packed->shift + first + i * LANES);
            vec scale = scales[r] * *(const vec *)(packed->scale + first + i * LANES);
            found[i] = __builtin_convertvector(whole, vec) * scale + bias[i];
        }
        if (outputs == BYTE_PANEL)
            memcpy(to + r * to_step, found, sizeof found);
        else
            memcpy(to + r * to_step, found, sizeof(float) * outputs);
    }
}

/* Twin: F.linear, on what native/quantized.py rounds. Outputs `start` to `end` of all rows, `start` a multiple of
 * BYTE_PANEL; rows of `from` end in zeros; `scratch` holds quantized_scratch() numbers. */
static void quantized_rows(float *to, int64_t to_step, const float *from, int64_t from_step, const Packed *packed,
                           const float *bias, int64_t inputs, int64_t rows, int64_t start, int64_t end, float *scratch) {
    int64_t width = padded(inputs), quads = width / QUAD;
    float *scales = scratch;
    uint8_t *bytes = (uint8_t *)(scratch + padded(rows));
    for (int64_t row = 0; row < rows; row++)
        scales[row] = quantized_row(bytes + row * width, from + row * from_step, width);
    for (int64_t first = start; first < end; first += BYTE_PANEL) {
        int64_t outputs = end - first < BYTE_PANEL ? end - first : BYTE_PANEL;
        vec added[4] = {{0}};
        if (bias) memcpy(added, bias + first, sizeof(float) * outputs);
        for (int64_t row = 0; row < rows; row += BYTE_ROWS) {
            float *there = to + row * to_step + first;
            const uint8_t *here = bytes + row * width;
            const float *by = scales + row;
#define BLOCK_OF(n) byte_block(there, to_step, here, width, by, packed, first, quads, added, outputs, n)
            switch (rows - row) {
            case 1: BLOCK_OF(1); break;
            case 2: BLOCK_OF(2); break;
            case 3: BLOCK_OF(3); break;
            case 4: BLOCK_OF(4); break;
            case 5: BLOCK_OF(5); break;
            default: BLOCK_OF(BYTE_ROWS);
            }
#undef BLOCK_OF
        }
    }
}

#endif
