// A what-if run: where it begins, what is changed, whether that is right, and off it goes.
'use strict';

// What people change most; `*` is each item of a list. Of other systems, what their config holds at the top.
const SERVING = ['machine/devices/*/part', 'machine/devices/*/count', 'model/config', 'model/dtype', 'workload/rate_scale',
  'workload/limit', 'policies/batching', 'policies/routing', 'policies/kvcache', 'cluster/replicas/*/count',
  'cluster/replicas/*/tensor_parallel', 'replica/tensor_parallel', 'slo/ttft', 'slo/tbt', 'run/seed'];
const USUAL = {serving: SERVING, capacity: SERVING, slo_sweep: SERVING, plans: SERVING,
  graph: ['machine/devices/*/part', 'machine/devices/*/count', 'model/config', 'model/builder', 'run/seed'],
  rl: ['env', 'learner', 'train/steps', 'train/envs', 'run/seed', 'run/seeds']};
const HIDDEN = ['$schema', 'kind', 'version', 'base', 'system'];
const MOST_FOUND = 40;

const by = (id) => document.getElementById(id);
let model = null, base = '', asked = 0, timer = 0;

function trouble(error) {
  by('trouble').hidden = !error;
  by('trouble').textContent = error ? error.message : '';
}

async function begin() {
  by('begin').hidden = false;
  const {starts} = await ask('starts');
  const entry = (start) => {
    const notes = [start.kind === 'study' ? 'first point of a study' : start.system];
    if (start.from.startsWith('shipped:')) notes.push('ships');
    const link = make('a', {href: '/new?from=' + encodeURIComponent(start.from)}, start.from.replace(/^\w+:/, ''));
    const all = start.kind === 'study' ? [' ', make('a', {class: 'all', href: '/sweep?from=' + encodeURIComponent(start.from)}, 'run the study …')] : [];
    return make('li', {}, link, ' ', make('span', {class: 'muted'}, notes.join(', ')), ...all, make('small', {}, start.title));
  };
  const list = () => {
    const words = by('pick').value.toLowerCase().split(/\s+/);
    const found = starts.filter((start) => {
      const text = `${start.from} ${start.title} ${start.system} ${start.kind}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    by('starts').replaceChildren(...found.map(entry));
  };
  by('pick').addEventListener('input', list);
  list();
}

/** Keys of the usual fields that this config has or may have. */
function usual() {
  const expand = (parts, keys = []) => {
    if (!parts.length) return [keys];
    const [part, ...rest] = parts;
    if (part !== '*') return expand(rest, [...keys, part]);
    return Object.keys(model.get(keys) || []).flatMap((i) => expand(rest, [...keys, Number(i)]));
  };
  const paths = USUAL[model.config.system];
  const isThere = (keys) => model.schemaOf(keys) && model.get(keys.slice(0, -1));
  if (paths) return paths.flatMap((path) => expand(path.split('/'))).filter(isThere);
  return [...flatten(model.config).values()].map(({keys}) => keys.map((key) => (/^\d+$/.test(key) ? Number(key) : key)))
    .filter((keys) => !HIDDEN.includes(keys[0]) && keys.length < 4 && model.schemaOf(keys)).slice(0, 16);
}

function labelOf(keys) {
  return keys.filter((key) => key !== 'policies').map(String).join(' › ');
}

function drawUsual() {
  by('usual').replaceChildren(make('h2', {}, 'Most used'), ...usual().map((keys) => {
    const schema = model.schemaOf(keys);
    return (schema.properties ? anyField : plainField)(model, keys, schema, labelOf(keys));
  }));
}

function drawAll() {
  by('all').replaceChildren(make('h2', {}, 'Everything'), ...Object.entries(model.schema.properties)
    .filter(([key]) => !HIDDEN.includes(key)).map(([key, schema]) => anyField(model, [key], schema)));
}

/** Whether a field is a parameter of a policy that is not chosen. */
function isIdle(keys) {
  return keys.some((key, i) => {
    const chosen = i > 0 && model.get([...keys.slice(0, i), 'policy']);
    return chosen && key !== 'policy' && key !== chosen && model.schemaOf(keys.slice(0, i + 1)).properties;
  });
}

/** How well words fit a field: 0 its own name, 1 its path, 2 its description; later if it counts for nothing now. */
function scoreOf(words, keys, schema) {
  const path = pointerOf(keys).toLowerCase(), text = path + ' ' + (schema.description || '').toLowerCase();
  if (!words.every((word) => text.includes(word))) return null;
  const fits = (where) => words.every((word) => where.includes(word));
  return (fits(String(keys.at(-1))) ? 0 : fits(path) ? 1 : 2) + (isIdle(keys) ? 3 : 0);
}

/** Fields by words of their path and description. */
function find() {
  const words = by('find').value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  by('usual').hidden = by('all').hidden = words.length > 0;
  const found = [];
  for (const {keys, schema} of words.length ? model.fields() : []) {
    if (schema.properties || HIDDEN.includes(keys[0]) || (schema.items && schema.items.properties)) continue;
    const score = scoreOf(words, keys, schema);
    if (score !== null) found.push({keys, schema, score});
  }
  found.sort((a, b) => a.score - b.score);
  const fields = found.slice(0, MOST_FOUND).map(({keys, schema}) => {
    const field = plainField(model, keys, schema, labelOf(keys));
    if (isIdle(keys)) field.querySelector('.hint').append(' Applies only if this policy is chosen.');
    return field;
  });
  const rest = found.length > MOST_FOUND ? `${found.length - MOST_FOUND} more: add a word to narrow the search` :
    words.length && !found.length ? 'No such field.' : '';
  by('found').replaceChildren(...fields, make('p', {class: 'muted'}, rest));
}

function drawChanges() {
  const before = flatten(model.first), after = flatten(model.config), rows = [];
  for (const pointer of new Set([...before.keys(), ...after.keys()])) {
    const was = before.get(pointer), is = after.get(pointer);
    if (same(was && was.value, is && is.value)) continue;
    rows.push(make('li', {'data-changed': pointer}, make('code', {}, pointer),
      make('del', {}, was ? shortText(was.value) : 'default'), ' → ', make('b', {}, is ? shortText(is.value) : 'default')));
  }
  by('changes').replaceChildren(...(rows.length ? rows : [make('li', {class: 'muted'}, 'None yet.')]));
}

/** Each fault beside its field, or beside the field that it is in; all of them in the list. */
function showFaults(faults) {
  for (const field of document.querySelectorAll('.field')) {
    const own = field.dataset.pointer;
    const its = faults.filter(({pointer}) => pointer === own || pointer.startsWith(own + '/'));
    field.classList.toggle('faulty', its.length > 0);
    field.querySelector('.fault').textContent = its.map(({message}) => message).join('\n');
  }
  const show = (pointer) => { by('find').value = pointer; find(); showFaults(faults); };
  by('faults').replaceChildren(...faults.map(({pointer, message}) => make('li', {},
    pointer ? make('button', {type: 'button', class: 'link', onclick: () => show(pointer)}, pointer) : '', ' ', message)));
  by('go').disabled = faults.length > 0;
}

function changed() {
  drawChanges();
  clearTimeout(timer);
  timer = setTimeout(check, 300);
}

async function check() {
  const mine = ++asked;
  try {
    const {faults} = await tell('validate', {config: model.config});
    if (mine === asked) { showFaults(faults); trouble(null); }
  } catch (error) {
    trouble(error);
    if (mine === asked) timer = setTimeout(check, 3000);
  }
}

async function go() {
  by('go').disabled = true;
  clearTimeout(timer);
  asked++;
  try {
    const {faults, job} = await tell('jobs', {name: by('name').value.trim(), config: model.config, base});
    if (job) location.assign(`/job/${job.id}?then=compare`);
    else showFaults(faults);
  } catch (error) {
    showFaults([{pointer: '', message: error.message}]);
    by('go').disabled = false;
  }
}

async function edit(start) {
  const {config, name} = await ask('config?from=' + encodeURIComponent(start));
  const schema = await ask('schema?system=' + encodeURIComponent(config.system));
  model = new Model(schema, config);
  base = start.startsWith('run:') ? start.slice(4) : '';
  by('form').hidden = false;
  by('heading').textContent = 'What if, from ' + start.replace(/^\w+:/, '');
  by('name').value = name;
  model.changed = changed;
  drawUsual();
  drawAll();
  drawChanges();
  by('find').addEventListener('input', find);
  by('go').addEventListener('click', go);
  by('name').addEventListener('input', () => { by('go').disabled = false; });
  check();
}

(facts.start ? edit(facts.start) : begin()).catch(trouble);
