/* SPDX-License-Identifier: Apache-2.0 */
/* Shared objects: stored once and reference-counted. They are found by key, created for their first
 * user and freed with the last user. Each kind has a table in its owner (the inventory or the needs
 * table), which counts the bytes.
 *
 * An object starts with its link. Its key consists of adjacent bytes of the struct without padding,
 * or a text behind the struct, or both. */
#ifndef SHARD_STATE_SHARED_H
#define SHARD_STATE_SHARED_H
#include "base/str.h"
#include "shard/state/table.h"

struct shared_kind {
    size_t size, key, key_size; /* size of the struct; offset and size of the key's bytes */
    size_t hash_size;           /* number of key bytes that are hashed; 0: all */
    size_t text, len; /* offsets in the struct of the text and its uint32_t length; 0: no text */
    size_t table, bytes, seed; /* offsets in the owner */
    size_t slots, slot; /* offsets in the owner and in the struct; 0: the objects have no slots */
    enum err (*born)(void *owner, void *object); /* called before an object is inserted; or NULL */
    void (*gone)(void *owner, void *object);     /* called before an object is removed; or NULL */
    void (*release)(void *owner, void *object);  /* releases what the struct holds; may be NULL */
    struct { /* shared objects that the object refers to and releases; kind NULL ends the list */
        const struct shared_kind *kind;
        size_t offset;
    } parts[2];
};
#define SHARED_KEY(type, first, last)                                                              \
    .key = offsetof(struct type, first), .key_size = offsetof(struct type, last) +                 \
                                                     sizeof((struct type *)0)->last -              \
                                                     offsetof(struct type, first)
#define SHARED_TEXT(type, length, characters)                                                      \
    .text = offsetof(struct type, characters), .len = offsetof(struct type, length)
#define SHARED_TABLE(owner, objects, type)                                                         \
    .size = sizeof(struct type), .table = offsetof(struct owner, objects),                         \
    .bytes = offsetof(struct owner, bytes), .seed = offsetof(struct owner, options.seed)
#define SHARED_PART(kind, type, member)                                                            \
    {                                                                                              \
        &(kind), offsetof(struct type, member)                                                     \
    }
#define SHARED_SLOTS(owner, numbers, type)                                                         \
    .slots = offsetof(struct owner, numbers), .slot = offsetof(struct type, slot)

/* Takes a reference to the object with the key of `own_like` and `text`, or creates the object from
 * `own_like`. `err` is the result of taking the parts of `own_like`. Takes over the references to
 * these parts, even on failure. Sets *ret_pointer, a pointer to an object of this kind, on success.
 * Returns `err`, ERR_NOMEM, or an error of `born`. */
enum err shared_take(enum err err, void *owner, const struct shared_kind *kind, void *own_like,
                     struct str text, void *ret_pointer);
void shared_give(void *owner, const struct shared_kind *kind, void *object); /* NULL is allowed */
void *shared_find(const void *owner, const struct shared_kind *kind, const void *like,
                  struct str text); /* NULL: none */
#endif
