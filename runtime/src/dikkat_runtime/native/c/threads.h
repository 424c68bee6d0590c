/* Work that several threads share. They are OpenMP's where GNU's library is there, which PyTorch computes with too: two
 * pools would take the cores from each other. Elsewhere they are a pool of our own. */
#ifndef DIKKAT_THREADS_H
#define DIKKAT_THREADS_H

#include <stdint.h>

/* What each of `count` threads does; `job` is the same for all. */
typedef void Work(const void *job, int64_t thread, int64_t count);

/* What is done for one index, by one of the threads. */
typedef void Share(const void *job, int64_t index, int64_t thread);

/* Calls `work` once in each of at most so many threads, of which the caller is the first, and waits for all of them. */
void in_threads(int64_t threads, Work *work, const void *job);

/* Calls `share` once for every index below `count`. Who is done takes the next ones, so many `together`. */
void share_out(int64_t threads, int64_t count, int64_t together, Share *share, const void *job);

/* Where threads of a team wait for each other. */
typedef struct {
    int arrived, round;
} Barrier;

void wait_at_barrier(Barrier *barrier, int64_t threads);

#endif
