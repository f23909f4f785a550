// A form made from a JSON Schema, over a config that it changes.
// Every field knows its JSON pointer; the same field may stand in several places, which are kept alike.
'use strict';

function pointerOf(keys) {
  return keys.map((key) => '/' + String(key).replace(/~/g, '~0').replace(/\//g, '~1')).join('');
}

function flatten(value, keys = [], into = new Map()) {
  if (value !== null && typeof value === 'object' && Object.keys(value).length) {
    for (const [key, member] of Object.entries(value)) flatten(member, [...keys, key], into);
  } else if (keys.length) {
    into.set(pointerOf(keys), {keys, value});
  }
  return into;
}

const NONE = 'none (null)';
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const typesOf = (schema) => [].concat(schema.type || []);
const mayBeNull = (schema) => typesOf(schema).includes('null') || (schema.enum || []).includes(null);

/** The config under change, what it was at first, and who wants to know. */
class Model {
  constructor(schema, config) {
    this.schema = schema;
    this.config = config;
    this.first = structuredClone(config);
    this.views = [];
    this.changed = () => {};
  }

  get(keys, from = this.config) {
    return keys.reduce((value, key) => (value === null || value === undefined ? undefined : value[key]), from);
  }

  /** Sets a member; undefined takes it away, so that its default holds. Objects on the way are made. */
  set(keys, value, origin = null) {
    let holder = this.config;
    keys.slice(0, -1).forEach((key, i) => {
      if (holder[key] === null || typeof holder[key] !== 'object') holder[key] = /^\d+$/.test(keys[i + 1]) ? [] : {};
      holder = holder[key];
    });
    const last = keys.at(-1);
    if (value !== undefined) holder[last] = value;
    else if (Array.isArray(holder)) holder.splice(Number(last), 1);
    else delete holder[last];
    const pointer = pointerOf(keys);
    this.views = this.views.filter((view) => view.element.isConnected);
    for (const view of this.views) if (view.pointer === pointer && view.element !== origin) view.refresh();
    this.changed();
  }

  watch(keys, element, refresh) {
    this.views.push({pointer: pointerOf(keys), element, refresh});
  }

  /** Every field with its keys and schema: of lists the items that there are, of policies all. */
  * fields(schema = this.schema, keys = []) {
    for (const [key, member] of Object.entries(schema.properties || {})) {
      const way = [...keys, key];
      yield {keys: way, schema: member};
      yield* this.fields(member, way);
      if (member.items && member.items.properties)
        for (const i of (this.get(way) || []).keys()) yield* this.fields(member.items, [...way, i]);
    }
  }

  schemaOf(keys) {
    let schema = this.schema;
    for (const key of keys) schema = schema && (schema.properties ? schema.properties[key] : schema.items);
    return schema;
  }
}

/** What a text means where this schema is asked for; undefined: the default. */
function parsed(text, schema) {
  if (text === '') return mayBeNull(schema) ? null : undefined;
  const types = typesOf(schema);
  const isNumber = text.trim() !== '' && Number.isFinite(Number(text));
  return isNumber && (types.includes('integer') || types.includes('number')) ? Number(text) : text;
}

function textOf(value) {
  return value === undefined || value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** Bounds and default in words. */
function rangeOf(schema) {
  const told = [];
  const low = shortText(schema.minimum), high = shortText(schema.maximum);
  if (schema.minimum !== undefined && schema.maximum !== undefined) told.push(`${low} to ${high}`);
  else if (schema.minimum !== undefined) told.push(`at least ${low}`);
  else if (schema.maximum !== undefined) told.push(`at most ${high}`);
  if (schema.exclusiveMinimum !== undefined) told.push(`above ${shortText(schema.exclusiveMinimum)}`);
  if (schema.default !== undefined && schema.default !== null) told.push(`default ${textOf(schema.default)}`);
  return told.join('; ');
}

function hintOf(schema, value) {
  let text = schema.description || '';
  if (schema.enum && text.includes('\n')) {  // a line a policy: the chosen one's
    const line = text.split('\n').find((one) => one.startsWith(`${value}: `));
    text = line ? line.slice(String(value).length + 2) : text.split('\n')[0];
  }
  const range = rangeOf(schema);
  return range ? `${text} (${range})` : text;
}

/** A choice of some values; what is not among them, but stands in the config, is one more. */
function selectOf(id, value, schema, choices, update) {
  const option = (key, text) => make('option', {value: key}, text);
  const select = make('select', {id}, choices.map((one) => option(JSON.stringify(one), one === null ? NONE : String(one))));
  if (value === undefined)
    select.prepend(option('undefined', schema.default !== undefined ? `${schema.default} (default)` : '–'));
  else if (!choices.some((choice) => same(choice, value))) select.append(option(JSON.stringify(value), textOf(value)));
  select.value = JSON.stringify(value) || 'undefined';
  select.addEventListener('change', () => update(select.value === 'undefined' ? undefined : JSON.parse(select.value)));
  return select;
}

/** A place for JSON, for what has no control of its own. */
function jsonOf(id, value, update) {
  const area = make('textarea', {id, rows: '3', spellcheck: 'false'});
  area.value = value === undefined ? '' : JSON.stringify(value, null, 1);
  area.addEventListener('change', () => {
    try { update(area.value.trim() === '' ? undefined : JSON.parse(area.value)); } catch { update(area.value); }
  });
  return area;
}

/** The control of a plain value, as elements of which the first is the control. */
function control(model, keys, schema, update) {
  const value = model.get(keys), id = 'f' + Math.random().toString(36).slice(2), types = typesOf(schema);
  const choices = schema.enum || (types.includes('boolean') ? [true, false] : null);
  if (choices) return [selectOf(id, value, schema, choices, update)];
  const plain = schema.anyOf || types.some((type) => ['integer', 'number', 'string'].includes(type));
  if (!plain || (value !== null && typeof value === 'object')) return [jsonOf(id, value, update)];
  const known = (schema.anyOf || []).flatMap((one) => one.enum || []);
  const unset = value === undefined && schema.default !== undefined ? textOf(schema.default) : mayBeNull(schema) ? NONE : '';
  const input = make('input', {id, type: 'text', autocomplete: 'off', spellcheck: 'false', placeholder: unset,
    list: known.length ? id + 'l' : null});
  input.value = textOf(value);
  input.addEventListener('input', () => update(parsed(input.value, schema)));
  if (!known.length) return [input];
  return [input, make('datalist', {id: id + 'l'}, known.map((name) => make('option', {value: name})))];
}

/** A line of the form: label, control, hint, place for a fault. */
function plainField(model, keys, schema, label) {
  const element = make('div', {class: 'field', 'data-pointer': pointerOf(keys)});
  const isChanged = () => !same(model.get(keys, model.first), model.get(keys));
  function refresh() {
    const first = model.get(keys, model.first);
    const inner = control(model, keys, schema, (fresh) => { model.set(keys, fresh, element); mark(); });
    const back = make('button', {type: 'button', class: 'small back', title: `back to ${textOf(first) || 'what it was'}`,
      onclick: () => model.set(keys, structuredClone(first))}, 'undo');
    element.replaceChildren(make('label', {for: inner[0].id}, label || String(keys.at(-1))),
      make('div', {}, make('div', {class: 'entry'}, ...inner, back), make('div', {class: 'hint'}), make('div', {class: 'fault'})));
    mark();
  }
  function mark() {
    element.classList.toggle('changed', isChanged());
    element.querySelector('.back').hidden = !isChanged();
    element.querySelector('.hint').textContent = hintOf(schema, model.get(keys));
  }
  model.watch(keys, element, refresh);
  refresh();
  return element;
}

/** Fields of some members of an object. */
function members(model, keys, properties, wanted = () => true) {
  return Object.entries(properties || {}).filter(([key, one]) => wanted(key, one))
    .map(([key, one]) => anyField(model, [...keys, key], one));
}

/** A policy: which one, and the parameters of that one. */
function policyFields(model, keys, schema, label) {
  const element = make('div', {});
  function refresh() {
    const chosen = model.get([...keys, 'policy']) || schema.properties.policy.default;
    const block = chosen && schema.properties[chosen];
    const choice = plainField(model, [...keys, 'policy'], schema.properties.policy, label || String(keys.at(-1)));
    const fields = block ? members(model, [...keys, chosen], block.properties) : [];
    const others = members(model, keys, schema.properties, (key, one) => key !== 'policy' && !one.properties);
    const count = `${fields.length} parameter${fields.length === 1 ? '' : 's'}`;
    const inner = make('details', {class: 'group'}, make('summary', {}, String(chosen), make('small', {}, count)),
      make('div', {class: 'inner'}, fields));
    element.replaceChildren(choice, ...others, ...(fields.length ? [inner] : []));
    model.watch([...keys, 'policy'], choice, () => setTimeout(refresh));
  }
  // The choice changes what stands below it.
  element.addEventListener('change', (event) => {
    if (event.target.closest('.field') === element.firstChild) setTimeout(refresh);
  });
  model.watch(keys, element, refresh);
  refresh();
  return element;
}

/** A section that is made when it is opened. */
function group(model, keys, schema, label) {
  const element = make('details', {class: 'group'}), inner = make('div', {class: 'inner'});
  const state = make('small', {class: 'state'});
  const isAbsent = () => model.get(keys) === null || (model.get(keys) === undefined && mayBeNull(schema));
  function refresh() {
    const absent = isAbsent();
    const toggle = make('button', {type: 'button', onclick: () => model.set(keys, absent ? {} : null)},
      absent ? 'Add this section' : 'Leave this section out');
    inner.replaceChildren(mayBeNull(schema) ? toggle : '', ...(absent ? [] : members(model, keys, schema.properties)));
    state.textContent = absent ? NONE : '';
  }
  state.textContent = isAbsent() ? NONE : '';
  const doc = make('small', {}, schema.description || '');
  element.append(make('summary', {}, label || String(keys.at(-1)), doc, state), inner);
  element.addEventListener('toggle', () => { if (element.open && !inner.childElementCount) refresh(); });
  model.watch(keys, element, () => { if (inner.childElementCount) refresh(); });
  return element;
}

/** A list of objects. */
function listField(model, keys, schema) {
  const element = make('details', {class: 'group'}), inner = make('div', {class: 'inner'}), count = make('small', {});
  function item(i) {
    const drop = () => model.set(keys, model.get(keys).filter((_, j) => j !== i));
    return make('div', {class: 'item'}, make('div', {class: 'head'}, `${keys.at(-1)} ${i}`,
      make('button', {type: 'button', class: 'small', onclick: drop}, 'remove')),
    members(model, [...keys, i], schema.items.properties));
  }
  function refresh() {
    const items = model.get(keys) || [];
    const add = () => model.set(keys, [...items, structuredClone(items.at(-1) || {})]);
    count.textContent = `${items.length}: ${schema.items.description || schema.description || ''}`;
    inner.replaceChildren(...items.map((_, i) => item(i)), make('button', {type: 'button', onclick: add}, 'Add one'));
  }
  element.append(make('summary', {}, String(keys.at(-1)), count), inner);
  model.watch(keys, element, refresh);
  refresh();
  return element;
}

/** Whatever this schema asks for. */
function anyField(model, keys, schema, label) {
  const inside = schema.properties || {}, isPolicy = inside.policy && inside.policy.enum;
  if (isPolicy && model.get(keys) !== null) return policyFields(model, keys, schema, label);
  if (Object.keys(inside).length) return group(model, keys, schema, label);
  if (schema.items && schema.items.properties) return listField(model, keys, schema);
  return plainField(model, keys, schema, label);
}
