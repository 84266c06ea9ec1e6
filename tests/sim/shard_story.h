/* SPDX-License-Identifier: Apache-2.0 */
/* The shard under fire: the shipped shard (its provider client, sessions, provider calls, decide thread,
 * epoch and audit on disk) against a provider and operators of the world.
 *
 * The provider is a second opinion: written from docs/protocols/provider.md and nothing of
 * src/provider, in one table (`shard_book.c`) that outlives every process. What it takes it passes
 * to `shard_judge.c`, which knows what operators said and when.
 *
 * What must hold along the way, of every call the provider took:
 *   - no fencing token comes twice, and none that is not newer than the machine's mark changes it;
 *   - a blob serves one Configure, of the cluster that gave it;
 *   - a Configure carries a stamp of a Need that its cluster has said;
 *   - no cluster is given more machines of a kind than it has asked for;
 *   - no more machines are bought than are lacking;
 *   - a machine is drained only if its cluster, heard by this very process, wants fewer, or if
 *     somebody with more priority than the machine's stamp lacks one: protection survives kill -9;
 *     or if an operator of the shard ordered it;
 *   - a machine whose operator reports its drains is drained by the provider after that report, or
 *     after the grace, unless the session ended since the operator got the reclaim;
 *   - an idle machine is given back only after its hold;
 *   - a start takes and gives back no machine whose cordon an earlier start has answered.
 * "Has asked" is what an honest shard may still believe: everything that was said and not yet known
 * to be superseded for SHARD_BELIEF_MS. A call of a process that has a successor, or one that came
 * to be when its caller had given up, is a stray: the next start could not know of it, and what it
 * bought is left out of the account.
 *
 * And after everything is healed: every Need is met, by priority where there is too little; nobody
 * has a machine too many; no machine is lost (passing, failed or idle beyond its hold); operators
 * know their machines; and then nothing at all is asked of the provider for SHARD_STEADY_MS.
 *
 * Kinds of machines do not mix: each has its own instance types, all of one size, and a Need names
 * the types of one kind. So the right number of machines is a sum, and no engine is needed to judge
 * one. */
#ifndef TESTS_SIM_SHARD_STORY_H
#define TESTS_SIM_SHARD_STORY_H
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "scenario.h"

enum {
    SHARD_HOSTS = 2, /* one runs; the other takes over in some worlds */
    SHARD_OPERATORS = 3,
    SHARD_KINDS = 3, /* of machines */
    SHARD_NEEDS = 3, /* of an operator, at most */
    SHARD_MACHINES_MAX = 192,
    SHARD_MACHINE_ID_CAP = 16,
    SHARD_EPOCHS_MAX = 512,
    SHARD_SAYINGS_MAX = 2048, /* roll-ups of one operator */
    SHARD_BLOBS_MAX = 8192,
    SHARD_BELIEF_MS = 60000,
    SHARD_ASKED_KEPT = 64,
    SHARD_TROUBLE_MS = 90000,
    SHARD_STEADY_MS = 120000,
};
extern const char *const shard_addresses[]; /* of both hosts; ends with NULL */
#define SHARD_PROVIDER_ADDRESS "p:7770"

/* the wire's numbers */
enum shard_state {
    STATE_SPECULATIVE = 1,
    STATE_CREATING,
    STATE_IDLE,
    STATE_CONFIGURING,
    STATE_CONFIGURED,
    STATE_DRAINING,
    STATE_DELETING,
    STATE_FAILED,
    STATE_COUNT
};
enum shard_verb {
    VERB_CREATE,
    VERB_CONFIGURE,
    VERB_DRAIN,
    VERB_DELETE,
    VERB_GET,
    VERB_LIST,
    VERBS
};
extern const char *const shard_verb_names[VERBS];

/* Planted beside the shard, so that the judge is seen to judge. */
enum shard_bug {
    SHARD_NO_BUG,
    SHARD_CALLS_TWICE,      /* the network repeats whole calls */
    SHARD_NO_FENCES,        /* the provider lets everybody through */
    SHARD_LOST_METADATA,    /* the provider forgets shard_metadata */
    SHARD_EPOCH_FORGOTTEN,  /* the epoch is not on disk */
    SHARD_DEAF_OPERATOR,    /* an operator never hears of a machine */
    SHARD_LOST_MACHINE,     /* a Create that never ends */
    SHARD_CORDON_FORGOTTEN, /* the cordons are not on disk */
    SHARD_BUG_COUNT
};

enum shard_order_kind { ORDER_UNCORDON, ORDER_CORDON, ORDER_DRAIN }; /* as enum machine_cordon */

struct shard_story;
struct shard_kind {
    uint32_t cpu;
    const char *types[2]; /* the second one is spot; NULL: there is none */
};
extern const struct shard_kind shard_kinds[SHARD_KINDS];

/* -- what operators want -- */
struct shard_need {
    uint32_t kind, units;
    int32_t priority;                   /* no two Needs of a world share one */
    uint32_t interruption, reclamation; /* penalty buckets */
    uint32_t spare_milli;               /* of the last unit, not asked for */
};
struct shard_saying {           /* one roll-up */
    uint64_t sent_ms, acked_ms; /* acked_ms 0: nobody knows */
    uint32_t units[SHARD_NEEDS];
    uint32_t epoch; /* of the session it went out on */
};
struct shard_operator_process;
struct shard_operator {
    struct shard_story *story;
    uint32_t number;
    char cluster[8];
    struct sim_host *host;
    struct shard_operator_process *process;
    struct shard_need needs[SHARD_NEEDS];
    uint32_t need_count;
    struct shard_saying *sayings;
    uint32_t saying_count;
    struct prng demand_prng;
    struct sim_event change; /* of the demand */
    uint32_t changes;
    uint64_t asked_ms[SHARD_ASKED_KEPT]; /* for blobs; a ring */
    uint32_t asked;
    uint64_t cut_ms; /* a session ended, or packets between it and the shard were lost */
    uint64_t trouble_on_links;
    /* The last state it heard of each machine, on this session; 0: nothing. */
    uint8_t heard_states[SHARD_MACHINES_MAX];
    /* Reported on this session as running what may not be evicted; since when the shard knows. */
    bool said_held[SHARD_MACHINES_MAX];
    uint64_t held_ms[SHARD_MACHINES_MAX];
    struct shard_reclaim {
        uint64_t sent_ms, grace_ms; /* 0: never */
        uint32_t epoch;             /* of the start that sent it */
        bool drained;               /* reported */
    } reclaims[SHARD_MACHINES_MAX];
};

/* -- what the provider has -- */
struct shard_machine {
    char id[SHARD_MACHINE_ID_CAP];
    uint32_t kind;
    bool spot, removed;
    double price;
    enum shard_state state;
    int32_t cluster;     /* operator's number; -1: none */
    struct buf metadata; /* field 15, packed */
    int32_t priority;    /* it was bound with; -1: none */
    uint64_t revision, removed_at_revision;
    uint64_t operations[VERB_GET]; /* numbers; 0: none yet */
    int64_t epoch, sequence;       /* its mark */
    uint64_t due_ms;               /* of a passing state */
    bool fails;                    /* the passing state ends in Failed */
    uint64_t since_ms;             /* in this state */
    /* the judge's */
    bool stray;
    bool tried;          /* a Configure of it was tried since it became Idle, or it was drained */
    uint64_t trouble_ms; /* a call for it went wrong: the shard may take it for useless a while */
    uint64_t lost_ms;    /* it was taken from the cluster below */
    int32_t lost_by;
    bool cordoned;        /* a cordon or drain may be in effect */
    bool emptied;         /* a drain was ordered, and may go on after it was taken back */
    uint64_t emptied_ms;  /* when it was ordered */
    uint64_t cordon_sure; /* the start that answered it, which took no doubt back since; 0: none */
};
struct shard_provider_faults { /* per million; all 0 when healed */
    uint32_t fail, refuse, lose, ignore, unknown, garble, late;
    uint32_t list_empty, list_twice, list_garbage; /* of Lists, and of their records */
};
struct shard_talk_faults { /* of operators, per million */
    uint32_t blob_error, blob_never, blob_twice, hang_up;
    bool reports_drains, reports_occupancy;
};
struct shard_blob {
    uint32_t cluster;
    bool used;
};
struct shard_provider_process;
struct shard_book {
    struct shard_machine machines[SHARD_MACHINES_MAX];
    uint32_t count, supply[SHARD_KINDS];
    uint64_t revision, operations;
    /* settings of the world */
    uint64_t complete_ms[VERB_GET], latency_ms_max;
    uint32_t page, streams_max; /* 0: no pages; as many as there are */
    bool was_empty;             /* the last List: no provider says so twice by mistake */
    bool revisions, tombstones, no_delete, failed_can_be_deleted;
    struct shard_provider_faults faults;
    struct prng prng;
    /* what was taken, repeated and refused so far */
    uint64_t accepted[VERB_GET], repeated, refused, calls;
};

/* -- the world -- */
struct shard_process;
struct shard_host {
    struct shard_story *story;
    uint32_t number;
    struct sim_host *host;
    struct shard_process *process;
    bool active; /* else its process does nothing */
};
struct shard_settings { /* of the shard, drawn once */
    uint64_t cycle_ms, execute_ms, bootstrap_ms, rest_first_ms, rest_most_ms, stuck_ms;
    uint64_t hold_on_demand_ms, hold_spot_ms;
    double reclaim_fraction;
    bool incremental, audit;
    bool paused; /* until everything is healed */
    uint32_t concurrency, queue, actions_max;
};
/* A world without any trouble, whose demand only grows: what is bought in it may not depend on how
 * long a Create takes. */
struct shard_calm {
    uint64_t create_ms;
    uint64_t bought; /* filled in when the world ends */
};
struct shard_story {
    struct scenario_world *world;
    enum shard_bug bug;
    struct shard_calm *calm; /* NULL: not such a world */
    struct prng prng;
    bool healed;
    struct shard_settings settings;
    struct shard_host hosts[SHARD_HOSTS];
    struct shard_operator operators[SHARD_OPERATORS];
    struct sim_host *provider_host;
    struct shard_book book;
    struct sim_event tick, wave, handover, restart, order;
    struct prng order_prng;
    struct shard_talk_faults talk;
    uint64_t epoch;    /* of the newest process */
    uint32_t holder;   /* the host it is on */
    struct map tokens; /* that were seen */
    struct shard_blob *blobs;
    uint32_t blob_count;
    uint64_t settled_ms; /* since when; 0: not */
    uint64_t looked_ms;
    struct note why_not; /* settled, when last looked at */
    bool steady;         /* it has been for a while: nothing more is to be asked for */
    struct note wrong;
    bool is_wrong;
};
uint64_t shard_now_ms(const struct shard_story *story);
void shard_wrong(struct shard_story *story, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* -- shard_book.c -- */
void shard_book_open(struct shard_story *story);
void shard_book_close(struct shard_book *book);
void shard_book_tick(struct shard_story *story); /* passing states that are due end */
void shard_book_wave(struct shard_story *story); /* spot machines are taken away */
void shard_book_heal(struct shard_story *story);
struct shard_machine *shard_book_find(struct shard_book *book, const char *id);
struct shard_request {
    enum shard_verb verb;
    char machine[SHARD_MACHINE_ID_CAP * 4], cluster[16];
    int64_t epoch, sequence;
    struct buf metadata; /* packed; the book takes it */
    int32_t priority;
    uint32_t blob;  /* number + 1; 0: not one of ours */
    bool abandoned; /* nobody waits for the answer any more */
    bool stray;     /* set by the book: that, or of a process with a successor */
};
enum shard_take {
    TAKE_ACCEPTED,
    TAKE_REPEATED,
    TAKE_FENCED,
    TAKE_NOT_FOUND,
    TAKE_WRONG_STATE,
    TAKE_UNSUPPORTED
};
/* A mutating call is looked at. */
enum shard_take shard_book_take(struct shard_story *story, struct shard_request *request);
void shard_book_pack_machine(const struct shard_machine *machine, struct buf *into);
void shard_book_pack_ack(const struct shard_machine *machine, enum shard_verb verb,
                         struct buf *into);
struct shard_page {
    uint64_t since; /* a revision; 0: everything */
    uint64_t at;    /* the revision of the first page */
    uint32_t from;  /* number of the first machine */
};
void shard_book_pack_list(struct shard_story *story, const struct shard_page *page,
                          struct buf *into);

/* -- shard_judge.c -- */
void shard_judge_token(struct shard_story *story, int64_t epoch, int64_t sequence);
/* Before the book changes: the call is taken, and not a repeat. */
void shard_judge_taken(struct shard_story *story, const struct shard_machine *machine,
                       const struct shard_request *request);
/* Everything is as it should be, and has been for long enough. */
bool shard_judge_is_over(struct shard_story *story);

/* -- processes -- */
/* An operator orders this of the active shard; its answer is noted in the machine. */
void shard_process_order(struct shard_story *story, struct shard_machine *machine,
                         enum shard_order_kind kind);
extern const struct sim_process_ops shard_process_ops, shard_provider_ops, shard_operator_ops;
/* Looks whether packets were lost. */
void shard_operator_look(struct shard_operator *op);
/* Its demand is another from now on. */
void shard_operator_changed(struct shard_operator *op);
extern const struct scenario shard_scenario;
extern const char *const shard_bug_names[];
/* For a scenario with another open(). `calm` may be NULL; it outlives the world. */
enum err shard_story_open(struct scenario_world *world, struct shard_calm *calm, void **ret_state);
#endif
