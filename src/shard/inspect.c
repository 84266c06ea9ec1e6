/* SPDX-License-Identifier: Apache-2.0 */
/* InspectNeeds: a question becomes a thought, which writes the answer down where the views are. */
#include <stdlib.h>

#include "shard/shard_internal.h"

struct inspect_thought {
    struct thought thought;
    struct inspection *inspection;
};

static void think_inspect(struct thought *thought, struct mind *mind, struct effects *out)
{
    struct inspect_thought *t = CONTAINER_OF(thought, struct inspect_thought, thought);
    struct needs_view view;
    enum err err = core_inspect(mind->core, t->inspection->cluster, t->inspection->limit,
                                &mind->scratch, &view);

    (void)out;
    inspection_write(t->inspection, err, &view, core_dimensions(mind->core));
}

static void inspect_done(struct thought *thought, enum err err)
{
    struct inspect_thought *t = CONTAINER_OF(thought, struct inspect_thought, thought);

    if (err) inspection_write(t->inspection, err, NULL, NULL);
    inspection_done(t->inspection);
    free(t);
}

static void on_inspect(void *owner, struct inspection *inspection)
{
    struct inspect_thought *t = malloc(sizeof *t);
    struct shard *shard = owner;

    if (!t) {
        inspection_write(inspection, ERR_NOMEM, NULL, NULL);
        inspection_done(inspection);
        return;
    }
    t->thought = (struct thought){.think = think_inspect, .done = inspect_done};
    t->inspection = inspection;
    thinker_submit(shard->thinker, &t->thought);
}

enum err inspect_open(struct shard *shard)
{
    struct inspections_options options = {.io = shard->io, .inspect = on_inspect, .owner = shard};

    return inspections_open(&options, &shard->inspections);
}
