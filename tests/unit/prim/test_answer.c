/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/answer.h"

#include "lib/test.h"

TEST(answers_carry_a_text_that_fits)
{
    coord_result result = prim_answer(COORD_INVALID, COORD_R_KEY, "%0400d", 1);
    CHECK_I64("code", result.code, COORD_INVALID);
    CHECK_I64("reason", result.reason, COORD_R_KEY);
    CHECK_SIZE("cut", strlen(result.text), sizeof result.text - 1);
    CHECK_I64("unknown", result.hint_ms, -1);
    CHECK_U32("clear", result.flags, 0);
    result = prim_unclear(COORD_R_TIMEOUT, "%d", 5);
    CHECK_I64("code", result.code, COORD_UNAVAILABLE);
    CHECK_U32("unclear", result.flags, COORD_F_MAYBE_APPLIED);
    CHECK_TEXT("text", result.text, "5");
    CHECK_I64("ok", prim_ok(COORD_R_RENEWED).reason, COORD_R_RENEWED);
}

TEST(owners_are_cut_to_what_fits)
{
    char name[200];
    coord_result result = prim_ok(COORD_R_NONE);
    memset(name, 'o', sizeof name);
    prim_answer_owner(&result, str_of(name, sizeof name));
    CHECK_SIZE("cut", strlen(result.owner), sizeof result.owner - 1);
    prim_answer_owner(&result, STR("me"));
    CHECK_TEXT("ends", result.owner, "me");
}

TEST(an_entry_owns_its_strings)
{
    char key[] = "a/b", value[] = "v\0w";
    coord_entry *entry = prim_entry_make(&(coord_entry){.revision = 9, .ttl_ms = 5}, str_of(key, 3),
                                         str_of(value, 3), STR("me"));
    key[0] = value[0] = '?';
    CHECK("made", entry != NULL);
    CHECK_STR("key", str_of(entry->key.at, entry->key.len), STR("a/b"));
    CHECK_STR("value", str_of(entry->value.at, entry->value.len), STR("v\0w"));
    CHECK_U64("both end with a NUL", (uint64_t)(entry->key.at[3] + entry->value.at[3]), 0);
    CHECK_TEXT("owner", entry->owner, "me");
    CHECK_U64("the rest", entry->revision, 9);
    coord_entry_free(entry);
    coord_entry_free(NULL);
}

TEST(holders_are_sorted_and_bounded)
{
    coord_holders *holders = prim_holders_make(3);
    static const uint32_t slots[] = {7, 0, 3};
    for (size_t i = 0; i < 3; i++) {
        CHECK("room",
              prim_holders_add(holders, &(coord_holder){.slot = slots[i]}, STR("o"), STR("v")));
    }
    CHECK("full", !prim_holders_add(holders, &(coord_holder){0}, STR(""), STR("")));
    prim_holders_done(holders);
    CHECK_SIZE("rows", holders->count, 3);
    CHECK_U32("by slot", holders->rows[0].slot, 0);
    CHECK_U32("by slot", holders->rows[1].slot, 3);
    CHECK_U32("by slot", holders->rows[2].slot, 7);
    CHECK_TEXT("value", holders->rows[2].value.at, "v");
    coord_holders_free(holders);
    coord_holders_free(NULL);
    holders = prim_holders_make(0);
    prim_holders_done(holders);
    coord_holders_free(holders);
}

TEST(ids)
{
    coord_id a = prim_id_random(), b = prim_id_random(), zero = {{0}};
    char text[PRIM_ID_TEXT_CAP];
    CHECK("never the same", !prim_id_equal(&a, &b));
    CHECK("not zero", !prim_id_is_zero(&a) && prim_id_is_zero(&zero));
    prim_id_text(&(coord_id){{0x01, 0xab}}, text);
    CHECK_TEXT("hexadecimal", text, "01ab0000000000000000000000000000");
    a = prim_id_request();
    b = prim_id_request();
    CHECK("ordered by time, as far as the clock is", memcmp(a.b, b.b, 6) <= 0);
    CHECK("and never the same", !prim_id_equal(&a, &b));
}

TEST(every_code_and_reason_has_a_name)
{
    CHECK_TEXT("first", coord_code_name(COORD_OK), "OK");
    CHECK_TEXT("last", coord_code_name(COORD_UNAVAILABLE), "UNAVAILABLE");
    CHECK_TEXT("past it", coord_code_name(8), "?");
    CHECK_TEXT("before it", coord_code_name(-1), "?");
    CHECK_TEXT("a reason", coord_reason_name(COORD_R_ALREADY_HOLDER), "already_holder");
    CHECK_TEXT("the last", coord_reason_name(COORD_R_CLOSED), "closed");
    CHECK_TEXT("none", coord_reason_name(19), "?");
}
