/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's answer to a replica that asks to join: each rule as a row, then sequences in which
 * every step is applied. */
#include "fleet/admit.h"

#include <stdio.h>
#include <string.h>

#include "base/prng.h"
#include "lib/test.h"

enum { CLUSTER = 99, OLD = 10, NEW = 20, LEADER = 1, OTHER = 2 };

struct stage {
    struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t count;
    struct roster *roster;
    struct admit_view view;
};

static void roster_do(struct roster *roster, struct roster_command command)
{
    struct state_machine machine = roster_registration(roster);
    struct machine_entry at = {.version = 1};
    struct buf bytes, reply;

    buf_init(&bytes, ROSTER_COMMAND_MAX);
    buf_init(&reply, 8);
    CHECK_OK("encode", roster_encode(&command, &bytes));
    at.command = buf_peek(&bytes);
    CHECK_OK("known", machine.ops->apply(machine.state, &at, &reply, NULL));
    CHECK_OK("applied", roster_reply(buf_peek(&reply)));
    buf_deinit(&bytes);
    buf_deinit(&reply);
}

static struct roster_entry named(uint64_t id, const char *name)
{
    struct roster_entry entry = {.id = id};
    snprintf(entry.name, sizeof entry.name, "%s", name);
    snprintf(entry.grpc, sizeof entry.grpc, "%s:7790", name);
    return entry;
}

static struct replica_member *join_stage(struct stage *s, uint64_t id, const char *name,
                                         const char *address, enum member_role role)
{
    struct replica_member *member = &s->members[s->count++];
    *member = (struct replica_member){.id = id, .role = role, .match = 100, .silent_ms = 10};
    snprintf(member->address, sizeof member->address, "%s", address);
    if (name) roster_do(s->roster, (struct roster_command){ROSTER_PUT, named(id, name)});
    s->view.member_count = s->count;
    return member;
}

static void open_stage(struct stage *s)
{
    *s = (struct stage){.count = 0};
    CHECK_OK("open", roster_open(&s->roster));
    s->view = (struct admit_view){.cluster_id = CLUSTER,
                                  .commit = 100,
                                  .leading_ms = 60000,
                                  .members = s->members,
                                  .roster = s->roster};
    join_stage(s, LEADER, "node-0", "a:1", MEMBER_VOTER)->self = true;
    s->members[0].leader = true;
    s->members[0].silent_ms = 0;
    join_stage(s, OTHER, "node-1", "b:1", MEMBER_VOTER);
}

static void close_stage(struct stage *s)
{
    roster_close(s->roster);
}

static struct admit_request request_of(uint64_t id, const char *name, const char *raft)
{
    struct admit_request request = {.entry = named(id, name)};
    snprintf(request.raft, sizeof request.raft, "%s", raft);
    return request;
}

static void check_step(const char *why, struct admit_step got, enum admit_kind kind,
                       enum member_change_kind change, uint64_t id)
{
    CHECK_I64(why, got.kind, kind);
    if (kind == ADMIT_CHANGE) CHECK_I64(why, got.change, change);
    if (kind == ADMIT_CHANGE || kind == ADMIT_FORGET) CHECK_U64(why, got.id, id);
    if (kind == ADMIT_WAIT || kind == ADMIT_REFUSE) CHECK(why, got.note.text[0] != '\0');
}

static struct admit_step ask(struct stage *s, struct admit_request request)
{
    return admit_next(&s->view, &request);
}

TEST(impossible_requests_are_refused)
{
    struct stage s;
    struct admit_request request;

    open_stage(&s);
    request = request_of(0, "node-2", "c:1");
    check_step("no identity", ask(&s, request), ADMIT_REFUSE, 0, 0);
    request = request_of(NEW, "", "c:1");
    check_step("no name", ask(&s, request), ADMIT_REFUSE, 0, 0);
    request = request_of(NEW, "node-2", "");
    check_step("no address", ask(&s, request), ADMIT_REFUSE, 0, 0);
    request = request_of(NEW, "node-2", "c:1");
    request.cluster_id = CLUSTER + 1;
    check_step("of another cluster", ask(&s, request), ADMIT_REFUSE, 0, 0);
    CHECK_ERR("the reason", ask(&s, request).err, ERR_PRECONDITION);
    request.cluster_id = CLUSTER;
    check_step("of this one", ask(&s, request), ADMIT_ENTER, 0, 0);
    close_stage(&s);
}

TEST(a_newcomer_is_entered_added_waited_for_and_promoted)
{
    struct stage s;
    struct admit_request request = request_of(NEW, "node-2", "c:1");
    struct replica_member *member;

    open_stage(&s);
    check_step("first the roster", ask(&s, request), ADMIT_ENTER, 0, 0);
    roster_do(s.roster, (struct roster_command){ROSTER_PUT, request.entry});
    check_step("then a learner", ask(&s, request), ADMIT_CHANGE, CHANGE_ADD, NEW);
    member = join_stage(&s, NEW, NULL, "c:1", MEMBER_LEARNER);
    member->silent_ms = UINT64_MAX;
    check_step("that answers", ask(&s, request), ADMIT_WAIT, 0, 0);
    member->silent_ms = 1;
    s.view.commit = 100 + ADMIT_CATCH_UP_MAX + 1;
    check_step("and has caught up", ask(&s, request), ADMIT_WAIT, 0, 0);
    s.view.commit--;
    check_step("is promoted", ask(&s, request), ADMIT_CHANGE, CHANGE_PROMOTE, NEW);
    member->role = MEMBER_VOTER;
    check_step("and done", ask(&s, request), ADMIT_DONE, 0, 0);
    request.entry.http[0] = 'x';
    check_step("another HTTP address", ask(&s, request), ADMIT_ENTER, 0, 0);
    close_stage(&s);
}

TEST(one_that_moved_is_rewritten_in_place_the_leader_too)
{
    struct stage s;
    open_stage(&s);
    check_step("a follower", ask(&s, request_of(OTHER, "node-1", "b:2")), ADMIT_CHANGE,
               CHANGE_ADDRESS, OTHER);
    check_step("the leader", ask(&s, request_of(LEADER, "node-0", "a:2")), ADMIT_CHANGE,
               CHANGE_ADDRESS, LEADER);
    check_step("to where another is", ask(&s, request_of(OTHER, "node-1", "a:1")), ADMIT_WAIT, 0,
               0);
    close_stage(&s);
}

/* `where` "" is nowhere. */
static void meet(struct stage *s, size_t at, const char *where)
{
    snprintf(s->members[at].met_at, sizeof s->members[at].met_at, "%s", where);
}

TEST(an_address_of_another_goes_to_the_member_that_is_met_there)
{
    static const struct {
        const char *why, *mover_met, *other_met;
        enum admit_kind want;
    } cases[] = {
        {"they changed places", "c:1", "b:1", ADMIT_CHANGE},
        {"the other is gone", "c:1", "", ADMIT_CHANGE},
        {"it only says so", "", "", ADMIT_WAIT},
        {"it is met where it was", "b:1", "", ADMIT_WAIT},
        {"the other is there", "b:1", "c:1", ADMIT_WAIT},
        {"both are: a name of two machines", "c:1", "c:1", ADMIT_WAIT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct stage s;
        open_stage(&s);
        join_stage(&s, OLD, "node-2", "c:1", MEMBER_VOTER);
        meet(&s, 1, cases[i].mover_met);
        meet(&s, 2, cases[i].other_met);
        check_step(cases[i].why, ask(&s, request_of(OTHER, "node-1", "c:1")), cases[i].want,
                   CHANGE_TAKE, OTHER);
        close_stage(&s);
    }
}

TEST(a_lost_disk_at_another_address_catches_up_before_the_dead_member_is_removed)
{
    struct stage s;
    struct admit_request request = request_of(NEW, "node-2", "c:2");

    open_stage(&s);
    join_stage(&s, OLD, "node-2", "c:1", MEMBER_VOTER)->silent_ms = ADMIT_SILENT_MS;
    check_step("entered", ask(&s, request), ADMIT_ENTER, 0, 0);
    roster_do(s.roster, (struct roster_command){ROSTER_PUT, request.entry});
    check_step("added", ask(&s, request), ADMIT_CHANGE, CHANGE_ADD, NEW);
    join_stage(&s, NEW, NULL, "c:2", MEMBER_LEARNER)->match = 0;
    s.view.commit = 5000;
    check_step("caught up", ask(&s, request), ADMIT_WAIT, 0, 0);
    s.members[3].match = 5000;
    check_step("the dead one removed", ask(&s, request), ADMIT_CHANGE, CHANGE_REMOVE, OLD);
    s.members[2] = s.members[3];
    s.view.member_count = s.count = 3;
    check_step("promoted", ask(&s, request), ADMIT_CHANGE, CHANGE_PROMOTE, NEW);
    s.members[2].role = MEMBER_VOTER;
    check_step("forgotten", ask(&s, request), ADMIT_FORGET, 0, OLD);
    roster_do(s.roster, (struct roster_command){ROSTER_FORGET, {.id = OLD}});
    check_step("done", ask(&s, request), ADMIT_DONE, 0, 0);
    close_stage(&s);
}

TEST(a_lost_disk_at_its_old_address_takes_the_place_of_the_dead_one)
{
    struct stage s;
    struct admit_request request = request_of(NEW, "node-2", "c:1");

    open_stage(&s);
    join_stage(&s, OLD, "node-2", "c:1", MEMBER_VOTER)->silent_ms = UINT64_MAX;
    roster_do(s.roster, (struct roster_command){ROSTER_PUT, request.entry});
    check_step("two never share an address", ask(&s, request), ADMIT_CHANGE, CHANGE_REMOVE, OLD);
    s.view.member_count = s.count = 2;
    check_step("then it is added", ask(&s, request), ADMIT_CHANGE, CHANGE_ADD, NEW);
    close_stage(&s);
}

TEST(a_name_whose_holder_answers_is_not_taken)
{
    static const struct {
        const char *why;
        uint64_t silent_ms, leading_ms;
        enum admit_kind want;
    } cases[] = {
        {"it answers", 100, 60000, ADMIT_WAIT},
        {"silent a little", ADMIT_SILENT_MS - 1, 60000, ADMIT_WAIT},
        {"silent for long", ADMIT_SILENT_MS, 60000, ADMIT_ENTER},
        {"never heard, but we lead since a moment", UINT64_MAX, 100, ADMIT_WAIT},
        {"never heard in all the time we lead", UINT64_MAX, ADMIT_SILENT_MS, ADMIT_ENTER},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct stage s;
        open_stage(&s);
        s.view.leading_ms = cases[i].leading_ms;
        join_stage(&s, OLD, "node-2", "c:1", MEMBER_VOTER)->silent_ms = cases[i].silent_ms;
        check_step(cases[i].why, ask(&s, request_of(NEW, "node-2", "c:2")), cases[i].want, 0, 0);
        close_stage(&s);
    }
}

TEST(a_learner_is_not_promoted_beside_a_voter_of_its_name_that_answers_again)
{
    struct stage s;
    struct admit_request request = request_of(NEW, "node-2", "c:2");

    open_stage(&s);
    join_stage(&s, OLD, "node-2", "c:1", MEMBER_VOTER)->silent_ms = 10;
    roster_do(s.roster, (struct roster_command){ROSTER_PUT, request.entry});
    join_stage(&s, NEW, NULL, "c:2", MEMBER_LEARNER);
    check_step("it waits", ask(&s, request), ADMIT_WAIT, 0, 0);
    s.members[2].silent_ms = ADMIT_SILENT_MS;
    check_step("until it is dead", ask(&s, request), ADMIT_CHANGE, CHANGE_REMOVE, OLD);
    close_stage(&s);
}

TEST(the_leaders_own_name_is_never_taken)
{
    struct stage s;
    open_stage(&s);
    check_step("it waits", ask(&s, request_of(NEW, "node-0", "z:1")), ADMIT_WAIT, 0, 0);
    close_stage(&s);
}

TEST(an_address_is_taken_from_a_dead_one_of_the_same_name_only)
{
    struct stage s;
    struct admit_request request = request_of(NEW, "node-9", "c:1");

    open_stage(&s);
    join_stage(&s, OLD, "node-2", "c:1", MEMBER_VOTER)->silent_ms = UINT64_MAX;
    roster_do(s.roster, (struct roster_command){ROSTER_PUT, request.entry});
    check_step("another name's", ask(&s, request), ADMIT_WAIT, 0, 0);
    CHECK_HAS("names the member", ask(&s, request).note.text, "(node-2) is a member at c:1");
    close_stage(&s);
}

TEST(a_full_roster_makes_room_among_those_that_are_no_members)
{
    struct stage s;
    struct admit_request request = request_of(NEW + 1000, "node-2", "c:1");

    open_stage(&s);
    for (uint64_t i = 0; i + 2 < ROSTER_ENTRIES_MAX; i++)
        roster_do(s.roster, (struct roster_command){ROSTER_PUT, named(100 + i, "passer-by")});
    check_step("one goes", ask(&s, request), ADMIT_FORGET, 0, 100);
    roster_do(s.roster, (struct roster_command){ROSTER_FORGET, {.id = 100}});
    check_step("then it is entered", ask(&s, request), ADMIT_ENTER, 0, 0);
    close_stage(&s);
}

/* -- whole stories -- */

static size_t place(const struct stage *s, uint64_t id)
{
    size_t at = 0;
    while (at < s->count && s->members[at].id != id) at++;
    return at;
}

static void carry_out(struct stage *s, const struct admit_request *request,
                      const struct admit_step *step)
{
    size_t at = place(s, step->id);
    size_t voters = 0;

    switch (step->kind) {
    case ADMIT_ENTER:
        roster_do(s->roster, (struct roster_command){ROSTER_PUT, request->entry});
        break;
    case ADMIT_FORGET:
        CHECK("no member is forgotten", at == s->count);
        roster_do(s->roster, (struct roster_command){ROSTER_FORGET, {.id = step->id}});
        break;
    case ADMIT_CHANGE:
        if (step->change == CHANGE_ADD) {
            CHECK("not twice", at == s->count);
            join_stage(s, step->id, NULL, request->raft, MEMBER_LEARNER);
            break;
        }
        CHECK("a member", at < s->count);
        if (step->change == CHANGE_PROMOTE) s->members[at].role = MEMBER_VOTER;
        if (step->change == CHANGE_TAKE)
            for (size_t i = 0; i < s->count; i++)
                if (strcmp(s->members[i].address, request->raft) == 0)
                    memcpy(s->members[i].address, s->members[at].address, REPLICA_ADDRESS_MAX + 1);
        if (step->change == CHANGE_ADDRESS || step->change == CHANGE_TAKE)
            snprintf(s->members[at].address, sizeof s->members[at].address, "%s", request->raft);
        if (step->change == CHANGE_REMOVE) {
            CHECK("the leader never removes itself", !s->members[at].self);
            CHECK("only the dead go", s->members[at].silent_ms >= ADMIT_SILENT_MS);
            s->members[at] = s->members[--s->count];
        }
        break;
    default: CHECK("nothing to carry out", false);
    }
    s->view.member_count = s->count;
    for (size_t i = 0; i < s->count; i++) {
        if (s->members[i].role == MEMBER_VOTER) voters++;
        for (size_t j = 0; j < i; j++)
            CHECK("two never share an address",
                  strcmp(s->members[i].address, s->members[j].address) != 0);
    }
    CHECK("a replica votes", voters > 0);
}

/* Replicas ask one after the other, repeatedly. */
TEST(after_any_permutation_each_member_ends_in_its_own_place)
{
    struct prng prng;

    prng_seed(&prng, test_seed());
    for (int story = 0; story < 2000; story++) {
        struct stage s;
        struct admit_request requests[6];
        uint64_t rounds = 0, waiting = 1;

        open_stage(&s);
        for (uint64_t id = 3; id <= 6; id++) {
            char name[16], address[16];
            snprintf(name, sizeof name, "node-%d", (int)id - 1);
            snprintf(address, sizeof address, "%c:1", (char)('a' + id - 1));
            join_stage(&s, id, name, address, MEMBER_VOTER);
        }
        for (size_t i = 0; i < s.count; i++)
            requests[i] = request_of(s.members[i].id, roster_find(s.roster, s.members[i].id)->name,
                                     s.members[i].address);
        for (size_t i = s.count - 1; i > 0; i--) { /* any order of them */
            size_t with = (size_t)prng_below(&prng, i + 1);
            char kept[sizeof requests[i].raft];
            memcpy(kept, requests[i].raft, sizeof kept);
            memcpy(requests[i].raft, requests[with].raft, sizeof kept);
            memcpy(requests[with].raft, kept, sizeof kept);
        }
        for (size_t i = 0; i < s.count; i++) meet(&s, i, requests[i].raft);
        for (; waiting && rounds < s.count; rounds++) {
            waiting = 0;
            for (size_t i = 0; i < s.count; i++) {
                struct admit_step step = admit_next(&s.view, &requests[i]);
                if (step.kind == ADMIT_CHANGE)
                    carry_out(&s, &requests[i], &step);
                else
                    waiting += step.kind != ADMIT_DONE;
            }
        }
        for (size_t i = 0; i < s.count; i++)
            CHECK_TEXT("in its place", s.members[i].address, requests[i].raft);
        close_stage(&s);
    }
}

/* Random clusters and requests: at most a dozen steps lead to the requested end, and no step breaks
 * a rule. */
TEST(the_steps_end_for_every_cluster)
{
    struct prng prng;
    size_t done = 0;

    prng_seed(&prng, test_seed());
    for (int story = 0; story < 20000; story++) {
        struct stage s;
        char name[16], address[16];
        struct admit_request request;
        struct admit_step step = {.kind = ADMIT_WAIT};
        int steps = 0;

        open_stage(&s);
        s.view.leading_ms = prng_below(&prng, 2) ? 60000 : prng_below(&prng, 5000);
        for (uint64_t i = prng_below(&prng, 4); i > 0; i--) {
            struct replica_member *member;
            snprintf(name, sizeof name, "node-%d", (int)prng_below(&prng, 4));
            snprintf(address, sizeof address, "x%d:1", (int)i);
            member = join_stage(&s, 100 + i, prng_below(&prng, 5) ? name : NULL, address,
                                prng_below(&prng, 3) ? MEMBER_VOTER : MEMBER_LEARNER);
            member->silent_ms = prng_below(&prng, 2) ? UINT64_MAX : prng_below(&prng, 6000);
            member->match = prng_below(&prng, 200);
        }
        s.view.commit = prng_below(&prng, 2) ? 100 : 5000;
        snprintf(name, sizeof name, "node-%d", (int)prng_below(&prng, 5));
        snprintf(address, sizeof address, "x%d:1", (int)prng_below(&prng, 6));
        request = request_of(prng_below(&prng, 2) ? NEW : 101, name, address);
        while (steps++ < 12) {
            step = admit_next(&s.view, &request);
            if (step.kind == ADMIT_DONE || step.kind == ADMIT_WAIT || step.kind == ADMIT_REFUSE)
                break;
            carry_out(&s, &request, &step);
        }
        CHECK("it ends", steps <= 12);
        CHECK("not refused", step.kind != ADMIT_REFUSE);
        if (step.kind == ADMIT_DONE) {
            const struct replica_member *member = &s.members[place(&s, request.entry.id)];
            CHECK("a voter", member->role == MEMBER_VOTER);
            CHECK_TEXT("in its place", member->address, request.raft);
            CHECK_TEXT("by its name", roster_find(s.roster, request.entry.id)->name, name);
            done++;
        }
        close_stage(&s);
    }
    CHECK("many come to their place", done > 2000);
}
