/* Scores of texts by a table of the n-grams of their words and characters, from their bytes in one call.
 *
 * Twin: tasks/word_table.py over text/text_ngrams.py, whose words, hashes and features these are. A text is in UTF-8, of lower
 * case but for ASCII; its words are runs of letters, digits, underscores and of all bytes beyond ASCII, any other character
 * that is no white space is a word of its own. Sums are double, in the order of the rows of the table.
 */
#include "indices.h"
#include "layout.h"
#include "threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORDS 3
#define MIN_CHARACTERS 2
#define MAX_CHARACTERS 5
/* Texts that a thread takes at once. */
#define TOGETHER 16
/* N-grams that are looked up together: memory answers them while others are asked for. */
#define AHEAD 16

/* The n-grams of one kind, in rising order of their hashes. */
typedef struct {
    const uint64_t *hashes;
    const float *idf, *weights; /* (count), (count, outputs) */
    const int32_t *starts;      /* (buckets + 1): the first hash that is not below a bucket, which is a hash >> shift */
    int64_t count, shift, characters; /* whether they are of characters */
} TablePart;

SIZE_OF(TablePart);

typedef struct {
    const TablePart *parts;
    int64_t kinds, outputs;
    const char *text;
    const int64_t *ends; /* of each text in `text` */
    double *scores;      /* (texts, outputs), added to */
    double *counts;      /* (2, texts): n-grams, and those that the table knows */
    int64_t texts, longest; /* bytes of a text, at most */
    char *memory;
    int64_t per_thread; /* bytes of it for each thread */
} Table;

/* What a thread has of a text: hashes of its words, mixed characters, which of these are spaces, and rows of the table. */
typedef struct {
    uint64_t *words, *codes;
    char *spaces;
    int32_t *rows;
    int64_t num_words, num_codes;
} Ngrams;

/* Each word, with the space after it, has at most twice as many characters as bytes. */
static int64_t codes_of(int64_t bytes) { return 2 * bytes + 2; }

static int64_t rows_of(int64_t bytes) { return MAX_WORDS * bytes + (MAX_CHARACTERS - MIN_CHARACTERS + 1) * codes_of(bytes); }

static int64_t bytes_for(int64_t longest) {
    int64_t bytes = 8 * longest + 8 * codes_of(longest) + 4 * rows_of(longest) + codes_of(longest);
    return (bytes + 63) / 64 * 64;
}

static Ngrams ngrams_at(char *memory, int64_t longest) {
    Ngrams n = {.words = (uint64_t *)memory};
    n.codes = n.words + longest, n.rows = (int32_t *)(n.codes + codes_of(longest));
    n.spaces = (char *)(n.rows + rows_of(longest));
    return n;
}

static inline uint64_t rotated_right(uint64_t x, int by) { return x >> by | x << (64 - by); }

/* BLAKE2b (RFC 7693) of a word, its first eight bytes as a number, the lowest first. */
static const uint64_t start_of_hash[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};
static const uint8_t order_of_round[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

#define MIX(a, b, c, d, x, y)                                                                                          \
    (a += b + (x), d = rotated_right(d ^ a, 32), c += d, b = rotated_right(b ^ c, 24), a += b + (y), d = rotated_right(d ^ a, 16), c += d,  \
     b = rotated_right(b ^ c, 63))

static void compress(uint64_t h[8], const uint64_t m[16], uint64_t count, int last) {
    uint64_t v[16];
    for (int i = 0; i < 8; i++) v[i] = h[i], v[i + 8] = start_of_hash[i];
    v[12] ^= count, v[14] ^= last ? ~(uint64_t)0 : 0;
    for (int round = 0; round < 12; round++) {
        const uint8_t *s = order_of_round[round % 10];
        MIX(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]), MIX(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
        MIX(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]), MIX(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
        MIX(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]), MIX(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
        MIX(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]), MIX(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 8; i++) h[i] ^= v[i] ^ v[i + 8];
}

/* Bytes that are hashed together. */
#define BLOCK 128

typedef struct {
    uint64_t h[8], block[BLOCK / 8];
    int64_t filled, before; /* bytes of the block, and of all blocks before it */
} Hash;

static void begin_hash(Hash *hash) {
    memcpy(hash->h, start_of_hash, sizeof hash->h);
    /* eight bytes are asked for */
    hash->h[0] ^= 0x01010000 ^ 8;
    hash->filled = hash->before = 0;
}

static void add_byte(Hash *hash, uint8_t byte) {
    if (hash->filled == BLOCK) {
        hash->before += BLOCK, hash->filled = 0;
        compress(hash->h, hash->block, hash->before, 0);
    }
    if (hash->filled % 8 == 0) hash->block[hash->filled / 8] = 0;
    hash->block[hash->filled / 8] |= (uint64_t)byte << 8 * (hash->filled % 8);
    hash->filled++;
}

static uint64_t end_hash(Hash *hash) {
    int64_t whole = (hash->filled + 7) / 8;
    memset(hash->block + whole, 0, sizeof hash->block - 8 * whole);
    compress(hash->h, hash->block, hash->before + hash->filled, 1);
    return hash->h[0];
}

static inline uint8_t lower(char byte) { return byte >= 'A' && byte <= 'Z' ? byte + 'a' - 'A' : (uint8_t)byte; }

/* Bits of the number of words whose hashes a thread remembers, and bytes of such a word. */
#define KEPT_BITS 12
#define KEPT_BYTES 23

typedef struct {
    uint64_t hash;
    uint8_t length, bytes[KEPT_BYTES];
} Kept;

/* A language has few words that recur often. */
static _Thread_local Kept kept[1 << KEPT_BITS];

static uint64_t hash_word(const char *text, int64_t length) {
    Kept own = {.length = (uint8_t)length}, *known = 0;
    if (length <= KEPT_BYTES) {
        uint64_t mix = 0xcbf29ce484222325;
        for (int64_t i = 0; i < length; i++) own.bytes[i] = lower(text[i]), mix = (mix ^ own.bytes[i]) * 0x100000001b3;
        known = kept + (mix * 0x9E3779B97F4A7C15 >> (64 - KEPT_BITS));
        if (known->length == length && !memcmp(known->bytes, own.bytes, length)) return known->hash;
    }
    Hash hash;
    begin_hash(&hash);
    for (int64_t i = 0; i < length; i++) add_byte(&hash, lower(text[i]));
    own.hash = end_hash(&hash);
    if (known) *known = own;
    return own.hash;
}

/* Odd numbers by which the parts of an n-gram are told apart by their order. */
static const uint64_t factors[MAX_CHARACTERS] = {0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93,
                                                 0xA0761D6478BD642F};

/* The finalizer of SplitMix64 of a character. */
static inline uint64_t mixed(uint64_t code) {
    uint64_t x = (code + 1) * factors[0];
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9, x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

static inline uint64_t hash_of(const uint64_t *from, int size) {
    uint64_t total = size;
    for (int i = 0; i < size; i++) total += from[i] * factors[i] * (2 * size + 1);
    return total;
}

static inline int is_space(uint8_t byte) { return byte == ' ' || (byte >= 9 && byte <= 13) || (byte >= 28 && byte <= 31); }

static inline int in_word(uint8_t byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '_' || byte >= 128;
}

/* Where n-grams of characters are asked for. */
static void add_code(Ngrams *n, uint64_t code) {
    if (!n->codes) return;
    n->spaces[n->num_codes] = code == ' ';
    n->codes[n->num_codes++] = mixed(code);
}

/* Words and characters of a text, with a space before and after each word. */
static void read_text(Ngrams *n, const char *text, int64_t length) {
    uint64_t code = 0;
    n->num_words = n->num_codes = 0;
    add_code(n, ' ');
    for (int64_t at = 0; at < length;) {
        uint8_t byte = lower(text[at]);
        if (is_space(byte)) {
            at++;
            continue;
        }
        int is_long = in_word(byte);
        int64_t first = at;
        do {
            /* a byte of UTF-8 begins a character, or goes on with it */
            code = byte < 128 ? byte : byte >= 240 ? byte & 7 : byte >= 224 ? byte & 15 : byte >= 192 ? byte & 31 : code << 6 | (byte & 63);
            if (++at == length || ((uint8_t)text[at] & 192) != 128) add_code(n, code);
            byte = at < length ? lower(text[at]) : ' ';
        } while (is_long && in_word(byte));
        n->words[n->num_words++] = hash_word(text + first, at - first);
        add_code(n, ' ');
    }
    if (!n->num_words) add_code(n, ' ');
}

/* N-grams that are looked up together. */
typedef struct {
    Ngrams *n;
    const TablePart *part;
    uint64_t hashes[AHEAD];
    int64_t waiting, rows, total; /* that wait, that the table has, and all */
} Lookup;

/* Appends the rows of the hashes that wait and are in the table. */
static void look_up(Lookup *l) {
    const TablePart *part = l->part;
    int32_t first[AHEAD];
    for (int64_t i = 0; i < l->waiting; i++) __builtin_prefetch(part->starts + (l->hashes[i] >> part->shift));
    for (int64_t i = 0; i < l->waiting; i++) __builtin_prefetch(part->hashes + (first[i] = part->starts[l->hashes[i] >> part->shift]));
    for (int64_t i = 0; i < l->waiting; i++) {
        int64_t row = first[i];
        while (row < part->count && part->hashes[row] < l->hashes[i]) row++;
        if (row < part->count && part->hashes[row] == l->hashes[i]) l->n->rows[l->rows++] = (int32_t)row;
    }
    l->waiting = 0;
}

static inline void find(Lookup *l, uint64_t hash) {
    l->hashes[l->waiting++] = hash, l->total++;
    if (l->waiting == AHEAD) look_up(l);
}

/* Finds the rows of all n-grams of a kind; returns how many there are, and how many n-grams in `total`. */
static int64_t find_all(Ngrams *n, const TablePart *part, int64_t *total) {
    Lookup l = {.n = n, .part = part};
    for (int size = 1; !part->characters && size <= MAX_WORDS; size++)
        for (int64_t at = 0; at + size <= n->num_words; at++) find(&l, size == 1 ? n->words[at] : hash_of(n->words + at, size));
    for (int size = MIN_CHARACTERS; part->characters && size <= MAX_CHARACTERS; size++)
        for (int64_t at = 0; at + size <= n->num_codes; at++) {
            /* at most one space, and that at an end */
            int inner = 0, both = n->spaces[at] && n->spaces[at + size - 1];
            for (int i = 1; i < size - 1; i++) inner |= n->spaces[at + i];
            if (inner || (both && size == MIN_CHARACTERS)) continue;
            find(&l, hash_of(n->codes + at, size));
        }
    look_up(&l);
    *total = l.total;
    return l.rows;
}

static int compare_rows(const void *a, const void *b) {
    int32_t first = *(const int32_t *)a, second = *(const int32_t *)b;
    return (first > second) - (first < second);
}

static void sort_rows(int32_t *rows, int64_t count) {
    if (count > 64) {
        qsort(rows, count, sizeof *rows, compare_rows);
        return;
    }
    for (int64_t i = 1; i < count; i++) {
        int32_t row = rows[i];
        int64_t at = i;
        for (; at > 0 && rows[at - 1] > row; at--) rows[at] = rows[at - 1];
        rows[at] = row;
    }
}

/* The value of a row that occurs so often, before all are divided by their length. */
static inline double value_of(const TablePart *part, int32_t row, int64_t often) {
    return (often > 1 ? 1.0 + log((double)often) : 1.0) * part->idf[row];
}

static void add_part(const Table *t, Ngrams *n, const TablePart *part, int64_t text) {
    int64_t total, count = find_all(n, part, &total), often;
    double squares = 0.0, *scores = t->scores + text * t->outputs;
    t->counts[text] += (double)total, t->counts[t->texts + text] += (double)count;
    sort_rows(n->rows, count);
    for (int64_t at = 0; at < count; at += often) {
        for (often = 1; at + often < count && n->rows[at + often] == n->rows[at];) often++;
        const float *weights = part->weights + n->rows[at] * t->outputs;
        __builtin_prefetch(weights), __builtin_prefetch(weights + t->outputs - 1);
        double value = value_of(part, n->rows[at], often);
        squares += value * value;
    }
    double length = sqrt(squares);
    for (int64_t at = 0; at < count; at += often) {
        for (often = 1; at + often < count && n->rows[at + often] == n->rows[at];) often++;
        float value = (float)(value_of(part, n->rows[at], often) / length);
        const float *weights = part->weights + n->rows[at] * t->outputs;
        for (int64_t i = 0; i < t->outputs; i++) scores[i] += (double)weights[i] * (double)value;
    }
}

static void score_text(const void *job, int64_t text, int64_t thread) {
    const Table *t = job;
    int64_t start = text ? t->ends[text - 1] : 0;
    Ngrams n = ngrams_at(t->memory + t->per_thread * thread, t->longest);
    int has_characters = 0;
    for (int64_t kind = 0; kind < t->kinds; kind++) has_characters |= t->parts[kind].characters != 0;
    if (!has_characters) n.codes = 0;
    read_text(&n, t->text + start, t->ends[text] - start);
    for (int64_t kind = 0; kind < t->kinds; kind++) add_part(t, &n, t->parts + kind, text);
}

static int64_t longest_of(const int64_t *ends, int64_t texts) {
    int64_t longest = 0;
    for (int64_t i = 0; i < texts; i++) {
        int64_t length = ends[i] - (i ? ends[i - 1] : 0);
        longest = length > longest ? length : longest;
    }
    return longest;
}

/* Adds to the scores (texts, outputs) of texts, and to their `counts` (2, texts): all n-grams, and those that are known.
 * Returns 0, or NO_MEMORY. */
int score_by_table(const TablePart *parts, int64_t kinds, int64_t outputs, const char *text, const int64_t *ends, int64_t texts,
                   double *scores, double *counts, int64_t threads) {
    Table table = {parts, kinds, outputs, text, ends, scores, counts, texts, 0, 0, 0};
    table.longest = longest_of(ends, texts);
    table.per_thread = bytes_for(table.longest);
    table.memory = malloc(table.per_thread * threads);
    if (!table.memory) return NO_MEMORY;
    share_out(threads, texts, TOGETHER, score_text, &table);
    free(table.memory);
    return 0;
}

typedef struct {
    const char *text;
    const int64_t *ends;
    uint64_t *hashes;
    int64_t *counts;
} WordHashes;

static void hash_text(const void *job, int64_t text, int64_t thread) {
    const WordHashes *h = job;
    int64_t start = text ? h->ends[text - 1] : 0;
    /* no text has more words than bytes */
    Ngrams n = {.words = h->hashes + start};
    (void)thread;
    read_text(&n, h->text + start, h->ends[text] - start);
    h->counts[text] = n.num_words;
}

/* Writes the hashes of the words of all texts one after the other, into memory for as many as there are bytes, and how many each
 * text has; returns how many there are. */
int64_t hash_words(const char *text, const int64_t *ends, int64_t texts, uint64_t *hashes, int64_t *counts, int64_t threads) {
    WordHashes job = {text, ends, hashes, counts};
    int64_t total = 0;
    share_out(threads, texts, TOGETHER, hash_text, &job);
    for (int64_t i = 0; i < texts; total += counts[i++]) memmove(hashes + total, hashes + (i ? ends[i - 1] : 0), 8 * counts[i]);
    return total;
}
