// Runs side by side: figures first those that people ask for, then all; and where the configs differ.
'use strict';

const FIRST = ['status', 'ttft_s.p50', 'ttft_s.p99', 'tbt_s.p50', 'tbt_s.p99', 'e2e_s.p99', 'queueing_s.p99',
  'slo.attainment', 'slo.goodput_per_s', 'throughput.requests_per_s', 'throughput.output_tokens_per_s', 'utilisation.mfu',
  'utilisation.busy', 'energy_j.total', 'energy_per_output_token_j', 'memory_bytes.peak', 'makespan_s', 'simulated_s',
  'requests.completed', 'requests.rejected'];
const LESS = /^(ttft|tbt|tpot|e2e|queueing|normalised_latency)_s|makespan_s|energy|bytes\.peak|rejected|preempt|iteration_s|step_s/;
const SAME = 1e-3;  // a change that is smaller is neither better nor worse
const place = document.getElementById('compare');

/** Whether less of it is better (true), more (false), or neither (null). */
function lessIsBetter(path) {
  if (LESS.test(path)) return true;
  return /attainment|per_s$|mfu|mbu|completed/.test(path) ? false : null;
}

function valueCell(row, i) {
  const value = row.values[i], base = row.values[0];
  if (typeof value !== 'number') return make('td', {class: value === null ? 'none' : ''}, shortText(value));
  let kind = '', note = null;
  if (i > 0 && typeof base === 'number' && value !== base) {
    const less = lessIsBetter(row.path);
    if (less !== null && Math.abs(value / base - 1) > SAME) kind = (value < base) === less ? 'better' : 'worse';
    if (base !== 0) {
      const change = 100 * (value / base - 1);
      note = make('small', {}, Math.abs(change) >= 1000 ? `x ${figures(value / base)}` :
        `${change > 0 ? '+' : '−'}${figures(Math.abs(change))} %`);
    }
  }
  return make('td', {class: kind, title: String(value)}, quantityText(value, row.unit), note ? ' ' : '', note || '');
}

function tableOf(runs, rows, cell, id) {
  const names = runs.map((name) => make('th', {}, make('a', {href: address('run', name)}, name)));
  const body = rows.map((row) => make('tr', {'data-path': row.path}, make('td', {class: 'text'}, row.path),
    runs.map((_, i) => cell(row, i))));
  return make('div', {class: 'scroll'}, make('table', {id},
    make('thead', {}, make('tr', {}, make('th', {class: 'text'}, ''), names)), make('tbody', {}, body)));
}

function folded(title, table, count) {
  return make('details', {class: 'group'}, make('summary', {}, title, make('small', {}, String(count))), table);
}

async function show() {
  try {
    const {runs, figures: all, config} = await ask('compare?' + facts.query);
    const first = FIRST.map((path) => all.find((row) => row.path === path)).filter(Boolean);
    const rest = all.filter((row) => !FIRST.includes(row.path) && row.values.some((v) => v !== row.values[0]));
    // The parameters of a policy that only one run has say less than that the policies differ.
    const common = config.filter((row) => row.values.every((value) => value !== null));
    const others = config.filter((row) => !common.includes(row));
    const plain = (row, i) => make('td', {}, shortText(row.values[i]));
    place.replaceChildren(
      make('h1', {}, `${runs.length} runs side by side`),
      make('p', {class: 'muted'}, 'Changes are against the first column. Green is better, brown is worse.'),
      make('h2', {}, config.length ? 'Where the configs differ' : 'The configs do not differ'),
      config.length ? tableOf(runs, common, plain, 'config') : '',
      others.length ? folded('Entries that only some runs have', tableOf(runs, others, plain, 'others'), others.length) : '',
      make('h2', {}, 'Key figures'), tableOf(runs, first, valueCell, 'first'),
      facts.more ? folded('Other figures that differ', tableOf(runs, rest, valueCell, 'rest'), rest.length) : '');
  } catch (error) {
    place.replaceChildren(make('p', {class: 'note bad'}, error.message));
  }
}

show();
