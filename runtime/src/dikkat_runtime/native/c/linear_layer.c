/* A linear layer over any number of rows, for models whose blocks Python puts together.
 *
 * A row has the same bits in any company: see linear.h.
 */
#include "layers.h"
#include "threads.h"

#include <stdlib.h>

/* Rows that a thread takes at once, so that the copy of the weights into panels pays. */
#define ROW_BLOCK 256

typedef struct {
    const Linear *linear;
    const float *from;
    float *to, *scratch;
    int64_t rows, row_blocks; /* shares of ROW_BLOCK rows */
    int64_t part;             /* outputs of a share, whole panels */
    int64_t per_thread;             /* numbers of the scratch for each thread */
} Layer;

static void layer_share(const void *job, int64_t index, int64_t thread) {
    const Layer *l = job;
    int64_t inputs = l->linear->inputs, outputs = l->linear->outputs, step = padded(inputs);
    int64_t first = index % l->row_blocks * ROW_BLOCK, start = index / l->row_blocks * l->part;
    int64_t rows = smaller_of(l->rows - first, ROW_BLOCK), end = smaller_of(outputs, start + l->part);
    float *aligned = l->scratch + l->per_thread * thread;
    for (int64_t row = 0; row < rows; row++) {
        memcpy(aligned + row * step, l->from + (first + row) * inputs, sizeof(float) * inputs);
        memset(aligned + row * step + inputs, 0, sizeof(float) * (step - inputs));
    }
    linear_rows(l->to + first * outputs, outputs, aligned, step, l->linear, rows, start, end,
                aligned + smaller_of(l->rows, ROW_BLOCK) * step);
}

/* Twin: F.linear. Dense (rows, inputs) to dense (rows, outputs). Returns 0, or 1 for want of memory. */
int linear_layer(const Linear *linear, const float *from, float *to, int64_t rows, int64_t threads) {
    if (!rows) return 0;
    int64_t panel = panel_of(linear), most = smaller_of(rows, ROW_BLOCK);
    int64_t row_blocks = (rows + ROW_BLOCK - 1) / ROW_BLOCK, panels = (linear->outputs + panel - 1) / panel;
    /* where there are fewer blocks of rows than threads, these share the outputs too */
    int64_t parts = smaller_of(panels, (threads + row_blocks - 1) / row_blocks);
    int64_t part = (panels + parts - 1) / parts * panel;
    int64_t per_thread = padded(most * padded(linear->inputs) + linear_scratch(linear, most));
    float *scratch = aligned_alloc(64, sizeof(float) * per_thread * threads);
    if (!scratch) return 1;
    Layer layer = {linear, from, to, scratch, rows, row_blocks, part, per_thread};
    share_out(threads, row_blocks * ((linear->outputs + part - 1) / part), 1, layer_share, &layer);
    free(scratch);
    return 0;
}

/* Rows that are activated by one thread before the next one takes some. */
#define ACTIVATED_TOGETHER 16

typedef struct {
    float *to;
    const float *from;
    int64_t width, gated, activation;
} Activated;

static void activate_share(const void *job, int64_t row, int64_t thread) {
    const Activated *a = job;
    float *to = a->to + row * a->width;
    const float *from = a->from + row * (a->width << a->gated);
    (void)thread;
    memcpy(to, from, sizeof(float) * a->width);
    activate_row(to, a->width, a->activation);
    for (int64_t i = 0; a->gated && i < a->width; i++) to[i] *= from[a->width + i];
}

/* Twin: the activations of nn/layers.py. Dense (rows, width) from as many, or where it is `gated` from (rows, 2 * width), of
 * which the second half is multiplied by the first one after the activation. */
void activate_rows(float *to, const float *from, int64_t rows, int64_t width, int64_t gated, int64_t activation, int64_t threads) {
    share_out(threads, rows, ACTIVATED_TOGETHER, activate_share, &(Activated){to, from, width, gated, activation});
}
