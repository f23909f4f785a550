// The bar above a run's report: its files.
'use strict';

const drawer = document.getElementById('drawer');
const opener = document.getElementById('files');

async function open() {
  drawer.hidden = !drawer.hidden;
  opener.setAttribute('aria-expanded', String(!drawer.hidden));
  if (drawer.hidden || drawer.childElementCount) return;
  try {
    drawer.append(...listed(await ask('files?path=' + encodeURIComponent(facts.name))));
  } catch (error) {
    drawer.append(make('p', {}, error.message));
  }
}

function listed({files, texts, most}) {
  const rows = files.map((file) => {
    const path = address('files', facts.name + '/' + file.name);
    const readable = texts.some((end) => file.name.endsWith(end)) && file.bytes <= most;
    return make('tr', {}, make('td', {class: 'text'}, make('a', {href: path, download: true}, file.name)),
      make('td', {class: 'n'}, quantityText(file.bytes, 'B')),
      make('td', {}, readable ? make('a', {href: path + '?view', target: '_blank', rel: 'noopener'}, 'show') : ''));
  });
  const table = make('table', {}, make('tbody', {}, rows));
  const timeline = files.some((file) => file.name.endsWith('.pftrace'));
  const hint = make('p', {}, 'The timeline opens in Perfetto: download timeline.pftrace, then open it at ',
    make('a', {href: 'https://ui.perfetto.dev', target: '_blank', rel: 'noopener noreferrer'}, 'ui.perfetto.dev'),
    ' (“Open trace file”); the file stays in your browser.');
  return timeline ? [table, hint] : [table];
}

opener.addEventListener('click', open);
