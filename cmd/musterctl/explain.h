/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl explain: one file for each kind of thing that can be asked after. Every sentence stands
 * on something that a part of the fleet said in this very call; what nobody said is not guessed. */
#ifndef MUSTERCTL_EXPLAIN_H
#define MUSTERCTL_EXPLAIN_H
#include "musterctl/ctl.h"
#include "musterctl/survey.h"

ctl_fn explain_need, explain_machine, explain_worker;

/* "  has       3 machines that serve it": the label, then sentences, broken into lines. What came
 * from others is made printable. */
enum err explain_says(struct ctl *ctl, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What a shard did, out of its audit: "cycle 27: Bootstrap of m-3 for cluster-a: success; ...".
 * Lines that are not of this machine or cluster (NULL: of any) are left out, and all but the newest
 * `most`. */
enum err explain_audit(struct ctl *ctl, size_t count, char *const *lines, const char *machine,
                       const char *cluster, size_t most);
/* Shards that did not answer could know more: says who. */
enum err explain_silent_shards(struct ctl *ctl, const struct survey *survey);

/* "1.5s", "12m", into `text`. */
enum { EXPLAIN_AGE_CAP = 32 };
const char *explain_age(uint64_t ms, char text[EXPLAIN_AGE_CAP]);
/* " (did you mean x?)" or "". */
enum { EXPLAIN_HINT_CAP = 320 };
struct nearest_names {
    const char *wanted;
    char best[256];
    size_t distance;
};
void nearest_names_offer(struct nearest_names *names, const char *name);
const char *nearest_names_hint(const struct nearest_names *names, char text[EXPLAIN_HINT_CAP]);
#endif
