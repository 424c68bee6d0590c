/* Products of small float32 matrices in cache, in tiles that stay in registers. */
#ifndef DIKKAT_PRODUCTS_H
#define DIKKAT_PRODUCTS_H

#include "vectors.h"

/* Rows and vectors that the innermost product computes side by side, at most: its sums stay in registers. */
#define TALLEST 8
#define WIDEST 4

/* to (R, C vectors) = rows (R, inner) x matrix (inner, C vectors); R and C are constants where this is used. */
INLINE void tile(float *to, int64_t to_step, const float *rows, int64_t row_step, int64_t hop, const float *matrix,
                 int64_t inner, int64_t step, const int R, const int C) {
    vec sums[TALLEST][WIDEST];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int c = 0; c < C; c++) sums[r][c] = (vec){0};
    for (int64_t i = 0; i < inner; i++, rows += hop, matrix += step)
#pragma GCC unroll 8
        for (int r = 0; r < R; r++)
#pragma GCC unroll 4
            for (int c = 0; c < C; c++) sums[r][c] += rows[r * row_step] * *(const loose *)(matrix + c * LANES);
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int c = 0; c < C; c++) *(vec *)(to + r * to_step + c * LANES) = sums[r][c];
}

/* to (count, columns) = rows (count, inner) x matrix (inner, columns), whose rows are `step` apart; both are multiples
 * of PADDING, the entries of a row are `hop` apart. Every sum is in rising order. The last tile of rows may begin with
 * rows that are done. */
static void rows_times_matrix(float *to, int64_t to_step, const float *rows, int64_t row_step, int64_t hop,
                              const float *matrix, int64_t inner, int64_t step, int64_t columns, int64_t count) {
/* Tiles of so many rows and vectors. */
#define COLUMNS(R, C)                                                                                                  \
    for (; at + (C) * LANES <= columns; at += (C) * LANES)                                                             \
        for (int64_t next = 0; next < count;) {                                                                        \
            int64_t row = count < (R) || next + (R) <= count ? next : count - (R);                                     \
            float *there = to + row * to_step + at;                                                                    \
            const float *here = rows + row * row_step;                                                                 \
            if (count < (R))                                                                                           \
                tile(there, to_step, here, row_step, hop, matrix + at, inner, step, 1, C), next++;                     \
            else                                                                                                       \
                tile(there, to_step, here, row_step, hop, matrix + at, inner, step, R, C), next = row + (R);           \
        }
    int64_t at = 0;
#if REGISTERS == 32
    COLUMNS(6, 4)
    COLUMNS(8, 2)
    COLUMNS(8, 1)
#else
    COLUMNS(6, 2)
#endif
#undef COLUMNS
}

#endif
