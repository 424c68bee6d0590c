/* Linear layers in eight bits: weights with a scale for each output, activations with a scale for each row, both the
 * largest magnitude over 127, and exact sums of their products in 32 bits. So a row has the same bits in any company.
 */
#ifndef DIKKAT_QUANTIZED_H
#define DIKKAT_QUANTIZED_H

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
    /* from behind, where there is memory */
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
INLINE float quantized_row(uint8_t *to, const void *from, int64_t width, int is_float32) {
    float scale = scale_of_row(from, width, is_float32), share = share_of(scale);
#pragma omp simd
    for (int64_t i = 0; i < width; i++) to[i] = (uint8_t)((int32_t)nearbyintf(load(from, i, is_float32) * share) + SHIFT);
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

/* sums += BYTE_PART outputs for `rows` rows, a constant where this is used. Rows, and fours of entries of a row, are so many
 * bytes apart; the weights of four inputs are a panel apart. */
INLINE void add_quads(ivec sums[][BYTE_VECTORS], const uint8_t *from, int64_t row_step, int64_t quad_step,
                      const int8_t *weight, int64_t quads, const int rows) {
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

/* A row of the relu_output is a page or so behind the last: prefetched now, it is there when the products are. */
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

/* The outputs of a part of `count` rows from `row` on. */
INLINE void byte_block(const Part *p, const Rows *rows, int64_t row, const Packed *packed, int is_float32, const int count) {
    ivec sums[BYTE_ROWS][BYTE_VECTORS];
    int64_t quads = rows->width / QUAD, row_bytes = rows->width * ENTRY_BYTES;
    prefetch_relu_output(p, row, count, is_float32);
    byte_products(sums, rows->entries + row * row_bytes, row_bytes, QUAD * ENTRY_BYTES,
                  weights_of(packed->weight, p->first, quads), packed->shift + p->first, quads, count);
    end_rows(p, rows->scales, row, sums, is_float32, count);
}

/* The same, for each number of rows a function of its own: compilers take four times as long for one that holds them all. */
#define BLOCK_OF(rows_of_it)                                                                                           \
    __attribute__((noinline)) static void block_of_##rows_of_it(const Part *p, const Rows *rows, int64_t row,          \
                                                                const Packed *packed, int is_float32) {                      \
        if (is_float32)                                                                                                      \
            byte_block(p, rows, row, packed, 1, rows_of_it);                                                           \
        else                                                                                                           \
            byte_block(p, rows, row, packed, 0, rows_of_it);                                                           \
    }
BLOCK_OF(1)
BLOCK_OF(2)
BLOCK_OF(3)
BLOCK_OF(4)
#if BYTE_ROWS > 4
BLOCK_OF(5)
BLOCK_OF(6)
#endif
#undef BLOCK_OF

#if HAS_TILES
/* The same of TILE_ROWS rows at a time, as long as tiles pay; returns the first row that is left. Of the last, some may be
 * memory that holds anything. The sums of a block are read while the tiles compute the next. */
INLINE int64_t tile_blocks(const Part *p, Rows *rows, const Packed *packed, int is_float32) {
    ivec sums[2][TILE_ROWS][BYTE_VECTORS], start[BYTE_VECTORS];
    int64_t quads = rows->width / QUAD, left = quads % TILE_QUADS, done = quads - left, row = 0, before = -1;
    const int8_t *weight = weights_of(packed->weight, p->first, quads);
    for (int i = 0; i < BYTE_VECTORS; i++) start[i] = -*(const ivec *)(packed->shift + p->first + i * LANES);
    for (int at = 0; rows->count - row >= FEWEST_IN_TILES; row += TILE_ROWS, at ^= 1) {
        const uint8_t *from = rows->entries + row * rows->width;
        int64_t count = smaller_of(rows->count - row, TILE_ROWS);
        prefetch_share(&rows->prefetch);
        prefetch_relu_output(p, row, count, is_float32);
        tile_products(sums[at], from, rows->width, TILE_QUADS * QUAD, weight, start, done / TILE_QUADS);
        if (before >= 0) end_rows(p, rows->scales, before, sums[!at], is_float32, TILE_ROWS);
        for (int r = 0; left && r < count; r++)
            add_quads(sums[at] + r, from + r * rows->width + done * QUAD, 0, QUAD, weight + done * BYTE_PANEL * QUAD, left, 1);
        before = row;
    }
    int64_t last = smaller_of(rows->count - before, TILE_ROWS);
    if (before >= 0) end_rows(p, rows->scales, before, sums[before / TILE_ROWS & 1], is_float32, (int)last);
    return row;
}
#endif

/* Whether the sums of a panel, which is more than a part, take no more than half of the registers. */
#define WHOLE_PANELS (BYTE_PART < BYTE_PANEL && BYTE_PANEL / LANES <= REGISTERS / 2)
/* Bytes between what is multiplied and what is prefetched. */
#define AHEAD 4096

#if WHOLE_PANELS
/* The outputs of a whole panel of one row. Nothing is there to be multiplied while weights are on their way, so they are
 * read in the order in which they lie, which processors foresee. */
__attribute__((noinline)) static void panel_of_one_row(void *to, const Rows *rows, int64_t row, const Packed *packed,
                                                       const Epilogue *epilogue, int64_t first, int is_float32) {
    const uint8_t *from = rows->entries + row * rows->width * ENTRY_BYTES;
    const int8_t *weight = weights_of(packed->weight, first, rows->width / QUAD);
    ivec sums[BYTE_PANEL / LANES];
#pragma GCC unroll 16
    for (int i = 0; i < BYTE_PANEL / LANES; i++) sums[i] = -*(const ivec *)(packed->shift + first + i * LANES);
    for (int64_t quad = 0; quad < rows->width / QUAD; quad++, from += QUAD * ENTRY_BYTES, weight += BYTE_PANEL * QUAD) {
        Fours entries = entries_at(from);
#pragma GCC unroll 4
        for (int at = 0; at < BYTE_PANEL * QUAD; at += 64) __builtin_prefetch(weight + AHEAD + at);
#pragma GCC unroll 16
        for (int i = 0; i < BYTE_PANEL / LANES; i++)
            sums[i] = add_products(sums[i], entries, signed_fours(*(const loose_ivec *)(weight + i * LANES * QUAD)));
    }
    for (int64_t part = 0; part < BYTE_PANEL; part += BYTE_PART) {
        vec bias[BYTE_VECTORS];
        for (int64_t i = 0; i < BYTE_PART; i++)
            bias[i / LANES][i % LANES] = epilogue->bias ? load(epilogue->bias, first + part + i, is_float32) : 0.0f;
        Part p = {(char *)to, 0, first + part, BYTE_PART, (const vec *)(packed->scale + first + part), bias, epilogue};
        end_rows(&p, rows->scales, row, (ivec(*)[BYTE_VECTORS])(sums + part / LANES), is_float32, 1);
    }
}

/* A part reads lines of its panel that are some apart, which no processor foresees: with each, its share of the next panel
 * is prefetched. */
INLINE void prefetch_next_panel(const int8_t *panels, int64_t first, int64_t end, int64_t width) {
    int64_t next = first / BYTE_PANEL * BYTE_PANEL + BYTE_PANEL, share = BYTE_PART * width;
    if (next >= end) return;
    const int8_t *from = panels + next * width + first % BYTE_PANEL * width;
    for (int64_t at = 0; at < share; at += 64) __builtin_prefetch(from + at, 0, 2);
}
#endif

/* Outputs `start` to `end` of all rows, `start` a multiple of BYTE_PANEL. Behind the last row there is memory for as many as
 * make their number a multiple of PADDING. */
INLINE void quantized_products(void *to, int64_t to_step, Rows *rows, const Packed *packed, const Epilogue *epilogue,
                               int64_t start, int64_t end, int is_float32) {
    const int tiles = begin_tiles(rows->count);
    int64_t first = start;
#if WHOLE_PANELS
    for (; rows->count == 1 && first + BYTE_PANEL <= end; first += BYTE_PANEL)
        panel_of_one_row(to, rows, 0, packed, epilogue, first, is_float32);
#endif
    for (; first < end; first += BYTE_PART) {
        int64_t outputs = smaller_of(end - first, BYTE_PART);
        vec scales[BYTE_VECTORS], bias[BYTE_VECTORS] = {{0}};
        memcpy(scales, packed->scale + first, sizeof scales);
        if (epilogue->bias)
            for (int64_t i = 0; i < outputs; i++) bias[i / LANES][i % LANES] = load(epilogue->bias, first + i, is_float32);
        Part part = {to, to_step, first, outputs, scales, bias, epilogue};
        int64_t row = 0;
#if WHOLE_PANELS
        prefetch_next_panel(packed->weight, first, end, rows->width);
#endif
#if HAS_TILES
        if (tiles) row = tile_blocks(&part, rows, packed, is_float32);
#endif
        for (; row < rows->count; row += BYTE_ROWS) {
            prefetch_share(&rows->prefetch);
            switch (rows->count - row) {
            case 1: block_of_1(&part, rows, row, packed, is_float32); break;
            case 2: block_of_2(&part, rows, row, packed, is_float32); break;
            case 3: block_of_3(&part, rows, row, packed, is_float32); break;
#if BYTE_ROWS > 4
            case 4: block_of_4(&part, rows, row, packed, is_float32); break;
            case 5: block_of_5(&part, rows, row, packed, is_float32); break;
            default: block_of_6(&part, rows, row, packed, is_float32);
#else
            default: block_of_4(&part, rows, row, packed, is_float32);
#endif
            }
        }
    }
    end_tiles(tiles);
}

#endif
