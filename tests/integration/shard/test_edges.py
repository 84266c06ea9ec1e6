#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shard's edges: every metric, identities under TLS, garbage from providers and operators, switches."""
import os
import signal
import subprocess
import threading

import grpc

from shards import FAILED, MUSTER, World, check, cluster_operator, need, run_cases, wait_for

CODE = grpc.StatusCode
# name: labels that must each be seen above zero at the end of every_metric_moves
METRICS = {
    "cycle_duration_seconds_count": [{}],
    "cycle_phase_duration_seconds_count": [{"phase": p} for p in
                                           ("reconcile", "snapread", "phase1", "phase2", "phase3", "emit", "execute")],
    "provisioning_latency_seconds_count": [{}],
    "configure_phase_seconds_count": [{}],
    "request_bootstrap_seconds_count": [{}],
    "drain_phase_seconds_count": [{}],
    "actions_total": [{"kind": k} for k in ("Bootstrap", "Provision", "Reclaim", "Preempt", "Delete")],
    "action_execute_outcomes_total": [{"kind": "Provision", "outcome": "success"},
                                      {"kind": "Provision", "outcome": "provider_error"},
                                      {"kind": "Bootstrap", "outcome": "blob_error"},
                                      {"kind": "Provision", "outcome": "ctx_canceled"}],
    "actions_deferred_total": [{}],
    "actions_deduped_total": [{}],
    "idle_releases_total": [{}],
    "reclaims_capped_total": [{}],
    "machines_rejected_total": [{"reason": r} for r in ("price", "interruption_probability", "structural")],
    "rollups_rejected_total": [{"cluster": "cluster-b"}],
    "rollup_quarantined": [{"cluster": "cluster-a"}],
    "inventory_machines": [{"state": "Configured", "capacity_type": "OnDemand", "interruption_penalty_bucket": "4"},
                           {"state": "Speculative", "interruption_penalty_bucket": "0"}],
    "demand_machines": [{"interruption_penalty_bucket": "4"}],
    "shortfalls": [{}],
    "shortfalls_aged": [{"bucket": "1-9"}, {"bucket": "10-59"}],
    "shortfalls_by_priority": [{"priority_class": c} for c in ("critical", "service", "batch", "other")],
    "active_sessions": [{}],
    "session_lifecycle_total": [{"event": e} for e in ("installed", "replaced", "removed")],
}


def every_metric_moves():
    """Each metric of the specification is driven to a value, with its labels."""
    with World(machines=120, options=["--idle-hold-on-demand", "1s", "--idle-hold-spot", "1s", "--rest-first", "1s",
                                      "--execute-timeout", "2s", "--max-actions-per-cycle", "3"]) as world:
        shard = world.shard.start().wait_ready()
        seen = {}

        def look():
            for name, all_labels in METRICS.items():
                for labels in all_labels:
                    key = (name, tuple(labels.items()))
                    seen[key] = max(seen.get(key, 0), shard.metric(name, **labels))
            return all(seen.values())

        def wait_seen(name, **labels):
            def reached():
                look()
                return seen[(name, tuple(labels.items()))] > 0
            wait_for(f"{name} {labels}", reached)
        with world.operator("cluster-a") as first:
            first.rollup([need(16)])
            first.wait_acks("rollup")
            with world.operator("cluster-a") as a, world.operator("cluster-b") as b:
                check(first.wait_ended() is not None, "replaced")
                rows = [need(16, priority=10 + n, interruption=5) for n in range(12)]
                a.rollup(rows)
                world.wait_configured("cluster-a", 12)
                wait_seen("actions_deferred_total")
                world.provider.control("set", refuse_rate={"Create": 1, "": 0})
                b.rollup([need(16 * 2, priority=1500)])
                wait_seen("action_execute_outcomes_total", kind="Provision", outcome="provider_error")
                world.provider.control("set", refuse_rate=0, lose_rate={"Create": 1, "": 0})
                b.rollup([need(16 * 9, priority=1500)])
                wait_seen("action_execute_outcomes_total", kind="Provision", outcome="ctx_canceled")
                world.provider.control("set", lose_rate=0)
                b.blob = RuntimeError("no blob today")
                b.rollup([need(16 * 14, priority=1500)])
                wait_seen("action_execute_outcomes_total", kind="Bootstrap", outcome="blob_error")
                b.blob = b"blob"
                # More than there is: takes a's, and is short.
                b.rollup([need(1 << 16, priority=n) for n in (99, 100, 1500, 1000000)])
                wait_seen("actions_total", kind="Preempt")
                for each in METRICS["shortfalls_by_priority"]:
                    wait_seen("shortfalls_by_priority", **each)
                wait_seen("shortfalls_aged", bucket="10-59")
                bad = need(16)
                bad.aggregate_resources["cpu"] = "lots"
                b.rollup([bad])
                wait_seen("rollups_rejected_total", cluster="cluster-b")
                a.rollup([])  # of twelve rows: not believed at once
                wait_seen("rollup_quarantined", cluster="cluster-a")
                a.wait_acks("rollup", 2)  # held, and acknowledged all the same
                world.provider.control("set", refuse_rate={"Drain": 1, "": 0})
                b.rollup([need(16, priority=1500)])
                wait_seen("actions_deduped_total")  # it rests after the refusal, and is wished away all the same
                world.provider.control("set", refuse_rate=0)
                wait_seen("reclaims_capped_total")
                wait_seen("actions_total", kind="Delete")
                for spoilt in ("nan_price", "probability_2", "no_state"):
                    world.provider.control("set", garbage={"List": spoilt})
                    reason = {"nan_price": "price", "no_state": "structural"}.get(spoilt, "interruption_probability")
                    wait_seen("machines_rejected_total", reason=reason)
                world.provider.control("set", garbage={})
                b.rollup([need(16 * 6, priority=1500)])
                wait_seen("actions_total", kind="Bootstrap")
        wait_seen("session_lifecycle_total", event="removed")
        missing = [key for key, value in seen.items() if not value]
        check(not missing, f"never above zero: {missing}")


def a_full_queue():
    """What finds no room is dropped and derived again; the metrics of the queue show it."""
    with World(machines=60, latency_ms={"Create": 300, "": 0},
               options=["--execute-concurrency", "1", "--action-queue", "2"]) as world:
        shard = world.shard.start().wait_ready()
        with world.operator("cluster-a") as a:
            a.rollup([need(16 * 6)])
            for name in ("execute_inflight", "action_queue_depth", "actions_dropped_total"):
                shard.wait_metric(name)
            world.wait_configured("cluster-a", 6)


def blobs_past_their_budget():
    """A blob for which there is no room ends its action by name; the machine is free, others go on."""
    with World(machines=20, idle=1.0, options=["--blob-budget", "64KiB"]) as world:
        shard = world.shard.start().wait_ready()
        with world.operator("cluster-a", blob=b"x" * 100_000) as a, world.operator("cluster-b", blob=b"y" * 100) as b:
            a.rollup([need(16 * 2)])
            shard.wait_metric("muster_shard_blobs_refused_total", 2)
            b.rollup([need(16 * 2)])
            world.wait_configured("cluster-b", 2)
            check(not world.machines("Configured", "Configuring", "Failed", cluster="cluster-a"), "nothing was configured")
            errors = [line["error"] for line in shard.audit() if line["outcome"] == "blob_error"]
            check(errors and all("no room for the blob" in why for why in errors), f"said by name: {errors}")


def switches():
    """Paused and dry-run decide, count and write down everything, and do nothing."""
    for flag, outcome, metric in (("--actuation-paused", "suppressed", "actions_suppressed_total"),
                                  ("--dry-run", "dryrun", "actions_dryrun_total")):
        with World(machines=30, options=[flag]) as world:
            shard = world.shard.start().wait_ready()
            with world.operator("cluster-a") as a:
                a.rollup([need(16 * 3)])
                shard.wait_metric(metric, 6, kind="Provision")
            check(world.provider.control("journal") == [], "nothing was asked of the provider")
            check({line["outcome"] for line in shard.audit()} == {outcome}, "and all is in the audit")
            check(shard.metric("actuation_paused") == (flag == "--actuation-paused"), "and on the gauge")
            check(shard.metric("actions_total") == 0, "nothing counts as begun")


def identities():
    """Under TLS each one is who its certificate says, and a wrong one is counted and hurts nobody."""
    with World(machines=30, tls=True, require_identity=True) as world:
        shard = world.shard.start().wait_ready()
        with world.operator("cluster-a", certificate="cluster-cluster-a") as a:
            a.rollup([need(16 * 2)])
            world.wait_configured("cluster-a", 2)
            with world.operator("cluster-b", certificate="cluster-cluster-a") as liar:
                check(liar.wait_ended() == CODE.PERMISSION_DENIED, f"{liar.code}: {liar.details}")
            shard.wait_metric("session_identity_rejected_total")
            check("operator session identity rejected" in shard.text(), "said as an error")
            for name in ("admin", "readonly"):
                with world.operator("cluster-b", certificate=name) as other:
                    check(other.wait_ended() == CODE.PERMISSION_DENIED, f"{name}: {other.code}")
            a.rollup([need(16 * 9)], cluster="cluster-b")  # for somebody else: refused, the stream goes on
            shard.wait_metric("rollups_rejected_total", cluster="cluster-a")
            a.rollup([need(16 * 3)])
            world.wait_configured("cluster-a", 3)
            check(not world.machines("Configured", cluster="cluster-b"), "nothing was bought for cluster-b")
            for name in ("readonly", "admin"):
                check(world.inspect(certificate=name)[0].total_needs == 1, name)
            try:
                world.inspect(certificate="cluster-cluster-a")
                check(False, "a cluster may not inspect")
            except grpc.RpcError as error:
                check(error.code() == CODE.PERMISSION_DENIED, f"{error.code()}")


def garbage_of_a_provider():
    """What cannot be is refused and counted, and everything else goes on."""
    with World(machines=60, garbage_count=5) as world:
        shard = world.shard.start().wait_ready()
        with world.operator("cluster-a") as a:
            a.rollup([need(16 * 2)])
            world.wait_configured("cluster-a", 2)
            for n, spoilt in enumerate(("infinite_price", "negative_price", "unknown_state", "unknown_type", "no_id",
                                        "long_id", "bad_utf8", "big_labels", "label_twice", "negative_cpu",
                                        "bad_quantity", "cut_record")):
                world.provider.control("set", garbage={"List": spoilt})
                refused = shard.metric("machines_rejected_total")
                lists = shard.metric("muster_shard_list_seconds_count")
                wait_for(f"{spoilt} was listed", lambda: shard.metric("muster_shard_list_seconds_count") >= lists + 2)
                check(shard.running(), f"{spoilt}: it lives")
                check(spoilt in ("no_id", "cut_record") or shard.metric("machines_rejected_total") > refused,
                      f"{spoilt}: counted")
                total = shard.metric("inventory_machines")
                check(total == 60, f"{spoilt}: {total} machines are known still")
            world.provider.control("set", garbage={}, empty_list=True)
            shard.wait_metric("muster_shard_lists_held_total")
            check(shard.metric("inventory_machines") == 60, "an empty List is not believed at once")
            world.provider.control("set", empty_list=False, truncate_list=5)  # 7 bytes are whole fields
            shard.wait_metric("muster_shard_lists_failed_total")
            check(shard.metric("inventory_machines") == 60, "nor one that was cut")
            world.provider.control("set", truncate_list=0)
            a.rollup([need(16 * 4)])
            world.wait_configured("cluster-a", 4)


def a_provider_of_many_words():
    """What a provider has to say is cut, and is in the audit: no action is missing there for its error's length."""
    with World(machines=30, refuse_rate={"Create": 1, "": 0}, refuse_status="UNKNOWN",
               refuse_text="\x01" * 12000) as world:
        shard = world.shard.start().wait_ready()
        with world.operator("cluster-a") as a:
            a.rollup([need(16)])
            shard.wait_metric("action_execute_outcomes_total", outcome="ctx_canceled")
        check(shard.stop() == 0, "stopped")
        errors = [line["error"] for line in shard.audit() if line["outcome"] == "ctx_canceled"]
        check(errors and "\x01" * 100 in errors[0], f"{len(errors)}: {[error[:99] for error in errors[:1]]}")


def pages():
    """A List may come in pages; one unreadable record removes no machine; it ends though the provider always has one more."""
    with World(machines=60, pages=25) as world:
        shard = world.shard.start().wait_ready()

        def listed(more, failed):
            name = f"muster_shard_lists_{'failed_' if failed else ''}total"
            shard.wait_metric(name, shard.metric(name) + more)
        wait_for("all of them", lambda: shard.metric("inventory_machines") == 60)
        first = min(m["id"] for m in world.machines())
        world.provider.control("set", garbage={"List": "no_id"})  # of the first page: whose is it?
        listed(2, failed=False)
        check(shard.metric("inventory_machines") == 60, "what cannot be read is not gone")
        world.provider.control("remove", ids=[first])
        world.provider.control("set", garbage={})
        wait_for("one is gone", lambda: shard.metric("inventory_machines") == 59)
        for name, says in (("again", "the one that was asked for"), ("n" * 5000, "too long")):
            world.provider.control("set", next_page=name)
            listed(2, failed=True)
            check(says in shard.text(), f"{says}: said")
            world.provider.control("set", next_page="")
            listed(2, failed=False)


def a_list_that_hangs():
    """While the provider does not answer List, time passes for the shard all the same: it decides every interval."""
    with World(machines=30, mode="sync") as world:
        shard = world.shard.start().wait_ready()
        world.provider.control("set", latency_ms={"List": 3600 * 1000, "": 0})
        lists = shard.metric("muster_shard_list_seconds_count")
        cycles = shard.metric("cycle_duration_seconds_count")
        wait_for("cycles", lambda: shard.metric("cycle_duration_seconds_count") >= cycles + 5)
        check(shard.metric("muster_shard_list_seconds_count") <= lists + 1, "without a List")
        with world.operator("cluster-a") as a:
            a.rollup([need(16 * 2)])
            world.wait_configured("cluster-a", 2)
        check(shard.stop() == 0, "and stops with a List under way")


def most_calls_at_once(program=None, options=()):
    with World(machines=400, idle=1.0, latency_ms={"Configure": 300, "": 0}, options=list(options)) as world:
        if program:
            link = os.path.join(world.dir, program)
            os.symlink(MUSTER, link)
            world.shard.program = (link, "shard")
        world.shard.start().wait_ready()
        types = sorted({machine["type"] for machine in world.machines()})
        with world.operator("cluster-a") as a:
            a.rollup([need(400, types, {"cpu": "2"}, priority=n) for n in range(3)])
            wait_for("many calls", lambda: world.provider.control("calls").get("Configure.called", 0) >= (3 if program else 70))
        return world.provider.control("most_under_way")


def a_slow_provider_is_spared():
    """Few calls at once at first, more with every answer; one under the name of the original, as its flag has it."""
    for program, options, least, most in ((None, (), 9, 4096), (None, ("--execute-concurrency", "5"), 5, 5), ("bigfleet", (), 1, 1),
                                          (None, ("--execute-concurrency-start", "70"), 70, 4096),
                                          ("bigfleet", ("-execute-concurrency", "2"), 2, 2)):
        seen = most_calls_at_once(program, options)
        check(least <= seen <= most, f"{program or 'muster'} {options}: {seen} calls at once, not {least} to {most}")


def a_silent_operator_delays_no_other():
    """An operator that never sends a blob holds no place of those that call the provider: another cluster is served."""
    with World(machines=400, idle=1.0, options=["--bootstrap-timeout", "1h"]) as world:
        shard = world.shard.start().wait_ready()
        types = sorted({machine["type"] for machine in world.machines()})
        with world.operator("cluster-a", blob=None) as a, world.operator("cluster-b") as b:
            a.rollup([need(300, types, {"cpu": "2"})])
            wait_for("cluster-a is asked for blobs", lambda: shard.metric("muster_shard_blobs_waiting") > 70)
            b.rollup([need(2, types, {"cpu": "2"}, priority=1000000)])
            world.wait_configured("cluster-b", 1)
            wait_for("no place is held", lambda: shard.metric("execute_inflight") == 0)
            check(shard.metric("muster_shard_blobs_waiting") > 70, "the requests still wait")


def a_stop_begins_nothing():
    """From the stop on no action begins, however long somebody who does not finish a call keeps the server."""
    with World(machines=60, latency_ms={"Create": 200, "": 0}, options=["--execute-concurrency", "1"]) as world:
        shard, over = world.shard.start().wait_ready(), threading.Event()
        with world.operator("cluster-a") as a, grpc.insecure_channel(shard.grpc) as channel:
            half = channel.stream_stream(cluster_operator.INSPECT)(b"" for _ in [0] if over.wait())
            a.rollup([need(16 * 20)])
            wait_for("actions", lambda: len(world.provider.control("journal")) >= 2)
            shard.signal(signal.SIGTERM)
            wait_for("it stops", lambda: shard.page("/readyz")[0] != 200)
            begun = len(world.provider.control("journal"))
            check(shard.wait_end() == 0, "stopped")
            over.set()
            check(half.code() is not None, "the half call ended with it")
        check(len(world.provider.control("journal")) <= begun + 1, "what was under way, and nothing else")


def a_spot_machine_that_is_gone():
    """What the provider lost is lost at once, reported, and bought again; what failed is given back."""
    with World(machines=60, options=["--rest-first", "200ms"]) as world:
        shard = world.shard.start().wait_ready()
        with world.operator("cluster-a") as a:
            a.rollup([need(16 * 5)])
            world.wait_configured("cluster-a", 5)
            world.settled()
            victim = world.machines("Configured")[0]["id"]
            world.provider.control("place", machine=victim, state="Failed", error="host lost")
            wait_for("the operator hears of it", lambda: (victim, FAILED) in a.states(victim))
            world.wait_configured("cluster-a", 5)
            check(shard.metric("muster_shard_observed_transitions_total") >= 1, "counted")


def one_record_without_an_id():
    """A record whose id cannot be read takes no machine away, and a shard that starts with it acts on all others."""
    for spoilt in ("no_id", "long_id"):
        with World(machines=8, garbage={"List": spoilt}) as world:
            shard = world.shard.start().wait_ready()
            with world.operator("cluster-a") as a:
                a.rollup([need(16 * 2)])
                world.wait_configured("cluster-a", 2)
            check(shard.running(), spoilt)


def without_a_provider():
    """Without a provider it refuses to start, and says what to do."""
    ran = subprocess.run([MUSTER, "shard", "run"], capture_output=True, text=True, timeout=60)
    check(ran.returncode == 2 and "provider-addr" in ran.stderr, f"{ran.returncode}: {ran.stderr}")


if __name__ == "__main__":
    run_cases([every_metric_moves, a_full_queue, blobs_past_their_budget, switches, identities, garbage_of_a_provider,
               a_provider_of_many_words, pages, a_list_that_hangs, a_slow_provider_is_spared,
               a_silent_operator_delays_no_other, a_stop_begins_nothing, a_spot_machine_that_is_gone,
               one_record_without_an_id, without_a_provider])
