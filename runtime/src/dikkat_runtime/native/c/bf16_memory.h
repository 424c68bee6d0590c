/* Keys and values in bfloat16, and attention of one query over them: half the bytes to wait for. Each position has a row
 * of its own, so that it may lie anywhere. Sums are of float32 numbers, in one order.
 */
#ifndef DIKKAT_BF16_MEMORY_H
#define DIKKAT_BF16_MEMORY_H

#include "layers.h"

/* Numbers that a row of them is padded to a multiple of. */
#define PAIR (2 * PADDING)
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

/* A vector of a row from `at` on, with zeros after its end. */
INLINE vec part_of_row(const float *from, int64_t at, int64_t width) {
    vec values = {0};
    if (at + LANES <= width)
        values = *(const loose *)(from + at);
    else if (at < width)
        memcpy(&values, from + at, sizeof(float) * (width - at));
    return values;
}

/* Round to nearest, ties to even: the upper halves count. */
INLINE words rounded(vec x) {
    words bits = (words)x;
    return bits + 0x7fff + (bits >> 16 & 1);
}

/* Vectors of words in a row. Of each PAIR of numbers, i and i + PADDING share a word: a shift and a mask part them. */
INLINE int64_t vectors_of(int64_t width) { return paired(width) / 2 / LANES; }

/* The first of the numbers in the lower halves of such a vector; those in the upper halves are PADDING further on. */
INLINE int64_t offset_in_row(int64_t vector) {
    int64_t word = vector * LANES;
    return word / PADDING * PAIR + word % PADDING;
}

INLINE void to_bf16_row(uint16_t *to, const float *from, int64_t width) {
    for (int64_t i = 0; i < vectors_of(width); i++) {
        int64_t at = offset_in_row(i);
        words low = rounded(part_of_row(from, at, width)), high = rounded(part_of_row(from, at + PADDING, width));
        ((words *)to)[i] = low >> 16 | (high & 0xffff0000);
    }
}

/* The numbers of one vector of words of a row. */
INLINE void from_bf16_pair(vec to[2], const uint16_t *row, int64_t vector) {
    words both = ((const words *)row)[vector];
    to[0] = (vec)(both << 16), to[1] = (vec)(both & 0xffff0000);
}

/* The products of a query, which ends in zeros, with all keys; some numbers after them are written too. */
INLINE void compare(float *to, const float *query, const Memory *m) {
    for (int64_t first = 0; first < m->count; first += COMPARED) {
        const uint16_t *keys[COMPARED];
        vec sums[COMPARED] = {{0}};
        for (int i = 0; i < COMPARED; i++)
            keys[i] = m->keys + row_of(m, first + i < m->count ? first + i : m->count - 1);
        for (int64_t part = 0; part < vectors_of(m->width); part++) {
            const float *own = query + offset_in_row(part);
            for (int i = 0; i < COMPARED; i++) {
                vec key[2];
                from_bf16_pair(key, keys[i], part);
                sums[i] += *(const vec *)own * key[0];
                sums[i] += *(const vec *)(own + PADDING) * key[1];
            }
        }
        lane_sums(to + first, sums);
    }
}

/* sums += weight x the numbers of `count` vectors of words of a row, a constant where this is used. */
INLINE void add_weighted(vec sums[][2], float weight, const uint16_t *row, int64_t first, const int count) {
#pragma GCC unroll 2
    for (int i = 0; i < count; i++) {
        vec value[2];
        from_bf16_pair(value, row, first + i);
        sums[i][0] += weight * value[0], sums[i][1] += weight * value[1];
    }
}

/* What `count` vectors of words from the `first` on hold of the weighted sum of all values. Even and odd positions are
 * summed apart, so that one sum need not wait for the other. */
INLINE void weigh(float *to, const float *weights, const Memory *m, int64_t first, const int count) {
    vec even[2][2] = {{{0}}}, odd[2][2] = {{{0}}};
    int64_t position = 0;
    for (; position + 2 <= m->count; position += 2) {
        add_weighted(even, weights[position], m->values + row_of(m, position), first, count);
        add_weighted(odd, weights[position + 1], m->values + row_of(m, position + 1), first, count);
    }
    if (position < m->count) add_weighted(even, weights[position], m->values + row_of(m, position), first, count);
    for (int i = 0; i < count; i++) {
        float *there = to + offset_in_row(first + i);
        *(vec *)there = even[i][0] + odd[i][0], *(vec *)(there + PADDING) = even[i][1] + odd[i][1];
    }
}

/* Twin: nn/functional.py, fused_attention, for one query of one head, with keys and values in bfloat16. `weights_out`, where not
 * null, is given the weights; `scratch` holds count (padded) and paired(width) numbers. */
INLINE void attend_bf16(float *output, const float *query, const Memory *m, const uint8_t *mask, float beta,
                          float *weights_out, float *scratch) {
    float *weights = scratch + paired(m->width), *row = scratch;
    int64_t part = 0, parts = vectors_of(m->width);
    for (int64_t i = 0; i < paired(m->width); i += LANES) *(vec *)(row + i) = part_of_row(query, i, m->width);
    compare(weights, row, m);
    softmax_row(weights, m->count, beta, mask, 1);
    if (weights_out) memcpy(weights_out, weights, sizeof(float) * m->count);
    for (; part + 2 <= parts; part += 2) weigh(row, weights, m, part, 2);
    if (part < parts) weigh(row, weights, m, part, 1);
    memcpy(output, row, sizeof(float) * m->width);
}

#endif
