/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what a reload changes, and which changes wait for a restart. */
#include "conf/internal.h"

static bool reload_entries_equal(const struct option *option, const struct conf_entry *a,
                                 const struct conf_entry *b)
{
    bool a_set = a->place.source != CONF_UNSET, b_set = b->place.source != CONF_UNSET;
    if (a_set != b_set) return false;
    return !a_set || option_value_equal(option, &a->value, &b->value);
}

static enum err reload_copy_value(const struct option *option, const struct option_value *value,
                                  struct arena *memory, struct option_value *ret_copy)
{
    struct option_value copy = *value;

    if (option->kind == OPTION_LIST) {
        return option_make_list(option, value->items, value->item_count, memory, ret_copy, NULL);
    }
    char *text = arena_dup(memory, value->text);
    if (!text) return ERR_NOMEM;
    copy.text = str_of(text, value->text.len);
    *ret_copy = copy;
    return ERR_OK;
}

/* Keeps the old value, and stores the new one beside it, to be shown until the restart. */
static enum err reload_hold_back(const struct option *option, const struct conf_entry *current,
                                 struct conf *next, struct conf_entry *entry)
{
    struct option_value kept = {.text = STR_EMPTY};
    enum err err = ERR_OK;

    if (current->place.source != CONF_UNSET)
        err = reload_copy_value(option, &current->value, &next->memory, &kept);
    if (err) return err;
    entry->next_value = entry->value;
    entry->next_place = entry->place;
    entry->waiting = true;
    entry->value = kept;
    entry->place = current->place;
    return ERR_OK;
}

static bool reload_takes_effect(const struct option *option, const struct conf_entry *next)
{
    if (option->flags & OPTION_RELOAD) return true;
    return (option->flags & OPTION_RELOAD_ON) && next->place.source != CONF_UNSET &&
           next->value.number == 1;
}

enum err conf_reload(const struct conf *current, struct conf *next,
                     struct conf_changes *ret_changes)
{
    size_t count = 0, waiting = 0;

    assert(current->table == next->table);
    assert(next->problem_count == 0);
    next->changes =
        arena_calloc(&next->memory, max_size(next->table->count, 1), sizeof *next->changes);
    if (!next->changes) return ERR_NOMEM;
    for (size_t i = 0; i < next->table->count; i++) {
        const struct option *option = &next->table->options[i];
        bool applied = reload_takes_effect(option, &next->entries[i]);
        if (option->flags & OPTION_FLAG_ONLY) continue;
        if (reload_entries_equal(option, &current->entries[i], &next->entries[i])) continue;
        if (!applied) {
            enum err err = reload_hold_back(option, &current->entries[i], next, &next->entries[i]);
            if (err) return err;
            waiting++;
        }
        next->changes[count++] = (struct conf_change){.option = option, .applied = applied};
    }
    *ret_changes = (struct conf_changes){.each = next->changes, .count = count, .waiting = waiting};
    return ERR_OK;
}

void conf_value_text(struct writer *w, const struct option *option,
                     const struct option_value *value, struct conf_place place)
{
    if (place.source == CONF_UNSET)
        writer_add(w, "none");
    else
        writer_value(w, option, value);
}

enum err conf_change_text(const struct conf *current, const struct conf *next,
                          const struct conf_change *change, struct buf *into)
{
    const struct option *option = change->option;
    size_t index = (size_t)(option - next->table->options);
    const struct conf_entry *was = &current->entries[index], *now = &next->entries[index];
    struct writer w = {.into = into};

    writer_add(&w, "%s: ", option->name);
    conf_value_text(&w, option, &was->value, was->place);
    writer_add(&w, change->applied ? " -> " : " stays in force; ");
    if (change->applied)
        conf_value_text(&w, option, &now->value, now->place);
    else
        conf_value_text(&w, option, &now->next_value, now->next_place);
    if (!change->applied) writer_add(&w, " needs a restart");
    return w.err;
}
