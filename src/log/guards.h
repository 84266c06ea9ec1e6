/* What libraft 0.22.1 does wrong, and what stands between it and us. One guard per defect, all in
 * guards.c; the numbers are those of docs/raft-guards.md, which also names each guard's test.
 *
 * Guards change what goes into raft_step and what comes out of it, never a field of the library.
 * They keep the little state they need here. Pure. */
#ifndef LOG_GUARDS_H
#define LOG_GUARDS_H
#include <raft.h>

#include "base/time.h"
#include "log/engine.h"

struct guards {
    uint32_t election_ms, heartbeat_ms;
    mono_time leader_seen; /* 15: last append or install of a term at least ours; 0: none */
    uint64_t own_vote, own_vote_term; /* 15: a vote given although we are no voter */
    mono_time not_before;             /* 7: when the engine wants a time-out that changes nothing */
    bool timeout_now;                 /* 14: this step is the receipt of one */
};
#endif
