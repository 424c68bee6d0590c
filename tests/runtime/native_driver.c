/* Calls kernels with numbers that are the same on every processor, and prints what they find, one result a line: a name,
 * "exact" or "close", and its numbers. encoder.c is read here for its structure. */
#include "encoder.c"

#include "attention.h"
#include "byte_rows.h"

#include <stdio.h>

int pack_bytes(const Packing *packing, int threads);
int byte_linear(void *to, const void *from, int64_t step, const Packing *weights, const Epilogue *epilogue, int64_t rows,
                int wide, int threads);
int attention_forward(const Attention *a, void *output);
int attention_backward(const Attention *a, const void *gradient, const int64_t *strides, const Gradients *of);
void add_dropped(void *output, const void *rest, const void *x, uint64_t seed, int64_t threshold, float scale,
                 int64_t entries, int wide, int threads);
void make_random_bits(int16_t *levels, uint64_t seed, int64_t entries, int threads);
int smoothed_softmax(void *logits, const int64_t *targets, int64_t rows, int64_t vocab, float smoothing, float *loss,
                     float *likelihood, int wide, int threads);
void top_entries(const float *values, int64_t rows, int64_t width, int64_t k, float *found, int64_t *places,
                 int64_t threads);
void score_tokens(const float *values, const int64_t *tokens, int64_t rows, int64_t width, float *scores, int64_t threads);
void normalizers(const float *values, int64_t rows, int64_t width, float *largest, float *log_sums, int64_t threads);
int orthogonalize(float *matrices, int64_t count, int64_t height, int64_t width, int threads);
double sum_of_squares(const void *x, int64_t entries, double *sums, int wide, int threads);

#define THREADS 3
#define POOL (1 << 20)

static float numbers[POOL] __attribute__((aligned(64)));
static int64_t taken;

/* So many numbers, between -1 and 1 or zeros, that begin at a multiple of 64 bytes. */
static float *some(int64_t count, int random) {
    static uint32_t state = 1;
    float *found = numbers + taken;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        found[i] = random ? (float)(int32_t)state / 2147483648.0f : 0.0f;
    }
    taken += padded(count);
    return found;
}

static void show(const char *name, const char *kind, const float *found, int64_t count) {
    printf("%s %s", name, kind);
    for (int64_t i = 0; i < count; i++) printf(" %.9g", found[i]);
    printf("\n");
}

static Linear linear(int64_t inputs, int64_t outputs, int in_bytes) {
    Linear found = {some(inputs * outputs, 1), some(outputs, 1), inputs, outputs, {0}};
    if (!in_bytes) return found;
    int64_t panels = groups_of(outputs, BYTE_PANEL), each = BYTE_PANEL * padded(inputs);
    int8_t *weight = (int8_t *)some(panels * each / 4, 0);
    float *scale = some(panels * BYTE_PANEL, 0);
    int32_t *shift = (int32_t *)some(panels * BYTE_PANEL, 0);
    Packing packing = {weight, scale, shift, found.weight, inputs, outputs, inputs, 0, 1};
    if (pack_bytes(&packing, THREADS)) return (Linear){0};
    found.packed = (Packed){weight, scale, shift};
    return found;
}

static void show_encoder(int in_bytes) {
    enum { N_LAYERS = 2, N_WIDTH = 20, N_HEADS = 2, HEAD = 12, HIDDEN = 40, TOKENS = 40, WORDS = 7, LONGEST = 30 };
    Linear linears[N_LAYERS * LINEARS];
    Norm norms[N_LAYERS * 2 + 1];
    int64_t starts[] = {0, 9, 10, TOKENS}, ids[TOKENS];
    float betas[N_LAYERS] = {0.3f, 0.2f};
    for (int layer = 0; layer < N_LAYERS; layer++) {
        linears[LINEARS * layer] = linear(N_WIDTH, 3 * N_HEADS * HEAD, in_bytes);
        linears[LINEARS * layer + 1] = linear(N_HEADS * HEAD, N_WIDTH, in_bytes);
        linears[LINEARS * layer + 2] = linear(N_WIDTH, HIDDEN, in_bytes);
        linears[LINEARS * layer + 3] = linear(HIDDEN, N_WIDTH, in_bytes);
    }
    for (int i = 0; i < N_LAYERS * 2 + 1; i++) norms[i] = (Norm){some(N_WIDTH, 1), some(N_WIDTH, 1), 1, 1e-5f};
    for (int i = 0; i < TOKENS; i++) ids[i] = i % WORDS;
    Encoder encoder = {N_LAYERS, N_WIDTH, N_HEADS, HEAD, HIDDEN, 0, 1, WORDS, some(WORDS * N_WIDTH, 1), 2.0f, linears, norms, betas,
                       3, starts, ids, some(LONGEST * N_WIDTH, 1), LONGEST, THREADS};
    float *x = some(3 * LONGEST * N_WIDTH, 0);
    if (encoder_run(&encoder, x)) return;
    show(in_bytes ? "encoder in bytes" : "encoder", "close", x, 3 * LONGEST * N_WIDTH);
}

static void show_attention(void) {
    enum { N_HEADS = 4, QUERIES = 19, KEYS = 21, N_WIDTH = 10 };
    float *query = some(N_HEADS * QUERIES * N_WIDTH, 1), *key = some(N_HEADS * KEYS * N_WIDTH, 1);
    float *value = some(N_HEADS * KEYS * N_WIDTH, 1), *output = some(N_HEADS * QUERIES * N_WIDTH, 0);
    float *gradient = some(N_HEADS * QUERIES * N_WIDTH, 1), *of = some(N_HEADS * (QUERIES + 2 * KEYS) * N_WIDTH, 0);
    static uint8_t mask[QUERIES * KEYS];
    for (int i = 0; i < QUERIES * KEYS; i++) mask[i] = i % KEYS <= i / KEYS && i / KEYS != 3;
    Attention a = {1, N_HEADS, QUERIES, KEYS, N_WIDTH, N_WIDTH, query, key, value, {0, QUERIES * N_WIDTH, N_WIDTH},
                   {0, KEYS * N_WIDTH, N_WIDTH}, {0, KEYS * N_WIDTH, N_WIDTH}, mask, {0, 0, KEYS, 1}, 0, 0, 0.4f, 1.0f, {0}, 0, 1,
                   THREADS};
    int64_t strides[] = {0, QUERIES * N_WIDTH, N_WIDTH};
    Gradients gradients = {of, of + N_HEADS * QUERIES * N_WIDTH, of + N_HEADS * (QUERIES + KEYS) * N_WIDTH, N_HEADS * N_WIDTH,
                           N_HEADS * N_WIDTH, N_HEADS * N_WIDTH};
    if (attention_forward(&a, output) || attention_backward(&a, gradient, strides, &gradients)) return;
    show("attention", "close", output, N_HEADS * QUERIES * N_WIDTH);
    show("attention gradients", "close", of, N_HEADS * (QUERIES + 2 * KEYS) * N_WIDTH);
}

static void show_bytes(void) {
    enum { N_ROWS = 37, N_INPUTS = 45, N_OUTPUTS = 70 };
    Linear bytes = linear(N_INPUTS, N_OUTPUTS, 1);
    Packing packing = {(int8_t *)bytes.packed.weight, (float *)bytes.packed.scale, (int32_t *)bytes.packed.shift, 0, 0,
                       N_OUTPUTS, N_INPUTS, 0, 1};
    Epilogue epilogue = {.bias = bytes.bias};
    float *x = some(N_ROWS * N_INPUTS, 1), *to = some(N_ROWS * N_OUTPUTS, 0);
    if (byte_linear(to, x, N_INPUTS, &packing, &epilogue, N_ROWS, 1, THREADS)) return;
    show("byte linear", "close", to, N_ROWS * N_OUTPUTS);
    show("byte scales", "exact", bytes.packed.scale, N_OUTPUTS);
}

int main(void) {
    enum { N_ROWS = 5, N_WIDTH = 77, TOP = 6 };
    int16_t levels[200];
    float *x = some(N_ROWS * N_WIDTH, 1), *found = some(N_ROWS * N_WIDTH, 0), *largest = some(N_ROWS, 0), *sums = some(N_ROWS, 0);
    double parts[8], squares = sum_of_squares(x, N_ROWS * N_WIDTH, parts, 1, THREADS);
    int64_t places[N_ROWS * TOP], targets[N_ROWS] = {0, 76, 3, 20, 40};
    printf("squares close %.9g\n", squares);
    make_random_bits(levels, 7, 200, THREADS);
    printf("draws exact");
    for (int i = 0; i < 200; i++) printf(" %d", levels[i]);
    printf("\n");
    add_dropped(found, 0, x, 7, -20000, 1.25f, N_ROWS * N_WIDTH, 1, THREADS);
    show("dropout", "exact", found, N_ROWS * N_WIDTH);
    top_entries(x, N_ROWS, N_WIDTH, TOP, found, places, THREADS);
    show("top", "exact", found, N_ROWS * TOP);
    normalizers(x, N_ROWS, N_WIDTH, largest, sums, THREADS);
    show("largest", "exact", largest, N_ROWS);
    show("logarithms", "close", sums, N_ROWS);
    score_tokens(x, targets, N_ROWS, N_WIDTH, found, THREADS);
    show("scores of tokens", "close", found, 3 * N_ROWS);
    if (smoothed_softmax(x, targets, N_ROWS, N_WIDTH, 0.1f, largest, sums, 1, THREADS)) return 1;
    show("softmax", "close", x, N_ROWS * N_WIDTH);
    float *matrices = some(2 * 12 * 20, 1);
    if (orthogonalize(matrices, 2, 12, 20, THREADS)) return 1;
    show("orthogonal", "close", matrices, 2 * 12 * 20);
    show_bytes();
    show_attention();
    show_encoder(0);
    show_encoder(1);
    return 0;
}
