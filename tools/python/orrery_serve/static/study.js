// The live part of a study: how far it is, how fast it goes, what is best so far.
'use strict';

const place = document.getElementById('study');
const frame = document.querySelector('iframe');
let drawn = '', drawnFor = 0;

function card(label, value, detail) {
  return make('div', {class: 'card'}, make('div', {class: 'label'}, label), make('div', {class: 'value'}, value),
    detail ? make('div', {class: 'detail'}, detail) : null);
}

const whole = (number) => quantityText(number || 0, '');

function leftText(seconds) {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${figures(seconds / 3600)} h`;
}

const SPACE = 'http://www.w3.org/2000/svg';

function svgOf(kind, attributes, ...children) {
  const element = document.createElementNS(SPACE, kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A scale from values to a stretch of the drawing; by ratios where they span many. */
function scaleOf(values, from, to) {
  const low = Math.min(...values), high = Math.max(...values), ratios = low > 0 && high / low > 50;
  const place = ratios ? Math.log : (value) => value, span = place(high) - place(low) || 1;
  return {low, high, ratios, at: (value) => from + (to - from) * (place(value) - place(low)) / span};
}

const LEFT = 90, RIGHT = 990, TOP = 14, BOTTOM = 190;

/** A drawing with its four bounds written at the axes, which have a name and a unit. */
function chart(x, y, axes, ...inside) {
  const lines = [TOP, (TOP + BOTTOM) / 2, BOTTOM].map((at) => svgOf('line', {x1: LEFT, x2: RIGHT, y1: at, y2: at}));
  const label = (text, at, down, anchor) => svgOf('text', {x: at, y: down, 'text-anchor': anchor}, text);
  const axis = (scale, name) => name + (scale.ratios ? ' (log)' : '');
  const [across, up] = axes;
  return svgOf('svg', {class: 'trail', viewBox: '0 0 1000 222'}, ...lines, ...inside,
    label(quantityText(y.high, up.unit), LEFT - 8, TOP + 4, 'end'),
    label(quantityText(y.low, up.unit), LEFT - 8, BOTTOM + 4, 'end'),
    label(quantityText(x.low, across.unit), LEFT, BOTTOM + 18, 'start'),
    label(quantityText(x.high, across.unit), RIGHT, BOTTOM + 18, 'end'),
    label(axis(x, across.name), (LEFT + RIGHT) / 2, BOTTOM + 18, 'middle'),
    label(axis(y, up.name), LEFT, TOP - 5, 'start'));
}

/** The best value so far over the points, as a line of steps. */
function trail(state) {
  const steps = state.trail, first = steps[0][0];
  const x = scaleOf([first, Math.max(state.points, first + 1)], LEFT, RIGHT);
  const y = scaleOf(steps.map(([, value]) => value), BOTTOM, TOP);
  let path = `M ${x.at(first)} ${y.at(steps[0][1])}`;
  for (const [point, value] of steps.slice(1)) path += ` H ${x.at(point)} V ${y.at(value)}`;
  const objective = state.objectives[0];
  return [make('h2', {}, `Best ${objective.name} so far`),
    chart(x, y, [{name: 'points', unit: ''}, objective], svgOf('path', {d: `${path} H ${RIGHT}`}))];
}

/** The points of the front by its first two objectives. */
function front(state) {
  const x = scaleOf(state.front.map((p) => p[0]), LEFT, RIGHT), y = scaleOf(state.front.map((p) => p[1]), BOTTOM, TOP);
  const dots = state.front.map((p) => svgOf('circle', {cx: x.at(p[0]), cy: y.at(p[1]), r: 4}));
  return [make('h2', {}, `Front so far: ${frontSize(state)}`), chart(x, y, state.objectives, ...dots)];
}

/** How many points the front has. */
function frontSize(state) {
  return `${state.front_cut ? 'more than ' : ''}${whole(state.front_points)} points`;
}

function cellText(cell, unit) {
  return typeof cell === 'number' ? quantityText(cell, unit) : shortText(cell).replace('catalog:', '');
}

function best(state) {
  if (!state.best.length) return [make('p', {class: 'note'}, 'No point meets every limit yet.')];
  const heads = state.columns.map((column) => make('th', {class: 'n', title: column.detail || null}, column.name));
  const head = make('tr', {}, make('th', {class: 'text'}, 'Point'), heads, make('th'));
  const start = (id) => '/new?from=' + encodeURIComponent(`point:${facts.name}#${id}`);
  const rows = state.best.map((point) => make('tr', {}, make('td', {class: 'text'}, `#${point.id}`),
    point.cells.map((cell, i) => make('td', {}, cellText(cell, state.columns[i].unit))),
    make('td', {}, facts.readonly ? '' : make('a', {href: start(point.id)}, 'run it …'))));
  const some = state.best.length < state.front_points ? `, ${state.best.length} of them shown` : '';
  return [make('h2', {}, state.objectives.length > 1 ? `${frontSize(state)} of the front${some}` : 'Best'),
    make('div', {class: 'scroll'}, make('table', {}, make('thead', {}, head), make('tbody', {}, rows)))];
}

/** What the report draws better once the study is at rest. */
function drawing(state) {
  if (state.status !== 'running') return [];
  if (state.objectives.length > 1) return state.front.length > 1 ? front(state) : [];
  return state.trail.length > 1 ? trail(state) : [];
}

function draw(state) {
  const share = state.total ? state.points / state.total : state.status === 'complete' ? 1 : null;
  const counts = state.counts;
  const objectives = state.objectives.map((o) => `${o.way} ${o.name}`).join(', ');
  place.replaceChildren(
    make('div', {class: 'row'}, make('h1', {}, state.title || state.study || facts.name), statusMark(state.status)),
    make('p', {class: 'muted'}, `${state.mode} ${state.study}${objectives ? ' · ' + objectives : ''}`),
    meter(share, state.status === 'complete' ? 'over' : ''),
    make('div', {class: 'cards'},
      card('points', whole(state.points), state.total && state.total !== state.points ? `of ${whole(state.total)}` : null),
      card('done', whole(counts.ok)), card('infeasible', whole(counts.infeasible)), card('failed', whole(counts.failed)),
      card('runs', whole(state.runs)),
      state.rate !== null ? card('rate', `${figures(state.rate)}/s`) : null,
      state.left_s !== null ? card('left', leftText(state.left_s)) : null),
    ...(state.reason ? [make('p', {class: 'note bad'}, 'First point without a result: ' + state.reason)] : []),
    ...drawing(state), ...best(state));
}

/** The report, which takes a while to make: at once when nothing changes any more, on demand before. */
function offer(state) {
  const show = () => { frame.hidden = false; frame.src = frame.dataset.src; };
  const tools = document.querySelector('.bar .tools');
  if (state.status === 'running') {
    if (!document.getElementById('draw')) tools.prepend(make('button', {id: 'draw', onclick: show}, 'Report so far'));
  } else if (state.points && drawnFor !== state.points) {
    drawnFor = state.points;
    const button = document.getElementById('draw');
    if (button) button.remove();
    show();
  }
}

let job = null;

/** Says above the study why it does not go on; nothing where it does. */
function refuse(text) {
  const old = document.getElementById('refused');
  if (old && old.textContent === text) return;
  if (old) old.remove();
  if (text) document.querySelector('main').before(make('p', {class: 'note bad', id: 'refused'}, text));
}

/** A button that stops what was started from here, or goes on with what has stopped. */
async function drawDoing(state) {
  if (facts.readonly) return;
  const tools = document.querySelector('.bar .tools'), old = document.getElementById('doing');
  const {jobs} = await ask('jobs');
  job = jobs.findLast((one) => one.out === facts.name) || null;
  const active = job && (job.state === 'queued' || job.state === 'running');
  refuse(job && job.state === 'failed' ? job.lines.join(' ') || 'The run failed.' : '');
  const does = active ? 'Stop' : state.status === 'stopped' ? 'Continue' : '';
  if (old && old.textContent === does) return;
  if (old) old.remove();
  const act = async () => {
    try {
      if (active) await tell('cancel', {id: job.id});
      else await tell('resume', {path: facts.name});
    } catch (error) {
      refuse(error.message);
    }
  };
  if (does) tools.prepend(make('button', {id: 'doing', onclick: act}, does));
}

async function look() {
  let state;
  const begin = performance.now();
  try {
    state = await ask('study?path=' + encodeURIComponent(facts.name));
  } catch (error) {
    if (error instanceof TypeError) throw error;
    place.replaceChildren(make('h1', {}, facts.name), make('p', {class: 'note bad'}, error.message));
    return 5000;
  }
  const text = JSON.stringify(state);
  if (text !== drawn) draw(state);
  drawn = text;
  offer(state);
  await drawDoing(state);
  // A store that takes long to read is asked less often.
  if (state.status === 'running') return Math.max(700, 4 * (performance.now() - begin));
  return state.status === 'complete' ? 15000 : 3000;
}

keepLooking(look);
