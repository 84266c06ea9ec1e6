/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to List, read as it arrives.
 *
 * One MachineList may have hundreds of megabytes, so nobody holds it: its bytes come in pieces, cut
 * anywhere, and each machine is handed out as soon as it is whole. Memory follows the largest
 * record. No I/O and no clock; it lives on the thread that merges, not on the one that receives.
 *
 * A record that cannot be read, or has more than PROVIDER_MACHINE_MAX bytes, is refused alone: the
 * List goes on. When not even its id can be made out, the List is not `whole`, because a machine
 * that is missing from it may be that one. What is handed out has an id and could be read; the rest
 * is for machine_check(), as machine_wire.h says. */
#ifndef PROVIDER_LIST_H
#define PROVIDER_LIST_H
#include "provider/machine_wire.h"

enum {
    PROVIDER_MACHINE_MAX = 1 << 20,  /* bytes of one record; 256 of the longest labels fit twice */
    PROVIDER_REMOVED_MAX = 64 << 20, /* bytes of everything else, tombstones above all */
};

struct provider_list_events {
    /* An error ends the walk and is what feed returns. */
    enum err (*on_machine)(void *context, const struct machine_record *record);
    void (*on_refused)(void *context, struct str id, const char *why); /* `id` may be empty */
    void (*on_removed)(void *context, struct str id); /* from finish, after all machines */
};

struct provider_list;
/* The reader is borrowed for as long as the list is open. ERR_NOMEM. */
enum err provider_list_open(struct machine_reader *reader,
                            const struct provider_list_events *events, void *context,
                            struct provider_list **ret_list);
void provider_list_close(struct provider_list *list); /* NULL is fine */
/* ERR_PARSE (not a MachineList), ERR_TOO_LARGE, ERR_NOMEM, or what on_machine said. After an error
 * every later call says the same. */
enum err provider_list_feed(struct provider_list *list, struct str bytes, struct note *note);

struct provider_list_end {
    uint64_t machines, refused, removed;
    bool whole; /* every record had an id: what a full List leaves out is gone */
    bool more;  /* a page; ask again with next_page */
    struct str next_page;
    /* For the since_revision of the next List. Empty: ask for everything, because there is no
     * revision, or the provider does not say what it removed. */
    struct str cursor;
    struct str revision; /* as it was given */
    bool tombstones;     /* it says what it removed */
};
/* All bytes were fed. The texts belong to the list. ERR_PARSE when it was cut short, or `more` has
 * no next_page. */
enum err provider_list_finish(struct provider_list *list, struct provider_list_end *ret_end,
                              struct note *note);
#endif
