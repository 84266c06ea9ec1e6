/* SPDX-License-Identifier: Apache-2.0 */
/* What a beat says, and what it is answered: rollout's two messages and the metadata beside them
 * (workers.md 4.2, 4.3), as values. Knows no worker.
 *
 * What cannot be read in the metadata is as if it were not there: a beat is a beat. Ids in the
 * message are different, a wrong one is refused by name. */
#ifndef MEMBER_BEAT_H
#define MEMBER_BEAT_H
#include "base/buf.h"
#include "base/note.h"
#include "base/ulid.h"
#include "wire/message.h"

enum {
    BEAT_INSTANCE_LEN = 16,
    BEAT_LOAD_UNSAID = -1,
    BEAT_LOAD_WHOLE = 10000, /* what a load of 1.0 is */
};
enum beat_phase { PHASE_INIT = 1, PHASE_READY, PHASE_RUNNING, PHASE_DRAINING };
struct beat_said {
    char worker[ULID_TEXT_CAP], run[ULID_TEXT_CAP]; /* canonical */
    struct ulid worker_ulid;
    enum beat_phase phase;
    bool has_due;
    uint64_t due_ms; /* by the worker's clock, cut to whole milliseconds */
    int32_t load;
    bool load_unread; /* said, and nothing that is a load */
    bool has_instance;
    uint8_t instance[BEAT_INSTANCE_LEN];
    uint64_t incarnation, assignment_epoch; /* 0: not said */
};
/* A BeatRequest that was read (its descriptor is rollout's). ERR_INVALID with a note that begins
 * with the name of the field. */
enum err beat_read(const ProtobufCMessage *message, struct beat_said *ret_said, struct note *note);
/* One of x-worker-load, x-worker-incarnation, x-worker-instance, x-assignment-epoch; any other name
 * is ignored. */
void beat_take_metadata(struct beat_said *said, struct str name, struct str value);
/* 32 hex digits; false: it is none. */
bool beat_instance_parse(struct str text, uint8_t ret_instance[BEAT_INSTANCE_LEN]);

/* Beats between replicas: one PassedBeat of a PassBeatsRequest. `age_ms`: since it came. */
enum err beat_pass_write(const struct beat_said *said, uint32_t age_ms, struct buf *into);
enum err beat_pass_read(const ProtobufCMessage *message, struct beat_said *ret_said,
                        uint32_t *ret_age_ms, struct note *note);

/* A BeatResponse. `control` is an encoded ControlPush; empty with `has_control` false. */
enum err beat_answer_write(bool has_drift, int64_t drift_ms, bool has_control, struct str control,
                           struct buf *into);
#endif
