/* One step of an encoder-decoder's decoder for a few rows, from token ids to logits, by a team of threads.
 *
 * All numbers are float32, but for weights in eight bits: with these, keys and values are bfloat16. Weights are read
 * where they lie, so a changed weight counts at the next step. Every sum has one order whatever the number of rows, of
 * threads and of padded positions: a row has the same bits in any company.
 */
#ifndef DIKKAT_DECODER_H
#define DIKKAT_DECODER_H

#include "bf16_memory.h"
#include "ranking.h"
#include "threads.h"
#include "word_logits.h"


/* Multiply-adds below which one more thread costs more than it brings. */
#define SHARE (1 << 20)
/* Linear layers of a decoder block: self-attention in and out, cross-attention query and out, feed-forward. A recurrent
 * block has content and forget gate in the first, and nothing in the second. */
#define LINEARS 6

/* The weights, and the rows with their cache. A row has a slot of the self-attention cache and belongs to a sentence,
 * its owner; several rows may share one owner, none share a slot. */
typedef struct Decoder {
    int64_t layers, width, heads, head_width, hidden, vocabulary;
    const float *embedding; /* (V, D) */
    float embedding_scale;
    int64_t post_norm, activation;
    int64_t recurrent; /* a recurrent unit stands where self-attention does; `keys` holds its states */
    const Linear *linears; /* LINEARS a layer, then the output matrix */
    const Norm *norms;     /* what precedes the first linear layer, then what follows each sub-layer */
    const float *betas;    /* self and cross, a layer */
    int64_t slots, capacity, sentences, source_length;
    void *keys, *values; /* (layers, slots, H, capacity / 16, K, 16), (layers, slots, H, capacity, Kp); in bfloat16
                          * (layers, slots, H, capacity, paired K) both; states in float32 (layers, slots, capacity, D) */
    void *source_keys, *source_values; /* the same with sentences and source_length */
    int32_t *writers; /* (slots, capacity), where positions_stay(): in which slot each position of the row of a slot lies */
    const uint8_t *source_mask;               /* (sentences, source_length), 1 = may attend */
    int64_t rows, length;
    int64_t *row_slots, *row_owners;
    int64_t *begun; /* (rows): `length` when the row came in */
    int64_t threads;
    float *scratch; /* decoder_scratch() numbers, zero at first */
    int64_t scratch_rows; /* most rows at once, for which there is scratch */
    /* What was written before in like states: (N, D) states, (N) what their squared distances are multiplied by, and (N)
     * the tokens that followed; those of a sentence from starts[sentence] to starts[sentence + 1]. Null where there are
     * none. See add_neighbours(). */
    const float *neighbour_states, *neighbour_rates;
    const int64_t *neighbour_tokens, *neighbour_starts;
    float neighbour_weight; /* logarithm of it */
    float *states_out; /* (rows, D), where the states of a step go that the logits are made of; null where nobody looks */
    float *const *weights_out; /* where the weights of a step go: (rows, H, length + 1) of self- and (rows, H, source_length)
                         * of cross-attention, a layer; null where nobody looks, and in all when nobody looks at any */
    const Words *words; /* those that each sentence may write, whose logits are at the start of a row; null: all */
    /* (sentences): linear layers as `linears`, and as those of decoder_read_source(), with what the adapter of each sentence
     * adds to them; null: there are none */
    const Linear *const *adapters, *const *source_adapters;
    const float *positions; /* (steps, D), of the positions from the length on with which a search begins or goes on */
    struct Decoder *next; /* of several models whose probabilities a search averages, which have the same rows; null at the last */
} Decoder;

/* The activations of all rows. Rows are padded with zeros, which products read and nothing writes: so each buffer stays
 * where it is when rows leave. */
typedef struct {
    float *sum, *input, *projected, *context, *hidden, *change;
} Activations;

/* Whether weights are in eight bits; then keys and values are in bfloat16. */
INLINE int in_bytes(const Decoder *d) { return d->linears->packed.weight != 0; }

/* Whether a position stays where it is when rows change places. */
INLINE int positions_stay(const Decoder *d) { return in_bytes(d) || d->recurrent; }

/* Positions that a row holds. */
INLINE int64_t length_of(const Decoder *d, int64_t row) { return d->length - d->begun[row]; }

INLINE int64_t joined_width(const Decoder *d) { return d->heads * d->head_width; }

INLINE int64_t largest_of(int64_t a, int64_t b) { return a > b ? a : b; }

/* Outputs of the first linear layer of a block, or more. */
INLINE int64_t projected_width(const Decoder *d) { return largest_of(3 * joined_width(d), 2 * d->width); }

/* Numbers that one thread needs for the weights and the output of one head. */
INLINE int64_t head_scratch(const Decoder *d) {
    return largest_of(d->capacity, d->source_length) + paired(d->head_width);
}

/* And for any linear layer. */
INLINE int64_t product_scratch(const Decoder *d) {
    return largest_scratch(d->linears, LINEARS * d->layers + 1, d->adapters, d->sentences, d->scratch_rows);
}

/* How many numbers `scratch` holds. */
INLINE int64_t scratch_size(const Decoder *d) {
    int64_t row = 3 * padded(d->width) + padded(projected_width(d)) + padded(joined_width(d)) + padded(d->hidden);
    return d->scratch_rows * row + d->threads * (head_scratch(d) + product_scratch(d));
}

/* One of the threads of a step, which wait for all before one reads what others write. */
typedef struct {
    int64_t number, count;
    Barrier *barrier;
    float *head, *product; /* its own scratch */
} Worker;

INLINE void wait_for_all(const Worker *worker) { wait_at_barrier(worker->barrier, worker->count); }

/* Where the share of a worker begins; that of the next worker begins where it ends. */
INLINE int64_t share_start(int64_t total, int64_t number, const Worker *worker) { return total * number / worker->count; }

/* The same for the outputs of a linear layer, in whole panels. */
INLINE int64_t first_output(const Linear *linear, int64_t number, const Worker *worker) {
    int64_t panel = panel_of(linear), first = panel * share_start((linear->outputs + panel - 1) / panel, number, worker);
    return first < linear->outputs ? first : linear->outputs;
}

/* The worker's share of the outputs of all rows. Neighbours with one adapter read its factors together. */
static void product(const Decoder *d, float *to, int64_t to_step, const float *from, int64_t from_step,
                    const Linear *linear, const Worker *worker) {
    int64_t start = first_output(linear, worker->number, worker), end = first_output(linear, worker->number + 1, worker);
    if (!d->adapters) {
        linear_rows(to, to_step, from, from_step, linear, d->rows, start, end, worker->product);
        return;
    }
    base_rows(to, to_step, from, from_step, linear, d->rows, start, end, worker->product);
    for (int64_t row = 0, next; row < d->rows; row = next) {
        const Linear *adapter = d->adapters[d->row_owners[row]], *own = adapter + (linear - d->linears);
        for (next = row + 1; next < d->rows && d->adapters[d->row_owners[next]] == adapter; next++) continue;
        const Linear *after = next < d->rows ? d->adapters[d->row_owners[next]] + (linear - d->linears) : 0;
        if (own->rank)
            add_low_rank(to + row * to_step, to_step, from + row * from_step, from_step, own, next - row, start, end,
                         worker->product, after);
    }
}

/* Those outputs that `product` left to the worker. */
static void activate(const Decoder *d, float *hidden, const Linear *inner, const Worker *worker) {
    int64_t start = first_output(inner, worker->number, worker);
    int64_t end = first_output(inner, worker->number + 1, worker);
    for (int64_t row = 0; row < d->rows; row++)
        activate_row(hidden + row * padded(d->hidden) + start, end - start, d->activation);
}

/* The worker's share of the rows. */
static void add_and_normalize(const Decoder *d, const Activations *a, const Norm *norm, const Worker *worker) {
    int64_t step = padded(d->width), end = share_start(d->rows, worker->number + 1, worker);
    for (int64_t row = share_start(d->rows, worker->number, worker); row < end; row++)
        add_and_normalize_row(a->sum + row * step, a->input + row * step, a->change + row * step, norm, d->width,
                              d->post_norm);
}

/* Twin: models/encoder_decoder.py, step: embedding and position; then what precedes the first sub-layer. */
static void embed(const Decoder *d, const Activations *a, const int64_t *tokens, const float *positions, int64_t first,
                  const Worker *worker) {
    int64_t step = padded(d->width), end = share_start(d->rows, worker->number + 1, worker);
    for (int64_t row = share_start(d->rows, worker->number, worker); row < end; row++) {
        int64_t index = length_of(d, row);
        if (positions_stay(d)) d->writers[d->row_slots[row] * d->capacity + index] = (int32_t)d->row_slots[row];
        float *sum = a->sum + row * step;
        const float *from = d->embedding + tokens[row] * d->width, *position = positions + (index - first) * d->width;
        for (int64_t i = 0; i < d->width; i++) sum[i] = from[i] * d->embedding_scale + position[i];
        normalize(a->input + row * step, sum, d->norms, d->width);
    }
}

/* Twin: nn/functional.py, fused_attention, for one query of one head. Keys are in blocks of PADDING positions,
 * (K, PADDING) each; values in rows of padded width. `weights_out`, where not null, is given the weights. */
static void attend(float *output, const float *query, const float *keys, const float *values, const uint8_t *mask,
                   int64_t count, int64_t width, float beta, float *weights_out, float *scratch) {
    int64_t end = padded(count);
    float *result = scratch + end;
    for (int64_t at = 0; at < end; at += PADDING)
        row_times_matrix(scratch + at, query, 1, keys + at * width, width, PADDING);
    softmax_row(scratch, count, beta, mask, 1);
    if (weights_out) memcpy(weights_out, scratch, sizeof(float) * count);
    row_times_matrix(result, scratch, 1, values, count, padded(width));
    memcpy(output, result, sizeof(float) * width);
}

/* Key and value of a new position into the cache. */
INLINE void store_key_value(float *keys, float *values, const float *key, const float *value, int64_t index, int64_t width) {
    float *column = keys + index / PADDING * PADDING * width + index % PADDING;
    for (int64_t i = 0; i < width; i++) column[i * PADDING] = key[i];
    memcpy(values + index * padded(width), value, sizeof(float) * width);
}

/* Where the weights of one head go; `attention` is twice the layer, and one more for cross-attention. */
INLINE float *weights_row(const Decoder *d, int64_t attention, int64_t row) {
    int64_t keys = attention % 2 ? d->source_length : d->length + 1;
    return d->weights_out && d->weights_out[attention] ? d->weights_out[attention] + row * keys : 0;
}

/* Its newest key and value are stored on the way. */
static void attend_own_bf16(const Decoder *d, int64_t layer, int64_t row, int64_t head, float *to, const float *query,
                              float *weights_out, float *scratch) {
    int64_t width = d->head_width, step = paired(width), slot = d->row_slots[row], length = length_of(d, row);
    int64_t first = (layer * d->slots * d->heads + head) * d->capacity, slot_rows = d->heads * d->capacity;
    int64_t own = first + slot * slot_rows + length;
    uint16_t *keys = d->keys, *values = d->values;
    to_bf16_row(keys + own * step, query + joined_width(d), width);
    to_bf16_row(values + own * step, query + 2 * joined_width(d), width);
    Memory memory = {keys + first * step, values + first * step, d->writers + slot * d->capacity, slot_rows,
                     length + 1, width};
    attend_bf16(to, query, &memory, 0, d->betas[2 * layer], weights_out, scratch);
}

static void attend_own(const Decoder *d, int64_t layer, int64_t row, int64_t head, float *to, const float *query,
                       float *weights_out, float *scratch) {
    int64_t width = d->head_width;
    int64_t block = ((layer * d->slots + d->row_slots[row]) * d->heads + head) * d->capacity;
    float *keys = (float *)d->keys + block * width, *values = (float *)d->values + block * padded(width);
    int64_t length = length_of(d, row);
    store_key_value(keys, values, query + joined_width(d), query + 2 * joined_width(d), length, width);
    attend(to, query, keys, values, 0, length + 1, width, d->betas[2 * layer], weights_out, scratch);
}

/* Padding at the end is not read. */
static void attend_memory(const Decoder *d, int64_t layer, int64_t row, int64_t head, float *to, const float *query,
                          float *weights_out, float *scratch) {
    int64_t width = d->head_width, owner = d->row_owners[row], count = d->source_length;
    int64_t block = ((layer * d->sentences + owner) * d->heads + head) * d->source_length;
    const uint8_t *mask = d->source_mask + owner * d->source_length;
    float beta = d->betas[2 * layer + 1];
    while (count && !mask[count - 1]) count--;
    if (in_bytes(d)) {
        const uint16_t *keys = d->source_keys, *values = d->source_values;
        keys += block * paired(width), values += block * paired(width);
        Memory memory = {keys, values, 0, 0, count, width};
        attend_bf16(to, query, &memory, mask, beta, weights_out, scratch);
    } else {
        const float *keys = d->source_keys, *values = d->source_values;
        keys += block * width, values += block * padded(width);
        attend(to, query, keys, values, mask, count, width, beta, weights_out, scratch);
    }
}

/* The worker's share of all heads of all rows. `projected` holds the query of each row, and in self-attention its newest
 * key and value. Twins: nn/multi_head_attention.py, attend_memory; nn/cache.py, append, and the attention that follows. */
static void attend_all(const Decoder *d, const Activations *a, int64_t attention, const Worker *worker) {
    int64_t joined = joined_width(d), pairs = d->rows * d->heads, end = share_start(pairs, worker->number + 1, worker);
    for (int64_t pair = share_start(pairs, worker->number, worker); pair < end; pair++) {
        int64_t row = pair / d->heads, head = pair % d->heads;
        float *to = a->context + row * padded(joined) + head * d->head_width, *weights_out = weights_row(d, attention, pair);
        const float *query = a->projected + row * padded(projected_width(d)) + head * d->head_width;
        if (attention % 2)
            attend_memory(d, attention / 2, row, head, to, query, weights_out, worker->head);
        else if (in_bytes(d))
            attend_own_bf16(d, attention / 2, row, head, to, query, weights_out, worker->head);
        else
            attend_own(d, attention / 2, row, head, to, query, weights_out, worker->head);
    }
}

/* The state of a recurrent unit at a position of a slot. */
INLINE float *state_at(const Decoder *d, int64_t layer, int64_t slot, int64_t index) {
    return (float *)d->keys + ((layer * d->slots + slot) * d->capacity + index) * d->width;
}

/* The exponential never overflows, since it is that of a number below zero. */
INLINE float sigmoid(float x) {
    float decay = exponential(-fabsf(x));
    return (x < 0.0f ? decay : 1.0f) / (1.0f + decay);
}

/* Twin: nn/blocks.py, SSRU.step: the worker's share of the rows. `projected` holds the content of each row and what its
 * gate is made of; `change` is given the output. */
static void recur(const Decoder *d, const Activations *a, int64_t layer, const Worker *worker) {
    int64_t width = d->width, end = share_start(d->rows, worker->number + 1, worker);
    for (int64_t row = share_start(d->rows, worker->number, worker); row < end; row++) {
        int64_t slot = d->row_slots[row], index = length_of(d, row);
        const float *content = a->projected + row * padded(projected_width(d)), *gates = content + width;
        float *state = state_at(d, layer, slot, index), *change = a->change + row * padded(width);
        const int32_t *writers = d->writers + slot * d->capacity;
        const float *before = index ? state_at(d, layer, writers[index - 1], index - 1) : 0;
        for (int64_t i = 0; i < width; i++) {
            float gate = sigmoid(gates[i]), fresh = (1.0f - gate) * content[i];
            state[i] = before ? gate * before[i] + fresh : fresh;
            change[i] = state[i] < 0.0f ? 0.0f : state[i];
        }
    }
}

/* Twin: nn/blocks.py, what comes before cross-attention: `change` is given what the worker's share of rows, or of their
 * outputs, is changed by. */
static void first_sublayer(const Decoder *d, const Activations *a, int64_t layer, const Linear *linear,
                           const Worker *worker) {
    int64_t width = padded(d->width);
    product(d, a->projected, padded(projected_width(d)), a->input, width, linear, worker), wait_for_all(worker);
    if (d->recurrent) {
        recur(d, a, layer, worker);
        return;
    }
    attend_all(d, a, 2 * layer, worker), wait_for_all(worker);
    product(d, a->change, width, a->context, padded(joined_width(d)), linear + 1, worker);
}

/* Twin: nn/blocks.py, CrossAttendingBlock.step. */
static void block_step(const Decoder *d, const Activations *a, int64_t layer, const Worker *worker) {
    const Linear *linear = d->linears + LINEARS * layer;
    const Norm *after = d->norms + 3 * layer + 1;
    int64_t width = padded(d->width), joined = padded(joined_width(d));
    int64_t projected = padded(projected_width(d)), hidden = padded(d->hidden);
    first_sublayer(d, a, layer, linear, worker), wait_for_all(worker);
    add_and_normalize(d, a, after, worker), wait_for_all(worker);
    product(d, a->projected, projected, a->input, width, linear + 2, worker), wait_for_all(worker);
    attend_all(d, a, 2 * layer + 1, worker), wait_for_all(worker);
    product(d, a->change, width, a->context, joined, linear + 3, worker), wait_for_all(worker);
    add_and_normalize(d, a, after + 1, worker), wait_for_all(worker);
    product(d, a->hidden, hidden, a->input, width, linear + 4, worker);
    activate(d, a->hidden, linear + 4, worker), wait_for_all(worker);
    product(d, a->change, width, a->hidden, hidden, linear + 5, worker), wait_for_all(worker);
    add_and_normalize(d, a, after + 2, worker), wait_for_all(worker);
}

INLINE Activations activations(const Decoder *d) {
    int64_t width = d->scratch_rows * padded(d->width), joined = joined_width(d);
    Activations a = {.sum = d->scratch};
    a.input = a.sum + width, a.change = a.input + width, a.projected = a.change + width;
    a.context = a.projected + d->scratch_rows * padded(projected_width(d));
    a.hidden = a.context + d->scratch_rows * padded(joined);
    return a;
}

/* As many threads as have enough to do. */
INLINE int64_t team(const Decoder *d) {
    int64_t products = 0;
    for (int64_t i = 0; i <= LINEARS * d->layers; i++) products += d->linears[i].inputs * d->linears[i].outputs;
    int64_t wanted = 1 + d->rows * products / SHARE;
    return wanted < d->threads ? wanted : d->threads;
}

/* Rate times squared distance from which on a state does not count. */
#define FARTHEST 16.0f

INLINE float squared_distance(const float *a, const float *b, int64_t width) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

/* Twin: engine/neighbours.py, add_neighbours: to the probability p(v) of each token, which are then normalized again, is
 * added exp(neighbour_weight - rate * |state - neighbour|^2) for each neighbour that v followed. Without a near
 * one no bit of the logits changes. */
static void add_neighbours(const Decoder *d, const float *state, int64_t sentence, float *logits) {
    int64_t from = d->neighbour_starts[sentence], end = d->neighbour_starts[sentence + 1];
    if (from == end) return;
    float largest = largest_entry(logits, d->vocabulary), total = largest + log_sum_of_row(logits, d->vocabulary, largest);
    for (int64_t i = from; i < end; i++) {
        float far = d->neighbour_rates[i] * squared_distance(state, d->neighbour_states + i * d->width, d->width);
        if (!(far < FARTHEST)) continue;
        float *logit = logits + d->neighbour_tokens[i], more = total + d->neighbour_weight - far;
        float high = *logit > more ? *logit : more, low = *logit > more ? more : *logit;
        *logit = high + log1pf(expf(low - high));
    }
}

/* The worker's share of the rows. */
static void look_at_neighbours(const Decoder *d, const Activations *a, float *logits, const Worker *worker) {
    int64_t step = padded(d->width), end = share_start(d->rows, worker->number + 1, worker);
    for (int64_t row = share_start(d->rows, worker->number, worker); row < end; row++) {
        const float *state = a->input + row * step;
        if (d->states_out) memcpy(d->states_out + row * d->width, state, sizeof(float) * d->width);
        if (logits && d->neighbour_starts) add_neighbours(d, state, d->row_owners[row], logits + row * d->vocabulary);
    }
}

/* How many words the sentence of a row may write. */
INLINE int64_t words_of(const Decoder *d, int64_t row) {
    if (!d->words) return d->vocabulary;
    return d->words->starts[d->row_owners[row] + 1] - d->words->starts[d->row_owners[row]];
}

/* The worker's share of the logits of all rows, where sentences may not write all words; rows of a sentence are together. */
static void listed_logits(const Decoder *d, const Activations *a, float *logits, const Worker *worker) {
    const Linear *output = d->linears + LINEARS * d->layers;
    int64_t step = padded(d->width), end;
    for (int64_t row = 0; row < d->rows; row = end) {
        int64_t count = words_of(d, row), groups = groups_of(count, PADDING), first = d->words->starts[d->row_owners[row]];
        for (end = row + 1; end < d->rows && d->row_owners[end] == d->row_owners[row]; end++) continue;
        int64_t from = PADDING * share_start(groups, worker->number, worker);
        int64_t to = smaller_of(PADDING * share_start(groups, worker->number + 1, worker), count);
        word_logits(logits + row * d->vocabulary, d->vocabulary, a->input + row * step, step, d->words, first, count,
                    output, end - row, from, to, worker->product);
    }
}

/* The worker's part in a step, after which the team must wait for all: feeds each row its token, with what `positions` (n, D), the
 * first of them `first`, have for its place added; `logits` is (rows, V), of which `words` fill some, or null: none. */
static void step_rows(const Decoder *d, const Activations *a, const int64_t *tokens, const float *positions,
                      int64_t first, float *logits, const Worker *worker) {
    embed(d, a, tokens, positions, first, worker), wait_for_all(worker);
    for (int64_t layer = 0; layer < d->layers; layer++) block_step(d, a, layer, worker);
    if (logits && d->words)
        listed_logits(d, a, logits, worker);
    else if (logits)
        product(d, logits, d->vocabulary, a->input, padded(d->width), d->linears + LINEARS * d->layers, worker);
    if (!d->neighbour_starts && !d->states_out) return;
    wait_for_all(worker);
    look_at_neighbours(d, a, logits, worker);
}

/* With its share of the scratch, which lies after the activations. */
INLINE Worker worker_of(const Decoder *d, const Activations *a, int64_t number, int64_t count, Barrier *barrier) {
    float *own = a->hidden + d->scratch_rows * padded(d->hidden) + number * (head_scratch(d) + product_scratch(d));
    return (Worker){.number = number, .count = count, .barrier = barrier, .head = own, .product = own + head_scratch(d)};
}

/* Copies the first `positions` positions of a slot, in all layers, into another; or where that is. */
static void copy_slot(const Decoder *d, int64_t from, int64_t to, int64_t positions) {
    if (positions_stay(d)) {
        memcpy(d->writers + to * d->capacity, d->writers + from * d->capacity, sizeof(int32_t) * positions);
        return;
    }
    int64_t width = d->head_width, value_width = padded(width);
    int64_t keys = padded(positions) * width, values = positions * value_width;
    for (int64_t layer = 0; layer < d->layers; layer++)
        for (int64_t head = 0; head < d->heads; head++) {
            int64_t source = ((layer * d->slots + from) * d->heads + head) * d->capacity;
            int64_t target = ((layer * d->slots + to) * d->heads + head) * d->capacity;
            float *all_keys = d->keys, *all_values = d->values;
            memcpy(all_keys + target * width, all_keys + source * width, sizeof(float) * keys);
            memcpy(all_values + target * value_width, all_values + source * value_width, sizeof(float) * values);
        }
}

#endif
