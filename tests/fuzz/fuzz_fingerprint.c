/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile profile: refused by field, or built; then building it again from its own canonical
 * form, and from that form backwards, gives the same fingerprint.
 *
 * Input: records ended by 0x1E, fields by 0x1F. "r" key, operator, values...; "s" key, skew, when;
 * "p" priority, interruption, reclamation. Numbers are decimal; other text is 0. */
#include <stdlib.h>

#include "model/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS = 80, FIELDS = 64 };

static void must(bool holds)
{
    if (!holds) abort();
}

static int64_t number(struct str text)
{
    int64_t value = 0;

    return str_to_i64(text, &value) ? 0 : value;
}

struct rows {
    struct requirement requirements[ROWS];
    struct str values[ROWS][FIELDS];
    struct spread spreads[ROWS];
    struct profile profile;
};

static void read_row(struct str row, struct rows *r)
{
    struct str *fields, field;
    struct profile *p = &r->profile;
    size_t count = 0;

    if (p->requirement_count == ROWS || p->spread_count == ROWS) return;
    fields = r->values[p->requirement_count];
    while (count < FIELDS && str_split(&row, '\x1F', &field)) fields[count++] = field;
    if (count < 3) return;
    if (str_equal(fields[0], STR("r"))) {
        r->requirements[p->requirement_count++] =
            (struct requirement){fields[1], (enum requirement_operator)(uint32_t)number(fields[2]),
                                 &fields[3], count - 3};
    } else if (str_equal(fields[0], STR("s")) && count > 3) {
        r->spreads[p->spread_count++] = (struct spread){
            fields[1], (int32_t)number(fields[2]), (enum spread_when)(uint32_t)number(fields[3])};
    } else if (str_equal(fields[0], STR("p")) && count > 3) {
        p->priority = (int32_t)number(fields[1]);
        p->interruption_bucket = (uint8_t)number(fields[2]);
        p->reclamation_bucket = (uint8_t)number(fields[3]);
    }
}

static void check_same(struct arena *arena, const struct profile *p)
{
    static struct requirement requirements[REQUIREMENTS_MAX];
    static struct spread spreads[SPREADS_MAX];
    struct profile backwards = *p, again;

    must(profile_build(arena, p, &again, NULL) == ERR_OK);
    must(str_equal(again.fingerprint, p->fingerprint));
    for (size_t i = 0; i < p->requirement_count; i++)
        requirements[i] = p->requirements[p->requirement_count - 1 - i];
    for (size_t i = 0; i < p->spread_count; i++) spreads[i] = p->spreads[p->spread_count - 1 - i];
    backwards.requirements = requirements;
    backwards.spreads = spreads;
    must(profile_build(arena, &backwards, &again, NULL) == ERR_OK);
    must(str_equal(again.fingerprint, p->fingerprint));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rows rows;
    struct str rest = str_of(data, size), row;
    struct profile built, plain;
    struct note note = {""};
    struct arena arena;

    rows.profile = (struct profile){.requirements = rows.requirements, .spreads = rows.spreads};
    while (str_split(&rest, '\x1E', &row)) read_row(row, &rows);
    arena_init(&arena, (size_t)64 << 20);
    if (profile_build(&arena, &rows.profile, &built, &note)) {
        must(note.text[0] != '\0');
    } else {
        must(note.text[0] == '\0' && built.fingerprint.len <= FINGERPRINT_MAX);
        check_same(&arena, &built);
        must(profile_without_same(&arena, &built, &plain) == ERR_OK && !profile_same(&plain));
        check_same(&arena, &plain);
        must((requirements_contradict(built.requirements, built.requirement_count, &note) ==
              ERR_OK) == (note.text[0] == '\0'));
    }
    arena_deinit(&arena);
    return 0;
}
