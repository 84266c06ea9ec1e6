/* SPDX-License-Identifier: Apache-2.0 */
/* A heartbeat and its answer as values: rollout's two messages and their metadata (workers.md 4.2,
 * 4.3). */
#ifndef MEMBER_BEAT_H
#define MEMBER_BEAT_H
#include "base/buf.h"
#include "base/note.h"
#include "base/ulid.h"
#include "wire/message.h"

enum {
    BEAT_INSTANCE_LEN = 16,
    BEAT_LOAD_UNSAID = -1,
    BEAT_LOAD_WHOLE = 10000, /* a load of 1.0 */
};
enum beat_phase { PHASE_INIT = 1, PHASE_READY, PHASE_RUNNING, PHASE_DRAINING };
struct beat_said {
    char worker[ULID_TEXT_CAP], run[ULID_TEXT_CAP]; /* canonical form */
    struct ulid worker_ulid;
    enum beat_phase phase;
    bool has_due;
    uint64_t due_ms; /* on the worker's clock, rounded down */
    int32_t load;
    bool load_unread; /* a load was sent, but could not be parsed */
    bool has_instance;
    uint8_t instance[BEAT_INSTANCE_LEN];
    uint64_t incarnation, assignment_epoch; /* 0: not sent */
};
/* ERR_INVALID: the note begins with the name of the wrong field */
enum err beat_read(const ProtobufCMessage *message, struct beat_said *ret_said, struct note *note);
/* Reads x-worker-{load,incarnation,instance} and x-assignment-epoch; ignores other names. */
void beat_take_metadata(struct beat_said *said, struct str name, struct str value);
/* false: not 32 hex digits */
bool beat_instance_parse(struct str text, uint8_t ret_instance[BEAT_INSTANCE_LEN]);

/* One PassedBeat of a PassBeatsRequest, between replicas. `age_ms`: time since the heartbeat
 * arrived. */
enum err beat_pass_write(const struct beat_said *said, uint32_t age_ms, struct buf *into);
enum err beat_pass_read(const ProtobufCMessage *message, struct beat_said *ret_said,
                        uint32_t *ret_age_ms, struct note *note);

enum err beat_answer_write(bool has_drift, int64_t drift_ms, bool has_control, struct str control,
                           struct buf *into);
#endif
