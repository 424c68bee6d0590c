/* Indices that come from outside are compared with the size of what they point into, before anything is read there. */
#ifndef DIKKAT_INDICES_H
#define DIKKAT_INDICES_H

#include <stdint.h>

/* What a kernel returns where it found no memory, and where an index lies outside. */
#define NO_MEMORY 1
#define INDEX_ERROR 2

/* Whether each of `count` indices is at least 0 and below `size`. */
static inline int are_inside(const int64_t *indices, int64_t count, int64_t size) {
    int outside = 0;
    for (int64_t i = 0; i < count; i++) outside |= (uint64_t)indices[i] >= (uint64_t)size;
    return !outside;
}

#endif
