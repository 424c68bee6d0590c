/* Linear layers in eight bits: weights with a scale for each output, activations with a scale for each row, both the
 * largest magnitude over 127, and exact sums of their products in 32 bits. So a row has the same bits in any company.
 */
#ifndef DIKKAT_QUANTIZED_H
#define DIKKAT_QUANTIZED_H

#include "tiles.h"
#include "whole_panels.h"

#if !WHOLE_PANELS
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
    for (int at = 0; rows->count - row >= MIN_IN_TILES; row += TILE_ROWS, at ^= 1) {
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

/* Outputs `start` to `end` of all rows, `start` a multiple of BYTE_PANEL. Behind the last row there is memory for as many as
 * make their number a multiple of PADDING. */
INLINE void quantized_products(void *to, int64_t to_step, Rows *rows, const Packed *packed, const Epilogue *epilogue,
                               int64_t start, int64_t end, int is_float32) {
    const int tiles = begin_tiles(rows->count);
    for (int64_t first = start; first < end; first += BYTE_PART) {
        int64_t outputs = smaller_of(end - first, BYTE_PART);
        vec scales[BYTE_VECTORS], bias[BYTE_VECTORS] = {{0}};
        memcpy(scales, packed->scale + first, sizeof scales);
        if (epilogue->bias)
            for (int64_t i = 0; i < outputs; i++) bias[i / LANES][i % LANES] = load(epilogue->bias, first + i, is_float32);
        Part part = {to, to_step, first, outputs, scales, bias, epilogue};
        int64_t row = 0;
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

#endif
