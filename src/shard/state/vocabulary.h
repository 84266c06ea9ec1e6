/* SPDX-License-Identifier: Apache-2.0 */
/* The shared objects that describe machines. x_take() finds or creates an object and takes a
 * reference (ERR_NOMEM: nothing changed). shared_give() releases a reference. */
#ifndef SHARD_STATE_VOCABULARY_H
#define SHARD_STATE_VOCABULARY_H
#include "shard/state/cohort.h"
#include "shard/state/shared.h"

/* Arguments for shared_give(). */
extern const struct shared_kind word_kind, cluster_kind, key_kind, stamp_kind, promise_kind,
    shape_kind;

/* NULL: no object uses the text. */
struct word *word_find(const struct inventory *inv, struct str text);
/* "" gives NULL */
enum err word_take(struct inventory *inv, struct str text, struct word **ret_word);
/* *ret_slot is SLOT_NONE if both texts are empty. */
enum err origin_take(struct inventory *inv, struct str host_provider, struct str last_error,
                     uint32_t *ret_slot);
void origin_give(struct inventory *inv, uint32_t slot); /* SLOT_NONE is allowed */
/* SLOT_NONE gives the empty origin */
const struct origin *origin_at(const struct inventory *inv, uint32_t slot);
enum err cluster_take(struct inventory *inv, struct str text, struct cohort_cluster **ret_cluster);
enum err key_take(struct inventory *inv, struct str cluster, struct str fingerprint,
                  struct str group, struct key **ret_key);
/* Call when a key appeared or disappeared, or an Idle machine is kept for the key or no longer
 * kept. */
void key_changed(struct inventory *inv, const struct key *key);
/* *ret_stamp is NULL for an empty stamp. */
enum err stamp_take(struct inventory *inv, const struct machine_stamp *given,
                    struct stamp **ret_stamp);
/* *ret_promise is NULL for an empty promise. */
enum err promise_take(struct inventory *inv, const struct machine_promise *given,
                      uint64_t idle_since_ms, struct promise **ret_promise);
enum err shape_take(struct inventory *inv, const struct machine *machine,
                    struct machine_shape **ret_shape);
/* True if both have the same text form, including formats and zero amounts. */
bool resources_same(const struct resources *a, const struct resources *b);
enum err look_take(struct inventory *inv, const struct attributes *attributes,
                   struct look **ret_look);
bool look_is(const struct look *look, const struct attributes *given);
struct look_brief look_brief_of(const struct look *look);
void look_give(struct inventory *inv, struct look *look);
/* Copies the labels in their original form into the arena. ERR_NOMEM. */
enum err look_attributes(const struct look *look, struct arena *arena,
                         struct attributes *ret_attributes);

static inline uint32_t bytes_hash(const struct inventory *inv, const void *bytes, size_t len)
{
    return (uint32_t)str_hash(str_of(bytes, len), inv->options.seed);
}
#endif
