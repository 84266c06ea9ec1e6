// SPDX-License-Identifier: Apache-2.0
// Small tools of every view: elements from data, updates in place, numbers for people.
// Whatever arrives becomes text, never markup.

const SVG = 'http://www.w3.org/2000/svg';
const svgTags = new Set(['svg', 'path', 'rect', 'line', 'circle', 'g', 'polyline', 'title']);

export function h(tag, props, ...children) {
  const node = svgTags.has(tag) && tag !== 'title'
    ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === false || value === null || value === undefined) continue;
    node.setAttribute(key, value === true ? '' : String(value));
  }
  add(node, children);
  return node;
}

function add(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(node, child);
    else node.append(child instanceof Node ? child : String(child));
  }
}

// Makes `old` look like `next` and keeps what the reader did: focus, typed text, opened details,
// scroll. A node that looks the same is not touched at all.
export function morph(old, next) {
  const from = old.childNodes, to = [...next.childNodes];
  for (let i = 0; i < to.length; i++) {
    const a = from[i], b = to[i];
    if (!a) old.append(b);
    else if (a.nodeType !== b.nodeType || a.nodeName !== b.nodeName || key(a) !== key(b))
      a.replaceWith(b);
    else if (a.nodeType === Node.TEXT_NODE) { if (a.data !== b.data) a.data = b.data; }
    else if (!a.isEqualNode(b)) { attributes(a, b); morph(a, b); }
  }
  while (from.length > to.length) old.lastChild.remove();
}

const key = node => node.nodeType === Node.ELEMENT_NODE ? node.getAttribute('data-key') : null;

function attributes(a, b) {
  for (const { name } of [...a.attributes])
    if (!b.hasAttribute(name) && !(name === 'open' && a.nodeName === 'DETAILS')) a.removeAttribute(name);
  for (const { name, value } of [...b.attributes])
    if (a.getAttribute(name) !== value) a.setAttribute(name, value);
}

// -- numbers --

const whole = new Intl.NumberFormat('en-US');
export const number = n => n === null || n === undefined || Number.isNaN(n) ? '–' : whole.format(n);
export const few = (n, digits = 1) => n === null || n === undefined || Number.isNaN(n) ? '–'
  : n.toLocaleString('en-US', { maximumFractionDigits: digits, minimumFractionDigits: 0 });
export const money = n => n === null || n === undefined ? '–'
  : '$' + n.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
export function bytes(n) {
  if (n === null || n === undefined) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) { n /= 1024; at++; }
  return few(n, n < 10 && at ? 1 : 0) + ' ' + units[at];
}
export function span(ms) {
  if (ms === null || ms === undefined || ms < 0) return '–';
  if (ms < 1000) return Math.round(ms) + ' ms';
  const s = ms / 1000;
  if (s < 60) return few(s, s < 10 ? 1 : 0) + ' s';
  const m = Math.floor(s / 60);
  if (m < 60) return m + ' min ' + Math.floor(s % 60) + ' s';
  const hours = Math.floor(m / 60);
  return hours < 48 ? hours + ' h ' + m % 60 + ' min' : Math.floor(hours / 24) + ' d ' + hours % 24 + ' h';
}
export const clock = ms => new Date(ms).toLocaleTimeString('en-GB');
export const plural = (n, one, many) => number(n) + ' ' + (n === 1 ? one : many);
export const short = label => label.slice(label.lastIndexOf('/') + 1);
// A time of the contract in RFC 3339, or null when it never was.
export const since = text => text ? Date.now() - Date.parse(text) : null;

// -- blocks --

export const head = (title, sentence) => h('header', { class: 'view-head' },
  h('h1', {}, title), sentence && h('p', { class: 'lead' }, sentence));

export const section = (title, ...children) => h('section', { 'data-key': title },
  h('h2', {}, title), ...children);

export const cards = list => h('dl', { class: 'cards' }, list.filter(Boolean).map(c =>
  h('div', { class: 'card ' + (c.tone || ''), 'data-key': c.name },
    h('dt', {}, c.href ? h('a', { href: c.href }, c.name) : c.name),
    h('dd', {}, c.value, c.unit && h('small', {}, ' ' + c.unit)),
    c.note && h('dd', { class: 'sub' }, c.note), c.extra)));

export const badge = (text, tone) => h('span', { class: 'badge ' + (tone || '') }, text);
export const chip = text => h('span', { class: 'chip' }, text);
export const note = (text, tone) => h('p', { class: 'note ' + (tone || '') }, text);
export const button = (text, act, data, tone) => h('button', Object.assign(
  { type: 'button', class: tone, 'data-do': act },
  Object.fromEntries(Object.entries(data || {}).map(([k, v]) => ['data-' + k, v]))), text);

// What somebody wants the readers to know: the newest in the line, the others one click away.
export const notes = list => h('details', { class: 'notes', 'data-key': 'notes' },
  h('summary', { class: Date.now() - list[0].at_ms < 30000 ? 'fresh' : '' },
    h('time', {}, list[0].at_ms ? clock(list[0].at_ms) : ''), list[0].from && badge(list[0].from, noteTone(list[0])), h('span', {}, list[0].text)),
  table('What happened', [
    { name: 'Time', get: n => n.at_ms ? clock(n.at_ms) : '–' }, { name: 'From', get: n => n.from ? badge(n.from, noteTone(n)) : '–' },
    { name: 'What', get: n => n.text },
  ], list, { tall: list.length > 10 }));
const noteTone = n => n.from === 'chaos' ? (/ is back /.test(n.text) ? 'good' : 'bad') : '';

// What was asked for and not answered, in words; nothing when all is well.
export function troubles(doc, names) {
  const all = Object.entries((doc && doc.errors) || {}).filter(([name]) => !names || names.includes(name));
  return all.length ? note(all.map(([name, why]) => name + ': ' + why).join(' · '), 'bad') : null;
}

// A table that a phone can scroll. Columns: {name, get, num, sort}.
export function table(caption, columns, rows, options = {}) {
  if (!rows.length) return h('p', { class: 'empty' }, options.empty || 'Nothing here yet.');
  return h('div', { class: options.tall ? 'scroll tall' : 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', {},
      h('caption', options.shown ? {} : { class: 'hidden' }, caption),
      h('thead', {}, h('tr', {}, columns.map(c =>
        h('th', { scope: 'col', class: c.num ? 'num' : !c.name && 'do' }, c.name || h('span', { class: 'hidden' }, 'Actions'))))),
      h('tbody', {}, rows.map(row => h('tr', { 'data-key': options.key && options.key(row) },
        columns.map((c, i) => h(i ? 'td' : 'th', i ? { class: c.num ? 'num' : !c.name && 'do' } : { scope: 'row', class: c.num && 'num' },
          c.get(row))))))));
}

// A bar beside its number: a table that is its own chart.
export function bars(caption, rows, options = {}) {
  const most = Math.max(1e-9, ...rows.map(r => r.value));
  const show = options.format || number;
  return table(caption, [
    { name: options.label || 'Name', get: r => r.href ? h('a', { href: r.href }, r.label) : r.show || r.label },
    { name: '', get: r => h('svg', { class: 'bar ' + (r.tone || options.tone || 's0'), viewBox: '0 0 100 10',
      preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    h('rect', { class: 'track', width: 100, height: 10 }),
    h('rect', { class: 'fill', width: Math.max(r.value > 0 ? 0.8 : 0, 100 * r.value / most), height: 10 })) },
    { name: options.unit || 'Count', num: true, get: r => show(r.value) },
    ...(options.more || []),
  ].map(c => c.name === '' ? { ...c, name: ' ' } : c), rows, { key: r => r.label, ...options });
}

export const facts = list => h('dl', { class: 'facts' }, list.filter(Boolean).map(([name, value]) =>
  h('div', {}, h('dt', {}, name), h('dd', {}, value))));
