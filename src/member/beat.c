/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes heartbeats and their metadata, encodes the responses. Stateless. Metadata that cannot be
 * read is ignored; an invalid id is refused with its field's name. */
#include "member/beat.h"

#include <math.h>
#include <stdlib.h>

#include "base/hex.h"
#include "wire/pack.h"
#include "wire/pb/muster_v1_member.pb-c.h"
#include "wire/pb/rollout_transport.pb-c.h"

enum { LOAD_TEXT_MAX = 31 };

/* -- ids in the message -- */

static enum err take_id(const char *field, struct str text, char ret_text[ULID_TEXT_CAP],
                        struct ulid *ret_ulid, struct note *note)
{
    enum err err = ulid_parse(text, ret_ulid, note);

    if (err) {
        note_prefix(note, "%s", field);
        return ERR_INVALID;
    }
    ulid_text(ret_ulid, ret_text);
    return ERR_OK;
}

static enum beat_phase phase_of(int64_t state)
{
    return state >= PHASE_INIT && state <= PHASE_DRAINING ? (enum beat_phase)state : PHASE_INIT;
}

/* -- the BeatRequest -- */

/* Negative parts count as 0. A time beyond any clock becomes the maximum instead of wrapping
 * around. */
static uint64_t due_ms(int64_t seconds, int32_t nanos)
{
    uint64_t whole = seconds > 0 ? (uint64_t)seconds : 0;

    if (whole > INT64_MAX / MS_PER_SECOND - 3) return INT64_MAX;
    return whole * MS_PER_SECOND + (nanos > 0 ? (uint64_t)nanos / (uint64_t)NS_PER_MS : 0);
}

enum err beat_read(const ProtobufCMessage *message, struct beat_said *ret_said, struct note *note)
{
    const Rollout__Transport__V1__BeatRequest *m = (const void *)message;
    struct ulid run;
    enum err err;

    *ret_said = (struct beat_said){.phase = phase_of(m->state), .load = BEAT_LOAD_UNSAID};
    err = take_id("worker_id", str_from(m->worker_id), ret_said->worker, &ret_said->worker_ulid,
                  note);
    if (!err) err = take_id("run_id", str_from(m->run_id), ret_said->run, &run, note);
    if (!err && m->due_at) {
        ret_said->has_due = true;
        ret_said->due_ms = due_ms(m->due_at->seconds, m->due_at->nanos);
    }
    return err;
}

/* -- metadata -- */

static bool load_parse(struct str text, int32_t *ret_load)
{
    char copy[LOAD_TEXT_MAX + 1], *end;
    double value;

    if (text.len == 0 || text.len > LOAD_TEXT_MAX) return false;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    value = strtod(copy, &end);
    if (end != copy + text.len || !(value >= 0.0 && value <= 1.0)) return false;
    *ret_load = (int32_t)lround(value * BEAT_LOAD_WHOLE);
    return true;
}

bool beat_instance_parse(struct str text, uint8_t ret_instance[BEAT_INSTANCE_LEN])
{
    if (text.len != (size_t)2 * BEAT_INSTANCE_LEN) return false;
    for (size_t i = 0; i < BEAT_INSTANCE_LEN; i++) {
        int high = hex_value(text.at[2 * i]), low = hex_value(text.at[2 * i + 1]);

        if (high < 0 || low < 0) return false;
        ret_instance[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

void beat_take_metadata(struct beat_said *said, struct str name, struct str value)
{
    if (str_equal(name, STR("x-worker-load")))
        said->load_unread = !load_parse(value, &said->load);
    else if (str_equal(name, STR("x-worker-incarnation")))
        (void)str_to_u64(value, &said->incarnation);
    else if (str_equal(name, STR("x-worker-instance")))
        said->has_instance = beat_instance_parse(value, said->instance);
    else if (str_equal(name, STR("x-assignment-epoch")))
        (void)str_to_u64(value, &said->assignment_epoch);
}

/* -- heartbeats passed between replicas -- */

enum err beat_pass_write(const struct beat_said *said, uint32_t age_ms, struct buf *into)
{
    struct pack pack = {into, ERR_OK};

    pack_text(&pack, 1, str_of(said->worker, ULID_LEN));
    pack_text(&pack, 2, str_of(said->run, ULID_LEN));
    pack_u64(&pack, 3, said->has_due);
    pack_u64(&pack, 4, said->due_ms);
    pack_u64(&pack, 5, said->phase);
    pack_u64(&pack, 6, (uint64_t)(said->load + 1));
    pack_u64(&pack, 7, said->incarnation);
    if (said->has_instance) pack_bytes(&pack, 8, str_of(said->instance, sizeof said->instance));
    pack_u64(&pack, 9, said->assignment_epoch);
    pack_u64(&pack, 10, age_ms);
    return pack.err;
}

enum err beat_pass_read(const ProtobufCMessage *message, struct beat_said *ret_said,
                        uint32_t *ret_age_ms, struct note *note)
{
    const Muster__V1__PassedBeat *m = (const void *)message;
    struct ulid run;
    enum err err;

    *ret_said = (struct beat_said){
        .phase = phase_of(m->state),
        .has_due = m->has_due_at,
        .due_ms = min_u64(m->due_at_ms, INT64_MAX),
        .load = m->load && m->load <= BEAT_LOAD_WHOLE + 1 ? (int32_t)m->load - 1 : BEAT_LOAD_UNSAID,
        .incarnation = m->incarnation,
        .assignment_epoch = m->assignment_epoch,
        .has_instance = m->instance.len == BEAT_INSTANCE_LEN,
    };
    *ret_age_ms = m->age_ms;
    if (ret_said->has_instance)
        memcpy(ret_said->instance, m->instance.data, sizeof ret_said->instance);
    err = take_id("worker_id", str_of(m->worker_id.data, m->worker_id.len), ret_said->worker,
                  &ret_said->worker_ulid, note);
    return err ? err
               : take_id("run_id", str_of(m->run_id.data, m->run_id.len), ret_said->run, &run,
                         note);
}

/* -- the BeatResponse -- */

enum err beat_answer_write(bool has_drift, int64_t drift_ms, bool has_control, struct str control,
                           struct buf *into)
{
    struct pack pack = {into, ERR_OK};

    if (has_drift) { /* in a Duration, seconds and nanoseconds have the same sign */
        char bytes[4 * PACK_VARINT_MAX];
        struct buf duration = {.data = bytes, .cap = sizeof bytes, .max = sizeof bytes};
        struct pack inner = {&duration, ERR_OK};

        pack_i64(&inner, 1, drift_ms / (int64_t)MS_PER_SECOND);
        pack_i64(&inner, 2, drift_ms % (int64_t)MS_PER_SECOND * (int64_t)NS_PER_MS);
        pack_row(&pack, 1, &inner);
    }
    if (has_control) pack_bytes(&pack, 2, control);
    return pack.err;
}
