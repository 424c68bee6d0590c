/* Random numbers that depend on a seed and their own index alone, so that any thread can make any of them.
 *
 * SplitMix64 (Steele, Lea and Flood 2014, figure 16); twin: kernels/random_bits.py. */
#ifndef DIKKAT_RANDOM_BITS_H
#define DIKKAT_RANDOM_BITS_H

#include "vectors.h"

#define WORDS (LANES / 2)
#define BITS_PER_CALL (4 * WORDS) /* 16-bit numbers in as many 64-bit ones */
#define GAMMA 0x9e3779b97f4a7c15

typedef uint64_t words __attribute__((vector_size(8 * WORDS)));

/* The numbers from `index` on, a multiple of BITS_AT_ONCE. */
INLINE void make_bits(int16_t bits[BITS_PER_CALL], uint64_t seed, int64_t index) {
    words state;
    for (int i = 0; i < WORDS; i++) state[i] = i + 1;
    state = (state + (uint64_t)index / 4) * GAMMA + seed;
    state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9;
    state = (state ^ state >> 27) * 0x94d049bb133111eb;
    state ^= state >> 31;
    memcpy(bits, &state, sizeof state);
}

#endif
