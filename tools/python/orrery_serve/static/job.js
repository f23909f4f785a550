// A run or a study that was started from the browser: how far it is, a way to stop it, where it went.
'use strict';

const place = document.getElementById('job');

function compareOf(job) {
  return `/compare?run=${encodeURIComponent(job.base)}&run=${encodeURIComponent(job.out)}`;
}

const isRun = (job) => job.kind === 'run';

function links(job) {
  if (!isRun(job)) return make('div', {class: 'row'}, make('a', {class: 'button main', href: address('study', job.out)}, 'Open the study'));
  const compare = job.base ? compareOf(job) : null;
  return make('div', {class: 'row'},
    compare ? make('a', {class: 'button main', href: compare}, 'Compare with ' + job.base) : null,
    make('a', {class: 'button', href: address('run', job.out)}, 'Open the run'),
    make('a', {class: 'button', href: '/new?from=' + encodeURIComponent('run:' + job.out)}, 'What if …'));
}

function draw(job) {
  const state = job.state === 'done' && job.status !== 'ok' ? job.status : job.state, waits = job.state === 'queued';
  const waiting = job.state === 'queued' || job.state === 'running';
  place.replaceChildren(
    make('div', {class: 'row'}, make('h1', {}, job.name), statusMark(state)),
    make('p', {class: 'muted'}, waits ? 'Waits for its turn.' : `${job.out} · ${figures(job.seconds)} s`),
    waiting ? meter(job.state === 'queued' ? 0 : job.share) : '',
    job.text && waiting ? make('p', {id: 'progress'}, `${job.text}${job.left ? `, ${job.left} left` : ''}`) : '',
    job.lines.length ? make('pre', {class: 'told'}, job.lines.join('\n')) : '',
    waiting ? make('button', {id: 'cancel', onclick: cancel}, isRun(job) ? 'Cancel' : 'Stop') : job.state === 'done' ? links(job) :
      make('a', {class: 'button', href: '/'}, 'All runs'));
}

async function cancel() {
  draw(await tell('cancel', {id: facts.id}));
}

let told = '';
keepLooking(async () => {
  const job = await ask('jobs?id=' + facts.id);
  const text = JSON.stringify({...job, seconds: Math.floor(job.seconds)});
  if (text !== told) draw(job);
  told = text;
  // Begun from the form: on to what came out, beside what it began from.
  // A study is looked at while it is written.
  const then = new URLSearchParams(location.search).has('then');
  if (then && isRun(job) && job.state === 'done')
    location.replace(job.base && job.status === 'ok' ? compareOf(job) : address('run', job.out));
  if (then && !isRun(job) && (job.there || job.state === 'done')) location.replace(address('study', job.out));
  return job.state === 'queued' || job.state === 'running' ? 300 : 0;
}, 1000);
