/* SPDX-License-Identifier: Apache-2.0 */
/* A replica's place among the others, kept by itself: the join loop of fleet/join.h as a driver,
 * and on the leader the admissions of replicas that ask (fleet/admit.h).
 *
 * Order of life, all on the loop's thread:
 *     replica_open -> quorum_open -> ... quorum_on_change from replica_events.on_change ...
 *     -> quorum_stop (wait for its done) -> replica_close -> quorum_close
 * The replica ends the last admissions, so it is closed in between. */
#ifndef FLEET_QUORUM_H
#define FLEET_QUORUM_H
#include "fleet/admit.h"
#include "fleet/roster.h"
#include "fleet/survey.h"
#include "obs/log.h"

struct quorum;
struct quorum_options {
    struct survey_to to;          /* its `self` is that of the entry */
    const struct log_source *log; /* may be NULL; copied */
    struct replica *replica;
    const struct roster *roster;
    struct roster_entry self; /* its id is taken from the replica */
    const char *raft;         /* our Raft address as others reach it; copied */
};
/* ERR_NOMEM, ERR_FULL (timers), ERR_INVALID (name or address), ERR_TOO_LARGE. */
enum err quorum_open(const struct quorum_options *options, struct quorum **ret_quorum,
                     struct note *note);
void quorum_on_change(struct quorum *quorum, const struct replica_status *status);
/* Asks and admits no more. done() once, at once when nothing is asked; nothing follows it. */
void quorum_stop(struct quorum *quorum, void (*done)(void *owner), void *owner);
void quorum_close(struct quorum *quorum); /* NULL is fine */

/* -- on the leader -- */
struct admission;
/* ERR_OK: a voter in its place. ERR_NOT_READY: not yet, the note says what it waits for.
 * ERR_NOT_LEADER, ERR_UNKNOWN; anything else: refused. Once, never from inside. */
typedef void admission_fn(void *owner, enum err err, const struct note *note);
/* Step by step until done or `until`. ERR_NOMEM, ERR_FULL (timers, or too many ask at once),
 * ERR_CLOSED. */
enum err quorum_admit(struct quorum *quorum, const struct admit_request *request, struct str actor,
                      mono_time until, admission_fn *done, void *owner,
                      struct admission **ret_admission);
/* Nobody waits for the answer any more; it goes on by itself. */
void admission_forget(struct admission *admission);
uint64_t quorum_leading_ms(const struct quorum *quorum); /* 0 when we do not lead */
#endif
