/* Products with whole panels of eight-bit weights, where a row's sums of a part take up few registers: so the weights are
 * read in the order in which they lie in memory, which processors foresee, and each once for many rows. */
#ifndef DIKKAT_WHOLE_PANELS_H
#define DIKKAT_WHOLE_PANELS_H

#include "byte_parts.h"

/* Whether the sums of a panel, which is more than a part, take no more than half of the registers. */
#define WHOLE_PANELS (BYTE_PART < BYTE_PANEL && BYTE_PANEL / LANES <= REGISTERS / 2)
/* Whether one row, and as many as a beam usually has, go a way of their own, by instructions of AVX2. */
#define SIGNED_ROWS (WHOLE_PANELS && LANES == 8 && !MULTIPLIES_BYTES)

#if WHOLE_PANELS
/* Bytes between what is multiplied and what is prefetched, for a single row. */
#define AHEAD 4096
/* Rows whose sums are kept while the panel goes by, a multiple of BYTE_ROWS, and quads of it that go by at once: sums and weights
 * stay in the cache. */
#define KEPT_ROWS 60
#define CHUNK_QUADS 64
/* Rows from which it pays to make weights of 16 bits of a chunk once for all. */
#define MANY_BYTE_ROWS 12
#define PARTS (BYTE_PANEL / BYTE_PART)
/* Rows whose own_products() are found before any product. */
#define ROWS_OF_OWN (8 * KEPT_ROWS)

typedef ivec PartSums[BYTE_VECTORS];

/* Of a panel and rows, quads that are multiplied before the next ones; `next`, a part of what follows them, is prefetched. */
typedef struct {
    const uint8_t *entries;
    int64_t row_bytes, quads;
    const int8_t *weight, *next;
} Chunk;

/* The outputs of a panel from `first` on, as many as there are before `end`, of `count` rows from `row` on. */
INLINE void end_panel(void *to, int64_t to_step, Rows *rows, const Packed *packed, const Epilogue *epilogue, int64_t first,
                      int64_t end, PartSums *sums, int64_t row, int64_t count, int is_float32) {
    for (int64_t part = first; part < smaller_of(end, first + BYTE_PANEL); part += BYTE_PART) {
        PartSums *of_part = sums + (part - first) / BYTE_PART * count;
        int64_t outputs = smaller_of(end - part, BYTE_PART);
        vec bias[BYTE_VECTORS] = {{0}};
        if (epilogue->bias && outputs >= BYTE_PART)
            for (int i = 0; i < BYTE_VECTORS; i++) bias[i] = load_vec(epilogue->bias, part + i * LANES, is_float32);
        else if (epilogue->bias)
            for (int64_t i = 0; i < outputs; i++) bias[i / LANES][i % LANES] = load(epilogue->bias, part + i, is_float32);
        Part p = {to, to_step, part, outputs, (const vec *)(packed->scale + part), bias, epilogue};
        for (int64_t r = 0; r < count; r += BYTE_ROWS) {
            int some = (int)smaller_of(count - r, BYTE_ROWS);
            prefetch_share(&rows->prefetch);
            prefetch_relu_output(&p, row + r, some, is_float32);
            if (some == BYTE_ROWS)
                end_rows(&p, rows->scales, row + r, of_part + r, is_float32, BYTE_ROWS);
            else
                for (int i = 0; i < some; i++) end_rows(&p, rows->scales, row + r + i, of_part + r + i, is_float32, 1);
        }
    }
}

/* A single row: its sums of the whole panel stay in registers. */
__attribute__((noinline)) static void panel_of_one_row(PartSums *to, const uint8_t *from, const int8_t *weight, const int32_t *shift,
                                                       int64_t quads) {
    ivec sums[BYTE_PANEL / LANES];
#pragma GCC unroll 16
    for (int i = 0; i < BYTE_PANEL / LANES; i++) sums[i] = -*(const ivec *)(shift + i * LANES);
    for (; quads > 0; quads--, from += QUAD * ENTRY_BYTES, weight += BYTE_PANEL * QUAD) {
        Fours entries = entries_at(from);
#pragma GCC unroll 4
        for (int at = 0; at < BYTE_PANEL * QUAD; at += 64) __builtin_prefetch(weight + AHEAD + at);
#pragma GCC unroll 16
        for (int i = 0; i < BYTE_PANEL / LANES; i++)
            sums[i] = add_products(sums[i], entries, signed_fours(*(const loose_ivec *)(weight + i * LANES * QUAD)));
    }
#pragma GCC unroll 16
    for (int i = 0; i < BYTE_PANEL / LANES; i++) to[i / BYTE_VECTORS][i % BYTE_VECTORS] = sums[i];
}

/* Entry by entry: compilers keep in memory what is copied as a whole. */
INLINE void copy_sums(PartSums *to, const PartSums *from, const int rows) {
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < BYTE_VECTORS; i++) to[r][i] = from[r][i];
}

/* kept += the products of `rows` rows, a constant where this is used, with a part of a chunk. */
INLINE void add_chunk(PartSums *kept, const Chunk *chunk, int64_t row, const int rows) {
    ivec sums[BYTE_ROWS][BYTE_VECTORS];
    const uint8_t *from = chunk->entries + row * chunk->row_bytes;
    const int8_t *weight = chunk->weight, *next = chunk->next;
    copy_sums(sums, (const PartSums *)kept + row, rows);
    for (int64_t quad = 0; quad < chunk->quads; quad++, from += QUAD * ENTRY_BYTES, weight += BYTE_PANEL * QUAD) {
        __builtin_prefetch(next + quad * BYTE_PART * QUAD);
        add_quads(sums, from, chunk->row_bytes, 0, weight, 1, rows);
    }
    copy_sums(kept + row, (const PartSums *)sums, rows);
}

/* The same, for each number of rows a function of its own. */
#define CHUNK_OF(rows)                                                                                                 \
    __attribute__((noinline)) static void chunk_of_##rows(PartSums *kept, const Chunk *chunk, int64_t row) {           \
        add_chunk(kept, chunk, row, rows);                                                                             \
    }
CHUNK_OF(1)
CHUNK_OF(2)
CHUNK_OF(3)
CHUNK_OF(4)
#if BYTE_ROWS > 4
CHUNK_OF(5)
CHUNK_OF(6)
#endif
#undef CHUNK_OF

#if !MULTIPLIES_BYTES
/* kept += the products of BYTE_ROWS rows with weights that are 16 bits already, and the own_products() of the rows. */
__attribute__((noinline)) static void chunk_of_fours(PartSums *kept, const Chunk *chunk, int64_t row, const Fours *weights,
                                                     const ivec *own) {
    ivec sums[BYTE_ROWS][BYTE_VECTORS];
#pragma GCC unroll 4
    for (int r = 0; r < BYTE_ROWS; r++)
#pragma GCC unroll 4
        for (int i = 0; i < BYTE_VECTORS; i++) sums[r][i] = wrapped_difference(kept[row + r][i], own[i]);
    add_long_quads(sums, chunk->entries + row * chunk->row_bytes, chunk->row_bytes, QUAD * ENTRY_BYTES, weights, chunk->quads);
    copy_sums(kept + row, (const PartSums *)sums, BYTE_ROWS);
}

/* The same of as many rows as are whole BYTE_ROWS; returns the first that is left. What follows is prefetched little by
 * little: at once it would be waited for. */
static int64_t chunk_of_many(PartSums *kept, const Chunk *chunk, int64_t count) {
    Fours weights[CHUNK_QUADS * BYTE_VECTORS];
    ivec own[BYTE_VECTORS];
    lengthen_part(weights, own, chunk->weight, chunk->quads);
    int64_t row = 0, bytes = chunk->quads * BYTE_PART * QUAD;
    Prefetch next = {(const char *)chunk->next, bytes, groups_of(bytes, count / BYTE_ROWS * 64) * 64};
    for (; row + BYTE_ROWS <= count; row += BYTE_ROWS) {
        prefetch_share(&next);
        chunk_of_fours(kept, chunk, row, weights, own);
    }
    return row;
}
#endif

/* Of so many rows, those whose products are found with their own_products(). */
INLINE int64_t rows_with_own(int64_t count) { return BY_SUMS && count >= MANY_BYTE_ROWS ? count / BYTE_ROWS * BYTE_ROWS : 0; }

/* The own_products() of rows of so many fours. */
static void own_products_of_rows(int32_t *to, const uint8_t *entries, int64_t quads, int64_t rows) {
#if BY_SUMS
    for (int64_t row = 0; row < rows; row++) {
        __m256i sums = _mm256_setzero_si256();
        for (int64_t i = 0; i < quads; i += LANES / 2, entries += sizeof sums) {
            /* pairs 0 and 2 lie before pairs 1 and 3 */
            __m256i pairs = _mm256_loadu_si256((const __m256i *)entries);
            sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_srli_epi64(pairs, 32)));
        }
        __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        to[row] = _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_unpackhi_epi64(half, half)));
    }
#else
    (void)to, (void)entries, (void)quads, (void)rows;
#endif
}

/* kept += the products of `count` rows with a part of a chunk. */
static void chunk_of_rows(PartSums *kept, const Chunk *chunk, int64_t count) {
    int64_t row = 0;
#if !MULTIPLIES_BYTES
    if (count >= MANY_BYTE_ROWS) row = chunk_of_many(kept, chunk, count);
#endif
    for (; row < count; row += BYTE_ROWS)
        switch (count - row) {
        case 1: chunk_of_1(kept, chunk, row); break;
        case 2: chunk_of_2(kept, chunk, row); break;
        case 3: chunk_of_3(kept, chunk, row); break;
#if BYTE_ROWS > 4
        case 4: chunk_of_4(kept, chunk, row); break;
        case 5: chunk_of_5(kept, chunk, row); break;
        default: chunk_of_6(kept, chunk, row);
#else
        default: chunk_of_4(kept, chunk, row);
#endif
        }
}

/* Sums of a panel of `count` rows, for each part those of all rows; shift and weights are the panel's. `own` has the
 * own_products() of the rows, where they are needed. */
static void panel_of_rows(PartSums *sums, const uint8_t *entries, const int8_t *weight, const int32_t *shift, const int32_t *own,
                          int64_t quads, int64_t count) {
    int64_t with_own = rows_with_own(count);
    for (int part = 0; part < PARTS; part++)
        for (int64_t row = 0; row < count; row++)
            for (int i = 0; i < BYTE_VECTORS; i++) {
                ivec start = -*(const ivec *)(shift + part * BYTE_PART + i * LANES);
                sums[part * count + row][i] = row < with_own ? wrapped_difference(start, (ivec){0} + own[row]) : start;
            }
    for (int64_t start = 0; start < quads; start += CHUNK_QUADS, entries += CHUNK_QUADS * QUAD * ENTRY_BYTES) {
        int64_t some = smaller_of(quads - start, CHUNK_QUADS);
        for (int part = 0; part < PARTS; part++) {
            const int8_t *here = weight + (start * BYTE_PANEL + part * BYTE_PART) * QUAD;
            const int8_t *next = weight + ((start + some) * BYTE_PANEL + part * some * BYTE_PART) * QUAD;
            Chunk chunk = {entries, quads * QUAD * ENTRY_BYTES, some, here, next};
            chunk_of_rows(sums + part * count, &chunk, count);
        }
    }
}

/* Outputs `start` to `end` of the rows from `begin` on, ROWS_OF_OWN at most; `start` is a multiple of BYTE_PANEL. */
INLINE void products_of_some(void *to, int64_t to_step, Rows *rows, const Packed *packed, const Epilogue *epilogue, int64_t start,
                             int64_t end, int64_t begin, int is_float32) {
    int64_t quads = rows->width / QUAD, row_bytes = rows->width * ENTRY_BYTES, some = smaller_of(rows->count - begin, ROWS_OF_OWN);
    int64_t even = groups_of(some, groups_of(some, KEPT_ROWS)), together = groups_of(even, BYTE_ROWS) * BYTE_ROWS;
    int32_t own[ROWS_OF_OWN];
    own_products_of_rows(own, rows->entries + begin * row_bytes, quads, rows_with_own(some));
    for (int64_t first = start; first < end; first += BYTE_PANEL)
        for (int64_t at = 0; at < some; at += together) {
            PartSums sums[PARTS * KEPT_ROWS];
            int64_t count = smaller_of(some - at, together), row = begin + at;
            const uint8_t *entries = rows->entries + row * row_bytes;
            const int8_t *weight = weights_of(packed->weight, first, quads);
            if (count == 1)
                panel_of_one_row(sums, entries, weight, packed->shift + first, quads);
            else
                panel_of_rows(sums, entries, weight, packed->shift + first, own + at, quads, count);
            end_panel(to, to_step, rows, packed, epilogue, first, end, sums, row, count, is_float32);
        }
}

/* Outputs `start` to `end` of all rows, `start` a multiple of BYTE_PANEL. */
INLINE void quantized_products(void *to, int64_t to_step, Rows *rows, const Packed *packed, const Epilogue *epilogue,
                               int64_t start, int64_t end, int is_float32) {
    for (int64_t row = 0; row < rows->count; row += ROWS_OF_OWN)
        products_of_some(to, to_step, rows, packed, epilogue, start, end, row, is_float32);
}

#if SIGNED_ROWS
/* Rows of the usual beam. */
#define BEAM_ROWS 5

static const int16_t ONES[2 * LANES] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* Entries of a row, and their magnitudes after all `rows`; returns the scale. */
INLINE float signed_entries(int8_t *to, const float *from, int64_t width, int64_t rows) {
    float scale = scale_of_row(from, width, 1), share = share_of(scale);
    int8_t *magnitudes = to + rows * width;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
        int8_t entry = (int8_t)(int32_t)nearbyintf(from[i] * share);
        to[i] = entry, magnitudes[i] = (int8_t)(entry < 0 ? -entry : entry);
    }
    return scale;
}

/* Sums of a panel of a single row. The weights take the signs of the entries, whose magnitudes are unsigned bytes: two products
 * of at most 127 times 127 fit into 16 bits, and no weight is made longer. */
__attribute__((noinline)) static void panel_of_signed_row(PartSums *to, const int8_t *from, const int8_t *weight, int64_t quads) {
    const __m256i ones = _mm256_loadu_si256((const __m256i *)ONES);
    const int8_t *magnitudes = from + quads * QUAD;
    __m256i sums[BYTE_PANEL / LANES];
#pragma GCC unroll 16
    for (int i = 0; i < BYTE_PANEL / LANES; i++) sums[i] = _mm256_setzero_si256();
    for (int64_t quad = 0; quad < quads; quad++, weight += BYTE_PANEL * QUAD) {
        int32_t entries, sizes;
        memcpy(&entries, from + quad * QUAD, sizeof entries), memcpy(&sizes, magnitudes + quad * QUAD, sizeof sizes);
        __m256i signs = _mm256_set1_epi32(entries), factors = _mm256_set1_epi32(sizes);
#pragma GCC unroll 4
        for (int at = 0; at < BYTE_PANEL * QUAD; at += 64) __builtin_prefetch(weight + AHEAD + at);
#pragma GCC unroll 16
        for (int i = 0; i < BYTE_PANEL / LANES; i++) {
            __m256i own = _mm256_sign_epi8(_mm256_loadu_si256((const __m256i *)weight + i), signs);
            sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(_mm256_maddubs_epi16(factors, own), ones));
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < BYTE_PANEL / LANES; i++) to[i / BYTE_VECTORS][i % BYTE_VECTORS] = (ivec)sums[i];
}

/* sums += the products of four entries of a row with a part. Here the entries take the signs of the weights. In this order for
 * the same reason as in add_row(). */
INLINE void add_signed_row(ivec *sums, const int8_t *from, const ivec *weights, const ivec *magnitudes) {
    int32_t four;
    memcpy(&four, from, sizeof four);
    ivec first, second = (ivec){0} + four;
    __asm__("vpsignb %[weight0], %[second], %[first]\n\t"
            "vpsignb %[weight1], %[second], %[second]\n\t"
            "vpmaddubsw %[first], %[size0], %[first]\n\t"
            "vpmaddubsw %[second], %[size1], %[second]\n\t"
            "vpmaddwd %[ones], %[first], %[first]\n\t"
            "vpmaddwd %[ones], %[second], %[second]\n\t"
            "vpaddd %[first], %[sums0], %[sums0]\n\t"
            "vpaddd %[second], %[sums1], %[sums1]"
            : [sums0] "+x"(sums[0]), [sums1] "+x"(sums[1]), [second] "+&x"(second), [first] "=&x"(first)
            : [weight0] "x"(weights[0]), [weight1] "x"(weights[1]), [size0] "x"(magnitudes[0]), [size1] "x"(magnitudes[1]),
              [ones] "m"(ONES));
}

/* kept += the products of BEAM_ROWS rows with a part of a chunk, all at once: their sums, and two vectors of weights with their
 * magnitudes, take all registers but two. */
__attribute__((noinline)) static void chunk_of_beam(PartSums *kept, const Chunk *chunk) {
    ivec sums[BEAM_ROWS][BYTE_VECTORS];
    const int8_t *from = (const int8_t *)chunk->entries, *weight = chunk->weight, *next = chunk->next;
#pragma GCC unroll 5
    for (int r = 0; r < BEAM_ROWS; r++) sums[r][0] = kept[r][0], sums[r][1] = kept[r][1];
    for (int64_t quad = 0; quad < chunk->quads; quad++, from += QUAD, weight += BYTE_PANEL * QUAD) {
        __builtin_prefetch(next + quad * BYTE_PART * QUAD);
        ivec w[] = {((const loose_ivec *)weight)[0], ((const loose_ivec *)weight)[1]};
        ivec sizes[] = {(ivec)_mm256_abs_epi8((__m256i)w[0]), (ivec)_mm256_abs_epi8((__m256i)w[1])};
#pragma GCC unroll 5
        for (int r = 0; r < BEAM_ROWS; r++) add_signed_row(sums[r], from + r * chunk->row_bytes, w, sizes);
    }
#pragma GCC unroll 5
    for (int r = 0; r < BEAM_ROWS; r++) kept[r][0] = sums[r][0], kept[r][1] = sums[r][1];
}

/* Sums of a panel of BEAM_ROWS rows, for each part those of all rows. */
static void panel_of_beam(PartSums *sums, const int8_t *entries, const int8_t *weight, int64_t quads) {
    memset(sums, 0, sizeof *sums * PARTS * BEAM_ROWS);
    for (int64_t start = 0; start < quads; start += CHUNK_QUADS) {
        int64_t some = smaller_of(quads - start, CHUNK_QUADS);
        for (int part = 0; part < PARTS; part++) {
            const int8_t *here = weight + (start * BYTE_PANEL + part * BYTE_PART) * QUAD;
            const int8_t *next = weight + ((start + some) * BYTE_PANEL + part * some * BYTE_PART) * QUAD;
            Chunk chunk = {(const uint8_t *)entries + start * QUAD, quads * QUAD, some, here, next};
            chunk_of_beam(sums + part * BEAM_ROWS, &chunk);
        }
    }
}

/* Outputs `start` to `end` of one row or of BEAM_ROWS; `scratch` holds the bytes of entries of as many rows, twice. */
static void signed_products(float *to, int64_t to_step, const float *from, int64_t from_step, const Packed *packed,
                            const float *bias, int64_t width, int64_t rows, int64_t start, int64_t end, int8_t *scratch) {
    float scales[BEAM_ROWS];
    for (int64_t r = 0; r < rows; r++) scales[r] = signed_entries(scratch + r * width, from + r * from_step, width, rows);
    Rows rounded = {0, scales, rows, width, {0}};
    for (int64_t first = start; first < end; first += BYTE_PANEL) {
        PartSums sums[PARTS * BEAM_ROWS];
        const int8_t *weight = weights_of(packed->weight, first, width / QUAD);
        if (rows == 1)
            panel_of_signed_row(sums, scratch, weight, width / QUAD);
        else
            panel_of_beam(sums, scratch, weight, width / QUAD);
        end_panel(to, to_step, &rounded, packed, &(Epilogue){.bias = bias}, first, end, sums, 0, rows, 1);
    }
}
#endif
#endif

#endif
