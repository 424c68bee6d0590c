/* What the browser engine calls: linear layers of the native engine (linear_layer.c, grouped_layer.c), by one thread. */
#include "byte_rows.h"
#include "grouped.h"
#include "linear.h"
#include "threads.h"

#include <stdlib.h>

int linear_layer(const Linear *linear, const float *from, float *to, int64_t rows, int64_t threads);

/* There are no other threads. */
void in_threads(int64_t threads, Work *work, const void *job) {
    (void)threads;
    work(job, 0, 1);
}

void share_out(int64_t threads, int64_t count, int64_t together, Share *share, const void *job) {
    (void)threads, (void)together;
    for (int64_t index = 0; index < count; index++) share(job, index, 0);
}

/* Memory for `bytes` bytes, at a multiple of 64; null where there is none left. */
__attribute__((export_name("allocate"))) void *allocate(int32_t bytes) {
    return aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
}

/* Gives back what allocate() gave. */
__attribute__((export_name("release"))) void release(void *memory) { free(memory); }

/* A layer of float32 weights (outputs, inputs); `bias` may be null. */
__attribute__((export_name("float32_layer"))) Linear *float32_layer(const float *weight, const float *bias, int32_t inputs,
                                                                    int32_t outputs) {
    Linear *layer = calloc(1, sizeof(Linear));
    if (layer) layer->weight = weight, layer->bias = bias, layer->inputs = inputs, layer->outputs = outputs;
    return layer;
}

/* A layer of int8 weights (outputs, inputs), packed into panels as pack_rows() packs them. */
__attribute__((export_name("int8_layer"))) Linear *int8_layer(const int8_t *weight, const float *scale, const float *bias,
                                                              int32_t inputs, int32_t outputs) {
    int64_t width = padded(inputs), panels = groups_of(outputs, BYTE_PANEL), all = panels * BYTE_PANEL;
    Linear *layer = float32_layer(0, bias, inputs, outputs);
    int8_t *packed = allocate((int32_t)(all * width)), *lines = allocate((int32_t)(width * LANES));
    float *scales = allocate((int32_t)(all * sizeof(float)));
    int32_t *shift = allocate((int32_t)(all * sizeof(int32_t)));
    if (!layer || !packed || !lines || !scales || !shift) return 0;
    memset(packed, 0, all * width), memset(scales, 0, all * sizeof(float)), memset(shift, 0, all * sizeof(int32_t));
    memcpy(scales, scale, outputs * sizeof(float));
    for (int64_t first = 0; first < all; first += LANES) {
        for (int64_t o = 0; o < LANES; o++) {
            int8_t *line = lines + o * width;
            memset(line, 0, width);
            if (first + o >= outputs) continue;
            memcpy(line, weight + (first + o) * inputs, inputs);
            uint32_t total = 0;
            for (int64_t i = 0; i < inputs; i++) total += (uint32_t)(int32_t)line[i];
            shift[first + o] = shift_of(total);
        }
        pack_lines(packed + first / BYTE_PANEL * BYTE_PANEL * width, lines, width, first % BYTE_PANEL);
    }
    free(lines);
    layer->packed = (Packed){packed, scales, shift};
    return layer;
}

/* Dense (rows, inputs) to dense (rows, outputs). Returns 0, or 1 for want of memory. */
__attribute__((export_name("linear"))) int32_t linear(const Linear *layer, const float *from, float *to, int32_t rows) {
    return linear_layer(layer, from, to, rows, 1);
}

/* A layer of `weight`, which lies as pack_groups() packs it where a panel has 16 outputs, and is not copied. */
__attribute__((export_name("grouped_weights"))) Grouped *grouped_weights(uint8_t *weight, const float *bias, int32_t inputs,
                                                                         int32_t outputs, int32_t bits) {
    _Static_assert(GROUP_PANEL == 16, "a model file has panels of 16 outputs");
    Grouped *layer = calloc(1, sizeof(Grouped));
    if (layer) *layer = (Grouped){weight, bias, inputs, outputs, bits};
    return layer;
}

/* The same as linear() by such a layer. */
__attribute__((export_name("grouped"))) int32_t grouped(const Grouped *layer, const float *from, float *to, int32_t rows) {
    return grouped_layer(layer, from, to, rows, 1);
}

/* In the place of those of libc, which would ask the page for random numbers: nothing here is built with stack guards. */
uintptr_t __stack_chk_guard;
void __stack_chk_fail(void) { __builtin_trap(); }
