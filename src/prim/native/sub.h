/* SPDX-License-Identifier: Apache-2.0 */
/* One Watch that resumes by itself after the last revision it was told whole; loop thread only. */
#ifndef PRIM_NATIVE_SUB_H
#define PRIM_NATIVE_SUB_H
#include "prim/names.h"
#include "prim/native/client.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

struct native_sub;
/* Each may close the sub. */
struct native_sub_events {
    /* A snapshot begins: what came of another one is void. */
    void (*on_begin)(struct native_sub *sub);
    /* A part of it; the last has no `more`. */
    void (*on_snapshot)(struct native_sub *sub, const Muster__V1__WatchResponse *part);
    void (*on_changes)(struct native_sub *sub, const Muster__V1__WatchResponse *changes);
    void (*on_progress)(struct native_sub *sub, uint64_t revision); /* may be NULL */
    void (*on_gap)(struct native_sub *sub); /* events were lost; a snapshot follows */
    /* For good: a reason of UNAVAILABLE, or OTHER_STORE. It is not asked for again. */
    void (*on_refused)(struct native_sub *sub, int reason, struct str text);
};
struct native_sub {
    /* the owner's */
    const struct native_sub_events *events;
    /* its own */
    struct native_client *client;
    struct courier_stream stream;
    bool bucket;
    uint64_t next; /* the first revision it was not told whole; 0: a snapshot first */
    size_t scope_len;
    char scope[PRIM_KEY_MAX + 1];
};
enum err native_sub_init(struct native_sub *sub, struct native_client *client, struct str scope,
                         bool bucket, uint64_t next);
void native_sub_open(struct native_sub *sub);   /* asks, and again whenever it breaks */
void native_sub_pause(struct native_sub *sub);  /* nothing is told until it is opened again */
void native_sub_deinit(struct native_sub *sub); /* fine on a zeroed one */
#endif
