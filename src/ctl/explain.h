/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl explain: one file for each kind of object. Every sentence comes from an answer of the
 * fleet. Functions that print take the answers as arguments, so tests need no fleet. */
#ifndef CTL_EXPLAIN_H
#define CTL_EXPLAIN_H
#include "ctl/ctl.h"
#include "ctl/survey.h"
#include "wire/pb/bigfleet_v1alpha1_shardread.pb-c.h"

enum { EXPLAIN_JSON_MAX = 64 * 1024 };
ctl_fn explain_need, explain_machine, explain_worker;

/* -- what is said -- */

/* `shard` is the status of the machine's shard. */
void explain_machine_say(struct ctl *ctl, const Muster__V1__ShardMachineResponse *machine,
                         const Muster__V1__ShardStatusResponse *shard);
/* One Need, as a shard decided it in the cycle that ended `age_ms` ago. */
struct explain_cycle {
    const char *shard;
    const Muster__V1__ShardStatusResponse *said;
    int64_t number;
    uint64_t age_ms;
};
void explain_need_say(struct ctl *ctl, const struct explain_cycle *cycle,
                      const Bigfleet__V1alpha1__NeedView *need);
void explain_worker_say(struct ctl *ctl, const Muster__V1__Worker *worker,
                        const Muster__V1__ListPartitionsResponse *partitions,
                        const Muster__V1__ClusterStatusResponse *status);

/* -- for those files -- */

/* Prints "  has       3 machines that serve it": a label, then sentences with line breaks. Control
 * characters are escaped. */
void explain_says(struct ctl *ctl, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints the newest `most` actions in a shard's audit log, for `cluster` (NULL: all), such as
 * "cycle 27: Bootstrap of m-3 for cluster-a: success; ...". */
void explain_audit(struct ctl *ctl, size_t count, char *const *lines, const char *cluster,
                   size_t most);

/* Asks every shard for its status, then calls `look` to find the object `wanted` in the answers. */
typedef enum err explain_look_fn(struct ctl *ctl, struct ctl_survey *survey, const char *wanted);
enum err explain_with_shards(struct ctl *ctl, explain_look_fn *look);

/* Writes an age such as "1.5s" or "12m" into `text`. */
enum { EXPLAIN_AGE_CAP = 32 };
const char *explain_age(uint64_t ms, char text[EXPLAIN_AGE_CAP]);
/* Makes the hint " (did you mean x?)", or "" if no name is similar. */
enum { EXPLAIN_HINT_CAP = 320 };
struct nearest_names {
    const char *wanted;
    char best[256];
    size_t distance;
};
void nearest_names_offer(struct nearest_names *names, const char *name);
const char *nearest_names_hint(const struct nearest_names *names, char text[EXPLAIN_HINT_CAP]);
#endif
