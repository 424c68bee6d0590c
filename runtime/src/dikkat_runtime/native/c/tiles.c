/* Whether this process may use tiles. Linux gives their registers only to who asks, as they are large. */
#include "tiles.h"

#if HAS_TILES
#include <sys/syscall.h>
#include <unistd.h>

/* ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA of asm/prctl.h, which not all systems have. */
#define ASK_FOR 0x1023
#define TILES 18

int tiles_allowed;

__attribute__((constructor)) static void ask_for_tiles(void) { tiles_allowed = !syscall(SYS_arch_prctl, ASK_FOR, TILES); }
#endif
