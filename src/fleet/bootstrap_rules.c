/* SPDX-License-Identifier: Apache-2.0 */
/* Pure functions for fleet/bootstrap.c and fleet/service_replica.c. */
#include "fleet/bootstrap_rules.h"

#include <string.h>

#include "fleet/join.h"

enum bootstrap_start bootstrap_start(const struct bootstrap_facts *facts)
{
    if (facts->has_directory || !facts->allowed) return BOOTSTRAP_NOT;
    if (!facts->has_join_address) return BOOTSTRAP_ALONE;
    return facts->ordinal == 0 ? BOOTSTRAP_ASK : BOOTSTRAP_NOT;
}

/* -- the founder -- */

/* A replica with an ordinal of `expect` or more may have no log although the cluster exists. */
static bool is_founding(const struct bootstrap_round *round, const char *name)
{
    uint64_t ordinal;
    struct note note;

    return !join_ordinal(str_from(name), &ordinal, &note) && ordinal < round->expect;
}

/* Only one promise counts per replica and per name, and none with this replica's name. */
static bool promise_counts(const struct bootstrap_round *round, size_t at)
{
    const struct bootstrap_peer *peer = &round->peers[at];

    if (peer->answer != BOOTSTRAP_PROMISED || strcmp(peer->name, round->name) == 0) return false;
    if (!is_founding(round, peer->name)) return false;
    for (size_t i = 0; i < at; i++) {
        const struct bootstrap_peer *other = &round->peers[i];
        if (other->answer != BOOTSTRAP_PROMISED) continue;
        if (other->replica_id == peer->replica_id || strcmp(other->name, peer->name) == 0)
            return false;
    }
    return true;
}

size_t bootstrap_promises(const struct bootstrap_round *round)
{
    size_t count = 0;

    for (size_t i = 0; i < round->count; i++) count += promise_counts(round, i);
    return count;
}

static size_t count_answers(const struct bootstrap_round *round, enum bootstrap_answer answer)
{
    size_t count = 0;

    for (size_t i = 0; i < round->count; i++) count += round->peers[i].answer == answer;
    return count;
}

enum bootstrap_verdict bootstrap_decide(const struct bootstrap_round *round)
{
    size_t silent = count_answers(round, BOOTSTRAP_SILENT);
    bool all_known;

    assert(round->expect > 0);
    if (count_answers(round, BOOTSTRAP_HAS_LOG)) return BOOTSTRAP_JOIN;
    if (count_answers(round, BOOTSTRAP_UNCLEAR) || count_answers(round, BOOTSTRAP_REFUSED))
        return BOOTSTRAP_WAIT;
    if (round->by_hand) return BOOTSTRAP_NOW;
    if (round->expect == 1) {
        bool waited = round->asking_ms >= BOOTSTRAP_SILENCE_MS;
        return waited || (round->count > 0 && !silent) ? BOOTSTRAP_NOW : BOOTSTRAP_WAIT;
    }
    all_known = !silent || round->count <= round->expect;
    return all_known && bootstrap_promises(round) + 1 >= round->expect ? BOOTSTRAP_NOW
                                                                       : BOOTSTRAP_WAIT;
}

/* -- the other replicas -- */

static bool identity_is_same(const struct bootstrap_identity *a, const struct bootstrap_identity *b)
{
    return a->cluster_id == b->cluster_id && a->replica_id == b->replica_id;
}

enum promise_verdict promise_decide(const struct promise_facts *facts)
{
    if (facts->asked.cluster_id == 0 || facts->asked.replica_id == 0) return PROMISE_INVALID;
    if (facts->asked.replica_id == facts->replica_id) return PROMISE_SELF;
    if (facts->has_log) return PROMISE_HAS_LOG;
    if (facts->waits) return PROMISE_RIVAL;
    if (facts->stored.cluster_id == 0) return PROMISE_STORE;
    if (identity_is_same(&facts->stored, &facts->asked)) return PROMISE_KEEP;
    return facts->replace ? PROMISE_STORE : PROMISE_TAKEN;
}
