/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a history and says, rule by rule, whether a store that keeps its contract could have
 * answered so. Complains only about what cannot have been: what overlaps has no order, and a call
 * without an answer may have been done at any time later, or never.
 *
 *   grants   no more live holders than slots and one in each; tokens grow; no revision twice or
 *            falling; EXPIRED is final (tests/conformance/checker.h)
 *   early    no lease is over before its TTL has passed since the sending of its last answered
 *            renewal: not in an answer, not in a watch
 *   check    check() says yes only within that time; that it was true then is part of the rules
 *            keys and slots, so holders that obey it are never too many
 *   keys     the calls on each key have an order (linear.h, models.h), reads of `latest` among them
 *   slots    so do those on each group, with lists of holders
 *   watches  each tells a snapshot and then every change of its bucket once, in order, none left
 *            out, over any number of reconnects; all tell the same, and what clients did
 *   stale    a serializable read finds what was written, in the past; who reads from one process
 *            of one replica never goes back, over all keys
 *
 * A group is a key that was acquired; the keys of its slots are <group>/slot-0000 and on. */
#ifndef TESTS_HISTORY_JUDGE_H
#define TESTS_HISTORY_JUDGE_H
#include "history.h"

enum judge_rule {
    JUDGE_GRANTS,
    JUDGE_EARLY,
    JUDGE_CHECK,
    JUDGE_KEYS,
    JUDGE_SLOTS,
    JUDGE_WATCHES,
    JUDGE_STALE,
    JUDGE_RULE_COUNT
};
enum judge_verdict {
    JUDGE_GOOD,
    JUDGE_BAD,
    JUDGE_GAVE_UP, /* the search for an order was too long: neither good nor bad */
};
struct judge_result {
    enum judge_verdict verdict;
    size_t looked_at; /* calls or events that the rule is about */
    uint64_t steps;   /* of a search */
    struct note why;
};
enum { JUDGE_STEPS_MAX = 2 * 1000 * 1000 };
const char *judge_rule_name(enum judge_rule rule);
/* Fills in what the history tells about calls without an answer (their revisions and slots, where
 * somebody saw what they wrote): once, after hist_seal and before the rules. */
void judge_learn(struct hist *h);
void judge_run(const struct hist *h, enum judge_rule rule, uint64_t steps_max,
               struct judge_result *ret_result);

/* -- the rules' own -- */
void judge_bad(struct judge_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* the first complaint stays */
void judge_grants(const struct hist *h, struct judge_result *result);
void judge_early(const struct hist *h, struct judge_result *result);
void judge_check(const struct hist *h, struct judge_result *result);
void judge_orders(const struct hist *h, bool groups, uint64_t steps_max,
                  struct judge_result *result);
void judge_watches(const struct hist *h, struct judge_result *result);
void judge_stale(const struct hist *h, struct judge_result *result);
#endif
