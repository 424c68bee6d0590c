/* Keys and values in bfloat16, and attention of one query over them: half the bytes to wait for. Each position has a row
 * of its own, so that it may lie anywhere. Sums are of float32 numbers, in one order.
 */
#ifndef DIKKAT_NARROW_H
#define DIKKAT_NARROW_H

#include "layers.h"

/* Numbers that are read at once. */
#define PAIR (2 * LANES)
/* Positions that are compared with a query side by side, as many as lane_sums() takes. */
#define COMPARED OUTPUTS

typedef uint32_t words __attribute__((vector_size(4 * LANES), may_alias));

/* The keys and values of one head. */
typedef struct {
    const uint16_t *keys, *values; /* in rows of paired() numbers */
    const int32_t *slots;          /* of each position; null: all in the first */
    int64_t slot_rows;             /* from a slot to the next */
    int64_t count, width;
} Memory;

/* The width of a row, with zeros at the end. */
INLINE int64_t paired(int64_t width) { return (width + PAIR - 1) / PAIR * PAIR; }

INLINE int64_t row_of(const Memory *m, int64_t position) {
    return ((m->slots ? m->slots[position] * m->slot_rows : 0) + position) * paired(m->width);
}

/* Sixteen numbers of a row from `at` on, with zeros behind its end. */
INLINE vec part_of_row(const float *from, int64_t at, int64_t width) {
    vec found = {0};
    if (at + LANES <= width)
        found = *(const loose *)(from + at);
    else if (at < width)
        memcpy(&found, from + at, sizeof(float) * (width - at));
    return found;
}

/* Round to nearest, ties to even: the upper halves count. */
INLINE words rounded(vec x) {
    words bits = (words)x;
    return bits + 0x7fff + (bits >> 16 & 1);
}

/* Of 32 numbers, i and i + 16 share a word: a shift and a mask part them again. */
INLINE void narrow_row(uint16_t *to, const float *from, int64_t width) {
    for (int64_t at = 0; at < width; at += PAIR) {
        words low = rounded(part_of_row(from, at, width)), high = rounded(part_of_row(from, at + LANES, width));
        *(words *)(to + at) = low >> 16 | (high & 0xffff0000);
    }
}

INLINE void widen(vec to[2], const uint16_t *from) {
    words both = *(const words *)from;
    to[0] = (vec)(both << 16), to[1] = (vec)(both & 0xffff0000);
}

/* The products of a query, which ends in zeros, with all keys; some numbers behind them are written too. */
INLINE void compare(float *to, const float *query, const Memory *m) {
    for (int64_t first = 0; first < m->count; first += COMPARED) {
        const uint16_t *keys[COMPARED];
        vec sums[COMPARED] = {{0}};
        for (int i = 0; i < COMPARED; i++)
            keys[i] = m->keys + row_of(m, first + i < m->count ? first + i : m->count - 1);
        for (int64_t at = 0; at < m->width; at += PAIR)
            for (int i = 0; i < COMPARED; i++) {
                vec key[2];
                widen(key, keys[i] + at);
                sums[i] += *(const vec *)(query + at) * key[0];
                sums[i] += *(const vec *)(query + at + LANES) * key[1];
            }
        lane_sums(to + first, sums);
    }
}

/* sums += weight x numbers, 32 for each of `pairs`, a constant where this is used. */
INLINE void add_weighted(vec *sums, float weight, const uint16_t *from, const int pairs) {
#pragma GCC unroll 2
    for (int pair = 0; pair < pairs; pair++) {
        vec value[2];
        widen(value, from + pair * PAIR);
        sums[2 * pair] += weight * value[0], sums[2 * pair + 1] += weight * value[1];
    }
}

/* The numbers from `at` on of the weighted sum of all values. Even and odd positions are summed apart, so that one sum
 * need not wait for the other. */
INLINE void weigh(float *to, const float *weights, const Memory *m, int64_t at, const int pairs) {
    vec even[4] = {{0}}, odd[4] = {{0}};
    int64_t position = 0;
    for (; position + 2 <= m->count; position += 2) {
        add_weighted(even, weights[position], m->values + row_of(m, position) + at, pairs);
        add_weighted(odd, weights[position + 1], m->values + row_of(m, position + 1) + at, pairs);
    }
    if (position < m->count) add_weighted(even, weights[position], m->values + row_of(m, position) + at, pairs);
    for (int i = 0; i < 2 * pairs; i++) *(vec *)(to + at + i * LANES) = even[i] + odd[i];
}

/* Twin: nn/functional.py, fused_attention, for one query of one head, with keys and values in bfloat16. `seen`, where not
 * null, is given the weights; `scratch` holds count (padded) and paired(width) numbers. */
INLINE void attend_narrow(float *output, const float *query, const Memory *m, const uint8_t *mask, float beta,
                          float *seen, float *scratch) {
    float *weights = scratch + paired(m->width), *row = scratch;
    int64_t at = 0, end = paired(m->width);
    for (int64_t i = 0; i < end; i += LANES) *(vec *)(row + i) = part_of_row(query, i, m->width);
    compare(weights, row, m);
    softmax_row(weights, m->count, beta, mask, 1);
    if (seen) memcpy(seen, weights, sizeof(float) * m->count);
    for (; at + 2 * PAIR <= end; at += 2 * PAIR) weigh(row, weights, m, at, 2);
    if (at < end) weigh(row, weights, m, at, 1);
    memcpy(output, row, sizeof(float) * m->width);
}

#endif
