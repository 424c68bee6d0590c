/* Linear layers over rows, few or many: a row has the same bits in any company.
 *
 * So all sums have one order. The inputs i with equal i mod LANES are a class; each class is summed in rising order, then
 * the classes that are half of LANES apart are added, of their sums those that are a fourth apart, and so on. Few rows
 * read the weights as they lie, with a class in each lane, and add across lanes. Many rows get them copied into panels,
 * with an output in each lane: no sums across lanes, and registers that are always busy, at the price of the copy.
 */
#ifndef DIKKAT_LINEAR_H
#define DIKKAT_LINEAR_H

#include "quantized.h"
#include "split_products.h"

/* Outputs and rows that the innermost product of few rows computes side by side: half of the registers are for the sums. */
#define OUTPUTS 4
#define ROWS (REGISTERS / 2 / OUTPUTS)
/* The same for many rows, where each sum is of two classes at once: three fourths of the registers. */
#define PANEL (2 * LANES)
#define PANEL_ROWS (REGISTERS * 3 / 4 / 4)
/* Pairs of classes that are half of LANES apart, and sums of 2, 4 and more classes. */
#define PAIRS (LANES / 2)
#define LEVELS (LANES == 16 ? 4 : LANES == 8 ? 3 : 2)
/* Rows from which a copy of the weights pays: estimated on Zen 4, where it costs what some 19 rows save. */
#define MANY 24

typedef struct {
    const float *weight, *bias; /* (outputs, inputs), (outputs) or null */
    int64_t inputs, outputs;
    Packed packed; /* the same weights in eight bits, which then are the ones in use */
    int64_t rank; /* of what an adapter adds to the matrix, up x down, in whole LOW_RANK_OUTPUTS; 0 for nothing */
    /* (rank, inputs in whole PADDING); (outputs / BYTE_PANEL, rank, BYTE_PANEL). Where the weights are in eight bits so are these,
     * with pairs that are multiplied together: (rank / LOW_RANK_OUTPUTS, padded inputs / 2, LOW_RANK_OUTPUTS, 2);
     * (outputs / BYTE_PANEL, rank / 2, BYTE_PANEL, 2). The second follows the first */
    const void *down, *up;
    const float *low_scales; /* (rank): what the product with both is multiplied with, where they are in eight bits */
    const uint16_t *split; /* the weights as split_panel() makes them, which then are the ones in use; else null */
} Linear;

/* Outputs that one thread must take together. */
INLINE int64_t panel_of(const Linear *linear) { return linear->packed.weight ? BYTE_PANEL : PANEL; }

/* In numbers of four bytes, what quantized_rows() needs for itself. */
INLINE int64_t quantized_scratch(int64_t rows, int64_t inputs) { return padded(rows) * (padded(inputs) * ENTRY_BYTES / 4 + 1); }

/* Rows to which an adapter's product is added at once, and ranks that are computed side by side. */
#define LOW_RANK_ROWS 4
#define LOW_RANK_OUTPUTS 8

/* How many numbers linear_rows() needs for itself. */
INLINE int64_t linear_scratch(const Linear *linear, int64_t rows) {
    int64_t low = linear->rank ? LOW_RANK_ROWS * (2 * padded(linear->rank) + padded(linear->inputs)) : 0;
    int64_t own = linear->packed.weight ? quantized_scratch(rows, linear->inputs) : PANEL * padded(linear->inputs);
#if HAS_TILES
    if (linear->split) own = split_scratch(rows, linear->inputs);
#endif
    return own > low ? own : low;
}

/* The same for any of `count` layers, or of the adapters of all sentences, where these are not null. */
INLINE int64_t largest_scratch(const Linear *linears, int64_t count, const Linear *const *adapters, int64_t sentences,
                               int64_t rows) {
    int64_t largest = 0;
    for (int64_t sentence = 0; sentence < (adapters ? sentences : 1); sentence++)
        for (int64_t i = 0; i < count; i++) {
            int64_t own = linear_scratch((adapters ? adapters[sentence] : linears) + i, rows);
            largest = own > largest ? own : largest;
        }
    return largest;
}

/* The lanes that are `by` apart added up, those of a before those of b. */
#define LOW_LANE(lane, by) ((lane) + ((lane) & -(by)))
#define HIGH_LANE(lane, by) ((lane) + ((lane) & -(by)) + (by))
#define HALVED(a, b, by) (PICKED(a, b, LOW_LANE, by) + PICKED(a, b, HIGH_LANE, by))

/* Sums of the lanes of four vectors, each in the order of lane_sum(). */
INLINE void lane_sums(float *to, const vec *v) {
    vec above = HALVED(v[0], v[1], LANES / 2), below = HALVED(v[2], v[3], LANES / 2), sums = HALVED(above, below, LANES / 4);
#if LANES == 16
    sums += SWAPPED(sums, 2);
#endif
#if LANES >= 8
    sums += SWAPPED(sums, 1);
#endif
    for (int i = 0; i < OUTPUTS; i++) to[i] = sums[LANES / OUTPUTS * i];
}

/* Four outputs (fewer at the end) of `rows` rows; `rows` is a constant where this is used. The outputs are the `count` of
 * the layer that are in `ids`, or all where it is null. */
INLINE void few_rows_block(float *to, int64_t to_step, const float *from, int64_t from_step, const Linear *linear,
                           const int32_t *ids, int64_t count, int64_t output, const int rows) {
    vec sums[ROWS][OUTPUTS] = {{{0}}};
    const float *weight[OUTPUTS];
    int64_t inputs = linear->inputs, whole = inputs / LANES * LANES, last = count - 1, of[OUTPUTS];
    for (int i = 0; i < OUTPUTS; i++) {
        int64_t index = smaller_of(output + i, last);
        of[i] = ids ? ids[index] : index;
        weight[i] = linear->weight + of[i] * inputs;
    }
    for (int64_t at = 0; at < whole; at += LANES) {
        vec w[OUTPUTS];
        for (int i = 0; i < OUTPUTS; i++) w[i] = *(const loose *)(weight[i] + at);
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < OUTPUTS; i++) sums[r][i] += w[i] * *(const vec *)(from + r * from_step + at);
    }
    if (whole < inputs) {
        vec w[OUTPUTS] = {{0}};
        for (int i = 0; i < OUTPUTS; i++) memcpy(&w[i], weight[i] + whole, sizeof(float) * (inputs - whole));
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < OUTPUTS; i++) sums[r][i] += w[i] * *(const vec *)(from + r * from_step + whole);
    }
    for (int r = 0; r < rows; r++) {
        float totals[OUTPUTS];
        lane_sums(totals, sums[r]);
        for (int i = 0; i < OUTPUTS && output + i <= last; i++)
            to[r * to_step + output + i] = totals[i] + (linear->bias ? linear->bias[of[i]] : 0.0f);
    }
}

/* Outputs `start` to `end` of the `count` that are in `ids`, or of all where it is null. */
INLINE void picked_few_rows(float *to, int64_t to_step, const float *from, int64_t from_step, const Linear *linear,
                            const int32_t *ids, int64_t count, int64_t rows, int64_t start, int64_t end) {
    for (int64_t output = start; output < end; output += OUTPUTS)
        for (int64_t row = 0; row < rows; row += ROWS) {
            float *there = to + row * to_step;
            const float *here = from + row * from_step;
            switch (rows - row) {
            case 1: few_rows_block(there, to_step, here, from_step, linear, ids, count, output, 1); break;
            case 2: few_rows_block(there, to_step, here, from_step, linear, ids, count, output, 2); break;
            case 3: few_rows_block(there, to_step, here, from_step, linear, ids, count, output, ROWS < 3 ? ROWS : 3); break;
            default: few_rows_block(there, to_step, here, from_step, linear, ids, count, output, ROWS);
            }
        }
}

static void linear_few_rows(float *to, int64_t to_step, const float *from, int64_t from_step, const Linear *linear,
                            int64_t rows, int64_t start, int64_t end) {
    picked_few_rows(to, to_step, from, from_step, linear, 0, linear->outputs, rows, start, end);
}

/* The first class of each pair, in the order in which their sums add up: its binary digits backwards. */
INLINE int class_of(int pair) {
    int reversed = 0;
#pragma GCC unroll 4
    for (int digit = 1; digit < PAIRS; digit *= 2) reversed = 2 * reversed + (pair & digit ? 1 : 0);
    return reversed;
}

/* Whether the classes of a pair are summed one after the other, for twice as many rows: where there are few registers. */
#define ONE_CLASS (REGISTERS == 16 && LANES == 8)
/* Rows that the innermost product of many rows computes side by side. */
#define SIDE_ROWS (ONE_CLASS ? 2 * PANEL_ROWS : PANEL_ROWS)
/* The weights of a panel of outputs from `output` on as (pairs, inputs / LANES, 2 classes, PANEL); zeros where there are
 * none. */
static void pack_panel(float *panel, const Linear *linear, int64_t output) {
    int64_t inputs = linear->inputs, groups = padded(inputs) / LANES;
    for (int64_t half = 0; half < 2; half++)
        for (int64_t group = 0; group < groups; group++) {
            vec block[LANES];
            int64_t first = output + half * LANES, at = group * LANES, left = inputs - at;
            for (int i = 0; i < LANES; i++) {
                const float *from = linear->weight + (first + i) * inputs + at;
                block[i] = (vec){0};
                if (first + i >= linear->outputs || left <= 0) continue;
                if (left >= LANES)
                    block[i] = *(const loose *)from;
                else
                    memcpy(&block[i], from, sizeof(float) * left);
            }
            transpose(block);
            for (int i = 0; i < LANES; i++) {
                int64_t index = (class_of(i % PAIRS) * groups + group) * 2 + i / PAIRS;
                *(vec *)(panel + index * PANEL + half * LANES) = block[i];
            }
        }
}

#if ONE_CLASS
/* The outputs of a panel, as many as there are, of SIDE_ROWS rows. */
static void panel_block(float *to, int64_t to_step, const float *from, int64_t from_step, const float *panel,
                        int64_t groups, const vec *bias, int64_t outputs) {
    /* sums of 1, 2, 4 and more classes, each until its neighbour is there */
    vec partial[LEVELS + 1][SIDE_ROWS][2];
    for (int number = 0; number < LANES; number++) {
        vec sums[SIDE_ROWS][2] = {{{0}}};
        const float *x = from + class_of(number / 2) + number % 2 * PAIRS, *weight = panel + number % 2 * PANEL;
        for (int64_t group = 0; group < groups; group++, x += LANES, weight += 2 * PANEL) {
            vec low = *(const vec *)weight, high = *(const vec *)(weight + LANES);
#pragma GCC unroll 6
            for (int r = 0; r < SIDE_ROWS; r++) sums[r][0] += x[r * from_step] * low, sums[r][1] += x[r * from_step] * high;
        }
        if (number % 2) panel += 2 * PANEL * groups;
        int level = 0;
        for (; number >> level & 1; level++)
            for (int r = 0; r < SIDE_ROWS; r++)
                for (int half = 0; half < 2; half++) sums[r][half] = partial[level][r][half] + sums[r][half];
        memcpy(partial[level], sums, sizeof sums);
    }
    for (int r = 0; r < SIDE_ROWS; r++) {
        vec totals[2] = {partial[LEVELS][r][0] + bias[0], partial[LEVELS][r][1] + bias[1]};
        memcpy(to + r * to_step, totals, sizeof(float) * outputs);
    }
}
#else
/* The outputs of a panel, as many as there are, of PANEL_ROWS rows. */
static void panel_block(float *to, int64_t to_step, const float *from, int64_t from_step, const float *panel,
                        int64_t groups, const vec *bias, int64_t outputs) {
    /* partial sums of 2, 4 and more classes, each until its neighbour is there */
    vec partial[LEVELS][PANEL_ROWS][2];
    for (int pair = 0; pair < PAIRS; pair++) {
        vec sums[2][PANEL_ROWS][2] = {{{{0}}}};
        const float *x = from + class_of(pair);
        for (int64_t group = 0; group < groups; group++, x += LANES, panel += 2 * PANEL)
            for (int r = 0; r < PANEL_ROWS; r++)
                for (int half = 0; half < 2; half++) {
                    sums[0][r][half] += x[r * from_step] * *(const vec *)(panel + half * LANES);
                    sums[1][r][half] += x[r * from_step + PAIRS] * *(const vec *)(panel + PANEL + half * LANES);
                }
        for (int r = 0; r < PANEL_ROWS; r++)
            for (int half = 0; half < 2; half++) sums[0][r][half] += sums[1][r][half];
        int level = 0;
        for (; pair >> level & 1; level++)
            for (int r = 0; r < PANEL_ROWS; r++)
                for (int half = 0; half < 2; half++) sums[0][r][half] += partial[level][r][half];
        memcpy(partial[level], sums[0], sizeof sums[0]);
    }
    for (int r = 0; r < PANEL_ROWS; r++) {
        vec totals[2] = {partial[LEVELS - 1][r][0] + bias[0], partial[LEVELS - 1][r][1] + bias[1]};
        memcpy(to + r * to_step, totals, sizeof(float) * outputs);
    }
}

#endif

/* SIDE_ROWS at a time; the last may begin with rows that are done, which find the same again. */
static void many_rows(float *to, int64_t to_step, const float *from, int64_t from_step, const Linear *linear,
                      int64_t rows, int64_t start, int64_t end, float *panel) {
    for (int64_t output = start; output < end; output += PANEL) {
        int64_t outputs = end - output < PANEL ? end - output : PANEL;
        vec bias[2] = {{0}};
        if (linear->bias) memcpy(bias, linear->bias + output, sizeof(float) * outputs);
        pack_panel(panel, linear, output);
        for (int64_t next = 0; next < rows; next += SIDE_ROWS) {
            int64_t row = next + SIDE_ROWS <= rows ? next : rows - SIDE_ROWS;
            panel_block(to + row * to_step + output, to_step, from + row * from_step, from_step, panel,
                        padded(linear->inputs) / LANES, bias, outputs);
        }
    }
}

/* Twin: F.linear, on what kernels/int8_products.py rounds. Outputs `start` to `end` of all rows, `start` a multiple of
 * BYTE_PANEL; rows of `from` end in zeros; `scratch` holds quantized_scratch() numbers. */
static void quantized_rows(float *to, int64_t to_step, const float *from, int64_t from_step, const Packed *packed,
                           const float *bias, int64_t inputs, int64_t rows, int64_t start, int64_t end, float *scratch) {
    int64_t width = padded(inputs);
#if SIGNED_ROWS
    if (rows == 1 || rows == BEAM_ROWS) {
        signed_products(to, to_step, from, from_step, packed, bias, width, rows, start, end, (int8_t *)scratch);
        return;
    }
#endif
    float *scales = scratch;
    uint8_t *entries = (uint8_t *)(scratch + padded(rows));
    for (int64_t row = 0; row < rows; row++)
        scales[row] = quantized_row(entries + row * width * ENTRY_BYTES, from + row * from_step, width, 1);
    Rows rounded = {entries, scales, rows, width, {0}};
    quantized_products(to, to_step, &rounded, packed, &(Epilogue){.bias = bias}, start, end, 1);
}

/* `low` (rows, rank in whole PADDING) = `from` x down, `outputs` ranks side by side; these and `rows` are constants where this
 * is used. */
INLINE void low_rank_products(float *low, const float *from, int64_t from_step, const Linear *linear, const int rows,
                              const int outputs) {
    int64_t width = padded(linear->inputs), step = padded(linear->rank);
    for (int64_t rank = 0; rank < linear->rank; rank += outputs) {
        vec sums[LOW_RANK_ROWS][LOW_RANK_OUTPUTS] = {{{0}}};
        for (int64_t at = 0; at < width; at += LANES)
            for (int i = 0; i < outputs; i++) {
                vec w = load_vec(linear->down, (rank + i) * width + at, 1);
                for (int r = 0; r < rows; r++) sums[r][i] += w * *(const vec *)(from + r * from_step + at);
            }
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < outputs; i += OUTPUTS) lane_sums(low + r * step + rank + i, sums[r] + i);
    }
}

/* Adds to `count` outputs from `output` on, at most `vectors` whole ones, of `rows` rows what `low` times up is, in the order of
 * the ranks; all but `output` and `count` are constants where this is used. */
INLINE void low_rank_block(float *to, int64_t to_step, const float *low, const Linear *linear, int64_t output, const int64_t count,
                           const int rows, const int vectors) {
    vec sums[LOW_RANK_ROWS][BYTE_PANEL / LANES] = {{{0}}};
    int64_t step = padded(linear->rank), at = output / BYTE_PANEL * BYTE_PANEL * linear->rank + output % BYTE_PANEL;
    for (int r = 0; r < rows; r++) memcpy(sums[r], to + r * to_step + output, sizeof(float) * count);
    for (int64_t i = 0; i < linear->rank; i++, at += BYTE_PANEL)
        for (int v = 0; v < vectors; v++) {
            vec w = load_vec(linear->up, at + v * LANES, 1);
            for (int r = 0; r < rows; r++) sums[r][v] += low[r * step + i] * w;
        }
    for (int r = 0; r < rows; r++) memcpy(to + r * to_step + output, sums[r], sizeof(float) * count);
}

/* The same for outputs `start` to `end` of `rows` rows: of one as many side by side as keep the processor busy. */
INLINE void low_rank_part(float *to, int64_t to_step, const float *from, int64_t from_step, const Linear *linear, int64_t start,
                          int64_t end, float *low, const int rows) {
    int64_t step = padded(linear->rank);
    if (rows == 1) low_rank_products(low, from, from_step, linear, 1, LOW_RANK_OUTPUTS);
    for (int r = 0; rows > 1 && r < rows; r += 2)
        low_rank_products(low + r * step, from + r * from_step, from_step, linear, 2, OUTPUTS);
    for (int64_t output = start, count; output < end; output += count) {
        count = BYTE_PANEL;
        if (rows == 1 && output % BYTE_PANEL == 0 && output + BYTE_PANEL <= end) {
            low_rank_block(to, to_step, low, linear, output, BYTE_PANEL, 1, BYTE_PANEL / LANES);
            continue;
        }
        count = smaller_of(PANEL, end - output);
        if (count == PANEL)
            low_rank_block(to, to_step, low, linear, output, PANEL, rows, 2);
        else
            low_rank_block(to, to_step, low, linear, output, count, rows, 2);
    }
}

/* Eight ranks or outputs side by side, or as many as a register holds, and pairs of 16-bit numbers that are multiplied in
 * each. */
#define LOW_LANES (LANES == 16 ? 8 : LANES)
#define LOW_GROUP (LOW_RANK_OUTPUTS / LOW_LANES)
/* Entries between the factors are whole numbers of at most 127 << LOW_BITS, so that sums of so many products with bytes fit. */
#define LOW_BITS 5
#define LOW_SUMMED 4096
/* Inputs that are multiplied between two turns of prefetching. */
#define LOW_TOGETHER 8
typedef int32_t low_sums __attribute__((vector_size(4 * LOW_LANES)));
typedef int16_t low_pairs __attribute__((vector_size(4 * LOW_LANES)));
typedef float low_vec __attribute__((vector_size(4 * LOW_LANES)));

INLINE low_pairs pairs_of_bytes(const int8_t *from) {
    int8_t bytes __attribute__((vector_size(2 * LOW_LANES)));
    memcpy(&bytes, from, sizeof bytes);
#if LANES >= 8
    return (low_pairs)_mm256_cvtepi8_epi16((__m128i)bytes);
#else
    return __builtin_convertvector(bytes, low_pairs);
#endif
}

INLINE low_pairs repeated_pair(const int16_t *from) {
    int32_t pair;
    memcpy(&pair, from, sizeof pair);
    return (low_pairs)((low_sums){0} + pair);
}

INLINE low_sums low_products(low_pairs a, low_pairs b) {
#if LANES >= 8
    return (low_sums)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#else
    return (low_sums)products_of_pairs((halves)a, (halves)b);
#endif
}

typedef float loose_low __attribute__((vector_size(4 * LOW_LANES), aligned(4)));

/* The entries of a row as whole numbers of at most 127 << bits; returns what they are multiplied with. */
INLINE float whole_numbers(int16_t *to, const float *from, int64_t width, int bits) {
    float scale = scale_of_row(from, width, 1), share = share_of(scale) * (float)(1 << bits);
    int64_t i = 0;
#if LANES >= 8
    for (; i + 16 <= width; i += 16) {
        __m256i first = _mm256_cvtps_epi32((__m256)(*(const loose_low *)(from + i) * share));
        __m256i second = _mm256_cvtps_epi32((__m256)(*(const loose_low *)(from + i + 8) * share));
        _mm256_storeu_si256((__m256i *)(to + i), _mm256_permute4x64_epi64(_mm256_packs_epi32(first, second), 0xd8));
    }
#endif
    for (; i < width; i++) to[i] = (int16_t)(int32_t)nearbyintf(from[i] * share);
    return scale / (float)(1 << bits);
}

/* `low` (rows, rank in whole PADDING) = `entries` x down, of `groups` eights of ranks from `rank` on; `rows` and `groups` are
 * constants where this is used, and all sums are exact. */
INLINE void byte_down(float *low, const int16_t *entries, const float *scales, const Linear *linear, int64_t rank, Prefetch *next,
                      const int rows, const int groups) {
    int64_t width = padded(linear->inputs), step = padded(linear->rank);
    const int8_t *weight = (const int8_t *)linear->down + rank * width;
    low_sums sums[LOW_RANK_ROWS][2 * LOW_GROUP] = {{{0}}};
    for (int64_t at = 0; at < width; at += 2, weight += 2 * LOW_RANK_OUTPUTS) {
        low_pairs w[2 * LOW_GROUP];
        if (at % LOW_TOGETHER == 0) prefetch_share(next);
#pragma GCC unroll 4
        for (int v = 0; v < groups * LOW_GROUP; v++)
            w[v] = pairs_of_bytes(weight + v / LOW_GROUP * LOW_RANK_OUTPUTS * width + v % LOW_GROUP * 2 * LOW_LANES);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            low_pairs x = repeated_pair(entries + r * width + at);
#pragma GCC unroll 4
            for (int v = 0; v < groups * LOW_GROUP; v++) sums[r][v] += low_products(w[v], x);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < groups * LOW_GROUP; v++) {
            int64_t own = rank + v * LOW_LANES;
            low_vec by = *(const loose_low *)(linear->low_scales + own) * scales[r];
            *(loose_low *)(low + r * step + own) = __builtin_convertvector(sums[r][v], low_vec) * by;
        }
}

/* One expression, so that compilers fuse product and sum everywhere or nowhere. */
INLINE low_vec with_product(low_vec before, low_sums sums, float scale) {
    return before + __builtin_convertvector(sums, low_vec) * scale;
}

/* Adds to `vectors` whole ones of outputs from `output` on, of which there are `count`, of `rows` rows what `lows` times up is. */
INLINE void byte_up(float *to, int64_t to_step, const int16_t *lows, const float *scales, const Linear *linear, int64_t output,
                    int64_t count, const int rows, const int vectors) {
    int64_t rank = linear->rank, step = padded(rank);
    const int8_t *weight = (const int8_t *)linear->up + output / BYTE_PANEL * BYTE_PANEL * rank + output % BYTE_PANEL * 2;
    low_sums sums[LOW_RANK_ROWS][BYTE_PANEL / LOW_LANES] = {{{0}}};
    for (int64_t at = 0; at < rank; at += 2, weight += 2 * BYTE_PANEL) {
        low_pairs x[LOW_RANK_ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) x[r] = repeated_pair(lows + r * step + at);
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            low_pairs w = pairs_of_bytes(weight + v * 2 * LOW_LANES);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) sums[r][v] += low_products(w, x[r]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            float *own = to + r * to_step + output + v * LOW_LANES;
            int64_t left = 4 * smaller_of(LOW_LANES, count - v * LOW_LANES);
            low_vec some = {0};
            if (count >= vectors * LOW_LANES)
                *(loose_low *)own = with_product(*(const loose_low *)own, sums[r][v], scales[r]);
            else if (left > 0)
                memcpy(&some, own, left), some = with_product(some, sums[r][v], scales[r]), memcpy(own, &some, left);
        }
}

/* The same as low_rank_part() for factors in bytes, with the rows and what is between the factors as whole numbers. */
INLINE void byte_low_rank(float *to, int64_t to_step, const float *from, int64_t from_step, const Linear *linear, int64_t start,
                          int64_t end, float *low, Prefetch *next, const int rows) {
    int64_t width = padded(linear->inputs), step = padded(linear->rank), rank = 0;
    int16_t *entries = (int16_t *)(low + LOW_RANK_ROWS * step), *lows = entries + LOW_RANK_ROWS * width;
    float scales[LOW_RANK_ROWS];
    for (int r = 0; r < rows; r++) scales[r] = whole_numbers(entries + r * width, from + r * from_step, width, 0);
    for (; rank + 2 * LOW_RANK_OUTPUTS <= linear->rank; rank += 2 * LOW_RANK_OUTPUTS)
        byte_down(low, entries, scales, linear, rank, next, rows, 2);
    if (rank < linear->rank) byte_down(low, entries, scales, linear, rank, next, rows, 1);
    const int bits = linear->rank > LOW_SUMMED ? 0 : LOW_BITS;
    for (int r = 0; r < rows; r++) scales[r] = whole_numbers(lows + r * step, low + r * step, linear->rank, bits);
    const int vectors = rows == 1 ? BYTE_PANEL / LOW_LANES : 2;
    for (int64_t output = start; output < end; output += vectors * LOW_LANES)
        byte_up(to, to_step, lows, scales, linear, output, end - output, rows, vectors);
}

/* Both factors of `next`, which are side by side, to be asked for while the inputs of `linear` are multiplied: those of many
 * adapters lie further away than what all rows share. */
INLINE Prefetch factors_of_next(const Linear *linear, const Linear *next) {
    int64_t turns = padded(linear->inputs) / LOW_TOGETHER;
    if (!next || !next->packed.weight) return (Prefetch){0};
    int64_t bytes = next->rank * (padded(next->inputs) + groups_of(next->outputs, BYTE_PANEL) * BYTE_PANEL);
    return (Prefetch){next->down, bytes, 64 * groups_of(bytes, 64 * turns)};
}

/* Twin: what run/weights.py adds to a matrix (Hu et al. 2022, equation 3), for the rows and outputs of linear_rows(); `next` is what
 * is called with then, or null. */
static void add_low_rank(float *to, int64_t to_step, const float *from, int64_t from_step, const Linear *linear,
                         int64_t rows, int64_t start, int64_t end, float *low, const Linear *next) {
    const int in_bytes = linear->packed.weight != 0;
    Prefetch prefetch = factors_of_next(linear, next);
    for (int64_t row = 0, some; row < rows; row += some, to += some * to_step, from += some * from_step) {
        some = rows - row >= LOW_RANK_ROWS ? LOW_RANK_ROWS : in_bytes && rows - row >= 2 ? 2 : 1;
        if (in_bytes && some == 1)
            byte_low_rank(to, to_step, from, from_step, linear, start, end, low, &prefetch, 1);
        else if (in_bytes && some == 2)
            byte_low_rank(to, to_step, from, from_step, linear, start, end, low, &prefetch, 2);
        else if (in_bytes)
            byte_low_rank(to, to_step, from, from_step, linear, start, end, low, &prefetch, LOW_RANK_ROWS);
        else if (some == 1)
            low_rank_part(to, to_step, from, from_step, linear, start, end, low, 1);
        else
            low_rank_part(to, to_step, from, from_step, linear, start, end, low, LOW_RANK_ROWS);
    }
}

/* linear_rows() without what an adapter adds. */
static void base_rows(float *to, int64_t to_step, const float *from, int64_t from_step, const Linear *linear,
                      int64_t rows, int64_t start, int64_t end, float *scratch) {
#if HAS_TILES
    if (linear->split) {
        split_rows(to, to_step, from, from_step, linear->split, linear->bias, linear->inputs, rows, start, end, scratch);
        return;
    }
#endif
    if (linear->packed.weight)
        quantized_rows(to, to_step, from, from_step, &linear->packed, linear->bias, linear->inputs, rows, start, end,
                       scratch);
    else if (rows < MANY)
        linear_few_rows(to, to_step, from, from_step, linear, rows, start, end);
    else
        many_rows(to, to_step, from, from_step, linear, rows, start, end, scratch);
}

/* Twin: F.linear. Outputs `start` to `end` of all rows; rows of `from` are aligned and end in zeros, `start` is a
 * multiple of panel_of(), `scratch` holds linear_scratch() numbers. */
static void linear_rows(float *to, int64_t to_step, const float *from, int64_t from_step, const Linear *linear,
                        int64_t rows, int64_t start, int64_t end, float *scratch) {
    base_rows(to, to_step, from, from_step, linear, rows, start, end, scratch);
    if (linear->rank) add_low_rank(to, to_step, from, from_step, linear, rows, start, end, scratch, 0);
}

#endif
