/* SPDX-License-Identifier: Apache-2.0 */
/* Each rule accepts what may happen and finds what may not, on histories written by hand. */
#include "history/judge.h"
#include "lib/test.h"

/* Times are milliseconds. */
#define CALL(id, t, op, key, more)                                                                 \
    "{\"e\":\"call\",\"id\":" #id ",\"client\":" #id ",\"t\":" #t "000000,\"op\":\"" op            \
    "\",\"key\":\"" key "\"" more "}\n"
#define DONE(id, t, code, reason, more)                                                            \
    "{\"e\":\"done\",\"id\":" #id ",\"t\":" #t "000000,\"code\":\"" code "\",\"reason\":\"" reason \
    "\"" more "}\n"
#define LOST(id, t) "{\"e\":\"lost\",\"id\":" #id ",\"t\":" #t "000000}\n"
#define EVENT(watch, t, type, key, more)                                                           \
    "{\"e\":\"watch\",\"watch\":" #watch ",\"t\":" #t "000000,\"type\":\"" type                    \
    "\",\"key\":\"" key "\"" more "}\n"
#define ENDED(t, replica) "{\"e\":\"ended\",\"t\":" #t "000000,\"replica\":" #replica "}\n"

#define PUT(watch, t, key, rev, id) EVENT(watch, t, "put", key, REV(rev) VALUE(id))
#define REV(n)                      ",\"rev\":" #n
#define FOUND(n)                    ",\"found\":" #n
#define VALUE(n)                    ",\"value\":" #n
#define EXPECTED(n)                 ",\"expected\":" #n
#define TTL(n)                      ",\"ttl\":" #n
#define TOKEN(n)                    ",\"token\":" #n
#define SLOT(n)                     ",\"slot\":" #n
#define WAIT(n)                     ",\"wait\":" #n
#define SLOTS(n)                    ",\"slots\":" #n
#define LEASE(n)                    ",\"lease\":" #n
#define SESSION(n)                  ",\"session\":" #n
#define HOLDERS(...)                ",\"holders\":[" #__VA_ARGS__ "]"
#define SNAPSHOT(watch, t, scope, rev)                                                             \
    EVENT(watch, t, "begin", scope, "") EVENT(watch, t, "end", "", REV(rev))

static void read_text(struct hist *h, const char *text)
{
    struct note note = {""};

    hist_init(h);
    CHECK_U64(note.text, hist_read(h, str_from(text), &note), ERR_OK);
    CHECK_OK("sealed", hist_seal(h, &note));
    judge_learn(h);
}

/* `rule` reports the history as bad, in these words; none: no rule does. */
static void judged(const char *text, enum judge_rule rule, const char *words)
{
    struct hist h;
    bool found = false;

    read_text(&h, text);
    for (int i = 0; i < JUDGE_RULE_COUNT; i++) {
        struct judge_result result;
        judge_run(&h, (enum judge_rule)i, JUDGE_STEPS_MAX, &result);
        if (!words) CHECK_TEXT(judge_rule_name((enum judge_rule)i), result.why.text, "");
        if (words && i == (int)rule) {
            CHECK_U64("it is found", result.verdict, JUDGE_BAD);
            CHECK_HAS("and named", result.why.text, words);
            found = true;
        }
    }
    CHECK("looked", found || !words);
    hist_deinit(&h);
}
#define GOOD(text)             judged(text, JUDGE_RULE_COUNT, NULL)
#define BAD(rule, text, words) judged(text, JUDGE_##rule, words)

/* -- keys -- */
#define CREATED CALL(1, 10, "create", "k/a", "") DONE(1, 20, "OK", "created", REV(5))

TEST(calls_one_after_the_other_pass)
{
    GOOD(CREATED CALL(2, 30, "get", "k/a", "") DONE(2, 40, "OK", "none", REV(5) FOUND(1))
             CALL(3, 50, "cas", "k/a", EXPECTED(5)) DONE(3, 60, "OK", "updated", REV(7))
                 CALL(4, 70, "cas", "k/a", EXPECTED(5)) DONE(4, 80, "CONFLICT", "revision", REV(7))
                     CALL(5, 90, "create", "k/a", "") DONE(5, 95, "EXISTS", "held", REV(7))
                         CALL(6, 100, "delete", "k/a", EXPECTED(7))
                             DONE(6, 110, "OK", "deleted", REV(9)) CALL(7, 120, "get", "k/a", "")
                                 DONE(7, 130, "NOT_FOUND", "none", ""));
}

TEST(a_read_of_the_past_is_found)
{
    BAD(KEYS,
        CREATED CALL(2, 30, "cas", "k/a", EXPECTED(5)) DONE(2, 40, "OK", "updated", REV(6))
            CALL(3, 50, "get", "k/a", "") DONE(3, 60, "OK", "none", REV(5) FOUND(1)),
        "get of k/a by 3");
}

TEST(a_read_that_overlaps_the_write_may_find_either)
{
    GOOD(CREATED CALL(2, 30, "cas", "k/a", EXPECTED(5)) DONE(2, 60, "OK", "updated", REV(6))
             CALL(3, 35, "get", "k/a", "") DONE(3, 40, "OK", "none", REV(6) FOUND(2))
                 CALL(4, 31, "get", "k/a", "") DONE(4, 50, "OK", "none", REV(5) FOUND(1)));
    BAD(KEYS, /* but not the old one after the new one */
        CREATED CALL(2, 30, "cas", "k/a", EXPECTED(5)) DONE(2, 60, "OK", "updated", REV(6))
            CALL(3, 35, "get", "k/a", "") DONE(3, 40, "OK", "none", REV(6) FOUND(2))
                CALL(4, 45, "get", "k/a", "") DONE(4, 50, "OK", "none", REV(5) FOUND(1)),
        "get of k/a by 4");
}

TEST(two_writes_that_replace_one_revision_are_found)
{
    BAD(KEYS,
        CREATED CALL(2, 30, "cas", "k/a", EXPECTED(5)) DONE(2, 60, "OK", "updated", REV(6))
            CALL(3, 30, "cas", "k/a", EXPECTED(5)) DONE(3, 60, "OK", "updated", REV(7)),
        "no order");
}

TEST(an_acknowledged_write_that_is_lost_is_found)
{
    BAD(KEYS, CREATED CALL(2, 30, "get", "k/a", "") DONE(2, 40, "NOT_FOUND", "none", ""), "get");
}

TEST(a_write_without_an_answer_may_be_done_late_or_never)
{
    GOOD(CREATED CALL(2, 30, "cas", "k/a", EXPECTED(5)) LOST(2, 40) CALL(3, 50, "get", "k/a", "")
             DONE(3, 60, "OK", "none", REV(5) FOUND(1)));
    GOOD(CREATED CALL(2, 30, "cas", "k/a", EXPECTED(5)) LOST(2, 40) CALL(3, 50, "get", "k/a", "")
             DONE(3, 60, "OK", "none", REV(5) FOUND(1)) CALL(4, 70, "get", "k/a", "")
                 DONE(4, 80, "OK", "none", REV(8) FOUND(2)));
    BAD(KEYS, /* once and for all, though */
        CREATED CALL(2, 30, "cas", "k/a", EXPECTED(5)) LOST(2, 40) CALL(3, 50, "get", "k/a", "")
            DONE(3, 60, "OK", "none", REV(8) FOUND(2)) CALL(4, 70, "get", "k/a", "")
                DONE(4, 80, "OK", "none", REV(5) FOUND(1)),
        "get of k/a by 4");
}

/* A watch of the whole bucket to its end: a change that it did not report was not done. */
#define WATCHED(events)                                                                            \
    SNAPSHOT(1, 5, "k", 1)                                                                         \
    PUT(1, 15, "k/a", 5, 1)                                                                        \
    events CALL(90, 900, "create", "k/end", "") DONE(90, 910, "OK", "created", REV(99))            \
        PUT(1, 920, "k/end", 99, 90)

TEST(a_write_without_an_answer_that_no_watch_reported_was_not_done)
{
#define DELETED_UNHEARD                                                                            \
    CREATED CALL(2, 30, "delete", "k/a", EXPECTED(5)) LOST(2, 40) CALL(3, 50, "get", "k/a", "")    \
        DONE(3, 60, "NOT_FOUND", "none", "")
    GOOD(DELETED_UNHEARD);
    GOOD(DELETED_UNHEARD WATCHED(EVENT(1, 45, "delete", "k/a", REV(8))));
    BAD(KEYS, DELETED_UNHEARD WATCHED(""), "get of k/a by 3");
    BAD(KEYS, /* it was another's */
        DELETED_UNHEARD CALL(4, 70, "delete", "k/a", EXPECTED(5))
            DONE(4, 80, "OK", "deleted", REV(8)) WATCHED(EVENT(1, 75, "delete", "k/a", REV(8))),
        "get of k/a by 3");
}

TEST(a_refused_write_that_was_done_is_found)
{
    BAD(KEYS,
        CREATED CALL(2, 30, "cas", "k/a", EXPECTED(5)) DONE(2, 40, "UNAVAILABLE", "no_leader", "")
            CALL(3, 50, "get", "k/a", "") DONE(3, 60, "OK", "none", REV(6) FOUND(2)),
        "get");
    BAD(KEYS, /* done once; the retry was refused because of the first attempt */
        CREATED CALL(2, 30, "cas", "k/a", EXPECTED(5)) DONE(2, 40, "CONFLICT", "revision", REV(6))
            CALL(3, 50, "get", "k/a", "") DONE(3, 60, "OK", "none", REV(6) FOUND(2)),
        "no order");
}

TEST(a_revision_that_falls_is_found)
{
    BAD(KEYS, CREATED CALL(2, 30, "cas", "k/a", EXPECTED(5)) DONE(2, 40, "OK", "updated", REV(4)),
        "cas");
    BAD(GRANTS, CREATED CALL(2, 30, "cas", "k/a", EXPECTED(5)) DONE(2, 40, "OK", "updated", REV(4)),
        "a revision that is not larger");
}

/* -- leases -- */
#define LEASED CALL(1, 10, "create", "l/a", TTL(100)) DONE(1, 20, "OK", "created", REV(5) TOKEN(5))

TEST(a_lease_may_end_at_its_ttl_and_later)
{
    GOOD(LEASED CALL(2, 105, "get", "l/a", "") DONE(2, 115, "NOT_FOUND", "none", "")
             CALL(3, 120, "renew", "l/a", LEASE(1)) DONE(3, 125, "EXPIRED", "deadline", "")
                 CALL(4, 130, "create", "l/a", TTL(100))
                     DONE(4, 140, "OK", "created", REV(9) TOKEN(9)));
    GOOD(LEASED CALL(2, 500, "get", "l/a", "") DONE(2, 510, "OK", "none", REV(5) FOUND(1)));
}

TEST(a_lease_that_ends_early_is_found)
{
    BAD(KEYS, LEASED CALL(2, 90, "get", "l/a", "") DONE(2, 99, "NOT_FOUND", "none", ""), "get");
    BAD(EARLY, LEASED CALL(2, 80, "renew", "l/a", LEASE(1)) DONE(2, 90, "EXPIRED", "deadline", ""),
        "lease 1 on l/a was over 20.0 ms too early, says renew");
    BAD(KEYS, /* a renewal counts */
        LEASED CALL(2, 80, "renew", "l/a", LEASE(1)) DONE(2, 90, "OK", "renewed", TTL(100))
            CALL(3, 150, "create", "l/a", TTL(100)) DONE(3, 160, "OK", "created", REV(9) TOKEN(9)),
        "create");
    BAD(EARLY,
        LEASED SNAPSHOT(1, 5, "l", 1) EVENT(1, 15, "put", "l/a", REV(5) VALUE(1))
            EVENT(1, 100, "expired", "l/a", REV(6)),
        "says a watch");
}

TEST(a_lease_that_was_let_go_is_over_at_once)
{
    GOOD(LEASED SNAPSHOT(1, 5, "l", 1) EVENT(1, 15, "put", "l/a", REV(5) VALUE(1))
             CALL(2, 30, "release", "l/a", LEASE(1)) DONE(2, 40, "OK", "released", "")
                 EVENT(1, 41, "delete", "l/a", REV(6)) CALL(3, 50, "create", "l/a", TTL(100))
                     DONE(3, 60, "OK", "created", REV(7) TOKEN(7))
                         EVENT(1, 61, "put", "l/a", REV(7) VALUE(3)));
    GOOD(LEASED CALL(2, 30, "release", "l/a", LEASE(1)) LOST(2, 40)
             CALL(3, 50, "create", "l/a", TTL(100)) DONE(3, 60, "OK", "created", REV(7) TOKEN(7)));
}

TEST(a_check_that_says_yes_too_long_is_found)
{
    GOOD(LEASED CALL(2, 100, "check", "l/a", LEASE(1)) DONE(2, 100, "OK", "none", "")
             CALL(3, 101, "check", "l/a", LEASE(1)) DONE(3, 101, "EXPIRED", "none", ""));
    BAD(CHECK, LEASED CALL(2, 112, "check", "l/a", LEASE(1)) DONE(2, 112, "OK", "none", ""),
        "2.0 ms after its end");
    BAD(CHECK,
        LEASED CALL(2, 30, "release", "l/a", LEASE(1)) LOST(2, 40)
            CALL(3, 50, "check", "l/a", LEASE(1)) DONE(3, 50, "OK", "none", ""),
        "after its release");
}

TEST(an_answer_after_the_end_is_found)
{
    BAD(GRANTS,
        LEASED CALL(2, 120, "renew", "l/a", LEASE(1)) DONE(2, 125, "EXPIRED", "deadline", "")
            CALL(3, 130, "renew", "l/a", LEASE(1)) DONE(3, 135, "OK", "renewed", TTL(100)),
        "an OK after EXPIRED");
}

/* -- slots -- */
#define TAKEN                                                                                      \
    CALL(1, 10, "acquire", "g", SLOTS(2) TTL(100))                                                 \
    DONE(1, 20, "OK", "acquired", SLOT(0) TOKEN(5))                                                \
    CALL(2, 15, "acquire", "g", SLOTS(2) TTL(100))                                                 \
    DONE(2, 25, "OK", "acquired", SLOT(1) TOKEN(6))

TEST(slots_taken_and_left_pass)
{
    GOOD(TAKEN CALL(3, 30, "acquire", "g", SLOTS(2) TTL(100)) DONE(3, 35, "EXISTS", "full", "")
             CALL(4, 40, "release", "g", LEASE(1)) DONE(4, 50, "OK", "released", "")
                 CALL(5, 41, "acquire", "g", SLOTS(2) TTL(100))
                     DONE(5, 49, "OK", "acquired", SLOT(0) TOKEN(8)) CALL(6, 60, "holders", "g", "")
                         DONE(6, 65, "OK", "none", HOLDERS(5, 2))
                             CALL(7, 120, "acquire", "g", SLOTS(2) TTL(100))
                                 DONE(7, 130, "OK", "acquired", SLOT(1) TOKEN(9)));
}

TEST(a_third_holder_of_two_slots_is_found)
{
    BAD(SLOTS,
        TAKEN CALL(3, 30, "acquire", "g", SLOTS(2) TTL(100))
            DONE(3, 40, "OK", "acquired", SLOT(0) TOKEN(9)),
        "acquire of g by 3");
    BAD(GRANTS,
        TAKEN CALL(3, 30, "acquire", "g", SLOTS(2) TTL(100))
            DONE(3, 40, "OK", "acquired", SLOT(0) TOKEN(9)),
        "two holders of one slot");
}

TEST(a_token_that_is_used_again_is_found)
{
    BAD(SLOTS,
        TAKEN CALL(3, 30, "release", "g", LEASE(1)) DONE(3, 40, "OK", "released", "")
            CALL(4, 50, "acquire", "g", SLOTS(2) TTL(100))
                DONE(4, 60, "OK", "acquired", SLOT(0) TOKEN(5)),
        "acquire of g by 4");
    BAD(GRANTS,
        TAKEN CALL(3, 30, "release", "g", LEASE(1)) DONE(3, 40, "OK", "released", "")
            CALL(4, 50, "acquire", "g", SLOTS(2) TTL(100))
                DONE(4, 60, "OK", "acquired", SLOT(0) TOKEN(5)),
        "a revision used twice");
}

TEST(full_while_a_slot_is_free_is_found)
{
    BAD(SLOTS,
        TAKEN CALL(3, 30, "release", "g", LEASE(2)) DONE(3, 40, "OK", "released", "")
            CALL(4, 50, "acquire", "g", SLOTS(2) TTL(100)) DONE(4, 60, "EXISTS", "full", ""),
        "acquire of g by 4");
}

TEST(a_slot_that_was_given_without_an_answer_is_held)
{
    GOOD(TAKEN CALL(3, 30, "release", "g", LEASE(2)) DONE(3, 40, "OK", "released", "")
             CALL(4, 45, "acquire", "g", SLOTS(2) TTL(100) WAIT(50)) LOST(4, 48)
                 CALL(5, 50, "acquire", "g", SLOTS(2) TTL(100)) DONE(5, 60, "EXISTS", "full", ""));
}

TEST(an_expired_wait_may_have_had_a_slot_for_a_moment)
{
    GOOD(TAKEN CALL(3, 30, "acquire", "g", SLOTS(2) TTL(100) WAIT(50))
             DONE(3, 90, "EXISTS", "full", "") CALL(4, 40, "release", "g", LEASE(2))
                 DONE(4, 45, "OK", "released", "") SNAPSHOT(1, 29, "g", 6)
                     EVENT(1, 46, "delete", "g/slot-0001", REV(7))
                         EVENT(1, 47, "put", "g/slot-0001", REV(8) TOKEN(8) VALUE(3))
                             EVENT(1, 48, "delete", "g/slot-0001", REV(9)));
    BAD(SLOTS, /* an acquire that did not wait got no slot later */
        TAKEN CALL(3, 30, "acquire", "g", SLOTS(2) TTL(100)) DONE(3, 90, "EXISTS", "full", "")
            CALL(4, 40, "holders", "g", "") DONE(4, 50, "OK", "none", HOLDERS(1, 3)),
        "holders of g by 4");
}

TEST(a_list_with_a_released_holder_is_found)
{
    BAD(SLOTS,
        TAKEN CALL(3, 30, "release", "g", LEASE(2)) DONE(3, 40, "OK", "released", "")
            CALL(4, 50, "holders", "g", "") DONE(4, 55, "OK", "none", HOLDERS(1, 2)),
        "holders of g by 4");
}

/* -- watches -- */
#define THREE                                                                                      \
    CREATED CALL(2, 30, "cas", "k/a", EXPECTED(5)) DONE(2, 40, "OK", "updated", REV(7))            \
        CALL(3, 50, "create", "k/b", "") DONE(3, 60, "OK", "created", REV(8))

TEST(watches_that_report_every_change_pass)
{
    GOOD(THREE SNAPSHOT(1, 5, "k", 1) PUT(1, 15, "k/a", 5, 1) PUT(1, 36, "k/a", 7, 2)
             EVENT(1, 37, "progress", "", REV(7)) PUT(1, 55, "k/b", 8, 3));
    GOOD(THREE EVENT(1, 25, "begin", "k", "") EVENT(1, 25, "entry", "k/a", REV(5) VALUE(1))
             EVENT(1, 25, "end", "", REV(6)) PUT(1, 36, "k/a", 7, 2) EVENT(1, 37, "resync", "", "")
                 EVENT(1, 70, "begin", "k", "") EVENT(1, 70, "entry", "k/a", REV(7) VALUE(2))
                     EVENT(1, 70, "entry", "k/b", REV(8) VALUE(3)) EVENT(1, 70, "end", "", REV(8)));
}

TEST(a_snapshot_that_broke_off_begins_anew)
{
    GOOD(THREE EVENT(1, 70, "begin", "k", "") EVENT(1, 70, "entry", "k/a", REV(7) VALUE(2))
             EVENT(1, 71, "resync", "", "") EVENT(1, 72, "begin", "k", "")
                 EVENT(1, 72, "entry", "k/a", REV(7) VALUE(2))
                     EVENT(1, 72, "entry", "k/b", REV(8) VALUE(3)) EVENT(1, 72, "end", "", REV(8)));
    BAD(WATCHES,
        THREE EVENT(1, 70, "begin", "k", "") EVENT(1, 70, "entry", "k/a", REV(7) VALUE(2))
            EVENT(1, 72, "begin", "k", "") EVENT(1, 72, "end", "", REV(8)),
        "a snapshot that nobody announced");
}

TEST(a_gap_is_found)
{
    BAD(WATCHES, THREE SNAPSHOT(1, 5, "k", 1) PUT(1, 15, "k/a", 5, 1) PUT(1, 55, "k/b", 8, 3),
        "a gap: k/a at revision 7 was not reported before 8");
    BAD(WATCHES,
        THREE SNAPSHOT(1, 5, "k", 1) PUT(1, 15, "k/a", 5, 1) EVENT(1, 37, "progress", "", REV(7)),
        "a gap: k/a at revision 7");
    BAD(WATCHES, /* known from another watch only */
        CREATED CALL(2, 30, "cas", "k/a", EXPECTED(5)) LOST(2, 40) SNAPSHOT(1, 5, "k", 1)
            PUT(1, 15, "k/a", 5, 1) PUT(1, 36, "k/a", 7, 2) SNAPSHOT(2, 5, "k", 1)
                PUT(2, 15, "k/a", 5, 1) EVENT(2, 50, "progress", "", REV(9)),
        "watch 2");
}

TEST(a_repeat_is_found)
{
    BAD(WATCHES,
        THREE SNAPSHOT(1, 5, "k", 1) PUT(1, 15, "k/a", 5, 1) PUT(1, 36, "k/a", 7, 2)
            PUT(1, 37, "k/a", 7, 2),
        "is a repeat");
    BAD(WATCHES,
        THREE SNAPSHOT(1, 5, "k", 1) PUT(1, 15, "k/a", 5, 1) PUT(1, 36, "k/a", 7, 2)
            PUT(1, 37, "k/a", 5, 1),
        "k/a at revision 5 comes after 7");
    BAD(WATCHES,
        THREE EVENT(1, 45, "begin", "k", "") EVENT(1, 45, "entry", "k/a", REV(7) VALUE(2))
            EVENT(1, 45, "end", "", REV(7)) PUT(1, 46, "k/a", 7, 2),
        "comes after 7");
}

TEST(a_snapshot_that_lacks_a_change_is_found)
{
    BAD(WATCHES,
        THREE EVENT(1, 45, "begin", "k", "") EVENT(1, 45, "entry", "k/a", REV(5) VALUE(1))
            EVENT(1, 45, "end", "", REV(7)),
        "lacks the change of k/a at 7");
    BAD(WATCHES, THREE SNAPSHOT(1, 70, "k", 8), "lacks the change of k/a at 7");
}

TEST(a_value_without_a_writer_is_found)
{
    BAD(WATCHES, CREATED SNAPSHOT(1, 5, "k", 1) PUT(1, 15, "k/a", 5, 1) PUT(1, 16, "k/a", 6, 77),
        "found 77 at k/a, which nobody wrote");
    BAD(WATCHES,
        CREATED CALL(2, 30, "cas", "k/a", EXPECTED(4)) DONE(2, 40, "CONFLICT", "revision", REV(5))
            SNAPSHOT(1, 5, "k", 1) PUT(1, 15, "k/a", 5, 1) PUT(1, 35, "k/a", 6, 2),
        "which nobody wrote");
    BAD(WATCHES, CREATED SNAPSHOT(1, 5, "k", 1) PUT(1, 9, "k/a", 5, 1), "before it was written");
    BAD(WATCHES, THREE SNAPSHOT(1, 5, "k", 1) PUT(1, 15, "k/a", 6, 1), "with revision 6, not 5");
}

TEST(two_watches_that_disagree_are_found)
{
    BAD(WATCHES,
        CREATED SNAPSHOT(1, 5, "k", 1) PUT(1, 15, "k/a", 5, 1) SNAPSHOT(2, 5, "k", 1)
            EVENT(2, 15, "delete", "k/a", REV(5)),
        "is reported as");
}

/* -- stale reads -- */
#define STALE(id, t, key, more)                                                                    \
    CALL(id, t, "stale", key, SESSION(1)) DONE(id, t, "OK", "none", more)

TEST(a_session_that_goes_on_passes)
{
    GOOD(THREE STALE(4, 70, "k/a", REV(5) FOUND(1)) STALE(5, 80, "k/a", REV(7) FOUND(2))
             STALE(6, 90, "k/b", REV(8) FOUND(3)));
    GOOD(THREE STALE(4, 70, "k/a", REV(7) FOUND(2)) ENDED(75, 1) /* another process */
         STALE(5, 80, "k/a", REV(5) FOUND(1)));
}

TEST(a_session_that_goes_back_is_found)
{
    BAD(STALE, THREE STALE(4, 70, "k/a", REV(7) FOUND(2)) STALE(5, 80, "k/a", REV(5) FOUND(1)),
        "read k/a at revision 5 after it had seen 7");
    BAD(STALE, /* over two keys */
        THREE STALE(4, 70, "k/b", REV(8) FOUND(3)) STALE(5, 80, "k/a", REV(5) FOUND(1)),
        "read k/a at revision 5 after it had seen 8");
    BAD(STALE,
        THREE STALE(4, 70, "k/b", REV(8) FOUND(3)) CALL(5, 80, "stale", "k/a", SESSION(1))
            DONE(5, 85, "NOT_FOUND", "none", ""),
        "did not find k/a");
    BAD(STALE,
        THREE STALE(4, 70, "k/a", REV(7) FOUND(2)) ENDED(75, 2) /* of another replica */
        STALE(5, 80, "k/a", REV(5) FOUND(1)),
        "after it had seen 7");
}

TEST(a_read_of_the_future_is_found)
{
    BAD(STALE, THREE STALE(4, 29, "k/a", REV(7) FOUND(2)), "before it was written");
}

/* -- the format -- */
TEST(an_invalid_line_is_refused_with_its_number)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        {CREATED "{\"e\":\"what\"}\n", "line 3: no such kind of line: 'what'"},
        {"{\"e\":\"call\",\"id\":1}\n", "line 1: no 't'"},
        {CREATED DONE(1, 30, "OK", "none", ""), "line 3: no such open call"},
        {CALL(1, 10, "jump", "k/a", ""), "line 1: no such operation: 'jump'"},
        {CALL(1, 10, "get", "k/a", "") DONE(1, 20, "WELL", "none", ""), "no such code: 'WELL'"},
        {EVENT(1, 10, "jump", "k/a", ""), "no such event: 'jump'"},
        {"{\n", "line 1"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct hist h;
        struct note note = {""};
        hist_init(&h);
        CHECK("refused", hist_read(&h, str_from(rows[i].text), &note) != ERR_OK);
        CHECK_HAS("with its line", note.text, rows[i].words);
        hist_deinit(&h);
    }
}

TEST(a_duplicate_id_is_refused)
{
    struct hist h;
    struct note note = {""};

    hist_init(&h);
    CHECK_OK("read", hist_read(&h, str_from(CREATED CALL(1, 30, "get", "k/a", "")), &note));
    CHECK_ERR("twice", hist_seal(&h, &note), ERR_INVALID);
    hist_deinit(&h);
}

TEST(a_search_that_is_too_long_is_named)
{
    struct hist h;
    struct judge_result result;

    read_text(&h, THREE);
    judge_run(&h, JUDGE_KEYS, 1, &result);
    CHECK_U64("neither good nor bad", result.verdict, JUDGE_GAVE_UP);
    CHECK_HAS("and says where", result.why.text, "k/a: gave up after 2 steps");
    hist_deinit(&h);
}
