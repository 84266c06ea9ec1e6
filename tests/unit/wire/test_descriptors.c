/* SPDX-License-Identifier: Apache-2.0 */
/* Lookups over the embedded descriptors. */
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"
#include "wire/descriptors.h"

extern const unsigned char echo_descriptor_set[];
extern const size_t echo_descriptor_set_len;

static struct str echo_set(void)
{
    return str_of(echo_descriptor_set, echo_descriptor_set_len);
}

static const struct {
    const char *symbol, *file; /* NULL: not found */
} symbols[] = {
    {"bigfleet.v1alpha1.Machine", "bigfleet/v1alpha1/provider.proto"},
    {"bigfleet.v1alpha1.Machine.id", "bigfleet/v1alpha1/provider.proto"},
    {"bigfleet.v1alpha1.Machine.LabelsEntry", "bigfleet/v1alpha1/provider.proto"},
    {"bigfleet.v1alpha1.Machine.LabelsEntry.key", "bigfleet/v1alpha1/provider.proto"},
    {"bigfleet.v1alpha1.MachineState", "bigfleet/v1alpha1/provider.proto"},
    {"bigfleet.v1alpha1.MACHINE_STATE_IDLE", "bigfleet/v1alpha1/provider.proto"},
    {"bigfleet.v1alpha1.CapacityProvider", "bigfleet/v1alpha1/provider.proto"},
    {"bigfleet.v1alpha1.CapacityProvider.List", "bigfleet/v1alpha1/provider.proto"},
    {"bigfleet.v1alpha1.Coordinator.ReportShard", "bigfleet/v1alpha1/coordinator.proto"},
    {"bigfleet.v1alpha1.CoordinatorInstruction.payload", "bigfleet/v1alpha1/coordinator.proto"},
    {"bigfleet.v1alpha1.InstructAck.Outcome", "bigfleet/v1alpha1/coordinator.proto"},
    {"bigfleet.v1alpha1.InstructAck.OUTCOME_FAILED", "bigfleet/v1alpha1/coordinator.proto"},
    {"bigfleet.v1alpha1.Shard", "bigfleet/v1alpha1/shard.proto"},
    {"etcdserverpb.KV", "etcd/rpc.proto"},
    {"etcdserverpb.KV.Range", "etcd/rpc.proto"},
    {"mvccpb.Event.EventType", "etcd/mvcc.proto"},
    {"v3lockpb.Lock.Lock", "etcd/lock.proto"},
    {"rollout.transport.v1.Heartbeat.Beat", "rollout/transport.proto"},
    {"grpc.health.v1.Health", "grpc/health/v1/health.proto"},
    {"grpc.reflection.v1.ServerReflection", "grpc/reflection/v1/reflection.proto"},
    {"grpc.reflection.v1alpha.ServerReflection", "grpc/reflection/v1alpha/reflection.proto"},
    {"google.rpc.Status", "google/rpc/status.proto"},
    {"google.protobuf.Struct.FieldsEntry", "google/protobuf/struct.proto"},
    {"", NULL},
    {".", NULL},
    {"bigfleet", NULL},
    {"bigfleet.v1alpha1", NULL},
    {"bigfleet.v1alpha1.", NULL},
    {"bigfleet.v1alpha1.Machin", NULL},
    {"bigfleet.v1alpha1.Machine.", NULL},
    {"bigfleet.v1alpha1.Machine.id.id", NULL},
    {"bigfleet.v1alpha1.Machine.LabelsEntry.nothing", NULL},
    {"bigfleet.v1alpha1.MachineState.MACHINE_STATE_IDLE", NULL},
    {"bigfleet.v1alpha1.CapacityProvider.list", NULL},
    {"bigfleet.v1alpha1xMachine", NULL},
    {"Machine", NULL},
    {"muster.test.v1.Echo", NULL}, /* the product does not contain the test service */
};

TEST(a_symbol_leads_to_its_file)
{
    for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
        struct str file = STR_EMPTY;
        enum err err =
            descriptors_find_symbol(descriptors_product(), str_from(symbols[i].symbol), &file);

        CHECK_ERR(symbols[i].symbol, err, symbols[i].file ? ERR_OK : ERR_NOT_FOUND);
        CHECK_STR(symbols[i].symbol, descriptors_file_name(file), str_from(symbols[i].file));
    }
}

TEST(every_import_is_in_the_set_and_comes_before)
{
    struct str set = descriptors_product(), file, name, found;
    size_t cursor = 0, files = 0, imports = 0;

    while (descriptors_next_file(set, &cursor, &file)) {
        size_t import = 0;
        files++;
        CHECK_OK("found by name", descriptors_find_file(set, descriptors_file_name(file), &found));
        CHECK("the same place", found.at == file.at && found.len == file.len);
        while (descriptors_next_import(file, &import, &name)) {
            imports++;
            CHECK_OK("its import is there", descriptors_find_file(set, name, &found));
            CHECK("and comes before it", found.at < file.at);
        }
    }
    CHECK("all files", files >= 24);
    CHECK("with imports", imports >= 14);
    CHECK_ERR("not there", descriptors_find_file(set, STR("provider.proto"), &found),
              ERR_NOT_FOUND);
}

TEST(two_sets_joined_are_one)
{
    struct buf both;
    struct str file;

    buf_init(&both, 1 << 20);
    CHECK_OK("product", buf_append(&both, descriptors_product()));
    CHECK_OK("and the test service", buf_append(&both, echo_set()));
    CHECK_OK("theirs",
             descriptors_find_symbol(buf_peek(&both), STR("muster.test.v1.Echo.Bidi"), &file));
    CHECK_STR("file", descriptors_file_name(file), STR("muster/test/v1/echo.proto"));
    CHECK_OK("ours", descriptors_find_symbol(buf_peek(&both), STR("grpc.health.v1.Health"), &file));
    buf_deinit(&both);
}

TEST(bytes_that_are_no_set_hold_nothing)
{
    struct str set = descriptors_product(), file;

    /* At every cut, the complete part is found and nothing is read past the end. */
    for (size_t len = 0; len < set.len; len += 97) {
        char *copy = malloc(len ? len : 1); /* of exactly that size */
        enum err err;
        memcpy(copy, set.at, len);
        err = descriptors_find_symbol(str_of(copy, len), STR("rollout.transport.v1.Work"), &file);
        CHECK("found or not", err == ERR_OK || err == ERR_NOT_FOUND);
        free(copy);
    }
    CHECK_ERR("noise", descriptors_find_symbol(STR("\xff\xff\xff\xff\xff\xff"), STR("a"), &file),
              ERR_NOT_FOUND);
    CHECK_ERR("nothing", descriptors_find_symbol(STR_EMPTY, STR("a"), &file), ERR_NOT_FOUND);
}
