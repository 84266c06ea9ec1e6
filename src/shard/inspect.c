/* SPDX-License-Identifier: Apache-2.0 */
/* InspectNeeds: a question becomes a thought, which writes the answer down where the views are. */
#include "shard/shard_internal.h"

static void think_inspect(struct thought *thought, struct mind *mind, struct effects *out)
{
    struct inspection *inspection = CONTAINER_OF(thought, struct inspection, thought);
    struct needs_view view;
    enum err err =
        core_inspect(mind->core, inspection->cluster, inspection->limit, &mind->scratch, &view);

    (void)out;
    inspection_write(inspection, err, &view, core_dimensions(mind->core));
}

static void inspect_done(struct thought *thought, enum err err)
{
    struct inspection *inspection = CONTAINER_OF(thought, struct inspection, thought);

    if (err) inspection_write(inspection, err, NULL, NULL);
    inspection_done(inspection);
}

static void on_inspect(void *owner, struct inspection *inspection)
{
    struct shard *shard = owner;

    inspection->thought = (struct thought){.think = think_inspect, .done = inspect_done};
    thinker_submit(shard->thinker, &inspection->thought);
}

enum err inspect_open(struct shard *shard)
{
    struct inspections_options options = {.io = shard->io, .inspect = on_inspect, .owner = shard};

    return inspections_open(&options, &shard->inspections);
}
