/* Products of float32 numbers in three parts of bfloat16 each, in tiles: of the nine products of parts the six largest.
 * What is left out is 2^-24 of a product, as much as float32 rounds. Each row has sums of its own, all in one order. */
#ifndef DIKKAT_SPLIT_PRODUCTS_H
#define DIKKAT_SPLIT_PRODUCTS_H

#include "bf16_products.h"

#if HAS_TILES
/* Parts of a number; outputs, and rows, that are computed together, in two tiles. */
#define NUMBER_PARTS 3
#define SPLIT_PANEL (2 * TILE_ROWS)
#define WHOLE_TILE (TILE_ROWS * TILE_NUMBERS)
/* From the tiles of some inputs, (NUMBER_PARTS, 2, WHOLE_TILE), to those of the next. */
#define STEP (NUMBER_PARTS * 2 * WHOLE_TILE)

/* Numbers of SPLIT_PANEL rows in parts. */
INLINE int64_t split_numbers(int64_t inner) { return whole(inner) / TILE_NUMBERS * STEP; }

/* How many numbers of four bytes split_rows() needs for itself. */
INLINE int64_t split_scratch(int64_t rows, int64_t inputs) {
    return SPLIT_PANEL * SPLIT_PANEL + groups_of(rows, SPLIT_PANEL) * split_numbers(inputs) / 2;
}

/* Numbers of a row in parts, each in a tile of its own, zeros after the `count` that there are. */
INLINE void split_part(uint16_t *to, const float *from, int64_t count) {
    for (int64_t at = 0; at < TILE_NUMBERS; at += LANES) {
        vec numbers = {0};
        if (at + LANES <= count)
            numbers = *(const loose *)(from + at);
        else if (at < count)
            memcpy(&numbers, from + at, sizeof(float) * (count - at));
        for (int part = 0; part < NUMBER_PARTS; part++) {
            bf16_vec own = to_bf16_vec(numbers);
            memcpy(to + part * 2 * WHOLE_TILE + at, &own, sizeof own);
            numbers -= (vec)(longer_halves(own) << 16);
        }
    }
}

/* `count` rows, at most SPLIT_PANEL, in parts. */
INLINE void split_block(uint16_t *to, const float *from, int64_t step, int64_t count, int64_t inner) {
    for (int64_t at = 0; at < inner; at += TILE_NUMBERS, to += STEP)
        for (int64_t row = 0; row < count; row++)
            split_part(to + row * TILE_NUMBERS, from + row * step + at, smaller_of(inner - at, TILE_NUMBERS));
}

/* The weights of a panel from rows of `inputs`, zeros after the `outputs` that there are: pairs of inputs by outputs. */
static void split_panel(uint16_t *to, const float *weight, int64_t outputs, int64_t inputs) {
    for (int64_t at = 0; at < inputs; at += TILE_NUMBERS) {
        uint16_t some[NUMBER_PARTS][2][WHOLE_TILE] __attribute__((aligned(64))) = {{{0}}};
        split_block(some[0][0], weight + at, inputs, outputs, smaller_of(inputs - at, TILE_NUMBERS));
        for (int part = 0; part < NUMBER_PARTS; part++)
            for (int half = 0; half < 2; half++, to += WHOLE_TILE)
                load_columns((float *)to, some[part][half], TILE_ROWS, TILE_ROWS, TILE_ROWS, 1);
    }
}

/* The tiles of a part of rows, of a part of pairs, and sums of their products. */
#define LOAD_ROWS(part)                                                                                                \
    LOAD_TILE(4, rows + 2 * (part) * WHOLE_TILE, 64);                                                                  \
    if (R == 2) LOAD_TILE(5, rows + (2 * (part) + 1) * WHOLE_TILE, 64)
#define LOAD_PAIRS(part)                                                                                               \
    LOAD_TILE(6, pairs + 2 * (part) * WHOLE_TILE, 64);                                                                 \
    LOAD_TILE(7, pairs + (2 * (part) + 1) * WHOLE_TILE, 64)
#define ADD_PARTS                                                                                                      \
    ADD_BF16_TILES(0, 4, 6);                                                                                           \
    ADD_BF16_TILES(1, 4, 7);                                                                                           \
    if (R == 2) ADD_BF16_TILES(2, 5, 6);                                                                               \
    if (R == 2) ADD_BF16_TILES(3, 5, 7)

/* to (R tiles, 2 tiles) = bias + rows (R tiles, inner) x pairs (inner / 2, 2 tiles), both in parts; R is a constant. */
INLINE void split_tiles(float *to, int64_t to_step, const uint16_t *rows, const uint16_t *pairs, const float *bias,
                        int64_t inner, const int R) {
    float *below = to + TILE_ROWS * to_step;
    /* the same row sixteen times */
    LOAD_TILE(0, bias, 0);
    LOAD_TILE(1, bias + LANES, 0);
    if (R == 2) LOAD_TILE(2, bias, 0);
    if (R == 2) LOAD_TILE(3, bias + LANES, 0);
    for (int64_t at = 0; at < inner; at += TILE_NUMBERS, rows += STEP, pairs += STEP) {
        LOAD_ROWS(0);
        LOAD_PAIRS(0);
        ADD_PARTS;
        LOAD_PAIRS(2);
        ADD_PARTS;
        LOAD_PAIRS(1);
        ADD_PARTS;
        LOAD_ROWS(1);
        ADD_PARTS;
        LOAD_PAIRS(0);
        ADD_PARTS;
        LOAD_ROWS(2);
        ADD_PARTS;
    }
    STORE_TILE(to, 4 * to_step, 0);
    STORE_TILE(to + LANES, 4 * to_step, 1);
    if (R == 2) STORE_TILE(below, 4 * to_step, 2);
    if (R == 2) STORE_TILE(below + LANES, 4 * to_step, 3);
}

/* Outputs of a panel, `outputs` of them, of `count` rows, at most SPLIT_PANEL: where these fill no tiles, by way of `sums`. */
INLINE void split_products(float *to, int64_t to_step, const uint16_t *rows, const uint16_t *pairs, const float *bias,
                           int64_t inner, int64_t count, int64_t outputs, float *sums) {
    if (count == SPLIT_PANEL && outputs == SPLIT_PANEL) {
        split_tiles(to, to_step, rows, pairs, bias, inner, 2);
        return;
    }
    if (count > TILE_ROWS)
        split_tiles(sums, SPLIT_PANEL, rows, pairs, bias, inner, 2);
    else
        split_tiles(sums, SPLIT_PANEL, rows, pairs, bias, inner, 1);
    for (int64_t row = 0; row < count; row++)
        memcpy(to + row * to_step, sums + row * SPLIT_PANEL, sizeof(float) * outputs);
}

/* Outputs `start` to `end` of all rows, `start` a multiple of SPLIT_PANEL; `scratch` holds split_scratch() numbers. */
static void split_rows(float *to, int64_t to_step, const float *from, int64_t from_step, const uint16_t *split,
                       const float *bias, int64_t inputs, int64_t rows, int64_t start, int64_t end, float *scratch) {
    int64_t block = split_numbers(inputs);
    uint16_t *entries = (uint16_t *)(scratch + SPLIT_PANEL * SPLIT_PANEL);
    for (int64_t row = 0; row < rows; row += SPLIT_PANEL) {
        int64_t count = smaller_of(rows - row, SPLIT_PANEL);
        split_block(entries + row / SPLIT_PANEL * block, from + row * from_step, from_step, count, inputs);
    }
    begin_tiles(TILE_ROWS);
    for (int64_t output = start; output < end; output += SPLIT_PANEL) {
        const uint16_t *panel = split + output / SPLIT_PANEL * block;
        int64_t outputs = smaller_of(end - output, SPLIT_PANEL);
        float biases[SPLIT_PANEL] = {0};
        if (bias) memcpy(biases, bias + output, sizeof(float) * outputs);
        for (int64_t row = 0; row < rows; row += SPLIT_PANEL)
            split_products(to + row * to_step + output, to_step, entries + row / SPLIT_PANEL * block, panel, biases, inputs,
                           smaller_of(rows - row, SPLIT_PANEL), outputs, scratch);
    }
    end_tiles(1);
}
#undef LOAD_ROWS
#undef LOAD_PAIRS
#undef ADD_PARTS
#undef STEP
#endif

#endif
