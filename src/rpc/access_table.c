/* The table of access: every method of every contract of the product and who may call it, as the
 * specifications say. A test walks the contracts and finds each method here exactly once.
 *
 * Where a rule names an id (shard, cluster, worker), the handler also compares it with the one in
 * the request. The store maps its callers to key prefixes itself.
 *
 * A plugin is served by a sidecar on a Unix socket of its own, to the worker that started it and
 * without TLS (workers.md 18): there every rule passes. No listener of ours serves it (design.md
 * 8), it is none of the services that a worker's certificate opens (design.md 5: Heartbeat,
 * Control, Work), and the specifications give it no identity. It stands here because every method
 * does; were it ever put behind TLS, it would be code run on request, so nobody less than an
 * administrator. */
#include "rpc/access.h"

static const struct rpc_access_row rows[] = {
    {"/bigfleet.v1alpha1.Coordinator/ReportShard", {ACCESS_SHARD}},
    {"/bigfleet.v1alpha1.Coordinator/AssignDomain", {ACCESS_ADMIN}},
    {"/bigfleet.v1alpha1.Coordinator/UnassignDomain", {ACCESS_ADMIN}},
    {"/bigfleet.v1alpha1.Coordinator/RemoveShard", {ACCESS_ADMIN}},
    {"/bigfleet.v1alpha1.Coordinator/ListShards", {ACCESS_READ}},
    {"/bigfleet.v1alpha1.Coordinator/ListDomainAssignments", {ACCESS_READ}},
    {"/bigfleet.v1alpha1.Coordinator/ListShardReports", {ACCESS_READ}},
    {"/bigfleet.v1alpha1.Coordinator/JoinRaftCluster", {ACCESS_ADMIN}},
    {"/bigfleet.v1alpha1.Coordinator/SnapshotSave", {ACCESS_ADMIN}},
    {"/bigfleet.v1alpha1.Coordinator/ListQuotas", {ACCESS_READ}},
    {"/bigfleet.v1alpha1.Coordinator/ListProviders", {ACCESS_READ}},
    {"/muster.v1.Fleet/AddShard", {ACCESS_ADMIN}},
    {"/muster.v1.Fleet/BindCluster", {ACCESS_ADMIN}},
    {"/muster.v1.Fleet/SetQuota", {ACCESS_ADMIN}},
    {"/muster.v1.Fleet/UpsertProvider", {ACCESS_ADMIN}},
    {"/muster.v1.Fleet/ListClusters", {ACCESS_READ}},
    {"/muster.v1.Fleet/QueueInstruction", {ACCESS_ADMIN}},
    {"/muster.v1.Fleet/ListInstructions", {ACCESS_READ}},
    {"/muster.v1.Fleet/JoinReplica", {ACCESS_ADMIN}},
    {"/muster.v1.Fleet/ListReplicas", {ACCESS_READ}},
    {"/muster.v1.Fleet/RemoveReplica", {ACCESS_ADMIN}},
    {"/muster.v1.Fleet/TransferLeadership", {ACCESS_ADMIN}},
    {"/muster.v1.Fleet/StateHash", {ACCESS_READ}},
    {"/muster.v1.Fleet/Backup", {ACCESS_ADMIN}},
    {"/muster.v1.Coordination/Create", {ACCESS_ADMIN}},
    {"/muster.v1.Coordination/CompareAndSet", {ACCESS_ADMIN}},
    {"/muster.v1.Coordination/Delete", {ACCESS_ADMIN}},
    {"/muster.v1.Coordination/Get", {ACCESS_READ}},
    {"/muster.v1.Coordination/Acquire", {ACCESS_ADMIN}},
    {"/muster.v1.Coordination/Resize", {ACCESS_ADMIN}},
    {"/muster.v1.Coordination/Holders", {ACCESS_READ}},
    {"/muster.v1.Coordination/Renew", {ACCESS_ADMIN}},
    {"/muster.v1.Coordination/Release", {ACCESS_ADMIN}},
    {"/muster.v1.Coordination/Watch", {ACCESS_READ}},
    {"/muster.v1.Coordination/Put", {ACCESS_ADMIN}},
    {"/muster.v1.Coordination/DeleteRange", {ACCESS_ADMIN}},
    {"/muster.v1.Coordination/Range", {ACCESS_READ}},
    {"/muster.v1.Coordination/Compact", {ACCESS_ADMIN}},
    {"/muster.v1.Coordination/Status", {ACCESS_READ}},
    {"/bigfleet.v1alpha1.Shard/Session", {ACCESS_CLUSTER}},
    {"/bigfleet.v1alpha1.ShardRead/InspectNeeds", {ACCESS_READ}},
    {"/bigfleet.v1alpha1.CapacityProvider/Create", {ACCESS_SHARD}},
    {"/bigfleet.v1alpha1.CapacityProvider/Configure", {ACCESS_SHARD}},
    {"/bigfleet.v1alpha1.CapacityProvider/Drain", {ACCESS_SHARD}},
    {"/bigfleet.v1alpha1.CapacityProvider/Delete", {ACCESS_SHARD}},
    {"/bigfleet.v1alpha1.CapacityProvider/Get", {ACCESS_SHARD}},
    {"/bigfleet.v1alpha1.CapacityProvider/List", {ACCESS_SHARD}},
    {"/etcdserverpb.KV/Range", {ACCESS_STORE}},
    {"/etcdserverpb.KV/RangeStream", {ACCESS_STORE}},
    {"/etcdserverpb.KV/Put", {ACCESS_STORE}},
    {"/etcdserverpb.KV/DeleteRange", {ACCESS_STORE}},
    {"/etcdserverpb.KV/Txn", {ACCESS_STORE}},
    {"/etcdserverpb.KV/Compact", {ACCESS_STORE}},
    {"/etcdserverpb.Watch/Watch", {ACCESS_STORE}},
    {"/etcdserverpb.Lease/LeaseGrant", {ACCESS_STORE}},
    {"/etcdserverpb.Lease/LeaseRevoke", {ACCESS_STORE}},
    {"/etcdserverpb.Lease/LeaseKeepAlive", {ACCESS_STORE}},
    {"/etcdserverpb.Lease/LeaseTimeToLive", {ACCESS_STORE}},
    {"/etcdserverpb.Lease/LeaseLeases", {ACCESS_STORE}},
    {"/etcdserverpb.Cluster/MemberAdd", {ACCESS_STORE}},
    {"/etcdserverpb.Cluster/MemberRemove", {ACCESS_STORE}},
    {"/etcdserverpb.Cluster/MemberUpdate", {ACCESS_STORE}},
    {"/etcdserverpb.Cluster/MemberList", {ACCESS_STORE}},
    {"/etcdserverpb.Cluster/MemberPromote", {ACCESS_STORE}},
    {"/etcdserverpb.Maintenance/Alarm", {ACCESS_STORE}},
    {"/etcdserverpb.Maintenance/Status", {ACCESS_STORE}},
    {"/etcdserverpb.Maintenance/Defragment", {ACCESS_STORE}},
    {"/etcdserverpb.Maintenance/Hash", {ACCESS_STORE}},
    {"/etcdserverpb.Maintenance/HashKV", {ACCESS_STORE}},
    {"/etcdserverpb.Maintenance/Snapshot", {ACCESS_STORE}},
    {"/etcdserverpb.Maintenance/MoveLeader", {ACCESS_STORE}},
    {"/etcdserverpb.Maintenance/Downgrade", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/AuthEnable", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/AuthDisable", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/AuthStatus", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/Authenticate", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/UserAdd", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/UserGet", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/UserList", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/UserDelete", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/UserChangePassword", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/UserGrantRole", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/UserRevokeRole", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/RoleAdd", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/RoleGet", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/RoleList", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/RoleDelete", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/RoleGrantPermission", {ACCESS_STORE}},
    {"/etcdserverpb.Auth/RoleRevokePermission", {ACCESS_STORE}},
    {"/v3lockpb.Lock/Lock", {ACCESS_STORE}},
    {"/v3lockpb.Lock/Unlock", {ACCESS_STORE}},
    {"/v3electionpb.Election/Campaign", {ACCESS_STORE}},
    {"/v3electionpb.Election/Proclaim", {ACCESS_STORE}},
    {"/v3electionpb.Election/Leader", {ACCESS_STORE}},
    {"/v3electionpb.Election/Observe", {ACCESS_STORE}},
    {"/v3electionpb.Election/Resign", {ACCESS_STORE}},
    {"/rollout.transport.v1.Heartbeat/Beat", {ACCESS_WORKER}},
    {"/rollout.transport.v1.Control/Subscribe", {ACCESS_WORKER}},
    {"/rollout.transport.v1.Work/Stream", {ACCESS_WORKER}},
    {"/rollout.plugin.v1.Plugin/Init", {ACCESS_ADMIN}},
    {"/rollout.plugin.v1.Plugin/Preflight", {ACCESS_ADMIN}},
    {"/rollout.plugin.v1.Plugin/Call", {ACCESS_ADMIN}},
    {"/rollout.plugin.v1.Plugin/Reload", {ACCESS_ADMIN}},
    {"/rollout.plugin.v1.Plugin/Shutdown", {ACCESS_ADMIN}},
    {"/grpc.health.v1.Health/Check", {ACCESS_ANYONE}},
    {"/grpc.health.v1.Health/Watch", {ACCESS_ANYONE}},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", {ACCESS_ANYONE}},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", {ACCESS_ANYONE}},
};

size_t rpc_access_table(const struct rpc_access_row **ret_rows)
{
    *ret_rows = rows;
    return ARRAY_LEN(rows);
}

/* Asked once per method, when it is registered. */
struct rpc_access rpc_access_for(struct str path)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (str_equal(str_from(rows[i].path), path)) return rows[i].access;
    return (struct rpc_access){ACCESS_UNSET};
}
