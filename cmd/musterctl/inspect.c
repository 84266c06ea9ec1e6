/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl top, doctor, explain, needs, state-hash and provider: their options and help. What they do is in src/ctl.
 * One thread. */
#include "ctl/inspect.h"
#include "common/tables.h"
#include "ctl/doctor.h"
#include "ctl/explain.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"

const struct command top_command = {
    .name = "top",
    .summary = "the fleet on one screen, live: replicas, shards, workers, claims",
    .about =
        "Shows who leads and who is behind, each shard with its machines, its last cycle and what "
        "it could not meet, the workers with those that need a look first, and who holds which "
        "claim. Whoever does not answer is shown with the reason, the others go on; shards are "
        "asked at their own addresses, also while no coordinator answers. q leaves; the screen is "
        "given back as it was.\n"
        "MOVING counts machines that are being created, configured, drained or deleted; CALLS are "
        "those under way and those that wait. LAG is how many entries a replica's log is behind.\n"
        "With --once, or where standard output is no terminal, it prints one picture with all rows "
        "and ends: with 6 when no coordinator answered.",
    .options = &top_table,
    .examples =
        COMMAND_EXAMPLES({"musterctl top", "the fleet as it is now, and on; q leaves"},
                         {"musterctl top --every 5s --coordinator c1:7790,c2:7790,c3:7790",
                          "less often, from elsewhere"},
                         {"musterctl top --once", "one picture, whole, for a script or a ticket"}),
    .exits = BIT(6),
    CTL_OFFLINE(top_act),
};

const struct command doctor_command = {
    .name = "doctor",
    .summary = "is anything wrong with this fleet, and what to do about it",
    .about = "Looks at quorum and lag of the replicas, at each replica's readiness, clock, disk, "
             "file descriptors, certificate and build over its HTTP address, at the store's quota, "
             "the workers, domains that change hands and shards that own the same machines, each "
             "shard's last cycle and rails, and on this machine at the TLS files that are given "
             "and the disks of --data-dir. Each finding is a line: ok, warn or fail, what was "
             "seen, and after -- what to do. Nothing is changed.\n"
             "It ends with 0 when all is well, 1 when something wants a look, 2 when something is "
             "wrong. Clocks are compared with this machine's by the Date of an answer: only what "
             "the measuring cannot explain counts, a second and more.",
    .options = &doctor_table,
    .examples = COMMAND_EXAMPLES(
        {"musterctl doctor --coordinator c1:7790,c2:7790,c3:7790",
         "the whole fleet, from anywhere"},
        {"musterctl doctor --data-dir /var/lib/muster", "and how full this machine's disk is"},
        {"musterctl doctor -o json | jq '.findings[] | select(.result != \"ok\")'",
         "for a program"}),
    CTL_OFFLINE(doctor_act),
};

static const struct command need_command = {
    .name = "need",
    .summary = "what a Need asks for, got and lacks, why, and what would change it",
    .about = "Asks the shards what their last cycle decided for the Needs of a cluster, and says "
             "it in words: what it asks for, what it has, what is coming, what it lacks and why, "
             "what would change that, and what was done for the cluster lately.",
    .options = &explain_table,
    COMMAND_ARGUMENTS("CLUSTER[/WHICH]", 1, 1),
    .examples = COMMAND_EXAMPLES({"musterctl explain need cluster-a", "every Need of the cluster"},
                                 {"musterctl explain need cluster-a/2000",
                                  "the one of that priority; or of a group, or with "
                                  "these words in its fingerprint"}),
    .exits = CTL_EXITS | BIT(5),
    CTL_OFFLINE(explain_need),
};

static const struct command machine_command = {
    .name = "machine",
    .summary = "what a machine is, whom it serves, why nobody acts on it",
    .about = "Asks the shards for the machine, and says in words what state it is in, what it was "
             "bought for, what is planned, why it rests and for how long, and what was done with "
             "it lately.",
    .options = &explain_table,
    COMMAND_ARGUMENTS("MACHINE", 1, 1),
    .examples = COMMAND_EXAMPLES(
        {"musterctl explain machine m-17", "what it is, for whom, and why it is not used"}),
    .exits = CTL_EXITS | BIT(5),
    CTL_OFFLINE(explain_machine),
};

static const struct command worker_command = {
    .name = "worker",
    .summary = "how a worker stands, which partitions it has, and why",
    .about = "Says in words how a worker stands and since when, what it has, what it is to give up "
             "or waits for, why it gets no partitions, and what would change that.",
    .options = &explain_table,
    COMMAND_ARGUMENTS("WORKER", 1, 1),
    .examples = COMMAND_EXAMPLES({"musterctl explain worker 01JFEAVS7C5DE5XEAEAB91EBT6",
                                  "how it stands, what it has, and why"}),
    .exits = CTL_EXITS | BIT(5),
    CTL_ACT(explain_worker),
};

const struct command explain_command = {
    .name = "explain",
    .summary = "why is it so? A Need, a machine or a worker, in words",
    .about = "The chain of decisions behind one thing, in words, from what the parts of the fleet "
             "say of it now.",
    .children = COMMAND_CHILDREN(&need_command, &machine_command, &worker_command),
};

const struct command state_hash_command = {
    .name = "state-hash",
    .summary = "do the replicas hold the same state?",
    .about = "Asks every replica for the hashes of its state machines at one index and compares "
             "them. With one address the cluster's replicas are looked up there; with several, "
             "these are asked. Replicas that differ are a conflict (4); one that does not answer, "
             "or writes that never pause, leave it open (6).",
    .options = &ctl_table,
    .examples = COMMAND_EXAMPLES(
        {"musterctl state-hash", "of every replica of the cluster behind 127.0.0.1:7790"},
        {"musterctl state-hash --coordinator c1:7790,c2:7790,c3:7790",
         "of these, whether or not they "
         "are of one cluster"}),
    .exits = CTL_EXITS | BIT(4),
    CTL_ACT(state_hash_act),
};

const struct command needs_command = {
    .name = "needs",
    .summary = "what each Need of a shard got, and why it lacks the rest",
    .about = "Asks a shard what its last cycle decided for each Need, the most important first. "
             "HAS counts machines that serve it, COMING those begun in that cycle, SUPPLY the "
             "machines of a fitting shape, idle/speculative/configured, whoever has them (+: there "
             "are more). LACKS is what is missing still, CYCLES_UNMET for how many cycles.\n"
             "WHY, and what to do: no-matching-supply, no machine of this shape exists here: raise "
             "the quota, or ask for another shape. priority-starved, there are some, and more "
             "important Needs have them: raise the priority, or add machines. "
             "preemption-exhausted, machines were taken from others and it still is not enough. "
             "topology-unsatisfiable, no single domain can hold all of it: make the group smaller, "
             "or the domain larger; parked means that it is not tried in every cycle.\n"
             "Under TLS a certificate of bigfleet://readonly or bigfleet://admin is needed.",
    .options = &needs_table,
    .examples = COMMAND_EXAMPLES(
        {"musterctl needs --shard shard-0.example:7780", "every Need of its last cycle"},
        {"musterctl needs --cluster prod-eu-1", "one cluster's, of the shard on this machine"},
        {"musterctl needs -o json | jq '.needs[] | select(.satisfied | not)'",
         "all that is known of those that lack something, with the domains that were looked at"}),
    .exits = CTL_EXITS,
    CTL_OFFLINE(needs_act),
};

static const struct command verify_command = {
    .name = "verify",
    .summary = "does a provider keep the contract?",
    .about =
        "Tries the whole contract between shard and provider on a provider that runs, and prints "
        "each fact with what was seen; a fact that does not hold is 1.\n"
        "It works on two machines at most, and says first on which: they must be Speculative or "
        "Idle. The first is created, configured, drained, configured and drained again, and "
        "deleted; the second is created and deleted. An Idle one is configured and drained only. "
        "At the end, after an interrupt too, they are as they were; what cannot be put back is "
        "named. With nothing to work on only the reading facts are tried, and that is 4.",
    .options = &provider_verify_table,
    COMMAND_ARGUMENTS("ADDRESS", 1, 1),
    .examples = COMMAND_EXAMPLES(
        {"musterctl provider verify 127.0.0.1:7770", "a provider on this machine"},
        {"musterctl provider verify --dry-run p.example:7770", "what would it work on?"},
        {"musterctl provider verify --machine-type m5.large --wait 15m p.example:7770",
         "a cloud's, with time to create one"}),
    .exits = BIT(4) | BIT(5) | BIT(6),
    CTL_OFFLINE(provider_verify),
};
const struct command provider_command = {
    .name = "provider",
    .summary = "tries capacity providers",
    .about = "Talks to a capacity provider itself, not to a coordinator.",
    .children = COMMAND_CHILDREN(&verify_command),
};
