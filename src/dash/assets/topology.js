// SPDX-License-Identifier: Apache-2.0
// Who is whose: domains and clusters of each shard, quotas, providers, words that wait.
import { h, head, section, table, badge, chip, button, troubles, number, span, since, plural, short } from '/assets/kit.js';

const silent = shard => { const ms = since(shard.last_heartbeat); return ms === null || ms > 60000; };

function shardPanel(shard, domains, clusters, report) {
  const ms = since(shard.last_heartbeat);
  return h('div', { class: 'panel', 'data-key': shard.shard_id },
    h('div', { class: 'panel-head' }, h('h3', {}, shard.shard_id),
      silent(shard) ? badge(ms === null ? 'never reported' : 'silent for ' + span(ms), 'bad') : badge('reports', 'good'),
      h('span', { class: 'fine' }, shard.address), h('span', { class: 'grow' }),
      report && report.summary && h('span', { class: 'fine' }, plural(report.summary.total_machines, 'machine', 'machines'))),
    h('p', { class: 'stack' }, h('span', { class: 'fine' }, 'Domains'),
      domains.length ? domains.slice(0, 60).map(d => chip(short(d.topology_key) + ' = ' + d.topology_value)) : h('span', { class: 'fine' }, 'none'),
      domains.length > 60 && h('span', { class: 'fine' }, 'and ' + number(domains.length - 60) + ' more')),
    h('p', { class: 'stack' }, h('span', { class: 'fine' }, 'Clusters'),
      clusters.length ? clusters.slice(0, 60).map(c => h('a', { class: 'chip', href: '/needs?text=' + encodeURIComponent(c.cluster_id) }, c.cluster_id))
        : h('span', { class: 'fine' }, 'none')));
}

const words = payload => Object.keys(payload).filter(k => typeof payload[k] === 'object' && payload[k])
  .map(k => k.replaceAll('_', ' ') + ': ' + Object.values(payload[k]).flat().join(' ')).join('; ');

export function view(state) {
  const doc = state.topology, shards = (doc.shards || {}).shards || [], domains = (doc.domains || {}).assignments || [];
  const clusters = (doc.clusters || {}).clusters || [], reports = ((state.fleet || {}).reports || {}).reports || [];
  const text = (state.ask.text || '').toLowerCase();
  const found = domains.filter(d => !text || (d.topology_key + d.topology_value + d.shard_id).toLowerCase().includes(text));
  const waiting = (doc.instructions || {}).instructions || [];
  const down = shards.filter(silent).length;
  return [
    head('Topology', plural(domains.length, 'domain', 'domains') + ' and ' + plural(clusters.length, 'cluster', 'clusters') + ' on '
      + plural(shards.length, 'shard', 'shards') + (down ? '; ' + number(down) + ' silent.' : '; all of them report.')),
    troubles(doc),
    h('div', { class: 'two' }, shards.map(s => shardPanel(s, domains.filter(d => d.shard_id === s.shard_id),
      clusters.filter(c => c.shard_id === s.shard_id), reports.find(r => r.shard_id === s.shard_id)))),
    !shards.length && h('p', { class: 'empty' }, 'No shard is known yet. One that is started with --coordinator-addr makes itself known.'),
    section('Domains',
      h('div', { class: 'tools' },
        h('label', {}, 'Filter ', h('input', { type: 'search', 'data-ask': 'text', value: state.ask.text || '', placeholder: 'zone, shard…' })),
        h('span', { class: 'fine' }, number(found.length) + ' of ' + number(domains.length)), h('span', { class: 'grow' }),
        button('Assign a domain…', 'assign', { shard: shards[0] ? shards[0].shard_id : '' })),
      table('Domains', [
        { name: 'Topology key', get: d => d.topology_key }, { name: 'Value', get: d => d.topology_value },
        { name: 'Shard', get: d => d.shard_id },
        { name: '', get: d => button('Move…', 'assign', { key: d.topology_key, value: d.topology_value, shard: d.shard_id }) },
      ], found.slice(0, 500), { key: d => d.topology_key + '=' + d.topology_value, empty: text ? 'No domain matches.' : 'No domain is assigned.' })),
    section('Words that wait for a shard', table('Instructions', [
      { name: 'Shard', get: i => i.shard_id }, { name: 'Instruction', get: i => words(i.instruction || {}) },
      { name: 'Term', num: true, get: i => number((i.instruction || {}).coordinator_term) },
      { name: 'Sent', num: true, get: i => plural(i.deliveries, 'time', 'times') },
    ], waiting.slice(0, 200), { empty: 'None: every shard has acknowledged its instructions.' })),
    h('div', { class: 'two' },
      section('Quotas', table('Quotas', [
        { name: 'Provider', get: q => q.provider }, { name: 'Region', get: q => q.region },
        { name: 'Machines per shard', get: q => h('span', { class: 'stack' }, Object.entries(q.per_shard).map(([s, n]) => chip(s + ' ' + number(n)))) },
      ], ((doc.quotas || {}).allocations || []), { empty: 'No quota is set.' })),
      section('Providers', table('Providers', [
        { name: 'Name', get: p => p.name }, { name: 'Address', get: p => p.address }, { name: 'Region', get: p => p.region },
      ], ((doc.providers || {}).providers || []), { empty: 'No provider is listed; shards have their own.' }))),
  ];
}
