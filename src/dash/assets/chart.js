// SPDX-License-Identifier: Apache-2.0
// Lines over time, drawn as SVG; under each the same numbers as a table.
import { h, few, clock } from '/assets/kit.js';

const WIDTH = 600, HEIGHT = 140;

// A round number at or above the largest value: 1, 2 or 5 times a power of ten.
function ceiling(most) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map(f => f * power).find(v => v >= most * 0.999);
}

// A line breaks where a number is not known.
function path(points, x, y) {
  let text = '', pen = false;
  for (const [t, v] of points) {
    if (v === null || v === undefined) { pen = false; continue; }
    text += (pen ? 'L' : 'M') + x(t).toFixed(1) + ' ' + y(v).toFixed(1);
    pen = true;
  }
  return text;
}

// The ground under a line, one piece for each stretch without a gap.
function area(points, x, y) {
  let text = '', piece = [];
  const close = () => {
    if (piece.length > 1) text += path(piece, x, y) + `L${x(piece[piece.length - 1][0]).toFixed(1)} ${HEIGHT}L${x(piece[0][0]).toFixed(1)} ${HEIGHT}Z`;
    piece = [];
  };
  for (const point of points) if (point[1] === null || point[1] === undefined) close(); else piece.push(point);
  close();
  return text;
}

function numbers(title, series, show) {
  const all = series[0] ? series[0].points : [];
  const step = Math.max(1, Math.ceil(all.length / 40));
  const rows = [];
  for (let i = all.length - 1; i >= 0; i -= step) rows.push(i);
  return h('details', { class: 'as-table' }, h('summary', {}, 'as a table'),
    h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': title + ', as a table' },
      h('table', {}, h('caption', { class: 'hidden' }, title),
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Time'),
          series.map(s => h('th', { scope: 'col', class: 'num' }, s.name)))),
        h('tbody', {}, rows.map(i => h('tr', {}, h('th', { scope: 'row' }, clock(all[i][0])),
          series.map(s => h('td', { class: 'num' }, show(s.points[i] ? s.points[i][1] : null)))))))));
}

// series: [{name, points: [[ms, value or null]]}]
export function lines(title, series, options = {}) {
  const show = options.format || (v => few(v));
  const known = series.flatMap(s => s.points.map(p => p[1]).filter(v => v !== null && v !== undefined));
  const times = series.flatMap(s => s.points.length ? [s.points[0][0], s.points[s.points.length - 1][0]] : []);
  const from = Math.min(...times), to = Math.max(...times);
  const floor = options.floor === 'data' && known.length ? Math.min(...known) : 0;
  const top = options.floor === 'data' ? Math.max(...known, floor + 1) : ceiling(Math.max(0, ...known));
  const x = t => to > from ? (t - from) / (to - from) * WIDTH : WIDTH;
  const y = v => HEIGHT - (v - floor) / (top - floor) * (HEIGHT - 8) - 1;
  const last = s => { for (let i = s.points.length - 1; i >= 0; i--) if (s.points[i][1] !== null) return s.points[i][1]; return null; };
  const words = title + ': ' + series.map(s => s.name + ' ' + show(last(s))).join(', ');
  if (known.length < 2) return h('figure', { class: 'chart', 'data-key': title },
    h('figcaption', {}, title), h('p', { class: 'empty' }, 'Gathering the first numbers…'));
  return h('figure', { class: 'chart', 'data-key': title },
    h('figcaption', {}, title, h('span', { class: 'legend' }, series.map((s, i) =>
      h('span', { class: 'key s' + i }, h('i', {}), s.name + ' ', h('b', {}, show(last(s))))))),
    h('div', { class: 'plot' },
      h('span', { class: 'y-top' }, show(top)), h('span', { class: 'y-low' }, show(floor)),
      h('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': words },
        h('line', { class: 'grid', x1: 0, x2: WIDTH, y1: y(top), y2: y(top) }),
        h('line', { class: 'grid', x1: 0, x2: WIDTH, y1: y((top + floor) / 2), y2: y((top + floor) / 2) }),
        h('line', { class: 'grid base', x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }),
        series.length === 1 && h('path', { class: 'area s0', d: area(series[0].points, x, y) }),
        series.map((s, i) => h('path', { class: 'line s' + i, d: path(s.points, x, y) }))),
      h('span', { class: 'x-from' }, clock(from)), h('span', { class: 'x-to' }, clock(to))),
    numbers(title, series, show));
}

export function spark(points) {
  const known = points.filter(p => p[1] !== null && p[1] !== undefined);
  if (known.length < 2) return null;
  const from = known[0][0], to = known[known.length - 1][0];
  const low = Math.min(...known.map(p => p[1])), high = Math.max(...known.map(p => p[1]), low + 1e-9);
  return h('svg', { class: 'spark', viewBox: '0 0 100 24', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    h('path', { class: 'line s0', d: path(known, t => (t - from) / Math.max(1, to - from) * 100,
      v => 22 - (v - low) / (high - low) * 20) }));
}
