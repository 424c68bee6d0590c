/* Sizes of structures that other languages fill, which they compare with their own when they load the library. */
#ifndef DIKKAT_LAYOUT_H
#define DIKKAT_LAYOUT_H

#include <stdint.h>

#define SIZE_OF(structure) const int64_t size_of_##structure = sizeof(structure)

#endif
