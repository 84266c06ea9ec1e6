// SPDX-License-Identifier: Apache-2.0
// Go's clientv3 with its concurrency package (Mutex, Election, STM) against the endpoints of its arguments: X06 to X08
// of the specification, as TAP. Built from Debian's own sources of etcd 3.4 (scripts/interop-clientv3).
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

const patience = 90 * time.Second

var endpoints []string

func must(err error, what string) {
	if err != nil {
		panic(fmt.Sprintf("%s: %v", what, err))
	}
}

func check(ok bool, what string) {
	if !ok {
		panic(what)
	}
}

// Repeats an idempotent call until it succeeds, or the time is up. Members are killed meanwhile.
func again(ctx context.Context, what string, act func() error) {
	for {
		err := act()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			panic(fmt.Sprintf("%s: %v", what, err))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func open() *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 20 * time.Second})
	must(err, "client")
	return client
}

func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

func session(client *clientv3.Client, ttl int) *concurrency.Session {
	made, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	must(err, "session")
	return made
}

// A counter that is read and written under the lock: an increment that is lost shows that two held it.
func mutex() {
	ctx, cancel := limited()
	defer cancel()
	var group sync.WaitGroup
	wrong := make(chan string, 8)
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			defer func() {
				if text := recover(); text != nil {
					wrong <- fmt.Sprint(text)
				}
			}()
			client := open()
			defer client.Close()
			owner := session(client, 60)
			defer owner.Close()
			lock := concurrency.NewMutex(owner, "/go/mutex")
			for round := 0; round < 10; round++ {
				again(ctx, "lock", func() error { return lock.Lock(ctx) })
				var found *clientv3.GetResponse
				again(ctx, "get", func() (err error) { found, err = client.Get(ctx, "/go/counter"); return })
				count := 0
				if len(found.Kvs) > 0 {
					count, _ = strconv.Atoi(string(found.Kvs[0].Value))
				}
				again(ctx, "put", func() error {
					_, err := client.Put(ctx, "/go/counter", strconv.Itoa(count+1))
					return err
				})
				again(ctx, "unlock", func() error { return lock.Unlock(ctx) })
			}
		}()
	}
	group.Wait()
	close(wrong)
	for text := range wrong {
		panic(text)
	}
	client := open()
	defer client.Close()
	found, err := client.Get(ctx, "/go/counter")
	must(err, "get")
	check(string(found.Kvs[0].Value) == "80", "an increment was lost: "+string(found.Kvs[0].Value))
}

// A waiter whose lease ends gets an error and never gets the lock.
func expiry() {
	ctx, cancel := limited()
	defer cancel()
	client := open()
	defer client.Close()
	holder, waiter := session(client, 60), session(client, 60)
	defer holder.Close()
	held := concurrency.NewMutex(holder, "/go/expiry")
	must(held.Lock(ctx), "lock")
	answered := make(chan error, 1)
	second := concurrency.NewMutex(waiter, "/go/expiry")
	go func() { answered <- second.Lock(ctx) }()
	for {
		queue, err := client.Get(ctx, "/go/expiry/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		must(err, "get")
		if queue.Count == 2 {
			break
		}
	}
	_, err := client.Revoke(ctx, waiter.Lease())
	must(err, "revoke")
	<-waiter.Done()
	must(held.Unlock(ctx), "unlock")
	if err := <-answered; err == nil { // 3.4 does not look itself: its key must be gone
		found, err := client.Get(ctx, second.Key())
		must(err, "get")
		check(len(found.Kvs) == 0, "it holds the lock with a lease that is over")
	}
}

func election() {
	ctx, cancel := limited()
	defer cancel()
	client := open()
	defer client.Close()
	first, second := session(client, 60), session(client, 60)
	defer second.Close()
	one, two := concurrency.NewElection(first, "/go/office"), concurrency.NewElection(second, "/go/office")
	seen := concurrency.NewElection(second, "/go/office").Observe(ctx)
	must(one.Campaign(ctx, "ann"), "campaign")
	check(string((<-seen).Kvs[0].Value) == "ann", "ann is seen")
	leader, err := two.Leader(ctx)
	must(err, "leader")
	check(string(leader.Kvs[0].Value) == "ann", "ann leads")
	must(one.Proclaim(ctx, "ann again"), "proclaim")
	check(string((<-seen).Kvs[0].Value) == "ann again", "what she proclaims is seen")
	won := make(chan error, 1)
	go func() { won <- two.Campaign(ctx, "bob") }()
	must(one.Resign(ctx), "resign")
	must(<-won, "bob's campaign")
	check(string((<-seen).Kvs[0].Value) == "bob", "bob is seen")
	must(two.Resign(ctx), "bob resigns")
	first.Close()
}

// Transfers between accounts at each level of isolation: the sum stays, where the level promises it.
func stm() {
	ctx, cancel := limited()
	defer cancel()
	client := open()
	defer client.Close()
	levels := []concurrency.Isolation{concurrency.SerializableSnapshot, concurrency.Serializable,
		concurrency.RepeatableReads, concurrency.ReadCommitted}
	for _, level := range levels {
		for account := 0; account < 5; account++ {
			_, err := client.Put(ctx, fmt.Sprintf("/go/account/%d", account), "100")
			must(err, "put")
		}
		workers := 4
		var group sync.WaitGroup
		for worker := 0; worker < workers; worker++ {
			group.Add(1)
			go func(worker int) {
				defer group.Done()
				for round := 0; round < 20; round++ {
					from, to := fmt.Sprintf("/go/account/%d", (worker+round)%5), fmt.Sprintf("/go/account/%d", (worker+round+1)%5)
					// One whose fate is unknown is done or not; either keeps the sum.
					again(ctx, "stm", func() error {
						_, err := concurrency.NewSTM(client, func(s concurrency.STM) error {
							a, _ := strconv.Atoi(s.Get(from))
							b, _ := strconv.Atoi(s.Get(to))
							s.Put(from, strconv.Itoa(a-1))
							s.Put(to, strconv.Itoa(b+1))
							return nil
						}, concurrency.WithIsolation(level), concurrency.WithAbortContext(ctx))
						return err
					})
				}
			}(worker)
		}
		group.Wait()
		found, err := client.Get(ctx, "/go/account/", clientv3.WithPrefix())
		must(err, "get")
		sum := 0
		for _, each := range found.Kvs {
			value, _ := strconv.Atoi(string(each.Value))
			sum += value
		}
		// ReadCommitted compares nothing, and its reads may be a member's own that is behind.
		check(sum == 500 || level == concurrency.ReadCommitted, fmt.Sprintf("the sum is %d at level %v", sum, level))
	}
}

func run(number int, name string, act func()) (failed bool) {
	defer func() {
		if text := recover(); text != nil {
			fmt.Printf("# %v\nnot ok %d - %s\n", text, number, name)
			failed = true
		}
	}()
	act()
	fmt.Printf("ok %d - %s\n", number, name)
	return false
}

func main() {
	endpoints = os.Args[1:]
	cases := []struct {
		name string
		act  func()
	}{
		{"X06 clientv3 Mutex: eight clients, no increment lost", mutex},
		{"X08 clientv3 Mutex: a waiter whose lease ended holds nothing", expiry},
		{"X06 clientv3 Election: campaign, observe, proclaim, resign", election},
		{"X06 clientv3 STM at four levels of isolation", stm},
	}
	fmt.Printf("1..%d\n", len(cases))
	code := 0
	for number, each := range cases {
		if run(number+1, each.name, each.act) {
			code = 1
		}
	}
	os.Exit(code)
}
