// SPDX-License-Identifier: Apache-2.0
// The fleet as a whole: machines by state, type and zone, what they cost, what is missing.
import { h, head, section, cards, table, bars, badge, note, troubles, number, few, money, plural } from '/assets/kit.js';
import { lines, spark } from '/assets/chart.js';

function tally(rows, key) {
  const by = new Map();
  for (const r of rows) by.set(r[key], (by.get(r[key]) || 0) + r.count);
  return [...by].map(([label, value]) => ({ label: label || '(none)', value })).sort((a, b) => b.value - a.value);
}
function counted(maps) {
  const by = new Map();
  for (const map of maps) for (const [k, n] of Object.entries(map || {})) by.set(k, (by.get(k) || 0) + n);
  return [...by].map(([label, value]) => ({ label, value })).sort((a, b) => b.value - a.value);
}
const amounts = map => Object.entries(map || {}).map(([k, v]) => k.slice(k.lastIndexOf('/') + 1) + ' ' + v).join(', ') || '–';

export function view(state) {
  const reports = (state.fleet.reports || {}).reports || [], shards = state.shards.shards || [];
  const rows = shards.flatMap(s => ((s.said || {}).inventory || []));
  const paid = rows.filter(r => !['Speculative', 'Deleted'].includes(r.state));
  const total = reports.reduce((s, r) => s + ((r.summary || {}).total_machines || 0), 0);
  const real = paid.reduce((s, r) => s + r.count, 0), serving = rows.filter(r => r.state === 'Configured').reduce((s, r) => s + r.count, 0);
  const cost = paid.length ? paid.reduce((s, r) => s + r.count * r.price_per_hour, 0) : rows.length ? 0 : null;
  const short = reports.flatMap(r => r.shortfalls.map(x => ({ ...x, shard: r.shard_id })));
  const acting = state.per('actions', 'cycles'), unmet = state.series('unmet'), lacking = unmet.length ? unmet[unmet.length - 1][1] : null;
  const types = rows.length ? tally(paid, 'instance_type') : counted(reports.map(r => (r.summary || {}).per_instance_type_counts));
  const zones = rows.length ? tally(paid, 'zone') : counted(reports.map(r => (r.summary || {}).per_zone_counts));
  const prices = [...paid.reduce((by, r) => {
    const k = r.instance_type + ' · ' + r.capacity_type, e = by.get(k) || { label: k, show: [r.instance_type, h('div', { class: 'fine' }, r.capacity_type)], type: r.instance_type, capacity: r.capacity_type, count: 0, value: 0 };
    e.count += r.count; e.value += r.count * r.price_per_hour;
    return by.set(k, e);
  }, new Map()).values()].sort((a, b) => b.value - a.value);
  const offers = [...rows.filter(r => r.state === 'Speculative').reduce((by, r) => {
    const k = r.instance_type + ' · ' + r.capacity_type, e = by.get(k) || { label: k, show: [r.instance_type, h('div', { class: 'fine' }, r.capacity_type)], value: 0, price: r.price_per_hour };
    e.value += r.count;
    return by.set(k, e);
  }, new Map()).values()].sort((a, b) => b.value - a.value);
  const dark = shards.filter(s => s.why);
  return [
    head('Fleet', reports.length ? plural(reports.length, 'shard looks', 'shards look') + ' after ' + plural(total, 'machine', 'machines')
      + (rows.length ? ', of which ' + number(serving) + ' serve a cluster' : '') + (short.length ? '; ' + plural(short.length, 'Need lacks', 'Needs lack') + ' something.' : '; nothing is missing.')
      : 'No shard has reported yet.'),
    troubles(state.fleet), dark.length > 0 && note(dark.map(s => s.shard_id + ' does not answer: ' + s.why).join(' · '), 'warn'),
    cards([
      { name: 'Machines running', value: number(rows.length ? real : null), note: number(total) + ' with quota' },
      { name: 'Serving a cluster', value: number(rows.length ? serving : null), tone: 'good', extra: spark(state.series('configured')) },
      { name: 'Cost now', value: cost === null ? '–' : money(cost), unit: '/ hour', extra: spark(state.series('cost')) },
      { name: 'Shortfalls', value: number(short.length), tone: short.length ? 'warn' : 'good', href: '/needs?unmet=yes', note: lacking === null ? null : plural(lacking, 'Need', 'Needs') + ' unmet' },
      { name: 'Actions', value: acting.length ? few(acting[acting.length - 1][1]) : '–', unit: '/ cycle', extra: spark(acting) },
      { name: 'Raft', value: ((state.raft.replicas || {}).replicas || []).filter(r => r.voter).length || '–', unit: 'voters', href: '/raft',
        note: (((state.raft.replicas || {}).replicas || []).find(r => r.leader) || { name: 'nobody' }).name + ' leads' },
    ]),
    h('div', { class: 'two' },
      lines('Cost per hour', [{ name: 'dollars', points: state.series('cost') }], { format: v => v === null ? '–' : '$' + few(v, 2) }),
      lines('Machines that serve a cluster', [{ name: 'machines', points: state.series('configured') }], { format: number }),
      lines('Actions per cycle, over a minute', [{ name: 'actions', points: acting }], { format: v => few(v, 2) }),
      lines('Shortfalls', [{ name: 'Needs that lack something', points: state.series('shortfalls') }], { format: number })),
    h('div', { class: 'two' },
      rows.length > 0 && section('By state', bars('Machines by state', tally(paid, 'state'), { label: 'State', empty: 'No machine is running.' }),
        h('p', { class: 'fine' }, number(rows.filter(r => r.state === 'Speculative').reduce((s, r) => s + r.count, 0)) + ' more could be had (Speculative).')),
      section('By zone', bars('Machines by zone', zones, { label: 'Zone', tone: 's1', empty: 'No machine is running.' }))),
    h('div', { class: 'two' },
      section('By type', bars('Machines by type', types, { label: 'Type', tone: 's5', empty: 'No machine is running.' })),
      rows.length > 0 && section('What they cost', bars('Cost by type', prices, { label: 'Type', unit: '$ an hour', tone: 's2', format: v => few(v, 2), empty: 'Nothing is paid for.',
        more: [{ name: 'Machines', num: true, get: r => number(r.count) }, { name: 'Each', num: true, get: r => money(r.value / Math.max(1, r.count)) }] }))),
    rows.length > 0 && section('What could be had', bars('Machines to be had', offers, { label: 'Type', unit: 'Machines', tone: 's3',
      more: [{ name: 'Each, an hour', num: true, get: r => money(r.price) }] })),
    section('Shortfalls', table('Shortfalls', [
      { name: 'Shard', get: x => x.shard }, { name: 'Priority', num: true, get: x => number(x.priority) },
      { name: 'Lacks', get: x => amounts((x.deficit || {}).resources) }, { name: 'For', num: true, get: x => plural(x.age_cycles, 'cycle', 'cycles') },
    ], short.slice(0, 100), { empty: 'Every Need has what it asked for.' })),
  ];
}
