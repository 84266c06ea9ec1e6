// SPDX-License-Identifier: Apache-2.0
// Each Need with what it got, what it lacks and why, in words.
import { h, head, table, badge, note, number, plural, short, cards } from '/assets/kit.js';
import { lines } from '/assets/chart.js';

const operators = { OPERATOR_IN: ' in ', OPERATOR_NOT_IN: ' not in ', OPERATOR_EXISTS: ' is there', OPERATOR_DOES_NOT_EXIST: ' is not there', OPERATOR_SAME: ' the same for all' };
const requirement = r => short(r.key) + (operators[r.operator] || ' ' + r.operator + ' ') + (r.values || []).join(' or ');
const amounts = map => Object.entries(map || {}).map(([k, v]) => short(k) + ' ' + v).join(', ') || '–';

// The chain of reasons, as a sentence with what to do.
export function why(n) {
  const supply = n.matching_supply || {}, lacks = amounts((n.residual_deficit || {}).resources);
  const more = supply.capped ? 'more than ' : '';
  if (n.satisfied) {
    const coming = n.bootstrap_count + n.provision_count;
    return coming ? 'Served; ' + plural(coming, 'machine is', 'machines are') + ' on the way.' : 'Served.';
  }
  const counts = more + plural((supply.idle || 0) + (supply.configured || 0) + (supply.speculative || 0), 'machine fits', 'machines fit')
    + ' (' + number(supply.idle || 0) + ' idle, ' + number(supply.speculative || 0) + ' to be had, ' + number(supply.configured || 0) + ' in use)';
  const reasons = {
    UNMET_REASON_PRIORITY_STARVED: 'Lacks ' + lacks + ': ' + counts + ', but more important Needs have them. Raise its priority, or add machines.',
    UNMET_REASON_NO_MATCHING_SUPPLY: 'Lacks ' + lacks + ': no machine of this shape exists here. Raise the quota, or ask for another shape.',
    UNMET_REASON_TOPOLOGY_UNSATISFIABLE: 'Lacks ' + lacks + ': it wants everything in one domain, and none can hold it. Make the group smaller, or a domain larger.',
    UNMET_REASON_PREEMPTION_EXHAUSTED: 'Lacks ' + lacks + ': machines are being taken from less important Needs, and it still is not enough.',
  };
  let text = n.sold_out ? 'Lacks ' + lacks + ': ' + n.sold_out + '. Raise the quota, or allow other types.' : reasons[n.unmet_reason] || 'Lacks ' + lacks + '; ' + counts + '.';
  if (n.bootstrap_count + n.provision_count) text += ' ' + plural(n.bootstrap_count + n.provision_count, 'machine is', 'machines are') + ' on the way.';
  if (n.acquisition_parked) text += ' It is parked: not tried in every cycle, for ' + plural(n.parked_age_cycles, 'cycle', 'cycles') + ' now.';
  return text;
}

export function view(state) {
  const shards = state.needs.shards || [];
  const all = shards.flatMap(s => ((s.said || {}).needs || []).map(n => ({ ...n, shard: s.shard_id })));
  const text = (state.ask.text || '').toLowerCase(), unmetOnly = state.ask.unmet === 'yes';
  const unmet = all.filter(n => !n.satisfied);
  const found = all.filter(n => (!unmetOnly || !n.satisfied) && (!text || JSON.stringify([n.cluster_id, n.shard, n.need.requirements, n.unmet_reason, n.need.aggregate_resources]).toLowerCase().includes(text)));
  const total = shards.reduce((sum, s) => sum + ((s.said || {}).total_needs || 0), 0);
  return [
    head('Needs', !all.length ? 'No Need is known yet.' : unmet.length ? number(unmet.length) + ' of ' + plural(total, 'Need lacks', 'Needs lack') + ' something; the reasons are below.'
      : 'All ' + plural(total, 'Need is', 'Needs are') + ' served.'),
    shards.filter(s => s.why).map(s => note(s.shard_id + ' does not answer (' + s.why + '); its last answer is shown.', 'warn')),
    cards([
      { name: 'Needs', value: number(total) },
      { name: 'That lack something', value: number(unmet.length), tone: unmet.length ? 'warn' : 'good' },
      { name: 'Machines that serve them', value: number(all.reduce((s, n) => s + n.claimed_machine_count, 0)) },
      { name: 'On the way', value: number(all.reduce((s, n) => s + n.bootstrap_count + n.provision_count, 0)) },
    ]),
    lines('Needs over time', [{ name: 'all', points: state.series('needs') }, { name: 'lacking', points: state.series('unmet') }], { format: number }),
    h('div', { class: 'tools' },
      h('label', {}, 'Filter ', h('input', { type: 'search', 'data-ask': 'text', value: state.ask.text || '', placeholder: 'cluster, zone, gpu…' })),
      h('label', {}, h('input', { type: 'checkbox', 'data-ask': 'unmet', checked: unmetOnly }), 'only those that lack something'),
      h('span', { class: 'fine' }, number(found.length) + ' of ' + number(all.length))),
    table('Needs', [
      { name: 'Cluster', get: n => [n.cluster_id, h('div', { class: 'fine' }, n.shard)] },
      { name: 'Priority', num: true, get: n => number(n.need.priority) },
      { name: 'Wants', get: n => [amounts(n.need.aggregate_resources), h('div', { class: 'fine' }, n.need.requirements.length ? n.need.requirements.map(requirement).join('; ') : 'any machine')] },
      { name: 'Has', num: true, get: n => number(n.claimed_machine_count) },
      { name: 'Coming', num: true, get: n => number(n.bootstrap_count + n.provision_count) },
      { name: 'State', get: n => n.satisfied ? badge('served', 'good') : badge('lacking', 'warn') },
      { name: 'Why', get: n => h('div', { class: 'wide' }, why(n), !n.satisfied && n.age_cycles_unmet > 0 && h('div', { class: 'fine' }, 'for ' + plural(n.age_cycles_unmet, 'cycle', 'cycles')),
        n.same_candidates && n.same_candidates.length > 0 && h('details', {}, h('summary', { class: 'fine' }, plural(n.same_candidates.length, 'domain was', 'domains were') + ' looked at'),
          n.same_candidates.map(c => h('div', { class: 'fine' }, c.domain + ': ' + (c.coverage_per_mille / 10) + ' % of it' + (c.satisfiable ? '' : ', not enough'))))) },
    ], found.slice(0, 500), { empty: all.length ? 'No Need matches.' : 'No operator has sent a shard the needs of its cluster.',
      key: n => n.shard + n.cluster_id + n.profile_fingerprint }),
  ];
}
