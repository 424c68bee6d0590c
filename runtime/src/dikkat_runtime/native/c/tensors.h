/* Tensors in bfloat16, or float32 where `is_float32`, as what the kernels compute with: float32 rows padded with zeros. */
#ifndef DIKKAT_TENSORS_H
#define DIKKAT_TENSORS_H

#include "vectors.h"

INLINE float from_bf16(uint16_t bf16) {
    uint32_t bits = (uint32_t)bf16 << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* Round to nearest, ties to even. */
INLINE uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/* Where the entry `at` lies. */
INLINE const void *entry(const void *from, int64_t at, int is_float32) { return (const char *)from + at * (is_float32 ? 4 : 2); }

INLINE float load(const void *from, int64_t at, int is_float32) {
    return is_float32 ? ((const float *)from)[at] : from_bf16(((const uint16_t *)from)[at]);
}

INLINE void store(void *to, int64_t at, float value, int is_float32) {
    if (is_float32)
        ((float *)to)[at] = value;
    else
        ((uint16_t *)to)[at] = to_bf16(value);
}

/* A vector of a row, at any address. */
INLINE vec load_vec(const void *from, int64_t at, int is_float32) {
    vec values;
    bf16_vec bf16;
    if (is_float32) {
        memcpy(&values, (const float *)from + at, sizeof values);
        return values;
    }
    memcpy(&bf16, (const uint16_t *)from + at, sizeof bf16);
    return (vec)(longer_halves(bf16) << 16);
}

/* What is left of numbers that are stored in bfloat16: rounded to nearest, ties to even. */
INLINE vec rounded_to_bf16(vec values) {
    ivec bits = (ivec)values;
    return (vec)((bits + 0x7fff + ((bits >> 16) & 1)) & -0x10000);
}

/* The same, and only the halves that count. The instruction takes numbers below the smallest normal one for zero. */
INLINE bf16_vec to_bf16_vec(vec values) {
#ifdef __AVX512BF16__
    bf16_vec result;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(result) : "v"(values));
    return result;
#else
    return __builtin_convertvector((ivec)rounded_to_bf16(values) >> 16, bf16_vec);
#endif
}

/* The first `count` numbers of a vector to any address. */
INLINE void store_vec(void *to, int64_t at, vec values, int64_t count, int is_float32) {
    if (is_float32) {
        memcpy((float *)to + at, &values, sizeof(float) * count);
    } else {
        bf16_vec bf16 = to_bf16_vec(values);
        memcpy((uint16_t *)to + at, &bf16, sizeof(uint16_t) * count);
    }
}

/* An output of so many numbers is gone from a core's cache before it is read. */
#define MIN_STREAMED (1 << 20)

#if LANES == 16
/* Two vectors as one whole line of bfloat16, at an address where one begins. The line is not read before it is overwritten
 * and is not kept in the cache; no other thread may rely on it before this one has called `streamed`. */
INLINE void stream_line(void *to, vec low, vec high) {
    __m512i half = _mm512_castsi256_si512((__m256i)to_bf16_vec(low));
    _mm512_stream_si512(to, _mm512_inserti64x4(half, (__m256i)to_bf16_vec(high), 1));
}
#endif

INLINE void streamed(void) {
#if LANES == 16
    _mm_sfence();
#endif
}

/* Copies `rows` strided rows of `width` into float32 rows padded with zeros. */
INLINE void load_rows(float *to, const void *from, int64_t rows, int64_t width, int64_t stride, int is_float32) {
    for (int64_t row = 0; row < rows; row++, to += padded(width)) {
        int64_t at = 0;
        for (; at + LANES <= width; at += LANES) *(vec *)(to + at) = load_vec(from, row * stride + at, is_float32);
        for (int64_t next = at; next < padded(width); next += LANES) *(vec *)(to + next) = (vec){0};
        for (; at < width; at++) to[at] = load(from, row * stride + at, is_float32);
    }
}

/* Writes float32 rows, which are padded, to entries that begin at `first`, their rows `step` apart. */
INLINE void store_rows(void *to, int64_t first, int64_t step, const float *from, int64_t rows, int64_t width, int is_float32) {
    for (int64_t row = 0; row < rows; row++, first += step, from += padded(width)) {
        int64_t at = 0;
        for (; at + LANES <= width; at += LANES) store_vec(to, first + at, *(const vec *)(from + at), LANES, is_float32);
        for (; at < width; at++) store(to, first + at, from[at], is_float32);
    }
}

/* Copies strided rows transposed: (rows, width) to float32 (width, padded rows). */
INLINE void load_columns(float *to, const void *from, int64_t rows, int64_t width, int64_t stride, int is_float32) {
    int64_t step = padded(rows);
    for (int64_t row = 0; row < step; row += LANES) {
        int64_t at = 0;
        for (; at + LANES <= width; at += LANES) {
            vec block[LANES];
            for (int i = 0; i < LANES; i++)
                block[i] = row + i < rows ? load_vec(from, (row + i) * stride + at, is_float32) : (vec){0};
            transpose(block);
            for (int i = 0; i < LANES; i++) *(vec *)(to + (at + i) * step + row) = block[i];
        }
        for (; at < width; at++)
            for (int64_t i = row; i < row + LANES; i++)
                to[at * step + i] = i < rows ? load(from, i * stride + at, is_float32) : 0.0f;
    }
}

#endif
