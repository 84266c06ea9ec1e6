/* SPDX-License-Identifier: Apache-2.0 */
/* The small shared objects that describe machines. x_take() finds or creates an object and takes a
 * reference. shared_give() releases a reference. Takes are all or nothing (ERR_NOMEM). */
#ifndef SHARD_STATE_VOCABULARY_H
#define SHARD_STATE_VOCABULARY_H
#include "shard/state/cohort.h"
#include "shard/state/shared.h"

/* Arguments for shared_give(). */
extern const struct shared_kind word_kind, cluster_kind, key_kind, stamp_kind, promise_kind,
    shape_kind;

/* Returns the word of a text, or NULL if no object uses the text. */
struct word *word_find(const struct inventory *inv, struct str text);
/* "" gives NULL */
enum err word_take(struct inventory *inv, struct str text, struct word **ret_word);
/* Sets *ret_slot to SLOT_NONE if both texts are empty. */
enum err origin_take(struct inventory *inv, struct str host_provider, struct str last_error,
                     uint32_t *ret_slot);
void origin_give(struct inventory *inv, uint32_t slot); /* SLOT_NONE is allowed */
/* SLOT_NONE gives the empty origin */
const struct origin *origin_at(const struct inventory *inv, uint32_t slot);
enum err cluster_take(struct inventory *inv, struct str text, struct cohort_cluster **ret_cluster);
enum err key_take(struct inventory *inv, struct str cluster, struct str fingerprint,
                  struct str group, struct key **ret_key);
/* Records that a key, or an Idle machine that is kept for the key, was added or removed. */
void key_changed(struct inventory *inv, const struct key *key);
/* Sets *ret_stamp to NULL for an empty stamp. */
enum err stamp_take(struct inventory *inv, const struct machine_stamp *given,
                    struct stamp **ret_stamp);
/* Sets *ret_promise to NULL if nothing is promised. */
enum err promise_take(struct inventory *inv, const struct machine_promise *given,
                      uint64_t idle_since_ms, struct promise **ret_promise);
enum err shape_take(struct inventory *inv, const struct machine *machine,
                    struct machine_shape **ret_shape);
/* Returns whether `a` and `b` have the same text form, including formats and zero amounts. */
bool resources_same(const struct resources *a, const struct resources *b);
enum err look_take(struct inventory *inv, const struct attributes *attributes,
                   struct look **ret_look);
bool look_is(const struct look *look, const struct attributes *given);
struct look_brief look_brief_of(const struct look *look);
void look_give(struct inventory *inv, struct look *look);
/* Copies a look's labels, in their original form, into the arena. Returns ERR_NOMEM. */
enum err look_attributes(const struct look *look, struct arena *arena,
                         struct attributes *ret_attributes);

static inline uint32_t bytes_hash(const struct inventory *inv, const void *bytes, size_t len)
{
    return (uint32_t)str_hash(str_of(bytes, len), inv->options.seed);
}
#endif
