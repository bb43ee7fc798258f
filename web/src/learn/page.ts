/** Makes a lesson's page live: figures, numbers of their runs, guesses, and the reader's progress. */
import './learn.css';
import '../embed/element';
import './row_toy';
import './write_toy';
import { addCards } from './cards';
import { isTrue } from './conditions';
import { HeadCount } from './count';
import { askFirst } from './predict';
import { markRead } from '../page/lessons';
import { countWords, readGuesses } from './verdict';
import { headScores, valueOf, type Run } from './values';

const all = <E extends HTMLElement>(selector: string) => [
  ...document.querySelectorAll<E>(selector),
];

const { lesson = '' } = document.body.dataset;
const end = document.querySelector('.next-lesson');

const score = Object.assign(document.createElement('p'), { className: 'predict-count' });
score.setAttribute('role', 'status');
end?.before(score);
const count = () => (score.textContent = countWords(readGuesses(), lesson));
all('.predict').forEach((section, i) => askFirst(section, lesson, i, count));
count();

addCards(all<HTMLAnchorElement>('a.term'));

const counts = new Map<string, HeadCount>();
for (const place of all('.head-count')) counts.set(place.dataset.figure!, new HeadCount(place));

addEventListener('run', (event) => {
  const { detail, target } = event as CustomEvent<Run>;
  const { id } = target as Element;
  const [first] = detail.results;
  for (const place of all<HTMLOutputElement>(`output[data-figure="${CSS.escape(id)}"]`))
    place.value = valueOf(place.dataset.value!, detail.results);
  for (const place of all(`.when[data-figure="${CSS.escape(id)}"]`))
    place.hidden = !isTrue(place.dataset.if!, (name) => valueOf(name, detail.results));
  if (first) counts.get(id)?.setScores(headScores(first), first.eps);
});
addEventListener('select', (event) => {
  const { detail, target } = event as CustomEvent<{ layer: number; head: number }>;
  if (detail) counts.get((target as Element).id)?.open(detail);
});

// Opens the answers before printing.
addEventListener('beforeprint', () => {
  for (const answer of all<HTMLDetailsElement>('.predict details')) answer.open = true;
});

if (lesson && end) {
  const watcher = new IntersectionObserver(([entry]) => {
    if (!entry!.isIntersecting) return;
    markRead(lesson);
    watcher.disconnect();
  });
  watcher.observe(end);
}
