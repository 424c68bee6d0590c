/* The gradient of a weight in eight bits: a product that sums over rows, in blocks of rows with scales of their own. */
#include "byte_packing.h"

#include <omp.h>
#include <stdlib.h>

/* Rows that share the scale of a column: fewer round less, more spend less time between blocks. */
#define BLOCK_ROWS 256

/* A matrix (rows, width), its columns as panels of bytes, block by block. */
typedef struct {
    const void *from;
    int64_t step, width, panels;
    int8_t *bytes;  /* (blocks, panels, BLOCK_ROWS / 4, 64, 4); entries of ENTRY_BYTES in the left factor */
    float *scale;   /* (blocks, panels, 64) */
    int32_t *shift; /* the same */
    float *total;   /* the same, of numbers before they are rounded; null: are not wanted */
} Columns;

static void pack_block(const Columns *c, int64_t place, int64_t rows, int wide, int is_left) {
    int64_t block = place / c->panels, first = place % c->panels * BYTE_PANEL, begin = block * BLOCK_ROWS;
    int64_t some = c->width - first < BYTE_PANEL ? c->width - first : BYTE_PANEL;
    int64_t inputs = rows - begin < BLOCK_ROWS ? rows - begin : BLOCK_ROWS;
    int8_t *to = c->bytes + place * BYTE_PANEL * BLOCK_ROWS * (is_left ? ENTRY_BYTES : 1);
    float *scale = c->scale + place * BYTE_PANEL;
    int32_t *shift = c->shift + place * BYTE_PANEL;
    float *total = c->total ? c->total + place * BYTE_PANEL : NULL;
    const void *from = entry(c->from, begin * c->step + first, wide);
    for (int64_t o = some; o < BYTE_PANEL; o++) scale[o] = 0.0f, shift[o] = 0;
    if (wide)
        pack_columns(to, scale, shift, total, from, c->step, some, inputs, padded(inputs), 1);
    else if (some == BYTE_PANEL)
        pack_columns(to, scale, shift, total, from, c->step, BYTE_PANEL, inputs, padded(inputs), 0);
    else
        pack_columns(to, scale, shift, total, from, c->step, some, inputs, padded(inputs), 0);
    if (!is_left) return;
    /* two's complement plus 128 */
    for (int64_t i = 0; i < BYTE_PANEL * padded(inputs); i++) to[i] ^= -128;
    spread((uint8_t *)to, BYTE_PANEL * padded(inputs) / QUAD);
}

/* sums[r] of a group of columns of a, times a part of a panel of b, += what one block of rows adds. */
INLINE void add_block(vec sums[BYTE_ROWS][BYTE_VECTORS], const Columns *a, const Columns *b, int64_t of_a, int64_t of_b,
                      int64_t first, int64_t part, int64_t quads, const int count) {
    ivec found[BYTE_ROWS][BYTE_VECTORS];
    const uint8_t *from = (const uint8_t *)a->bytes + (of_a * BYTE_PANEL * BLOCK_ROWS + first * QUAD) * ENTRY_BYTES;
    const float *scales = b->scale + of_b * BYTE_PANEL + part;
    byte_products(found, from, QUAD * ENTRY_BYTES, BYTE_PANEL * QUAD * ENTRY_BYTES,
                  b->bytes + of_b * BYTE_PANEL * BLOCK_ROWS + part * QUAD, b->shift + of_b * BYTE_PANEL + part, quads, count);
    for (int r = 0; r < count; r++)
        for (int i = 0; i < BYTE_VECTORS; i++) {
            vec scale = a->scale[of_a * BYTE_PANEL + first + r] * *(const vec *)(scales + i * LANES);
            sums[r][i] += __builtin_convertvector(found[r][i], vec) * scale;
        }
}

/* Panel `p` of the columns of a, times a part of panel `q` of those of b. */
static void part_product(void *to, const Columns *a, const Columns *b, int64_t p, int64_t q, int64_t part, int64_t rows,
                         int wide) {
    vec sums[(BYTE_PANEL + BYTE_ROWS - 1) / BYTE_ROWS][BYTE_ROWS][BYTE_VECTORS] = {{{{0}}}};
    for (int64_t begin = 0, block = 0; begin < rows; begin += BLOCK_ROWS, block++) {
        int64_t inputs = rows - begin < BLOCK_ROWS ? rows - begin : BLOCK_ROWS, quads = padded(inputs) / QUAD;
        int64_t of_a = block * a->panels + p, of_b = block * b->panels + q, first = 0;
        for (; first + BYTE_ROWS <= BYTE_PANEL; first += BYTE_ROWS)
            add_block(sums[first / BYTE_ROWS], a, b, of_a, of_b, first, part, quads, BYTE_ROWS);
        if (first < BYTE_PANEL)
            add_block(sums[first / BYTE_ROWS], a, b, of_a, of_b, first, part, quads, BYTE_PANEL % BYTE_ROWS);
    }
    for (int64_t r = 0; r < BYTE_PANEL && p * BYTE_PANEL + r < a->width; r++) {
        int64_t column = q * BYTE_PANEL + part, at = (p * BYTE_PANEL + r) * b->width + column;
        store_part(to, at, sums[r / BYTE_ROWS][r % BYTE_ROWS], b->width - column, wide);
    }
}

/* Sums of the columns of one panel over all blocks. */
static void add_totals(void *to, const Columns *c, int64_t panel, int64_t blocks, int wide) {
    float sums[BYTE_PANEL] = {0};
    for (int64_t block = 0; block < blocks; block++)
        for (int i = 0; i < BYTE_PANEL; i++) sums[i] += c->total[(block * c->panels + panel) * BYTE_PANEL + i];
    for (int64_t at = panel * BYTE_PANEL, i = 0; i < BYTE_PANEL && at + i < c->width; i++) store(to, at + i, sums[i], wide);
}

/* Twin: native/quantized_by_torch.py, weight_gradient. (rows, outputs)^T times (rows, inputs), to dense (outputs, inputs); rows
 * are a step apart. `of_bias` gets the sums of the gradient's columns, unless it is null. Returns 0, or 1 for want of memory. */
int byte_gradient(void *to, void *of_bias, const void *gradient, int64_t gradient_step, const void *x, int64_t x_step,
                  int64_t rows, int64_t outputs, int64_t inputs, int wide, int threads) {
    int64_t blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    Columns a = {gradient, gradient_step, outputs, (outputs + BYTE_PANEL - 1) / BYTE_PANEL, 0, 0, 0, 0};
    Columns b = {x, x_step, inputs, (inputs + BYTE_PANEL - 1) / BYTE_PANEL, 0, 0, 0, 0};
    int64_t of_a = blocks * a.panels * BYTE_PANEL, panels = of_a + blocks * b.panels * BYTE_PANEL;
    int64_t room = (of_a * (ENTRY_BYTES - 1) + panels) * BLOCK_ROWS;
    int8_t *bytes = aligned_alloc(64, (room + (panels + 1) * (2 * sizeof(float) + sizeof(int32_t))) / 64 * 64 + 64);
    if (!bytes) return 1;
    a.bytes = bytes, b.bytes = bytes + of_a * BLOCK_ROWS * ENTRY_BYTES;
    a.scale = (float *)(bytes + room), b.scale = a.scale + of_a;
    a.shift = (int32_t *)(a.scale + panels), b.shift = a.shift + of_a;
    if (of_bias) a.total = (float *)(a.shift + panels);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(dynamic)
        for (int64_t place = 0; place < blocks * (a.panels + b.panels); place++) {
            if (place < blocks * a.panels)
                pack_block(&a, place, rows, wide, 1);
            else
                pack_block(&b, place - blocks * a.panels, rows, wide, 0);
        }
        if (of_bias) {
#pragma omp for schedule(static) nowait
            for (int64_t panel = 0; panel < a.panels; panel++) add_totals(of_bias, &a, panel, blocks, wide);
        }
#pragma omp for schedule(dynamic)
        for (int64_t pair = 0; pair < a.panels * b.panels; pair++)
            for (int64_t part = 0; part < BYTE_PANEL; part += BYTE_PART)
                part_product(to, &a, &b, pair / b.panels, pair % b.panels, part, rows, wide);
    }
    free(bytes);
    return 0;
}
