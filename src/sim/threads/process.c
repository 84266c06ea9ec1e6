/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes have threads, and whose turn it is. */
#include <stdlib.h>

#include "sim/sim.h"
#include "sim/threads/internal.h"

/* One world runs at a time, in one thread. */
static struct list processes = {&processes, &processes};

struct sim_threads *threads_here(void)
{
    const struct io *io = sim_io_of_turn();

    LIST_EACH(&processes, node)
    {
        struct sim_threads *p = CONTAINER_OF(node, struct sim_threads, link);
        if (p->io == io) return p;
    }
    return NULL;
}

uint64_t threads_now_ns(const struct sim_threads *p)
{
    return clock_mono_ns(p->io->clock).ns;
}

struct sim_threads *sim_threads_open(struct io *io, void (*ended)(void *owner), void *owner)
{
    struct sim_threads *p = calloc(1, sizeof *p);

    if (!p) abort();
    p->io = io;
    p->ended = ended;
    p->owner = owner;
    list_init(&p->link);
    list_init(&p->threads);
    list_init(&p->ready);
    list_init(&p->descriptors);
    post_init(&p->post, threads_run_ready);
    list_append(&processes, &p->link);
    sim_process_drains(io);
    return p;
}

void sim_threads_free(struct sim_threads *p)
{
    assert(list_empty(&p->threads) && !p->posted);
    descriptors_free(p);
    list_remove(&p->link);
    free(p);
}
