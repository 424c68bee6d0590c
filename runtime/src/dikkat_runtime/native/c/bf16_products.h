/* Products of small matrices of bfloat16 in cache, in tiles, and the layouts that tiles read.
 *
 * A matrix that is multiplied lies in rows of whole tiles. One that is multiplied by lies in pairs: numbers of two rows
 * alternate, so that a pair is 32 bits. Sums are float32. */
#ifndef DIKKAT_BF16_PRODUCTS_H
#define DIKKAT_BF16_PRODUCTS_H

#include "tensors.h"
#include "tiles.h"

#if HAS_TILES
/* Numbers of a row of a tile. */
#define TILE_NUMBERS 32

typedef int16_t short_numbers __attribute__((vector_size(2 * TILE_NUMBERS)));

/* The next multiple of it. */
INLINE int64_t whole(int64_t n) { return groups_of(n, TILE_NUMBERS) * TILE_NUMBERS; }

#define CLEAR_TILE(tile) __asm__ volatile("tilezero %%tmm" #tile : :)
#define ADD_BF16_TILES(sums, rows, pairs)                                                                            \
    __asm__ volatile("tdpbf16ps %%tmm" #pairs ", %%tmm" #rows ", %%tmm" #sums : :)

/* to (R tiles, C tiles), which may be added to, = rows (R tiles, inner) x pairs (inner / 2, C tiles). */
INLINE void bf16_tile(float *to, int64_t to_step, const uint16_t *rows, int64_t row_step, const uint32_t *pairs,
                        int64_t step, int64_t inner, int adds, const int R, const int C) {
    float *below = to + TILE_ROWS * to_step;
    if (adds) {
        LOAD_TILE(0, to, 4 * to_step);
        if (C == 2) LOAD_TILE(1, to + LANES, 4 * to_step);
        if (R == 2) LOAD_TILE(2, below, 4 * to_step);
        if (R == 2 && C == 2) LOAD_TILE(3, below + LANES, 4 * to_step);
    } else {
        CLEAR_TILE(0);
        CLEAR_TILE(1);
        CLEAR_TILE(2);
        CLEAR_TILE(3);
    }
    for (int64_t i = 0; i < inner; i += TILE_NUMBERS, rows += TILE_NUMBERS, pairs += TILE_ROWS * step) {
        LOAD_TILE(4, rows, 2 * row_step);
        LOAD_TILE(6, pairs, 4 * step);
        ADD_BF16_TILES(0, 4, 6);
        if (C == 2) LOAD_TILE(7, pairs + LANES, 4 * step);
        if (C == 2) ADD_BF16_TILES(1, 4, 7);
        if (R == 2) LOAD_TILE(5, rows + TILE_ROWS * row_step, 2 * row_step);
        if (R == 2) ADD_BF16_TILES(2, 5, 6);
        if (R == 2 && C == 2) ADD_BF16_TILES(3, 5, 7);
    }
    STORE_TILE(to, 4 * to_step, 0);
    if (C == 2) STORE_TILE(to + LANES, 4 * to_step, 1);
    if (R == 2) STORE_TILE(below, 4 * to_step, 2);
    if (R == 2 && C == 2) STORE_TILE(below + LANES, 4 * to_step, 3);
}

/* to (count, columns), which may be added to, = rows (count, inner) x pairs (inner / 2, columns), whose rows are `to_step`,
 * `row_step` and `step` entries apart. Inner is whole, columns are padded; rows are multiplied, and written, up to the end
 * of the last tile. */
static void bf16_products(float *to, int64_t to_step, const uint16_t *rows, int64_t row_step, const uint32_t *pairs,
                            int64_t step, int64_t inner, int64_t columns, int64_t count, int adds) {
    for (int64_t at = 0; at < columns; at += 2 * LANES) {
        const int two = columns - at > LANES;
        for (int64_t row = 0; row < count; row += 2 * TILE_ROWS) {
            float *there = to + row * to_step + at;
            const uint16_t *here = rows + row * row_step;
            if (count - row > TILE_ROWS && two)
                bf16_tile(there, to_step, here, row_step, pairs + at, step, inner, adds, 2, 2);
            else if (count - row > TILE_ROWS)
                bf16_tile(there, to_step, here, row_step, pairs + at, step, inner, adds, 2, 1);
            else if (two)
                bf16_tile(there, to_step, here, row_step, pairs + at, step, inner, adds, 1, 2);
            else
                bf16_tile(there, to_step, here, row_step, pairs + at, step, inner, adds, 1, 1);
        }
    }
}

/* Copies `count` rows of bfloat16, `stride` apart, into rows of whole tiles, zeros after them and up to `rows`. */
static void load_whole_rows(uint16_t *to, const uint16_t *from, int64_t stride, int64_t count, int64_t width, int64_t rows) {
    int64_t step = whole(width);
    for (int64_t row = 0; row < count; row++, from += stride, to += step)
        for (int64_t at = 0; at < step; at += LANES) {
            bf16_vec some = {0};
            if (at + LANES <= width)
                memcpy(&some, from + at, sizeof some);
            else
                for (int64_t i = at; i < width; i++) some[i - at] = from[i];
            memcpy(to + at, &some, sizeof some);
        }
    memset(to, 0, sizeof *to * step * (rows - count));
}

/* Pairs of two and two of an even number of rows, of which the first `columns`, padded, are taken. */
INLINE void pair_rows(uint32_t *to, const uint16_t *rows, int64_t step, int64_t count, int64_t columns) {
    for (int64_t row = 0; row < count; row += 2, rows += 2 * step, to += columns)
        for (int64_t at = 0; at < columns; at += LANES) {
            bf16_vec above, below;
            memcpy(&above, rows + at, sizeof above), memcpy(&below, rows + step + at, sizeof below);
            *(ivec *)(to + at) = longer_halves(above) | longer_halves(below) << 16;
        }
}

/* The transpose (columns, whole count) of the first `columns`, padded, of `count` rows; `buffer` is for their pairs. */
INLINE void rotate_whole_rows(uint16_t *to, uint32_t *buffer, const uint16_t *rows, int64_t step, int64_t count,
                            int64_t columns) {
    pair_rows(buffer, rows, step, whole(count), columns);
    load_columns((float *)to, buffer, whole(count) / 2, columns, columns, 1);
}

/* A vector of float32 numbers of which those from `visible` on are zeros. */
INLINE vec up_to(vec numbers, int64_t visible) {
    return visible >= LANES ? numbers : (vec)((ivec)numbers & (LANE_NUMBERS < (int32_t)visible));
}

/* Rounds `count` rows of `visible` numbers; zeros after them, up to whole tiles. */
INLINE void to_bf16_rows(uint16_t *to, int64_t to_step, const float *from, int64_t step, int64_t count, int64_t visible) {
    for (int64_t row = 0; row < count; row++, from += step, to += to_step) {
        int64_t at = 0;
        for (; at < visible; at += LANES) store_vec(to, at, up_to(*(const vec *)(from + at), visible - at), LANES, 0);
        if (at < whole(visible)) store_vec(to, at, (vec){0}, LANES, 0);
    }
}

/* Two vectors in bfloat16, and numbers of both in turn. */
#define PAIR_OF(lane, x) lane, lane + LANES
INLINE short_numbers to_bf16_together(vec low, vec high) {
    return (short_numbers)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
}

INLINE short_numbers alternating(short_numbers both) {
    const short_numbers lanes = {LANE_LIST(PAIR_OF, 0)};
    return (short_numbers)_mm512_permutexvar_epi16((__m512i)lanes, (__m512i)both);
}
#endif

#endif
