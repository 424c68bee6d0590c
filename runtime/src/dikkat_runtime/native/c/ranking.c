/* The ranking of many rows in one call: the same for each, whatever the number of rows and of threads. */
#include "ranking.h"

#include <omp.h>

/* Entries below which one more thread costs more than it brings. */
#define SHARE (1 << 15)

INLINE int64_t team(int64_t entries, int64_t threads) { return smaller_of(1 + entries / SHARE, threads); }

/* Twin: decoding/ranking.py, top. `found` and `places` are (rows, k). */
void top_entries(const float *values, int64_t rows, int64_t width, int64_t k, float *found, int64_t *places,
                 int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(team(rows * width, threads))
    for (int64_t r = 0; r < rows; r++) top_of_row(values + r * width, width, k, found + r * k, places + r * k);
}

/* Twin: decoding/ranking.py, normalizers. `largest` and `log_sums` are (rows). */
void normalizers(const float *values, int64_t rows, int64_t width, float *largest, float *log_sums, int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(team(rows * width, threads))
    for (int64_t r = 0; r < rows; r++) {
        largest[r] = largest_entry(values + r * width, width);
        log_sums[r] = log_sum_of_row(values + r * width, width, largest[r]);
    }
}
