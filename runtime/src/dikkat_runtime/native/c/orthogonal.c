/* Matrices with all singular values moved near one, by Newton-Schulz iterations (Jordan et al. 2024) in eight bits.
 *
 * The Gram matrix comes close to a diagonal one, and a row's largest entry sets the step that all of it is rounded to: so
 * diagonals are kept in float32, and only what is off them is rounded. That makes it more exact than bfloat16.
 */
#include "byte_packing.h"
#include "tensors.h"
#include "threads.h"

#include <stdlib.h>

#define ITERATIONS 5
/* Of the odd polynomial a x + b x^3 + c x^5. */
#define A 3.4445f
#define B -4.7750f
#define C 2.0315f

/* What one matrix (rows, width), no taller than broad, needs; its rows, and those of the squares, are a step apart. */
typedef struct {
    int64_t rows, width, step, square;
    float *x, *product; /* (square, step) */
    float *gram;        /* (square, square) */
    float *diagonal;    /* (rows) */
    uint8_t *entries;   /* the left factor of a product, (square, step) at most */
    float *scales;      /* (rows) */
    int8_t *packed;     /* the right factor: Packed */
    float *packed_scale;
    int32_t *packed_shift;
} Workspace;

static int64_t panels_of(int64_t outputs) { return (outputs + BYTE_PANEL - 1) / BYTE_PANEL; }

/* Lays out a workspace from `memory` on, and returns the bytes that it takes. */
static int64_t lay_out(Workspace *w, char *memory, int64_t rows, int64_t width) {
    int64_t step = padded(width), square = padded(rows), panels = panels_of(width) * BYTE_PANEL, at = 0;
    *w = (Workspace){.rows = rows, .width = width, .step = step, .square = square};
#define TAKE(field, bytes) w->field = (void *)(memory + at), at += ((bytes) + 63) / 64 * 64
    TAKE(x, square * step * sizeof(float));
    TAKE(product, square * step * sizeof(float));
    TAKE(gram, square * square * sizeof(float));
    TAKE(diagonal, rows * sizeof(float));
    TAKE(entries, square * step * ENTRY_BYTES);
    TAKE(scales, rows * sizeof(float));
    /* (rows, width) packed by rows or by columns */
    TAKE(packed, panels_of(rows) * BYTE_PANEL * step > panels * square ? panels_of(rows) * BYTE_PANEL * step
                                                                       : panels * square);
    TAKE(packed_scale, panels * sizeof(float));
    TAKE(packed_shift, panels * sizeof(int32_t));
#undef TAKE
    return at;
}

static Packed packed_of(const Workspace *w) { return (Packed){w->packed, w->packed_scale, w->packed_shift}; }

/* Copies what is below the blocks of the diagonal to above them; (square, square), a multiple of PADDING. */
static void mirror(float *matrix, int64_t square) {
    for (int64_t row = 0; row < square; row += LANES)
        for (int64_t column = row / BYTE_PANEL * BYTE_PANEL + BYTE_PANEL; column < square; column += LANES) {
            vec block[LANES];
            for (int i = 0; i < LANES; i++) block[i] = *(vec *)(matrix + (column + i) * square + row);
            transpose(block);
            for (int i = 0; i < LANES; i++) *(vec *)(matrix + (row + i) * square + column) = block[i];
        }
}

/* to = from from^T, the lower half computed and the upper one copied. Both factors are the same bytes. */
static void symmetric_product(const Workspace *w, float *to, const float *from, int64_t width) {
    int64_t count = w->rows * width;
    uint8_t *entries = w->entries;
    int8_t *lines = (int8_t *)entries;
    for (int64_t row = 0; row < w->rows; row++) {
        const float *own = from + row * width;
        float scale = w->scales[row] = w->packed_scale[row] = scale_of_row(own, width, 1);
        w->packed_shift[row] = shift_of(signed_row(lines + row * width, own, share_of(scale), width, width, 1));
    }
    for (int64_t first = 0; first < w->square; first += LANES)
        pack_lines(w->packed + first / BYTE_PANEL * BYTE_PANEL * width, lines + first * width, width, first % BYTE_PANEL);
    /* two's complement plus SHIFT */
    for (int64_t i = 0; i < count; i++) entries[i] ^= SHIFT;
    spread(entries, count / QUAD);
    Packed packed = packed_of(w);
    for (int64_t first = 0; first < w->rows; first += BYTE_PANEL) {
        int64_t end = w->rows - first < BYTE_PANEL ? w->rows : first + BYTE_PANEL;
        Rows rows = {entries + first * width * ENTRY_BYTES, w->scales + first, w->rows - first, width, {0}};
        quantized_products(to + first * w->square, w->square, &rows, &packed, &(Epilogue){0}, first, end, 1);
    }
    mirror(to, w->square);
}

/* Makes the Gram matrix g the matrix b g + c g^2 and takes its diagonal, with a added, out of it. `scratch` has its size. */
static void polynomial(const Workspace *w, float *scratch) {
    float *d = w->diagonal;
    for (int64_t row = 0; row < w->rows; row++) {
        d[row] = w->gram[row * w->square + row];
        w->gram[row * w->square + row] = 0.0f;
    }
    symmetric_product(w, scratch, w->gram, w->square);
    for (int64_t row = 0; row < w->rows; row++) {
        float *g = w->gram + row * w->square, *square = scratch + row * w->square;
#pragma omp simd
        for (int64_t column = 0; column < w->rows; column++)
            g[column] = B * g[column] + C * ((d[row] + d[column]) * g[column] + square[column]);
    }
    for (int64_t row = 0; row < w->rows; row++) {
        d[row] = A + B * d[row] + C * (d[row] * d[row] + scratch[row * w->square + row]);
        w->gram[row * w->square + row] = 0.0f;
    }
}

/* x = diagonal x + gram x. */
static void multiply(const Workspace *w) {
    Packed packed = packed_of(w);
    for (int64_t row = 0; row < w->rows; row++)
        w->scales[row] =
            quantized_row(w->entries + row * w->square * ENTRY_BYTES, w->gram + row * w->square, w->square, 1);
    for (int64_t first = 0; first < w->width; first += BYTE_PANEL) {
        int64_t some = w->width - first < BYTE_PANEL ? w->width - first : BYTE_PANEL;
        pack_columns(w->packed + first * w->square, w->packed_scale + first, w->packed_shift + first, NULL, w->x + first, w->step,
                     some, w->rows, w->square, 1);
    }
    Rows rows = {w->entries, w->scales, w->rows, w->square, {0}};
    quantized_products(w->product, w->step, &rows, &packed, &(Epilogue){0}, 0, w->width, 1);
    for (int64_t row = 0; row < w->rows; row++)
#pragma omp simd
        for (int64_t i = row * w->step; i < row * w->step + w->width; i++)
            w->x[i] = w->diagonal[row] * w->x[i] + w->product[i];
}

/* (height, width) to the rows of the workspace, transposed where it is taller than broad, and back. */
static void fill(const Workspace *w, const float *from, int64_t height, int64_t width) {
    double total = 0.0;
    for (int64_t i = 0; i < height * width; i++) total += (double)from[i] * from[i];
    float share = 1.0f / ((float)sqrt(total) + 1e-7f);
    for (int64_t row = 0; row < w->rows; row++)
        for (int64_t i = 0; i < w->width; i++)
            w->x[row * w->step + i] = share * (height > width ? from[i * width + row] : from[row * width + i]);
}

static void write_back(float *to, const Workspace *w, int64_t height, int64_t width) {
    for (int64_t row = 0; row < height; row++)
        for (int64_t i = 0; i < width; i++)
            to[row * width + i] = height > width ? w->x[i * w->step + row] : w->x[row * w->step + i];
}

typedef struct {
    float *matrices;
    int64_t height, width, rows, columns;
    char *memory;
    int64_t per_thread; /* bytes of it for each thread */
} Job;

static void orthogonalize_one(const void *job, int64_t matrix, int64_t thread) {
    const Job *j = job;
    Workspace w;
    float *own = j->matrices + matrix * j->height * j->width;
    lay_out(&w, j->memory + j->per_thread * thread, j->rows, j->columns);
    fill(&w, own, j->height, j->width);
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        symmetric_product(&w, w.gram, w.x, w.step);
        polynomial(&w, w.product);
        multiply(&w);
    }
    write_back(own, &w, j->height, j->width);
}

/* Twin: training/optimizer.py, orthogonalize_reference. In place, `count` dense matrices (height, width). Returns 0, or 1 for want
 * of memory. A matrix is one thread's work, so the number of threads changes no bit. */
int orthogonalize(float *matrices, int64_t count, int64_t height, int64_t width, int threads) {
    Workspace w;
    int64_t rows = height < width ? height : width, columns = height < width ? width : height;
    int64_t per_thread = lay_out(&w, NULL, rows, columns);
    if (threads > count) threads = (int)count;
    char *memory = aligned_alloc(64, per_thread * threads);
    if (!memory) return 1;
    memset(memory, 0, per_thread * threads);
    Job job = {matrices, height, width, rows, columns, memory, per_thread};
    share_out(threads, count, 1, orthogonalize_one, &job);
    free(memory);
    return 0;
}

/* Numbers of one share of work. */
#define PART 4096
#define MOMENTUM 0.95f

/* One update by Muon (Jordan et al. 2024) of groups of equal matrices, whose numbers lie one after the other. */
typedef struct {
    float *weights, *momentum;
    float *average; /* may be null */
    uint16_t *copy; /* may be null */
    const void *gradient;
    const int64_t *shapes; /* (groups, 3): matrices, height, width */
    int64_t groups, entries;
    double learning_rate;
    float kept;    /* of a weight, after decay */
    float fresh;   /* share of the new weights in their average */
    float divisor; /* of the gradient */
    int64_t is_float32, threads;
} Muon;

/* Entries `first` to `end`, which have a rate in common. */
typedef struct {
    const Muon *m;
    float *direction; /* (entries) */
    int64_t first, end;
    float rate;
} MuonJob;

/* Not inlined, so that the product is rounded before anything is added to it, as PyTorch does. */
__attribute__((noinline)) static void scale(float *x, float by, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) x[i] *= by;
}

/* Adds `count` numbers of the gradient to the momentum, and looks ahead along it (Nesterov). */
INLINE void look_ahead(const Muon *m, float *direction, int64_t at, int64_t count, int is_float32) {
    float *momentum = m->momentum + at;
    scale(momentum, MOMENTUM, count);
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float gradient = load(m->gradient, at + i, is_float32) / m->divisor;
        momentum[i] += gradient;
        direction[i] = MOMENTUM * momentum[i] + gradient;
    }
}

static void direction_share(const void *job, int64_t part, int64_t thread) {
    const MuonJob *j = job;
    int64_t at = j->first + part * PART, count = smaller_of(j->end - at, PART);
    (void)thread;
    if (j->m->is_float32)
        look_ahead(j->m, j->direction + at, at, count, 1);
    else
        look_ahead(j->m, j->direction + at, at, count, 0);
}

static void weights_share(const void *job, int64_t part, int64_t thread) {
    const MuonJob *j = job;
    const Muon *m = j->m;
    int64_t at = j->first + part * PART, count = smaller_of(j->end - at, PART);
    float *weights = m->weights + at, *average = m->average ? m->average + at : NULL, *direction = j->direction + at;
    (void)thread;
    scale(weights, m->kept, count);
#pragma omp simd
    for (int64_t i = 0; i < count; i++) weights[i] = j->rate * direction[i] + weights[i];
    /* from the nearer end */
    if (average && m->fresh < 0.5f)
#pragma omp simd
        for (int64_t i = 0; i < count; i++) average[i] = m->fresh * (weights[i] - average[i]) + average[i];
    else if (average)
#pragma omp simd
        for (int64_t i = 0; i < count; i++) average[i] = (m->fresh - 1.0f) * (weights[i] - average[i]) + weights[i];
    for (int64_t i = 0; m->copy && i < count; i++) m->copy[at + i] = to_bf16(weights[i]);
}

/* Twin: training/optimizer.py, what `muon` does without a kernel. Returns 0, or 1 for want of memory. */
int muon(const Muon *m) {
    float *direction = aligned_alloc(64, groups_of(m->entries, PART) * PART * sizeof(float));
    if (!direction) return 1;
    MuonJob job = {.m = m, .direction = direction, .end = m->entries};
    share_out(m->threads, groups_of(m->entries, PART), 1, direction_share, &job);
    int failed = 0;
    for (int64_t group = 0; group < m->groups && !failed; group++) {
        const int64_t *shape = m->shapes + 3 * group;
        job.end = job.first + shape[0] * shape[1] * shape[2];
        /* an update has the root mean square of AdamW's (Liu et al. 2025, section 2.2) */
        job.rate = (float)(-m->learning_rate * (0.2 * sqrt((double)(shape[1] > shape[2] ? shape[1] : shape[2]))));
        failed = orthogonalize(direction + job.first, shape[0], shape[1], shape[2], (int)m->threads);
        if (!failed) share_out(m->threads, groups_of(job.end - job.first, PART), 1, weights_share, &job);
        job.first = job.end;
    }
    free(direction);
    return failed;
}
