/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/host/cloud_shelf.h"

#include <stdlib.h>
#include <string.h>

enum err shelf_grow(struct cloud_pool *shelf, uint32_t count)
{
    uint32_t cap = shelf->unit_cap ? shelf->unit_cap : 16;
    struct cloud_unit *units;

    if (count <= shelf->unit_count) return ERR_OK;
    while (cap < count) cap *= 2;
    if (cap > shelf->unit_cap) {
        units = realloc(shelf->units, cap * sizeof *units);
        if (!units) return ERR_NOMEM;
        shelf->units = units;
        shelf->unit_cap = cap;
    }
    memset(&shelf->units[shelf->unit_count], 0, (count - shelf->unit_count) * sizeof *shelf->units);
    shelf->unit_count = count;
    return ERR_OK;
}

void shelf_add_host(struct cloud_pool *shelf, uint32_t unit)
{
    if (shelf->units[unit].place) return;
    shelf->units[shelf->host_count++].listed = unit;
    shelf->units[unit].place = shelf->host_count;
}

void shelf_drop_host(struct cloud_pool *shelf, uint32_t unit)
{
    uint32_t place = shelf->units[unit].place, last;

    if (!place) return;
    last = shelf->units[--shelf->host_count].listed;
    shelf->units[place - 1].listed = last;
    shelf->units[last].place = place;
    shelf->units[unit].place = 0;
}
