/* The encoder of a model for sentences that stand one after the other, without padding, in one call.
 *
 * All numbers are float32. A few sentences at a time go through all layers, so that what they hold stays in cache; the
 * threads share such chunks out among themselves. Every sum has one order whatever the company of a sentence.
 */
#include "indices.h"
#include "layers.h"
#include "layout.h"
#include "products.h"
#include "rotation.h"
#include "tensors.h"
#include "threads.h"

#include <stdlib.h>

/* Tokens of a chunk, unless one sentence is longer: more where tiles multiply so fast that reading weights counts. */
#define CHUNK (HAS_TILES ? 256 : 128)
/* Queries of a head that attend together, at most. */
#define MAX_COUNT 96
/* Linear layers of an encoder block: self-attention in and out, feed-forward. */
#define LINEARS 4
/* Multiply-adds of a product from which it pays to wake another thread for a part of its outputs, estimated. */
#define MIN_SHARED (1 << 24)
/* What encoder_run() returns where a state is no finite number; the others are in indices.h. */
#define NOT_FINITE 3

typedef struct {
    int64_t layers, width, heads, head_width, hidden, post_norm, activation, vocabulary;
    const float *embedding; /* (V, D) */
    float embedding_scale;
    const Linear *linears; /* LINEARS a layer */
    const Norm *norms;     /* what precedes the first linear layer, then what follows each sub-layer */
    const float *betas;    /* one a layer */
    int64_t sentences;
    const int64_t *starts; /* (sentences + 1): where each begins among all tokens, and the end */
    const int64_t *ids;    /* (tokens) */
    const float *positions; /* (longest, D), added to the embeddings; null: nothing is */
    int64_t longest;        /* tokens of a sentence, at most */
    int64_t threads;
    const Linear *const *adapters; /* (sentences): `linears` with what the adapter of each adds; null: there are none */
    const float *segment;          /* (D), added to every embedding; null: nothing is */
    const Norm *embedding_norm;    /* of their sums; null: there is none */
    Rotation rotation;             /* of queries and keys, by `longest` angles */
    int64_t pools;                 /* whether the mean of the states of a sentence is returned, in place of them */
} Encoder;

SIZE_OF(Linear);
SIZE_OF(Norm);
SIZE_OF(Encoder);

/* The activations of a chunk, rows padded with zeros. */
typedef struct {
    float *sum, *input, *change, *projected, *context, *hidden, *head, *product;
    int64_t threads, per_thread; /* that share a product, and numbers of `product` for each */
} Activations;

INLINE int64_t largest_of(int64_t a, int64_t b) { return a > b ? a : b; }

INLINE int64_t joined_width(const Encoder *e) { return e->heads * e->head_width; }

static int64_t product_scratch(const Encoder *e, int64_t rows) {
    return largest_scratch(e->linears, LINEARS * e->layers, e->adapters, e->sentences, rows);
}

/* Queries that attend together. */
static int64_t block_of(int64_t rows) { return rows < MAX_COUNT ? rows : MAX_COUNT; }

/* Keys by columns, values by rows, the weights and the outputs of a block of queries. */
static int64_t head_scratch(const Encoder *e, int64_t rows) {
    int64_t width = padded(e->head_width);
    return e->head_width * padded(rows) + rows * width + block_of(rows) * (padded(rows) + width);
}

/* Numbers for a chunk of so many rows, of which `threads` share each product. */
static int64_t activation_size(const Encoder *e, int64_t rows, int64_t threads) {
    int64_t row = 3 * padded(e->width) + padded(3 * joined_width(e)) + padded(joined_width(e)) + padded(e->hidden);
    return padded(rows * row + head_scratch(e, rows)) + threads * padded(product_scratch(e, rows));
}

INLINE Activations activations(const Encoder *e, float *scratch, int64_t rows, int64_t threads) {
    int64_t width = rows * padded(e->width), joined = joined_width(e);
    Activations a = {.sum = scratch, .threads = threads, .per_thread = padded(product_scratch(e, rows))};
    a.input = a.sum + width, a.change = a.input + width, a.projected = a.change + width;
    a.context = a.projected + rows * padded(3 * joined), a.hidden = a.context + rows * padded(joined);
    a.head = a.hidden + rows * padded(e->hidden), a.product = a.head + padded(head_scratch(e, rows));
    return a;
}

typedef struct {
    const Encoder *encoder;
    const Activations *activations;
    const Linear *linear;
    float *to;
    const float *from;
    int64_t first, end, part; /* sentences; outputs of a share */
} Product;

static void product_share(const void *job, int64_t index, int64_t thread) {
    const Product *p = job;
    const Encoder *e = p->encoder;
    const Linear *linear = p->linear;
    int64_t rows = e->starts[p->end] - e->starts[p->first], start = index * p->part;
    int64_t end = smaller_of(linear->outputs, start + p->part);
    int64_t to_step = padded(linear->outputs), from_step = padded(linear->inputs);
    float *scratch = p->activations->product + p->activations->per_thread * thread;
    if (!e->adapters) {
        linear_rows(p->to, to_step, p->from, from_step, linear, rows, start, end, scratch);
        return;
    }
    base_rows(p->to, to_step, p->from, from_step, linear, rows, start, end, scratch);
    for (int64_t sentence = p->first, row = 0, count; sentence < p->end; sentence++, row += count) {
        const Linear *own = e->adapters[sentence] + (linear - e->linears);
        count = e->starts[sentence + 1] - e->starts[sentence];
        const Linear *next = sentence + 1 < p->end ? e->adapters[sentence + 1] + (linear - e->linears) : 0;
        if (own->rank)
            add_low_rank(p->to + row * to_step, to_step, p->from + row * from_step, from_step, own, count, start, end, scratch, next);
    }
}

/* Of the sentences `first` to `end`. */
static void product(const Encoder *e, float *to, const float *from, const Linear *linear, int64_t first, int64_t end,
                    const Activations *a) {
    int64_t panel = panel_of(linear), panels = groups_of(linear->outputs, panel);
    int64_t size = (e->starts[end] - e->starts[first]) * linear->inputs * linear->outputs;
    int64_t threads = smaller_of(smaller_of(a->threads, panels), size / MIN_SHARED + 1), part = groups_of(panels, threads) * panel;
    share_out(threads, groups_of(linear->outputs, part), 1, product_share, &(Product){e, a, linear, to, from, first, end, part});
}

/* Twin: nn/functional.py, fused_attention, for one head of one sentence, whose rows are `count` from `first` on. */
static void attend(const Encoder *e, const Activations *a, int64_t first, int64_t count, int64_t head, float beta) {
    int64_t width = e->head_width, is_float32 = padded(width), joined = joined_width(e), step = padded(3 * joined);
    int64_t end = padded(count), block = block_of(count);
    float *keys = a->head, *values = keys + width * end, *rows = values + count * is_float32, *results = rows + block * end;
    const float *query = a->projected + first * step + head * width;
    load_columns(keys, query + joined, count, width, step, 1);
    load_rows(values, query + 2 * joined, count, width, step, 1);
    for (int64_t from = 0; from < count; from += block) {
        int64_t queries = count - from < block ? count - from : block;
        rows_times_matrix(rows, end, query + from * step, step, 1, keys, width, end, end, queries);
        for (int64_t t = 0; t < queries; t++) softmax_row(rows + t * end, count, beta, 0, 1);
        rows_times_matrix(results, is_float32, rows, end, 1, values, count, is_float32, is_float32, queries);
        for (int64_t t = 0; t < queries; t++)
            memcpy(a->context + (first + from + t) * padded(joined) + head * width, results + t * is_float32,
                   sizeof(float) * width);
    }
}

/* Turns up to a vector of entries from `at` on of the queries and keys of a token, all heads by the same angles. */
INLINE void rotate_token_entries(const Encoder *e, float *row, int64_t position, int64_t at, int64_t count) {
    Angles by = angles_of(&e->rotation, position, e->head_width, at, count, 0);
    for (float *own = row + at, *end = row + 2 * joined_width(e); own < end; own += e->head_width) {
        vec pairs = {0};
        memcpy(&pairs, own, sizeof(float) * count);
        pairs = rotated(pairs, by);
        memcpy(own, &pairs, sizeof(float) * count);
    }
}

static void rotate_token(const Encoder *e, float *row, int64_t position) {
    int64_t at = 0;
    for (; at + LANES <= e->head_width; at += LANES) rotate_token_entries(e, row, position, at, LANES);
    if (at < e->head_width) rotate_token_entries(e, row, position, at, e->head_width - at);
}

static void rotate_sentences(const Encoder *e, const Activations *a, int64_t from, int64_t to) {
    int64_t step = padded(3 * joined_width(e)), first = e->starts[from];
    for (int64_t sentence = from; e->rotation.cosines && sentence < to; sentence++)
        for (int64_t at = e->starts[sentence]; at < e->starts[sentence + 1]; at++)
            rotate_token(e, a->projected + (at - first) * step, at - e->starts[sentence]);
}

static void add_and_normalize(const Encoder *e, const Activations *a, const Norm *norm, int64_t rows) {
    int64_t step = padded(e->width);
    for (int64_t row = 0; row < rows; row++)
        add_and_normalize_row(a->sum + row * step, a->input + row * step, a->change + row * step, norm, e->width,
                              e->post_norm);
}

/* Twin: nn/blocks.py, EncoderBlock, of the sentences of a chunk. */
static void block(const Encoder *e, const Activations *a, int64_t layer, int64_t from, int64_t to) {
    const Linear *linear = e->linears + LINEARS * layer;
    const Norm *after = e->norms + 2 * layer + 1;
    int64_t rows = e->starts[to] - e->starts[from];
    product(e, a->projected, a->input, linear, from, to, a);
    rotate_sentences(e, a, from, to);
    for (int64_t sentence = from; sentence < to; sentence++)
        for (int64_t head = 0; head < e->heads; head++)
            attend(e, a, e->starts[sentence] - e->starts[from], e->starts[sentence + 1] - e->starts[sentence], head,
                   e->betas[layer]);
    product(e, a->change, a->context, linear + 1, from, to, a);
    add_and_normalize(e, a, after, rows);
    product(e, a->hidden, a->input, linear + 2, from, to, a);
    for (int64_t row = 0; row < rows; row++) activate_row(a->hidden + row * padded(e->hidden), e->hidden, e->activation);
    product(e, a->change, a->hidden, linear + 3, from, to, a);
    add_and_normalize(e, a, after + 1, rows);
}

/* Twin: models/encoder.py: embedding, segment and position of one token. In several loops, so that no compiler fuses product
 * and sum, which the twin rounds one after the other. */
static void embed(const Encoder *e, float *to, int64_t token, int64_t position) {
    const float *from = e->embedding + token * e->width, *sinusoid = e->positions + position * e->width;
    for (int64_t i = 0; i < e->width; i++) to[i] = from[i] * e->embedding_scale;
    __asm__ volatile("" ::: "memory");
    for (int64_t i = 0; e->segment && i < e->width; i++) to[i] += e->segment[i];
    for (int64_t i = 0; e->positions && i < e->width; i++) to[i] += sinusoid[i];
    if (e->embedding_norm) normalize(to, to, e->embedding_norm, e->width);
}

/* Copies the states of a token; returns whether one of them is no finite number. */
static int copy_states(float *to, const float *from, int64_t width) {
    float nothing = 0.0f;
#pragma omp simd reduction(+ : nothing)
    for (int64_t i = 0; i < width; i++) nothing += from[i] - from[i], to[i] = from[i];
    return nothing != 0.0f;
}

/* Twin: engine/native_texts.py, pooled_by: the mean of the states of a sentence; returns whether a number of it is not finite. */
static int add_up(const Encoder *e, float *to, const float *states, int64_t count) {
    float share = 1.0f / (float)count;
    memset(to, 0, sizeof(float) * e->width);
    for (int64_t t = 0; t < count; t++, states += padded(e->width))
        for (int64_t i = 0; i < e->width; i++) to[i] += share * states[i];
    return copy_states(to, to, e->width);
}

/* The sentences of a chunk, from ids to states (sentences, longest, D), or where it pools to vectors (sentences, D);
 * returns whether one of these is no finite number. */
static int chunk(const Encoder *e, const Activations *a, float *x, int64_t from, int64_t to) {
    int64_t first = e->starts[from], step = padded(e->width);
    int not_finite = 0;
    for (int64_t sentence = from; sentence < to; sentence++)
        for (int64_t at = e->starts[sentence]; at < e->starts[sentence + 1]; at++) {
            float *sum = a->sum + (at - first) * step;
            embed(e, sum, e->ids[at], at - e->starts[sentence]);
            normalize(a->input + (at - first) * step, sum, e->norms, e->width);
        }
    for (int64_t layer = 0; layer < e->layers; layer++) block(e, a, layer, from, to);
    for (int64_t sentence = from; sentence < to; sentence++) {
        const float *states = a->input + (e->starts[sentence] - first) * step;
        int64_t count = e->starts[sentence + 1] - e->starts[sentence];
        if (e->pools) not_finite |= add_up(e, x + sentence * e->width, states, count);
        for (int64_t t = 0; !e->pools && t < count; t++)
            not_finite |= copy_states(x + (sentence * e->longest + t) * e->width, states + t * step, e->width);
    }
    return not_finite;
}

/* Ends of the chunks; returns how many there are, and the most tokens of one in `most`. */
static int64_t chunks(const Encoder *e, int64_t *ends, int64_t *most) {
    int64_t count = 0, from = 0;
    *most = 0;
    while (from < e->sentences) {
        int64_t to = from + 1;
        while (to < e->sentences && e->starts[to + 1] - e->starts[from] <= CHUNK) to++;
        *most = largest_of(*most, e->starts[to] - e->starts[from]);
        ends[count++] = from = to;
    }
    return count;
}

typedef struct {
    const Encoder *encoder;
    float *x, *scratch;
    int64_t per_thread, most; /* numbers of the scratch for each thread; rows of a chunk */
    int64_t together;         /* threads that share a product */
    const int64_t *ends;
    int *not_finite; /* whether a state is no finite number */
} Run;

static void run_chunk(const void *job, int64_t index, int64_t thread) {
    const Run *r = job;
    Activations a = activations(r->encoder, r->scratch + r->per_thread * thread, r->most, r->together);
    if (chunk(r->encoder, &a, r->x, index ? r->ends[index - 1] : 0, r->ends[index])) __atomic_store_n(r->not_finite, 1, __ATOMIC_RELAXED);
}

/* Twin: models/encoder.py, Encoder, from ids to states x (sentences, longest, D), of which nothing after the end of a sentence
 * is written, or where it pools to vectors x (sentences, D). Returns 0, NO_MEMORY, INDEX_ERROR for an id outside the vocabulary, or
 * NOT_FINITE. */
int encoder_run(const Encoder *e, float *x) {
    if (!are_inside(e->ids, e->starts[e->sentences], e->vocabulary)) return INDEX_ERROR;
    int not_finite = 0;
    int64_t most, *ends = malloc(sizeof(int64_t) * (e->sentences + 1));
    if (!ends) return NO_MEMORY;
    int64_t count = chunks(e, ends, &most);
    /* fewer chunks than threads are computed one after the other, each by all of them */
    int64_t threads = count < e->threads ? 1 : e->threads, together = e->threads / threads;
    int64_t per_thread = activation_size(e, most, together);
    float *scratch = count ? aligned_alloc(64, sizeof(float) * per_thread * threads) : 0;
    if (scratch) memset(scratch, 0, sizeof(float) * per_thread * threads);
    Run run = {e, x, scratch, per_thread, most, together, ends, &not_finite};
    if (scratch) share_out(threads, count, 1, run_chunk, &run);
    free(scratch), free(ends);
    return count && !scratch ? NO_MEMORY : not_finite ? NOT_FINITE : 0;
}

#if HAS_TILES
/* Bytes of the float32 weights of layers in parts of bfloat16; none where there are no tiles for them. */
int64_t split_bytes(const Linear *linears, int64_t count) {
    int64_t numbers = 0;
    for (int64_t i = 0; tiles_allowed && i < count; i++)
        numbers += groups_of(linears[i].outputs, SPLIT_PANEL) * split_numbers(linears[i].inputs);
    return sizeof(uint16_t) * numbers;
}

/* Writes them to `to`, for the layers to multiply by from then on. */
void split_weights(Linear *linears, int64_t count, uint16_t *to) {
    for (Linear *linear = linears; tiles_allowed && linear < linears + count; linear++) {
        linear->split = to;
        for (int64_t output = 0, inputs = linear->inputs; output < linear->outputs; output += SPLIT_PANEL) {
            split_panel(to, linear->weight + output * inputs, smaller_of(linear->outputs - output, SPLIT_PANEL), inputs);
            to += split_numbers(inputs);
        }
    }
}
#else
int64_t split_bytes(const Linear *linears, int64_t count) {
    (void)linears, (void)count;
    return 0;
}

void split_weights(Linear *linears, int64_t count, uint16_t *to) { (void)linears, (void)count, (void)to; }
#endif
