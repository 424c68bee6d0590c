/* Rotary positions: pairs of a row are turned by angles that grow with its position. */
#ifndef DIKKAT_ROTATION_H
#define DIKKAT_ROTATION_H

#include "indices.h"
#include "vectors.h"

/* By which angles; the width is even. */
typedef struct {
    const float *cosines, *sines; /* (positions, width / 2) each; null: nothing is turned */
    int64_t positions;
    const int64_t *position_ids;        /* (B, T) positions; null: the number of a row is its position */
} Rotation;

INLINE int64_t position_of(const Rotation *r, int64_t b, int64_t t, int64_t length) {
    return r->position_ids ? r->position_ids[b * length + t] : t;
}

/* Whether the tables hold all positions of (B, T). */
INLINE int has_positions(const Rotation *r, int64_t batch, int64_t length) {
    if (!r->cosines) return 1;
    return r->position_ids ? are_inside(r->position_ids, batch * length, r->positions) : length <= r->positions;
}

/* Of a vector of entries: the cosine, and the sine with its sign. */
typedef struct {
    vec cosine, sine;
} Angles;

/* Half of `count` numbers, each of them twice. */
INLINE vec in_pairs(const float *from, int64_t count) {
    uint32_t bits __attribute__((vector_size(2 * LANES))) = {0};
    memcpy(&bits, from, sizeof(float) * count / 2);
    uint64_t pairs __attribute__((vector_size(4 * LANES))) = __builtin_convertvector(bits, typeof(pairs));
    return (vec)(pairs | pairs << 32);
}

/* The angles of the `count` entries from `at` on at one position; those `back` undo the others. */
INLINE Angles angles_of(const Rotation *r, int64_t position, int64_t width, int64_t at, int64_t count, int back) {
    int64_t first = (position * width + at) / 2;
    vec sign;
    for (int i = 0; i < LANES; i++) sign[i] = (i ^ back) & 1 ? 1.0f : -1.0f;
    return (Angles){in_pairs(r->cosines + first, count), in_pairs(r->sines + first, count) * sign};
}

/* From each pair (x, y) comes (x cos - y sin, y cos + x sin). */
INLINE vec rotated(vec pairs, Angles by) { return pairs * by.cosine + SWAPPED(pairs, 1) * by.sine; }

#endif
