/* Whether this process may use tiles. Linux gives a process their large registers on request only. */
#include "tiles.h"

#if HAS_TILES
#include <sys/syscall.h>
#include <unistd.h>

/* ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA of asm/prctl.h, which not all systems have. */
#define REQUEST_PERMISSION 0x1023
#define TILES 18

int tiles_allowed;

__attribute__((constructor)) static void request_tiles(void) { tiles_allowed = !syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILES); }
#endif
