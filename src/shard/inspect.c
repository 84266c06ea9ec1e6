/* SPDX-License-Identifier: Apache-2.0 */
/* InspectNeeds: a question becomes a job, which writes the answer down where the views are. */
#include "shard/shard_internal.h"

static void inspect_run(struct decide_job *job, struct decide_context *context, struct effects *)
{
    struct inspection *inspection = CONTAINER_OF(job, struct inspection, job);
    struct needs_view view;
    enum err err = core_inspect(context->core, inspection->cluster, inspection->limit,
                                &context->scratch, &view);

    inspection_write(inspection, err, &view, core_dimensions(context->core));
}

static void inspect_done(struct decide_job *job, enum err err)
{
    struct inspection *inspection = CONTAINER_OF(job, struct inspection, job);

    if (err) inspection_write(inspection, err, NULL, NULL);
    inspection_done(inspection);
}

static void on_inspect(void *owner, struct inspection *inspection)
{
    struct shard *shard = owner;

    inspection->job = (struct decide_job){.run = inspect_run, .done = inspect_done};
    decide_thread_submit(shard->decide_thread, &inspection->job);
}

enum err inspect_open(struct shard *shard)
{
    struct inspections_options options = {.io = shard->io, .inspect = on_inspect, .owner = shard};

    return inspections_open(&options, &shard->inspections);
}
