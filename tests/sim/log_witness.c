/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of the log scenario, made at every event; see log_story.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "log_story.h"

enum err log_witness_open(struct log_witness *witness)
{
    witness->seen = calloc(LOG_INDEX_MAX, sizeof *witness->seen);
    witness->leaders = calloc(LOG_TERMS_MAX, sizeof *witness->leaders);
    witness->attempts = calloc(LOG_ATTEMPTS_MAX, sizeof *witness->attempts);
    if (!witness->seen || !witness->leaders || !witness->attempts) return ERR_NOMEM;
    return ERR_OK;
}

void log_witness_close(struct log_witness *witness)
{
    for (size_t i = 0; i < LOG_KEYS; i++) free(witness->keys[i].at);
    free(witness->seen);
    free(witness->leaders);
    free(witness->attempts);
}

void log_witness_wrong(struct log_witness *witness, const char *format, ...)
{
    char text[NOTE_CAP];
    va_list args;

    if (witness->wrong) return; /* only the first fault counts */
    witness->wrong = true;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    note_set(&witness->why, "%s", text);
}

void log_witness_leads(struct log_witness *witness, uint64_t term, uint64_t id)
{
    if (term >= LOG_TERMS_MAX) {
        log_witness_wrong(witness, "term %" PRIu64 ": elections without end", term);
        return;
    }
    if (witness->leaders[term] && witness->leaders[term] != id)
        log_witness_wrong(witness, "term %" PRIu64 " has two leaders", term);
    witness->leaders[term] = id;
}

static uint64_t entry_hash(const struct machine_entry *entry)
{
    return str_hash(entry->command, entry->term * 31 + entry->version) ^
           str_hash(entry->request_id, 7) ^ str_hash(entry->actor, 11);
}

static enum err history_add(struct key_history *history, struct key_version version)
{
    if (history->count == history->cap) {
        size_t cap = history->cap ? history->cap * 2 : 64;
        struct key_version *at = realloc(history->at, cap * sizeof *at);
        if (!at) return ERR_NOMEM;
        history->at = at;
        history->cap = cap;
    }
    history->at[history->count++] = version;
    return ERR_OK;
}

/* Commands are SETs whose request id is "<attempt>" and whose actor is the key's number. */
static uint64_t number_of(struct str text)
{
    uint64_t value = 0;
    return str_to_u64(text, &value) ? 0 : value;
}

static void first_applied(struct log_witness *witness, const struct machine_entry *entry)
{
    uint64_t attempt = number_of(entry->request_id), key = number_of(entry->actor);
    struct attempt_fact *fact = &witness->attempts[attempt];
    struct key_history *history = &witness->keys[key < LOG_KEYS ? key : 0];
    uint64_t revision = history->count ? history->at[history->count - 1].revision + 1 : 1;

    witness->seen[entry->index].attempt = attempt;
    if (attempt == 0 || attempt > witness->attempt_count || key >= LOG_KEYS) {
        log_witness_wrong(witness, "index %" PRIu64 " holds what nobody proposed", entry->index);
        return;
    }
    if (fact->index)
        log_witness_wrong(witness, "attempt %" PRIu64 " is at %" PRIu64 " and at %" PRIu64, attempt,
                          fact->index, entry->index);
    if (fact->end == ATTEMPT_NO)
        log_witness_wrong(witness,
                          "attempt %" PRIu64 " was said not to be applied, and is at %" PRIu64,
                          attempt, entry->index);
    fact->index = entry->index;
    if (history_add(history, (struct key_version){entry->index, attempt, revision}))
        log_witness_wrong(witness, "out of memory");
}

void log_witness_applied(struct log_witness *witness, uint64_t replica,
                         const struct machine_entry *entry, uint64_t state_hash)
{
    struct log_seen *seen;
    uint64_t hash = entry_hash(entry);

    if (entry->index >= LOG_INDEX_MAX) {
        log_witness_wrong(witness, "more entries than a story may have");
        return;
    }
    seen = &witness->seen[entry->index];
    if (seen->hash == 0) {
        if (entry->index < witness->newest)
            log_witness_wrong(witness, "index %" PRIu64 " applied first behind %" PRIu64,
                              entry->index, witness->newest);
        else if (entry->clock_ns < witness->seen[witness->newest].clock_ns ||
                 entry->level < witness->seen[witness->newest].level)
            log_witness_wrong(witness, "index %" PRIu64 ": the clock or the level fell",
                              entry->index);
        *seen = (struct log_seen){.hash = hash,
                                  .state_hash = state_hash,
                                  .clock_ns = entry->clock_ns,
                                  .level = entry->level};
        witness->newest = max_u64(witness->newest, entry->index);
        first_applied(witness, entry);
    } else if (seen->hash != hash) {
        log_witness_wrong(witness, "index %" PRIu64 ": replica %" PRIx64 " applies another entry",
                          entry->index, replica);
    } else if (seen->state_hash != state_hash || seen->clock_ns != entry->clock_ns ||
               seen->level != entry->level) {
        log_witness_wrong(witness, "index %" PRIu64 ": replica %" PRIx64 " came to another state",
                          entry->index, replica);
    }
}

uint64_t log_witness_attempt(struct log_witness *witness)
{
    if (witness->attempt_count + 1 >= LOG_ATTEMPTS_MAX) return 0;
    witness->attempts[++witness->attempt_count] = (struct attempt_fact){.floor = witness->floor};
    return witness->attempt_count;
}

void log_witness_wrote(struct log_witness *witness, uint64_t attempt, enum err err, uint64_t index)
{
    struct attempt_fact *fact = &witness->attempts[attempt];

    if (fact->end != ATTEMPT_OPEN) {
        log_witness_wrong(witness, "attempt %" PRIu64 " was answered twice", attempt);
        return;
    }
    if (err == ERR_OK) {
        fact->end = ATTEMPT_OK;
        witness->writes_ok++;
        if (fact->index != index || index == 0)
            log_witness_wrong(
                witness, "attempt %" PRIu64 ": reported done at %" PRIu64 ", but it is at %" PRIu64,
                attempt, index, fact->index);
        if (index <= fact->floor)
            log_witness_wrong(
                witness, "attempt %" PRIu64 " at %" PRIu64 " began after %" PRIu64 " was reported",
                attempt, index, fact->floor);
        witness->floor = max_u64(witness->floor, index);
    } else if (err == ERR_UNKNOWN) {
        fact->end = ATTEMPT_UNKNOWN;
        witness->unknown++;
    } else {
        fact->end = ATTEMPT_NO;
        witness->no++;
        if (fact->index)
            log_witness_wrong(witness,
                              "attempt %" PRIu64 " is applied at %" PRIu64 ", but %s was answered",
                              attempt, fact->index, err_name(err));
    }
}

/* The last version at or before `index`; count 0: none. */
static struct key_version version_at(const struct key_history *history, uint64_t index)
{
    size_t low = 0, high = history->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (history->at[middle].index <= index)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? history->at[low - 1] : (struct key_version){0};
}

void log_witness_read(struct log_witness *witness, uint64_t floor, uint64_t index, size_t key,
                      bool found, uint64_t revision, uint64_t attempt)
{
    struct key_version want = version_at(&witness->keys[key], index);

    witness->reads_ok++;
    if (index < floor)
        log_witness_wrong(witness,
                          "a read of key %zu saw %" PRIu64 " after %" PRIu64 " was reported", key,
                          index, floor);
    if (found != (want.index != 0) || revision != want.revision || attempt != want.attempt)
        log_witness_wrong(witness,
                          "a read of key %zu at %" PRIu64 " found attempt %" PRIu64
                          ", which is the revision of %" PRIu64,
                          key, index, attempt, want.attempt);
    witness->floor = max_u64(witness->floor, index);
}
