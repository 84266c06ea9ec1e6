/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of docs/raft-guards.md; each case is a situation of a leader. Replica n has identity n;
 * the leader is 1; everything is committed up to 100. */
#include "log/members.h"

#include <stdio.h>
#include <string.h>

#include "lib/test.h"

/* One letter per member in order of identity: V a sound voter, v a voter that answers but lags, D a
 * voter that died recently, d a voter that died long ago; L l X x the same for learners. */
struct situation {
    struct members members;
    struct members_view view;
};
static void situation_make(struct situation *s, const char *letters)
{
    memset(s, 0, sizeof *s);
    s->view.self = 1;
    s->view.members = &s->members;
    s->view.own_term_committed = true;
    s->view.commit = 10000;
    for (size_t i = 0; letters[i]; i++) {
        struct member *member = &s->members.at[i];
        member->id = i + 1;
        member->role = strchr("VvDd", letters[i]) ? MEMBER_VOTER : MEMBER_LEARNER;
        snprintf(member->address, sizeof member->address, "replica-%zu:7791", i + 1);
        s->view.responsive[i] = strchr("VvLl", letters[i]) != NULL;
        s->view.match[i] = strchr("VDLX", letters[i]) ? 10000 : 10;
        s->members.count++;
    }
}

/* Voters and learners of a configuration by their identities: "V1 V2 L4". */
static const char *text_of(const struct members *members)
{
    static char text[200];

    text[0] = '\0';
    for (size_t i = 0; i < members->count; i++) {
        const struct member *member = &members->at[i];
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%c%d", i ? " " : "",
                 member->role == MEMBER_VOTER ? 'V' : 'L', (int)member->id);
    }
    return text;
}

static const struct {
    const char *why, *letters;
    enum member_change_kind kind;
    uint64_t id;
    enum err want;
    const char *text; /* the text of the new configuration, or part of the note */
} rules[] = {
    {"a learner is added at the end", "VVV", CHANGE_ADD, 9, ERR_OK, "V1 V2 V3 L9"},
    {"a single voter adds its first", "V", CHANGE_ADD, 9, ERR_OK, "V1 L9"},
    {"a dead voter does not hinder", "VVd", CHANGE_ADD, 9, ERR_OK, "V1 V2 V3 L9"},
    {"a member is not added twice", "VVV", CHANGE_ADD, 3, ERR_EXISTS, "is a member"},
    {"nobody has identity 0", "VVV", CHANGE_ADD, 0, ERR_INVALID, "identity"},
    {"no majority holds what is committed", "Vvv", CHANGE_ADD, 9, ERR_NOT_READY, "1 are reachable"},
    {"a match goes stale: the dead do not count", "VDD", CHANGE_ADD, 9, ERR_NOT_READY,
     "no majority"},
    {"sixteen members are enough", "VVVLLLLLLLLLLLLL", CHANGE_ADD, 99, ERR_FULL, "16 members"},

    {"a learner that caught up votes", "VVVL", CHANGE_PROMOTE, 4, ERR_OK, "V1 V2 V3 V4"},
    {"one to two: there is no other way to grow", "VL", CHANGE_PROMOTE, 2, ERR_OK, "V1 V2"},
    {"but not with one that is dead", "VX", CHANGE_PROMOTE, 2, ERR_NOT_READY, "does not answer"},
    {"two to three: two are a majority of three", "VVL", CHANGE_PROMOTE, 3, ERR_OK, "V1 V2 V3"},
    {"one of three dead: first it must go", "VVdL", CHANGE_PROMOTE, 4, ERR_NOT_READY,
     "remove a dead one first"},
    {"its match may still be fresh", "VVDL", CHANGE_PROMOTE, 4, ERR_NOT_READY,
     "remove a dead one first"},
    {"one of five dead", "VVVVdL", CHANGE_PROMOTE, 6, ERR_OK, "V1 V2 V3 V4 V5 V6"},
    {"two of five dead", "VVVddL", CHANGE_PROMOTE, 6, ERR_NOT_READY, "remove a dead one"},
    {"it lags", "VVVl", CHANGE_PROMOTE, 4, ERR_NOT_READY, "has not caught up: 10 of 10000"},
    {"it is dead", "VVVX", CHANGE_PROMOTE, 4, ERR_NOT_READY, "does not answer"},
    {"the voters are behind", "VvvL", CHANGE_PROMOTE, 4, ERR_NOT_READY, "no majority"},
    {"it votes already", "VVV", CHANGE_PROMOTE, 3, ERR_EXISTS, "is a voter"},
    {"it is nobody", "VVV", CHANGE_PROMOTE, 4, ERR_NOT_FOUND, "is not a member"},
    {"seven voters are enough", "VVVVVVVL", CHANGE_PROMOTE, 8, ERR_FULL, "7 voters"},

    {"a dead voter is removed", "VVd", CHANGE_REMOVE, 3, ERR_OK, "V1 V2"},
    {"the others keep their order", "VdVL", CHANGE_REMOVE, 2, ERR_OK, "V1 V3 L4"},
    {"a live voter is removed", "VVV", CHANGE_REMOVE, 2, ERR_OK, "V1 V3"},
    {"not a live one while another is dead", "VVd", CHANGE_REMOVE, 2, ERR_NOT_READY,
     "of the 2 voters that stay, 1"},
    {"nor one whose death is fresh", "VVD", CHANGE_REMOVE, 2, ERR_NOT_READY, "no majority"},
    {"nor while the one that stays lags", "VVv", CHANGE_REMOVE, 2, ERR_NOT_READY, "no majority"},
    {"the lagging one may go", "VVv", CHANGE_REMOVE, 3, ERR_OK, "V1 V2"},
    {"a learner is removed", "VVVx", CHANGE_REMOVE, 4, ERR_OK, "V1 V2 V3"},
    {"the leader asks the next one", "VVV", CHANGE_REMOVE, 1, ERR_NOT_LEADER, "handed over first"},
    {"the last voter stays", "VL", CHANGE_REMOVE, 1, ERR_INVALID, "last voter"},
    {"two to one", "VV", CHANGE_REMOVE, 2, ERR_OK, "V1"},
    {"it is nobody", "VVV", CHANGE_REMOVE, 4, ERR_NOT_FOUND, "is not a member"},

    {"an address is changed in place", "VVVL", CHANGE_ADDRESS, 2, ERR_OK, "V1 V2 V3 L4"},
    {"the leader's own, too", "VVV", CHANGE_ADDRESS, 1, ERR_OK, "V1 V2 V3"},
    {"of a dead one, that is why it moves", "VVd", CHANGE_ADDRESS, 3, ERR_OK, "V1 V2 V3"},
    {"not without a majority", "Vdd", CHANGE_ADDRESS, 3, ERR_NOT_READY, "no majority"},
    {"it is nobody", "VVV", CHANGE_ADDRESS, 4, ERR_NOT_FOUND, "is not a member"},
    {"a free address is taken", "VVV", CHANGE_TAKE, 2, ERR_OK, "V1 V2 V3"},
    {"not without a majority", "Vdd", CHANGE_TAKE, 3, ERR_NOT_READY, "no majority"},
    {"a stranger takes none", "VVV", CHANGE_TAKE, 4, ERR_NOT_FOUND, "is not a member"},

    {"no such change", "VVV", (enum member_change_kind)9, 1, ERR_INVALID, "kind of change"},
};

TEST(a_change_is_made_when_every_rule_is_met)
{
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        struct situation s;
        struct members next = {.count = 77};
        struct note note = {""};
        enum err got;

        situation_make(&s, rules[i].letters);
        got = members_change(&s.view, rules[i].kind, rules[i].id, STR("new:1"), &next, &note);
        CHECK_ERR(rules[i].why, got, rules[i].want);
        if (got) {
            CHECK_HAS(rules[i].why, note.text, rules[i].text);
            CHECK_SIZE("the output is untouched", next.count, 77);
            continue;
        }
        CHECK_TEXT(rules[i].why, text_of(&next), rules[i].text);
        for (size_t m = 0; m < next.count; m++) {
            const struct member *member = &next.at[m];
            bool is_new = member->id == rules[i].id &&
                          (rules[i].kind == CHANGE_ADD || rules[i].kind >= CHANGE_ADDRESS);
            char want[40];
            snprintf(want, sizeof want, "replica-%d:7791", (int)member->id);
            CHECK_TEXT(rules[i].why, member->address, is_new ? "new:1" : want);
        }
    }
}

TEST(nothing_changes_before_the_leader_may)
{
    for (int what = 0; what < 3; what++) {
        static const char *const notes[] = {"handed over", "own term", "index 55"};
        for (enum member_change_kind kind = CHANGE_ADD; kind <= CHANGE_TAKE; kind++) {
            struct situation s;
            struct members next;
            struct note note = {""};

            situation_make(&s, "VVVL");
            if (what == 0) s.view.handing_over = true;
            if (what == 1) s.view.own_term_committed = false;
            if (what == 2) s.view.uncommitted = 55;
            /* 9 is no member; the leader knows that only after the last change is committed. */
            for (uint64_t id = 4; id <= 9; id += 5) {
                CHECK_ERR(notes[what],
                          members_change(&s.view, kind, id, STR("new:1"), &next, &note),
                          ERR_NOT_READY);
                CHECK_HAS("the note", note.text, notes[what]);
            }
        }
    }
}

TEST(an_address_must_be_one)
{
    static const struct {
        struct str address;
        enum err want;
    } cases[] = {
        {{"host:1", 6}, ERR_OK},       {{"[::1]:7791", 10}, ERR_OK},
        {{"unix:/tmp/x", 11}, ERR_OK}, {{"", 0}, ERR_INVALID},
        {{"host", 4}, ERR_INVALID},    {{"host:", 5}, ERR_INVALID},
        {{":7791", 5}, ERR_INVALID},   {{"host:0", 6}, ERR_INVALID},
        {{"ho\0t:1", 6}, ERR_INVALID}, {{"host:65536", 10}, ERR_INVALID},
    };
    char text[REPLICA_ADDRESS_MAX + 2];
    struct situation s;
    struct members next;

    situation_make(&s, "VVV");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct note note = {""};
        enum err add = members_change(&s.view, CHANGE_ADD, 9, cases[i].address, &next, &note);
        enum err move = members_change(&s.view, CHANGE_ADDRESS, 2, cases[i].address, &next, &note);
        CHECK_ERR(cases[i].address.at, add, cases[i].want);
        CHECK_ERR(cases[i].address.at, move, cases[i].want);
        CHECK("a note has the reason", !cases[i].want || note.text[0]);
    }
    memset(text, 'a', sizeof text);
    memcpy(text + sizeof text - 2, ":1", 2);
    CHECK_ERR("one byte too long",
              members_change(&s.view, CHANGE_ADD, 9, str_of(text, sizeof text), &next, NULL),
              ERR_INVALID);
    CHECK_ERR("the same address again",
              members_change(&s.view, CHANGE_ADDRESS, 2, STR("replica-2:7791"), &next, NULL),
              ERR_EXISTS);
}

TEST(an_address_belongs_to_one_member)
{
    struct situation s;
    struct members next;
    struct note note = {""};

    situation_make(&s, "VVL");
    CHECK_ERR("a newcomer at a member's address",
              members_change(&s.view, CHANGE_ADD, 9, STR("replica-3:7791"), &next, &note),
              ERR_EXISTS);
    CHECK_HAS("the note", note.text, "0000000000000003 is a member at replica-3:7791");
    CHECK_ERR("a move to a member's address",
              members_change(&s.view, CHANGE_ADDRESS, 2, STR("replica-1:7791"), &next, &note),
              ERR_EXISTS);
    CHECK_HAS("the note", note.text, "0000000000000001 is a member at replica-1:7791");
}

TEST(a_member_that_takes_an_address_leaves_its_own_to_the_member_listed_there)
{
    struct situation s;
    struct members next;

    situation_make(&s, "VVL");
    CHECK_OK("taken", members_change(&s.view, CHANGE_TAKE, 2, STR("replica-3:7791"), &next, NULL));
    CHECK_TEXT("nobody's vote changes", text_of(&next), "V1 V2 L3");
    CHECK_TEXT("it is there", next.at[1].address, "replica-3:7791");
    CHECK_TEXT("the other where it was", next.at[2].address, "replica-2:7791");
    CHECK_TEXT("the third stays", next.at[0].address, "replica-1:7791");
    CHECK_ERR("it need not take its own address",
              members_change(&s.view, CHANGE_TAKE, 2, STR("replica-2:7791"), &next, NULL),
              ERR_EXISTS);
}

TEST(a_learner_that_lacks_only_entries_in_flight_has_caught_up)
{
    static const struct {
        uint64_t match;
        enum err want;
    } cases[] = {{10000, ERR_OK},
                 {10000 - 4096, ERR_OK},
                 {10000 - 4097, ERR_NOT_READY},
                 {UINT64_MAX, ERR_OK}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct situation s;
        struct members next;

        situation_make(&s, "VVVL");
        s.view.match[3] = cases[i].match;
        CHECK_ERR("promote", members_change(&s.view, CHANGE_PROMOTE, 4, STR(""), &next, NULL),
                  cases[i].want);
    }
}

TEST(the_heir_is_a_voter_that_answers_and_is_furthest)
{
    static const struct {
        const char *why, *letters;
        uint64_t want;
    } cases[] = {
        {"the first of the best", "VVV", 2},
        {"the one that does not lag", "VvV", 3},
        {"lagging is better than nobody", "Vvd", 2},
        {"not the dead", "VDd", 0},
        {"not a learner", "VL", 0},
        {"nobody else", "V", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct situation s;

        situation_make(&s, cases[i].letters);
        CHECK_U64(cases[i].why, members_heir(&s.view), cases[i].want);
    }
}

/* Every situation of up to five members: an accepted change leaves a sound majority of the new
 * voters without the changed member, and touches one member only. */
TEST(in_every_situation_a_change_leaves_a_sound_majority)
{
    static const char kinds[] = "VvDdLlXx";
    size_t made = 0;

    for (int code = 0; code < 8 * 8 * 8 * 8; code++) {
        for (size_t count = 1; count <= 5; count++) {
            char letters[6] = "V";
            struct situation s;

            for (size_t i = 1, rest = (size_t)code; i < count; i++, rest /= 8)
                letters[i] = kinds[rest % 8];
            if (count < 5 && code >= 1 << 3 * (count - 1)) continue; /* seen already */
            situation_make(&s, letters);
            for (enum member_change_kind kind = CHANGE_ADD; kind <= CHANGE_TAKE; kind++) {
                for (uint64_t id = 1; id <= count + 1; id++) {
                    struct members next;
                    size_t sound = 0, voters = 0;

                    if (members_change(&s.view, kind, id, STR("new:1"), &next, NULL)) continue;
                    made++;
                    for (size_t i = 0; i < next.count; i++) {
                        const struct member *m = &next.at[i];
                        if (m->role != MEMBER_VOTER) continue;
                        voters++;
                        sound += letters[m->id - 1] == 'V';
                    }
                    if (voters == 2 && kind == CHANGE_PROMOTE) sound++; /* from one to two */
                    CHECK(letters, sound > voters / 2);
                    CHECK("the leader is still in", next.at[0].id == 1);
                }
            }
        }
    }
    CHECK("many were made", made > 5000);
}
