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
  {key: 'tokens_per_s', label: 'Tokens/s', unit: '', down: true, title: 'Output tokens per second'},
  {key: 'slo', label: 'SLO', unit: '%', down: true, title: 'Share of requests that attain their SLO'},
  {key: 'energy_j', label: 'Energy', unit: 'J'},
  {key: 'time_s', label: 'Time', unit: 's', title: 'P99 end-to-end latency, makespan or step time'},
  {key: 'status', label: 'Status', kind: 'text'},
  {key: 'changed', label: 'When', unit: 'when', down: true},
];
const STUDIES = [
  {kind: 'tick'},
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
const NAMES = {ttft: 'ttft_p99_s', tbt: 'tbt_p99_s', tokens: 'tokens_per_s', throughput: 'tokens_per_s', slo: 'slo',
  energy: 'energy_j', time: 'time_s', points: 'points', ok: 'ok', failed: 'failed', wall: 'wall_s'};
const CHOICES = {runs: ['system', 'model', 'device', 'policy', 'status'], studies: ['mode', 'status'], jobs: []};
const WORDS = ['path', 'title', 'system', 'model', 'device', 'policy', 'status', 'study', 'mode', 'objectives'];

const known = {runs: new Map(), studies: new Map()};
const ticked = {runs: new Set(), studies: new Set()};
const newest = () => ({key: 'changed', down: true});
const view = {tab: 'runs', text: '', choice: {}, order: {runs: newest(), studies: newest()}};
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
  if (order && (order.key !== 'changed' || !order.down)) {
    query.set('sort', order.key);
    query.set('down', order.down ? '1' : '0');
  }
  history.replaceState(null, '', query.size ? '#' + query : location.pathname);
}

function figureCell(value, unit) {
  if (value === null || value === undefined) return make('td', {class: 'none'}, '–');
  if (unit === 'when')
    return make('td', {class: 'when', title: new Date(value * 1000).toLocaleString()}, since(value));
  const [text, name] = quantity(value, unit);
  return make('td', {class: 'n', title: String(value)}, text, name ? make('span', {class: 'unit'}, name) : null);
}

function nameCell(area, row) {
  const at = row.path.lastIndexOf('/') + 1;
  const note = row.title || (row.status === 'broken' || row.status === 'infeasible' ? row.reason : '');
  const link = make('a', {href: address(area, row.path)}, make('i', {}, row.path.slice(0, at)), row.path.slice(at));
  return make('td', {class: 'text name'}, link, note ? make('small', {}, note) : null);
}

function tickCell(row) {
  const box = make('input', {type: 'checkbox', 'aria-label': 'Tick ' + row.path,
    onchange: (event) => tick(row.path, event.target.checked)});
  box.checked = ticked[view.tab].has(row.path);
  return make('td', {class: 'tick'}, box);
}

/** The cells of a row of runs or of studies. */
function cellsOf(columns, area) {
  return (row) => columns.map((column) => {
    const value = row[column.key];
    if (column.kind === 'tick') return tickCell(row);
    if (column.key === 'path') return nameCell(area, row);
    if (column.key === 'status') return make('td', {class: 'text'}, statusMark(row.status, row.reason));
    if (column.key === 'points' && row.total && row.total !== row.points)
      return make('td', {class: 'n'}, `${shortText(row.points)} of ${shortText(row.total)}`);
    return column.kind === 'text' ? make('td', {class: 'text', title: value || null}, value || '') :
      figureCell(value, column.unit);
  });
}

/** Ticks a row, and shows what can be done with all that are ticked. */
function tick(path, on) {
  const chosen = ticked[view.tab];
  if (path && on) chosen.add(path); else chosen.delete(path);
  const place = document.getElementById('picked'), names = [...chosen], runs = view.tab === 'runs';
  place.hidden = names.length === 0;
  const query = names.map((name) => (runs ? 'run=' : 'study=') + encodeURIComponent(name)).join('&');
  const most = runs ? 12 : 6;
  const compare = names.length < 2 ? null : names.length > most ? make('span', {}, `${most} at most can be compared`) :
    make('a', {class: 'button', id: 'go-compare', href: '/compare?' + query}, 'Compare');
  const start = names.length === 1 && runs && !facts.readonly ?
    make('a', {class: 'button', href: '/new?from=' + encodeURIComponent('run:' + names[0])}, 'What if …') : null;
  const clear = make('button', {class: 'quiet', onclick: () => { chosen.clear(); tick('', false); draw(); }}, 'Clear');
  place.replaceChildren(make('span', {}, `${names.length} ticked`), ...[compare, start, clear].filter(Boolean));
}

/** A select of the values that occur, most frequent first; null where there is nothing to choose. */
function choiceOf(key) {
  const counts = new Map();
  for (const row of known[view.tab].values()) if (row[key]) counts.set(row[key], (counts.get(row[key]) || 0) + 1);
  if (counts.size < 2 && !view.choice[key]) return null;
  const values = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a) || a.localeCompare(b)).slice(0, 200);
  const choose = (event) => {
    if (event.target.value) view.choice[key] = event.target.value; else delete view.choice[key];
    draw();
  };
  const options = values.map((value) => make('option', {value}, value));
  const select = make('select', {'data-choice': key, 'aria-label': key, class: view.choice[key] ? 'on' : null,
    onchange: choose}, make('option', {value: ''}, `any ${key}`), options);
  select.value = view.choice[key] || '';
  return select;
}

function drawJobs() {
  if (!jobs.length) {
    listing.replaceChildren(make('p', {class: 'empty'}, 'Nothing has been started from here yet.'));
    return;
  }
  const heads = ['Run', 'State', 'Progress', 'Left'].map((name, i) => make('th', {class: i < 3 ? 'text' : null}, name));
  const rows = jobs.slice().reverse().map((job) => {
    const running = job.state === 'running';
    const state = job.state === 'done' && job.status !== 'ok' ? job.status : job.state;
    return make('tr', {}, make('td', {class: 'text name'}, make('a', {href: '/job/' + job.id}, job.name)),
      make('td', {class: 'text'}, statusMark(state)),
      make('td', {class: 'text'}, running ? meter(job.share) : '',
        make('div', {class: 'muted'}, running ? job.text : job.lines.at(-1) || '')),
      make('td', {class: 'n'}, running ? job.left : ''));
  });
  listing.replaceChildren(make('table', {}, make('thead', {}, make('tr', {}, heads)), make('tbody', {}, rows)));
}

const EMPTY = {runs: 'No runs in this folder yet: `orrery run CONFIG --out FOLDER/NAME` makes one.',
  studies: 'No studies in this folder yet: `orrery sweep STUDY --out FOLDER/NAME.sqlite` makes one.'};

function drawTabs() {
  const active = jobs.filter((job) => job.state === 'running' || job.state === 'queued').length;
  for (const button of document.querySelectorAll('.tabs button')) {
    const tab = button.dataset.tab;
    button.setAttribute('aria-selected', String(tab === view.tab));
    button.hidden = tab === 'jobs' && facts.readonly;
    button.querySelector('small').textContent = tab !== 'jobs' ? known[tab].size.toLocaleString('en') :
      active ? `${active} under way` : jobs.length || '';
  }
}

/** The rows that are asked for; says how many of all. */
function chosenRows() {
  const rows = [...known[view.tab].values()], test = filterOf(view.text, NAMES), choice = Object.entries(view.choice);
  const found = rows.filter((row) => test(row) && choice.every(([key, value]) => row[key] === value));
  const part = `${found.length.toLocaleString('en')} of ${rows.length.toLocaleString('en')}`;
  document.getElementById('count').textContent = (reading ? 'reading … ' : '') +
    (found.length === rows.length ? '' : part) + (truncated ? ' (the folder has more)' : '');
  return found;
}

/** Draws what the view asks for; `fresh`: the view is the same, the rows are new. */
function draw(fresh = false) {
  writeAddress();
  drawTabs();
  document.querySelector('.filters').hidden = view.tab === 'jobs';
  if (view.tab === 'jobs') { table = null; drawJobs(); return; }
  document.getElementById('choices').replaceChildren(
    ...CHOICES[view.tab].map(choiceOf).filter(Boolean).flatMap((select) => [select, ' ']));
  const found = chosenRows();
  if (!known[view.tab].size) {
    table = null;
    listing.replaceChildren(make('p', {class: 'empty'}, reading ? 'Reading the folder …' : EMPTY[view.tab]));
    return;
  }
  if (!table || table.tab !== view.tab) {
    const runs = view.tab === 'runs', columns = runs ? RUNS : STUDIES;
    table = new Table(listing, columns, cellsOf(columns, runs ? 'run' : 'study'), view.order[view.tab]);
    table.tab = view.tab;
    table.sorted = () => { view.order[view.tab] = table.order; writeAddress(); };
    tick('', false);
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
    for (const row of rows.values())
      row.words = row.words || WORDS.map((key) => row[key] || '').join(' ').toLowerCase();
  for (const name of answer.gone)
    for (const names of [known.runs, known.studies, ticked.runs, ticked.studies]) names.delete(name);
  const changed = answer.version !== version || answer.reading !== reading ||
    JSON.stringify(answer.jobs) !== JSON.stringify(jobs);
  ({version, reading, truncated, jobs} = answer);
  return changed;
}

async function look() {
  const first = version === 0;
  if (take(await ask('index?since=' + version)) || first) draw(!first);
  document.getElementById('fresh').textContent = reading ? 'reading …' : 'live';
  if (reading || jobs.some((job) => job.state === 'running')) return 500;
  return [...known.studies.values()].some((row) => row.status === 'running') ? 1000 : 2000;
}

readAddress();
const search = document.getElementById('search');
search.value = view.text;
search.addEventListener('input', () => { view.text = search.value; draw(); });
for (const button of document.querySelectorAll('.tabs button'))
  button.addEventListener('click', () => { view.tab = button.dataset.tab; view.choice = {}; draw(); tick('', false); });
window.addEventListener('hashchange', () => { readAddress(); search.value = view.text; draw(); });
keepLooking(look);
