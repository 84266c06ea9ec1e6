// SPDX-License-Identifier: Apache-2.0
// Judges histories with porcupine: the calls on each key and on each group, as tests/history/README.md writes them down.
//
//	porcupine FILE...     prints a line for each file: FILE keys good|bad|unknown slots good|bad|unknown
//
// What a key and a group may answer is said here a second time, in another way than in tests/history/models.c: where
// that moves a clock, this has a call for each lease that ends it, made when it may end at the earliest. So a mistake
// has to be made twice to stay unseen.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	maxSlots = 8
	forever  = math.MaxInt64
	patience = 5 * time.Second // for one object
)

type line struct {
	E        string   `json:"e"`
	ID       uint64   `json:"id"`
	Client   int      `json:"client"`
	T        int64    `json:"t"`
	Op       string   `json:"op"`
	Key      string   `json:"key"`
	Expected uint64   `json:"expected"`
	Any      bool     `json:"any"`
	TTL      int64    `json:"ttl"`
	Wait     int64    `json:"wait"`
	Lease    uint64   `json:"lease"`
	Slots    int      `json:"slots"`
	Code     string   `json:"code"`
	Reason   string   `json:"reason"`
	Rev      uint64   `json:"rev"`
	Token    uint64   `json:"token"`
	Slot     int      `json:"slot"`
	Found    uint64   `json:"found"`
	Holders  []uint64 `json:"holders"`
	Watch    int      `json:"watch"`
	Type     string   `json:"type"`
	Value    uint64   `json:"value"`
}

type call struct {
	asked, answer line
	open          bool // no answer
	learned       int  // slot of an acquire in doubt that somebody saw; -1: none
}

// What watches saw: who was put into which slot, and since when a bucket was watched to its end.
type watched struct {
	slots map[uint64]int
	since map[string]int64
	scope map[int]line // begin of each watch
}

func (w *watched) take(l line) {
	begin := w.scope[l.Watch]
	switch {
	case l.Type == "begin":
		w.scope[l.Watch] = l
	case l.Key == begin.Key+"/end":
		if since, known := w.since[begin.Key]; !known || begin.T < since {
			w.since[begin.Key] = begin.T
		}
	case l.Type == "put" || l.Type == "entry":
		var slot int
		if n, _ := fmt.Sscanf(strings.TrimPrefix(l.Key, begin.Key), "/slot-%d", &slot); n == 1 {
			w.slots[l.Value] = slot
		}
	}
}

func read(path string) ([]*call, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	byID := map[uint64]*call{}
	var calls []*call
	seen := watched{map[uint64]int{}, map[string]int64{}, map[int]line{}}
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return nil, err
		}
		switch l.E {
		case "call":
			c := &call{asked: l, open: true, learned: -1}
			byID[l.ID] = c
			calls = append(calls, c)
		case "done":
			byID[l.ID].answer = l
			byID[l.ID].open = false
		case "watch":
			seen.take(l)
		}
	}
	for _, c := range calls { // what was seen of calls in doubt
		since, whole := seen.since[c.asked.Key]
		if slot, known := seen.slots[c.asked.ID]; known {
			c.learned = slot
		} else if whole && c.asked.T > since && c.asked.Op == "acquire" {
			c.learned = maxSlots // nobody saw it, so it was not
		}
	}
	for _, c := range calls { // what reads show of writes without an answer
		if writer := byID[c.answer.Found]; writer != nil && writer.open && writer.answer.Rev == 0 {
			writer.answer.Rev = c.answer.Rev
		}
		for slot, id := range c.answer.Holders {
			if holder := byID[id]; holder != nil && inDoubt(holder) {
				holder.learned = slot
			}
		}
	}
	return calls, scanner.Err()
}

// An acquire that waited in vain may have got a slot too late for its answer.
func inDoubt(c *call) bool {
	return c.open || c.asked.Op == "acquire" && c.asked.Wait != 0 && c.answer.Code == "EXISTS"
}

// A check gives up on its own, before the end.
func isOver(c *call) bool {
	return c.asked.Op != "check" && c.answer.Code == "EXPIRED" && c.answer.Reason != "local" && c.answer.Reason != "released"
}

// The end of a lease by its time.
type end struct{ lease uint64 }

// A grant without an answer.
type doubt struct{ *call }

// -- a key --

type keyState struct{ writer, rev, newest, lease uint64 }

func (s keyState) numbered(rev uint64) (keyState, bool) {
	if rev == 0 {
		return s, true
	}
	if rev <= s.newest {
		return s, false
	}
	s.newest = rev
	return s, true
}

func (s keyState) put(c *call) []interface{} {
	s, ok := s.numbered(c.answer.Rev)
	if !ok {
		return nil
	}
	s.writer, s.rev = c.asked.ID, c.answer.Rev
	if c.asked.TTL > 0 {
		s.lease = c.asked.ID
	}
	return []interface{}{s}
}

func (s keyState) gone(rev uint64) []interface{} {
	s, ok := s.numbered(rev)
	if !ok {
		return nil
	}
	s.writer, s.rev, s.lease = 0, 0, 0
	return []interface{}{s}
}

func (s keyState) is(rev uint64) bool { return s.rev == rev || s.rev == 0 || rev == 0 }

func when(holds bool, s interface{}) []interface{} {
	if holds {
		return []interface{}{s}
	}
	return nil
}

func (s keyState) done(c *call) []interface{} {
	switch {
	case c.asked.Op == "create" || c.asked.Op == "cas" && c.asked.Expected == 0:
		if s.writer != 0 {
			return nil
		}
		return s.put(c)
	case s.writer == 0 || !c.asked.Any && !s.is(c.asked.Expected):
		return nil
	case c.asked.Op == "cas":
		return s.put(c)
	}
	return s.gone(c.answer.Rev)
}

func (s keyState) change(c *call) []interface{} {
	switch {
	case c.open:
		return append(s.done(c), s)
	case c.answer.Code == "OK":
		return s.done(c)
	case c.answer.Code == "EXISTS":
		return when(s.writer != 0 && s.is(c.answer.Rev), s)
	case c.answer.Code == "NOT_FOUND" || c.answer.Reason == "absent":
		return when(s.writer == 0, s)
	case c.answer.Reason == "revision":
		return when(s.writer != 0 && s.is(c.answer.Rev) && (s.rev == 0 || s.rev != c.asked.Expected), s)
	case c.answer.Code == "CONFLICT":
		return when(s.writer != 0, s)
	}
	return []interface{}{s}
}

func stepKey(state, input, output interface{}) []interface{} {
	s := state.(keyState)
	if e, ok := input.(end); ok {
		if s.writer != 0 && s.lease == e.lease {
			return s.gone(0)
		}
		return []interface{}{s}
	}
	c := input.(*call)
	mine := s.writer != 0 && s.lease == c.asked.Lease
	switch c.asked.Op {
	case "get":
		if c.answer.Code != "OK" {
			return when(s.writer == 0, s)
		}
		if s.writer != c.answer.Found || !s.is(c.answer.Rev) {
			return nil
		}
		if s.rev == 0 {
			next, ok := s.numbered(c.answer.Rev)
			next.rev = c.answer.Rev
			return when(ok, next)
		}
		return []interface{}{s}
	case "release":
		if c.open {
			if mine {
				return append(s.gone(0), s)
			}
			return []interface{}{s}
		}
		if c.answer.Code == "OK" {
			if mine {
				return s.gone(c.answer.Rev)
			}
			return when(c.answer.Reason == "already", s)
		}
		return when(!mine || !isOver(c), s)
	case "renew", "check":
		if c.answer.Code == "OK" {
			return when(mine, s)
		}
		return when(!mine || !isOver(c), s)
	}
	return s.change(c)
}

// -- a group --

type groupState struct {
	slots [maxSlots]uint64
	token uint64
}

func (s groupState) slotOf(lease uint64) int {
	for i, holder := range s.slots {
		if holder == lease {
			return i
		}
	}
	return -1
}

// The lowest slot that is free, and it must be this one.
func (s groupState) take(c *call, slot int) []interface{} {
	if slot >= c.asked.Slots || s.slots[slot] != 0 {
		return nil
	}
	for i := 0; i < slot; i++ {
		if s.slots[i] == 0 {
			return nil
		}
	}
	if c.answer.Token != 0 && !inDoubt(c) {
		if c.answer.Token <= s.token {
			return nil
		}
		s.token = c.answer.Token
	}
	s.slots[slot] = c.asked.ID
	return []interface{}{s}
}

func stepGroup(state, input, output interface{}) []interface{} {
	s := state.(groupState)
	switch in := input.(type) {
	case end:
		if slot := s.slotOf(in.lease); slot >= 0 {
			s.slots[slot] = 0
		}
		return []interface{}{s}
	case doubt:
		next := []interface{}{s}
		for slot := 0; slot < in.asked.Slots; slot++ {
			if in.learned < 0 || in.learned == slot {
				next = append(next, s.take(in.call, slot)...)
			}
		}
		return next
	}
	c := input.(*call)
	slot := -1
	if c.asked.Lease != 0 {
		slot = s.slotOf(c.asked.Lease)
	}
	switch c.asked.Op {
	case "acquire":
		if c.answer.Code == "OK" {
			return s.take(c, c.answer.Slot)
		}
		if c.answer.Code == "EXISTS" {
			for i := 0; i < c.asked.Slots; i++ {
				if s.slots[i] == 0 {
					return nil
				}
			}
		}
		return []interface{}{s}
	case "holders":
		for i := range s.slots {
			var holder uint64
			if i < len(c.answer.Holders) {
				holder = c.answer.Holders[i]
			}
			if s.slots[i] != holder {
				return nil
			}
		}
		return []interface{}{s}
	case "release":
		if c.open || c.answer.Code == "OK" {
			freed := s
			if slot >= 0 {
				freed.slots[slot] = 0
			}
			if c.open {
				return []interface{}{s, freed}
			}
			return when(slot >= 0 || c.answer.Reason == "already", freed)
		}
	}
	if c.answer.Code == "OK" {
		return when(slot >= 0, s)
	}
	return when(slot < 0 || !isOver(c), s)
}

// -- a history --

// When a lease may end at the earliest, and by when it was over: from every call that shows it.
func ends(calls []*call) []porcupine.Operation {
	from, to := map[uint64]int64{}, map[uint64]int64{}
	before := func(lease uint64, at int64) {
		if end, known := to[lease]; !known || at < end {
			to[lease] = at
		}
	}
	for _, c := range calls {
		lease := c.asked.Lease
		if lease == 0 {
			lease = c.asked.ID
		}
		grants := c.asked.Op == "acquire" || c.asked.Op == "create" && c.asked.TTL > 0
		at := c.asked.T
		switch {
		case grants && inDoubt(c) && c.learned == maxSlots:
			continue
		case grants && inDoubt(c):
		case (grants || c.asked.Op == "renew") && !c.open && c.answer.Code == "OK":
			at += c.answer.TTL * int64(time.Millisecond)
		case !c.open && c.asked.Lease != 0 && isOver(c):
			before(lease, c.answer.T)
			continue
		default:
			continue
		}
		if at > from[lease] {
			from[lease] = at
		}
	}
	for _, c := range calls {
		// Who let it go while it was held did not lose it by its time; who was followed had done so by then.
		if c.asked.Op == "release" && !c.open && c.answer.Code == "OK" && c.answer.Reason != "already" {
			delete(from, c.asked.Lease)
		}
		for _, next := range calls {
			if c.asked.Op == "acquire" && next.asked.Op == "acquire" && c.answer.Code == "OK" &&
				next.answer.Code == "OK" && c.answer.Slot == next.answer.Slot && c.answer.Token < next.answer.Token {
				before(c.asked.ID, next.answer.T)
			}
		}
	}
	var leases []uint64
	for lease := range from {
		leases = append(leases, lease)
	}
	sort.Slice(leases, func(i, j int) bool { return leases[i] < leases[j] })
	var found []porcupine.Operation
	for _, lease := range leases {
		by, known := to[lease]
		if !known || by < from[lease] { // what is too early shows in the answers
			by = forever
		}
		found = append(found, porcupine.Operation{Input: end{lease}, Call: from[lease], Return: by})
	}
	return found
}

func operations(calls []*call, group bool) []porcupine.Operation {
	found := ends(calls)
	for _, c := range calls {
		op := porcupine.Operation{ClientId: c.asked.Client, Input: c, Call: c.asked.T, Return: c.answer.T}
		if c.open {
			op.Return = forever
		}
		acquires := c.asked.Op == "acquire"
		if group && acquires && inDoubt(c) && c.learned < maxSlots {
			late := op
			late.Input, late.Return = doubt{c}, forever
			found = append(found, late)
		}
		switch c.asked.Op {
		case "get", "holders":
			if c.answer.Code != "OK" && (c.asked.Op == "holders" || c.answer.Code != "NOT_FOUND") {
				continue
			}
		case "check":
			if c.answer.Code != "OK" {
				continue
			}
		case "renew":
			if c.open {
				continue
			}
		case "stale":
			continue
		}
		if acquires && c.open {
			continue
		}
		found = append(found, op)
	}
	return found
}

func judge(calls []*call, group bool) porcupine.CheckResult {
	model := porcupine.NondeterministicModel{
		Init: func() []interface{} { return []interface{}{keyState{}} }, Step: stepKey,
		Equal: func(a, b interface{}) bool { return a == b },
	}
	if group {
		model.Init, model.Step = func() []interface{} { return []interface{}{groupState{}} }, stepGroup
	}
	return porcupine.CheckOperationsTimeout(model.ToModel(), operations(calls, group), patience)
}

func word(verdicts map[porcupine.CheckResult]int) string {
	switch {
	case verdicts[porcupine.Illegal] > 0:
		return "bad"
	case verdicts[porcupine.Unknown] > 0:
		return "unknown"
	}
	return "good"
}

func main() {
	for _, path := range os.Args[1:] {
		calls, err := read(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, path, err)
			os.Exit(2)
		}
		parts, groups, order := map[string][]*call{}, map[string]bool{}, []string{}
		for _, c := range calls {
			if parts[c.asked.Key] == nil {
				order = append(order, c.asked.Key)
			}
			parts[c.asked.Key] = append(parts[c.asked.Key], c)
			groups[c.asked.Key] = groups[c.asked.Key] || c.asked.Op == "acquire"
		}
		verdicts := [2]map[porcupine.CheckResult]int{{}, {}}
		for _, key := range order {
			kind := 0
			if groups[key] {
				kind = 1
			}
			verdicts[kind][judge(parts[key], groups[key])]++
		}
		fmt.Println(path, "keys", word(verdicts[0]), "slots", word(verdicts[1]))
	}
}
