/* SPDX-License-Identifier: Apache-2.0 */
/* Planted bugs: in a build with MUSTER_MUTANTS one of them can be switched on, to see the simulator
 * or a directed test find it. Everywhere else MUTANT(x) is 0 and the compiler removes it.
 *
 * A guard is written `if (!MUTANT(GUARD_3)) ...` beside the comment that names its defect. */
#ifndef LOG_MUTANT_H
#define LOG_MUTANT_H

/* clang-format off */
#define MUTANT_MAP(X)                                                                             \
    /* guards of the engine, by the number of their defect in docs/raft-guards.md */              \
    X(GUARD_1) X(GUARD_2) X(GUARD_3) X(GUARD_4) X(GUARD_5) X(GUARD_6) X(GUARD_7) X(GUARD_8)       \
    X(GUARD_9) X(GUARD_10) X(GUARD_11) X(GUARD_14) X(GUARD_15) X(GUARD_16) X(GUARD_17)            \
    X(GUARD_18) X(GUARD_19) X(GUARD_20) X(GUARD_21) X(GUARD_22) X(GUARD_23)                       \
    /* rules of membership; R1's is WIPED_KEEPS_IDENTITY, where identities are drawn */           \
    X(RULE_R2_UNCOMMITTED) X(RULE_R2_OWN_TERM) X(RULE_R2_MATCH) X(RULE_R2B) X(RULE_R3)            \
    /* storage */                                                                                 \
    X(ACK_BEFORE_SYNC) X(VOTE_NOT_SYNCED) X(VOTE_AFTER_SEND) X(TORN_TAIL_KEPT) X(NO_CRC)          \
    X(SALT_IGNORED) X(DAMAGE_CUT_AS_TAIL) X(TRUNCATE_FORGOTTEN) X(STALE_PERSISTED)                \
    X(SNAPSHOT_NOT_SYNCED) X(SNAPSHOT_NAME_NOT_SYNCED) X(COMPACT_BEFORE_SNAPSHOT)                 \
    X(INSTALL_KEEPS_OLD_LOG) X(WRITE_ERROR_IGNORED) X(SEGMENT_HEADER_NOT_SYNCED)                  \
    /* driver */                                                                                  \
    X(READ_WITHOUT_ROUND) X(READ_OLD_ROUND) X(READ_BEFORE_APPLIED) X(READ_BEFORE_OWN_TERM)        \
    X(REPLY_BEFORE_COMMIT) X(LOST_AS_NOT_APPLIED) X(APPLY_TWICE_AFTER_RESTORE)                    \
    X(LEVEL_IGNORED) X(WIPED_KEEPS_IDENTITY)
/* clang-format on */

enum mutant {
    MUTANT_NONE,
#define X(name) MUTANT_##name,
    MUTANT_MAP(X)
#undef X
        MUTANT_COUNT
};
#ifdef MUSTER_MUTANTS
extern enum mutant log_mutant; /* set once, before anything runs */
#define MUTANT(name) (log_mutant == MUTANT_##name)
#else
#define MUTANT(name) 0
#endif
const char *mutant_name(enum mutant mutant); /* "GUARD_3"; NULL past the last */
#endif
