/* SPDX-License-Identifier: Apache-2.0 */
/* Small fleets written as text, and what a decision over one must be, as text too.
 *
 * machines  "4 gpu idle price=1 zone=z; conf gpu configured cluster=a"
 *           COUNT (ids i0, i1, …) or an ID, a SHAPE (gpu: a3-highgpu-8g with 8 of
 *           nvidia.com/gpu in us-east-1a at price 1; cpu: m5.large, cpu 4, memory 16Gi), a STATE,
 *           then: price= prob= zone= type= rack= cluster= prio= ip= rp= alloc=cpu:16,memory:32Gi
 *           capacity= idle=MS (idle since) stamp=N (bought for need N of the list, from 0)
 *           soldout (its pool, by the options so far)
 *           for=N (drained for need N) queued=bootstrap|provision|preempt|reclaim|delete:N
 *           runs=-|e|h (reported: empty, evictable, held) costs=BUCKET (of disruption)
 *           cordon=1|2 (cordoned, being emptied)
 * needs     "3 a gpu p=1000000 same=zone; 1 b cpu p=0"
 *           UNITS CLUSTER SHAPE, then: p= ib= rb= (buckets) same=KEY spread=KEY:SKEW:hard|soft
 *           group= arrival= parked any (no type asked) agg=cpu:8 min=cpu:2
 *           (zone, rack, type mean their full label names)
 * expected  words; see expect_word() in fleet.c. `ready:a+b`: only these clusters reported. The
 *           clock is at one hour. */
#ifndef TESTS_DECIDE_FLEET_H
#define TESTS_DECIDE_FLEET_H
#include "decide/oracle.h"

typedef void decider(const struct oracle_fleet *fleet, struct oracle_decision *ret_decision);

struct fleet_text {
    const char *name, *machines, *needs, *expected;
};

/* Parses, decides and compares; fails the test that runs with the name and what was seen. */
void fleet_check(const struct fleet_text *text, decider *decide);

/* Carries every action out at once: what it orders has happened when the next cycle looks. */
void fleet_apply(struct oracle_fleet *fleet, const struct oracle_decision *decision);
void fleet_parse(const struct fleet_text *text, struct oracle_fleet *ret_fleet);
void fleet_free(struct oracle_fleet *fleet);
#endif
