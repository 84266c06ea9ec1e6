/* SPDX-License-Identifier: Apache-2.0 */
/* One leader with one membership and a clock that the test moves: the core as the service drives
 * it. Every command is encoded and decoded. */
#ifndef TESTS_UNIT_MEMBER_RIG_H
#define TESTS_UNIT_MEMBER_RIG_H
#include "lib/test.h"
#include "member/core/local.h"

#define RIG_MS 1000000ull
enum { RIG_STEP_MS = 10, RIG_EVENTS = 4096 };

struct rig_event { /* events in order, including the leader's own */
    enum member_topic topic;
    char worker[32], text[32];
    uint64_t incarnation, index, epoch, count, extra;
    uint32_t n, partition;
    int64_t due_ms;
};
struct rig {
    struct membership *m;
    struct member_local *local;
    struct member_local_options options;
    uint64_t now_ns, clock_ns, index, term, next_scan_ns, read;
    int64_t wall_ms;
    struct buf batch;
    struct arena arena;
    struct member_result *results;
    size_t result_count;
    struct rig_event *events;
    size_t event_count;
    size_t commands;
    struct member_in_use
        in_use; /* of the last beat or registration that was refused with "in use" */
    /* workers that beat by themselves, at their intervals */
    struct rig_beater {
        const char *id;
        enum member_phase phase;
        struct member_instance instance;
        uint64_t incarnation, next_ns;
        int64_t clock_off_ms;
        bool acks; /* releases at once what is revoked */
    } beaters[256];
    size_t beater_count;
};

/* Default rules, changed by `change`, which may be NULL. Leads at once. */
struct rig *rig_open(void (*change)(struct member_rules *rules,
                                    struct member_local_options *options));
void rig_close(struct rig *rig);
/* Another replica takes over, or the leader restarts. */
void rig_takeover(struct rig *rig);
/* Recovers after a force-config or a restore, and leads again. */
void rig_recover(struct rig *rig, uint64_t floor);
/* Restores its own snapshot, like a replica that lagged. */
void rig_reload(struct rig *rig);

struct member_result rig_op(struct rig *rig, const struct member_op *op);
struct member_op rig_of(struct rig *rig, enum member_kind kind, const char *worker);
struct member_instance rig_instance(uint8_t number); /* 0: none */
/* As the service does it: propose, apply, answer. `instance` 0: a worker without an instance. */
enum member_beat_verdict rig_beat(struct rig *rig, const char *worker, enum member_phase phase,
                                  uint8_t instance);
/* Returns MEMBER_S_CONFLICTED without a proposal when the id is in use. */
struct member_result rig_register(struct rig *rig, const char *worker, uint8_t instance);
/* Registers, sends READY, and beats by itself during rig_run. */
struct rig_beater *rig_join(struct rig *rig, const char *worker, uint8_t instance);
void rig_stop(struct rig *rig, const char *worker); /* it sends no more beats */
void rig_run(struct rig *rig, uint64_t ms);         /* moves the clock */
void rig_scan(struct rig *rig);

size_t rig_count(const struct rig *rig, enum member_topic topic, const char *worker);
/* The newest of that topic. */
const struct rig_event *rig_last(const struct rig *rig, enum member_topic topic);
void rig_forget(struct rig *rig); /* the events so far */
struct member_worker rig_worker(const struct rig *rig, const char *worker);
struct member_partition rig_partition(const struct rig *rig, uint32_t number);
uint32_t rig_owned(const struct rig *rig, const char *worker); /* OWNED by it now */
uint64_t rig_epoch(const struct rig *rig);
#endif
