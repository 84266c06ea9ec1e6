// SPDX-License-Identifier: Apache-2.0
// The store: how full it is, who holds which claim for how long, and its keys.
import { h, head, section, cards, table, badge, button, note, troubles, number, few, bytes, span, plural } from '/assets/kit.js';
import { lines } from '/assets/chart.js';

const slot = /^(.*)\/slot-(\d+)$/;

// Slots of one group together, plain claims on their own.
function groups(claims) {
  const by = new Map();
  for (const claim of claims) {
    const match = slot.exec(claim.key), name = match ? match[1] : claim.key;
    if (!by.has(name)) by.set(name, { name, slots: !!match, claims: [] });
    by.get(name).claims.push({ ...claim, slot: match ? Number(match[2]) : null });
  }
  return [...by.values()];
}

// Groups with their size and who waits; one that was not asked for yet has its holders only.
function sizes(list, known) {
  const slots = list.filter(g => g.slots).map(g => ({ ...g, ...(known.find(t => t.group === g.name) || { slots: null, waiters: null }) }));
  return slots.length > 0 && section('Groups', table('Groups', [
    { name: 'Group', get: g => h('a', { href: '/store?text=' + encodeURIComponent(g.name) }, g.name) },
    { name: 'Slots', num: true, get: g => number(g.slots) },
    { name: 'Held', num: true, get: g => number(g.claims.length) },
    { name: 'Free', num: true, get: g => g.slots === null ? '–' : number(Math.max(0, g.slots - g.claims.length)) },
    { name: 'Waiting', num: true, get: g => g.waiters ? badge(number(g.waiters), 'warn') : number(g.waiters) },
    { name: 'Pause after a release', num: true, get: g => g.cooldown_ms ? span(g.cooldown_ms) : '–' },
  ], slots, { key: g => g.name }));
}

const left = claim => claim.ttl_ms > 0
  ? h('span', {}, span(claim.remaining_ms), h('span', { class: 'fine' }, ' of ' + span(claim.ttl_ms))) : h('span', { class: 'fine' }, 'no lease');

function browser(state) {
  const keys = state.keys;
  return section('Keys',
    h('form', { class: 'tools', 'data-form': 'browse' },
      h('label', {}, 'Keys that begin with ', h('input', { type: 'search', name: 'prefix', value: state.ask.prefix || '', placeholder: 'all of them' })),
      h('button', { type: 'submit' }, 'Look'),
      !state.session.admin && h('span', { class: 'fine' }, 'values are shown to who has the admin token')),
    !keys ? h('p', { class: 'empty' }, 'Look at a prefix to see its keys.')
      : keys.busy ? h('p', { class: 'empty' }, 'Looking…')
        : keys.error ? note(keys.error, 'bad')
          : [h('p', { class: 'fine' }, (keys.more ? 'The first ' : '') + plural(keys.keys.length, 'key', 'keys') + ' at revision ' + number(keys.revision)),
            table('Keys', [
              { name: 'Key', get: k => h('code', {}, k.key) },
              { name: 'Changed at', num: true, get: k => number(k.revision) },
              { name: 'Made at', num: true, get: k => number(k.create_revision) },
              { name: 'Holder', get: k => k.owner || '–' },
              ...(keys.values ? [{ name: 'Bytes', num: true, get: k => number(k.bytes) }, { name: 'Value', get: k => h('code', {}, k.value.slice(0, 300)) }] : []),
            ], keys.keys, { key: k => k.key, empty: 'No key begins with this.' })]);
}

export function view(state) {
  const doc = state.store, s = doc.status || {}, claims = ((doc.claims || {}).claims || []);
  const held = claims.filter(c => c.token), text = (state.ask.text || '').toLowerCase();
  const rows = groups(held).flatMap(g => g.claims.map((c, i) => ({ ...c, group: g, first: i === 0 })))
    .filter(c => !text || (c.key + c.owner).toLowerCase().includes(text));
  const rate = state.rate('revision'), now = rate.length ? rate[rate.length - 1][1] : null;
  const full = s.quota ? s.bytes / s.quota : 0;
  return [
    head('Store and claims', doc.status ? plural(s.keys, 'key', 'keys') + ', ' + plural(s.leases, 'lease', 'leases') + ' and ' + plural(s.groups, 'group', 'groups')
      + ' at revision ' + number(s.revision) + (s.no_space ? '; it is full, and only what frees space is taken.' : '.') : 'The store has not answered yet.'),
    troubles(doc),
    cards([
      { name: 'Keys', value: number(s.keys) },
      { name: 'Revision', value: number(s.revision), note: few(now) + ' a second' },
      { name: 'Claims held', value: number(held.length), note: (doc.claims || {}).more ? 'of the first 1,000 entries' : null },
      { name: 'Waiting for a slot', value: number(s.waiters) },
      { name: 'Watching', value: number(s.watchers) },
      { name: 'Space', value: few(100 * full, 1) + ' %', note: bytes(s.bytes) + ' of ' + bytes(s.quota), tone: s.no_space ? 'bad' : full > 0.8 && 'warn' },
    ]),
    h('div', { class: 'two' }, lines('Changes per second', [{ name: 'changes/s', points: rate }]),
      lines('Keys and leases', [{ name: 'keys', points: state.series('keys') }, { name: 'leases', points: state.series('leases') }], { format: number })),
    sizes(groups(held), doc.groups || []),
    section('Claims and slots',
      h('div', { class: 'tools' },
        h('label', {}, 'Filter ', h('input', { type: 'search', 'data-ask': 'text', value: state.ask.text || '', placeholder: 'group or holder' })),
        h('span', { class: 'fine' }, number(rows.length) + ' of ' + number(held.length))),
      table('Claims', [
        { name: 'Group or claim', get: c => c.group.slots ? [c.group.name, h('span', { class: 'fine' }, ' slot ' + c.slot)] : c.key },
        { name: 'Holder', get: c => c.owner || '–' },
        { name: 'Token', num: true, get: c => number(c.token) },
        { name: 'Time left', get: left },
        { name: '', get: c => button('Release…', 'release', { key: c.key }, 'danger') },
      ], rows.slice(0, 500), { key: c => c.key, empty: text ? 'No claim matches.' : 'Nothing is claimed. Try: musterctl coord exec --group jobs --slots 3 --store muster://ADDRESS -- sleep 60' })),
    browser(state),
  ];
}
