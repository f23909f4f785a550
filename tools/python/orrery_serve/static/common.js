// What all pages share: facts of the page, requests, numbers as people read them.
'use strict';

const facts = JSON.parse(document.querySelector('meta[name="facts"]').content);

/** An element with attributes and children; texts are never read as HTML. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** An address below `area` for a name with slashes. */
function address(area, name) {
  return `/${area}/` + name.split('/').map(encodeURIComponent).join('/');
}

/** What an address of the data answers; throws an Error with the server's reason. */
async function ask(path) {
  return answer(await fetch('/api/' + path));
}

/** Sends a document and gives the answer; throws an Error with the server's reason. */
async function tell(path, document) {
  const headers = {'Content-Type': 'application/json', 'X-Orrery-Token': facts.token};
  return answer(await fetch('/api/' + path, {method: 'POST', headers, body: JSON.stringify(document)}));
}

async function answer(response) {
  const document = await response.json();
  if (!response.ok) throw new Error(document.error || response.statusText);
  return document;
}

/** Calls `look` again and again while the page is seen; `look` gives the pause in ms, or 0 to end. */
function keepLooking(look, otherwise = 3000) {
  let timer = 0, ended = false, busy = false;
  async function turn() {
    if (busy) return;  // the page was hidden and seen again meanwhile: one chain of looks is enough
    busy = true;
    let pause = otherwise;
    if (!document.hidden) {
      try { pause = await look(); } catch (error) { lost(error); }
    }
    busy = false;
    if (pause === 0) ended = true;
    else timer = setTimeout(turn, pause);
  }
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && !ended) { clearTimeout(timer); turn(); }
  });
  turn();
}

function lost(error) {
  const place = document.getElementById('fresh');
  if (place) place.textContent = error instanceof TypeError ? 'the server has stopped' : error.message;
}

/** Three figures: 0.0123, 1.23, 123, 12,345. */
function figures(value) {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(3)));
}

/** Number and unit of a quantity: [value, unit]; `facts.units` has the prefixes, as orrery_plot/units.py makes them. */
function quantity(value, unit) {
  if (unit === '%') return [figures(value * 100), '%'];
  const size = Number(Math.abs(value).toPrecision(3));
  const [, factor, name] = (facts.units[unit] || facts.units['']).find(([least, factor]) => (size ? size >= least : factor === 1));
  return [factor === 1 && Number.isInteger(value) ? value.toLocaleString('en') : figures(value * factor), name];
}

function quantityText(value, unit) {
  return quantity(value, unit).join(' ').trim();
}

/** A value of any kind in a few characters. */
function shortText(value) {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'number') return quantityText(value, '');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function since(seconds) {
  const age = Date.now() / 1000 - seconds;
  if (age < 60) return 'just now';
  if (age < 3600) return `${Math.floor(age / 60)} min ago`;
  if (age < 86400) return `${Math.floor(age / 3600)} h ago`;
  return new Date(seconds * 1000).toISOString().slice(0, 10);
}

const KINDS = {ok: 'good', complete: 'good', done: 'good', infeasible: 'bad', broken: 'bad', failed: 'bad', running: 'live',
  queued: 'live'};

function statusMark(status, title) {
  return make('span', {class: 'status ' + (KINDS[status] || 'odd'), title: title || null}, status);
}

/** A bar that is `share` full (null: not known). */
function meter(share, more = '') {
  const inner = make('span');
  if (share !== null && share !== undefined) inner.style.width = `${Math.min(100, 100 * share)}%`;
  return make('div', {class: `meter ${more} ${share === null || share === undefined ? 'unknown' : ''}`}, inner);
}
