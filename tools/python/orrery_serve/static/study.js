// The live part of a study: how far it is, how fast it goes, what is best so far.
'use strict';

const place = document.getElementById('study');
const frame = document.querySelector('iframe');
let drawn = '';

function card(label, value) {
  return make('div', {class: 'card'}, make('div', {class: 'label'}, label), make('div', {class: 'value'}, value));
}

function leftText(seconds) {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${figures(seconds / 3600)} h`;
}

/** The best value so far over the points, as a line of steps. */
function trail(state) {
  const steps = state.trail, last = Math.max(state.points, 2), space = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(space, 'svg');
  svg.setAttribute('class', 'trail');
  svg.setAttribute('viewBox', '0 0 1000 190');
  svg.setAttribute('preserveAspectRatio', 'none');
  const add = (tag, attributes) => {
    const element = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    svg.append(element);
  };
  const values = steps.map(([, value]) => value), low = Math.min(...values), high = Math.max(...values), span = high - low || 1;
  const x = (point) => 4 + 992 * (point - 1) / (last - 1), y = (value) => 178 - 166 * (value - low) / span;
  for (const at of [12, 95, 178]) add('line', {x1: 0, x2: 1000, y1: at, y2: at, 'vector-effect': 'non-scaling-stroke'});
  let path = `M ${x(steps[0][0])} ${y(steps[0][1])}`;
  for (const [point, value] of steps.slice(1)) path += ` H ${x(point)} V ${y(value)}`;
  add('path', {d: path + ` H ${x(last)}`, 'vector-effect': 'non-scaling-stroke'});
  return [make('h2', {}, `Best ${state.objectives[0].name} so far`), svg,
    make('div', {class: 'row muted'}, make('span', {}, `from ${figures(steps[0][1])} to ${figures(steps.at(-1)[1])} over ${state.points.toLocaleString('en')} points`))];
}

function best(state) {
  if (!state.best.length) return [make('p', {class: 'note'}, 'No point meets every limit yet.')];
  const head = make('tr', {}, make('th', {class: 'text'}, 'Point'), state.columns.map((c) => make('th', {class: 'n', title: c.detail || null}, c.name)), make('th'));
  const rows = state.best.map((point) => make('tr', {}, make('td', {class: 'text'}, `#${point.id}`),
    point.cells.map((cell) => make('td', {}, shortText(cell).replace('catalog:', ''))),
    make('td', {}, facts.readonly ? '' : make('a', {href: '/new?from=' + encodeURIComponent(`point:${facts.name}#${point.id}`)}, 'run it …'))));
  return [make('h2', {}, state.objectives.length > 1 ? 'Front so far' : 'Best so far'),
    make('div', {class: 'scroll'}, make('table', {}, make('thead', {}, head), make('tbody', {}, rows)))];
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
      card('points', state.points.toLocaleString('en') + (state.total && state.total !== state.points ? ` of ${state.total.toLocaleString('en')}` : '')),
      card('done', (counts.ok || 0).toLocaleString('en')), card('infeasible', (counts.infeasible || 0).toLocaleString('en')),
      card('failed', (counts.failed || 0).toLocaleString('en')), card('runs', state.runs.toLocaleString('en')),
      state.rate !== null ? card('rate', `${figures(state.rate)}/s`) : null,
      state.left_s !== null ? card('left', leftText(state.left_s)) : null),
    ...(state.reason ? [make('p', {class: 'note bad'}, 'The first point without a result: ' + state.reason)] : []),
    ...(state.trail.length > 1 ? trail(state) : []), ...best(state));
}

async function look() {
  let state;
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
  if (facts.report && state.points && frame.hidden && state.status !== 'running') {
    frame.hidden = false;
    frame.src = frame.dataset.src;
  }
  return state.status === 'running' ? 700 : state.status === 'complete' ? 15000 : 3000;
}

keepLooking(look);
