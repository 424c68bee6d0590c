/* The peak of a processor: multiply-adds by one kind of instruction, from registers, L1 and L2, and bytes read from memory.
 *
 *     instruction_peak THREADS [SECONDS]   prints a JSON object: kind -> {registers, L1, L2} in operations a second, all threads,
 *                                          each measured for about so long
 *
 * A multiplication and its addition are two operations. Accumulators are independent and as many as hide the latency; in
 * L1 and L2 one operand of each instruction is loaded. Kinds that this processor lacks are left out.
 */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 256
#define BUFFER (1 << 26) /* bytes, beyond every cache that a core has alone */
#define USES(features) __attribute__((target(features), noinline))
#define USES_INLINE(features) __attribute__((target(features), always_inline))
#define KEEP(x) __asm__ volatile("" : "+x"(x))
#define KEEP512(x) __asm__ volatile("" : "+v"(x))
#define EIGHT(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

static double seconds = 0.25; /* of each measurement */

typedef void (*Kernel)(const char* data, long bytes, long rounds);

/* Each round uses all `bytes` of `data` once, 8 vectors at a time; with `bytes` of 8 vectors they stay in registers. */
#define VECTOR_KERNEL(name, features, V, size, zero, load, operation, keep)                    \
    USES(features) static void name(const char* data, long bytes, long rounds) {               \
        V s0 = zero, s1 = zero, s2 = zero, s3 = zero, s4 = zero, s5 = zero, s6 = zero, s7 = zero; \
        keep(s0); keep(s1); keep(s2); keep(s3); keep(s4); keep(s5); keep(s6); keep(s7);        \
        V one = load(data);                                                                    \
        for (long round = 0; round < rounds; round++)                                          \
            for (long at = 0; at < bytes; at += 8 * (size)) {                                  \
                STEP_##name(0) STEP_##name(1) STEP_##name(2) STEP_##name(3)                    \
                STEP_##name(4) STEP_##name(5) STEP_##name(6) STEP_##name(7)                    \
            }                                                                                  \
        keep(s0); keep(s1); keep(s2); keep(s3); keep(s4); keep(s5); keep(s6); keep(s7);        \
    }
#define IN_REGISTERS(name, features, V, zero, load, keep)                                      \
    USES(features) static void name##_registers(const char* data, long bytes, long rounds) {   \
        V s0 = zero, s1 = zero, s2 = zero, s3 = zero, s4 = zero, s5 = zero, s6 = zero, s7 = zero; \
        keep(s0); keep(s1); keep(s2); keep(s3); keep(s4); keep(s5); keep(s6); keep(s7);        \
        V one = load(data), two = load(data);                                                  \
        for (long round = 0; round < rounds * (bytes / 64); round++) {                         \
            keep(one); keep(two);                                                              \
            s0 = OP_##name(s0, one, two); s1 = OP_##name(s1, one, two);                        \
            s2 = OP_##name(s2, one, two); s3 = OP_##name(s3, one, two);                        \
            s4 = OP_##name(s4, one, two); s5 = OP_##name(s5, one, two);                        \
            s6 = OP_##name(s6, one, two); s7 = OP_##name(s7, one, two);                        \
        }                                                                                      \
        keep(s0); keep(s1); keep(s2); keep(s3); keep(s4); keep(s5); keep(s6); keep(s7);        \
    }

/* Without it compilers multiply once for all eight sums, as they make one of sums that they can tell to be equal. */
USES_INLINE("avx2") static inline __m256i madd_of(__m256i a, __m256i b) {
    KEEP(a);
    return _mm256_madd_epi16(a, b);
}

#define LOAD256(p) _mm256_loadu_si256((const __m256i*)(p))
#define LOAD512(p) _mm512_loadu_si512(p)
#define LOADPS(p) _mm256_loadu_ps((const float*)(p))
#define LOADPS512(p) _mm512_loadu_ps((const float*)(p))
#define OP_avx2_int16(s, a, b) _mm256_add_epi32(s, madd_of(a, b))
#define OP_avx2_float32(s, a, b) _mm256_fmadd_ps(a, b, s)
#define OP_avx_vnni_int8(s, a, b) _mm256_dpbusd_avx_epi32(s, a, b)
#define OP_avx512_float32(s, a, b) _mm512_fmadd_ps(a, b, s)
#define OP_avx512_vnni_int8(s, a, b) _mm512_dpbusd_epi32(s, a, b)
#define OP_avx512_bf16(s, a, b) _mm512_dpbf16_ps(s, (__m512bh)(a), (__m512bh)(b))
#define STEP(name, n, size, load) s##n = OP_##name(s##n, one, load(data + at + (n) * (size)));
#define STEP_avx2_int16(n) STEP(avx2_int16, n, 32, LOAD256)
#define STEP_avx2_float32(n) STEP(avx2_float32, n, 32, LOADPS)
#define STEP_avx_vnni_int8(n) STEP(avx_vnni_int8, n, 32, LOAD256)
#define STEP_avx512_float32(n) STEP(avx512_float32, n, 64, LOADPS512)
#define STEP_avx512_vnni_int8(n) STEP(avx512_vnni_int8, n, 64, LOAD512)
#define STEP_avx512_bf16(n) s##n = OP_avx512_bf16(s##n, one, LOADPS512(data + at + (n) * 64));
#define KIND(name, features, V, size, zero, load, keep)              \
    VECTOR_KERNEL(name, features, V, size, zero, load, OP_##name, keep) \
    IN_REGISTERS(name, features, V, zero, load, keep)

KIND(avx2_int16, "avx2", __m256i, 32, _mm256_setzero_si256(), LOAD256, KEEP)
KIND(avx2_float32, "avx2,fma", __m256, 32, _mm256_setzero_ps(), LOADPS, KEEP)
KIND(avx_vnni_int8, "avx2,avxvnni", __m256i, 32, _mm256_setzero_si256(), LOAD256, KEEP)
KIND(avx512_float32, "avx512f", __m512, 64, _mm512_setzero_ps(), LOADPS512, KEEP512)
KIND(avx512_vnni_int8, "avx512f,avx512vnni", __m512i, 64, _mm512_setzero_si512(), LOAD512, KEEP512)
KIND(avx512_bf16, "avx512f,avx512bf16", __m512, 64, _mm512_setzero_ps(), LOADPS512, KEEP512)

/* Tiles: four accumulators, two tiles of each side, as a block of 32 x 32 outputs has them. */
struct Tiles { uint8_t palette, start, reserved[14]; uint16_t width[16]; uint8_t rows[16]; };
USES_INLINE("amx-tile") static inline void configure_tiles(void) {
    struct Tiles tiles = {.palette = 1};
    for (int tile = 0; tile < 8; tile++) tiles.width[tile] = 64, tiles.rows[tile] = 16;
    /* GCC 12 believes that the instruction reads eight bytes, and would not write the others */
    __asm__ volatile("" : : "r"(&tiles) : "memory");
    _tile_loadconfig(&tiles);
}
#define TILE_KERNEL(name, product)                                                              \
    USES("amx-tile,amx-int8,amx-bf16") static void name(const char* data, long bytes, long rounds) { \
        configure_tiles();                                                                      \
        _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);                             \
        for (long round = 0; round < rounds; round++)                                           \
            for (long at = 0; at < bytes; at += 4096) {                                         \
                _tile_loadd(4, data + at, 64); _tile_loadd(5, data + at + 1024, 64);            \
                _tile_loadd(6, data + at + 2048, 64); _tile_loadd(7, data + at + 3072, 64);     \
                product(0, 4, 6); product(1, 4, 7); product(2, 5, 6); product(3, 5, 7);         \
            }                                                                                   \
        _tile_release();                                                                        \
    }                                                                                           \
    USES("amx-tile,amx-int8,amx-bf16") static void name##_registers(const char* data, long bytes, long rounds) { \
        configure_tiles();                                                                      \
        _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);                             \
        _tile_loadd(4, data, 64); _tile_loadd(5, data, 64); _tile_loadd(6, data, 64); _tile_loadd(7, data, 64); \
        for (long round = 0; round < rounds * (bytes / 4096); round++) {                        \
            product(0, 4, 6); product(1, 4, 7); product(2, 5, 6); product(3, 5, 7);             \
        }                                                                                       \
        _tile_release();                                                                        \
    }
TILE_KERNEL(amx_int8, _tile_dpbssd)
TILE_KERNEL(amx_bf16, _tile_dpbf16ps)

static volatile long long sink;

USES("avx2") static void read_memory(const char* data, long bytes, long rounds) {
    __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
    for (long round = 0; round < rounds; round++)
        for (long at = 0; at < bytes; at += 128) {
            s0 = _mm256_xor_si256(s0, LOAD256(data + at)); s1 = _mm256_xor_si256(s1, LOAD256(data + at + 32));
            s2 = _mm256_xor_si256(s2, LOAD256(data + at + 64)); s3 = _mm256_xor_si256(s3, LOAD256(data + at + 96));
        }
    s0 = _mm256_xor_si256(_mm256_xor_si256(s0, s1), _mm256_xor_si256(s2, s3));
    sink = _mm256_extract_epi64(s0, 0);
}

typedef struct { Kernel kernel; const char* data; long bytes; pthread_barrier_t* barrier; double rate; } Job;

/* Processor time of this thread: what others compute meanwhile does not count. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* Bytes of operands that one thread uses a second, while the other threads do the same. */
static void* worker(void* argument) {
    Job* job = argument;
    long rounds = 1;
    for (;; rounds *= 2) {
        double start = now();
        job->kernel(job->data, job->bytes, rounds);
        if (now() - start > seconds / 4) break;
    }
    pthread_barrier_wait(job->barrier);
    double start = now();
    job->kernel(job->data, job->bytes, 4 * rounds);
    job->rate = 4.0 * rounds * job->bytes / (now() - start);
    return NULL;
}

static double measure(Kernel kernel, char** data, long bytes, int threads) {
    pthread_t ids[MAX_THREADS];
    Job jobs[MAX_THREADS];
    pthread_barrier_t barrier;
    double rate = 0;
    pthread_barrier_init(&barrier, NULL, threads);
    for (int i = 0; i < threads; i++) {
        jobs[i] = (Job){kernel, data[i], bytes, &barrier, 0};
        if (pthread_create(&ids[i], NULL, worker, &jobs[i])) exit(71);
    }
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL), rate += jobs[i].rate;
    pthread_barrier_destroy(&barrier);
    return rate;
}

/* `per_byte` is the number of operations that go with one byte of loaded operands; `round` is one round in registers. */
static void report(const char* name, Kernel memory, Kernel registers, double per_byte, long round, double per_round,
                   char** data, int threads) {
    static int count = 0;
    printf("%s\"%s\": {\"registers\": %.4g, \"L1\": %.4g, \"L2\": %.4g}", count++ ? ", " : "", name,
           measure(registers, data, 1 << 14, threads) / round * per_round,
           measure(memory, data, 1 << 14, threads) * per_byte, measure(memory, data, 1 << 18, threads) * per_byte);
}
#define REPORT(name, per_byte, round, per_round) \
    report(#name, name, name##_registers, per_byte, round, per_round, data, threads)

int main(int count, char** arguments) {
    int threads = count > 1 ? atoi(arguments[1]) : 1;
    char* data[MAX_THREADS];
    if (count > 2) seconds = atof(arguments[2]);
    if (threads < 1 || threads > MAX_THREADS || seconds <= 0) return 2;
    for (int i = 0; i < threads; i++) {
        if (!(data[i] = aligned_alloc(4096, BUFFER))) return 71;
        memset(data[i], 0, BUFFER);
    }
    __builtin_cpu_init();
    printf("{");
    if (__builtin_cpu_supports("avx2")) {
        REPORT(avx2_int16, 1.0, 64, 8 * 32.0);
        REPORT(avx2_float32, 0.5, 64, 8 * 16.0);
    }
    if (__builtin_cpu_supports("avxvnni")) REPORT(avx_vnni_int8, 2.0, 64, 8 * 64.0);
    if (__builtin_cpu_supports("avx512f")) REPORT(avx512_float32, 0.5, 64, 8 * 32.0);
    if (__builtin_cpu_supports("avx512vnni")) REPORT(avx512_vnni_int8, 2.0, 64, 8 * 128.0);
    if (__builtin_cpu_supports("avx512bf16")) REPORT(avx512_bf16, 1.0, 64, 8 * 64.0);
    /* the system lends tiles where it is asked (ARCH_REQ_XCOMP_PERM, XTILEDATA) */
    if (__builtin_cpu_supports("amx-int8") && !syscall(SYS_arch_prctl, 0x1023, 18)) {
        REPORT(amx_int8, 4 * 32768.0 / 4096, 4096, 4 * 32768.0);
        REPORT(amx_bf16, 4 * 16384.0 / 4096, 4096, 4 * 16384.0);
    }
    printf(", \"bytes_read\": {\"L1\": %.4g, \"L2\": %.4g, \"memory\": %.4g}}\n", measure(read_memory, data, 1 << 14, threads),
           measure(read_memory, data, 1 << 18, threads), measure(read_memory, data, BUFFER, threads));
    return 0;
}
