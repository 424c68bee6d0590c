/* Products of bytes in tiles, which some processors have (Intel's AMX): sixteen rows times sixteen outputs, sixty-four
 * inputs at once. Their sums are as exact as those of vectors, so both find the same bits. */
#ifndef DIKKAT_TILES_H
#define DIKKAT_TILES_H

#include "vectors.h"

#if defined(__AMX_INT8__) && defined(__AMX_BF16__) && defined(__AVX512VNNI__) && defined(__AVX512BF16__)
#define HAS_TILES 1
#else
#define HAS_TILES 0
#endif

/* Rows of a tile, and fours of bytes in each. */
#define TILE_ROWS 16
#define TILE_QUADS 16

#if HAS_TILES
/* Rows from which tiles pay, though most of a tile be empty: estimated, vectors take as long for three or four. */
#define MIN_IN_TILES 4

/* True if the kernel lets this process use tiles; requested once, at loading. */
extern int tiles_allowed;

/* The instructions, written out since the intrinsics do not tell the compiler that they read and write memory. */
#define LOAD_TILE(tile, from, step)                                                                                    \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"((int64_t)(step)) : "memory")
#define STORE_TILE(to, step, tile)                                                                                     \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"((int64_t)(step)) : "memory")
#define ADD_TILES(sums, rows, weights)                                                                                 \
    __asm__ volatile("tdpbusd %%tmm" #weights ", %%tmm" #rows ", %%tmm" #sums : :)

/* sums (16 rows, 4 vectors) = `start` in every row + products with four tiles of outputs, of 64 inputs at each of `steps`.
 * Rows are `row_step` bytes apart, the inputs of the next step `hop`; the weights of four inputs are a panel, 256 bytes,
 * apart. */
INLINE void tile_products(ivec (*sums)[4], const uint8_t *from, int64_t row_step, int64_t hop, const int8_t *weight,
                          const ivec *start, int64_t steps) {
    /* the same row sixteen times */
    LOAD_TILE(0, start, 0);
    LOAD_TILE(1, start + 1, 0);
    LOAD_TILE(2, start + 2, 0);
    LOAD_TILE(3, start + 3, 0);
    for (int64_t step = 0; step < steps; step++, from += hop, weight += TILE_QUADS * 256) {
        LOAD_TILE(4, from, row_step);
        LOAD_TILE(5, weight, 256);
        ADD_TILES(0, 4, 5);
        LOAD_TILE(6, weight + 64, 256);
        ADD_TILES(1, 4, 6);
        LOAD_TILE(7, weight + 128, 256);
        ADD_TILES(2, 4, 7);
        LOAD_TILE(5, weight + 192, 256);
        ADD_TILES(3, 4, 5);
    }
    STORE_TILE(sums[0], 256, 0);
    STORE_TILE(sums[0] + 1, 256, 1);
    STORE_TILE(sums[0] + 2, 256, 2);
    STORE_TILE(sums[0] + 3, 256, 3);
}

/* How many of so many rows are multiplied at once, where vectors multiply `few`. */
INLINE int64_t rows_together(int64_t rows, int64_t few) {
    return tiles_allowed && rows >= MIN_IN_TILES ? TILE_ROWS : few;
}

/* Before and after products of so many rows: lays out the tiles of this thread, if they pay; returns whether they do. */
INLINE int begin_tiles(int64_t rows) {
    static const struct {
        uint8_t palette, start, none[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } layout = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    if (!tiles_allowed || rows < MIN_IN_TILES) return 0;
    __asm__ volatile("ldtilecfg %0" : : "m"(layout));
    return 1;
}

INLINE void end_tiles(int began) {
    if (began) __asm__ volatile("tilerelease");
}
#else
INLINE int64_t rows_together(int64_t rows, int64_t few) {
    (void)rows;
    return few;
}

INLINE int begin_tiles(int64_t rows) {
    (void)rows;
    return 0;
}

INLINE void end_tiles(int began) { (void)began; }
#endif

#endif
