// A table of rows that are filtered, sorted and drawn piece by piece, so that thousands of them stay quick.
'use strict';

const PIECE = 150;
const COLLATOR = new Intl.Collator('en', {numeric: true});

/** `x` before `y` by a column; what is not there comes last, whichever way. */
function compareRows(column, down) {
  return (x, y) => {
    const a = x[column], b = y[column];
    const none = (v) => v === null || v === undefined || v === '';
    if (none(a) || none(b)) return none(a) - none(b) || (x.path < y.path ? -1 : 1);
    const order = typeof a === 'number' && typeof b === 'number' ? a - b : COLLATOR.compare(String(a), String(b));
    return (down ? -order : order) || (x.path < y.path ? -1 : 1);
  };
}

/** A test of rows from what was typed: words that must all occur, and bounds such as `ttft<0.5`. */
function filterOf(text, names) {
  const tests = text.trim().toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const bound = /^([a-z_]+)(<=|>=|<|>)(-?[\d.]+(?:e-?\d+)?)$/.exec(word);
    if (bound && names[bound[1]]) {
      const [, name, sign, value] = bound, limit = Number(value), column = names[name];
      return (row) => {
        const it = row[column];
        if (typeof it !== 'number') return false;
        return sign === '<' ? it < limit : sign === '>' ? it > limit : sign === '<=' ? it <= limit : it >= limit;
      };
    }
    return (row) => row.words.includes(word);
  });
  return (row) => tests.every((test) => test(row));
}

class Table {
  /** `columns`: {key, label, kind, unit}; `cells(row)` makes the cells of a row. */
  constructor(place, columns, cells, order) {
    this.columns = columns;
    this.cells = cells;
    this.order = order;
    this.rows = [];
    this.shown = 0;
    this.head = make('tr', {}, columns.map((column) => make('th', {
      scope: 'col', class: column.kind || null, 'data-sort': column.key || null, title: column.title || null,
      tabindex: column.key ? '0' : null, onclick: () => this.sort(column),
      onkeydown: (event) => { if (event.key === 'Enter') this.sort(column); },
    }, column.label || '')));
    this.body = make('tbody');
    this.foot = make('div');
    this.table = make('table', {}, make('thead', {}, this.head), this.body);
    place.replaceChildren(this.table, this.foot);
    const near = (seen) => { if (seen.some((one) => one.isIntersecting)) this.more(); };
    new IntersectionObserver(near, {root: place, rootMargin: '600px'}).observe(this.foot);
  }

  sort(column) {
    if (!column.key) return;
    const down = this.order.key === column.key ? !this.order.down : Boolean(column.unit !== undefined && column.down);
    this.order = {key: column.key, down};
    this.draw(this.rows);
    if (this.sorted) this.sorted();
  }

  /** Shows these rows, in the order that was chosen; as many as were seen before. */
  draw(rows, keep = 0) {
    this.rows = rows.slice().sort(compareRows(this.order.key, this.order.down));
    for (const th of this.head.children) {
      th.removeAttribute('aria-sort');
      if (th.dataset.sort === this.order.key) th.setAttribute('aria-sort', this.order.down ? 'descending' : 'ascending');
    }
    this.shown = 0;
    this.body.replaceChildren();
    do this.more(); while (this.shown < keep && this.shown < this.rows.length);
  }

  more() {
    const next = this.rows.slice(this.shown, this.shown + PIECE);
    this.shown += next.length;
    this.body.append(...next.map((row) => make('tr', {'data-path': row.path}, this.cells(row))));
  }
}
