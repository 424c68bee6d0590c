/* Linear layers in eight bits: weights with a scale for each output, activations with a scale for each row, both the
 * largest magnitude over 127, and exact sums of their products in 32 bits. So a row has the same bits in any company.
 */
#ifndef DIKKAT_QUANTIZED_H
#define DIKKAT_QUANTIZED_H

#include "tensors.h"

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
INLINE float scale_of_row(const void *from, int64_t width, int wide) {
    ivec largest = {0}, other = {0};
    int64_t i = 0;
    for (; i + 2 * LANES <= width; i += 2 * LANES) {
        largest = larger_integers(largest, (ivec)load_vec(from, i, wide) & 0x7fffffff);
        other = larger_integers(other, (ivec)load_vec(from, i + LANES, wide) & 0x7fffffff);
    }
    int32_t bits = largest_integer(larger_integers(largest, other));
    for (; i < width; i++) {
        int32_t next = magnitude(load(from, i, wide));
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
    /* from behind, where there is room */
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

/* Entries of a row; returns its scale. */
INLINE float quantized_row(uint8_t *to, const void *from, int64_t width, int wide) {
    float scale = scale_of_row(from, width, wide), share = share_of(scale);
#pragma omp simd
    for (int64_t i = 0; i < width; i++) to[i] = (uint8_t)((int32_t)nearbyintf(load(from, i, wide) * share) + SHIFT);
    spread(to, (width + QUAD - 1) / QUAD);
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
#else
    return ((ivec)a << 16 >> 16) * ((ivec)b << 16 >> 16) + ((ivec)a >> 16) * ((ivec)b >> 16);
#endif
}

INLINE ivec add_products(ivec sums, Fours entries, Fours weights) {
    return sums + products_of_pairs(entries.even, weights.even) + products_of_pairs(entries.odd, weights.odd);
}
#endif

/* The sums of BYTE_PART outputs for `rows` rows, less the `shift` of each output; `rows` is a constant where this is used.
 * Rows, and fours of entries of a row, are so many bytes apart; the weights of four inputs are a panel apart. */
INLINE void byte_products(ivec sums[BYTE_ROWS][BYTE_VECTORS], const uint8_t *from, int64_t row_step, int64_t quad_step,
                          const int8_t *weight, const int32_t *shift, int64_t quads, const int rows) {
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < BYTE_VECTORS; i++) sums[r][i] = -*(const ivec *)(shift + i * LANES);
    for (int64_t quad = 0; quad < quads; quad++, from += quad_step, weight += BYTE_PANEL * QUAD) {
        Fours w[BYTE_VECTORS];
#pragma GCC unroll 4
        for (int i = 0; i < BYTE_VECTORS; i++) w[i] = signed_fours(*(const loose_ivec *)(weight + i * LANES * QUAD));
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            Fours entries = entries_at(from + r * row_step);
#pragma GCC unroll 4
            for (int i = 0; i < BYTE_VECTORS; i++) sums[r][i] = add_products(sums[r][i], entries, w[i]);
        }
    }
}

/* The vectors of a part to any address, as many entries of them as there are; past the cache where it `streams`. */
INLINE void store_part(void *to, int64_t at, const vec *found, int64_t entries, int streams, int wide) {
#if LANES == 16
    if (streams && !wide && entries >= BYTE_PART && (uintptr_t)entry(to, at, 0) % 64 == 0) {
#pragma GCC unroll 2
        for (int i = 0; i < BYTE_VECTORS; i += 2)
            stream_line((void *)entry(to, at + i * LANES, 0), found[i], found[i + 1]);
        return;
    }
#endif
#pragma GCC unroll 4
    for (int i = 0; i < BYTE_VECTORS; i++, at += LANES, entries -= LANES) {
        if (entries >= LANES)
            store_vec(to, at, found[i], LANES, wide);
        else if (entries > 0)
            store_vec(to, at, found[i], entries, wide);
    }
}

/* Where the weights of the outputs from `first` on, a multiple of BYTE_PART, begin. */
INLINE const int8_t *weights_of(const int8_t *panels, int64_t first, int64_t quads) {
    return panels + (first / BYTE_PANEL * BYTE_PANEL * quads + first % BYTE_PANEL) * QUAD;
}

/* What becomes of the sums of a product. */
typedef struct {
    const void *bias; /* (outputs), added; null: there is none */
    const void *gate; /* laid out as the output, which is zero where the gate is not above zero; null: there is none */
    int rectifies;    /* the output is nowhere below zero */
    int streams;      /* the output goes past the cache; who reads it waits for `streamed` */
} Finish;

/* Memory that is read soon, of which a share is asked for at each turn. */
typedef struct {
    const char *from;
    int64_t bytes, share;
} Ahead;

INLINE void ask(Ahead *ahead) {
    int64_t some = smaller_of(ahead->bytes, ahead->share);
    for (int64_t at = 0; at < some; at += 64) __builtin_prefetch(ahead->from + at, 0, 2);
    ahead->from += some, ahead->bytes -= some;
}

/* Rows that are rounded already, and what is to be read after them. */
typedef struct {
    const uint8_t *entries; /* (count, width), ENTRY_BYTES each */
    const float *scales;    /* (count) */
    int64_t count, width;
    Ahead ahead;
} Rows;

/* Blocks that their products with so many outputs are computed in. */
INLINE int64_t blocks_of(int64_t rows, int64_t outputs) {
    return groups_of(rows, BYTE_ROWS) * groups_of(outputs, BYTE_PART);
}

/* `values` where the gate's entries from `at` on, of which there are `count`, are above zero or no numbers, else zero. */
INLINE vec gated(vec values, const void *gate, int64_t at, int64_t count, int wide) {
    vec by = {0};
    if (count >= LANES)
        by = load_vec(gate, at, wide);
    else
        for (int64_t i = 0; i < count; i++) by[i] = load(gate, at + i, wide);
    return (vec)((ivec)values & ~(ivec)(by <= 0.0f));
}

/* The outputs of a part that begins with `first`, as many as there are, of `count` rows from `row` on. */
INLINE void byte_block(void *to, int64_t to_step, const Rows *rows, int64_t row, const Packed *packed, const Finish *finish,
                       int64_t first, int64_t outputs, const vec *bias, int wide, const int count) {
    ivec sums[BYTE_ROWS][BYTE_VECTORS];
    int64_t place = row * to_step + first, quads = rows->width / QUAD, row_bytes = rows->width * ENTRY_BYTES;
    const void *gate = finish->gate ? entry(finish->gate, place, wide) : NULL;
    /* read before the stores, which for all that the compiler knows could change them */
    const float *row_scales = rows->scales + row, *scales = packed->scale + first;
    const int rectifies = finish->rectifies, streams = finish->streams;
    /* a row of the gate is a page or so behind the last: asked for now, it is there when the products are */
    for (int r = 0; gate && r < count; r++)
        for (int64_t i = 0; i < outputs; i += wide ? 16 : 32) __builtin_prefetch(entry(gate, r * to_step + i, wide));
    byte_products(sums, rows->entries + row * row_bytes, row_bytes, QUAD * ENTRY_BYTES,
                  weights_of(packed->weight, first, quads), packed->shift + first, quads, count);
#pragma GCC unroll 6
    for (int r = 0; r < count; r++) {
        vec found[BYTE_VECTORS];
#pragma GCC unroll 4
        for (int i = 0; i < BYTE_VECTORS; i++) {
            vec scale = row_scales[r] * *(const vec *)(scales + i * LANES);
            found[i] = __builtin_convertvector(sums[r][i], vec) * scale + bias[i];
            /* what is no number stays none */
            if (rectifies) found[i] = larger((vec){0}, found[i]);
            if (gate) found[i] = gated(found[i], gate, r * to_step + i * LANES, outputs - i * LANES, wide);
        }
        store_part(to, place + r * to_step, found, outputs, streams, wide);
    }
}

/* Outputs `start` to `end` of all rows, `start` a multiple of BYTE_PANEL. */
INLINE void quantized_products(void *to, int64_t to_step, Rows *rows, const Packed *packed, const Finish *finish,
                               int64_t start, int64_t end, int wide) {
    for (int64_t first = start; first < end; first += BYTE_PART) {
        int64_t outputs = smaller_of(end - first, BYTE_PART);
        float added[BYTE_PART] __attribute__((aligned(64))) = {0};
        if (finish->bias)
            for (int64_t i = 0; i < outputs; i++) added[i] = load(finish->bias, first + i, wide);
        for (int64_t row = 0; row < rows->count; row += BYTE_ROWS) {
            ask(&rows->ahead);
#define BLOCK_OF(n) byte_block(to, to_step, rows, row, packed, finish, first, outputs, (const vec *)added, wide, n)
            switch (rows->count - row) {
            case 1: BLOCK_OF(1); break;
            case 2: BLOCK_OF(2); break;
            case 3: BLOCK_OF(3); break;
            case 4: BLOCK_OF(4); break;
            case 5: BLOCK_OF(BYTE_ROWS < 5 ? BYTE_ROWS : 5); break;
            default: BLOCK_OF(BYTE_ROWS);
            }
#undef BLOCK_OF
        }
    }
}

#endif
