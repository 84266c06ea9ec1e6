// SPDX-License-Identifier: Apache-2.0
// The shell: one stream of events, one state, the view of the address. A view is a function from
// state to elements; after each event it is made anew and laid over what is shown.
import { h, morph, note, notes } from '/assets/kit.js';
import * as overview from '/assets/fleet.js';
import * as shards from '/assets/shards.js';
import * as needs from '/assets/needs.js';
import * as topology from '/assets/topology.js';
import * as workers from '/assets/workers.js';
import * as store from '/assets/store.js';
import * as raft from '/assets/raft.js';

const views = [
  { path: '/fleet', title: 'Fleet', make: overview.view },
  { path: '/shards', title: 'Shards', make: shards.view },
  { path: '/needs', title: 'Needs', make: needs.view },
  { path: '/topology', title: 'Topology', make: topology.view },
  { path: '/workers/', title: 'Workers', make: workers.view }, // without the slash it is rollout's list
  { path: '/store', title: 'Store', make: store.view },
  { path: '/raft', title: 'Raft', make: raft.view },
];
const topics = ['raft', 'topology', 'fleet', 'shards', 'needs', 'store', 'workers', 'notes'];
const get = id => document.getElementById(id);

// What the views read. `ask` is what the reader typed or chose, by name.
const state = { history: { names: [], rows: [] }, ask: {}, session: {}, token: '', actions: [], keys: null };
for (const topic of topics) state[topic] = {};
state.series = name => {
  const at = state.history.names.indexOf(name) + 1;
  return at ? state.history.rows.map(row => [row[0], row[at]]) : [];
};
// What a counter gained per second between two samples; a restart is a gap.
state.rate = name => {
  const points = state.series(name);
  return points.slice(1).map(([t, v], i) => {
    const [before, from] = points[i];
    return [t, v === null || from === null || v < from ? null : (v - from) / Math.max(0.001, (t - before) / 1000)];
  });
};

// What one counter gained for each that another did, over the last minute: `actions` per cycle.
state.per = (name, other) => {
  const a = state.series(name), b = state.series(other), back = 30;
  return a.map(([t, v], i) => {
    let from = Math.max(0, i - back);
    while (from < i && (a[from][1] === null || b[from][1] === null)) from++;
    const gained = v - a[from][1], turns = b[i][1] - b[from][1]; // negative after a restart
    return [t, v !== null && b[i][1] !== null && gained >= 0 && turns > 0 ? gained / turns : null];
  });
};

// -- showing --

const view_of = path => views.find(v => v.path.replace(/\/$/, '') === path.replace(/\/$/, ''));
const current = () => view_of(location.pathname) || views[0];
let waiting = false, shown = null;
function show() { // however many events come, one drawing a frame
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}
function draw() {
  const view = current(), next = h('main');
  document.title = view.title + ' · muster';
  for (const [key, value] of new URLSearchParams(location.search)) if (!(key in state.ask)) state.ask[key] = value;
  if ((state.notes.notes || []).length) next.append(notes(state.notes.notes));
  if (state.session.warning) next.append(note(state.session.warning, 'bad'));
  try { next.append(...[view.make(state)].flat(Infinity).filter(Boolean)); }
  catch (error) { console.error(error); next.append(note('This view could not be drawn: ' + error.message, 'bad')); }
  morph(get('view'), next);
  if (view.path === '/store' && state.ask.prefix && !state.keys) browse(state.ask.prefix); // a link to keys
  const nav = h('nav');
  for (const v of views) nav.append(h('a', { href: v.path, 'aria-current': v === view ? 'page' : false }, v.title));
  morph(get('nav'), nav);
  if (shown !== view) get('nav').querySelector('[aria-current]').scrollIntoView({ block: 'nearest', inline: 'center' });
  shown = view;
}

function open(path) {
  history.pushState(null, '', path);
  state.ask = {};
  draw();
  get('view').focus({ preventScroll: true });
  scrollTo(0, 0);
}

// -- data --

async function fetchJson(path, options) {
  const answer = await fetch(path, options);
  return { status: answer.status, body: await answer.json().catch(() => ({})) };
}
const withToken = () => state.token ? { headers: { Authorization: 'Bearer ' + state.token } } : {};

async function load(topic) {
  const { status, body } = await fetchJson('/api/' + topic);
  if (status === 200) { state[topic] = body; show(); }
}

async function loadAll() {
  await Promise.all([...topics.map(load),
    fetchJson('/api/history').then(({ status, body }) => { if (status === 200) state.history = body; }),
    fetchJson('/api/actions').then(({ status, body }) => { if (status === 200) state.actions = body.actions; }),
    session()]);
  show();
}

async function session() {
  const { status, body } = await fetchJson('/api/session', withToken());
  if (status !== 200) return;
  state.session = body;
  get('node').textContent = body.node;
  get('about').textContent = body.node + ' · muster ' + body.version + ' (' + body.commit + ')';
  get('admin').textContent = body.admin ? 'Admin' : 'Read-only';
  get('admin').classList.toggle('on', body.admin);
}

function live(name, text) {
  const pill = get('live');
  if (pill.textContent === text) return;
  pill.className = 'pill ' + name;
  pill.textContent = text;
}

// A browser has six connections to a host, and keeps those of pages one might go back to: who is not
// looked at does not listen, or the seventh tab would wait for ever.
let stream = null;
function hush() { if (stream) stream.close(); stream = null; }
function hear() { if (!stream && document.visibilityState === 'visible') { listen(); loadAll(); } }
addEventListener('pagehide', hush);
addEventListener('pageshow', event => { if (event.persisted) hear(); });
document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' ? hear() : hush());

function listen() {
  stream = new EventSource('/api/events');
  let lost = false;
  for (const topic of topics) stream.addEventListener(topic, event => {
    const doc = JSON.parse(event.data);
    if (doc.fetch) load(topic); else { state[topic] = doc; show(); }
    live('good', 'live');
  });
  stream.addEventListener('sample', event => {
    state.history.rows.push(JSON.parse(event.data));
    if (state.history.rows.length > 900) state.history.rows.shift();
    live('good', 'live');
    show();
  });
  stream.addEventListener('action', event => {
    const action = JSON.parse(event.data);
    state.actions = [action, ...state.actions.filter(a => a.number !== action.number)].slice(0, 32);
    toast(action.action + ' ' + (action.replica || action.key || action.topology_value || '') + ': ' +
      (action.ok ? 'done' : action.said), action.ok ? 'good' : 'bad');
    show();
  });
  stream.addEventListener('dropped', loadAll);
  stream.onopen = () => { if (lost) loadAll(); lost = false; };
  stream.onerror = () => { lost = true; live('bad', 'no connection: last known numbers'); };
}

// -- words and questions --

function toast(text, tone) {
  const box = h('p', { class: 'toast ' + tone }, text);
  get('toasts').append(box);
  setTimeout(() => box.remove(), 8000);
}

function ask(title, body, fields, act) {
  const dialog = get('dialog');
  dialog.replaceChildren(h('form', { method: 'dialog' },
    h('h2', { id: 'dialog-title' }, title), body && h('p', {}, body),
    fields.map(f => h('label', {}, f.label, f.options
      ? h('select', { name: f.name }, f.options.map(o => h('option', { selected: o === f.value }, o)))
      : h('input', { name: f.name, type: f.type || 'text', value: f.value || '', autocomplete: 'off', required: true,
        spellcheck: 'false' }))),
    h('p', { class: 'buttons' },
      h('button', { type: 'button', 'data-do': 'close' }, 'Cancel'),
      h('button', { type: 'submit', class: 'strong' }, act))));
  return new Promise(done => {
    const form = dialog.querySelector('form');
    form.onsubmit = () => done(Object.fromEntries(new FormData(form)));
    dialog.onclose = () => done(null);
    dialog.showModal();
  });
}

async function admin() {
  if (state.session.admin_by === 'certificate') return toast('You are an administrator by the certificate of your browser.', 'good');
  if (state.session.admin) {
    state.token = '';
    await session();
    return show();
  }
  if (!state.session.actions) return toast('Read-only: ' + state.session.read_only, 'bad');
  const said = await ask('Admin token', 'It was printed when the coordinator started. It is kept until this page is closed.',
    [{ name: 'token', label: 'Token', type: 'password' }], 'Unlock');
  if (!said) return;
  state.token = said.token.trim();
  await session();
  if (!state.session.admin) { state.token = ''; toast('This token is not right.', 'bad'); }
  show();
}

async function act(question) {
  if (!state.session.admin) return toast('Unlock with the admin token first: the button at the top right.', 'bad');
  const said = await ask(question.title, question.text, question.fields || [], question.yes);
  if (!said) return;
  const { status, body } = await fetchJson('/api/actions', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...withToken().headers },
    body: JSON.stringify({ ...question.body, ...said, confirm: true }),
  });
  if (status !== 202) toast(body.error || 'refused with status ' + status, 'bad');
}

const questions = {
  transfer: d => ({ title: 'Make ' + d.name + ' the leader?', yes: 'Hand over',
    text: 'Writes wait for a moment while leadership moves.',
    body: { action: 'transfer-leadership', replica: d.name } }),
  retire: d => ({ title: 'Retire replica ' + d.name + '?', yes: 'Retire',
    text: 'It leaves the group and no longer counts for a majority. Its process goes on and may ask to join again.',
    body: { action: 'retire-replica', replica: d.name } }),
  assign: d => ({ title: 'Assign a domain', yes: 'Assign',
    text: 'The shard is instructed with its next report; a domain of another shard moves.',
    fields: [{ name: 'topology_key', label: 'Topology key', value: d.key || 'topology.kubernetes.io/zone' },
      { name: 'topology_value', label: 'Value', value: d.value || '' },
      { name: 'shard_id', label: 'Shard', value: d.shard,
        options: ((state.topology.shards || {}).shards || []).map(s => s.shard_id) }],
    body: { action: 'assign-domain' } }),
  release: d => ({ title: 'Release ' + d.key + ' by force?', yes: 'Release',
    text: 'Its holder is not asked, and may still believe that it holds the claim until it renews; its token is fenced off from now on.',
    body: { action: 'release-claim', key: d.key } }),
};

// -- the key browser: a question that the loop answers a moment later --

function ask_for(name, value) { // the reader's question is in the address
  state.ask[name] = value;
  const query = new URLSearchParams(Object.entries(state.ask).filter(([, v]) => v));
  history.replaceState(null, '', location.pathname + (query.size ? '?' + query : ''));
}

async function browse(prefix) {
  state.keys = { prefix, busy: true };
  ask_for('prefix', prefix);
  show();
  for (let tries = 0; tries < 30; tries++) {
    const { status, body } = await fetchJson('/api/keys?prefix=' + encodeURIComponent(prefix), withToken());
    if (!state.keys || state.keys.prefix !== prefix) return;
    if (status !== 202) { state.keys = status === 200 ? body : { prefix, error: body.error || 'status ' + status }; return show(); }
    await new Promise(done => setTimeout(done, 100 + 50 * tries));
  }
  state.keys = { prefix, error: 'no answer yet; try again' };
  show();
}

// -- what the reader does --

document.addEventListener('click', event => {
  const link = event.target.closest('a[href]');
  const plain = !event.ctrlKey && !event.metaKey && !event.shiftKey;
  if (link && plain && link.origin === location.origin && !link.hash && (link.pathname === '/' || view_of(link.pathname))) {
    event.preventDefault();
    return open(link.pathname + link.search);
  }
  const button = event.target.closest('[data-do]');
  if (!button) return;
  const name = button.dataset.do;
  if (name === 'theme') theme(true);
  else if (name === 'admin') admin();
  else if (name === 'close') get('dialog').close();
  else if (name === 'browse') browse(button.dataset.prefix);
  else if (questions[name]) act(questions[name](button.dataset));
});
document.addEventListener('input', event => {
  const field = event.target;
  if (!field.dataset || !field.dataset.ask) return;
  ask_for(field.dataset.ask, field.type === 'checkbox' ? (field.checked ? 'yes' : '') : field.value);
  show();
});
document.addEventListener('submit', event => {
  if (event.target.dataset.form !== 'browse') return;
  event.preventDefault();
  browse(new FormData(event.target).get('prefix'));
});
addEventListener('popstate', () => { state.ask = {}; draw(); });

// -- light and dark: the system's, unless the reader chose --

function theme(turn) {
  const dark = () => document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  let kept = null;
  try { kept = localStorage.getItem('theme'); } catch { kept = null; }
  if (turn) {
    kept = dark() ? 'light' : 'dark';
    try { localStorage.setItem('theme', kept); } catch { /* not kept, then */ }
  }
  if (kept) document.documentElement.dataset.theme = kept;
  get('theme').textContent = dark() ? 'Light' : 'Dark';
}

theme(false);
draw();
listen();
loadAll();
if (document.visibilityState !== 'visible') hush(); // opened unseen
