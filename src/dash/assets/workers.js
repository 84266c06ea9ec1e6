// SPDX-License-Identifier: Apache-2.0
// Workers: their standing, their load, and the owners of partitions.
import { h, head, section, cards, table, badge, note, troubles, number, few, span, plural, clock } from '/assets/kit.js';
import { lines } from '/assets/chart.js';

const tones = { STANDING_ACTIVE: 'good', STANDING_SUSPECTED: 'warn', STANDING_DEAD: 'bad' };
const phases = ['–', 'starting', 'ready', 'running', 'draining']; // rollout's WorkerState
const word = text => String(text).replace(/^[A-Z]+_/, '').toLowerCase();
const RING_MAX = 720; // arcs that an eye can distinguish, and a phone can draw

// Partitions as a ring: one arc each, neighbours of one owner and state drawn as one.
function ring(partitions, owners) {
  const total = Math.max(1, partitions.length), step = 2 * Math.PI / total;
  const at = angle => (60 + 48 * Math.sin(angle)).toFixed(2) + ' ' + (60 - 48 * Math.cos(angle)).toFixed(2);
  const tone = p => p.state === 'PARTITION_OWNED' ? 's' + owners.indexOf(p.owner) % 7 : 'none';
  const arcs = [];
  for (let i = 0; i < partitions.length;) {
    let end = i + 1;
    while (end < partitions.length && partitions[end].owner === partitions[i].owner && tone(partitions[end]) === tone(partitions[i])) end++;
    const gap = total > 60 ? 0 : step * 0.06, from = i * step + gap, to = Math.min(end * step - gap, from + 2 * Math.PI - 0.001);
    arcs.push(h('path', { class: tone(partitions[i]), d: `M${at(from)}A48 48 0 ${to - from > Math.PI ? 1 : 0} 1 ${at(to)}` }));
    i = end;
  }
  return h('svg', { class: 'ring', viewBox: '0 0 120 120', role: 'img', 'aria-label': plural(total, 'partition', 'partitions') + ' on ' + plural(owners.length, 'worker', 'workers') }, arcs);
}

// Long names differ at their ends; all of it is the tooltip's.
const ending = (text = '', length) => h('code', { class: 'one-line', title: text }, text.length > length ? '…' + text.slice(-length) : text);

export function view(state) {
  const doc = state.workers, s = doc.status, errors = doc.errors || {};
  if (!s) return [head('Workers', 'Worker membership is not served by this coordinator.'),
    note(errors.status && errors.status !== 'not served here' ? 'Asked, and not answered: ' + errors.status
      : 'Workers, their partitions and checkpoints appear here as soon as the coordinators serve muster.v1.Membership.')];
  const list = (doc.workers || {}).workers || [], partitions = ((doc.partitions || {}).partitions || []).slice(0, RING_MAX);
  const owners = [...new Set(partitions.map(p => p.owner).filter(Boolean))].sort(), text = (state.ask.text || '').toLowerCase();
  const found = list.filter(w => !text || (w.worker_id + w.standing + JSON.stringify(w.labels)).toLowerCase().includes(text));
  const points = (doc.checkpoints || {}).checkpoints || [];
  return [
    head('Workers', number(s.active) + ' of ' + plural(s.known, 'worker is', 'workers are') + ' active; ' + number(s.owned) + ' of '
      + plural(s.total_partitions, 'partition is', 'partitions are') + ' owned' + (s.hold ? '. Failures are held back: too many at once.' : '.')),
    troubles(doc),
    cards([
      { name: 'Active', value: number(s.active), tone: 'good' },
      { name: 'Suspected', value: number(s.suspected), tone: s.suspected ? 'warn' : '' },
      { name: 'Dead', value: number(s.dead), tone: s.dead ? 'bad' : '' },
      { name: 'Draining', value: number(s.draining) },
      { name: 'Partitions owned', value: number(s.owned) + ' / ' + number(s.total_partitions), note: number(s.revoking) + ' handed over, ' + number(s.fencing) + ' fenced, ' + number(s.free) + ' free' },
      { name: 'Work', value: number(s.work_pending), unit: 'waiting', note: number(s.work_running) + ' running, ' + number(s.work_done) + ' done' },
    ]),
    lines('Active workers', [{ name: 'active', points: state.series('workers') }], { format: number }),
    h('div', { class: 'two' },
      section('Partitions', h('div', { class: 'panel' }, ring(partitions, owners),
        h('div', { class: 'legend middle' }, owners.slice(0, 21).map((o, i) => h('span', { class: 'key s' + i % 7 }, h('i', {}), o.slice(-8) + ' ',
          h('b', {}, number(partitions.filter(p => p.owner === o).length)))), owners.length > 21 && h('span', {}, 'and ' + number(owners.length - 21) + ' more'))),
        h('details', { class: 'as-table' }, h('summary', {}, 'as a table'), table('Partitions', [
          { name: 'Partition', get: p => number(p.partition) }, { name: 'State', get: p => word(p.state) },
          { name: 'Owner', get: p => p.owner || '–' }, { name: 'Grant', num: true, get: p => number(p.grant_epoch) },
        ], partitions))),
      section('Checkpoints', table('Checkpoints', [
        { name: 'Partition', get: p => number(p.partition) }, { name: 'At', get: p => p.at_ms ? clock(p.at_ms) : '–' },
        { name: 'By', get: p => ending(p.worker_id, 8) }, { name: 'Reference', get: p => ending(p.checkpoint, 18) },
      ], points.slice(0, 100), { empty: 'No checkpoint was acknowledged yet.' }))),
    section('All workers',
      h('div', { class: 'tools' }, h('label', {}, 'Filter ', h('input', { type: 'search', 'data-ask': 'text', value: state.ask.text || '', placeholder: 'id, standing, label' })),
        h('span', { class: 'fine' }, number(found.length) + ' of ' + number(list.length))),
      table('Workers', [
        { name: 'Worker', get: w => owners.includes(w.worker_id) ? h('span', { class: 'key s' + owners.indexOf(w.worker_id) % 7 }, h('i', {}), h('span', { class: 'ink' }, w.worker_id)) : w.worker_id },
        { name: 'Standing', get: w => [badge(word(w.standing), tones[w.standing]), w.draining && badge('draining', 'warn')] },
        { name: 'Phase', get: w => phases[w.phase] || w.phase },
        { name: 'Load', num: true, get: w => few(100 * w.load, 0) + ' %' },
        { name: 'Partitions', num: true, get: w => number(w.partitions) },
        { name: 'Last beat', num: true, get: w => w.received_at_ms ? span(w.silent_ms) + ' ago' : '–' },
        { name: 'Incarnation', num: true, get: w => number(w.incarnation) },
        { name: 'Note', get: w => w.reason || '' },
      ], found.slice(0, 500), { key: w => w.worker_id, empty: 'No worker matches.' })),
  ];
}
