/* What linear layers in eight bits are made of: rows that are rounded, sums of products of bytes, and what becomes of the sums.
 */
#ifndef DIKKAT_BYTE_PARTS_H
#define DIKKAT_BYTE_PARTS_H

#include "tensors.h"
#include "tiles.h"

/* Outputs of a panel of eight-bit weights, and inputs side by side in each. */
#define BYTE_PANEL 64
#define QUAD 4
/* Whether one instruction multiplies four pairs of bytes in each lane, and adds them up. */
#if defined(__AVX512VNNI__) || (defined(__AVXVNNI__) && LANES == 8)
#define MULTIPLIES_BYTES 1
#else
#define MULTIPLIES_BYTES 0
#endif
/* Vectors of outputs and rows that are multiplied at once: their sums, and the weights, stay in registers. */
#define BYTE_VECTORS (REGISTERS / 8)
#define BYTE_ROWS (MULTIPLIES_BYTES ? 6 : 4)
/* Outputs of as many vectors: a panel, or a part of one. */
#define BYTE_PART (BYTE_VECTORS * LANES)
/* Bytes that an entry of a row of activations takes up: where bytes are not multiplied as such, two. Then those of four
 * entries, which are together, are 0 and 2 before 1 and 3, so that each pair is loaded as it is multiplied. */
#define ENTRY_BYTES (MULTIPLIES_BYTES ? 1 : 2)
/* Added to activations, since the instruction multiplies unsigned by signed bytes; taken off the sums again. */
#define SHIFT 128

/* Made by native/quantized.py, pack. */
typedef struct {
    const int8_t *weight; /* (outputs / 64, padded inputs / 4, 64, 4), zeros where there are none; null: in 32 bits */
    const float *scale;   /* (outputs), in whole panels */
    const int32_t *shift; /* (outputs), in whole panels: the sum of the weights of an output, times 128 */
} Packed;

/* The bits of a number's magnitude: as integers they are in the order of the magnitudes, what is no number above all. */
INLINE int32_t magnitude(float x) {
    int32_t bits;
    memcpy(&bits, &x, 4);
    return bits & 0x7fffffff;
}

/* The largest magnitude of a row over 127, which is no number where an entry is none or infinite. Two maxima, so that one
 * need not wait for the other. */
INLINE float scale_of_row(const void *from, int64_t width, int is_float32) {
    ivec largest = {0}, other = {0};
    int64_t i = 0;
    for (; i + 2 * LANES <= width; i += 2 * LANES) {
        largest = larger_integers(largest, (ivec)load_vec(from, i, is_float32) & 0x7fffffff);
        other = larger_integers(other, (ivec)load_vec(from, i + LANES, is_float32) & 0x7fffffff);
    }
    int32_t bits = largest_integer(larger_integers(largest, other));
    for (; i < width; i++) {
        int32_t next = magnitude(load(from, i, is_float32));
        bits = next > bits ? next : bits;
    }
    float most;
    memcpy(&most, &bits, 4);
    return most / 127.0f + (most - most);
}

/* What entries are multiplied with before they are rounded. */
INLINE float share_of(float scale) { return scale > FLT_MIN ? 1.0f / scale : 0.0f; }

/* In place: entries of one byte each to ENTRY_BYTES each, of `fours` times four of them. */
INLINE void spread(uint8_t *entries, int64_t fours) {
#if !MULTIPLIES_BYTES
    /* from the end, where there is memory */
    while (fours) {
        uint32_t from[PADDING], to[2 * PADDING];
        int64_t some = fours % PADDING ? fours % PADDING : PADDING;
        fours -= some;
        memcpy(from, entries + fours * QUAD, some * QUAD);
        for (int i = 0; i < PADDING; i++) {
            to[2 * i] = from[i] & 0x00ff00ff;
            to[2 * i + 1] = from[i] >> 8 & 0x00ff00ff;
        }
        memcpy(entries + fours * QUAD * ENTRY_BYTES, to, some * QUAD * ENTRY_BYTES);
    }
#endif
}

/* As many entries of a row as are whole pairs of vectors, spread already; returns their number. */
INLINE int64_t spread_entries(uint8_t *to, const void *from, float share, int64_t width, int is_float32) {
    int64_t i = 0;
#if LANES == 8 && !MULTIPLIES_BYTES
    /* of eight numbers of 16 bits */
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15, 0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13,
                                           10, 11, 14, 15);
    for (; i + 2 * LANES <= width; i += 2 * LANES) {
        __m256i first = _mm256_cvtps_epi32((__m256)(load_vec(from, i, is_float32) * share));
        __m256i second = _mm256_cvtps_epi32((__m256)(load_vec(from, i + LANES, is_float32) * share));
        __m256i both = _mm256_packs_epi32(first, second);
        both = _mm256_shuffle_epi8(_mm256_add_epi16(both, _mm256_set1_epi16(SHIFT)), order);
        _mm256_storeu_si256((__m256i *)(to + ENTRY_BYTES * i), _mm256_permute4x64_epi64(both, 0xd8));
    }
#else
    (void)to, (void)from, (void)share, (void)width, (void)is_float32;
#endif
    return i;
}

/* Entries of a row; returns its scale. */
INLINE float quantized_row(uint8_t *to, const void *from, int64_t width, int is_float32) {
    float scale = scale_of_row(from, width, is_float32), share = share_of(scale);
    int64_t done = spread_entries(to, from, share, width, is_float32);
    to += ENTRY_BYTES * done;
#pragma omp simd
    for (int64_t i = done; i < width; i++) to[i - done] = (uint8_t)((int32_t)nearbyintf(load(from, i, is_float32) * share) + SHIFT);
    spread(to, (width - done + QUAD - 1) / QUAD);
    return scale;
}

#if MULTIPLIES_BYTES
/* Four bytes in each lane, as they are multiplied. */
typedef ivec Fours;

INLINE Fours entries_at(const uint8_t *from) {
    int32_t four;
    memcpy(&four, from, sizeof four);
    return (ivec){0} + four;
}

INLINE Fours signed_fours(ivec bytes) { return bytes; }

/* sums += the products of four unsigned with four signed bytes, in each lane. Written as an instruction, since compilers
 * copy the sums from register to register around the intrinsic, which costs as much as the products. */
INLINE ivec add_products(ivec sums, Fours entries, Fours weights) {
#ifdef __AVX512VNNI__
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(entries), "v"(weights));
#else
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(entries), "x"(weights));
#endif
    return sums;
}
#else
/* The same as numbers of 16 bits: bytes 0 and 2, and bytes 1 and 3. */
typedef int16_t halves __attribute__((vector_size(4 * LANES)));
typedef struct {
    halves even, odd;
} Fours;

INLINE Fours entries_at(const uint8_t *from) {
    int32_t even, odd;
    memcpy(&even, from, sizeof even);
    memcpy(&odd, from + sizeof even, sizeof odd);
    return (Fours){(halves)((ivec){0} + even), (halves)((ivec){0} + odd)};
}

INLINE Fours signed_fours(ivec bytes) { return (Fours){(halves)bytes << 8 >> 8, (halves)bytes >> 8}; }

/* In each lane a[0] b[0] + a[1] b[1]. */
INLINE ivec products_of_pairs(halves a, halves b) {
#if LANES == 16 && defined(__AVX512BW__)
    return (ivec)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif LANES == 8
    return (ivec)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif LANES == 4 && defined(__x86_64__)
    return (ivec)_mm_madd_epi16((__m128i)a, (__m128i)b);
#elif defined(__wasm_simd128__)
    return (ivec)wasm_i32x4_dot_i16x8((v128_t)a, (v128_t)b);
#else
    return ((ivec)a << 16 >> 16) * ((ivec)b << 16 >> 16) + ((ivec)a >> 16) * ((ivec)b >> 16);
#endif
}

INLINE ivec add_products(ivec sums, Fours entries, Fours weights) {
    return sums + products_of_pairs(entries.even, weights.even) + products_of_pairs(entries.odd, weights.odd);
}
#endif

/* sums += the products of a row with the weights of a part. */
#if LANES == 8 && BYTE_VECTORS == 2 && !MULTIPLIES_BYTES
/* In this order, since Zen 3 spreads products and sums that alternate, as compilers place them, unevenly over its pipes, and
 * takes a fifth longer. */
INLINE void add_row(ivec *sums, Fours entries, const Fours *weights) {
    halves product, other;
    __asm__("vpmaddwd %[even0], %[even], %[product]\n\t"
            "vpmaddwd %[even1], %[even], %[even]\n\t"
            "vpmaddwd %[odd0], %[odd], %[other]\n\t"
            "vpmaddwd %[odd1], %[odd], %[odd]\n\t"
            "vpaddd %[product], %[sums0], %[sums0]\n\t"
            "vpaddd %[even], %[sums1], %[sums1]\n\t"
            "vpaddd %[other], %[sums0], %[sums0]\n\t"
            "vpaddd %[odd], %[sums1], %[sums1]"
            : [sums0] "+x"(sums[0]), [sums1] "+x"(sums[1]), [even] "+&x"(entries.even), [odd] "+&x"(entries.odd),
              [product] "=&x"(product), [other] "=&x"(other)
            : [even0] "x"(weights[0].even), [odd0] "x"(weights[0].odd), [even1] "x"(weights[1].even), [odd1] "x"(weights[1].odd));
}
#else
INLINE void add_row(ivec *sums, Fours entries, const Fours *weights) {
#pragma GCC unroll 4
    for (int i = 0; i < BYTE_VECTORS; i++) sums[i] = add_products(sums[i], entries, weights[i]);
}
#endif

/* Whether products of many rows are found from sums of entries and weights, which Zen 3 has more units for than for products. */
#define BY_SUMS (LANES == 8 && BYTE_VECTORS == 2 && !MULTIPLIES_BYTES)

/* a - b, whose lanes may be beyond 32 bits where a row is no number. */
INLINE ivec wrapped_difference(ivec a, ivec b) {
    typedef uint32_t unsigned_lanes __attribute__((vector_size(4 * LANES)));
    return (ivec)((unsigned_lanes)a - (unsigned_lanes)b);
}

#if !MULTIPLIES_BYTES
/* In each lane f[0] f[1] + f[2] f[3] where products are found from sums, else zero. */
INLINE ivec own_products(Fours f) { return BY_SUMS ? products_of_pairs(f.even, f.odd) : (ivec){0}; }

#if BY_SUMS
/* sums += the products of a row with the weights of a part, and own_products() of both (Winograd 1968, "A New Algorithm for
 * Inner Product"): (e0 + w1) (e1 + w0) = e0 w0 + e1 w1 + e0 e1 + w0 w1, all exact in 32 bits. In this order for the same
 * reason as in add_row(). */
INLINE void add_row_with_own(ivec *sums, Fours entries, const Fours *weights) {
    halves first, second;
    __asm__("vpaddw %[odd0], %[even], %[first]\n\t"
            "vpaddw %[odd1], %[even], %[even]\n\t"
            "vpaddw %[even0], %[odd], %[second]\n\t"
            "vpaddw %[even1], %[odd], %[odd]\n\t"
            "vpmaddwd %[first], %[second], %[second]\n\t"
            "vpmaddwd %[even], %[odd], %[odd]\n\t"
            "vpaddd %[second], %[sums0], %[sums0]\n\t"
            "vpaddd %[odd], %[sums1], %[sums1]"
            : [sums0] "+x"(sums[0]), [sums1] "+x"(sums[1]), [even] "+&x"(entries.even), [odd] "+&x"(entries.odd),
              [first] "=&x"(first), [second] "=&x"(second)
            : [even0] "x"(weights[0].even), [odd0] "x"(weights[0].odd), [even1] "x"(weights[1].even), [odd1] "x"(weights[1].odd));
}
#else
INLINE void add_row_with_own(ivec *sums, Fours entries, const Fours *weights) { add_row(sums, entries, weights); }
#endif

/* Weights of a part as numbers of 16 bits, BYTE_VECTORS for each quad; `own` gets the sums of their own_products(). */
INLINE void lengthen_part(Fours *to, ivec own[BYTE_VECTORS], const int8_t *weight, int64_t quads) {
    for (int i = 0; i < BYTE_VECTORS; i++) own[i] = (ivec){0};
    for (int64_t quad = 0; quad < quads; quad++, weight += BYTE_PANEL * QUAD)
        for (int i = 0; i < BYTE_VECTORS; i++) {
            *to = signed_fours(*(const loose_ivec *)(weight + i * LANES * QUAD));
            own[i] += own_products(*to++);
        }
}

/* sums += BYTE_PART outputs for BYTE_ROWS rows, and own_products() of both. Rows, and fours of entries of a row, are so many
 * bytes apart. */
INLINE void add_long_quads(ivec sums[][BYTE_VECTORS], const uint8_t *from, int64_t row_step, int64_t quad_step, const Fours *weights,
                           int64_t quads) {
#pragma GCC unroll 4
    for (int64_t quad = 0; quad < quads; quad++, from += quad_step, weights += BYTE_VECTORS) {
        Fours w[BYTE_VECTORS];
#pragma GCC unroll 4
        for (int i = 0; i < BYTE_VECTORS; i++) w[i] = weights[i];
#pragma GCC unroll 4
        for (int r = 0; r < BYTE_ROWS; r++) add_row_with_own(sums[r], entries_at(from + r * row_step), w);
    }
}
#endif

/* sums += BYTE_PART outputs for `rows` rows, a constant where this is used. Rows, and fours of entries of a row, are so many
 * bytes apart; the weights of four inputs are a panel apart. */
INLINE void add_quads(ivec sums[][BYTE_VECTORS], const uint8_t *from, int64_t row_step, int64_t quad_step,
                      const int8_t *weight, int64_t quads, const int rows) {
    for (int64_t quad = 0; quad < quads; quad++, from += quad_step, weight += BYTE_PANEL * QUAD) {
        Fours w[BYTE_VECTORS];
#pragma GCC unroll 4
        for (int i = 0; i < BYTE_VECTORS; i++) w[i] = signed_fours(*(const loose_ivec *)(weight + i * LANES * QUAD));
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) add_row(sums[r], entries_at(from + r * row_step), w);
    }
}

/* The same sums from their beginning, less the `shift` of each output. */
INLINE void byte_products(ivec sums[BYTE_ROWS][BYTE_VECTORS], const uint8_t *from, int64_t row_step, int64_t quad_step,
                          const int8_t *weight, const int32_t *shift, int64_t quads, const int rows) {
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < BYTE_VECTORS; i++) sums[r][i] = -*(const ivec *)(shift + i * LANES);
    add_quads(sums, from, row_step, quad_step, weight, quads, rows);
}

/* The vectors of a part to any address, as many entries of them as there are; past the cache where it `streams`. */
INLINE void store_part(void *to, int64_t at, const vec *values, int64_t entries, int streams, int is_float32) {
#if LANES == 16
    if (streams && !is_float32 && entries >= BYTE_PART && (uintptr_t)entry(to, at, 0) % 64 == 0) {
#pragma GCC unroll 2
        for (int i = 0; i < BYTE_VECTORS; i += 2)
            stream_line((void *)entry(to, at + i * LANES, 0), values[i], values[i + 1]);
        return;
    }
#endif
#pragma GCC unroll 4
    for (int i = 0; i < BYTE_VECTORS; i++, at += LANES, entries -= LANES) {
        if (entries >= LANES)
            store_vec(to, at, values[i], LANES, is_float32);
        else if (entries > 0)
            store_vec(to, at, values[i], entries, is_float32);
    }
}

/* Where the weights of the outputs from `first` on, a multiple of BYTE_PART, begin. */
INLINE const int8_t *weights_of(const int8_t *panels, int64_t first, int64_t quads) {
    return panels + (first / BYTE_PANEL * BYTE_PANEL * quads + first % BYTE_PANEL) * QUAD;
}

/* What becomes of the sums of a product. */
typedef struct {
    const void *bias; /* (outputs), added; null: there is none */
    const void *relu_output; /* laid out as the output, which is zero where this is not above zero; null: there is none */
    int relu;    /* the output is nowhere below zero */
    int streams;      /* the output goes past the cache; who reads it waits for `streamed` */
} Epilogue;

/* Memory that is read soon, of which a share is prefetched at each turn. */
typedef struct {
    const char *from;
    int64_t bytes, share;
} Prefetch;

INLINE void prefetch_share(Prefetch *prefetch) {
    int64_t some = smaller_of(prefetch->bytes, prefetch->share);
    for (int64_t at = 0; at < some; at += 64) __builtin_prefetch(prefetch->from + at, 0, 2);
    prefetch->from += some, prefetch->bytes -= some;
}

/* Rows that are rounded already, and what is to be read after them. */
typedef struct {
    const uint8_t *entries; /* (count, width), ENTRY_BYTES each */
    const float *scales;    /* (count) */
    int64_t count, width;
    Prefetch prefetch;
} Rows;

/* Blocks that their products with so many outputs are computed in. */
INLINE int64_t blocks_of(int64_t rows, int64_t outputs) {
    return groups_of(rows, rows_together(rows, BYTE_ROWS)) * groups_of(outputs, BYTE_PART);
}

/* `values` where entries of the relu_output from `at` on, of which there are `count`, are above zero or no numbers, else zero. */
INLINE vec masked_by_relu(vec values, const void *relu_output, int64_t at, int64_t count, int is_float32) {
    vec by = {0};
    if (count >= LANES)
        by = load_vec(relu_output, at, is_float32);
    else
        for (int64_t i = 0; i < count; i++) by[i] = load(relu_output, at + i, is_float32);
    return (vec)((ivec)values & ~(ivec)(by <= 0.0f));
}

/* The outputs of a part, as many as there are, and where they go. */
typedef struct {
    void *to;
    int64_t to_step, first, outputs;
    const vec *scales, *bias; /* of these outputs */
    const Epilogue *epilogue;
} Part;

/* A row of the relu_output is a page or so after the last: prefetched now, it is there when the products are. */
INLINE void prefetch_relu_output(const Part *p, int64_t row, int64_t count, int is_float32) {
    for (int64_t r = row; p->epilogue->relu_output && r < row + count; r++)
        for (int64_t i = 0; i < p->outputs; i += is_float32 ? 16 : 32)
            __builtin_prefetch(entry(p->epilogue->relu_output, r * p->to_step + p->first + i, is_float32));
}

/* Rows from `row` on, `count` of them, from their sums. */
INLINE void end_rows(const Part *p, const float *row_scales, int64_t row, ivec sums[][BYTE_VECTORS], int is_float32,
                        const int count) {
    int64_t offset = row * p->to_step + p->first, outputs = p->outputs;
    const void *relu_output = p->epilogue->relu_output ? entry(p->epilogue->relu_output, offset, is_float32) : NULL;
    /* read before the stores, which for all that the compiler knows could change them */
    const int relu = p->epilogue->relu, streams = p->epilogue->streams;
#pragma GCC unroll 6
    for (int r = 0; r < count; r++) {
        vec values[BYTE_VECTORS];
#pragma GCC unroll 4
        for (int i = 0; i < BYTE_VECTORS; i++) {
            vec scale = row_scales[row + r] * p->scales[i];
            values[i] = __builtin_convertvector(sums[r][i], vec) * scale + p->bias[i];
            /* what is no number stays none */
            if (relu) values[i] = larger((vec){0}, values[i]);
            if (relu_output) values[i] = masked_by_relu(values[i], relu_output, r * p->to_step + i * LANES, outputs - i * LANES, is_float32);
        }
        store_part(p->to, offset + r * p->to_step, values, outputs, streams, is_float32);
    }
}

#endif
