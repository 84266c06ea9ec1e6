#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A cloud for `muster provider run --backend command --command-script ./command-provider.sh`, in plain sh.
#
# It is called as `command-provider.sh OPERATION`: list, create, configure, drain or delete. What is to be done stands on
# standard input as one JSON object, and in short in MUSTER_ variables. Exit 0: done. Anything else: the machine is Failed,
# and the last line of standard error says why. docs/providers.md has the whole contract.
#
# Replace the bodies by calls of your cloud. Here a host is a directory. Whatever is called may have been called before
# (the provider died in between): do not do it twice, and find what is there by the machine's id.
set -eu
cloud=${CLOUD_DIR:-/tmp/demo-cloud}
host=$cloud/${MUSTER_MACHINE_ID:-none}

case $1 in
list) # every machine there could be; said again every 30 s, so prices and machines may change
    cat <<END
{"machines": [
  {"id": "web-1", "instance_type": "small", "zone": "a", "price_per_hour": 0.10, "resources": {"cpu": "2", "memory": "4Gi"}},
  {"id": "web-2", "instance_type": "small", "zone": "b", "price_per_hour": 0.10, "resources": {"cpu": "2", "memory": "4Gi"}},
  {"id": "gpu-1", "instance_type": "large", "zone": "a", "price_per_hour": 3.00, "capacity_type": "Spot",
   "interruption_probability": 0.05, "resources": {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "8"},
   "labels": {"topology.bigfleet/rack": "r7"}}
]}
END
    ;;
create) # make a host, and say what your cloud calls it
    mkdir -p "$host"
    echo "{\"host\": \"dir-$MUSTER_MACHINE_ID\"}"
    ;;
configure) # hand it the blob, and wait until its node is ready in $MUSTER_CLUSTER
    sed -n 's/.*"blob_base64":"\([^"]*\)".*/\1/p' | base64 -d > "$host/user-data"
    echo "$MUSTER_CLUSTER" > "$host/cluster"
    ;;
drain) # take it out of its cluster; what runs there has $MUSTER_GRACE_SECONDS
    rm -f "$host/cluster" "$host/user-data"
    ;;
delete) # give the host back
    rm -rf "$host"
    ;;
*)
    echo "no operation $1" >&2
    exit 2
    ;;
esac
