/* What flows back through a linear layer in eight bits: to its input, and to its weight by a product that sums over rows,
 * in blocks of rows with scales of their own. Both read the gradient, so a block of it is read for the one while it is in
 * cache for the other. */
#include "byte_rows.h"
#include "threads.h"

#include <stdlib.h>

/* Rows that share the scale of a column, at most: fewer round less, more spend less time between blocks. */
#define BLOCK_ROWS 256
/* Panels of one block that are packed one after the other. */
#define PACKED_TOGETHER 8
/* Panels of the left factor that each panel of the right one is multiplied by while it is in cache. */
#define MULTIPLIED_TOGETHER 4

/* A matrix (rows, width), its columns as panels of bytes, block by block. */
typedef struct {
    const void *from;
    int64_t step, width, panels;
    int64_t rows, in_block, blocks; /* of rows, each but the last with so many of them */
    int8_t *bytes;  /* (panels, blocks, BLOCK_ROWS / 4, 64, 4); entries of ENTRY_BYTES in the left factor,
                   * which is laid out by lay_in_groups() or lay_in_rows() */
    float *scale;   /* (panels, blocks, 64) */
    int32_t *shift; /* the same; of the left factor, sums of own_products() */
    float *total;   /* the same, of numbers before they are rounded; null: are not wanted */
} Columns;

/* How many rows a block has. */
INLINE int64_t rows_in(const Columns *c, int64_t block) { return smaller_of(c->rows - block * c->in_block, c->in_block); }

/* Inputs of a block as they are laid out: with zeros after them, up to whole tiles where there are tiles. */
INLINE int64_t laid_out(int64_t inputs) {
#if HAS_TILES
    if (tiles_allowed) return groups_of(inputs, TILE_QUADS * QUAD) * TILE_QUADS * QUAD;
#endif
    return padded(inputs);
}

#if HAS_TILES
/* In place: of sixteen columns and as many fours of inputs at a time, the fours of each column side by side. */
static void lay_in_rows(int8_t *panel, int64_t inputs) {
    const int64_t four = BYTE_PANEL * QUAD;
    for (int8_t *tile = panel; tile < panel + inputs * BYTE_PANEL; tile += TILE_QUADS * four)
        for (int64_t first = 0; first < four; first += TILE_ROWS * QUAD) {
            vec rows[TILE_ROWS];
            for (int i = 0; i < TILE_ROWS; i++) rows[i] = *(vec *)(tile + first + i * four);
            transpose(rows);
            for (int i = 0; i < TILE_ROWS; i++) *(vec *)(tile + first + i * four) = rows[i];
        }
}
#endif

#if !MULTIPLIES_BYTES
/* In place: of BYTE_ROWS columns at a time, which are multiplied at once, all fours as unsigned entries of 16 bits. `own` gets the
 * sums of their own_products(). */
static void lay_in_groups(int8_t *panel, int32_t *own, int64_t quads) {
    ivec bytes[BYTE_PANEL * BLOCK_ROWS / QUAD / LANES], sums[BYTE_PANEL / LANES] = {{0}};
    for (int64_t quad = 0, i = 0; quad < quads; quad++)
        for (int at = 0; at < BYTE_PANEL / LANES; at++, i++) {
            /* two's complement plus 128 */
            bytes[i] = *(const ivec *)(panel + i * sizeof(ivec)) ^ (int32_t)0x80808080;
            sums[at] += own_products((Fours){(halves)(bytes[i] & 0x00ff00ff), (halves)(bytes[i] >> 8 & 0x00ff00ff)});
        }
    memcpy(own, sums, sizeof sums);
    for (int64_t first = 0; first < BYTE_PANEL; first += BYTE_ROWS)
        for (int64_t quad = 0; quad < quads; quad++, panel += BYTE_ROWS * QUAD * ENTRY_BYTES) {
            int32_t from[BYTE_ROWS], to[2 * BYTE_ROWS];
            memcpy(from, (const int32_t *)bytes + quad * BYTE_PANEL + first, sizeof from);
            for (int i = 0; i < BYTE_ROWS; i++) to[2 * i] = from[i] & 0x00ff00ff, to[2 * i + 1] = from[i] >> 8 & 0x00ff00ff;
            memcpy(panel, to, sizeof to);
        }
}
#endif

static void pack_block(const Columns *c, int64_t panel, int64_t block, int is_float32, int is_left) {
    int64_t first = panel * BYTE_PANEL, begin = block * c->in_block, index = panel * c->blocks + block;
    int64_t some = smaller_of(c->width - first, BYTE_PANEL), inputs = rows_in(c, block), width = laid_out(inputs);
    int8_t *to = c->bytes + index * BYTE_PANEL * BLOCK_ROWS * (is_left ? ENTRY_BYTES : 1);
    float *scale = c->scale + index * BYTE_PANEL;
    int32_t *shift = c->shift + index * BYTE_PANEL;
    float *total = c->total ? c->total + index * BYTE_PANEL : NULL;
    const void *from = entry(c->from, begin * c->step + first, is_float32);
    for (int64_t o = some; o < BYTE_PANEL; o++) scale[o] = 0.0f, shift[o] = 0;
    if (is_float32)
        pack_columns(to, scale, shift, total, from, c->step, some, inputs, width, 1);
    else if (some == BYTE_PANEL)
        pack_columns(to, scale, shift, total, from, c->step, BYTE_PANEL, inputs, width, 0);
    else
        pack_columns(to, scale, shift, total, from, c->step, some, inputs, width, 0);
    if (!is_left) return;
#if MULTIPLIES_BYTES
    /* two's complement plus 128 */
    for (int64_t i = 0; i < BYTE_PANEL * width; i++) to[i] ^= -128;
#else
    lay_in_groups(to, shift, groups_of(inputs, QUAD));
#endif
#if HAS_TILES
    if (tiles_allowed) lay_in_rows(to, width);
#endif
}

/* All panels of a block. Each reads a little of every row, which memory is slow at: before some of them, rows are asked for
 * from end to end. */
static void pack_panels(const Columns *c, int64_t block, int is_float32, int is_left) {
    int64_t begin = block * c->in_block, end = begin + rows_in(c, block);
    for (int64_t panel = 0; panel < c->panels; panel++) {
        int64_t first = panel * BYTE_PANEL, last = smaller_of(first + PACKED_TOGETHER * BYTE_PANEL, c->width);
        for (int64_t row = begin; panel % PACKED_TOGETHER == 0 && row < end; row++)
            for (int64_t at = first; at < last; at += 64 / (is_float32 ? 4 : 2))
                __builtin_prefetch(entry(c->from, row * c->step + at, is_float32), 0, 2);
        pack_block(c, panel, block, is_float32, is_left);
    }
}

/* Sums of products of bytes as numbers, added: of `count` columns of a from `first` on, and a part of the columns of b. */
INLINE void add_scaled(vec sums[][BYTE_VECTORS], ivec products[][BYTE_VECTORS], const float *scales_a, const float *scales_b,
                       const int count) {
#pragma GCC unroll 6
    for (int r = 0; r < count; r++)
#pragma GCC unroll 4
        for (int i = 0; i < BYTE_VECTORS; i++) {
            vec scale = scales_a[r] * *(const vec *)(scales_b + i * LANES);
            sums[r][i] += __builtin_convertvector(products[r][i], vec) * scale;
        }
}

/* What one block of rows adds to the sums of columns of a, a panel of them, times a part of a panel of b. */
typedef struct {
    const uint8_t *from;
    const int8_t *weight;
    const float *scales_a, *scales_b;
    const int32_t *shift, *own_a; /* of a, sums of own_products() */
    int64_t inputs;
} Block;

#if MULTIPLIES_BYTES
INLINE void add_block(vec sums[][BYTE_VECTORS], const Block *b, int64_t first, const int count) {
    ivec products[BYTE_ROWS][BYTE_VECTORS];
    byte_products(products, b->from + first * QUAD * ENTRY_BYTES, QUAD * ENTRY_BYTES, BYTE_PANEL * QUAD * ENTRY_BYTES,
                  b->weight, b->shift, groups_of(b->inputs, QUAD), count);
    add_scaled(sums + first, products, b->scales_a + first, b->scales_b, count);
}
#endif

#if HAS_TILES
/* The same of a whole panel. Sums are added while tiles compute the next. */
INLINE void add_tiles(vec sums[][BYTE_VECTORS], const Block *b) {
    const int64_t four = BYTE_PANEL * QUAD, steps = groups_of(b->inputs, TILE_QUADS * QUAD);
    ivec products[2][TILE_ROWS][BYTE_VECTORS], start[BYTE_VECTORS];
    for (int i = 0; i < BYTE_VECTORS; i++) start[i] = -*(const ivec *)(b->shift + i * LANES);
    for (int64_t first = 0, at = 0; first <= BYTE_PANEL; first += TILE_ROWS, at ^= 1) {
        int64_t before = first - TILE_ROWS;
        if (first < BYTE_PANEL)
            tile_products(products[at], b->from + first * QUAD, four, TILE_QUADS * four, b->weight, start, steps);
        if (first) add_scaled(sums + before, products[!at], b->scales_a + before, b->scales_b, TILE_ROWS);
    }
}
#endif

#if MULTIPLIES_BYTES
INLINE void add_panel(vec sums[][BYTE_VECTORS], const Block *b, int tiles) {
    int64_t first = 0;
#if HAS_TILES
    if (tiles) {
        add_tiles(sums, b);
        return;
    }
#endif
    for (; first + BYTE_ROWS <= BYTE_PANEL; first += BYTE_ROWS) add_block(sums, b, first, BYTE_ROWS);
    if (first < BYTE_PANEL) add_block(sums, b, first, BYTE_PANEL % BYTE_ROWS);
}
#else
/* The same, with weights that are 16 bits already, and their own_products(). */
INLINE void add_panel(vec sums[][BYTE_VECTORS], const Block *b, const Fours *weights, const ivec *own) {
    const int64_t four = QUAD * ENTRY_BYTES, quads = groups_of(b->inputs, QUAD);
    for (int64_t first = 0; first < BYTE_PANEL; first += BYTE_ROWS) {
        ivec products[BYTE_ROWS][BYTE_VECTORS];
#pragma GCC unroll 4
        for (int r = 0; r < BYTE_ROWS; r++)
#pragma GCC unroll 4
            for (int i = 0; i < BYTE_VECTORS; i++)
                products[r][i] = -*(const ivec *)(b->shift + i * LANES) - own[i] - (BY_SUMS ? b->own_a[first + r] : 0);
        add_long_quads(products, b->from + first * quads * four, four, BYTE_ROWS * four, weights, quads);
        add_scaled(sums + first, products, b->scales_a + first, b->scales_b, BYTE_ROWS);
    }
}
#endif

/* `count` panels of the columns of a from `p` on, times a part of panel `q` of those of b. */
static void part_product(void *to, const Columns *a, const Columns *b, int64_t p, int64_t count, int64_t q, int64_t part,
                         int is_float32) {
    vec sums[MULTIPLIED_TOGETHER][BYTE_PANEL][BYTE_VECTORS];
    const int tiles = begin_tiles(BYTE_PANEL);
    memset(sums, 0, count * sizeof sums[0]);
    for (int64_t block = 0; block < a->blocks; block++) {
        int64_t rows = rows_in(a, block), of_b = (q * b->blocks + block) * BYTE_PANEL;
        const int8_t *weight = b->bytes + of_b * BLOCK_ROWS + part * QUAD;
#if !MULTIPLIES_BYTES
        Fours weights[BLOCK_ROWS / QUAD * BYTE_VECTORS];
        ivec own[BYTE_VECTORS];
        lengthen_part(weights, own, weight, groups_of(rows, QUAD));
#endif
        for (int64_t i = 0; i < count; i++) {
            int64_t of_a = ((p + i) * a->blocks + block) * BYTE_PANEL;
            const uint8_t *from = (const uint8_t *)a->bytes + of_a * BLOCK_ROWS * ENTRY_BYTES;
            Block added = {from, weight, a->scale + of_a, b->scale + of_b + part, b->shift + of_b + part, a->shift + of_a, rows};
#if MULTIPLIES_BYTES
            add_panel(sums[i], &added, tiles);
#else
            add_panel(sums[i], &added, weights, own);
#endif
        }
    }
    end_tiles(tiles);
    int64_t column = q * BYTE_PANEL + part, end = smaller_of((p + count) * BYTE_PANEL, a->width);
    int streams = a->width * b->width >= MIN_STREAMED;
    for (int64_t row = p * BYTE_PANEL; row < end; row++)
        store_part(to, row * b->width + column, sums[row / BYTE_PANEL - p][row % BYTE_PANEL], b->width - column, streams, is_float32);
}

/* Sums of the columns of one panel over all blocks. */
static void add_totals(void *to, const Columns *c, int64_t panel, int is_float32) {
    float sums[BYTE_PANEL] = {0};
    for (int64_t block = 0; block < c->blocks; block++)
        for (int i = 0; i < BYTE_PANEL; i++) sums[i] += c->total[(panel * c->blocks + block) * BYTE_PANEL + i];
    for (int64_t at = panel * BYTE_PANEL, i = 0; i < BYTE_PANEL && at + i < c->width; i++) store(to, at + i, sums[i], is_float32);
}

/* Rows of a block: as equal as fours allow, and blocks for two threads equally many. */
INLINE int64_t rows_of_block(int64_t rows) {
    int64_t blocks = rows <= BLOCK_ROWS ? 1 : 2 * groups_of(rows, 2 * BLOCK_ROWS);
    int64_t size = groups_of(rows, blocks * QUAD) * QUAD;
    return size ? size : QUAD;
}

/* Made by native/quantized.py, gradients. */
typedef struct {
    void *grad_x;      /* (rows, inputs), dense; null: is not wanted */
    void *grad_weight; /* (outputs, inputs), dense */
    void *grad_bias;   /* (outputs), the sums of the gradient's columns; null: are not wanted */
    const void *gradient, *x; /* (rows, outputs) and (rows, inputs), their rows a step apart */
    int64_t gradient_step, x_step, rows, outputs, inputs;
    const void *relu_output; /* laid out as `grad_x`, which is zero where it is not above zero; null: there is none */
    Packing weights;  /* for `grad_x` */
    int64_t is_float32, threads;
} Backward;

/* The gradient of the inputs of `count` rows from `row` on. */
static void flow_to_rows(const Backward *g, int64_t row, int64_t count, char *scratch) {
    Packed packed = {g->weights.weight, g->weights.scale, g->weights.shift};
    int64_t chunks = groups_of(count, ROWS_PER_CHUNK), chunk = groups_of(count, chunks * BYTE_ROWS) * BYTE_ROWS;
    Epilogue epilogue = {.streams = g->rows * g->inputs >= MIN_STREAMED};
    for (int64_t end = row + count; row < end; row += chunk) {
        int64_t some = smaller_of(end - row, chunk), next = smaller_of(end - row - some, chunk), offset = row * g->inputs;
        const void *from = entry(g->gradient, row * g->gradient_step, g->is_float32);
        void *there = (void *)entry(g->grad_x, offset, g->is_float32);
        if (g->relu_output) epilogue.relu_output = entry(g->relu_output, offset, g->is_float32);
        Prefetch prefetch = prefetch_of_rows(g->gradient, g->gradient_step, row + some, next, some, &g->weights, g->is_float32);
        byte_rows(there, from, g->gradient_step, &packed, &epilogue, some, g->outputs, g->inputs, prefetch, scratch, g->is_float32);
    }
}

/* The factors of the weight's gradient, gradient^T and x, still to be packed; returns the memory for both, null for want
 * of it. */
static void *lay_out(const Backward *g, Columns *a, Columns *b) {
    int64_t in_block = rows_of_block(g->rows), blocks = groups_of(g->rows, in_block);
    *a = (Columns){g->gradient, g->gradient_step, g->outputs, groups_of(g->outputs, BYTE_PANEL), g->rows, in_block, blocks};
    *b = (Columns){g->x, g->x_step, g->inputs, groups_of(g->inputs, BYTE_PANEL), g->rows, in_block, blocks};
    int64_t of_a = blocks * a->panels * BYTE_PANEL, all = of_a + blocks * b->panels * BYTE_PANEL;
    int64_t in_bytes = (of_a * (ENTRY_BYTES - 1) + all) * BLOCK_ROWS, numbers = 2 * sizeof(float) + sizeof(int32_t);
    int8_t *bytes = aligned_alloc(64, (in_bytes + (all + 1) * numbers) / 64 * 64 + 64);
    if (!bytes) return NULL;
    a->bytes = bytes, b->bytes = bytes + of_a * BLOCK_ROWS * ENTRY_BYTES;
    a->scale = (float *)(bytes + in_bytes), b->scale = a->scale + of_a;
    a->shift = (int32_t *)(a->scale + all), b->shift = a->shift + of_a;
    if (g->grad_bias) a->total = (float *)(a->shift + all);
    return bytes;
}

typedef struct {
    const Backward *g;
    Columns a, b;
    int64_t together; /* panels of a that are multiplied by the same panel of b */
    char *scratch;
    int64_t per_thread; /* bytes of it for each thread */
} Job;

static void pack_share(const void *job, int64_t panel, int64_t thread) {
    const Job *j = job;
    pack_panel_of_bytes(&j->g->weights, panel * BYTE_PANEL, (int8_t *)j->scratch + j->per_thread * thread);
}

static void block_share(const void *job, int64_t block, int64_t thread) {
    const Job *j = job;
    const Backward *g = j->g;
    if (g->grad_x) flow_to_rows(g, block * j->a.in_block, rows_in(&j->a, block), j->scratch + j->per_thread * thread);
    pack_panels(&j->a, block, g->is_float32, 1);
    pack_panels(&j->b, block, g->is_float32, 0);
    streamed();
}

static void product_share(const void *job, int64_t pair, int64_t thread) {
    const Job *j = job;
    int64_t p = pair / j->b.panels * j->together, count = smaller_of(j->a.panels - p, j->together);
    (void)thread;
    for (int64_t part = 0; part < BYTE_PANEL; part += BYTE_PART)
        part_product(j->g->grad_weight, &j->a, &j->b, p, count, pair % j->b.panels, part, j->g->is_float32);
    streamed();
}

static void flow_back(Job *j) {
    const Backward *g = j->g;
    int64_t threads = g->threads, panels = j->a.panels;
    if (g->grad_x) share_out(threads, groups_of(g->inputs, BYTE_PANEL), 1, pack_share, j);
    share_out(threads, j->a.blocks, 1, block_share, j);
    for (int64_t panel = 0; g->grad_bias && panel < panels; panel++) add_totals(g->grad_bias, &j->a, panel, g->is_float32);
    /* few pairs are better shared out one by one: first of all every thread needs some */
    j->together = panels * j->b.panels < 32 * threads ? 1 : MULTIPLIED_TOGETHER;
    share_out(threads, groups_of(panels, j->together) * j->b.panels, 1, product_share, j);
}

/* Twin: kernels/int8_products.py, weight_gradient_reference. Returns 0, or 1 for want of memory. */
int byte_gradients(const Backward *g) {
    Backward own = *g;
    Job job = {.g = &own, .per_thread = bytes_of_rows(g->outputs)};
    void *memory = lay_out(g, &job.a, &job.b), *packed = take_memory(&own.weights);
    job.scratch = calloc(g->threads, job.per_thread);
    int failed = !memory || !job.scratch || (own.weights.from && !own.weights.weight);
    if (!failed) flow_back(&job);
    free(memory), free(packed), free(job.scratch);
    return failed;
}
