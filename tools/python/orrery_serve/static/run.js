// The bar above a run's report: its files, and its timeline in Perfetto's viewer.
'use strict';

const drawer = document.getElementById('drawer');
const opener = document.getElementById('files');

const VIEWER = 'https://ui.perfetto.dev';

/** Opens the viewer and hands it the file once it answers; what is handed over stays in the browser. */
async function showInPerfetto(path, file, say) {
  const viewer = window.open(VIEWER, '_blank');
  if (!viewer) return say('the browser blocked the new window');
  say('waiting for ui.perfetto.dev …');
  const bytes = fetch(path).then((got) => got.arrayBuffer());
  const knock = setInterval(() => viewer.postMessage('PING', VIEWER), 100);
  const giveUp = setTimeout(() => end('ui.perfetto.dev does not answer: is there a network?'), 30000);
  function end(text) {
    clearInterval(knock);
    clearTimeout(giveUp);
    window.removeEventListener('message', answered);
    say(text);
  }
  async function answered(event) {
    if (event.source !== viewer || event.origin !== VIEWER || event.data !== 'PONG') return;
    end('');
    const buffer = await bytes;
    viewer.postMessage({perfetto: {buffer, title: facts.name, fileName: file, keepApiOpen: false}}, VIEWER, [buffer]);
  }
  window.addEventListener('message', answered);
}

async function toggleFiles() {
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
  const timeline = files.find((file) => file.name.endsWith('.pftrace'));
  if (!timeline) return [table];
  const told = make('span', {id: 'perfetto-told', role: 'status'});
  const show = () => showInPerfetto(address('files', facts.name + '/' + timeline.name), timeline.name, (text) => { told.textContent = text; });
  return [table, make('p', {}, make('button', {id: 'perfetto', type: 'button', onclick: show}, 'Open the timeline in Perfetto'), ' ', told),
    make('p', {}, 'The file stays in your browser. Without a network, download it; a copy of the viewer opens it with “Open trace file” (',
      make('a', {href: VIEWER, target: '_blank', rel: 'noopener noreferrer'}, 'ui.perfetto.dev'), ').')];
}

opener.addEventListener('click', toggleFiles);
