/* Matrices in bfloat16, or float32 where `wide`, as panels of eight-bit weights. */
#ifndef DIKKAT_BYTE_PACKING_H
#define DIKKAT_BYTE_PACKING_H

#include "quantized.h"

INLINE const void *entry(const void *from, int64_t at, int wide) { return (const char *)from + at * (wide ? 4 : 2); }

/* A panel of which output o has the weights of row o; `line` holds `width` bytes. */
INLINE void pack_rows(int8_t *to, float *scale, int32_t *shift, const void *weight, int64_t step, int64_t outputs,
                      int64_t inputs, int64_t width, int8_t *line, int wide) {
    memset(to, 0, BYTE_PANEL * width);
    for (int64_t o = 0; o < outputs; o++) {
        const void *from = entry(weight, o * step, wide);
        int32_t total = 0;
        scale[o] = scale_of_row(from, inputs, wide);
        float share = share_of(scale[o]);
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < inputs; i++) {
            int32_t rounded = (int32_t)nearbyintf(load(from, i, wide) * share);
            line[i] = (int8_t)rounded;
            total += rounded;
        }
        for (int64_t i = inputs; i < width; i++) line[i] = 0;
        for (int64_t quad = 0; quad < width / QUAD; quad++)
            memcpy(to + (quad * BYTE_PANEL + o) * QUAD, line + quad * QUAD, QUAD);
        shift[o] = SHIFT * total;
    }
}

/* To four bytes of each output, from four rows; adds their sums. */
INLINE void pack_four(uint32_t *to, int32_t *sums, const float *share, const void *from, int64_t step, int64_t outputs,
                      int wide, const int rows) {
#pragma omp simd
    for (int64_t o = 0; o < outputs; o++) {
        uint32_t four = 0;
#pragma GCC unroll 4
        for (int row = 0; row < rows; row++) {
            int32_t rounded = (int32_t)nearbyintf(load(from, row * step + o, wide) * share[o]);
            four |= ((uint32_t)rounded & 255) << 8 * row;
            sums[o] += rounded;
        }
        to[o] = four;
    }
}

/* A panel of which output o has the weights of column o. */
INLINE void pack_columns(int8_t *to, float *scale, int32_t *shift, const void *weight, int64_t step, int64_t outputs,
                         int64_t inputs, int64_t width, int wide) {
    float largest[BYTE_PANEL] = {0}, sum[BYTE_PANEL] = {0}, share[BYTE_PANEL];
    for (int64_t i = 0; i < inputs; i++)
#pragma omp simd
        for (int64_t o = 0; o < outputs; o++) {
            float each = load(weight, i * step + o, wide), size = fabsf(each);
            largest[o] = size > largest[o] ? size : largest[o];
            sum[o] += each * 0.0f;
        }
    for (int64_t o = 0; o < outputs; o++) {
        scale[o] = largest[o] / 127.0f + sum[o];
        share[o] = share_of(scale[o]);
    }
    int32_t sums[BYTE_PANEL] = {0};
    memset(to, 0, BYTE_PANEL * width);
    for (int64_t i = 0; i < inputs; i += QUAD) {
        uint32_t *four = (uint32_t *)(to + i * BYTE_PANEL);
        const void *from = entry(weight, i * step, wide);
        switch (inputs - i) {
        case 1: pack_four(four, sums, share, from, step, outputs, wide, 1); break;
        case 2: pack_four(four, sums, share, from, step, outputs, wide, 2); break;
        case 3: pack_four(four, sums, share, from, step, outputs, wide, 3); break;
        default: pack_four(four, sums, share, from, step, outputs, wide, 4);
        }
    }
    for (int64_t o = 0; o < outputs; o++) shift[o] = SHIFT * sums[o];
}

#endif
