/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated world in one thread, from one seed: hosts with clocks, network, disks and workers. A
 * process's code runs there unchanged, because it uses only a `struct io`.
 *
 * The world decides the order of events: one queue ordered by (virtual time, order of scheduling).
 * The world does not know what the processes do. Two runs with the same seed and the same calls
 * have the same sim_hash.
 *
 * A host has a machine (power, kernel, disk, clock) and at most one process. The kernel's part of a
 * connection survives when the process is killed or stopped, and is lost in a power cut. A turn of
 * the process's loop takes no virtual time while it runs. Its cost is charged afterwards: the next
 * turn begins no earlier than the cost allows.
 *
 * The surprising rule for sim_process_ops.destroy: the memory of a dead process must still be
 * freed. destroy(state) is called on a dead host: no action reaches the network or the disk, time
 * stops, and no timer, hook or job runs. Call the same close functions as in an orderly stop. Their
 * callbacks (on_closed, done with ERR_CANCELLED, deferred tasks, posts) are delivered right after
 * destroy returns, so the last callback may free the state. A process may also free its memory at
 * once and leave streams, listeners and workers open: the world closes them without a callback.
 * Such a process must not leave tasks or posts waiting. A checker must ignore everything that the
 * process reports from here on. */
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
} sim_time; /* nanoseconds since the world was opened */

#define SIM_NEVER ((sim_time){UINT64_MAX})
enum {
    SIM_HOSTS_MAX = 64,
    SIM_NAME_CAP = 32, /* bytes of a host's name, with the closing NUL */
};

/* -- the world -- */
struct sim_options {
    uint64_t seed;
    uint64_t events_max; /* limit of events run in the world; 0 means 200 million */
    uint64_t give_up_ms; /* a connection with unanswered bytes breaks after this time; 0: 20 s */
    /* Called with every traced event. Used to study one seed. */
    void (*trace)(void *context, sim_time now, const char *host, const char *text);
    void *trace_context;
};
enum err sim_open(const struct sim_options *options, struct sim **ret_sim); /* ERR_NOMEM */
void sim_close(struct sim *sim); /* destroys every process first; accepts NULL */
sim_time sim_now(const struct sim *sim);
uint64_t sim_events(const struct sim *sim); /* number of events run so far */
uint64_t sim_hash(const struct sim *sim);   /* hash of everything that happened so far */
/* Adds a line of the caller to the trace and the hash. `host` may be NULL. */
void sim_trace(struct sim *sim, const struct sim_host *host, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* -- running -- */
enum sim_end {
    SIM_REACHED,   /* the time has passed, or the condition holds */
    SIM_LATE,      /* the time ended before the condition held */
    SIM_QUIET,     /* no event is scheduled any more */
    SIM_EXHAUSTED, /* events_max is reached */
};
bool sim_step(struct sim *sim); /* runs one event; false without events or at events_max */
enum sim_end sim_run_for(struct sim *sim, uint64_t ms);
/* Checks `holds` after every event. */
enum sim_end sim_wait(struct sim *sim, bool (*holds)(void *context), void *context, uint64_t ms);

/* -- the caller's own events (faults, workloads), embedded in the caller's struct -- */
struct sim_event;
typedef void sim_event_fn(struct sim_event *event);
struct sim_event {
    struct heap_node node;
    struct sim *sim;
    sim_event_fn *fn;
};
/* Reserves space in the queue, so that scheduling cannot fail. ERR_FULL, ERR_NOMEM. */
enum err sim_event_init(struct sim_event *event, struct sim *sim, sim_event_fn *fn);
void sim_event_deinit(struct sim_event *event);          /* a zeroed event is allowed */
void sim_event_at(struct sim_event *event, sim_time at); /* reschedules a scheduled event */
void sim_event_in(struct sim_event *event, uint64_t delay_ns);
void sim_event_cancel(struct sim_event *event);

/* -- hosts -- */
struct tls_identity;
struct sim_host_options {
    const char *name; /* letters, digits, '-' and '.'; every host resolves the name */
    /* Shown to peers if both sides of a connection passed a TLS context. TLS itself does not run in
     * virtual time: contexts are not inspected, and data is not encrypted. */
    const struct tls_identity *identity; /* borrowed for the life of the host; may be NULL */
    const char *alpn;                    /* negotiated on TLS connections; NULL: "" */
    /* Zeroed options mean a disk that keeps everything and never fails. A call costs 3 us plus 1 us
     * per KiB, a sync 50 to 500 us. The host sets the cost function and the clock. */
    struct sim_fs_options disk;
};
/* Adds a host that is on, with a working struct io and no process. The host lives as long as the
 * world. ERR_INVALID, ERR_EXISTS (name), ERR_FULL, ERR_NOMEM. */
enum err sim_host_add(struct sim *sim, const struct sim_host_options *options,
                      struct sim_host **ret_host);
/* Returns the host's io, valid for the host's life. A process's death replaces the io's objects. */
struct io *sim_host_io(struct sim_host *host);
struct sim_fs *sim_host_disk(struct sim_host *host); /* for setting the disk's fault options */

/* -- processes -- */
struct sim_process_ops {
    /* Called in a turn of the host's loop. If it fails, it must close everything that it opened. */
    enum err (*start)(struct io *io, void *context, void **ret_state);
    void (*stop)(void *state);    /* asks the process to end; called in a turn; may be NULL */
    void (*destroy)(void *state); /* frees the state; see the rules at the top of this file */
};
/* Called in start() of a process with threads (sim/threads), which must end by themselves. After
 * its death the timers fire one after another, without time passing, until none is left. */
void sim_process_drains(struct io *io);
/* Returns the io of the process whose turn or death is being run, or NULL. */
const struct io *sim_io_of_turn(void);
enum sim_death {
    SIM_KILLED,    /* SIGKILL: the kernel closes the connections; files stay */
    SIM_POWER_CUT, /* connections become silent; a peer gets a reset only after the next boot */
};
/* Starts a process, and boots the machine first if it is off. The host must have no process. Must
 * not be called inside a turn. Returns the result of start(). */
enum err sim_host_start(struct sim_host *host, const struct sim_process_ops *ops, void *context);
enum err sim_host_restart(struct sim_host *host); /* uses the last ops and context */
void sim_host_stop(struct sim_host *host);        /* calls ops->stop in a turn; does not wait */
/* Kills the process, if there is one. If called inside a turn of the host (for example in a disk
 * hook), the turn continues, but its further actions have no effect. */
void sim_host_die(struct sim_host *host, enum sim_death death);
/* Plans a sim_host_die just before the nth disk call from now; 0 cancels the plan. For tests that
 * cut the power between any two disk calls. */
void sim_host_die_at_disk_call(struct sim_host *host, uint64_t nth, enum sim_death death);
enum sim_pause {
    SIM_PAUSE_PROCESS, /* SIGSTOP: no turn or job runs; the kernel still acknowledges data */
    SIM_PAUSE_MACHINE, /* a frozen virtual machine: packets to the host are lost */
};
void sim_host_pause(struct sim_host *host, enum sim_pause pause);
void sim_host_resume(struct sim_host *host);        /* the clock jumps; no effect if not paused */
bool sim_host_running(const struct sim_host *host); /* has a process, maybe paused */
bool sim_host_paused(const struct sim_host *host);

/* -- clocks -- */
/* From now on, the host's clocks run `ppm` parts per million faster than the simulated time, or
 * slower if `ppm` is negative. At most 500,000 in either direction. */
void sim_host_clock_rate(struct sim_host *host, int32_t ppm);
/* Moves only the wall clock. The monotonic clock never jumps and never runs backwards. */
void sim_host_clock_step(struct sim_host *host, int64_t ms);
#endif
