/* Attention of bfloat16 in tiles, forward, a head at a time in cache. */
#include "attention_tiles.h"

#if HAS_TILES
/* Writes weights down, zeros for keys that are not visible. */
INLINE void keep(const Attention *a, float *to, const float *rows, const float *shares, int64_t count, int64_t visible) {
    int64_t keys = padded(a->keys);
    for (int64_t t = 0; t < count; t++, to += keys, rows += keys) {
        for (int64_t at = 0; at < visible; at += LANES) *(vec *)(to + at) = *(const vec *)(rows + at) * shares[t];
        memset(to + padded(visible), 0, sizeof(float) * (keys - padded(visible)));
    }
}

INLINE void forward_head(const Attention *a, uint16_t *output, char *scratch, int64_t pair) {
    int64_t b = pair / a->heads, h = pair % a->heads, block = block_of(a), known = visible_keys(a, pair, 0, a->queries);
    int64_t keys = padded(a->keys), value_width = padded(a->value_width);
    int64_t step = a->heads * a->value_width, offset = b * a->queries * step + h * a->value_width;
    Scratch own;
    lay_out(a, scratch, &own);
    fetch_head(a, NULL, NULL, pair + 1, 0);
    fetch_rows(output, offset, a->queries, a->value_width, step, 0, 1);
    load_keys(a, &own, pair, known);
    rotate_in_pairs(a, own.key_columns, own.key, a->width);
    pair_rows(own.value_pairs, own.value, whole(a->value_width), whole(known), value_width);
    for (int64_t first = 0; first < a->queries; first += block) {
        int64_t end = smaller_of(first + block, a->queries), count = end - first;
        int64_t visible = visible_keys(a, pair, first, end), line = pair * a->queries + first;
        load_queries(a, own.query, b, h, first, count);
        weigh(a, &own, own.scores, own.bf16, pair, first, count, visible);
        if (a->weights) keep(a, a->weights + line * keys, own.scores, own.shares, count, visible);
        if (a->random_bits) {
            drop_rows(a, own.scores, own.scores, line * a->keys, count, visible);
            to_bf16_rows(own.bf16, whole(keys), own.scores, keys, count, visible);
        }
        bf16_products(own.result, value_width, own.bf16, whole(keys), own.value_pairs, value_width, whole(visible),
                        value_width, count, 0);
        for (int64_t t = 0; t < count; t++)
            for (int64_t at = 0; at < value_width; at += LANES) *(vec *)(own.result + t * value_width + at) *= own.shares[t];
        store_rows(output, offset + first * step, step, own.result, count, a->value_width, 0);
    }
}

typedef struct {
    const Attention *attention;
    void *output;
    char *scratch;
    int64_t per_thread; /* bytes of it for each thread */
} Job;

static void forward_share(const void *job, int64_t pair, int64_t thread) {
    const Job *f = job;
    unsigned before = begin_with_tiles();
    forward_head(f->attention, f->output, f->scratch + f->per_thread * thread, pair);
    end_with_tiles(before);
}

int attention_forward_in_tiles(const Attention *a, void *output) {
    Scratch parts;
    int64_t per_thread = lay_out(a, 0, &parts);
    char *scratch = aligned_alloc(64, per_thread * a->threads);
    if (!scratch) return 1;
    Job job = {a, output, scratch, per_thread};
    share_out(a->threads, a->batch * a->heads, heads_per_turn(a), forward_share, &job);
    free(scratch);
    return 0;
}
#endif
