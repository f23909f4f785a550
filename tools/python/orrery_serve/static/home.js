// The first page: runs, studies and what was started from here, brought up to date every other second.
'use strict';

const RUNS = [
  {kind: 'tick'},
  {key: 'path', label: 'Run', kind: 'text'},
  {key: 'system', label: 'System', kind: 'text'},
  {key: 'model', label: 'Model', kind: 'text'},
  {key: 'device', label: 'Devices', kind: 'text'},
  {key: 'policy', label: 'Policies', kind: 'text'},
  {key: 'ttft_p99_s', label: 'P99 TTFT', unit: 's'},
  {key: 'tbt_p99_s', label: 'P99 TBT', unit: 's'},
  {key: 'tokens_per_s', label: 'Tokens/s', unit: '', down: true, title: 'Output tokens a second'},
  {key: 'slo', label: 'SLO', unit: '%', down: true, title: 'Share of requests that attain their SLO'},
  {key: 'energy_j', label: 'Energy', unit: 'J'},
  {key: 'time_s', label: 'Time', unit: 's', title: 'P99 end to end, or makespan, or time of a step'},
  {key: 'status', label: 'Status', kind: 'text'},
  {key: 'changed', label: 'When', unit: 'when', down: true},
];
const STUDIES = [
  {key: 'path', label: 'Study', kind: 'text'},
  {key: 'mode', label: 'Mode', kind: 'text'},
  {key: 'points', label: 'Points', unit: '', down: true},
  {key: 'ok', label: 'Ok', unit: '', down: true},
  {key: 'infeasible', label: 'Infeasible', unit: '', down: true},
  {key: 'failed', label: 'Failed', unit: '', down: true},
  {key: 'objectives', label: 'Objectives', kind: 'text'},
  {key: 'best', label: 'Best', kind: 'text'},
  {key: 'status', label: 'Status', kind: 'text'},
  {key: 'changed', label: 'When', unit: 'when', down: true},
];
const NAMES = {ttft: 'ttft_p99_s', tbt: 'tbt_p99_s', tokens: 'tokens_per_s', throughput: 'tokens_per_s', slo: 'slo', energy: 'energy_j',
  time: 'time_s', points: 'points', ok: 'ok', failed: 'failed', wall: 'wall_s'};
const CHOICES = {runs: ['system', 'model', 'device', 'policy', 'status'], studies: ['mode', 'status'], jobs: []};
const WORDS = ['path', 'title', 'system', 'model', 'device', 'policy', 'status', 'study', 'mode', 'objectives'];

const known = {runs: new Map(), studies: new Map()};
const ticked = new Set();
const view = {tab: 'runs', text: '', choice: {}, order: {runs: {key: 'changed', down: true}, studies: {key: 'changed', down: true}}};
const listing = document.getElementById('listing');
let version = 0, table = null, jobs = [], reading = true, truncated = false;

/** The view stands in the address, so that it can be kept and comes back with the browser's button. */
function readAddress() {
  const query = new URLSearchParams(location.hash.slice(1));
  view.tab = CHOICES[query.get('tab')] ? query.get('tab') : 'runs';
  view.text = query.get('q') || '';
  view.choice = {};
  for (const key of CHOICES[view.tab]) if (query.get(key)) view.choice[key] = query.get(key);
  const columns = view.tab === 'studies' ? STUDIES : RUNS;
  if (view.tab !== 'jobs' && columns.some((c) => c.key === query.get('sort')))
    view.order[view.tab] = {key: query.get('sort'), down: query.get('down') === '1'};
}

function writeAddress() {
  const query = new URLSearchParams();
  if (view.tab !== 'runs') query.set('tab', view.tab);
  if (view.text) query.set('q', view.text);
  for (const [key, value] of Object.entries(view.choice)) query.set(key, value);
  const order = view.order[view.tab];
  if (order && (order.key !== 'changed' || !order.down)) { query.set('sort', order.key); query.set('down', order.down ? '1' : '0'); }
  history.replaceState(null, '', query.size ? '#' + query : location.pathname);
}

function figureCell(value, unit) {
  if (value === null || value === undefined) return make('td', {class: 'none'}, '–');
  if (unit === 'when') return make('td', {class: 'when', title: new Date(value * 1000).toLocaleString()}, since(value));
  const [text, name] = quantity(value, unit);
  return make('td', {class: 'n', title: String(value)}, text, name ? make('span', {class: 'unit'}, name) : null);
}

function nameCell(area, row) {
  const at = row.path.lastIndexOf('/') + 1;
  const note = row.title || (row.status === 'broken' || row.status === 'infeasible' ? row.reason : '');
  return make('td', {class: 'text name'},
    make('a', {href: address(area, row.path)}, make('i', {}, row.path.slice(0, at)), row.path.slice(at)), note ? make('small', {}, note) : null);
}

function runCells(row) {
  const box = make('input', {type: 'checkbox', 'aria-label': 'Tick ' + row.path, onchange: (event) => tick(row.path, event.target.checked)});
  box.checked = ticked.has(row.path);
  return RUNS.map((column) => {
    if (column.kind === 'tick') return make('td', {class: 'tick'}, box);
    if (column.key === 'path') return nameCell('run', row);
    if (column.key === 'status') return make('td', {class: 'text'}, statusMark(row.status, row.reason));
    return column.kind === 'text' ? make('td', {class: 'text'}, row[column.key] || '') : figureCell(row[column.key], column.unit);
  });
}

function studyCells(row) {
  return STUDIES.map((column) => {
    if (column.key === 'path') return nameCell('study', row);
    if (column.key === 'status') return make('td', {class: 'text'}, statusMark(row.status, row.reason));
    if (column.key === 'points' && row.total && row.total !== row.points)
      return make('td', {class: 'n'}, `${shortText(row.points)} of ${shortText(row.total)}`);
    return column.kind === 'text' ? make('td', {class: 'text'}, row[column.key] || '') : figureCell(row[column.key], column.unit);
  });
}

function tick(path, on) {
  if (on) ticked.add(path); else ticked.delete(path);
  const place = document.getElementById('picked'), names = [...ticked];
  place.hidden = names.length === 0;
  const query = names.map((name) => 'run=' + encodeURIComponent(name)).join('&');
  place.replaceChildren(make('span', {}, `${names.length} ticked`),
    names.length > 1 && names.length <= 12 ? make('a', {class: 'button', id: 'go-compare', href: '/compare?' + query}, 'Compare')
      : make('span', {class: 'muted'}, names.length > 1 ? 'twelve at most' : ''),
    names.length === 1 && !facts.readonly ? make('a', {class: 'button', href: '/new?from=' + encodeURIComponent('run:' + names[0])}, 'What if …') : null,
    make('button', {class: 'quiet', onclick: () => { ticked.clear(); tick('', false); draw(); }}, 'Clear'));
}

/** Selects of the values that occur, most frequent first. */
function drawChoices() {
  const place = document.getElementById('choices');
  const selects = CHOICES[view.tab].map((key) => {
    const counts = new Map();
    for (const row of known[view.tab].values()) if (row[key]) counts.set(row[key], (counts.get(row[key]) || 0) + 1);
    if (counts.size < 2 && !view.choice[key]) return null;
    const values = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a) || a.localeCompare(b)).slice(0, 200);
    const select = make('select', {'data-choice': key, 'aria-label': key, class: view.choice[key] ? 'on' : null, onchange: (event) => {
      if (event.target.value) view.choice[key] = event.target.value; else delete view.choice[key];
      draw();
    }}, make('option', {value: ''}, `any ${key}`), values.map((value) => make('option', {value}, value)));
    select.value = view.choice[key] || '';
    return select;
  });
  place.replaceChildren(...selects.filter(Boolean).flatMap((s) => [s, ' ']));
}

function drawJobs() {
  if (!jobs.length) {
    listing.replaceChildren(make('p', {class: 'empty'}, 'Nothing was started from here yet.'));
    return;
  }
  listing.replaceChildren(make('table', {}, make('thead', {}, make('tr', {}, make('th', {class: 'text'}, 'Run'), make('th', {class: 'text'}, 'State'),
    make('th', {class: 'text'}, 'Progress'), make('th', {}, 'Left'))),
  make('tbody', {}, jobs.slice().reverse().map((job) => make('tr', {},
    make('td', {class: 'text name'}, make('a', {href: '/job/' + job.id}, job.name)), make('td', {class: 'text'}, statusMark(job.state)),
    make('td', {class: 'text'}, job.state === 'running' ? meter(job.share) : '', make('small', {class: 'muted'}, job.text || job.lines.at(-1) || '')),
    make('td', {class: 'n'}, job.state === 'running' ? job.left : ''))))));
}

function draw(fresh = false) {
  writeAddress();
  for (const button of document.querySelectorAll('.tabs button')) {
    const tab = button.dataset.tab;
    button.setAttribute('aria-selected', String(tab === view.tab));
    const active = jobs.filter((job) => job.state === 'running' || job.state === 'queued').length;
    button.querySelector('small').textContent = tab === 'jobs' ? (jobs.length ? (active ? `${active} under way` : jobs.length) : '') : known[tab].size.toLocaleString('en');
    if (tab === 'jobs') button.hidden = facts.readonly;
  }
  document.querySelector('.filters').hidden = view.tab === 'jobs';
  if (view.tab === 'jobs') { table = null; drawJobs(); return; }
  drawChoices();
  const rows = [...known[view.tab].values()];
  const test = filterOf(view.text, NAMES);
  const found = rows.filter((row) => test(row) && Object.entries(view.choice).every(([key, value]) => row[key] === value));
  const told = found.length === rows.length ? '' : `${found.length.toLocaleString('en')} of ${rows.length.toLocaleString('en')}`;
  document.getElementById('count').textContent = (reading ? 'reading … ' : '') + told + (truncated ? ' (the folder has more)' : '');
  if (!rows.length) {
    table = null;
    listing.replaceChildren(make('p', {class: 'empty'}, reading ? 'Reading the folder …' : view.tab === 'runs' ?
      'No runs in this folder yet: `orrery run CONFIG --out FOLDER/NAME` makes one.' : 'No studies in this folder yet: `orrery sweep STUDY --out FOLDER/NAME.sqlite` makes one.'));
    return;
  }
  if (!table || table.tab !== view.tab) {
    table = view.tab === 'runs' ? new Table(listing, RUNS, runCells, view.order.runs) : new Table(listing, STUDIES, studyCells, view.order.studies);
    table.tab = view.tab;
    table.sorted = () => { view.order[view.tab] = table.order; writeAddress(); };
  }
  const place = listing.scrollTop;
  table.order = view.order[view.tab];
  table.draw(found, fresh ? table.shown : 0);
  listing.scrollTop = fresh ? place : 0;
}

/** Takes what has changed; true if anything has. */
function take(answer) {
  for (const cells of answer.runs) {
    const row = Object.fromEntries(answer.columns.map((name, i) => [name, cells[i]]));
    known.runs.set(row.path, row);
  }
  for (const row of answer.studies) known.studies.set(row.path, row);
  for (const rows of Object.values(known))
    for (const row of rows.values()) row.words = row.words || WORDS.map((key) => row[key] || '').join(' ').toLowerCase();
  for (const name of answer.gone) { known.runs.delete(name); known.studies.delete(name); ticked.delete(name); }
  const changed = answer.version !== version || answer.reading !== reading || JSON.stringify(answer.jobs) !== JSON.stringify(jobs);
  ({version, reading, truncated, jobs} = answer);
  return changed;
}

async function look() {
  const first = version === 0;
  if (take(await ask('index?since=' + version)) || first) draw(!first);
  document.getElementById('fresh').textContent = reading ? 'reading …' : 'live';
  const busy = reading || jobs.some((job) => job.state === 'running');
  return busy ? 500 : 2000;
}

readAddress();
const search = document.getElementById('search');
search.value = view.text;
search.addEventListener('input', () => { view.text = search.value; draw(); });
for (const button of document.querySelectorAll('.tabs button'))
  button.addEventListener('click', () => { view.tab = button.dataset.tab; view.choice = {}; draw(); });
window.addEventListener('hashchange', () => { readAddress(); search.value = view.text; draw(); });
keepLooking(look);
