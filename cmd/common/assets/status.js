// SPDX-License-Identifier: Apache-2.0
// Text content only, so nothing that arrives can become markup.
'use strict';
const put = (id, text) => { document.getElementById(id).textContent = text; };
const state = (name, text) => {
  document.getElementById('state').className = name;
  put('state', text);
};
const count = (number, one, many) => number.toLocaleString() + ' ' + (number === 1 ? one : many);
const ms = ns => (ns / 1e6).toFixed(2) + ' ms';
const ago = t => {
  const s = Math.floor(t / 1000), m = Math.floor(s / 60), h = Math.floor(m / 60);
  return (h ? h + ' h ' : '') + (m ? m % 60 + ' min ' : '') + s % 60 + ' s';
};
const source = new EventSource('/status/events');
source.addEventListener('status', event => {
  const now = JSON.parse(event.data), loop = now.loop, http = now.http;
  put('uptime', ago(now.uptime_ms));
  put('turns', loop.turns.toLocaleString());
  put('mean', ms(loop.turns ? loop.cpu_ns_total / loop.turns : 0));
  put('longest', ms(loop.cpu_ns_max) + ' CPU\n' + ms(loop.wall_ns_max) + ' wall');
  put('slow', loop.slow_cpu + ' by CPU\n' + loop.slow_wall + ' by wall time');
  put('work', count(loop.timers_fired, 'timer', 'timers') + '\n' +
    count(loop.tasks_run, 'task', 'tasks') + ', ' + count(loop.posts_run, 'post', 'posts'));
  put('requests', count(http.requests, 'request', 'requests') + '\n' +
    count(http.connections, 'connection', 'connections') + ' open');
  state('live', 'live');
});
source.onerror = () => state('lost', 'not connected; these are the last numbers');
