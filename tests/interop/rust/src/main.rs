// SPDX-License-Identifier: Apache-2.0
//! X10: etcd-client for Rust, asked what Dynamo asks of it (coordination.md C9, T1).
//!
//! usage: muster-interop-rust ENDPOINT...    Prints what held; the first thing that does not ends it with a panic.
use etcd_client::*;
use std::time::Duration;

const TTL: i64 = 5; // seconds: kept every half second, so a machine may stall for some
const PATIENCE: Duration = Duration::from_secs(60);

/// Create if nobody has: true, or what is there.
async fn create(kv: &mut KvClient, key: &str, value: &str, lease: i64) -> Result<Result<(), String>, Error> {
    let put = TxnOp::put(key, value, Some(PutOptions::new().with_lease(lease)));
    let get = TxnOp::get(key, None);
    let txn = Txn::new().when([Compare::version(key, CompareOp::Equal, 0)]).and_then([put]).or_else([get]);
    let answer = kv.txn(txn).await?;
    if answer.succeeded() {
        return Ok(Ok(()));
    }
    let responses = answer.op_responses();
    let TxnOpResponse::Get(found) = &responses[0] else { panic!("not a Get: {responses:?}") };
    Ok(Err(found.kvs()[0].value_str()?.to_string()))
}

/// The next event of the watch: its type, its key, and what was there before.
async fn event(stream: &mut WatchStream) -> Result<(EventType, String, Option<String>), Error> {
    loop {
        let answer = tokio::time::timeout(PATIENCE, stream.message()).await.expect("an event in time")?;
        let answer = answer.expect("the stream goes on");
        assert!(!answer.canceled(), "canceled: {}", answer.cancel_reason());
        if let Some(e) = answer.events().first() {
            assert_eq!(answer.events().len(), 1);
            let before = e.prev_kv().map(|kv| kv.value_str().unwrap().to_string());
            return Ok((e.event_type(), e.kv().unwrap().key_str()?.to_string(), before));
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let endpoints: Vec<String> = std::env::args().skip(1).collect();
    let client = Client::connect(&endpoints, None).await?;
    let (mut kv, mut leases) = (client.kv_client(), client.lease_client());

    // two workers register; the second of one name gets the first one's value
    let first = leases.grant(TTL, None).await?.id();
    let second = leases.grant(600, None).await?.id();
    assert_eq!(create(&mut kv, "x10/instances/a", "one", first).await?, Ok(()));
    assert_eq!(create(&mut kv, "x10/instances/a", "two", second).await?, Err("one".to_string()));
    assert_eq!(create(&mut kv, "x10/instances/b", "two", second).await?, Ok(()));
    println!("create, and create of what is there");

    // a frontend reads the prefix, and watches from there on
    let prefix = "x10/instances/";
    let listed = kv.get(prefix, Some(GetOptions::new().with_prefix())).await?;
    assert_eq!(listed.kvs().len(), 2);
    let from = listed.header().unwrap().revision() + 1;
    let options = WatchOptions::new().with_prefix().with_start_revision(from).with_prev_key();
    let mut watch = client.watch_client();
    let (_watcher, mut stream) = watch.watch(prefix, Some(options)).await?;
    kv.put("x10/instances/b", "three", Some(PutOptions::new().with_lease(second))).await?;
    assert_eq!(event(&mut stream).await?, (EventType::Put, "x10/instances/b".into(), Some("two".into())));
    println!("a prefix, and its watch with what was before");

    // it is kept for twice its time, and ends once nobody keeps it
    let (mut keeper, mut kept) = leases.keep_alive(first).await?;
    for _ in 0..4 * TTL {
        tokio::time::sleep(Duration::from_millis(500)).await;
        keeper.keep_alive().await?;
        let answer = kept.message().await?.expect("an answer");
        assert!(answer.ttl() > 0, "kept in time, and over: {answer:?}");
    }
    assert_eq!(kv.get("x10/instances/a", None).await?.kvs().len(), 1);
    drop((keeper, kept));
    assert_eq!(event(&mut stream).await?, (EventType::Delete, "x10/instances/a".into(), Some("one".into())));
    println!("keep-alive, and the end without it");

    leases.revoke(second).await?;
    assert_eq!(event(&mut stream).await?, (EventType::Delete, "x10/instances/b".into(), Some("three".into())));
    assert_eq!(kv.get(prefix, Some(GetOptions::new().with_prefix())).await?.kvs().len(), 0);
    println!("revoke at shutdown");

    // the lock service
    let mut locks = client.lock_client();
    match locks.lock("x10/lock", None).await {
        Ok(held) => {
            let key = held.key().to_vec();
            assert_eq!(kv.get(key.clone(), None).await?.kvs().len(), 1);
            locks.unlock(key.clone()).await?;
            assert_eq!(kv.get(key, None).await?.kvs().len(), 0);
            println!("lock and unlock, by the service");
        }
        Err(Error::GRpcStatus(status)) if status.code() as i32 == 12 => println!("no lock service here: skipped"),
        Err(other) => return Err(other),
    }
    println!("X10 passed");
    Ok(())
}
