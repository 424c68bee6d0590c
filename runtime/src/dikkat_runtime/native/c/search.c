/* Beam search from the begin mark to the end of every sentence, without leaving C; a beam of one is greedy decoding.
 *
 * Twin: decoding/beam.py, which gives the rules and their reasons; the steps named here are numbered there. Both find
 * the same bits: each comparison, sum and quotient is made of the same float32 numbers in the same order.
 */
#include "decoder.h"
#include "indices.h"
#include "layout.h"
#include "ranking.h"

#include <stdlib.h>

/* Rows that a thread searches alone: with fewer it would read the weights too often, with more it would read what it
 * remembers of them from far away. Measured on Zen 4 with 1 MiB of second-level cache; twice BYTE_ROWS. Two tiles full where
 * there are tiles: their products take little of the time, reading the weights takes more. */
#define MIN_COUNT 8
#define MAX_COUNT (HAS_TILES ? 2 * TILE_ROWS : 12)
/* The same of weights in 32 bits, which each thread copies into panels at each step: many rows share the price of that. */
#define MIN_COUNT_FLOAT32 (2 * MANY)
#define MAX_COUNT_FLOAT32 96

/* Models with which a thread searches alone at most; with more of them all threads share each step. */
#define MAX_MODELS 64

/* Numbers that tell how sure a token is: its log-probability, how far it is above the best other, the entropy of its row. */
#define SCORES 3

/* The options of a search, and its results. L is the longest cap, k the beam; a sentence keeps its index in all arrays, its
 * rows stand together and are fewer as sentences leave. */
typedef struct {
    int64_t beam, best, early_stop_rank, longest;
    int64_t padding, begin, end; /* marks */
    const int64_t *caps;         /* (sentences) */
    const float *penalties;      /* (L + 1) */
    int64_t *tokens;             /* (rows), to be fed next */
    int64_t *live_tokens;        /* (sentences, k, L) */
    float *live;                 /* (sentences, k): log-probabilities */
    int64_t *ended_tokens, *ended_lengths;
    float *ended, *scores; /* (sentences, k) */
    int64_t *over_at;      /* (sentences): tokens emitted when it was over, 0 before */
    float *token_scores, *ended_token_scores; /* (sentences, k, L, SCORES), those of live and ended tokens; null: unasked */
    /* what a call needs for itself, laid out by lay_out(); the caller leaves it null */
    float *logits;        /* (rows, V) */
    float *probabilities; /* (rows, V), the sum of those of all models; null where there is one */
    int64_t *next_tokens, *next_slots, *parents, *is_taken; /* (rows) */
    int64_t *waiting;                                       /* (sentences), owners of those that have not begun */
    float *ranked; /* (rows, k + 1): log-probabilities of the best continuations of each row */
    int64_t *ranked_tokens;
    float *candidates; /* (sentences, 2k) */
    int64_t *candidate_indices;
    int64_t *history; /* (sentences, k, L): tokens of live hypotheses at the moment of choice */
    float *ranked_scores, *history_scores; /* as the two before with SCORES each; null where no token scores are asked for */
    float *scratch;   /* of the models, where each thread searches alone */
} Search;

SIZE_OF(Decoder);
SIZE_OF(Words);
SIZE_OF(Search);

/* Of one row no more than its best k + 1 can matter. */
static int64_t continuations(const Search *s, const Decoder *d) {
    return smaller_of(s->beam + 1, d->vocabulary);
}

/* Adds what one model holds for the probabilities of a row, whose logits are no longer needed. */
static void add_probabilities(const Search *s, const Decoder *d, int64_t row, int is_first) {
    float *logits = s->logits + row * d->vocabulary, *sum = s->probabilities + row * d->vocabulary;
    float share = 1.0f / exponentials_of_row(logits, d->vocabulary, largest_entry(logits, d->vocabulary));
    if (is_first)
        for (int64_t i = 0; i < d->vocabulary; i++) sum[i] = logits[i] * share;
    else
        for (int64_t i = 0; i < d->vocabulary; i++) sum[i] += logits[i] * share;
}

/* What tells how sure the best continuations of a row are, whose logits are ranked; normalized they are less by `largest` and
 * `log_sum`. */
static void score_ranked(const Search *s, int64_t row, int64_t count, float largest, float log_sum, float entropy) {
    const float *ranked = s->ranked + row * count;
    float *scores = s->ranked_scores + row * count * SCORES;
    for (int64_t i = 0; i < count; i++, scores += SCORES) {
        scores[0] = ranked[i] - largest - log_sum;
        scores[1] = ranked[i] - ranked[i == 0 && count > 1];
        scores[2] = entropy;
    }
}

/* Step 1, of one row with the mean of the probabilities of all models. Twin: engine/ensemble.py, EnsembleSteps.step: one that
 * is 0 in float32 counts as the smallest. */
static void rank_mean(const Search *s, const Decoder *d, int64_t row) {
    int64_t count = continuations(s, d), models = 1;
    float *sum = s->probabilities + row * d->vocabulary, *ranked = s->ranked + row * count;
    float so_far = s->live[d->row_owners[row] * s->beam + row % s->beam], entropy = 0.0f;
    for (const Decoder *other = d->next; other; other = other->next) models++;
    if (s->token_scores) entropy = entropy_of_probabilities(sum, d->vocabulary, 1.0f / (float)models);
    sum[s->padding] = sum[s->begin] = -INFINITY;
    top_of_row(sum, d->vocabulary, count, ranked, s->ranked_tokens + row * count);
    for (int64_t i = 0; i < count; i++) {
        float mean = ranked[i] / (float)models;
        ranked[i] = mean < 0.0f ? mean : logf(mean < FLT_MIN ? FLT_MIN : mean);
    }
    if (s->token_scores) score_ranked(s, row, count, 0.0f, 0.0f, entropy);
    for (int64_t i = 0; i < count; i++) ranked[i] += so_far;
}

/* Step 1, of one row. */
static void rank_row(const Search *s, const Decoder *d, int64_t row) {
    int64_t width = words_of(d, row), count = continuations(s, d), *tokens = s->ranked_tokens + row * count;
    float *logits = s->logits + row * d->vocabulary, *ranked = s->ranked + row * count;
    float largest = largest_entry(logits, width), entropy = 0.0f, log_sum;
    log_sum = s->token_scores ? log_sum_and_entropy(logits, width, largest, &entropy) : log_sum_of_row(logits, width, largest);
    float so_far = s->live[d->row_owners[row] * s->beam + row % s->beam];
    /* no shorter list holds these marks */
    if (width == d->vocabulary) logits[s->padding] = logits[s->begin] = -INFINITY;
    top_of_row(logits, width, count, ranked, tokens);
    const int32_t *ids = d->words ? d->words->ids + d->words->starts[d->row_owners[row]] : 0;
    for (int64_t i = 0; ids && i < count; i++) tokens[i] = ids[tokens[i]];
    if (s->token_scores) score_ranked(s, row, count, largest, log_sum, entropy);
    for (int64_t i = 0; i < count; i++) ranked[i] = so_far + (ranked[i] - largest - log_sum);
}

/* Hypothesis `from` of a sentence, of `length` tokens, in the place of hypothesis `to`; `scores` are null where none are kept. */
static void copy_hypothesis(const Search *s, int64_t *to_tokens, float *to_scores, int64_t to, const int64_t *tokens,
                            const float *scores, int64_t from, int64_t length) {
    memcpy(to_tokens + to * s->longest, tokens + from * s->longest, sizeof(int64_t) * length);
    if (!s->token_scores) return;
    int64_t step = s->longest * SCORES;
    memcpy(to_scores + to * step, scores + from * step, sizeof(float) * SCORES * length);
}

/* The scores of the last token of a hypothesis, the best continuation `ranked` of all rows. */
static void score_last(const Search *s, float *scores, int64_t hypothesis, int64_t length, int64_t ranked) {
    if (!s->token_scores) return;
    float *to = scores + (hypothesis * s->longest + length - 1) * SCORES;
    memcpy(to, s->ranked_scores + ranked * SCORES, sizeof(float) * SCORES);
}

/* A candidate that ends, continuation `ranked`, enters the store, after its equals; the last falls out. */
static void enter_store(const Search *s, int64_t sentence, int64_t parent, float log_probability, int64_t length,
                        int64_t ranked) {
    int64_t k = s->beam, first = sentence * k, at = first + k - 1;
    float score = log_probability / s->penalties[length];
    if (!(score > s->scores[at])) return;
    for (; at > first && s->scores[at - 1] < score; at--) {
        s->scores[at] = s->scores[at - 1], s->ended[at] = s->ended[at - 1];
        s->ended_lengths[at] = s->ended_lengths[at - 1];
        copy_hypothesis(s, s->ended_tokens, s->ended_token_scores, at, s->ended_tokens, s->ended_token_scores, at - 1,
                        s->longest);
    }
    s->scores[at] = score, s->ended[at] = log_probability, s->ended_lengths[at] = length;
    copy_hypothesis(s, s->ended_tokens, s->ended_token_scores, at, s->live_tokens, s->token_scores, first + parent,
                    s->longest);
    score_last(s, s->ended_token_scores, at, length, ranked);
}

/* Step 3: the first k candidates that go on. */
static void survive(const Search *s, int64_t sentence, int64_t row, int64_t count, int64_t length) {
    int64_t k = s->beam, first = sentence * k, chosen = 0;
    for (int64_t i = 0; chosen < k; i++) {
        int64_t index = s->candidate_indices[sentence * 2 * k + i], parent = index / count;
        int64_t token = s->ranked_tokens[row * count + index], to = first + chosen;
        if (token == s->end) continue;
        copy_hypothesis(s, s->history, s->history_scores, to, s->live_tokens, s->token_scores, first + parent, length);
        s->history[to * s->longest + length - 1] = token;
        score_last(s, s->history_scores, to, length, row * count + index);
        s->live[to] = s->candidates[sentence * 2 * k + i];
        s->next_tokens[row + chosen] = token, s->parents[row + chosen] = parent;
        chosen++;
    }
    for (int64_t i = first; i < first + k; i++)
        copy_hypothesis(s, s->live_tokens, s->token_scores, i, s->history, s->history_scores, i, length);
}

/* Step 4. */
static int is_over(const Search *s, int64_t sentence, int64_t length) {
    const float *scores = s->scores + sentence * s->beam;
    float best = s->live[sentence * s->beam];
    int is_full = scores[s->beam - 1] > -INFINITY;
    return (is_full && best / s->penalties[length] <= scores[s->early_stop_rank]) ||
           best / s->penalties[s->caps[sentence]] <= scores[s->best - 1] || s->caps[sentence] <= length;
}

/* The first row that goes on from another takes over its slot; for the others, what it holds is copied into a slot that
 * nobody goes on from. Where positions stay it is where that lies: no position of a slot is ever written twice. */
static void take_slots(const Search *s, const Decoder *d, int64_t row, int64_t length) {
    const int64_t *slots = d->row_slots + row, *parents = s->parents + row;
    int64_t *is_taken = s->is_taken + row, *next = s->next_slots + row, free = 0;
    memset(is_taken, 0, sizeof(int64_t) * s->beam);
    for (int64_t i = 0; i < s->beam; i++) {
        next[i] = is_taken[parents[i]] ? -1 : slots[parents[i]];
        is_taken[parents[i]] = 1;
    }
    for (int64_t i = 0; i < s->beam; i++) {
        if (next[i] >= 0) continue;
        while (is_taken[free]) free++;
        next[i] = slots[free++];
        for (const Decoder *model = d; model; model = model->next) copy_slot(model, slots[parents[i]], next[i], length);
    }
}

/* One step of one sentence, whose rows begin at `row`, after the ranking of its rows. */
static void advance(const Search *s, const Decoder *d, int64_t row) {
    int64_t k = s->beam, sentence = d->row_owners[row], count = continuations(s, d), length = length_of(d, row) + 1;
    float *candidates = s->candidates + sentence * 2 * k;
    int64_t *indices = s->candidate_indices + sentence * 2 * k;
    top_of_row(s->ranked + row * count, k * count, 2 * k, candidates, indices);
    for (int64_t i = 0; i < k; i++)
        if (s->ranked_tokens[row * count + indices[i]] == s->end)
            enter_store(s, sentence, indices[i] / count, candidates[i], length, row * count + indices[i]);
    survive(s, sentence, row, count, length);
    if (is_over(s, sentence, length))
        s->over_at[sentence] = length;
    else
        take_slots(s, d, row, length);
}

/* Step 5: the rows of sentences that are over leave, and the others move up. */
static void close_ranks(const Search *s, Decoder *d) {
    int64_t rows = 0;
    for (int64_t row = 0; row < d->rows; row++) {
        if (s->over_at[d->row_owners[row]]) continue;
        d->row_slots[rows] = s->next_slots[row], d->row_owners[rows] = d->row_owners[row];
        d->begun[rows] = d->begun[row], s->tokens[rows++] = s->next_tokens[row];
    }
    for (; d; d = d->next) d->rows = rows, d->length++;
}

/* The worker's part in a step of one model, and in the ranking of what it or all models hold for probable. */
static void step_and_rank(const Search *s, const Decoder *first_model, const Decoder *d, int64_t first, int64_t number,
                          int64_t count, Barrier *barrier) {
    Activations a = activations(d);
    Worker worker = worker_of(d, &a, number, count, barrier);
    step_rows(d, &a, s->tokens, d->positions, first, s->logits, &worker), wait_for_all(&worker);
    int64_t end = share_start(d->rows, number + 1, &worker);
    for (int64_t row = share_start(d->rows, number, &worker); row < end; row++) {
        if (s->probabilities) add_probabilities(s, d, row, d == first_model);
        if (!d->next && s->probabilities) rank_mean(s, first_model, row);
        if (!s->probabilities) rank_row(s, d, row);
    }
    wait_for_all(&worker);
}

/* The worker's part in a step; `first` is the index of the first row of positions. */
static void take_step(const Search *s, Decoder *d, int64_t first, int64_t number, int64_t count, Barrier *barrier) {
    for (const Decoder *model = d; model; model = model->next) step_and_rank(s, d, model, first, number, count, barrier);
    Worker worker = {.number = number, .count = count, .barrier = barrier};
    int64_t sentences = d->rows / s->beam, last = share_start(sentences, number + 1, &worker);
    for (int64_t i = share_start(sentences, number, &worker); i < last; i++) advance(s, d, i * s->beam);
    wait_for_all(&worker);
    if (number == 0) close_ranks(s, d);
    wait_for_all(&worker);
}

/* Most rows of a thread that searches alone: those of whole sentences, so few that what a step needs of them stays in the
 * cache of a core, and no more than leave something for every thread; 0 where all threads had better share each step. */
static int64_t bytes_of_thread(const Search *s, const Decoder *d) {
    int64_t sentences = d->rows / s->beam, per_thread = (sentences + d->threads - 1) / d->threads;
    const Decoder *too_many = d;
    for (int64_t i = 0; i < MAX_MODELS && too_many; i++) too_many = too_many->next;
    int64_t least = in_bytes(d) ? MIN_COUNT : MIN_COUNT_FLOAT32, most = in_bytes(d) ? MAX_COUNT : MAX_COUNT_FLOAT32;
    if (too_many || d->weights_out || d->length || sentences < d->threads || per_thread * s->beam < least) return 0;
    return smaller_of(per_thread, largest_of(1, most / s->beam)) * s->beam;
}

/* Numbers that one model needs for a thread that searches alone with `capacity` rows. */
static int64_t scratch_of_model(const Decoder *d, int64_t capacity) {
    Decoder part = *d;
    part.scratch_rows = capacity, part.threads = 1;
    return scratch_size(&part);
}

/* And all models. */
static int64_t scratch_alone(const Decoder *d, int64_t capacity) {
    int64_t numbers = 0;
    for (; d; d = d->next) numbers += padded(scratch_of_model(d, capacity));
    return numbers;
}

/* Sentences that no thread has begun yet. */
typedef struct {
    const int64_t *owners;
    int64_t count, begun;
} Queue;

static int64_t next_of(Queue *queue) {
    int64_t next = __atomic_fetch_add(&queue->begun, 1, __ATOMIC_RELAXED);
    return next < queue->count ? queue->owners[next] : -1;
}

/* The first of `beam` slots that no row has; those of a sentence stay together. */
static int64_t free_slot(const Decoder *d, int64_t beam) {
    char taken[MAX_COUNT_FLOAT32] = {0};
    for (int64_t row = 0; row < d->rows; row += beam) taken[d->row_slots[row] / beam] = 1;
    int64_t free_index = 0;
    while (taken[free_index]) free_index++;
    return free_index * beam;
}

/* Sentences come in while there is capacity for them. */
static void fill(const Search *s, Decoder *d, Queue *queue, int64_t capacity) {
    for (int64_t owner; d->rows + s->beam <= capacity && (owner = next_of(queue)) >= 0; d->rows += s->beam) {
        int64_t slot = free_slot(d, s->beam);
        for (int64_t row = d->rows; row < d->rows + s->beam; row++) {
            d->row_slots[row] = slot++, d->row_owners[row] = owner;
            d->begun[row] = d->length, s->tokens[row] = s->begin;
        }
    }
    for (Decoder *other = d->next; other; other = other->next) other->rows = d->rows;
}

/* A decoder without rows for one thread, which has `capacity` of them from row and slot `first` on. */
static Decoder decoder_slice(const Decoder *d, int64_t first, int64_t capacity, float *scratch) {
    Decoder part = *d;
    part.row_slots += first, part.row_owners += first, part.begun += first;
    part.rows = 0, part.threads = 1, part.scratch = scratch, part.scratch_rows = capacity;
    int64_t before = first * d->heads * d->capacity;
    if (positions_stay(d)) part.writers += first * d->capacity;
    if (d->recurrent)
        part.keys = state_at(d, 0, first, 0);
    else if (in_bytes(d))
        part.keys = (uint16_t *)d->keys + before * paired(d->head_width), part.values = (uint16_t *)d->values + before * paired(d->head_width);
    else
        part.keys = (float *)d->keys + before * d->head_width, part.values = (float *)d->values + before * padded(d->head_width);
    memset(scratch, 0, sizeof(float) * scratch_of_model(d, capacity));
    return part;
}

/* One thread searches with at most `capacity` rows, instead of the rows from `first` on: whenever a sentence is over, the
 * next of the queue comes in. Returns how many rows are not over but hold `until` positions. */
static int64_t search_alone(const Search *s, const Decoder *d, int64_t first, int64_t capacity, int64_t until, Queue *queue,
                            float *scratch) {
    Search own = *s;
    Decoder parts[MAX_MODELS], *part = parts;
    for (int64_t i = 0; d; i++, d = d->next) {
        parts[i] = decoder_slice(d, first, capacity, scratch);
        scratch += padded(scratch_of_model(d, capacity));
        if (d->next) parts[i].next = parts + i + 1;
    }
    int64_t before = first * part->vocabulary, count = continuations(s, part);
    own.logits += before;
    if (own.probabilities) own.probabilities += before;
    own.tokens += first, own.next_tokens += first, own.next_slots += first, own.parents += first, own.is_taken += first;
    own.ranked += first * count, own.ranked_tokens += first * count;
    if (own.token_scores) own.ranked_scores += first * count * SCORES;
    /* rows stay in the order in which they came, so the first is the longest */
    for (fill(&own, part, queue, capacity); part->rows && length_of(part, 0) < until; fill(&own, part, queue, capacity))
        take_step(&own, part, 0, 0, 1, 0);
    return part->rows;
}

/* The next `count` entries of `size` bytes of memory, which begin at a multiple of 64; `taken` counts the bytes. */
static void *next_part(char *memory, int64_t *taken, int64_t count, int64_t size) {
    int64_t here = *taken;
    *taken += groups_of(count * size, 64) * 64;
    return memory ? memory + here : 0;
}

/* Lays out what a call needs for itself, and returns how many bytes that is; without memory it only counts them. */
static int64_t lay_out(Search *s, const Decoder *d, char *memory) {
    int64_t taken = 0, rows = d->rows, k = s->beam, count = continuations(s, d), capacity = bytes_of_thread(s, d);
    s->logits = next_part(memory, &taken, rows * d->vocabulary, sizeof(float));
    s->probabilities = d->next ? next_part(memory, &taken, rows * d->vocabulary, sizeof(float)) : 0;
    int64_t **of_rows[] = {&s->next_tokens, &s->next_slots, &s->parents, &s->is_taken};
    for (int i = 0; i < 4; i++) *of_rows[i] = next_part(memory, &taken, rows, sizeof(int64_t));
    s->waiting = next_part(memory, &taken, d->sentences, sizeof(int64_t));
    s->ranked = next_part(memory, &taken, rows * count, sizeof(float));
    s->ranked_tokens = next_part(memory, &taken, rows * count, sizeof(int64_t));
    s->candidates = next_part(memory, &taken, d->sentences * 2 * k, sizeof(float));
    s->candidate_indices = next_part(memory, &taken, d->sentences * 2 * k, sizeof(int64_t));
    s->history = next_part(memory, &taken, d->sentences * k * s->longest, sizeof(int64_t));
    int64_t scores = s->token_scores ? SCORES : 0;
    s->ranked_scores = next_part(memory, &taken, rows * count * scores, sizeof(float));
    s->history_scores = next_part(memory, &taken, d->sentences * k * s->longest * scores, sizeof(float));
    s->scratch = capacity ? next_part(memory, &taken, d->threads * scratch_alone(d, capacity), sizeof(float)) : 0;
    return taken;
}

/* Whether each thread takes whole sentences, from the first step to the last. */
int64_t searches_per_thread(const Search *s, const Decoder *d) { return bytes_of_thread(s, d) > 0; }

typedef struct {
    const Search *search;
    const Decoder *decoder;
    int64_t until, capacity, per_thread; /* rows, and numbers of the scratch, for each thread */
    Queue *queue;
    int64_t *left; /* rows of all threads that are not over */
} PerThread;

static void search_share(const void *job, int64_t index, int64_t thread) {
    const PerThread *j = job;
    int64_t first = index * j->capacity, own = smaller_of(j->capacity, j->decoder->rows - first);
    (void)thread;
    if (own <= 0) return;
    float *scratch = j->search->scratch + j->per_thread * index;
    int64_t left = search_alone(j->search, j->decoder, first, own, j->until, j->queue, scratch);
    __atomic_add_fetch(j->left, left, __ATOMIC_RELAXED);
}

/* The whole search, of many sentences: each thread takes them from the first step to the last, as many at once as it has
 * capacity for. Only where there are no more positions than `until` may rows be left, which cannot go on. */
static void search_per_thread(const Search *s, Decoder *d, int64_t until) {
    int64_t capacity = bytes_of_thread(s, d), per_thread = scratch_alone(d, capacity), left = 0;
    Queue queue = {s->waiting, d->rows / s->beam, 0};
    for (int64_t i = 0; i < queue.count; i++) s->waiting[i] = d->row_owners[i * s->beam];
    PerThread job = {s, d, until, capacity, per_thread, &queue, &left};
    share_out(d->threads, d->threads, 1, search_share, &job);
    for (; d; d = d->next) d->rows = left, d->length = until;
}

typedef struct {
    const Search *search;
    Decoder *decoder;
    Barrier *barrier;
    int64_t first, until;
} Together;

static void search_in_thread(const void *job, int64_t thread, int64_t count) {
    const Together *t = job;
    Decoder *d = t->decoder;
    while (d->rows && d->length < t->until) take_step(t->search, d, t->first, thread, count, t->barrier);
}

/* Searches until all sentences are over or the rows hold `until` positions, for which there must be capacity. All threads
 * share every step. */
static void search_in_step(const Search *s, Decoder *d, int64_t until) {
    Barrier barrier = {0};
    Together job = {s, d, &barrier, d->length, until};
    in_threads(team(d), search_in_thread, &job);
}

/* Searches until all sentences are over or the rows hold `until` positions. Returns 0, or NO_MEMORY. */
int search_until(const Search *request, Decoder *d, int64_t until) {
    Search s = *request;
    char *memory = aligned_alloc(64, lay_out(&s, d, 0));
    if (!memory) return NO_MEMORY;
    lay_out(&s, d, memory);
    if (s.scratch)
        search_per_thread(&s, d, until);
    else
        search_in_step(&s, d, until);
    free(memory);
    return 0;
}
