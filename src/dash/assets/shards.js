// SPDX-License-Identifier: Apache-2.0
// Each shard from the inside: its cycle by phase, its machines, the rails in force, what it did.
import { h, head, cards, table, bars, badge, note, facts, number, few, span, plural, clock } from '/assets/kit.js';
import { lines } from '/assets/chart.js';

const phaseWords = { reconcile: 'ask the provider', snapread: 'read demand', phase1: 'match', phase2: 'co-locate', phase3: 'preempt', emit: 'write down', execute: 'hand out' };

function split(phases) {
  const total = phases.reduce((sum, p) => sum + p.ms, 0) || 1;
  let x = 0;
  return [
    h('svg', { class: 'split', viewBox: '0 0 100 10', preserveAspectRatio: 'none', role: 'img',
      'aria-label': 'Last cycle: ' + phases.map(p => p.name + ' ' + few(p.ms, 3) + ' ms').join(', ') },
    h('rect', { class: 'empty-track', width: 100, height: 10 }),
    phases.map((p, i) => { const w = 100 * p.ms / total, r = h('rect', { class: 's' + i % 8, x, width: w, height: 10 }); x += w; return r; })),
    h('div', { class: 'legend row' }, phases.map((p, i) => h('span', { class: 'key s' + i % 8 }, h('i', {}), (phaseWords[p.name] || p.name) + ' ', h('b', {}, few(p.ms, 3) + ' ms')))),
  ];
}

function audit(lines_) {
  const rows = lines_.map(text => { try { return JSON.parse(text); } catch { return null; } }).filter(Boolean).reverse();
  return table('What it did last', [
    { name: 'Time', get: a => clock(Date.parse(a.time)) },
    { name: 'Action', get: a => a.kind },
    { name: 'Machine', get: a => h('span', { class: 'one-line' }, a.machine) },
    { name: 'Cluster', get: a => a.cluster || '–' },
    { name: 'Reason', get: a => a.reason },
    { name: 'Outcome', get: a => [badge(a.outcome, a.outcome === 'success' ? 'good' : 'warn'), a.error && h('div', { class: 'fine' }, a.error)] },
  ], rows, { shown: true, tall: rows.length > 12, empty: 'No action was taken yet.' });
}

function panel(s) {
  const said = s.said;
  return h('section', { class: 'panel', 'data-key': s.shard_id },
    h('div', { class: 'panel-head' }, h('h2', {}, s.shard_id), s.why ? badge('does not answer', 'bad') : said ? badge('answers', 'good') : badge('dialling'),
      said && said.fenced && badge('fenced: nothing is done', 'bad'), said && said.paused && badge('paused: nothing is done', 'warn'), said && said.dry_run && badge('dry run', 'warn'),
      h('span', { class: 'fine' }, s.address)),
    s.why && note(s.why, 'warn'),
    said && [
      facts([
        ['Cycle', number(said.cycle)], ['Last cycle', few(said.cycle_ms, 2) + ' ms'],
        ['Machines', number(said.machines)], ['Clusters connected', number(said.sessions)],
        ['Actions queued', number(said.queued)], ['Calls under way', number(said.inflight)],
        ['Machines in doubt', number(said.in_doubt)], ['Shortfalls', number(said.shortfalls)],
      ]),
      h('h3', {}, 'Last cycle by phase'), split(said.phases || []),
      h('div', { class: 'two' },
        bars('Machines by state', (said.states || []).map(x => ({ label: x.name, value: x.count })), { label: 'State', shown: true }),
        bars('Actions since it started', (said.actions || []).map(x => ({ label: x.name, value: x.count })), { label: 'Action', shown: true, tone: 's1' })),
      h('h3', {}, 'Rails in force'),
      facts([
        ['At most per cycle', said.max_actions ? plural(said.max_actions, 'action', 'actions') : 'no bound'],
        ['Taken back per cycle', 'at most ' + few(100 * said.reclaim_fraction, 1) + ' %'],
        ['Guard against empty demand', said.rollup_guard ? 'on' : 'off'],
        ['A cycle every', span(said.cycle_interval_ms)],
        ['Held back by the rails', number(said.capped)], ['Kill switch', said.paused ? badge('on', 'warn') : 'off'],
      ]),
      audit(said.audit || []),
    ]);
}

export function view(state) {
  const shards = state.shards.shards || [], answering = shards.filter(s => s.said && !s.why);
  return [
    head('Shards', shards.length ? answering.length + ' of ' + plural(shards.length, 'shard answers', 'shards answer') + '. The kill switch and the rails are configuration of each shard.'
      : 'No shard is known yet.'),
    state.shards.listed > shards.length && note('The first ' + number(shards.length) + ' of ' + number(state.shards.listed) + ' shards are asked.'),
    lines('The slowest shard\'s last cycle', [{ name: 'ms', points: state.series('cycle_ms') }], { format: v => few(v, 2) }),
    shards.map(panel),
  ];
}
