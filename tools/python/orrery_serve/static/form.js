// A what-if run: where it begins, what is changed, whether that is right, and off it goes.
'use strict';

// What people change most; `*` is each item of a list. Systems that are not here show what their config holds at the top.
const SERVING = ['machine/devices/*/part', 'machine/devices/*/count', 'model/config', 'model/dtype', 'workload/rate_scale', 'workload/limit',
  'policies/batching', 'policies/routing', 'policies/kvcache', 'cluster/replicas/*/count', 'cluster/replicas/*/tensor_parallel', 'replica/tensor_parallel',
  'slo/ttft', 'slo/tbt', 'run/seed'];
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
  const place = by('starts');
  const list = () => {
    const words = by('pick').value.toLowerCase().split(/\s+/);
    place.replaceChildren(...starts.filter((s) => words.every((w) => `${s.from} ${s.title} ${s.system} ${s.kind}`.toLowerCase().includes(w))).map((s) =>
      make('li', {}, make('a', {href: '/new?from=' + encodeURIComponent(s.from)}, s.from.replace(/^\w+:/, '')), ' ',
        make('span', {class: 'muted'}, [s.kind === 'study' ? 'first point of a study' : s.system, s.from.startsWith('shipped:') ? 'ships' : ''].filter(Boolean).join(', ')), make('small', {}, s.title))));
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
  if (paths) return paths.flatMap((path) => expand(path.split('/'))).filter((keys) => model.schemaOf(keys) && model.get(keys.slice(0, -1)));
  return [...flatten(model.config).values()].map(({keys}) => keys.map((key) => (/^\d+$/.test(key) ? Number(key) : key)))
    .filter((keys) => !HIDDEN.includes(keys[0]) && keys.length < 4 && model.schemaOf(keys)).slice(0, 16);
}

function labelOf(keys) {
  return keys.filter((key) => key !== 'policies').map(String).join(' › ');
}

function drawUsual() {
  by('usual').replaceChildren(make('h2', {}, 'Most asked for'), ...usual().map((keys) => {
    const schema = model.schemaOf(keys);
    return schema.properties ? anyField(model, keys, schema, labelOf(keys)) : plainField(model, keys, schema, labelOf(keys));
  }));
}

function drawAll() {
  by('all').replaceChildren(make('h2', {}, 'Everything'), ...Object.entries(model.schema.properties)
    .filter(([key]) => !HIDDEN.includes(key)).map(([key, schema]) => anyField(model, [key], schema)));
}

/** Fields by words of their path and description. */
function find() {
  const words = by('find').value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  by('usual').hidden = by('all').hidden = words.length > 0;
  if (!words.length) { by('found').replaceChildren(); return; }
  const scored = [];
  for (const {keys, schema} of model.fields()) {
    if (schema.properties || HIDDEN.includes(keys[0]) || (schema.items && schema.items.properties)) continue;
    const path = pointerOf(keys).toLowerCase(), text = path + ' ' + (schema.description || '').toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    const idle = keys.some((key, i) => { const policy = i && model.get([...keys.slice(0, i), 'policy']); return policy && key !== 'policy' && key !== policy && model.schemaOf(keys.slice(0, i + 1)).properties; });
    scored.push({keys, schema, idle, score: (words.every((w) => String(keys.at(-1)).includes(w)) ? 0 : words.every((w) => path.includes(w)) ? 1 : 2) + (idle ? 3 : 0)});
  }
  scored.sort((a, b) => a.score - b.score);
  by('found').replaceChildren(...scored.slice(0, MOST_FOUND).map(({keys, schema, idle}) => {
    const field = plainField(model, keys, schema, labelOf(keys));
    if (idle) field.querySelector('.hint').append(' Counts only where this policy is chosen.');
    return field;
  }), make('p', {class: 'muted'}, scored.length > MOST_FOUND ? `${scored.length - MOST_FOUND} more: another word helps` : scored.length ? '' : 'No such field.'));
}

function drawChanges() {
  const before = flatten(model.first), after = flatten(model.config), rows = [];
  for (const pointer of new Set([...before.keys(), ...after.keys()])) {
    const was = before.get(pointer), is = after.get(pointer);
    if (same(was && was.value, is && is.value)) continue;
    rows.push(make('li', {'data-changed': pointer}, make('code', {}, pointer), make('del', {}, was ? shortText(was.value) : 'default'), ' → ', make('b', {}, is ? shortText(is.value) : 'default')));
  }
  by('changes').replaceChildren(...(rows.length ? rows : [make('li', {class: 'muted'}, 'None yet.')]));
}

/** Each fault beside its field, or beside the field that it is in; all of them in the list. */
function showFaults(faults) {
  for (const field of document.querySelectorAll('.field.faulty')) { field.classList.remove('faulty'); field.querySelector('.fault').textContent = ''; }
  for (const {pointer, message} of faults) {
    for (const field of document.querySelectorAll('.field')) {
      const own = field.dataset.pointer;
      if (pointer !== own && !(pointer.startsWith(own + '/'))) continue;
      field.classList.add('faulty');
      field.querySelector('.fault').textContent = message;
    }
  }
  by('faults').replaceChildren(...faults.map(({pointer, message}) => make('li', {onclick: () => { if (pointer) { by('find').value = pointer; find(); showFaults(faults); } }}, pointer ? make('b', {}, pointer) : '', ' ', message)));
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
