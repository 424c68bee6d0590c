/* The ranking of many rows in one call: the same for each, whatever the number of rows and of threads. */
#include "ranking.h"
#include "threads.h"


/* Entries below which one more thread costs more than it brings. */
#define SHARE (1 << 15)

INLINE int64_t team(int64_t entries, int64_t threads) { return smaller_of(1 + entries / SHARE, threads); }

typedef struct {
    const float *values;
    int64_t width, k;
    float *largest;
    int64_t *indices;
} Top;

static void top_share(const void *job, int64_t r, int64_t thread) {
    const Top *t = job;
    (void)thread;
    top_of_row(t->values + r * t->width, t->width, t->k, t->largest + r * t->k, t->indices + r * t->k);
}

/* Twin: decoding/ranking.py, top. `found` and `indices` are (rows, k). */
void top_entries(const float *values, int64_t rows, int64_t width, int64_t k, float *largest, int64_t *indices,
                 int64_t threads) {
    Top job = {values, width, k, largest, indices};
    share_out(team(rows * width, threads), rows, 1, top_share, &job);
}

typedef struct {
    const float *values;
    int64_t width;
    float *largest, *log_sums;
} Normalizers;

static void normalize_share(const void *job, int64_t r, int64_t thread) {
    const Normalizers *n = job;
    const float *row = n->values + r * n->width;
    (void)thread;
    n->largest[r] = largest_entry(row, n->width);
    n->log_sums[r] = log_sum_of_row(row, n->width, n->largest[r]);
}

typedef struct {
    const float *values;
    const int64_t *tokens;
    int64_t width;
    float *scores;
} TokenScores;

static void score_share(const void *job, int64_t r, int64_t thread) {
    const TokenScores *s = job;
    const float *row = s->values + r * s->width;
    int64_t token = s->tokens[r];
    float largest = largest_entry(row, s->width), *scores = s->scores + 3 * r;
    float log_sum = log_sum_and_entropy(row, s->width, largest, scores + 2);
    float before = largest_entry(row, token), after = largest_entry(row + token + 1, s->width - token - 1);
    (void)thread;
    scores[0] = row[token] - largest - log_sum;
    scores[1] = row[token] - (before > after ? before : after);
}

/* Twin: torch_engine/engine.py, token_scores. Of one of `tokens` a row, inside it: its log-probability, how far it is above the best
 * other, and the entropy of the row, into `scores` (rows, 3). */
void score_tokens(const float *values, const int64_t *tokens, int64_t rows, int64_t width, float *scores, int64_t threads) {
    TokenScores job = {values, tokens, width, scores};
    share_out(team(rows * width, threads), rows, 1, score_share, &job);
}

/* Twin: decoding/ranking.py, _normalizers. `largest` and `log_sums` are (rows). */
void normalizers(const float *values, int64_t rows, int64_t width, float *largest, float *log_sums, int64_t threads) {
    Normalizers job = {values, width, largest, log_sums};
    share_out(team(rows * width, threads), rows, 1, normalize_share, &job);
}
