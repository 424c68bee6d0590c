/* What Python calls: a step of an encoder-decoder's decoder in one call, and what begins and orders its cache. What a
 * step saves over its PyTorch twin (models/encoder_decoder.py, EncoderDecoder.step) is the price of some 25 small
 * operators a layer.
 */
#include "decoder.h"
#include "indices.h"
#include "tensors.h"

#include <stdlib.h>

/* Rows of the source that are projected at once, unless a sentence is longer. */
#define SOURCE_ROWS 128

/* How many numbers `scratch` holds. */
int64_t decoder_scratch(const Decoder *d) { return scratch_size(d); }

typedef struct {
    const Decoder *decoder;
    Activations activations;
    Barrier *barrier;
    const int64_t *tokens;
    const float *position;
    float *logits;
} Step;

static void step_in_thread(const void *job, int64_t thread, int64_t count) {
    const Step *s = job;
    Worker worker = worker_of(s->decoder, &s->activations, thread, count, s->barrier);
    step_rows(s->decoder, &s->activations, s->tokens, s->position, s->decoder->length, s->logits, &worker);
}

/* Twin: models/encoder_decoder.py, step; see step_rows(). The caller raises `length`. Without `logits` the step ends at the last
 * block. Returns 0, or INDEX_ERROR for a token that the vocabulary lacks. */
int decoder_step(const Decoder *d, const int64_t *tokens, const float *position, float *logits) {
    if (!are_inside(tokens, d->rows, d->vocabulary)) return INDEX_ERROR;
    Barrier barrier = {0};
    Step step = {d, activations(d), &barrier, tokens, position, logits};
    in_threads(team(d), step_in_thread, &step);
    return 0;
}

/* Keys, their rows `step` apart, and values after them, of one head of a sentence, from row `block` on. */
static void keep(const Decoder *d, int64_t block, const float *key, int64_t length, int64_t step) {
    int64_t width = d->head_width;
    float *keys = d->source_keys, *values = d->source_values;
    for (int64_t at = 0; at < length; at += PADDING)
        load_columns(keys + (block + at) * width, key + at * step, length - at < PADDING ? length - at : PADDING, width,
                     step, 1);
    load_rows(values + block * padded(width), key + joined_width(d), length, width, step, 1);
}

static void keep_bf16(const Decoder *d, int64_t block, const float *key, int64_t length, int64_t step) {
    int64_t width = d->head_width;
    uint16_t *keys = d->source_keys, *values = d->source_values;
    for (int64_t row = block; row < block + length; row++, key += step) {
        to_bf16_row(keys + row * paired(width), key, width);
        to_bf16_row(values + row * paired(width), key + joined_width(d), width);
    }
}

/* Keys and values of the sentences `from` to `to` for one layer, into the layout that a step reads. */
static void read_sentences(const Decoder *d, int64_t layer, const float *memory, int64_t length, const Linear *linear,
                           int64_t from, int64_t to, float *scratch) {
    int64_t width = d->head_width, joined = joined_width(d), step = padded(2 * joined), rows = (to - from) * length;
    memory += from * length * padded(d->width);
    float *own_scratch = scratch + rows * step;
    if (d->source_adapters)
        base_rows(scratch, step, memory, padded(d->width), linear, rows, 0, 2 * joined, own_scratch);
    else
        linear_rows(scratch, step, memory, padded(d->width), linear, rows, 0, 2 * joined, own_scratch);
    for (int64_t sentence = from; sentence < to; sentence++, scratch += length * step, memory += length * padded(d->width)) {
        const Linear *own = d->source_adapters ? d->source_adapters[sentence] + layer : 0;
        const Linear *next = own && sentence + 1 < to ? d->source_adapters[sentence + 1] + layer : 0;
        if (own && own->rank)
            add_low_rank(scratch, step, memory, padded(d->width), own, length, 0, 2 * joined, own_scratch, next);
        for (int64_t head = 0; head < d->heads; head++) {
            int64_t block = ((layer * d->sentences + sentence) * d->heads + head) * d->source_length;
            if (in_bytes(d))
                keep_bf16(d, block, scratch + head * width, length, step);
            else
                keep(d, block, scratch + head * width, length, step);
        }
    }
}

typedef struct {
    const Decoder *decoder;
    const float *memory;
    int64_t length, group, groups; /* sentences of a share, and such shares a layer */
    const Linear *linears;
    float *scratch;
    int64_t per_thread; /* numbers of it for each thread */
} Reading;

static void read_share(const void *job, int64_t index, int64_t thread) {
    const Reading *r = job;
    int64_t layer = index / r->groups, from = index % r->groups * r->group, to = from + r->group;
    if (to > r->decoder->sentences) to = r->decoder->sentences;
    read_sentences(r->decoder, layer, r->memory, r->length, r->linears + layer, from, to, r->scratch + r->per_thread * thread);
}

/* Twin: nn/multi_head_attention.py, project_memory. `memory` is (sentences, length, D), its rows padded with zeros; `linears` make
 * keys and values, one a layer. Returns 0, or 1 for want of memory. */
int decoder_read_source(const Decoder *d, const float *memory, int64_t length, const Linear *linears) {
    int64_t group = largest_of(1, SOURCE_ROWS / largest_of(1, length)), groups = (d->sentences + group - 1) / group;
    int64_t jobs = groups * d->layers, threads = jobs < d->threads ? jobs : d->threads;
    int64_t most = largest_scratch(linears, d->layers, d->source_adapters, d->sentences, group * length);
    int64_t per_thread = group * length * padded(2 * joined_width(d)) + padded(most);
    float *scratch = aligned_alloc(64, sizeof(float) * per_thread * threads);
    if (!scratch) return 1;
    Reading reading = {d, memory, length, group, groups, linears, scratch, per_thread};
    share_out(threads, jobs, 1, read_share, &reading);
    free(scratch);
    return 0;
}

/* Twin: nn/cache.py, reorder: what slot from[i] holds, in all layers, into slot to[i], which no row has. Returns 0, or
 * INDEX_ERROR for a slot that is none. */
int decoder_copy(const Decoder *d, const int64_t *from, const int64_t *to, int64_t count) {
    if (!are_inside(from, count, d->slots) || !are_inside(to, count, d->slots)) return INDEX_ERROR;
    for (int64_t i = 0; i < count; i++) copy_slot(d, from[i], to[i], d->length);
    return 0;
}
