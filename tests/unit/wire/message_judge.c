/* SPDX-License-Identifier: Apache-2.0 */
/* Reads messages for an independent check: each line "TYPE HEX" in, "ok HEX" (the message written
 * again) or "ERR_NAME note" out. test_proto.py runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_capacity.pb-c.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/bigfleet_v1alpha1_provider.pb-c.h"
#include "wire/pb/bigfleet_v1alpha1_shard.pb-c.h"
#include "wire/pb/bigfleet_v1alpha1_shardread.pb-c.h"
#include "wire/pb/etcd_election.pb-c.h"
#include "wire/pb/etcd_lock.pb-c.h"
#include "wire/pb/etcd_rpc.pb-c.h"
#include "wire/pb/google_rpc_status.pb-c.h"
#include "wire/pb/grpc_health_v1_health.pb-c.h"
#include "wire/pb/grpc_reflection_v1_reflection.pb-c.h"
#include "wire/pb/grpc_reflection_v1alpha_reflection.pb-c.h"
#include "wire/pb/grpc_testing_interop.pb-c.h"
#include "wire/pb/muster_test_v1_echo.pb-c.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"
#include "wire/pb/muster_v1_member.pb-c.h"
#include "wire/pb/muster_v1_shard.pb-c.h"
#include "wire/pb/rollout_plugin.pb-c.h"
#include "wire/pb/rollout_transport.pb-c.h"

enum { MEMORY = 64 << 20 };

static const ProtobufCMessageDescriptor *const types[] = {
    &bigfleet__v1alpha1__cluster_capacity_needs__descriptor,
    &bigfleet__v1alpha1__shard_report__descriptor,
    &bigfleet__v1alpha1__report_ack__descriptor,
    &bigfleet__v1alpha1__machine_list__descriptor,
    &bigfleet__v1alpha1__list_filter__descriptor,
    &bigfleet__v1alpha1__configure_request__descriptor,
    &bigfleet__v1alpha1__shard_message__descriptor,
    &bigfleet__v1alpha1__operator_message__descriptor,
    &bigfleet__v1alpha1__inspect_needs_response__descriptor,
    &etcdserverpb__txn_request__descriptor,
    &etcdserverpb__watch_response__descriptor,
    &etcdserverpb__auth_user_add_request__descriptor,
    &v3lockpb__lock_response__descriptor,
    &v3electionpb__leader_response__descriptor,
    &google__rpc__status__descriptor,
    &grpc__health__v1__health_check_response__descriptor,
    &grpc__reflection__v1__server_reflection_response__descriptor,
    &grpc__reflection__v1alpha__server_reflection_response__descriptor,
    &grpc__testing__simple_request__descriptor,
    &grpc__testing__simple_response__descriptor,
    &grpc__testing__streaming_input_call_request__descriptor,
    &grpc__testing__streaming_input_call_response__descriptor,
    &grpc__testing__streaming_output_call_request__descriptor,
    &grpc__testing__streaming_output_call_response__descriptor,
    &muster__test__v1__echo_request__descriptor,
    &muster__test__v1__everything__descriptor,
    &muster__v1__set_quota_request__descriptor,
    &muster__v1__list_instructions_response__descriptor,
    &muster__v1__list_replicas_response__descriptor,
    &muster__v1__state_hash_response__descriptor,
    &muster__v1__backup_chunk__descriptor,
    &muster__v1__register_request__descriptor,
    &muster__v1__assignment_response__descriptor,
    &muster__v1__pass_beats_request__descriptor,
    &muster__v1__shard_status_response__descriptor,
    &muster__v1__list_workers_response__descriptor,
    &muster__v1__outcome__descriptor,
    &muster__v1__acquire_request__descriptor,
    &muster__v1__delete_request__descriptor,
    &muster__v1__watch_response__descriptor,
    &muster__v1__renew_response__descriptor,
    &muster__v1__store_command__descriptor,
    &rollout__plugin__v1__init_request__descriptor,
    &rollout__transport__v1__beat_request__descriptor,
    &rollout__transport__v1__beat_response__descriptor,
};

static const ProtobufCMessageDescriptor *find_type(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (strcmp(types[i]->name, name) == 0) return types[i];
    return NULL;
}

static int hex_value(char c)
{
    return c >= 'a' ? c - 'a' + 10 : c - '0';
}

static void answer(const ProtobufCMessageDescriptor *type, struct str bytes)
{
    struct arena arena;
    struct buf out;
    struct note note = {""};
    ProtobufCMessage *message = NULL;
    enum err err;

    arena_init(&arena, MEMORY);
    buf_init(&out, MEMORY);
    err = message_read(type, bytes, NULL, &arena, &message, &note);
    if (!err) err = message_write(message, &out, NULL);
    if (err) {
        printf("ERR_%s %s\n", err_name(err), note.text);
    } else {
        printf("ok ");
        for (size_t i = 0; i < out.len; i++) printf("%02x", (unsigned char)out.data[i]);
        printf("\n");
    }
    fflush(stdout);
    buf_deinit(&out);
    arena_deinit(&arena);
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t cap = 0;

    if (argc == 2 && strcmp(argv[1], "--types") == 0) {
        for (size_t i = 0; i < ARRAY_LEN(types); i++) printf("%s\n", types[i]->name);
        return 0;
    }
    while (getline(&line, &cap, stdin) > 0) {
        char *hex = strchr(line, ' ');
        const ProtobufCMessageDescriptor *type;
        char *bytes;
        size_t len = 0;

        if (!hex) return 2;
        *hex++ = '\0';
        type = find_type(line);
        if (!type) return 2;
        bytes = malloc(strlen(hex) / 2 + 1);
        if (!bytes) return 2;
        for (; hex[0] && hex[0] != '\n' && hex[1]; hex += 2)
            bytes[len++] = (char)(hex_value(hex[0]) * 16 + hex_value(hex[1]));
        answer(type, str_of(bytes, len));
        free(bytes);
    }
    free(line);
    return 0;
}
