/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of machine states: names, rules and transitions. Pure. */
#include "model/machine.h"

#include <math.h>
#include <stdio.h>

#include "model/profile.h"

/* --- names --- */

static const char *const state_names[MACHINE_STATE_COUNT] = {
    "Unspecified", "Speculative", "Creating", "Idle",   "Configuring",
    "Configured",  "Draining",    "Deleting", "Failed",
};
static const char *const capacity_names[CAPACITY_TYPE_COUNT] = {NULL, "BareMetal", "Reserved",
                                                                "OnDemand", "Spot"};

static const char *name_of(const char *const *names, uint32_t count, uint32_t number,
                           const char *kind, char text[MACHINE_NAME_CAP])
{
    if (number < count && names[number]) return names[number];
    snprintf(text, MACHINE_NAME_CAP, "%s(%u)", kind, (unsigned)number);
    return text;
}

const char *machine_state_name(uint32_t state, char text[MACHINE_NAME_CAP])
{
    return name_of(state_names, MACHINE_STATE_COUNT, state, "State", text);
}

const char *capacity_type_name(uint32_t type, char text[MACHINE_NAME_CAP])
{
    return name_of(capacity_names, CAPACITY_TYPE_COUNT, type, "CapacityType", text);
}

const char *machine_cordon_name(enum machine_cordon cordon)
{
    static const char *const names[CORDON_COUNT] = {"", "cordon", "drain"};

    assert(cordon < CORDON_COUNT);
    return names[cordon];
}

uint64_t capacity_type_idle_hold_ms(enum capacity_type type)
{
    if (type == CAPACITY_ON_DEMAND) return 600 * MS_PER_SECOND;
    if (type == CAPACITY_SPOT) return 60 * MS_PER_SECOND;
    return IDLE_HOLD_FOREVER;
}

/* --- states --- */

enum rule { ANY, SET, EMPTY };
static const struct {
    enum rule host, cluster, error;
    bool stable, keeps_stamp;
} states[MACHINE_STATE_COUNT] = {
    [MACHINE_SPECULATIVE] = {.host = EMPTY, .cluster = EMPTY, .stable = true},
    [MACHINE_CREATING] = {.host = EMPTY, .cluster = EMPTY},
    [MACHINE_IDLE] = {.host = SET, .stable = true},
    [MACHINE_CONFIGURING] = {.host = SET, .keeps_stamp = true},
    [MACHINE_CONFIGURED] = {.host = SET, .cluster = SET, .stable = true, .keeps_stamp = true},
    [MACHINE_DRAINING] = {.host = SET, .cluster = SET, .keeps_stamp = true},
    [MACHINE_DELETING] = {.host = SET},
    [MACHINE_FAILED] = {.error = SET},
};

bool machine_state_stable(enum machine_state state)
{
    assert(state < MACHINE_STATE_COUNT);
    return states[state].stable;
}

bool machine_state_keeps_stamp(enum machine_state state)
{
    assert(state < MACHINE_STATE_COUNT);
    return states[state].keeps_stamp;
}

/* --- transitions, from row to column ---
 *
 * d  driven: our own action caused the transition
 * o  observed: our action's reply was lost, the provider undid our action or lost or repaired the
 *    host, or a List is one state behind
 * f  foreign: only an action can have caused the transition, and none was ours */
static const char edges[MACHINE_STATE_COUNT][MACHINE_STATE_COUNT + 1] = {
    /* to                    -SCICCDDF    Unspecified, Speculative, Creating, Idle, Configuring, */
    [MACHINE_UNSPECIFIED] = ".........", /* Configured, Draining, Deleting, Failed */
    [MACHINE_SPECULATIVE] = "..dofffoo", /**/
    [MACHINE_CREATING] = ".o.dffffd",    /**/
    [MACHINE_IDLE] = ".oo.doodo",        /**/
    [MACHINE_CONFIGURING] = ".ofd.dood", /**/
    [MACHINE_CONFIGURED] = ".ofoo.doo",  /**/
    [MACHINE_DRAINING] = ".ofdfo.od",    /**/
    [MACHINE_DELETING] = ".dfofff.d",    /**/
    [MACHINE_FAILED] = ".ooooooo.",      /**/
};

enum machine_edge machine_edge(enum machine_state from, enum machine_state to)
{
    assert(from < MACHINE_STATE_COUNT && to < MACHINE_STATE_COUNT);
    switch (edges[from][to]) {
    case 'd': return EDGE_DRIVEN;
    case 'o': return EDGE_OBSERVED;
    case 'f': return EDGE_FOREIGN;
    default: return EDGE_REFUSED;
    }
}

/* --- invariants --- */

const char *machine_fault_name(enum machine_fault fault)
{
    switch (fault) {
    case MACHINE_SOUND: break;
    case MACHINE_FAULT_STRUCTURAL: return "structural";
    case MACHINE_FAULT_PROBABILITY: return "interruption_probability";
    case MACHINE_FAULT_PRICE: return "price";
    }
    return "";
}

static bool breaks(enum rule rule, bool empty, const char *field, const struct machine *m,
                   struct note *note)
{
    if (rule == ANY || (rule == EMPTY) == empty) return false;
    note_set(note, "%s: must %s in state %s", field, rule == EMPTY ? "be empty" : "not be empty",
             state_names[m->state]);
    return true;
}

enum machine_fault machine_invariant(const struct machine *m, struct note *note)
{
    if (m->state == MACHINE_UNSPECIFIED || m->state >= MACHINE_STATE_COUNT) {
        note_set(note, "state: unknown number %u", (unsigned)m->state);
        return MACHINE_FAULT_STRUCTURAL;
    }
    if (breaks(states[m->state].host, m->host_provider.len + m->host_ref.len == 0, "host", m,
               note) ||
        breaks(states[m->state].cluster, m->cluster.len == 0, "cluster", m, note) ||
        breaks(states[m->state].error, m->last_error.len == 0, "last_error", m, note))
        return MACHINE_FAULT_STRUCTURAL;
    /* also rejects NaN */
    if (!(m->interruption_probability >= 0 && m->interruption_probability <= 1)) {
        note_set(note, "interruption_probability: %g is not between 0 and 1",
                 m->interruption_probability);
        return MACHINE_FAULT_PROBABILITY;
    }
    if (!(m->price_per_hour >= 0) || isinf(m->price_per_hour)) {
        note_set(note, "price_per_hour: %g is no price", m->price_per_hour);
        return MACHINE_FAULT_PRICE;
    }
    return MACHINE_SOUND;
}

static enum err length_check(const char *field, struct str text, size_t max, struct note *note)
{
    if (text.len <= max) return ERR_OK;
    return note_fail(note, ERR_TOO_LARGE, "%s: %zu bytes, at most %zu are allowed", field, text.len,
                     max);
}

static enum err dollars_check(const char *field, double dollars, struct note *note)
{
    if (dollars >= 0) return ERR_OK; /* +Inf is the pinned bucket */
    return note_fail(note, ERR_INVALID, "%s: %g is no penalty", field, dollars);
}

static enum err texts_check(const struct machine *m, struct note *note)
{
    const struct {
        const char *field;
        struct str text;
        size_t max;
    } texts[] = {
        {"host.provider", m->host_provider, ID_MAX},
        {"host.ref", m->host_ref, ID_MAX},
        {"cluster", m->cluster, ID_MAX},
        {"instance_type", m->attributes.instance_type, ID_MAX},
        {"zone", m->attributes.zone, ID_MAX},
        {"assigned fingerprint", m->stamp.fingerprint, FINGERPRINT_MAX},
        {"destination", m->destination, ID_MAX},
        {"promised cluster", m->promised.cluster, ID_MAX},
        {"promised fingerprint", m->promised.fingerprint, FINGERPRINT_MAX},
    };
    enum err err = id_check("id", m->id, ID_MAX, note);

    for (size_t i = 0; i < ARRAY_LEN(texts) && !err; i++)
        err = text_check(texts[i].field, texts[i].text, texts[i].max, note);
    if (!err) err = length_check("last_error", m->last_error, ERROR_TEXT_MAX, note);
    if (!err) err = length_check("assigned group", m->stamp.group, GROUP_MAX, note);
    if (!err) err = length_check("promised group", m->promised.group, GROUP_MAX, note);
    return err;
}

enum err machine_check(const struct machine *m, enum machine_fault *ret_fault, struct note *note)
{
    enum machine_fault fault = MACHINE_FAULT_STRUCTURAL;
    enum err err = texts_check(m, note);

    if (!err && m->capacity_type >= CAPACITY_TYPE_COUNT) {
        note_set(note, "capacity_type: unknown number %u", (unsigned)m->capacity_type);
        err = ERR_INVALID;
    }
    if (!err) err = labels_check("labels", m->attributes.labels, m->attributes.label_count, note);
    if (!err)
        err = dollars_check("assigned interruption penalty", m->stamp.interruption_dollars, note);
    if (!err)
        err = dollars_check("assigned reclamation penalty", m->stamp.reclamation_dollars, note);
    if (!err) {
        fault = machine_invariant(m, note);
        if (fault) err = ERR_INVALID;
    }
    if (ret_fault) *ret_fault = err ? fault : MACHINE_SOUND;
    return err;
}
