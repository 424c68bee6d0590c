/* Packing weights and multiplying rows by them, compiled once for all that do so: it takes the compiler longest of all. */
#include "byte_rows.h"

void pack_panel_of_bytes(const Packing *p, int64_t first, int8_t *lines) {
    int64_t width = padded(p->inputs), some = p->outputs - first < BYTE_PANEL ? p->outputs - first : BYTE_PANEL;
    int8_t *to = p->weight + first * width;
    float *scale = p->scale + first;
    int32_t *shift = p->shift + first;
    for (int64_t o = some; o < BYTE_PANEL; o++) scale[o] = 0.0f, shift[o] = 0;
    const void *from = entry(p->from, p->columns ? first : first * p->step, p->is_float32);
    if (p->columns && !p->is_float32 && some == BYTE_PANEL)
        pack_columns(to, scale, shift, NULL, from, p->step, BYTE_PANEL, p->inputs, width, 0);
    else if (p->columns)
        pack_columns(to, scale, shift, NULL, from, p->step, some, p->inputs, width, p->is_float32);
    else if (p->is_float32)
        pack_rows(to, scale, shift, from, p->step, some, p->inputs, width, lines, 1);
    else
        pack_rows(to, scale, shift, from, p->step, some, p->inputs, width, lines, 0);
}

INLINE void byte_rows_as(void *to, const void *from, int64_t step, const Packed *packed, const Epilogue *epilogue, int64_t count,
                         int64_t inputs, int64_t outputs, Prefetch prefetch, char *scratch, int is_float32) {
    int64_t width = padded(inputs);
    float *scales = (float *)scratch;
    uint8_t *entries = (uint8_t *)(scales + ROWS_PER_CHUNK);
    for (int64_t row = 0; row < count; row++)
        scales[row] = quantized_row(entries + row * width * ENTRY_BYTES, entry(from, row * step, is_float32), inputs, is_float32);
    Rows rows = {entries, scales, count, width, prefetch};
    quantized_products(to, outputs, &rows, packed, epilogue, 0, outputs, is_float32);
}

/* Two functions, since compilers take longer for one that is twice as large than for two. */
#define BYTE_ROWS_AS(name, is_float32)                                                                                       \
    __attribute__((noinline)) static void name(void *to, const void *from, int64_t step, const Packed *packed,         \
                                               const Epilogue *epilogue, int64_t count, int64_t inputs, int64_t outputs,   \
                                               Prefetch prefetch, char *scratch) {                                           \
        byte_rows_as(to, from, step, packed, epilogue, count, inputs, outputs, prefetch, scratch, is_float32);                    \
    }
BYTE_ROWS_AS(bf16_byte_rows, 0)
BYTE_ROWS_AS(float32_byte_rows, 1)

void byte_rows(void *to, const void *from, int64_t step, const Packed *packed, const Epilogue *epilogue, int64_t count,
               int64_t inputs, int64_t outputs, Prefetch prefetch, char *scratch, int is_float32) {
    if (is_float32)
        float32_byte_rows(to, from, step, packed, epilogue, count, inputs, outputs, prefetch, scratch);
    else
        bf16_byte_rows(to, from, step, packed, epilogue, count, inputs, outputs, prefetch, scratch);
}
