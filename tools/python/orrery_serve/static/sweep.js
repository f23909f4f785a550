// A study that is to be run: which points, by which driver, with which changes; whether that is right, and off it goes.
'use strict';

const by = (id) => document.getElementById(id);
let study = null, asked = 0, timer = 0;

function trouble(error) {
  by('trouble').hidden = !error;
  by('trouble').textContent = error ? error.message : '';
}

/** What the page asks for, as the server takes it. */
function order() {
  const mode = by('mode').value, set = by('set').value.split('\n').map((line) => line.trim()).filter(Boolean);
  if (mode === 'search') {
    if (by('budget').value && Number(by('budget').value) !== study.budget) set.unshift('search.budget=' + by('budget').value);
    if (by('driver').value !== study.driver) set.unshift('search.driver.policy=' + by('driver').value);
  }
  return {from: facts.start, mode, set, jobs: Number(by('jobs').value) || 1};
}

function showFaults(faults) {
  by('faults').replaceChildren(...faults.map(({message}) => make('li', {}, message)));
  by('go').disabled = faults.length > 0;
}

function drawMode() {
  by('searching').hidden = by('mode').value !== 'search';
  const chosen = study.drivers.find(({name}) => name === by('driver').value);
  by('about').textContent = chosen ? chosen.doc : '';
}

async function check() {
  const mine = ++asked;
  by('points').textContent = 'Counting …';
  try {
    const {faults, points} = await tell('count', order());
    if (mine !== asked) return;
    showFaults(faults);
    by('points').textContent = points;
    trouble(null);
  } catch (error) {
    if (mine === asked) { by('points').textContent = ''; showFaults([{message: error.message}]); }
  }
}

function changed() {
  drawMode();
  clearTimeout(timer);
  timer = setTimeout(check, 300);
}

async function go() {
  by('go').disabled = true;
  clearTimeout(timer);
  asked++;
  try {
    const {faults, job} = await tell('studies', {...order(), name: by('name').value.trim()});
    if (job) location.assign(`/job/${job.id}?then=study`);
    else showFaults(faults);
  } catch (error) {
    showFaults([{message: error.message}]);
    by('go').disabled = false;
  }
}

async function begin() {
  study = await ask('asked?from=' + encodeURIComponent(facts.start));
  const known = study.drivers.some(({name}) => name === study.driver);
  by('heading').textContent = study.title;
  by('parameters').textContent = `Parameters: ${study.parameters.join(', ')}`;
  by('driver').replaceChildren(...study.drivers.map(({name}) => make('option', {value: name}, name)));
  study.driver = known ? study.driver : 'auto';
  by('driver').value = study.driver;
  by('mode').value = study.mode;
  by('budget').value = study.budget || '';
  by('name').value = study.name;
  for (const id of ['mode', 'driver', 'budget', 'jobs', 'set']) by(id).addEventListener('input', changed);
  by('name').addEventListener('input', () => { by('go').disabled = false; });
  by('go').addEventListener('click', go);
  by('sweep').hidden = false;
  changed();
}

begin().catch(trouble);
