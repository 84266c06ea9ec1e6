// SPDX-License-Identifier: Apache-2.0
// The replicas of the coordinator: who leads, who lags, what became of leadership.
import { h, head, section, cards, table, badge, button, facts, troubles, number, few, bytes, span, clock, plural } from '/assets/kit.js';
import { lines } from '/assets/chart.js';

const short = id => id ? id.slice(0, 6) : '–';

// What a replica said of its own disk; the leader knows nothing of that.
function snapshot(disk) {
  if (!disk || disk.snapshot === undefined) return disk && disk.why ? badge('does not answer', 'warn') : '–';
  return disk.snapshot ? ['at ' + number(disk.snapshot), h('div', { class: 'fine' }, 'for ' + span(Date.now() - disk.snapshot_seen_ms) + ' or longer')]
    : h('span', { class: 'fine' }, 'none yet');
}

function rows(list, most, state) {
  const disk = id => (state.raft.disks || []).find(d => d.replica_id === id);
  return table('Replicas', [
    { name: 'Replica', get: r => [h('span', { class: 'one-line' }, r.name || short(r.replica_id)), r.replica_id === (state.raft.self || {}).replica_id && h('div', { class: 'fine' }, 'this one')] },
    { name: 'Role', get: r => r.leader ? badge('leader', 'good') : r.voter ? badge('voter') : badge('learner', 'warn') },
    { name: 'Behind', num: true, get: r => number(most - r.match) },
    { name: 'Has up to', num: true, get: r => number(r.match) },
    { name: 'Last heard', num: true, get: r => r.leader ? 'now' : r.silent_ms < 0 ? badge('never', 'bad')
      : r.silent_ms > 3000 ? badge(span(r.silent_ms) + ' ago', 'bad') : span(r.silent_ms) + ' ago' },
    { name: 'Snapshot', get: r => snapshot(disk(r.replica_id)) },
    { name: 'Log', num: true, get: r => { const d = disk(r.replica_id); return d && d.log_bytes !== undefined ? bytes(d.log_bytes) : '–'; } },
    { name: 'Addresses', get: r => h('div', { class: 'fine one-line' }, 'gRPC ' + r.grpc_address, h('br'), 'Raft ' + r.raft_address, r.http_address && [h('br'),
      h('a', { href: '//' + r.http_address + '/raft' }, 'dashboard')]) },
    { name: '', get: r => h('span', { class: 'stack' },
      !r.leader && r.voter && button('Make leader', 'transfer', { name: r.name }),
      !r.leader && button('Retire', 'retire', { name: r.name }, 'danger')) },
  ], list, { key: r => r.replica_id });
}

export function view(state) {
  const doc = state.raft, self = doc.self || {}, list = (doc.replicas || {}).replicas || [];
  const most = Math.max(0, ...list.map(r => r.match));
  const voters = list.filter(r => r.voter), leader = list.find(r => r.leader);
  const near = voters.filter(r => r.leader || (r.silent_ms >= 0 && r.silent_ms < 3000));
  const lag = voters.length ? Math.max(...voters.map(r => most - r.match)) : null;
  const changes = doc.leaders || [], name = id => (list.find(r => r.replica_id === id) || {}).name || short(id);
  const rate = state.rate('commit'), now = rate.length ? rate[rate.length - 1][1] : null;
  const sentence = leader
    ? leader.name + ' leads in term ' + self.term + '; ' + near.length + ' of ' + plural(voters.length, 'voter', 'voters') + ' answer'
      + (near.length * 2 > voters.length ? '.' : ', which is no majority.')
    : 'No leader is known: writes wait until the replicas have elected one.';
  return [
    head('Raft', sentence), troubles(doc, ['replicas']),
    cards([
      { name: 'Leader', value: leader ? leader.name : 'none', tone: leader ? 'good' : 'bad', note: 'term ' + number(self.term) },
      { name: 'Voters that answer', value: near.length + ' / ' + voters.length, tone: near.length < voters.length && 'bad',
        note: list.length > voters.length ? plural(list.length - voters.length, 'learner', 'learners') : 'majority is ' + (Math.floor(voters.length / 2) + 1) },
      { name: 'Committed', value: number(self.commit), note: few(now) + ' a second' },
      { name: 'Slowest voter', value: lag === null ? '–' : number(lag), unit: 'behind', tone: lag > 1000 && 'warn' },
      { name: 'Snapshot here', value: self.snapshot ? 'at ' + number(self.snapshot) : 'none yet',
        note: self.snapshot ? 'seen ' + span(Date.now() - self.snapshot_seen_ms) + ' ago' : 'the whole log is kept' },
      { name: 'Failovers', value: number(Math.max(0, changes.length - 1)), note: 'seen from here since ' + (changes.length ? clock(changes[0].at_ms) : 'the start') },
    ]),
    rows(list, most, state),
    h('div', { class: 'two' },
      lines('Entries committed per second', [{ name: 'entries/s', points: rate }]),
      lines('Entries the slowest voter lacks', [{ name: 'entries', points: state.series('lag') }], { format: number })),
    section('Leaders seen from here', table('Leaders seen', [
      { name: 'Since', get: c => clock(c.at_ms) },
      { name: 'Term', num: true, get: c => number(c.term) },
      { name: 'Leader', get: c => name(c.leader_id) },
    ], [...changes].reverse(), { key: c => c.term + c.leader_id, empty: 'None yet.' })),
    section('This replica', facts([
      ['Role', (self.role || '–') + (self.ready ? ', ready' : '')], ['Identity', h('code', {}, self.replica_id || '–')],
      ['Log', number(self.first) + ' to ' + number(self.last)], ['On disk up to', number(self.durable)],
      ['Applied', number(self.applied)], ['Log files', bytes(self.log_bytes)],
      ['Disk free', self.disk_full ? badge(bytes(self.disk_free) + ', full', 'bad') : bytes(self.disk_free)],
      ['Cluster level', number(self.level)],
    ])),
  ];
}
