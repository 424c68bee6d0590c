/* Matrices in bfloat16, or float32 where `is_float32`, as panels of eight-bit weights. */
#ifndef DIKKAT_BYTE_PACKING_H
#define DIKKAT_BYTE_PACKING_H

#include "quantized.h"

/* Rows ahead of the present one that are prefetched. */
#define PREFETCHED_PACKING_ROWS 16

/* The sum of the weights of an output, as `shift` has it. Where a weight is no number neither is any product, but sums of
 * what it is rounded to are beyond 32 bits: so they are unsigned. */
INLINE int32_t shift_of(uint32_t sum) { return (int32_t)(SHIFT * sum); }

/* A row of weights as bytes, with zeros after them up to `width`; returns their sum. */
INLINE uint32_t signed_row(int8_t *to, const void *from, float share, int64_t inputs, int64_t width, int is_float32) {
    uint32_t total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < inputs; i++) {
        int32_t rounded = (int32_t)nearbyintf(load(from, i, is_float32) * share);
        to[i] = (int8_t)rounded;
        total += (uint32_t)rounded;
    }
    memset(to + inputs, 0, width - inputs);
    return total;
}

/* LANES fours of each of LANES rows of bytes, `quads` of them there, side by side with those of the other rows. */
INLINE void pack_tile(int8_t *to, const int8_t *lines, int64_t width, const int64_t quads) {
    vec tile[LANES] = {{0}};
    for (int i = 0; i < LANES; i++) memcpy(&tile[i], lines + i * width, quads * QUAD);
    transpose(tile);
    for (int i = 0; i < quads; i++) memcpy(to + i * BYTE_PANEL * QUAD, &tile[i], sizeof tile[i]);
}

/* Outputs `first` to `first` + LANES of a panel, from as many rows of bytes. */
INLINE void pack_lines(int8_t *to, const int8_t *lines, int64_t width, int64_t first) {
    int64_t at = 0;
    to += first * QUAD;
    for (; at + LANES * QUAD <= width; at += LANES * QUAD) pack_tile(to + at * BYTE_PANEL, lines + at, width, LANES);
    if (at < width) pack_tile(to + at * BYTE_PANEL, lines + at, width, (width - at) / QUAD);
}

/* A panel of which output o has the weights of row o; `lines` holds LANES rows of `width` bytes. */
INLINE void pack_rows(int8_t *to, float *scale, int32_t *shift, const void *weight, int64_t step, int64_t outputs,
                      int64_t inputs, int64_t width, int8_t *lines, int is_float32) {
    for (int64_t first = 0; first < BYTE_PANEL; first += LANES) {
        for (int64_t o = first; o < first + LANES; o++) {
            int8_t *line = lines + (o - first) * width;
            if (o < outputs) {
                const void *from = entry(weight, o * step, is_float32);
                scale[o] = scale_of_row(from, inputs, is_float32);
                shift[o] = shift_of(signed_row(line, from, share_of(scale[o]), inputs, width, is_float32));
            } else {
                memset(line, 0, width);
            }
        }
        pack_lines(to, lines, width, first);
    }
}

/* To four bytes of each output, from four rows; adds their sums. */
INLINE void pack_four(uint32_t *to, uint32_t *sums, const float *share, const void *from, int64_t step, int64_t outputs,
                      int is_float32, const int rows) {
#pragma omp simd
    for (int64_t o = 0; o < outputs; o++) {
        uint32_t four = 0;
#pragma GCC unroll 4
        for (int row = 0; row < rows; row++) {
            int32_t rounded = (int32_t)nearbyintf(load(from, row * step + o, is_float32) * share[o]);
            four |= ((uint32_t)rounded & 255) << 8 * row;
            sums[o] += (uint32_t)rounded;
        }
        to[o] = four;
    }
}

/* A panel of which output o has the weights of column o; `total` gets their sums, unless it is null. */
INLINE void pack_columns(int8_t *to, float *scale, int32_t *shift, float *total, const void *weight, int64_t step,
                         int64_t outputs, int64_t inputs, int64_t width, int is_float32) {
    float largest[BYTE_PANEL] = {0}, sum[BYTE_PANEL] = {0}, share[BYTE_PANEL];
    for (int64_t i = 0; i < inputs; i++) {
        /* rows lie too far apart for the processor to see what comes next */
        for (int64_t at = 0; at < BYTE_PANEL; at += 64 / (is_float32 ? 4 : 2))
            __builtin_prefetch(entry(weight, (i + PREFETCHED_PACKING_ROWS) * step + at, is_float32));
#pragma omp simd
        for (int64_t o = 0; o < outputs; o++) {
            float value = load(weight, i * step + o, is_float32), size = fabsf(value);
            largest[o] = size > largest[o] ? size : largest[o];
            sum[o] += value;
        }
    }
    if (total) memcpy(total, sum, sizeof sum);
    for (int64_t o = 0; o < outputs; o++) {
        scale[o] = largest[o] / 127.0f + sum[o] * 0.0f;
        share[o] = share_of(scale[o]);
    }
    uint32_t sums[BYTE_PANEL] = {0};
    /* where there are no outputs or no inputs; all else is filled below */
    int64_t filled = outputs == BYTE_PANEL ? (inputs + QUAD - 1) / QUAD * QUAD : 0;
    memset(to + BYTE_PANEL * filled, 0, BYTE_PANEL * (width - filled));
    for (int64_t i = 0; i < inputs; i += QUAD) {
        uint32_t *four = (uint32_t *)(to + i * BYTE_PANEL);
        const void *from = entry(weight, i * step, is_float32);
        switch (inputs - i) {
        case 1: pack_four(four, sums, share, from, step, outputs, is_float32, 1); break;
        case 2: pack_four(four, sums, share, from, step, outputs, is_float32, 2); break;
        case 3: pack_four(four, sums, share, from, step, outputs, is_float32, 3); break;
        default: pack_four(four, sums, share, from, step, outputs, is_float32, 4);
        }
    }
    for (int64_t o = 0; o < outputs; o++) shift[o] = shift_of(sums[o]);
}

#endif
