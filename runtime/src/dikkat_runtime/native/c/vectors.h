/* What the native kernels share: numbers side by side, and the small loops over rows of them. */
#ifndef DIKKAT_VECTORS_H
#define DIKKAT_VECTORS_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* Rounds a vector of products before they are added to something: WebAssembly has no instruction that does both at once. */
#if defined(__x86_64__)
#define UNFUSED(products) __asm__("" : "+v"(products))
#elif defined(__aarch64__)
#define UNFUSED(products) __asm__("" : "+w"(products))
#else
#define UNFUSED(products) (void)(products)
#endif

/* Rows in memory are padded to a multiple of so many numbers, on any processor. */
#define PADDING 16

/* Numbers side by side in one register, and how many registers there are: what does not fit into them is kept in memory,
 * at ten times the price. */
#ifdef __AVX512F__
#define LANES 16
#define LANE_LIST(F, x) F(0, x), F(1, x), F(2, x), F(3, x), F(4, x), F(5, x), F(6, x), F(7, x), F(8, x), F(9, x),         \
        F(10, x), F(11, x), F(12, x), F(13, x), F(14, x), F(15, x)
#elif defined(__AVX2__)
#define LANES 8
#define LANE_LIST(F, x) F(0, x), F(1, x), F(2, x), F(3, x), F(4, x), F(5, x), F(6, x), F(7, x)
#else
#define LANES 4
#define LANE_LIST(F, x) F(0, x), F(1, x), F(2, x), F(3, x)
#endif
#define ITSELF(lane, x) lane
#define LANE_NUMBERS ((ivec){LANE_LIST(ITSELF, 0)})
#if defined(__AVX512F__) || defined(__aarch64__)
#define REGISTERS 32
#else
#define REGISTERS 16
#endif

/* As many numbers as a register holds. */
typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));

/* The lanes of two vectors whose numbers are F(0, x), F(1, x) ...; those of `b` follow those of `a`. */
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define PICKED(a, b, F, x) __builtin_shufflevector(a, b, LANE_LIST(F, x))
#endif
#endif
#ifndef PICKED
#define PICKED(a, b, F, x) __builtin_shuffle(a, b, (ivec){LANE_LIST(F, x)})
#endif

/* The same at any address. */
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t loose_ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* As many shorter numbers, made longer. Compilers take five instructions where there is one for it. */
typedef uint8_t byte_vec __attribute__((vector_size(LANES)));
typedef int16_t short_vec __attribute__((vector_size(2 * LANES)));
typedef uint16_t bf16_vec __attribute__((vector_size(2 * LANES)));
#if LANES == 16
INLINE ivec longer_bytes(byte_vec numbers) { return (ivec)_mm512_cvtepu8_epi32((__m128i)numbers); }
INLINE ivec longer_shorts(short_vec numbers) { return (ivec)_mm512_cvtepi16_epi32((__m256i)numbers); }
INLINE ivec longer_halves(bf16_vec numbers) { return (ivec)_mm512_cvtepu16_epi32((__m256i)numbers); }
#else
INLINE ivec longer_bytes(byte_vec numbers) { return __builtin_convertvector(numbers, ivec); }
INLINE ivec longer_shorts(short_vec numbers) { return __builtin_convertvector(numbers, ivec); }
INLINE ivec longer_halves(bf16_vec numbers) { return __builtin_convertvector(numbers, ivec); }
#endif

INLINE int64_t padded(int64_t n) { return (n + PADDING - 1) / PADDING * PADDING; }

INLINE int64_t smaller_of(int64_t a, int64_t b) { return a < b ? a : b; }

/* Groups of `size` that hold n, the last perhaps in part. */
INLINE int64_t groups_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* exp(x) to about one part in 2^22 for x <= 0, zero below -87: 2^n e^r with n whole and |r| <= log(2) / 2. The polynomial
 * is the one of the fifth degree whose largest relative error, 9e-8, is the smallest. */
INLINE float exponential(float x) {
    float whole = nearbyintf(x * 1.44269504088896341f);
    float rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    float series = 8.290314633e-03f;
    series = series * rest + 4.189792934e-02f;
    series = series * rest + 1.666763620e-01f;
    series = series * rest + 4.999914953e-01f;
    series = series * rest + 9.999997072e-01f;
    series = series * rest + 1.0f;
    uint32_t bits;
    memcpy(&bits, &series, 4);
    bits += (uint32_t)(int32_t)whole << 23;
    memcpy(&series, &bits, 4);
    return x < -87.0f ? 0.0f : series;
}

/* Of each two rows that are `by` apart, the lanes that stay in the upper one or come to it, and those of the lower one. */
#define UPPER_LANE(lane, by) ((lane) & (by) ? LANES + (lane) - (by) : (lane))
#define LOWER_LANE(lane, by) ((lane) & (by) ? LANES + (lane) : (lane) + (by))
#define SWAP_ACROSS(rows, by)                                                                                          \
    _Pragma("GCC unroll 16") for (int row = 0; row < LANES; row++) {                                                   \
        if (row & (by)) continue;                                                                                      \
        vec above = rows[row], below = rows[row + (by)];                                                               \
        rows[row] = PICKED(above, below, UPPER_LANE, by);                                                              \
        rows[row + (by)] = PICKED(above, below, LOWER_LANE, by);                                                       \
    }

/* rows[i][j] and rows[j][i] change places: halves, their halves and so on to single entries are swapped across. */
INLINE void transpose(vec rows[LANES]) {
#if LANES == 16
    SWAP_ACROSS(rows, 8)
#endif
#if LANES >= 8
    SWAP_ACROSS(rows, 4)
#endif
    SWAP_ACROSS(rows, 2)
    SWAP_ACROSS(rows, 1)
}

/* to (step) = row (inner, its entries `hop` apart) x matrix (inner, step); step is a multiple of LANES. */
INLINE void row_times_matrix(float *to, const float *row, int64_t hop, const float *matrix, int64_t inner,
                             int64_t step) {
    int64_t at = 0;
    for (; at + 4 * LANES <= step; at += 4 * LANES) {
        vec a = {0}, b = {0}, c = {0}, d = {0};
        for (int64_t i = 0; i < inner; i++) {
            const float *from = matrix + i * step + at;
            a += row[i * hop] * *(const vec *)from;
            b += row[i * hop] * *(const vec *)(from + LANES);
            c += row[i * hop] * *(const vec *)(from + 2 * LANES);
            d += row[i * hop] * *(const vec *)(from + 3 * LANES);
        }
        *(vec *)(to + at) = a, *(vec *)(to + at + LANES) = b;
        *(vec *)(to + at + 2 * LANES) = c, *(vec *)(to + at + 3 * LANES) = d;
    }
    for (; at < step; at += LANES) {
        /* four sums, so that one need not wait for the other */
        vec a = {0}, b = {0}, c = {0}, d = {0};
        int64_t i = 0;
        for (; i + 4 <= inner; i += 4) {
            a += row[i * hop] * *(const vec *)(matrix + i * step + at);
            b += row[(i + 1) * hop] * *(const vec *)(matrix + (i + 1) * step + at);
            c += row[(i + 2) * hop] * *(const vec *)(matrix + (i + 2) * step + at);
            d += row[(i + 3) * hop] * *(const vec *)(matrix + (i + 3) * step + at);
        }
        for (; i < inner; i++) a += row[i * hop] * *(const vec *)(matrix + i * step + at);
        *(vec *)(to + at) = (a + b) + (c + d);
    }
}

/* Lanes that are `by` apart, a power of two, change places. */
#define SWAPPED_LANE(lane, by) ((lane) ^ (by))
#define SWAPPED(v, by) PICKED(v, v, SWAPPED_LANE, by)

/* v = F(v, v with lanes swapped), of those that are half a vector apart first, of neighbours last: all lanes become one. */
#if LANES == 16
#define ACROSS(F, v) v = F(v, SWAPPED(v, 8)), v = F(v, SWAPPED(v, 4)), v = F(v, SWAPPED(v, 2)), v = F(v, SWAPPED(v, 1))
#elif LANES == 8
#define ACROSS(F, v) v = F(v, SWAPPED(v, 4)), v = F(v, SWAPPED(v, 2)), v = F(v, SWAPPED(v, 1))
#else
#define ACROSS(F, v) v = F(v, SWAPPED(v, 2)), v = F(v, SWAPPED(v, 1))
#endif

INLINE vec sum_of(vec a, vec b) { return a + b; }

/* Sum of the lanes. */
INLINE float lane_sum(vec v) {
    ACROSS(sum_of, v);
    return v[0];
}

/* The larger of each two lanes, `b` where `a` is no number; and the largest of all. */
#define MAXIMA(type, entry, larger, largest_lane)                                                                      \
    INLINE type larger(type a, type b) {                                                                               \
        type result;                                                                                                    \
        _Pragma("omp simd") for (int i = 0; i < LANES; i++) result[i] = a[i] > b[i] ? a[i] : b[i];                      \
        return result;                                                                                                  \
    }                                                                                                                  \
    INLINE entry largest_lane(type v) {                                                                                \
        ACROSS(larger, v);                                                                                             \
        return v[0];                                                                                                   \
    }
MAXIMA(vec, float, larger, largest_lane)
MAXIMA(ivec, int32_t, larger_integers, largest_integer)

/* Which of `count` keys, which may be none, the mask allows; none after the last. */
INLINE ivec open_keys(int64_t count, const uint8_t *mask, int64_t mask_step) {
    byte_vec allowed = {0};
    if (!mask) return LANE_NUMBERS < (int32_t)count;
    if (mask_step == 1 && count == LANES)
        memcpy(&allowed, mask, LANES);
#if LANES == 16 && defined(__AVX512BW__) && defined(__AVX512VL__)
    /* bytes that are stored one by one must reach memory before they are loaded together */
    else if (mask_step == 1)
        allowed = (byte_vec)_mm_maskz_loadu_epi8((1u << count) - 1, mask);
#endif
    else
        for (int64_t i = 0; i < count; i++) allowed[i] = mask[i * mask_step];
    return longer_bytes(allowed) != 0;
}

/* Scores of `count` keys times beta; minus infinity for those that the mask does not allow, and after the last. */
INLINE vec scores_of(const float *row, int64_t count, float beta, const uint8_t *mask, int64_t mask_step) {
    vec scores = *(const loose *)row * beta;
    if (!mask && count == LANES) return scores;
    ivec open = open_keys(count, mask, mask_step);
    return (vec)(((ivec)scores & open) | ((ivec)((vec){0} - INFINITY) & ~open));
}

/* In place: products to weights, up to the padded end of the row; one that may attend to nothing becomes zero. No lane
 * waits for another. The total is made of `sums` vectors. */
INLINE void softmax_row_by(float *row, int64_t keys, float beta, const uint8_t *mask, int64_t mask_step, const int sums) {
    int64_t end = padded(keys), at = 0;
    vec largest = (vec){0} - FLT_MAX, totals[PADDING / LANES] = {{0}};
    for (; at + LANES <= keys; at += LANES) {
        vec scores = scores_of(row + at, LANES, beta, mask ? mask + at * mask_step : 0, mask_step);
        *(loose *)(row + at) = scores, largest = larger(scores, largest);
    }
    for (; at < end; at += LANES) {
        vec scores = scores_of(row + at, keys - at, beta, mask ? mask + at * mask_step : 0, mask_step);
        *(loose *)(row + at) = scores, largest = larger(scores, largest);
    }
    float most = largest_lane(largest);
    for (at = 0; at < end; at += PADDING) {
#pragma omp simd
        for (int i = 0; i < PADDING; i++) row[at + i] = exponential(row[at + i] - most);
        for (int part = 0; part < PADDING / LANES; part++) totals[part % sums] += *(loose *)(row + at + part * LANES);
    }
    for (int half = sums / 2; half; half /= 2)
        for (int part = 0; part < half; part++) totals[part] += totals[part + half];
    /* a score that is no number makes the total none, and so the whole row */
    float total = lane_sum(totals[0]), share = total == 0.0f ? 0.0f : 1.0f / total;
    for (at = 0; at < end; at += LANES) *(loose *)(row + at) *= share;
}

/* The same by PADDING sums, so that the total has the same bits with registers of any length, as in a page. */
INLINE void softmax_row(float *row, int64_t keys, float beta, const uint8_t *mask, int64_t mask_step) {
    softmax_row_by(row, keys, beta, mask, mask_step, PADDING / LANES);
}

#endif
