/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a quantity: refused with a reason and unchanged outputs, or read. The printed text
 * reads back to the same value, and its own print is stable. (The first text need not be: 62.5Ki is
 * 64000, which Kubernetes prints as 64k.) As an amount a quantity is never negative. */
#include <stdlib.h>

#include "model/resource.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void as_amount(struct str text, const struct quantity *q)
{
    struct label pair = {STR("cpu"), text};
    struct dimensions dims;
    struct resource_sum sum;
    struct resources one;

    dimensions_init(&dims);
    must((resource_sum_parse(&dims, "f", &pair, 1, &sum, NULL) == ERR_OK) == (q->nano >= 0));
    if (q->nano >= 0) must(resource_sum_get(&sum, 0) == quantity_milli(q));
    if (resources_parse(&dims, "f", &pair, 1, &one, NULL) == ERR_OK)
        must(resources_get(&one, 0) >= 0 && resources_get(&one, 0) == quantity_milli(q));
    dimensions_deinit(&dims);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str given = str_of(data, size);
    struct quantity q = {.nano = 77}, again;
    struct note note = {""};
    char text[QUANTITY_TEXT_CAP], second[QUANTITY_TEXT_CAP];
    enum err err = quantity_parse(given, &q, &note);

    if (err) {
        must(q.nano == 77 && note.text[0] && (err == ERR_PARSE || err == ERR_TOO_LARGE));
        return 0;
    }
    must(note.text[0] == '\0');
    must(quantity_text(&q, text) == strlen(text));
    must(quantity_parse(str_from(text), &again, NULL) == ERR_OK);
    must(quantity_compare(&q, &again) == 0);
    quantity_text(&again, second);
    must(quantity_parse(str_from(second), &again, NULL) == ERR_OK);
    must(quantity_compare(&q, &again) == 0);
    quantity_text(&again, text);
    must(strcmp(text, second) == 0);
    as_amount(given, &q);
    return 0;
}
