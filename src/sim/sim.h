/* SPDX-License-Identifier: Apache-2.0 */
/* A world in one thread, from one seed: hosts with clocks, a network, disks and workers, on which a
 * whole process's logic runs unchanged because it sees nothing but a `struct io`.
 *
 * Decides in which order things happen: one queue of events ordered by (virtual time, order of
 * scheduling), nothing else. Refuses to know what the processes do. Two runs from the same seed and
 * the same calls give the same sim_hash, byte for byte.
 *
 * A host has a machine (power, kernel, disk, clock) and at most one process on it. The kernel part
 * of a connection lives on when the process is killed or stopped, and dies with the power. A turn
 * of the process's loop takes no virtual time while it runs; what it cost is charged afterwards, as
 * the earliest moment of its next turn.
 *
 * The surprising rule for sim_process_ops.destroy: when a process dies its memory
 * must still be given back. destroy(state) is called on a dead host: nothing it does reaches the
 * network or the disk, time stops, no timer fires, no hook and no job runs. Call the same
 * close functions as in an orderly stop. What they answer by callback (on_closed, done with
 * ERR_CANCELLED, deferred tasks, posts) is delivered right after destroy returns, so a state that
 * is freed by the last of these callbacks is fine. A process may also free its memory at once and
 * leave its streams, listeners and workers unclosed: the world takes those back without a callback.
 * It must not then leave tasks or posts waiting, and nothing it reports to a checker from here on may
 * count. */
#ifndef SIM_SIM_H
#define SIM_SIM_H
#include "base/heap.h"
#include "base/note.h"
#include "base/prng.h"
#include "io/io.h"
#include "sim/sim_fs.h"

struct sim;
struct sim_host;
typedef struct {
    uint64_t ns;
} sim_time; /* of the world, since it was opened */

#define SIM_NEVER ((sim_time){UINT64_MAX})
enum {
    SIM_HOSTS_MAX = 64,
    SIM_NAME_CAP = 32, /* of a host, closing NUL included */
};

/* -- the world -- */
struct sim_options {
    uint64_t seed;
    uint64_t events_max; /* over the world's life; 0: 200 million */
    uint64_t give_up_ms; /* a connection with unanswered bytes dies after; 0: 20 s */
    /* Called with every traced event; for a person who looks at one seed. */
    void (*trace)(void *context, sim_time now, const char *host, const char *text);
    void *trace_context;
};
enum err sim_open(const struct sim_options *options, struct sim **ret_sim); /* ERR_NOMEM */
void sim_close(struct sim *sim); /* every process is destroyed first; NULL is fine */
sim_time sim_now(const struct sim *sim);
uint64_t sim_events(const struct sim *sim); /* run so far */
uint64_t sim_hash(const struct sim *sim);   /* of everything that happened so far */
/* Puts a fact of the caller's into the trace and the hash. `host` may be NULL. */
void sim_trace(struct sim *sim, const struct sim_host *host, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* -- running -- */
enum sim_end {
    SIM_REACHED,   /* the time, or what was waited for */
    SIM_LATE,      /* the time came before what was waited for */
    SIM_QUIET,     /* nothing is scheduled any more */
    SIM_EXHAUSTED, /* events_max */
};
bool sim_step(struct sim *sim); /* one event; false when there is none or at events_max */
enum sim_end sim_run_for(struct sim *sim, uint64_t ms);
/* Looks at `holds` after every event. */
enum sim_end sim_wait(struct sim *sim, bool (*holds)(void *context), void *context, uint64_t ms);

/* -- the caller's own events (faults, workloads), embedded in the caller's struct -- */
struct sim_event;
typedef void sim_event_fn(struct sim_event *event);
struct sim_event {
    struct heap_node node;
    struct sim *sim;
    sim_event_fn *fn;
};
/* Room in the queue is taken here, so scheduling cannot fail. ERR_FULL, ERR_NOMEM. */
enum err sim_event_init(struct sim_event *event, struct sim *sim, sim_event_fn *fn);
void sim_event_deinit(struct sim_event *event);          /* fine on a zeroed one */
void sim_event_at(struct sim_event *event, sim_time at); /* a scheduled one is moved */
void sim_event_in(struct sim_event *event, uint64_t delay_ns);
void sim_event_cancel(struct sim_event *event);

/* -- hosts -- */
struct tls_identity;
struct sim_host_options {
    const char *name; /* letters, digits, '-' and '.'; resolved by every host */
    /* Shown to peers when both sides of a connection passed a TLS context. TLS itself does not run
     * in virtual time: contexts are not looked into, and what is sent is not encrypted. */
    const struct tls_identity *identity; /* borrowed for the life of the host; may be NULL */
    const char *alpn;                    /* agreed on TLS connections; NULL: "" */
    /* Zero: a disk that keeps everything and never fails. Costs, when all are zero: 3 us a call, 1
     * us a KiB, a sync 50..500 us. The cost function and the clock are the host's. */
    struct sim_fs_options disk;
};
/* The host is on, with a working struct io and no process. ERR_INVALID, ERR_EXISTS (name),
 * ERR_FULL, ERR_NOMEM. It lives as long as the world. */
enum err sim_host_add(struct sim *sim, const struct sim_host_options *options,
                      struct sim_host **ret_host);
/* The same pointer for the life of the host; what it leads to is new after every death. */
struct io *sim_host_io(struct sim_host *host);
struct sim_fs *sim_host_disk(struct sim_host *host); /* for its fault switches, see sim_fs.h */

/* -- processes -- */
struct sim_process_ops {
    /* In a turn of the host's loop. On failure everything it opened must be closed again. */
    enum err (*start)(struct io *io, void *context, void **ret_state);
    void (*stop)(void *state);    /* please finish, in a turn; may be NULL */
    void (*destroy)(void *state); /* see the top of this file */
};
/* Of a process that can only be waited for, since it has threads (sim/threads), called in its
 * start(): when it is dead its timers ring one after another, in no time, until none is left. */
void sim_process_drains(struct io *io);
/* Whose turn it is, or whose end; NULL: nobody's. */
const struct io *sim_io_of_turn(void);
enum sim_death {
    SIM_KILLED,    /* SIGKILL: the kernel ends its connections, files stay */
    SIM_POWER_CUT, /* silence; a peer hears a reset only after the next boot */
};
/* Boots the machine if it is off, then starts a process. A host without one only; not from inside a
 * turn. Answers what start() did. */
enum err sim_host_start(struct sim_host *host, const struct sim_process_ops *ops, void *context);
enum err sim_host_restart(struct sim_host *host); /* with the last ops and context */
void sim_host_stop(struct sim_host *host);        /* calls ops->stop in a turn; then wait, kill */
/* Works with or without a process. From inside a turn of the host (say, a disk hook) the process
 * runs on to the end of that turn, and nothing it does from here on is seen by anyone. */
void sim_host_die(struct sim_host *host, enum sim_death death);
/* The same, just before the nth disk call from now, in the middle of whatever makes it; 0 disarms.
 * For sweeps that cut the power between any two calls. */
void sim_host_die_at_disk_call(struct sim_host *host, uint64_t nth, enum sim_death death);
enum sim_pause {
    SIM_PAUSE_PROCESS, /* SIGSTOP: no turns, no jobs; the kernel still acknowledges */
    SIM_PAUSE_MACHINE, /* a frozen virtual machine: packets for it are lost */
};
void sim_host_pause(struct sim_host *host, enum sim_pause pause);
void sim_host_resume(struct sim_host *host);        /* time has jumped for it; fine when running */
bool sim_host_running(const struct sim_host *host); /* it has a process; perhaps a paused one */
bool sim_host_paused(const struct sim_host *host);

/* -- clocks -- */
/* How much faster (or slower) than the world this host's clocks run from now on, in parts per
 * million, at most 500,000 either way. */
void sim_host_clock_rate(struct sim_host *host, int32_t ppm);
/* Moves the wall clock only; the monotonic clock never steps and never runs back. */
void sim_host_clock_step(struct sim_host *host, int64_t ms);
int64_t sim_host_wall_error_ms(const struct sim_host *host); /* against the world's true time */
#endif
