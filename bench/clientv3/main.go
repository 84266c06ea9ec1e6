// SPDX-License-Identifier: Apache-2.0
// Unmodified clientv3 as a generator of load: so many goroutines, each with one call under way, over a few clients.
//
//	clientv3 OP CLIENTS CONNECTIONS SECONDS PREFIX KEYS ENDPOINT...      OP: put, create, get, get-stale
//
// Prints calls, rate and latency as JSON. Built from Debian's own sources of etcd 3.4 by bench_store.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/clientv3"
)

const valueBytes = 256

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "clientv3:", err)
		os.Exit(1)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	must(err)
	return n
}

type generator struct {
	op, prefix, value string
	keys              int
}

// The keys of "get" were made by muster-load under the same names.
func (g *generator) call(ctx context.Context, client *clientv3.Client, worker, n int) (err error) {
	own := fmt.Sprintf("%s-%d-%d", g.prefix, worker, n)
	switch g.op {
	case "put":
		_, err = client.Put(ctx, own, g.value)
	case "create":
		_, err = client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(own), "=", 0)).
			Then(clientv3.OpPut(own, g.value)).Commit()
	case "get", "get-stale":
		var found *clientv3.GetResponse
		key := fmt.Sprintf("%s-%08d", g.prefix, (worker*7919+n*104729)%g.keys)
		if g.op == "get" {
			found, err = client.Get(ctx, key)
		} else {
			found, err = client.Get(ctx, key, clientv3.WithSerializable())
		}
		if err == nil && len(found.Kvs) != 1 {
			err = fmt.Errorf("%s: not there", key)
		}
	default:
		err = fmt.Errorf("no operation %q", g.op)
	}
	return err
}

func main() {
	if len(os.Args) < 8 {
		must(fmt.Errorf("OP CLIENTS CONNECTIONS SECONDS PREFIX KEYS ENDPOINT..."))
	}
	seconds, err := strconv.ParseFloat(os.Args[4], 64)
	must(err)
	g := generator{op: os.Args[1], prefix: os.Args[5], value: strings.Repeat("v", valueBytes), keys: number(os.Args[6])}
	workers, ctx := number(os.Args[2]), context.Background()
	clients := make([]*clientv3.Client, number(os.Args[3]))
	for i := range clients {
		clients[i], err = clientv3.New(clientv3.Config{Endpoints: os.Args[7:], DialTimeout: 20 * time.Second})
		must(err)
		_, err = clients[i].Get(ctx, "warm")
		must(err)
	}
	took := make([][]time.Duration, workers)
	failed := make([]int, workers)
	var group sync.WaitGroup
	began := time.Now()
	end := began.Add(time.Duration(seconds * float64(time.Second)))
	for worker := range took {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for n, at := 0, time.Now(); at.Before(end); n++ {
				err := g.call(ctx, clients[worker%len(clients)], worker, n)
				now := time.Now()
				if err == nil {
					took[worker] = append(took[worker], now.Sub(at))
				} else {
					failed[worker]++
					fmt.Fprintln(os.Stderr, "clientv3:", err)
				}
				at = now
			}
		}(worker)
	}
	group.Wait()
	elapsed := time.Since(began).Seconds()
	var all []time.Duration
	errors := 0
	for worker := range took {
		all = append(all, took[worker]...)
		errors += failed[worker]
	}
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	at := func(share float64) float64 {
		if len(all) == 0 {
			return 0
		}
		return float64(all[int(share*float64(len(all)-1))].Nanoseconds()) / 1000
	}
	must(json.NewEncoder(os.Stdout).Encode(map[string]float64{"calls": float64(len(all)), "errors": float64(errors),
		"rate": float64(len(all)) / elapsed, "p50_us": at(0.5), "p99_us": at(0.99)}))
}
