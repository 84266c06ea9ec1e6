/* SPDX-License-Identifier: Apache-2.0 */
/* Shared objects: stored once, reference-counted, and found by key. Each kind has a table in its
 * owner (the inventory or the needs table).
 *
 * An object starts with its link. Its key consists of adjacent bytes of the struct without padding,
 * or of a text behind the struct, or of both. */
#ifndef SHARD_STATE_SHARED_H
#define SHARD_STATE_SHARED_H
#include "base/str.h"
#include "shard/state/table.h"

struct shared_kind {
    size_t size, key, key_size; /* size of the struct; offset and size of the key's bytes */
    size_t hash_size;           /* number of key bytes that are hashed; 0: all */
    size_t text, len;           /* offsets of the text and its uint32_t length; 0: no text */
    size_t table, bytes, seed;  /* offsets in the owner */
    size_t slots, slot;         /* offsets in the owner and in the struct; 0: no slots */
    enum err (*born)(void *owner, void *object); /* before an object is inserted; may be NULL */
    void (*gone)(void *owner, void *object);     /* before an object is removed; may be NULL */
    void (*release)(void *owner, void *object);  /* releases what the struct holds; may be NULL */
    struct { /* shared objects that the object refers to; kind NULL ends the list */
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

/* Takes a reference to the object with the key of `own_like` and `text`, or creates it from
 * `own_like`. Takes over the references in `own_like`, even on failure. `err` is the result of
 * taking these references; an error is returned. */
enum err shared_take(enum err err, void *owner, const struct shared_kind *kind, void *own_like,
                     struct str text, void *ret_pointer);
void shared_give(void *owner, const struct shared_kind *kind, void *object); /* NULL is allowed */
void *shared_find(const void *owner, const struct shared_kind *kind, const void *like,
                  struct str text); /* NULL: none */
#endif
