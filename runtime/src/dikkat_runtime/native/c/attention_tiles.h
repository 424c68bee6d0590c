/* What attention of bfloat16 in tiles needs forwards and backwards: a thread's memory, its rows, and weights.
 *
 * Weights, and what flows back to them, are rounded to bfloat16 where they are multiplied; sums are float32. Keys that no
 * query may see are zeros. */
#ifndef DIKKAT_ATTENTION_TILES_H
#define DIKKAT_ATTENTION_TILES_H

#include "attention.h"
#include "bf16_products.h"

#if HAS_TILES
/* Weights that are computed together, about, and the most queries they may belong to. */
#define CACHED (1 << 15)
#define MAX_COUNT 96

/* Where a thread keeps its numbers. */
typedef struct {
    uint16_t *query, *key, *value, *output;     /* rows as they come; `output` is what flows to it */
    uint16_t *query_transposed, *output_transposed;     /* transposed */
    uint32_t *key_columns, *value_columns;      /* transposed, in pairs */
    uint32_t *key_pairs, *value_pairs;          /* rows, in pairs */
    float *scores, *shares, *weights, *dropped; /* rows of a block of queries, and a number for each */
    uint16_t *bf16;                           /* scores, or what flows to them, in bfloat16 */
    uint32_t *pairs, *weight_pairs;             /* what flows to scores, and weights after dropout */
    float *result, *of_key, *of_value;          /* the last two are transposed */
} Scratch;

/* Queries whose weights are computed together: whole tiles of the products that sum over them. */
INLINE int64_t block_of(const Attention *a) {
    int64_t rows = CACHED / padded(a->keys) / TILE_NUMBERS * TILE_NUMBERS;
    rows = rows < TILE_NUMBERS ? TILE_NUMBERS : rows > MAX_COUNT ? MAX_COUNT : rows;
    return smaller_of(rows, a->queries);
}

/* Divides `memory` into its buffers; returns the bytes that they have together. */
static int64_t lay_out(const Attention *a, char *memory, Scratch *parts) {
    int64_t block = whole(block_of(a)), keys = whole(a->keys), width = whole(a->width), value_width = whole(a->value_width);
    int64_t longer = block > keys ? block : keys, wider = width > value_width ? width : value_width;
    struct {
        void *part;
        int64_t bytes;
    } buffers[] = {
        {&parts->query, 2 * block * width},          {&parts->output, 2 * block * value_width},
        {&parts->key, 2 * keys * width},             {&parts->value, 2 * keys * value_width},
        {&parts->query_transposed, 2 * width * block},   {&parts->output_transposed, 2 * value_width * block},
        {&parts->key_columns, 2 * width * keys},     {&parts->value_columns, 2 * value_width * keys},
        {&parts->key_pairs, 2 * keys * width},       {&parts->value_pairs, 2 * keys * value_width},
        {&parts->scores, 4 * block * keys},          {&parts->weights, 4 * block * keys},
        {&parts->dropped, 4 * block * keys},         {&parts->shares, 4 * block},
        {&parts->bf16, 2 * block * keys},          {&parts->weight_pairs, 2 * block * keys},
        {&parts->pairs, 2 * block * (keys > wider ? keys : wider)},
        {&parts->result, 4 * longer * wider},        {&parts->of_key, 4 * width * keys},
        {&parts->of_value, 4 * value_width * keys},
    };
    int64_t used = 0;
    for (unsigned i = 0; i < sizeof buffers / sizeof *buffers; used += buffers[i++].bytes)
        if (memory) *(char **)buffers[i].part = memory + used;
    return used;
}

/* In place: `count` rows of width K, of sentence `b` from `first` on, rotated by their positions. */
INLINE void rotate_bf16_rows(const Attention *a, uint16_t *rows, int64_t b, int64_t first, int64_t count) {
    for (int64_t t = first; a->rotation.cosines && t < first + count; t++, rows += whole(a->width)) {
        int64_t position = position_of(&a->rotation, b, t, a->keys);
        for (int64_t at = 0; at < a->width; at += LANES) {
            int64_t some = smaller_of(LANES, a->width - at);
            Angles by = angles_of(&a->rotation, position, a->width, at, some, 0);
            store_vec(rows, at, rotated(load_vec(rows, at, 0), by), some, 0);
        }
    }
}

INLINE void load_queries(const Attention *a, uint16_t *to, int64_t b, int64_t h, int64_t first, int64_t count) {
    const uint16_t *from = a->query;
    from += head_offset(a->query_strides, b, h) + first * a->query_strides[2];
    load_whole_rows(to, from, a->query_strides[2], count, a->width, whole(count));
    rotate_bf16_rows(a, to, b, first, count);
}

/* Keys and values up to the last that any query may see, and zeros after them. */
INLINE void load_keys(const Attention *a, const Scratch *own, int64_t pair, int64_t known) {
    int64_t b = pair / a->heads, h = pair % a->heads, keys = whole(a->keys);
    const uint16_t *key = (const uint16_t *)a->key + head_offset(a->key_strides, b, h);
    const uint16_t *value = (const uint16_t *)a->value + head_offset(a->value_strides, b, h);
    load_whole_rows(own->key, key, a->key_strides[2], known, a->width, keys);
    rotate_bf16_rows(a, own->key, b, 0, known);
    load_whole_rows(own->value, value, a->value_strides[2], known, a->value_width, keys);
}

/* The transpose of keys or values of a width, in pairs. */
INLINE void rotate_in_pairs(const Attention *a, uint32_t *to, const uint16_t *rows, int64_t width) {
    load_columns((float *)to, rows, padded(a->keys), whole(width) / 2, whole(width) / 2, 1);
}

/* 2^t to about one part in 2^22 for t <= 0, zero far below: `exponential` with the powers of log(2) in its factors. */
INLINE vec power_of_two(vec t) {
    /* the second of two where one is no number */
    t = (vec)_mm512_max_ps(_mm512_set1_ps(-1000.0f), (__m512)t);
    vec whole_part = (vec)_mm512_roundscale_ps((__m512)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    vec rest = t - whole_part;
    vec series = rest * 1.326472707e-03f + 9.671512650e-03f;
    series = series * rest + 5.550733745e-02f;
    series = series * rest + 2.402224209e-01f;
    series = series * rest + 6.931469776e-01f;
    series = series * rest + 1.0f;
    return (vec)_mm512_scalef_ps((__m512)series, (__m512)whole_part);
}

/* In place: scores of `visible` keys to powers of e, the largest of which is one, up to the padded end; and the same in bfloat16
 * and whole tiles, if that is wanted. Returns what makes them weights, zero where nothing may be attended to. */
INLINE float exponentials(float *row, uint16_t *bf16, int64_t visible, float beta, const uint8_t *mask, int64_t mask_step) {
    float by = beta * 1.44269504088896341f;
    vec largest = (vec){0} - FLT_MAX, totals = {0};
    for (int64_t at = 0; at < visible; at += LANES) {
        vec scores = scores_of(row + at, smaller_of(LANES, visible - at), by, mask ? mask + at * mask_step : 0, mask_step);
        *(vec *)(row + at) = scores, largest = larger(scores, largest);
    }
    float most = largest_lane(largest);
    for (int64_t at = 0; at < visible; at += LANES) {
        vec powers = power_of_two(*(vec *)(row + at) - most);
        *(vec *)(row + at) = powers, totals += powers;
        if (bf16) store_vec(bf16, at, powers, LANES, 0);
    }
    if (bf16 && padded(visible) < whole(visible)) store_vec(bf16, padded(visible), (vec){0}, LANES, 0);
    /* a score that is no number makes the total none, and so the whole row */
    float total = lane_sum(totals);
    return total == 0.0f ? 0.0f : 1.0f / total;
}

/* Of the `count` queries from `first` on, over the keys they see: (count, padded keys) `rows` that their `shares` make weights
 * before dropout, and the rows in bfloat16, if that is wanted. */
INLINE void weigh(const Attention *a, const Scratch *own, float *rows, uint16_t *bf16, int64_t pair, int64_t first,
                  int64_t count, int64_t visible) {
    int64_t keys = padded(a->keys), width = whole(a->width);
    bf16_products(rows, keys, own->query, width, own->key_columns, keys, width, padded(visible), count, 0);
    int open = sees_all(a, pair, visible);
    for (int64_t t = 0; t < count; t++)
        own->shares[t] = exponentials(rows + t * keys, bf16 ? bf16 + t * whole(keys) : 0, visible, a->beta,
                                      open ? 0 : mask_row(a, pair, first + t), a->mask_strides[3]);
}

/* Around the work for a head: tiles, and zeros instead of numbers below the smallest normal one, which take the processor
 * a hundred times as long. Returns what `end_with_tiles` gives back. */
INLINE unsigned begin_with_tiles(void) {
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | _MM_FLUSH_ZERO_ON);
    begin_tiles(TILE_ROWS);
    return before;
}

INLINE void end_with_tiles(unsigned before) {
    end_tiles(1);
    _mm_setcsr(before);
}
#endif

#endif
