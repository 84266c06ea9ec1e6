/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the group of a co-location term, byte for byte as the original operator does. No I/O. */
#include "operator/core/request.h"

#include <stdlib.h>

static int compare_labels(const void *a, const void *b)
{
    return str_compare(((const struct label *)a)->key, ((const struct label *)b)->key);
}

/* The original operator compares the joined values "a,b". No character of a label value is less
 * than ',', so comparing value by value gives the same order. */
static int compare_values(const struct selector_term *a, const struct selector_term *b)
{
    size_t both = min_size(a->value_count, b->value_count);

    for (size_t i = 0; i < both; i++) {
        int order = str_compare(a->values[i], b->values[i]);
        if (order) return order;
    }
    return (a->value_count > b->value_count) - (a->value_count < b->value_count);
}

static int compare_terms(const void *left, const void *right)
{
    const struct selector_term *a = left, *b = right;
    int order = str_compare(a->key, b->key);

    if (!order) order = str_compare(a->op, b->op);
    return order ? order : compare_values(a, b);
}

static enum err write_term(const struct selector_term *term, struct buf *out)
{
    enum err err = buf_appendf(out, "%.*s %.*s ", STR_ARG(term->key), STR_ARG(term->op));

    for (size_t i = 0; i < term->value_count && !err; i++) {
        if (i) err = buf_append_byte(out, ',');
        if (!err) err = buf_append(out, term->values[i]);
    }
    return err ? err : buf_append_byte(out, ';');
}

enum err group_write(struct str topology_key, struct label *labels, size_t label_count,
                     struct selector_term *terms, size_t term_count, struct buf *out)
{
    enum err err = buf_append(out, topology_key);

    if (!err) err = buf_append_byte(out, '\0');
    if (err || (label_count == 0 && term_count == 0)) return err;
    if (label_count) qsort(labels, label_count, sizeof *labels, compare_labels);
    if (term_count) qsort(terms, term_count, sizeof *terms, compare_terms);
    for (size_t i = 0; i < label_count && !err; i++)
        err = buf_appendf(out, "%.*s=%.*s,", STR_ARG(labels[i].key), STR_ARG(labels[i].value));
    if (!err) err = buf_append_byte(out, ';');
    for (size_t i = 0; i < term_count && !err; i++) err = write_term(&terms[i], out);
    return err;
}
