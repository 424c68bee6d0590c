/* Linear layers with weights in eight or four bits, each group of GROUP inputs on a scale of its own, as activations are.
 *
 * A weight of eight bits is scale * q + mean, and the q of a group add up to 0; the activations are scale * q + least, with q
 * from 0 to 255. Since the weights' q add up to 0, the least adds nothing to their products. A weight of four bits is
 * scale * q + least, with q from 0 on, and activations are scale * q, with q from -127 to 127. So a large entry costs its
 * own group some precision, and no other one: what language models need, whose activations have few that are far larger
 * than the rest. A row has the same bits in any company, on any processor, and in the page.
 */
#include "byte_parts.h"
#include "grouped.h"
#include "layout.h"
#include "threads.h"

#include <stdlib.h>

#define GROUP_ROWS (REGISTERS == 32 ? 3 : 2)
/* Whether products of weights of four bits are added up in 16 bits: a pair is at most 2 * 15 * 127, and a group has eight. */
#define ADDS_PAIRS (LANES == 8 && !MULTIPLIES_BYTES)
/* Rows that a panel is multiplied with before the next one is: their outputs stay in the cache until its line is full. */
#define ROWS_PER_PANEL 96
/* What is added to numbers of less than 2^22 to round them. */
#define WHOLE 12582912.0f
/* Rows that are rounded by one thread before the next one takes some. */
#define ROUNDED_TOGETHER 4

SIZE_OF(Grouped);

/* Bytes that `weight` takes. */
int64_t grouped_bytes(const Grouped *g) {
    return groups_of(g->outputs, GROUP_PANEL) * groups_of(g->inputs, GROUP) * group_bytes(g->bits);
}

typedef struct {
    const Grouped *to;
    const float *from; /* (outputs, inputs), its rows `step` apart */
    int64_t step;
} GroupPacking;

/* The weights of one output in one group, of four bits: halves of bytes of fours that are GROUP_PANEL fours apart. */
static void pack_halves(uint8_t *to, int64_t output, const float *from, int64_t count) {
    float least = from[0], largest = from[0];
    for (int64_t i = 1; i < count; i++) {
        least = from[i] < least ? from[i] : least;
        largest = from[i] > largest ? from[i] : largest;
    }
    uint16_t ends[2] = {to_bf16((largest - least) / 15), to_bf16(least)};
    float share = share_of(from_bf16(ends[0]));
    least = from_bf16(ends[1]);
    memcpy(to + 4 * output, ends, sizeof ends);
    uint8_t *fours = to + 4 * GROUP_PANEL;
    for (int64_t i = 0; i < count; i++) {
        float q = nearbyintf((from[i] - least) * share);
        int64_t four = i / QUAD;
        fours[(four / 2 * GROUP_PANEL + output) * QUAD + i % QUAD] |= (uint8_t)(q < 0 ? 0 : q > 15 ? 15 : q) << 4 * (four & 1);
    }
}

/* The same of eight bits: bytes of fours. Where those that are rounded do not add up to 0, the ones that are nearest to
 * their other neighbour are rounded to that. */
static void pack_bytes_of_group(uint8_t *to, int64_t output, const float *from, int64_t count) {
    double all = 0;
    for (int64_t i = 0; i < count; i++) all += from[i];
    float mean = (float)(all / (double)count), most = 0;
    for (int64_t i = 0; i < count; i++) most = fabsf(from[i] - mean) > most ? fabsf(from[i] - mean) : most;
    /* one less than a byte holds, so that any may be rounded away from 0 */
    uint16_t ends[2] = {to_bf16(most / 126), to_bf16(mean)};
    memcpy(to + 4 * output, ends, sizeof ends);
    float share = share_of(from_bf16(ends[0])), rest[GROUP];
    int32_t q[GROUP], sum = 0;
    for (int64_t i = 0; i < count; i++) {
        rest[i] = (from[i] - mean) * share;
        q[i] = (int32_t)nearbyintf(rest[i]);
        rest[i] -= (float)q[i];
        sum += q[i];
    }
    for (int64_t left = count; sum && left; left--) {
        int32_t step = sum > 0 ? -1 : 1;
        int64_t best = 0;
        for (int64_t i = 1; i < count; i++) best = rest[i] * (float)step > rest[best] * (float)step ? i : best;
        q[best] += step, sum += step;
        rest[best] -= (float)step;
    }
    uint8_t *fours = to + 4 * GROUP_PANEL;
    for (int64_t i = 0; i < count; i++) fours[(i / QUAD * GROUP_PANEL + output) * QUAD + i % QUAD] = (uint8_t)q[i];
}

static void pack_share(const void *job, int64_t panel, int64_t thread) {
    const GroupPacking *p = job;
    const Grouped *g = p->to;
    int64_t groups = groups_of(g->inputs, GROUP), first = panel * GROUP_PANEL, bytes = group_bytes(g->bits);
    uint8_t *to = g->weight + panel * groups * bytes;
    (void)thread;
    memset(to, 0, groups * bytes);
    for (int64_t group = 0; group < groups; group++, to += bytes)
        for (int64_t o = 0; o < smaller_of(g->outputs - first, GROUP_PANEL); o++) {
            const float *from = p->from + (first + o) * p->step + group * GROUP;
            int64_t count = smaller_of(g->inputs - group * GROUP, GROUP);
            if (g->bits == 4)
                pack_halves(to, o, from, count);
            else
                pack_bytes_of_group(to, o, from, count);
        }
}

/* Fills `weight` from a matrix in float32. */
void pack_groups(const Grouped *to, const float *from, int64_t step, int64_t threads) {
    share_out(threads, groups_of(to->outputs, GROUP_PANEL), 1, pack_share, &(GroupPacking){to, from, step});
}

/* The rows `ids` of a matrix, (count, inputs): what it gives as an embedding. */
void grouped_rows(const Grouped *g, const int64_t *ids, float *to, int64_t count) {
    int64_t bytes = group_bytes(g->bits), line = groups_of(g->inputs, GROUP) * bytes;
    for (int64_t row = 0; row < count; row++, to += g->inputs) {
        int64_t own = ids[row] % GROUP_PANEL;
        for (int64_t i = 0; i < g->inputs; i++) {
            const uint8_t *from = g->weight + ids[row] / GROUP_PANEL * line + i / GROUP * bytes;
            int64_t four = i % GROUP / QUAD, half = g->bits == 4 ? four & 1 : 0;
            uint16_t ends[2];
            memcpy(ends, from + 4 * own, sizeof ends);
            from += 4 * GROUP_PANEL + ((g->bits == 4 ? four / 2 : four) * GROUP_PANEL + own) * QUAD + i % QUAD;
            to[i] = from_bf16(ends[1]) + from_bf16(ends[0]) * (float)(g->bits == 4 ? *from >> 4 * half & 15 : (int8_t)*from);
        }
    }
}

/* Activations: (rows, groups of GROUP) bytes, and of each group its scale and the sum of what it stands for. */
typedef struct {
    const Grouped *layer;
    const float *from; /* (rows, inputs) */
    float *to;         /* (rows, outputs) */
    int8_t *entries;   /* from 0 to 255 where weights have eight bits */
    float *scales, *sums;
    int64_t rows, groups;
} GroupedRows;

/* Fills a group with `count` bytes from 0 to 255 and zeros, and returns their scale; of `from` all entries are read, the last
 * ones equal to another one. Adds to `none` what is no number where an entry is none or infinite. */
INLINE float bytes_of_group(uint8_t *to, const float *from, int64_t count, float *sum, vec *none) {
    vec most = (vec){0} + from[0], least = -most;
    for (int64_t i = 0; i < GROUP; i += LANES) {
        vec some = *(const loose *)(from + i);
        most = larger(most, some);
        least = larger(least, -some);
        *none += some - some;
    }
    float low = -largest_lane(least), scale = (largest_lane(most) - low) / 255, share = share_of(scale);
    vec whole = {0};
    for (int64_t i = 0; i < GROUP; i += LANES) {
        vec steps = (*(const loose *)(from + i) - low) * share;
        UNFUSED(steps);
        /* rounds to the nearest whole number, which is then in the lower bits */
        steps += WHOLE;
        ivec shown = LANE_NUMBERS + (int32_t)i < (int32_t)count, q = (ivec)steps & 255 & shown;
        byte_vec bytes = __builtin_convertvector(q, byte_vec);
        memcpy(to + i, &bytes, sizeof bytes);
        whole += (vec)((ivec)(steps - WHOLE) & shown);
    }
    float product = scale * lane_sum(whole), rest = low * (float)count;
    UNFUSED(product);
    UNFUSED(rest);
    *sum = product + rest;
    return scale;
}

static void round_share(const void *job, int64_t row, int64_t thread) {
    const GroupedRows *r = job;
    int64_t inputs = r->layer->inputs;
    const float *from = r->from + row * inputs;
    int8_t *to = r->entries + row * r->groups * GROUP;
    vec none = {0};
    (void)thread;
    for (int64_t group = 0; group < r->groups; group++, from += GROUP, to += GROUP) {
        int64_t count = smaller_of(inputs - group * GROUP, GROUP), at = row * r->groups + group;
        if (r->layer->bits == 8) {
            float whole[GROUP];
            for (int64_t i = 0; i < GROUP && count < GROUP; i++) whole[i] = from[i < count ? i : 0];
            r->scales[at] = bytes_of_group((uint8_t *)to, count < GROUP ? whole : from, count, r->sums + at, &none);
            continue;
        }
        float scale = scale_of_row(from, count, 1), share = share_of(scale);
        int32_t sum = 0;
        memset(to, 0, GROUP);
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < count; i++) {
            int32_t q = (int32_t)nearbyintf(from[i] * share);
            to[i] = (int8_t)q;
            sum += q;
        }
        r->scales[at] = scale;
        r->sums[at] = scale * (float)sum;
    }
    r->scales[row * r->groups] += lane_sum(none);
}

/* Bytes from 0 to 255 as they are multiplied. */
INLINE Fours unsigned_fours(ivec bytes) {
#if MULTIPLIES_BYTES
    return bytes;
#else
    return (Fours){(halves)(bytes & 0x00ff00ff), (halves)(bytes >> 8 & 0x00ff00ff)};
#endif
}

/* sums += the products of a four of each of `rows` rows with a panel's fours. */
INLINE void add_group_four(ivec sums[GROUP_ROWS][GROUP_VECTORS], const int8_t *entries, int64_t row_step, const ivec *bytes,
                           const int bits, const int rows) {
    Fours of_row[GROUP_ROWS];
#pragma GCC unroll 6
    for (int row = 0; row < rows; row++) {
        int32_t four;
        memcpy(&four, entries + row * row_step, sizeof four);
        of_row[row] = bits == 8 ? unsigned_fours((ivec){0} + four) : signed_fours((ivec){0} + four);
    }
#pragma GCC unroll 4
    for (int v = 0; v < GROUP_VECTORS; v++) {
        Fours weights = bits == 8 ? signed_fours(bytes[v]) : unsigned_fours(bytes[v]);
#pragma GCC unroll 6
        for (int row = 0; row < rows; row++)
            sums[row][v] = bits == 8 ? add_products(sums[row][v], of_row[row], weights)
                                     : add_products(sums[row][v], weights, of_row[row]);
    }
}

#if ADDS_PAIRS
/* The same of all fours of a group, of weights of four bits. */
INLINE void add_pairs(ivec sums[GROUP_ROWS][GROUP_VECTORS], const int8_t *entries, int64_t row_step, const uint8_t *fours,
                      const int rows) {
    const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
    __m256i pairs[GROUP_ROWS][GROUP_VECTORS] = {{{0}}};
#pragma GCC unroll 4
    for (int64_t four = 0; four < GROUP / QUAD; four += 2, fours += GROUP_PANEL * QUAD) {
        __m256i of_row[GROUP_ROWS][2];
#pragma GCC unroll 4
        for (int i = 0; i < 2 * rows; i++) {
            int32_t bytes;
            memcpy(&bytes, entries + i / 2 * row_step + (four + i % 2) * QUAD, sizeof bytes);
            of_row[i / 2][i % 2] = _mm256_set1_epi32(bytes);
        }
#pragma GCC unroll 4
        for (int v = 0; v < GROUP_VECTORS; v++) {
            __m256i both = (__m256i)*(const loose_ivec *)(fours + v * LANES * QUAD);
            __m256i own = _mm256_and_si256(both, low), next = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++) {
                __m256i products = _mm256_maddubs_epi16(own, of_row[i][0]), others = _mm256_maddubs_epi16(next, of_row[i][1]);
                pairs[i][v] = _mm256_add_epi16(_mm256_add_epi16(pairs[i][v], products), others);
            }
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < GROUP_VECTORS; v++) sums[i][v] = (ivec)_mm256_madd_epi16(pairs[i][v], ones);
}
#endif

/* The outputs of a panel of `rows` rows from `row` on, both constants where this is used. */
INLINE void grouped_block(const GroupedRows *r, int64_t row, const uint8_t *weight, int64_t first, const int bits,
                          const int rows) {
    int64_t groups = r->groups, step = groups * GROUP, bytes = group_bytes(bits);
    const int8_t *entries = r->entries + row * step;
    vec totals[GROUP_ROWS][GROUP_VECTORS] = {{{0}}};
    for (int64_t group = 0; group < groups; group++, entries += GROUP, weight += bytes) {
        ivec sums[GROUP_ROWS][GROUP_VECTORS] = {{{0}}};
        const uint8_t *fours = weight + 4 * GROUP_PANEL;
        __builtin_prefetch(weight + 4 * bytes, 0, 2);
#if ADDS_PAIRS
        if (bits == 4) add_pairs(sums, entries, step, fours, rows);
#endif
#pragma GCC unroll 8
        for (int64_t four = 0; four < GROUP / QUAD && !(ADDS_PAIRS && bits == 4); four += 8 / bits, fours += GROUP_PANEL * QUAD) {
            ivec own[GROUP_VECTORS], next[GROUP_VECTORS];
#pragma GCC unroll 4
            for (int v = 0; v < GROUP_VECTORS; v++) {
                own[v] = *(const loose_ivec *)(fours + v * LANES * QUAD);
                next[v] = own[v] >> 4 & 0x0f0f0f0f;
                if (bits == 4) own[v] &= 0x0f0f0f0f;
            }
            add_group_four(sums, entries + four * QUAD, step, own, bits, rows);
            if (bits == 4) add_group_four(sums, entries + (four + 1) * QUAD, step, next, bits, rows);
        }
#pragma GCC unroll 4
        for (int v = 0; v < GROUP_VECTORS; v++) {
            ivec ends = *(const loose_ivec *)(weight + v * LANES * 4);
            vec scale = (vec)(ends << 16), offset = (vec)(ends & (int32_t)0xffff0000);
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++) {
                int64_t at = (row + i) * groups + group;
                vec product = __builtin_convertvector(sums[i][v], vec) * (scale * r->scales[at]), rest = offset * r->sums[at];
                UNFUSED(product);
                UNFUSED(rest);
                totals[i][v] += product + rest;
            }
        }
    }
    for (int i = 0; i < rows; i++) {
        float *to = r->to + (row + i) * r->layer->outputs + first;
        for (int v = 0; v < GROUP_VECTORS; v++) {
            int64_t left = smaller_of(r->layer->outputs - first - v * LANES, LANES);
            if (left <= 0) break;
            vec bias = {0};
            if (r->layer->bias) memcpy(&bias, r->layer->bias + first + v * LANES, sizeof(float) * left);
            totals[i][v] += bias;
            memcpy(to + v * LANES, &totals[i][v], sizeof(float) * left);
        }
    }
}

INLINE void grouped_panel(const GroupedRows *r, int64_t begin, int64_t end, int64_t panel, const int bits) {
    const uint8_t *weight = r->layer->weight + panel * r->groups * group_bytes(bits);
    for (int64_t row = begin, first = panel * GROUP_PANEL; row < end; row += GROUP_ROWS)
        switch (end - row) {
        case 1: grouped_block(r, row, weight, first, bits, 1); break;
#if GROUP_ROWS > 2
        case 2: grouped_block(r, row, weight, first, bits, 2); break;
#endif
        default: grouped_block(r, row, weight, first, bits, GROUP_ROWS);
        }
}

static void product_share(const void *job, int64_t index, int64_t thread) {
    const GroupedRows *r = job;
    int64_t panels = groups_of(r->layer->outputs, GROUP_PANEL), begin = index / panels * ROWS_PER_PANEL;
    int64_t end = smaller_of(r->rows, begin + ROWS_PER_PANEL);
    (void)thread;
    if (r->layer->bits == 4)
        grouped_panel(r, begin, end, index % panels, 4);
    else
        grouped_panel(r, begin, end, index % panels, 8);
}

/* Dense (rows, inputs) to dense (rows, outputs). Returns 0, or 1 for want of memory. */
int grouped_layer(const Grouped *layer, const float *from, float *to, int64_t rows, int64_t threads) {
    if (!rows) return 0;
    int64_t groups = groups_of(layer->inputs, GROUP), all = rows * groups, panels = groups_of(layer->outputs, GROUP_PANEL);
    float *scales = aligned_alloc(64, groups_of(all * (8 + GROUP), 64) * 64);
    if (!scales) return 1;
    GroupedRows r = {layer, from, to, (int8_t *)(scales + 2 * all), scales, scales + all, rows, groups};
    share_out(rows < ROUNDED_TOGETHER ? 1 : threads, rows, ROUNDED_TOGETHER, round_share, &r);
    share_out(threads, panels * groups_of(rows, ROWS_PER_PANEL), groups_of(panels, 8 * threads), product_share, &r);
    free(scales);
    return 0;
}
