/* Threads that work together: OpenMP's, or a pool for each thread that has work to share out. */
#include "threads.h"

#include <sched.h>

typedef struct {
    Share *share;
    const void *job;
    int64_t count, together, next;
} Indices;

static void take_indices(const void *job, int64_t thread, int64_t threads) {
    Indices *indices = (Indices *)job;
    (void)threads;
    for (;;) {
        int64_t first = __atomic_fetch_add(&indices->next, indices->together, __ATOMIC_RELAXED);
        if (first >= indices->count) return;
        int64_t end = first + indices->together < indices->count ? first + indices->together : indices->count;
        for (int64_t index = first; index < end; index++) indices->share(indices->job, index, thread);
    }
}

void share_out(int64_t threads, int64_t count, int64_t together, Share *share, const void *job) {
    if (count <= 0) return;
    Indices indices = {share, job, count, together, 0};
    int64_t most = (count + together - 1) / together;
    in_threads(threads < most ? threads : most, take_indices, &indices);
}

void wait_at_barrier(Barrier *barrier, int64_t threads) {
    if (threads == 1) return;
    int round = __atomic_load_n(&barrier->round, __ATOMIC_SEQ_CST);
    if (__atomic_add_fetch(&barrier->arrived, 1, __ATOMIC_SEQ_CST) == threads) {
        __atomic_store_n(&barrier->arrived, 0, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&barrier->round, 1, __ATOMIC_SEQ_CST);
        return;
    }
    for (int64_t turn = 0; __atomic_load_n(&barrier->round, __ATOMIC_SEQ_CST) == round; turn++)
        if (turn > 4096) sched_yield();
}

#if defined(_OPENMP) && !defined(NO_OPENMP)
#include <omp.h>

void in_threads(int64_t threads, Work *work, const void *job) {
    if (threads <= 1) {
        work(job, 0, 1);
        return;
    }
#pragma omp parallel num_threads((int)threads)
    work(job, omp_get_thread_num(), omp_get_num_threads());
}
#else
#include <pthread.h>
#include <stdlib.h>

/* So often a thread looks for work, or for the end of it, before it sleeps: about a tenth of a millisecond. */
#define LOOKS 5000

/* More threads than any computer has cores. */
#define MAX_COUNT 1024

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t begun, ended;
    int64_t helpers;          /* threads that were started: the second, the third ... */
    uint64_t order;           /* number of the present work times 2 MAX_COUNT, plus its threads; a helper reads both at once */
    int64_t working, sleeping; /* helpers that are not done with it; those that sleep */
    Work *work;
    const void *job;
} Pool;

typedef struct {
    Pool *pool;
    int64_t number;
} Helper;

static pthread_key_t key;
static pthread_once_t key_created = PTHREAD_ONCE_INIT;

static void look_again(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

static uint64_t next_order(Pool *pool, uint64_t last) {
    uint64_t order;
    for (int look = 0; look < LOOKS; look++, look_again())
        if ((order = __atomic_load_n(&pool->order, __ATOMIC_ACQUIRE)) != last) return order;
    pthread_mutex_lock(&pool->lock);
    pool->sleeping++;
    while ((order = __atomic_load_n(&pool->order, __ATOMIC_ACQUIRE)) == last) pthread_cond_wait(&pool->begun, &pool->lock);
    pool->sleeping--;
    pthread_mutex_unlock(&pool->lock);
    return order;
}

/* One of so many that are done with a pool: the last of them frees it. */
static void leave(Pool *pool) {
    if (__atomic_sub_fetch(&pool->working, 1, __ATOMIC_ACQ_REL) == 0) free(pool);
}

/* An order without threads is the last one. */
static void *help(void *argument) {
    Helper helper = *(Helper *)argument;
    Pool *pool = helper.pool;
    free(argument);
    for (uint64_t order = next_order(pool, 0); order % (2 * MAX_COUNT); order = next_order(pool, order)) {
        int64_t threads = order % (2 * MAX_COUNT);
        if (helper.number >= threads) continue;
        pool->work(pool->job, helper.number, threads);
        if (__atomic_sub_fetch(&pool->working, 1, __ATOMIC_ACQ_REL)) continue;
        pthread_mutex_lock(&pool->lock);
        pthread_cond_signal(&pool->ended);
        pthread_mutex_unlock(&pool->lock);
    }
    leave(pool);
    return NULL;
}

static void give(Pool *pool, int64_t threads, int64_t working) {
    pthread_mutex_lock(&pool->lock);
    __atomic_store_n(&pool->working, working, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->order, (pool->order / (2 * MAX_COUNT) + 1) * (2 * MAX_COUNT) + threads, __ATOMIC_RELEASE);
    if (pool->sleeping) pthread_cond_broadcast(&pool->begun);
    pthread_mutex_unlock(&pool->lock);
}

/* Ends the pool of a thread, when the thread ends. */
static void end_pool(void *argument) {
    Pool *pool = argument;
    give(pool, 0, pool->helpers + 1);
    leave(pool);
}

/* Forgets the pool in a forked process, which has no helpers. */
static void forget_pool(void) { pthread_setspecific(key, NULL); }

static void make_key(void) {
    pthread_key_create(&key, end_pool);
    pthread_atfork(NULL, NULL, forget_pool);
}

static Pool *own_pool(void) {
    pthread_once(&key_created, make_key);
    Pool *pool = pthread_getspecific(key);
    if (pool || !(pool = calloc(1, sizeof *pool))) return pool;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->begun, NULL), pthread_cond_init(&pool->ended, NULL);
    pthread_setspecific(key, pool);
    return pool;
}

/* Starts as many helpers as wanted or as the system allows; returns their number. They begin with the next order. */
static int64_t start_helpers(Pool *pool, int64_t wanted) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (pool->helpers < wanted) {
        Helper *helper = malloc(sizeof *helper);
        pthread_t thread;
        if (!helper) break;
        *helper = (Helper){pool, pool->helpers + 1};
        if (pthread_create(&thread, &attributes, help, helper)) {
            free(helper);
            break;
        }
        pool->helpers++;
    }
    pthread_attr_destroy(&attributes);
    return pool->helpers < wanted ? pool->helpers : wanted;
}

void in_threads(int64_t threads, Work *work, const void *job) {
    Pool *pool = threads > 1 ? own_pool() : NULL;
    int64_t helpers = pool ? start_helpers(pool, (threads < MAX_COUNT ? threads : MAX_COUNT) - 1) : 0;
    if (!helpers) {
        work(job, 0, 1);
        return;
    }
    pool->work = work, pool->job = job;
    give(pool, helpers + 1, helpers);
    work(job, 0, helpers + 1);
    for (int look = 0; look < LOOKS; look++, look_again())
        if (!__atomic_load_n(&pool->working, __ATOMIC_ACQUIRE)) return;
    pthread_mutex_lock(&pool->lock);
    while (__atomic_load_n(&pool->working, __ATOMIC_ACQUIRE)) pthread_cond_wait(&pool->ended, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
#endif
